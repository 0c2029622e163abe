"""Export of a checkpoint to a folder in ONNX form, kept only where both give the same vectors. Needs torch and onnx."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evenreel.encoders import loading
from evenreel.encoders.checkpoint import (
    ENDINGS,
    FAMILIES,
    PICTURES,
    RECORD,
    TEXT,
    TOKENIZER,
    TOKENIZER_SETTINGS,
    Checkpoint,
    ExportRecord,
    has_onnx,
    onnx_graph,
    onnx_names,
    open_checkpoint,
    open_onnx,
    read_settings,
)
from evenreel.encoders.encoder import OnnxEncoder, of_model, quiet
from evenreel.encoders.towers import TowerEncoder, Towers, load_towers, root_logger_left
from evenreel.errors import EncoderError, UsageError
from evenreel.extras import installed
from evenreel.files import replacing_folder

LOWEST_COSINE = 0.9999
LEAST_SHARED_BYTES = 256  # a smaller tensor stays in its graph
_KINDS = [name for name, family in FAMILIES.items() if family.trainable and name != "tipsv2"]
"""Kinds that can be exported; TIPSv2 interpolates positions in a way that ONNX has no operator for."""
_SIDES = ((61, 90), (200, 37), (224, 224))
_CAPTIONS = (
    "a red ball",
    "The DOG runs over the bridge!",
    "two people, at a table: what's on it?",
    "a ball " * 90,
    "x",
    "Ein Zug fährt über 3 Brücken.",
)


def export_onnx(name: str, out: Path, precision: str = "float32") -> ExportRecord:
    """Export both towers of a checkpoint, and compare vectors of pictures and captions of both ways.

    Where `out` is the checkpoint's own folder, the graphs take their weights from its safetensors file. Those of a
    lower `precision` are written beside those in float32.
    """
    if precision not in ENDINGS:
        raise UsageError(f"An export is in {', '.join(ENDINGS)}, not in {precision}.")
    if not installed("onnx"):
        raise EncoderError("An export needs onnx, which is not installed: pip install 'evenreel[torch]'.")
    _, folder = loading.locate(name)
    loading.read_first(folder, "cpu", "float32")
    checkpoint = open_checkpoint(folder)
    if checkpoint.kind not in _KINDS:
        raise EncoderError(
            f"The model in {folder} is of the kind {checkpoint.kind}; the kinds that can be exported are "
            f"{', '.join(_KINDS)}."
        )
    towers = load_towers(checkpoint, torch.device("cpu"), "float32")
    encoder = TowerEncoder(towers, name, checkpoint.digest())
    if out.resolve() == folder.resolve():
        return _export_beside(encoder, towers, precision)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already; name another folder for the export.")
    with replacing_folder(out) as part:
        (part / "onnx").mkdir()
        _write_settings(towers, part)
        _write_graphs(towers, part / "onnx")
        return _compared(encoder, part, precision)


def _export_beside(encoder: TowerEncoder, towers: Towers, precision: str) -> ExportRecord:
    """Write graphs beside the weights that they share, or nothing."""
    folder, weights = towers.checkpoint.folder, towers.checkpoint.weights
    if has_onnx(folder):
        raise UsageError(f"There are ONNX graphs in {folder} already; remove them, or export into another folder.")
    if len(weights) != 1 or not (folder / TOKENIZER).is_file():
        raise EncoderError(
            f"The model in {folder} has its weights in several files, or no {TOKENIZER}; export it into another folder."
        )
    # Beside the folder: of what a kill leaves in it, the next export would be a part.
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as made:
        part = Path(made)
        for path in folder.iterdir():
            if path.is_file() and path.name != RECORD:
                try:
                    (part / path.name).hardlink_to(path.resolve())
                except OSError:  # a file system without links
                    shutil.copy(path, part / path.name)
        _write_graphs(towers, part, fold=False)
        _share_weights([part / TEXT, part / PICTURES], weights[0])
        record = _compared(encoder, part, precision)
        for path in [*part.glob("*_model*.onnx"), part / RECORD]:
            path.replace(folder / path.name)
        return record


def _share_weights(graphs: list[Path], weights: Path) -> None:
    """Replace weights in ONNX files by references to equal ones in a safetensors file of the same folder.

    Both formats keep a tensor as its plain numbers one after the other, so a place in the file is all it takes: there,
    after 8 bytes of length and a header of JSON.
    """
    import onnx

    content = weights.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    spans = [entry.get("data_offsets", (0, 0)) for entry in json.loads(content[8:start]).values()]
    places = {content[start + first : start + last]: start + first for first, last in spans}
    for graph in graphs:
        model = onnx.load(str(graph))
        for tensor in model.graph.initializer:
            data = tensor.raw_data
            if len(data) >= LEAST_SHARED_BYTES and data in places:
                onnx.external_data_helper.set_external_data(tensor, weights.name, places[data], len(data))
                tensor.ClearField("raw_data")
        onnx.save(model, str(graph))


def _write_settings(towers: Towers, out: Path) -> None:
    """Write tokenizer and settings, with what their defaults are in transformers written out."""
    folder = towers.checkpoint.folder
    config = read_settings(folder / "config.json")
    longest = towers.longest_caption + towers.family.first_position
    config["text_config"] = {**(config.get("text_config") or {}), "max_position_embeddings": longest}
    if rules := getattr(towers.tokenizer, "backend_tokenizer", None):
        rules.save(str(out / TOKENIZER))
    elif (folder / TOKENIZER).is_file():
        shutil.copy(folder / TOKENIZER, out / TOKENIZER)
    else:
        raise EncoderError(f"The model in {folder} has no {TOKENIZER}, which an export needs; add its maker's.")
    padding = {"pad_token": towers.tokenizer.pad_token, "model_max_length": towers.longest_caption}
    for name, settings in (
        ("config.json", config),
        ("preprocessor_config.json", towers.checkpoint.settings),
        (TOKENIZER_SETTINGS, padding),
    ):
        (out / name).write_text(json.dumps(settings, indent=2))


def write_precision(folder: Path, precision: str) -> None:
    """Write both graphs of an export once more beside them: matrix products in int8, or all numbers in float16."""
    import onnx
    from onnxruntime.quantization import quantize_dynamic
    from onnxruntime.transformers.float16 import convert_float_to_float16

    for name in (TEXT, PICTURES):
        graph = onnx_graph(folder, name)
        assert graph is not None
        out = graph.with_name(onnx_names(name, precision)[-1])
        with root_logger_left():
            if precision == "int8":  # in 7 bits, as processors without VNNI add two products of 8 bits in 16
                quantize_dynamic(graph, out, op_types_to_quantize=["MatMul"], per_channel=True, reduce_range=True)
            else:
                onnx.save(convert_float_to_float16(onnx.load(str(graph)), keep_io_types=True), str(out))


class _Tower(nn.Module):
    """A tower as a module: what `run` makes of its inputs."""

    def __init__(self, towers: Towers, run: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self._run = towers.model, run

    def forward(self, *inputs: Tensor) -> Any:
        return self._run(*inputs)


def _write_graphs(towers: Towers, folder: Path, *, fold: bool = True) -> None:
    """Trace both towers; without `fold`, weights stay as the checkpoint has them."""
    tokens = towers.tokens(["a red ball", "a red ball rolls on and on"])  # the first has padding, for the mask's sake
    names = ["input_ids", *(["attention_mask"] if towers.masks_padding else [])]
    both = {0: "captions"} if towers.family.padded else {0: "captions", 1: "words"}
    axes = {**dict.fromkeys(names, both), "text_embeds": {0: "captions"}, "word_embeds": both}
    read = _Tower(towers, lambda ids, mask=None: towers.text_features(ids, mask)[::-1])  # sentences first
    pictures = {"pixel_values": torch.zeros(2, 3, *towers.preprocessing.output_size)}
    of_pictures = {"pixel_values": {0: "pictures"}, "image_embeds": {0: "pictures"}}
    see = _Tower(towers, lambda pixels: towers.prepared_features({"pixel_values": pixels}))
    with of_model(towers.checkpoint.folder, "cannot be exported"):
        _trace(read, folder / TEXT, {name: tokens[name] for name in names}, axes, fold=fold)
        _trace(see, folder / PICTURES, pictures, of_pictures, fold=fold)


def _trace(
    tower: nn.Module, path: Path, inputs: Mapping[str, Tensor], axes: Mapping[str, Mapping[int, str]], *, fold: bool
) -> None:
    """Write a tower as ONNX; `axes` names the axes of any length of all inputs and outputs."""
    with quiet():
        torch.onnx.export(
            tower.eval(),
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=[name for name in axes if name not in inputs],
            dynamic_axes=axes,
            opset_version=17,
            do_constant_folding=fold,
            dynamo=False,  # needs ten times as long, and more than `onnx`
        )


def _compared(encoder: TowerEncoder, folder: Path, precision: str) -> ExportRecord:
    """Compare vectors of pictures, captions and words of both ways, and write a record beside the graphs."""
    model = open_onnx(folder)
    digest, cosine = model.digest(), _lowest_cosine(encoder, model)
    if not cosine >= LOWEST_COSINE:
        raise EncoderError(
            f"Vectors of the export and of the checkpoint have a cosine of {cosine:.6f} at worst; it must be at least "
            f"{LOWEST_COSINE}, so the export was not kept."
        )
    record = ExportRecord(encoder.weights_hash, digest, cosine)
    if precision != "float32":
        write_precision(folder, precision)
        record = replace(record, precision=precision, lower=_lowest_cosine(encoder, open_onnx(folder, precision)))
    (folder / RECORD).write_text(json.dumps(asdict(record), indent=2))
    return record


def _lowest_cosine(encoder: TowerEncoder, model: Checkpoint) -> float:
    other, random = OnnxEncoder(model, str(model.folder), ""), np.random.default_rng(0)
    pictures = [random.integers(0, 256, (2, 1, 3, *side), dtype=np.uint8) for side in _SIDES]
    pairs = [(encoder.encode_windows(some), other.encode_windows(some)) for some in pictures]
    text, exported = encoder.encode_text(_CAPTIONS), other.encode_text(_CAPTIONS)
    if not np.array_equal(text.word_mask, exported.word_mask):
        return float("nan")  # of other tokens
    pairs += [(text.sentence, exported.sentence), (text.words[text.word_mask], exported.words[text.word_mask])]
    norm = np.linalg.norm
    return min(float(((a * b).sum(1) / (norm(a, axis=1) * norm(b, axis=1))).min()) for a, b in pairs)
