"""Export of a checkpoint to a folder in ONNX form, kept only where both give the same vectors. Needs torch and onnx."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

from evenreel.encoders import first_reading
from evenreel.encoders.checkpoint import Checkpoint, open_checkpoint, processor_settings, read_settings
from evenreel.encoders.contexts import quiet
from evenreel.encoders.encoder import TowerEncoder
from evenreel.encoders.families import FAMILIES
from evenreel.encoders.onnx.encoder import OnnxEncoder
from evenreel.encoders.onnx.folder import (
    PICTURES,
    RECORD,
    TEXT,
    TOKENIZER,
    TOKENIZER_SETTINGS,
    ExportRecord,
    has_onnx,
    open_onnx_folder,
)
from evenreel.encoders.onnx.sharing import share_weights
from evenreel.encoders.onnx.spiece import tokenizer_of_spiece
from evenreel.encoders.sources import locate
from evenreel.encoders.tower_loading import load_towers
from evenreel.encoders.towers import Towers
from evenreel.errors import EncoderError, UsageError
from evenreel.extras import installed
from evenreel.files import replacing_folder
from evenreel.types import FloatArray

LOWEST_COSINE = 0.9999
_OPSET = 17
_NOT_IN_ONNX = frozenset({"siglip2", "tipsv2"})
"""Kinds that interpolate positions in a way that ONNX has no operator for, or for each picture anew."""
_SIDES = ((61, 90), (200, 37), (224, 224))
_CAPTIONS = (
    "a red ball",
    "The DOG runs over the bridge!",
    "two people, at a table: what's on it?",
    "a ball " * 90,
    "x",
    "Ein Zug fährt über 3 Brücken.",
)


def export_onnx(name: str, out: Path, revision: str | None = None) -> ExportRecord:
    """Export both towers of a checkpoint, and compare vectors of pictures and captions of both ways.

    Where `out` is the checkpoint's own folder, the graphs take their weights from its safetensors file.
    """
    if not installed("onnx"):
        raise EncoderError("An export needs onnx, which is not installed: pip install 'evenreel[torch]'.")
    _, folder = locate(name, revision)
    first_reading.read_first(folder, "cpu", "float32")
    checkpoint = open_checkpoint(folder)
    _check_kind(checkpoint)
    towers = load_towers(checkpoint, torch.device("cpu"), "float32")
    encoder = TowerEncoder(towers, name, checkpoint.digest())
    if out.resolve() == folder.resolve():
        return _export_beside(encoder, towers)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already; name another folder for the export.")
    with replacing_folder(out) as part:
        (part / "onnx").mkdir()
        _write_settings(towers, part)
        _write_graphs(towers, part / "onnx")
        return _record(encoder, part)


def _check_kind(checkpoint: Checkpoint) -> None:
    kinds = [name for name, family in FAMILIES.items() if family.two_towers and name not in _NOT_IN_ONNX]
    if checkpoint.family not in kinds:
        raise EncoderError(
            f"The model in {checkpoint.folder} is of the kind {checkpoint.family}; the kinds that can be exported are "
            f"{', '.join(kinds)}."
        )


def _export_beside(encoder: TowerEncoder, towers: Towers) -> ExportRecord:
    """Write graphs beside the weights that they share, or nothing."""
    folder, weights = towers.checkpoint.folder, towers.checkpoint.weights
    if has_onnx(folder):
        raise UsageError(f"There are ONNX graphs in {folder} already; remove them, or export into another folder.")
    if len(weights) != 1 or not (folder / TOKENIZER).is_file():
        raise EncoderError(
            f"The model in {folder} has its weights in several files, or no {TOKENIZER}; export it into another folder."
        )
    with TemporaryDirectory(prefix=".export-", dir=folder) as made:
        part = Path(made)
        for path in folder.iterdir():
            if path.is_file() and path.name != RECORD:
                _link(path, part / path.name)
        _write_graphs(towers, part, fold=False)
        for name in (TEXT, PICTURES):
            share_weights(part / name, weights[0])
        record = _record(encoder, part)
        for name in (TEXT, PICTURES, RECORD):
            (part / name).replace(folder / name)
        return record


def _link(path: Path, other: Path) -> None:
    """Let a file be at a second place too, without its bytes where the file system can do that."""
    try:
        other.hardlink_to(path.resolve())
    except OSError:
        shutil.copy(path, other)


def _write_settings(towers: Towers, out: Path) -> None:
    """Write tokenizer and settings, with what their defaults are in transformers written out."""
    folder = towers.checkpoint.folder
    config = read_settings(folder / "config.json")
    longest = towers.longest_caption + towers.family.first_position
    config["text_config"] = {**(config.get("text_config") or {}), "max_position_embeddings": longest}
    (out / "config.json").write_text(json.dumps(config, indent=2))
    settings = processor_settings(folder, of_videos=False)
    (out / "preprocessor_config.json").write_text(json.dumps(settings, indent=2))
    rules = getattr(towers.tokenizer, "backend_tokenizer", None) or tokenizer_of_spiece(folder)
    rules.save(str(out / TOKENIZER))
    padding = {"pad_token": towers.tokenizer.pad_token, "model_max_length": towers.longest_caption}
    (out / TOKENIZER_SETTINGS).write_text(json.dumps(padding, indent=2))


class _TextTower(nn.Module):
    """Text tower as a module: token ids and, where the family masks padding, the mask, to sentences and words."""

    def __init__(self, towers: Towers) -> None:
        super().__init__()
        self.model, self._towers = towers.model, towers

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        words, sentence = self._towers.text_features(input_ids, attention_mask)
        return sentence, words


class _PictureTower(nn.Module):
    """Picture tower as a module: prepared pictures to vectors."""

    def __init__(self, towers: Towers) -> None:
        super().__init__()
        self.model, self._towers = towers.model, towers

    def forward(self, pixel_values: Tensor) -> Tensor:
        return self._towers.prepared_features(pixel_values)


def _write_graphs(towers: Towers, folder: Path, *, fold: bool = True) -> None:
    """Trace both towers; without `fold`, weights stay as the checkpoint has them."""
    tokens = towers.tokens(["a red ball", "a red ball rolls on and on"])  # the first has padding, for the mask's sake
    names = ["input_ids", *(["attention_mask"] if towers.masks_padding else [])]
    both = {0: "captions"} if towers.family.padded else {0: "captions", 1: "words"}
    axes = {**dict.fromkeys(names, both), "text_embeds": {0: "captions"}, "word_embeds": both}
    _trace(_TextTower(towers), folder / TEXT, {name: tokens[name] for name in names}, axes, fold=fold)
    size = towers.checkpoint.preprocessing.output_size or ()
    pictures = {"pixel_values": torch.zeros(2, 3, *size)}
    axes = {"pixel_values": {0: "pictures"}, "image_embeds": {0: "pictures"}}
    _trace(_PictureTower(towers), folder / PICTURES, pictures, axes, fold=fold)


def _trace(
    tower: nn.Module, path: Path, inputs: Mapping[str, Tensor], axes: Mapping[str, Mapping[int, str]], *, fold: bool
) -> None:
    """Write a tower as ONNX; `axes` names the axes of any length of all inputs and outputs.

    The older exporter of torch needs a tenth of the time of the one on `torch.export`, and `onnx` alone.
    """
    try:
        with warnings.catch_warnings(), quiet():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                tower.eval(),
                tuple(inputs.values()),
                str(path),
                input_names=list(inputs),
                output_names=[name for name in axes if name not in inputs],
                dynamic_axes=axes,
                opset_version=_OPSET,
                do_constant_folding=fold,
                dynamo=False,
            )
    except Exception as error:  # what a model breaks inside the exporter is not foreseeable
        words = (str(error).splitlines() or [""])[0]
        raise EncoderError(f"The model cannot be exported ({type(error).__name__}: {words[:200]}).") from error


def _record(encoder: TowerEncoder, folder: Path) -> ExportRecord:
    """Compare the vectors of both, and write what was found beside the graphs."""
    model = open_onnx_folder(folder)
    digest = model.digest()
    cosine = _lowest_cosine(encoder, OnnxEncoder(model, str(folder), digest))
    if not cosine >= LOWEST_COSINE:
        raise EncoderError(
            f"Vectors of the export and of the checkpoint have a cosine of {cosine:.6f} at worst; it must be at least "
            f"{LOWEST_COSINE}, so the export was not kept."
        )
    record = ExportRecord(encoder.weights_hash, digest, cosine)
    (folder / RECORD).write_text(json.dumps(asdict(record), indent=2))
    return record


def _lowest_cosine(one: TowerEncoder, other: OnnxEncoder) -> float:
    """The lowest cosine between vectors of both, of pictures of several shapes, captions and their words."""
    random = np.random.default_rng(0)
    pictures = [random.integers(0, 256, (2, 1, 3, *side), dtype=np.uint8) for side in _SIDES]
    pairs = [(one.encode_windows(some), other.encode_windows(some)) for some in pictures]
    texts = one.encode_text(_CAPTIONS), other.encode_text(_CAPTIONS)
    if not np.array_equal(texts[0].word_mask, texts[1].word_mask):
        return float("nan")  # other tokens
    pairs.append((texts[0].sentence, texts[1].sentence))
    pairs.append((texts[0].words[texts[0].word_mask], texts[1].words[texts[1].word_mask]))
    return min(float(_cosines(a, b).min()) for a, b in pairs)


def _cosines(a: FloatArray, b: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(axis=1) / lengths, np.float32)
