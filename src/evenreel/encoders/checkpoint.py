"""A model's folder: the kinds that are understood, how they take pictures, its parts, whether it may be trusted."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenreel.documents import brief, parse_json
from evenreel.errors import EncoderError
from evenreel.extras import file_digest
from evenreel.types import FloatArray, Pixels

_SQUEEZED: dict[str, Any] = {
    **{"do_resize": True, "resample": 3, "do_center_crop": False, "do_rescale": True, "rescale_factor": 1 / 255},
    **{"do_normalize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]},
}
_CLIP: dict[str, Any] = {
    **_SQUEEZED,
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


def _square(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


@dataclass(frozen=True)
class Instructions:
    """What an embedder reads around a caption (a query) and a picture (a document), as its maker publishes it."""

    caption: str  # a text with `{}` where the caption goes
    picture: str  # a text with `{}` where the tokens of the picture go
    empty: str  # what stands for a caption without a character
    begin: str  # name of the token before a picture
    token: str  # in the place of each part of it
    end: str  # after it
    pooling: str  # token whose vector stands for all: `mean` of them, or the `lasttoken`
    file: str = ""  # that sets an embedder apart from a chat model of the same kind; empty where there is none
    options: Mapping[str, Any] = field(default_factory=dict)  # of the processor of pictures, beside the checkpoint's


@dataclass(frozen=True)
class Family:
    """A kind of model of transformers, whose Auto classes load it, and what sets it apart from the others."""

    title: str
    # Settings of its image processor that a checkpoint leaves out; None where its own prepares pictures, of any size.
    processor: Mapping[str, Any] | None = field(default_factory=lambda: _CLIP)
    processor_part: str = "image_processor"  # its entry in processor_config.json
    # Path of the map of words into the space of pictures; empty where they lie in it.
    word_head: str = "text_projection"
    # Path, in the configuration, of the length of a picture's vector, where no map gives it that of a caption's.
    picture_length: str = ""
    padded: bool = False  # whether captions are always filled up to the longest that the text tower takes
    longest: int | None = None  # most tokens that it was trained on, where that is fewer than it has positions
    positions: int = 77  # of its text tower where config.json does not count them
    first_position: int = 0  # positions that no token has, as in RoBERTa's numbering
    lower_cases: bool = False  # whether it was trained on lower-cased captions, whatever its tokenizer does
    averages_words: bool = False  # whether a sentence is the mean of its words, which an empty caption does not have
    any_size: bool = False  # whether pictures of any size go in
    frames: str = ""  # name of several frames among the arguments of `get_video_features`; empty for single pictures
    instructions: Instructions | None = None  # around captions and pictures, where one tower reads both

    @property
    def trainable(self) -> bool:
        """Whether it has a tower of captions and one of single pictures of one size, apart from each other."""
        return self.processor is not None and not self.frames and self is not OPEN_CLIP


_SIGLIP: dict[str, Any] = {
    "word_head": "text_model.head",
    "picture_length": "vision_config.hidden_size",
    "padded": True,
    "positions": 64,
    "lower_cases": True,
}
_ALIGN = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "include_top": True}
_QWEN_TURNS = "<|im_start|>system\n%s<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"

FAMILIES: Mapping[str, Family] = {
    "clip": Family("CLIP"),
    "siglip": Family(
        "SigLIP, and SigLIP 2 of fixed resolution", processor={**_SQUEEZED, "size": _square(224)}, **_SIGLIP
    ),
    "siglip2": Family("SigLIP 2 of native resolution (NaFlex)", processor=None, **_SIGLIP),
    "metaclip_2": Family("MetaCLIP 2"),
    "tipsv2": Family(
        "TIPSv2",
        processor={**_SQUEEZED, "size": _square(448), "resample": 2, "do_normalize": False},
        word_head="",
        padded=True,
        positions=64,
        averages_words=True,
    ),
    "align": Family(
        "ALIGN", processor={**_SQUEEZED, **_ALIGN, "size": _square(346)}, longest=64, positions=512, any_size=True
    ),
    "altclip": Family("AltCLIP", positions=514, first_position=2),
    "chinese_clip": Family("Chinese CLIP", positions=512),
    "videoprism": Family(
        "VideoPrism",
        processor={**_SQUEEZED, "size": _square(288), "do_normalize": False},
        word_head="",
        picture_length="vision_config.hidden_size",
        padded=True,
        frames="pixel_values_videos",
    ),
    "xclip": Family("X-CLIP", frames="pixel_values"),
    "embedding_gemma2": Family(
        "EmbeddingGemma 2",
        processor=None,
        longest=8192,
        instructions=Instructions(
            caption="task: search result | query: {}",
            picture="{}",
            empty="",
            begin="<|image>",
            token="<|image|>",
            end="<image|>",
            pooling="mean",
        ),
    ),
    "qwen3_vl": Family(
        "Qwen3-VL-Embedding",
        processor=None,
        longest=8192,
        instructions=Instructions(
            caption=_QWEN_TURNS % "Retrieve images or text relevant to the user's query.",
            picture=_QWEN_TURNS % "Represent the user's input.",
            empty="NULL",
            begin="<|vision_start|>",
            token="<|image_pad|>",
            end="<|vision_end|>",
            pooling="lasttoken",
            file="1_Pooling/config.json",
            # from 4 to 1,800 blocks of 32 x 32 pixels, whatever the checkpoint's own settings say
            options={"size": {"shortest_edge": 4 * 32 * 32, "longest_edge": 1_800 * 32 * 32}},
        ),
    ),
}
"""Families by `model_type` of config.json; SigLIP 2 of fixed resolution says `siglip`."""

OPEN_CLIP = Family("open_clip", padded=True)
"""Models of open_clip, whose own transform, tokenizer and settings say how they see and read."""

LONGEST_SIDE = 4_096  # pixels along a side of a prepared picture; models take some 224 to 1,024
_MOST_PIXELS = 2**24  # of a picture that is resized whole, whatever its shape


@dataclass(frozen=True)
class Preprocessing:
    """Settings of how a processor prepares a picture, which Pillow does, as the makers do."""

    shortest_edge: int | None  # length that the shorter side is resized to; None where `resized` rules
    resized: tuple[int, int] | None  # height and width that a picture is resized to; None for neither: no resizing
    crop: tuple[int, int] | None  # height and width cut out of the middle, filled up with black; None for no cut
    resample: int  # Pillow's number of the filter, 2 bilinear or 3 bicubic
    scale: float  # factor on the values from 0 to 255
    mean: tuple[float, ...]  # to subtract after scaling, one a channel
    std: tuple[float, ...]  # to divide by after that

    @property
    def output_size(self) -> tuple[int, int]:
        size = self.crop or self.resized
        assert size is not None, "read_preprocessing refuses pictures of varying size"
        return size

    @property
    def uncropped(self) -> Preprocessing:
        """Settings that squeeze the whole picture into the output's size and cut nothing off."""
        return replace(self, shortest_edge=None, resized=self.output_size, crop=None)

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the part of a picture that is kept, in pixels."""
        down, across = self._axes(height, width)
        return across.source[0], down.source[0], across.source[1], down.source[1]

    def resize(self, pixels: Pixels) -> Pixels:
        """Resize and cut frames (N, 3, H, W) uint8 to (N, 3, h, w).

        Where a picture shrinks by half or more, Pillow calculates the part inside the cut alone, within 1/255 of the
        whole that processors cut afterwards. It would differ where Pillow 13 takes the height before the width, as it
        does in tall pictures.
        """
        from PIL import Image

        height, width = pixels.shape[-2:]
        down, across = self._axes(height, width)
        size, how = (across.whole, down.whole), Image.Resampling(self.resample)
        shrinks = height >= 2 * down.whole and width >= 2 * across.whole and height <= 2 * width
        inside_alone = shrinks or down.whole * across.whole > _MOST_PIXELS
        made = np.zeros((*pixels.shape[:2], *self.output_size), np.uint8)
        for frame, result in zip(pixels, made, strict=True):
            picture = Image.fromarray(np.ascontiguousarray(frame.transpose(1, 2, 0)))  # as decoders give it: no copy
            inside = result.transpose(1, 2, 0)[down.place, across.place]
            if inside_alone:
                inside[:] = picture.resize(inside.shape[1::-1], how, self.seen_box(height, width))
            else:
                inside[:] = np.asarray(picture.resize(size, how))[down.kept, across.kept]
        return made

    def prepare(self, pixels: Pixels) -> FloatArray:
        """Resize, cut, scale and normalise frames (N, 3, H, W) uint8 to (N, 3, h, w)."""
        mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (self.mean, self.std))
        return (self.resize(pixels) * np.float32(self.scale) - mean) / std

    def _axes(self, height: int, width: int) -> list[_Axis]:
        """How the height and the width of a picture are resized and cut."""
        shorter, sides = min(height, width), (height, width)
        if self.resized is None and self.shortest_edge is not None:
            edge = self.shortest_edge
            target = [edge if side == shorter else int(edge * side / shorter) for side in sides]
        else:
            target = list(self.resized or sides)
        axes = []
        for side, whole, cut in zip(sides, target, self.crop or target, strict=True):
            first, length = (whole - cut) // 2, min(whole, cut)  # below 0 it is a border
            start, border = max(0, first), max(0, -first)
            source = (start * side / whole, (start + length) * side / whole)
            axes.append(_Axis(whole, slice(start, start + length), slice(border, border + length), source))
        return axes


class _Axis(NamedTuple):
    """A side of a picture: its resized length, the part of it that is kept, where that goes, and where it is from."""

    whole: int
    kept: slice
    place: slice
    source: tuple[float, float]


def read_preprocessing(settings: Mapping[str, Any], family: Family) -> Preprocessing:
    """Read the settings of an image processor, old forms included."""
    values = {**(family.processor or {}), **{key: value for key, value in settings.items() if value is not None}}
    if values.get("do_pad") or values["resample"] not in (2, 3):
        raise EncoderError(
            f"The image processor pads pictures or resizes with filter {brief(values['resample'])}; only bilinear (2) "
            "and bicubic (3) without padding are known."
        )
    try:
        size = _size(values["size"], ("shortest_edge",)) if values["do_resize"] else {}
        crop = _size(values["crop_size"], ("height", "width")) if values["do_center_crop"] else {}
        scale = float(values["rescale_factor"]) if values["do_rescale"] else 1.0
        mean, std = _channels(values["image_mean"]), _channels(values["image_std"])
        if 0.0 in std:
            raise ValueError(f"channels {std}")
        normalises, offset = values["do_normalize"], float(bool(values.get("rescale_offset") and values["do_rescale"]))
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise EncoderError(f"The settings of the image processor make no sense: {brief(error, 200)}.") from error
    if not crop and "height" not in size:
        raise EncoderError("The image processor makes pictures of varying size; a tower takes one size only.")
    return Preprocessing(
        shortest_edge=size.get("shortest_edge"),
        resized=(size["height"], size["width"]) if "height" in size else None,
        crop=(crop["height"], crop["width"]) if crop else None,
        resample=int(values["resample"]),
        scale=scale,
        # The offset and the second division are those of EfficientNet's processor, which ALIGN has.
        mean=tuple((one if normalises else 0.0) + offset for one in mean),
        std=tuple((one if normalises else 1.0) * (one if values.get("include_top") else 1.0) for one in std),
    )


def _size(given: Any, of_a_number: tuple[str, ...]) -> dict[str, int]:
    """A size in any of its forms as a dictionary of positive whole numbers."""
    named = dict.fromkeys(of_a_number, given) if isinstance(given, int) else dict(given)
    size = {key: int(value) for key, value in named.items() if value is not None}
    known = set(size) in ({"shortest_edge"}, {"height", "width"})
    if not known or not 1 <= min(size.values()) <= max(size.values()) <= LONGEST_SIDE:
        raise ValueError(f"size {given}")
    return size


def _channels(given: Any) -> list[float]:
    channels = [float(value) for value in given]
    if len(channels) != 3 or not np.isfinite(channels).all():
        raise ValueError(f"channels {given}")
    return channels


OPEN_CLIP_CONFIG, OPEN_CLIP_WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
TOKENIZER, TOKENIZER_SETTINGS = "tokenizer.json", "tokenizer_config.json"
_VOCABULARIES = (TOKENIZER, "vocab.json", "spiece.model", "vocab.txt", "sentencepiece.bpe.model")
TOKENIZER_FILES: tuple[str, ...] = (
    *(TOKENIZER, TOKENIZER_SETTINGS, "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt"),
    *("spiece.model", "vocab.txt", "sentencepiece.bpe.model"),
)
_PROCESSORS = ("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json")
TEXT, PICTURES = "text_model.onnx", "vision_model.onnx"
ENDINGS: Mapping[str, tuple[str, ...]] = {"float32": ("",), "int8": ("_quantized", "_int8"), "float16": ("_fp16",)}
"""What the names of graphs end with in public exports, by precision, the preferred first.

