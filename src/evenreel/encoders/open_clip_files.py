"""A folder of open_clip: its parts, whether it may be trusted, and how its model sees and reads. Needs no torch.

Everything that the settings name besides the folder's own files is refused: another tokenizer or text tower of the hub,
a picture tower that timm would fetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from evenreel.documents import brief
from evenreel.encoders.preprocessing import RoundedCropPreprocessing, read_preprocessing
from evenreel.errors import EncoderError

CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
_TOKENIZERS = ("tokenizer.json", "vocab.json", "spiece.model", "vocab.txt", "sentencepiece.bpe.model")
_SIZES = frozenset({"embed_dim", "width", "vocab_size", "context_length"})
_FILTERS = {"bilinear": 2, "bicubic": 3, "random": 3}


def is_open_clip(folder: Path) -> bool:
    """Return whether a folder is one of open_clip; one that also has the form of transformers is read in that form."""
    if not (folder / CONFIG).is_file():
        return False
    weights = ("model.safetensors", "model.safetensors.index.json")
    return not ((folder / "config.json").is_file() and any((folder / name).is_file() for name in weights))


def missing_open_clip_parts(folder: Path, settings: Mapping[str, Any]) -> list[str]:
    """Return what a folder of open_clip lacks, in words; empty for a whole one."""
    text = settings["model_cfg"]["text_cfg"]
    tokenizer = not text.get("hf_tokenizer_name") or any((folder / name).is_file() for name in _TOKENIZERS)
    parts = {WEIGHTS: (folder / WEIGHTS).is_file(), "its tokenizer": tokenizer}
    return [name for name, there in parts.items() if not there]


def check_open_clip(folder: Path, settings: Mapping[str, Any], sizes: frozenset[int]) -> None:
    """Refuse settings that lead out of the folder, or that the weights cannot belong to."""
    model = settings["model_cfg"]
    text, vision = model["text_cfg"], model["vision_cfg"]
    cleaning = text.get("tokenizer_kwargs") or {}
    asks = {
        "a text tower of the hub": text.get("hf_model_name"),
        "a picture tower of the hub": ":" in str(vision.get("timm_model_name")) and vision["timm_model_name"],
        "a caption decoder": "multimodal_cfg" in model and "multimodal_cfg",
        "a text tower with a class token": text.get("embed_cls") and "embed_cls",
        "a way of its own to tokenise": text.get("tokenizer_mode") or cleaning.get("strip_sep_token"),
    }
    for what, name in asks.items():
        if name:
            raise EncoderError(f"The open_clip model in {folder} asks for {what} ({brief(name)}), which is not read.")
    for key, value in _sizes_said(model):
        if value not in sizes:
            raise EncoderError(
                f"{folder / CONFIG} says that {key} is {brief(value)}, and no axis of the weights is that long; the "
                "files do not belong together, so download the model again."
            )


def _sizes_said(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, dict):
            yield from _sizes_said(value)
        elif key in _SIZES:
            yield key, value


def read_open_clip_preprocessing(settings: Mapping[str, Any]) -> RoundedCropPreprocessing:
    """Read how a model's pictures are prepared: open_clip's evaluation transform."""
    given = settings.get("preprocess_cfg") or {}
    mode, side = given.get("resize_mode") or "shortest", settings["model_cfg"]["vision_cfg"].get("image_size", 224)
    if mode not in ("shortest", "squash") or given.get("interpolation", "bicubic") not in _FILTERS:
        raise EncoderError(f"Pictures are resized in the way {brief(mode)}; only 'shortest' and 'squash' are known.")
    square = {"height": side, "width": side}
    values = {
        "size": {"shortest_edge": side} if mode == "shortest" else square,
        "do_center_crop": mode == "shortest",
        "crop_size": square,
        "resample": _FILTERS[given.get("interpolation", "bicubic")],
        "image_mean": given.get("mean"),
        "image_std": given.get("std"),
    }
    return RoundedCropPreprocessing(**vars(read_preprocessing(values, "clip")))
