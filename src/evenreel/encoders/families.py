"""Kinds of dual towers that are understood, and all that sets one apart from another. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_COMMON: dict[str, Any] = {
    "do_resize": True,
    "resample": 3,
    "do_center_crop": False,
    "crop_size": None,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
}
_CLIP: dict[str, Any] = {
    **_COMMON,
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_HALVES: dict[str, Any] = {**_COMMON, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
_IMAGENET: dict[str, Any] = {**_COMMON, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


@dataclass(frozen=True)
class Family:
    """Names that transformers has for a kind of dual tower, and where its kinds differ.

    Attributes:
        title: name for people.
        classes: name of its classes in transformers, before `Config` and `Model`.
        processor: settings of its image processor, where the files of a checkpoint do not give them.
        word_head: path of the map of words into the space of pictures; empty where they lie in it.
        padded: whether captions are always filled up to the longest that the text tower takes.
        longest: most tokens that it was trained on, where that is fewer than it has positions.
        first_position: positions that no token has, as in RoBERTa's numbering.
        lower_cases: whether it was trained on lower-cased captions, whatever its tokenizer does.
        averages_words: whether a sentence is the mean of its words, which a caption without any does not have.
        any_size: whether pictures of any size go in.
    """

    title: str
    classes: str
    processor: Mapping[str, Any] = field(default_factory=lambda: _CLIP)
    word_head: str = "text_projection"
    padded: bool = False
    longest: int | None = None
    first_position: int = 0
    lower_cases: bool = False
    averages_words: bool = False
    any_size: bool = False


FAMILIES: Mapping[str, Family] = {
    "clip": Family("CLIP", "CLIP"),
    "siglip": Family(
        "SigLIP, and SigLIP 2 of fixed resolution",
        "Siglip",
        {**_HALVES, "size": {"height": 224, "width": 224}},
        word_head="text_model.head",
        padded=True,
        lower_cases=True,
    ),
    "siglip2": Family(
        "SigLIP 2 of native resolution (NaFlex)",
        "Siglip2",
        {**_HALVES, "resample": 2, "patch_size": 16, "max_num_patches": 256},
        word_head="text_model.head",
        padded=True,
        lower_cases=True,
        any_size=True,
    ),
    "metaclip_2": Family("MetaCLIP 2", "MetaClip2"),
    "tipsv2": Family(
        "TIPSv2",
        "Tipsv2",
        {**_COMMON, "size": {"height": 448, "width": 448}, "resample": 2, "do_normalize": False},
        word_head="",
        padded=True,
        averages_words=True,
    ),
    "align": Family(
        "ALIGN",
        "Align",
        {**_IMAGENET, "size": {"height": 346, "width": 346}, "rescale_offset": False, "include_top": True},
        longest=64,
        any_size=True,
    ),
    "altclip": Family("AltCLIP", "AltCLIP", first_position=2),
    "chinese_clip": Family("Chinese CLIP", "ChineseCLIP"),
}
"""Families by `model_type` of config.json; SigLIP 2 of fixed resolution says `siglip`."""
