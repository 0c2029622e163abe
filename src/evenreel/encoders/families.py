"""Kinds of models that are understood, and all that sets one apart from another. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evenreel.types import WindowRule

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
class WindowInput:
    """How a kind of model takes several frames at once.

    Attributes:
        pixels: name of the frames among the arguments of `get_video_features`.
        frames_at: path of the number of frames in the configuration; empty where it states none.
        rule: rule of windows; its number of frames holds where the configuration states none.
    """

    pixels: str
    frames_at: str
    rule: WindowRule


@dataclass(frozen=True)
class Instructions:
    """What an embedder reads around a caption and around a picture, as its maker publishes it.

    Attributes:
        caption: text with `{}` where the caption goes; captions are queries.
        picture: text with `{}` where the picture goes; pictures are documents.
        empty: what stands for a caption without a character.
        begin, token, end: names of the tokens before a picture, in the place of each part of it, and after it.
        pooling: token whose vector stands for all: `mean` of them, or the `lasttoken`.
        file: file that sets an embedder apart from a chat model of the same kind; empty where there is none.
    """

    caption: str
    picture: str
    empty: str
    begin: str
    token: str
    end: str
    pooling: str
    file: str = ""


@dataclass(frozen=True)
class Family:
    """Names that transformers has for a kind of dual tower, and what sets it apart from the others.

    Attributes:
        title: name for people.
        classes: name of its classes in transformers, before `Config` and `Model`.
        processor: settings of its image processor, where the files of a checkpoint do not give them.
        word_head: path of the map of words into the space of pictures; empty where they lie in it.
        picture_length: path, in the configuration, of the length of a picture's vector, where no map gives it that of a
            caption's; empty where one does, or where the configuration does not state it.
        padded: whether captions are always filled up to the longest that the text tower takes.
        longest: most tokens that it was trained on, where that is fewer than it has positions.
        positions: positions of its text tower where config.json does not count them.
        first_position: positions that no token has, as in RoBERTa's numbering.
        lower_cases: whether it was trained on lower-cased captions, whatever its tokenizer does.
        averages_words: whether a sentence is the mean of its words, which a caption without any does not have.
        any_size: whether pictures of any size go in.
        trainable: whether its towers take single pictures of one size and are saved as transformers does.
        model: name of its model in transformers where it is not that of the others.
        windows: how it takes several frames at once; None for pictures.
        instructions: what it reads around captions and pictures, where one tower reads both; None for two towers.
    """

    title: str
    classes: str
    processor: Mapping[str, Any] = field(default_factory=lambda: _CLIP)
    word_head: str = "text_projection"
    picture_length: str = ""
    padded: bool = False
    longest: int | None = None
    positions: int = 77
    first_position: int = 0
    lower_cases: bool = False
    averages_words: bool = False
    any_size: bool = False
    trainable: bool = True
    model: str = ""
    windows: WindowInput | None = None
    instructions: Instructions | None = None

    @property
    def two_towers(self) -> bool:
        """True for a tower of single pictures and one of captions, apart from each other."""
        return self.windows is None and self.instructions is None


_SPREAD = WindowRule(frames=16, span_s=8.0, stride_s=4.0)
"""No checkpoint states seconds: these are evenreel's choice."""

_PE_VIDEO = Family(
    "PE-Video",
    "PeVideo",
    {**_HALVES, "size": {"height": 336, "width": 336}, "resample": 2},
    word_head="text_video_head",
    any_size=True,
    trainable=False,
    model="PeVideoModel",
    windows=WindowInput("pixel_values_videos", "", _SPREAD),
)

_QWEN_TURNS = "<|im_start|>system\n%s<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"

FAMILIES: Mapping[str, Family] = {
    "clip": Family("CLIP", "CLIP"),
    "siglip": Family(
        "SigLIP, and SigLIP 2 of fixed resolution",
        "Siglip",
        {**_HALVES, "size": {"height": 224, "width": 224}},
        word_head="text_model.head",
        picture_length="vision_config.hidden_size",
        padded=True,
        positions=64,
        lower_cases=True,
    ),
    "siglip2": Family(
        "SigLIP 2 of native resolution (NaFlex)",
        "Siglip2",
        {**_HALVES, "resample": 2, "patch_size": 16, "max_num_patches": 256},
        word_head="text_model.head",
        picture_length="vision_config.hidden_size",
        padded=True,
        positions=64,
        lower_cases=True,
        any_size=True,
        trainable=False,
    ),
    "metaclip_2": Family("MetaCLIP 2", "MetaClip2"),
    "tipsv2": Family(
        "TIPSv2",
        "Tipsv2",
        {**_COMMON, "size": {"height": 448, "width": 448}, "resample": 2, "do_normalize": False},
        word_head="",
        padded=True,
        positions=64,
        averages_words=True,
    ),
    "align": Family(
        "ALIGN",
        "Align",
        {**_IMAGENET, "size": {"height": 346, "width": 346}, "rescale_offset": False, "include_top": True},
        longest=64,
        positions=512,
        any_size=True,
    ),
    "altclip": Family("AltCLIP", "AltCLIP", positions=514, first_position=2),
    "chinese_clip": Family("Chinese CLIP", "ChineseCLIP", positions=512),
    "videoprism": Family(
        "VideoPrism",
        "VideoPrism",
        {**_CLIP, "size": {"height": 288, "width": 288}, "do_center_crop": False, "do_normalize": False},
        word_head="",
        picture_length="vision_config.hidden_size",
        padded=True,
        trainable=False,
        model="VideoPrismClipModel",
        windows=WindowInput("pixel_values_videos", "vision_config.num_frames", _SPREAD),
    ),
    "xclip": Family(
        "X-CLIP", "XCLIP", trainable=False, windows=WindowInput("pixel_values", "vision_config.num_frames", _SPREAD)
    ),
    "pe_video": _PE_VIDEO,
    "pe_audio_video": replace(_PE_VIDEO, title="PE-AV, pictures and captions", classes="PeAudioVideo"),
    "embedding_gemma2": Family(
        "EmbeddingGemma 2",
        "EmbeddingGemma2",
        {**_COMMON, "do_normalize": False, "patch_size": 16, "max_soft_tokens": 280, "pooling_kernel_size": 3},
        word_head="",
        longest=8192,
        trainable=False,
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
        "Qwen3VL",
        {**_HALVES, "patch_size": 16, "merge_size": 2},
        word_head="",
        longest=8192,
        trainable=False,
        instructions=Instructions(
            caption=_QWEN_TURNS % "Retrieve images or text relevant to the user's query.",
            picture=_QWEN_TURNS % "Represent the user's input.",
            empty="NULL",
            begin="<|vision_start|>",
            token="<|image_pad|>",
            end="<|vision_end|>",
            pooling="lasttoken",
            file="1_Pooling/config.json",
        ),
    ),
}
"""Families by `model_type` of config.json; SigLIP 2 of fixed resolution says `siglip`."""

OPEN_CLIP = Family("open_clip", "", word_head="", padded=True, trainable=False)
"""Models of open_clip, whose settings say how they see and read; see `evenreel.encoders.open_clip_files`."""