Of towers with convolutions older versions of ONNX Runtime run `_quantized`, which is unsigned there, and not `_int8`.
"""
RECORD = "evenreel_export.json"
_SHARD_NAME = re.compile(r"[\w.-]{1,200}\.safetensors")
_COUNTS_LAYERS = re.compile(r"^num_(\w+_)?layers$|^prompt_layers$|^num_block_repeats$|^layers$")

_IGNORED = frozenset(
    {"_name_or_path", "_commit_hash", "transformers_version", "architectures", "torch_dtype", "dtype"}
    | {"auto_map", "attn_implementation", "_attn_implementation", "_attn_implementation_internal"}
)
"""Entries of config.json that are not followed: where a model comes from, and code that would be fetched."""


@dataclass(frozen=True)
class Checkpoint:
    """A checked folder with a model in safetensors or in ONNX form; its weights are read later."""

    folder: Path
    family: Family
    kind: str  # `model_type` of its configuration, or `open_clip`
    config: Mapping[str, Any]  # config.json without what names code or an origin, or open_clip's settings
    settings: Mapping[str, Any]  # what its own processor says of pictures; empty for open_clip, whose settings say it
    preprocessing: Preprocessing | None  # of a picture; None where a processor of the maker's does it
    weights: tuple[Path, ...]  # the safetensors files, in the order of their names; or the graphs of both towers
    precision: str = "float32"  # of graphs

    def digest(self) -> str:
        """Compute SHA-256, in hex, over weights and tokenizer byte for byte, and settings by their values."""
        pictures = self.settings if self.preprocessing is None else asdict(self.preprocessing)
        parts = {"config": self.config, "preprocessing": pictures}
        if instructions := self.family.instructions:
            parts["instructions"] = asdict(instructions)
        in_onnx, files = self.weights[0].suffix == ".onnx", list(self.weights)
        if in_onnx:
            files = []
            for graph in self.weights:
                content, beside = graph.read_bytes(), sorted(graph.parent.rglob("*"))
                # Weights in other files are taken from none but those that a graph names, in its folder.
                named = [path for path in beside if path != graph and path.is_file() and path.name.encode() in content]
                files += [graph, *named]
        names = (TOKENIZER, TOKENIZER_SETTINGS) if in_onnx else TOKENIZER_FILES
        files[:0] = [path for name in names if (path := self.folder / name).is_file()]
        total = hashlib.sha256(b"onnx\n" if in_onnx else b"")
        for label, part in parts.items():
            total.update(f"{label}\0{hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()}\n".encode())
        for path in files:
            total.update(f"{path.name}\0{file_digest(path)}\n".encode())
        return total.hexdigest()

    def weights_hash(self) -> str:
        """The digest that vectors are known by: of an export in float32, that of its checkpoint, whose are alike."""
        digest = self.digest()
        record = read_record(self.folder) if self.weights[0].name == TEXT else None  # not of a lower precision
        if record is None:
            return digest
        if record.onnx_hash != digest:
            raise EncoderError(
                f"The ONNX files in {self.folder} have changed since they were exported ({RECORD}); export the model "
                "again."
            )
        return record.weights_hash


def open_checkpoint(folder: Path, kinds: Mapping[str, Family] = FAMILIES) -> Checkpoint:
    """Check a folder and refuse what cannot be read or should not be trusted."""
    if missing := missing_parts(folder):
        raise _incomplete(folder, missing)
    if is_open_clip(folder):
        return _open_open_clip(folder)
    config, kind = _config(folder, kinds)
    family = kinds[kind]
    if family.instructions and family.instructions.file and not (folder / family.instructions.file).is_file():
        raise EncoderError(
            f"The model in {folder} has no {family.instructions.file}, which {family.title} comes with: it is a "
            "chat model of the same kind, whose vectors mean nothing to a search, or is to be downloaded again."
        )
    if "quantization_config" in config:
        raise EncoderError(f"The model in {folder} is quantised; use the original, unquantised weights.")
    weights = tuple(folder / name for name in weight_names(folder))
    _check_weights(weights, config)
    settings = _processor_settings(folder, "video_processor" if family.frames else family.processor_part)
    preprocessing = None if family.processor is None else read_preprocessing(settings, family)
    return Checkpoint(folder, family, kind, config, settings, preprocessing, weights)


def open_onnx(folder: Path, precision: str = "float32") -> Checkpoint:
    """Check a folder with both towers in ONNX form, as `open_checkpoint` does."""
    graphs = [onnx_graph(folder, name, precision) for name in (TEXT, PICTURES)]
    if missing := missing_onnx_parts(folder, precision):
        if precision != "float32":
            raise EncoderError(
                f"The model in {folder} is not there in {precision} ({', '.join(missing)} missing): `evenreel models "
                f"--export MODEL FOLDER --precision {precision}` makes it of a checkpoint."
            )
        raise EncoderError(f"The ONNX model in {folder} is not complete: {', '.join(missing)} missing.")
    config, kind = _config(folder, {name: family for name, family in FAMILIES.items() if family.trainable})
    family, settings = FAMILIES[kind], _processor_settings(folder, "image_processor")
    weights = tuple(graph for graph in graphs if graph)
    return Checkpoint(folder, family, kind, config, settings, read_preprocessing(settings, family), weights, precision)


def _config(folder: Path, kinds: Mapping[str, Family]) -> tuple[dict[str, Any], str]:
    """The configuration of a model, which must be of one of some kinds, and its kind."""
    given = read_settings(folder / "config.json")
    kind = given.get("model_type")
    if not isinstance(kind, str) or kind not in kinds:
        code = " and brings code of its own (auto_map), which is never run" if "auto_map" in given else ""
        raise EncoderError(
            f"The model in {folder} is of the kind {brief(kind)}{code}; the kinds (model_type) that can be used are "
            f"{', '.join(kinds)}."
        )
    return _plain(given), kind


def is_open_clip(folder: Path) -> bool:
    """Return whether a folder is one of open_clip; one that also has the form of transformers is read in that form."""
    weights = ("model.safetensors", "model.safetensors.index.json")
    in_form_of_transformers = (folder / "config.json").is_file() and any((folder / name).is_file() for name in weights)
    return (folder / OPEN_CLIP_CONFIG).is_file() and not in_form_of_transformers


def _open_open_clip(folder: Path) -> Checkpoint:
    """Refuse settings that lead out of the folder, or that the weights cannot belong to."""
    settings, weights = _open_clip_settings(folder), folder / OPEN_CLIP_WEIGHTS
    model = settings["model_cfg"]
    text, vision = model["text_cfg"], model["vision_cfg"]
    asks = {
        "a text tower of the hub": text.get("hf_model_name"),
        "a picture tower of the hub": ":" in str(vision.get("timm_model_name")) and vision["timm_model_name"],
        "a caption decoder": "multimodal_cfg" in model and "multimodal_cfg",
        "a text tower with a class token": text.get("embed_cls") and "embed_cls",
        "a way of its own to tokenise": text.get("tokenizer_mode")
        or (text.get("tokenizer_kwargs") or {}).get("strip_sep_token"),
    }
    for what, name in asks.items():
        if name:
            raise EncoderError(f"The open_clip model in {folder} asks for {what} ({brief(name)}), which is not read.")
    _check_weights([weights], model)
    return Checkpoint(folder, OPEN_CLIP, OPEN_CLIP.title, settings, {}, None, (weights,))


def _open_clip_settings(folder: Path) -> dict[str, Any]:
    settings = read_settings(folder / OPEN_CLIP_CONFIG)
    model = settings.get("model_cfg")
    parts = [model.get("text_cfg"), model.get("vision_cfg")] if isinstance(model, dict) else [None]
    if not all(isinstance(part, dict) for part in parts):
        raise EncoderError(
            f"{folder / OPEN_CLIP_CONFIG} describes no text tower and picture tower; download the model again."
        )
    return settings


def missing_parts(folder: Path) -> list[str]:
    """Name what a folder lacks to be a checkpoint."""
    with_tokenizer = any((folder / name).is_file() for name in _VOCABULARIES)
    if is_open_clip(folder):
        own = _open_clip_settings(folder)["model_cfg"]["text_cfg"].get("hf_tokenizer_name")
        parts = {OPEN_CLIP_WEIGHTS: (folder / OPEN_CLIP_WEIGHTS).is_file(), "its tokenizer": with_tokenizer or not own}
    else:
        weights = {name: (folder / name).is_file() for name in weight_names(folder)}
        parts = {**_settings_there(folder), "its tokenizer": with_tokenizer, **weights}
    return [name for name, there in parts.items() if not there]


def missing_onnx_parts(folder: Path, precision: str = "float32") -> list[str]:
    """Name what a folder lacks to be a model in ONNX form."""
    graphs = {
        f"onnx/{onnx_names(name, precision)[-1]}": onnx_graph(folder, name, precision) is not None
        for name in (TEXT, PICTURES)
    }
    parts = {**_settings_there(folder), TOKENIZER: (folder / TOKENIZER).is_file(), **graphs}
    return [name for name, there in parts.items() if not there]


def _settings_there(folder: Path) -> dict[str, bool]:
    processors = any((folder / name).is_file() for name in _PROCESSORS)
    return {"config.json": (folder / "config.json").is_file(), "preprocessor_config.json": processors}


def onnx_names(name: str, precision: str = "float32") -> list[str]:
    return [f"{name.removesuffix('.onnx')}{ending}.onnx" for ending in ENDINGS.get(precision, ("",))]


def onnx_graph(folder: Path, name: str, precision: str = "float32") -> Path | None:
    places = (place / one for one in onnx_names(name, precision) for place in (folder / "onnx", folder))
    return next((path for path in places if path.is_file()), None)


def has_onnx(folder: Path) -> bool:
    return any(onnx_graph(folder, name) is not None for name in (TEXT, PICTURES))


@dataclass(frozen=True)
class ExportRecord:
    """What an export says of itself: digests of its checkpoint and its own, and the lowest cosine of their vectors."""

    weights_hash: str
    onnx_hash: str
    cosine: float
    precision: str = "float32"  # of the graphs beside those in float32
    lower: float | None = None  # their lowest cosine


def read_record(folder: Path) -> ExportRecord | None:
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        return ExportRecord(**read_settings(path))
    except TypeError as error:
        raise EncoderError(f"{path} is no record of an export ({error}); export the model again.") from error


def _incomplete(folder: Path, missing: list[str]) -> EncoderError:
    if not folder.is_dir() or missing not in (["model.safetensors"], [OPEN_CLIP_WEIGHTS]):
        return EncoderError(f"The model in {folder} is not complete: {', '.join(missing[:5])} missing.")
    if missing == [OPEN_CLIP_WEIGHTS]:
        return EncoderError(
            f"The model in {folder} has no {OPEN_CLIP_WEIGHTS}; open_clip's older pickles are not read."
        )
    pickles = sorted(path.name for kind in ("bin", "pt", "pth", "ckpt", "pkl") for path in folder.glob(f"*.{kind}"))
    found = f" but {pickles[0]}, a pickle, which can run any code when it is read" if pickles else ""
    return EncoderError(
        f"The model in {folder} has no model.safetensors{found}; if you trust where it comes from, convert it "
        "once with `python -c \"from transformers import AutoModel; AutoModel.from_pretrained('SOURCE')"
        f".save_pretrained('{folder}')\"`, SOURCE being its hub id or this folder (many models of the hub also "
        "have a converted revision: name it as ORG/NAME@refs/pr/NUMBER)."
    )


def weight_names(folder: Path) -> list[str]:
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file() or not index.is_file():
        return ["model.safetensors"]
    names = read_settings(index).get("weight_map")
    if not isinstance(names, dict) or not names:
        raise EncoderError(f"{index} is not a list of weight files; download it again.")
    for name in names.values():
        if not isinstance(name, str) or not _SHARD_NAME.fullmatch(name):
            raise EncoderError(f"{index} names {str(name)[:80]!r}, which is not a safetensors file in its folder.")
    return sorted(set(names.values()))


def _check_weights(paths: Sequence[Path], config: Mapping[str, Any]) -> None:
    """Refuse damaged weights, and a model with layers without weights, before any of them is built."""
    from safetensors import SafetensorError, safe_open

    tensors = 0
    for path in paths:
        try:
            with safe_open(path, framework="np") as file:
                tensors += len(list(file.keys()))
        except (SafetensorError, OSError) as error:
            raise EncoderError(
                f"The weights {path} are cut off or damaged ({error}); put a good copy in their place."
            ) from error
    for key, said in _numbers(config):
        if _COUNTS_LAYERS.search(key) and said > tensors:  # a layer has a tensor at least
            raise EncoderError(
                f"The settings beside {paths[0]} say that {key} is {brief(said)}, and it has {tensors} tensors; the "
                "files do not belong together, so download the model again."
            )


def _numbers(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Each whole number of a configuration with its entry's name, also within entries."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        yield from ((key, one) for one in (value if isinstance(value, list) else [value]) if isinstance(one, int))


def _processor_settings(folder: Path, part: str) -> dict[str, Any]:
    """Read the settings of a processor; one of pictures stands in for one of videos that is not there."""
    whole, alone, videos = (folder / name for name in _PROCESSORS)
    parts = read_settings(whole) if whole.is_file() else {}
    for name in (part, "image_processor"):
        if isinstance(nested := parts.get(name), dict):
            return _plain(nested)
    for path in (videos, alone) if part == "video_processor" else (alone,):
        if path.is_file():
            return _plain(read_settings(path))
    raise _incomplete(folder, ["preprocessor_config.json"])


def read_settings(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EncoderError(f"{path} cannot be read as JSON ({error}); download the model again.") from error
    if not isinstance(content, dict):
        raise EncoderError(f"{path} is not a table of settings; download the model again.")
    return content


def _plain(config: dict[str, Any]) -> dict[str, Any]:
    """A config.json without the entries that say where a model comes from or name code, also within others."""
    return {
        key: _plain(value) if isinstance(value, dict) else value for key, value in config.items() if key not in _IGNORED
    }
