"""Kinds of models that are understood, and all that sets one apart from another. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SQUEEZED: dict[str, Any] = {
    "do_resize": True,
    "resample": 3,
    "do_center_crop": False,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
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
    """What an embedder reads around a caption (a query) and a picture (a document), as its maker publishes it.

    Attributes:
        caption, picture: texts with `{}` where the caption goes, or the tokens of the picture.
        empty: what stands for a caption without a character.
        begin, token, end: names of the tokens before a picture, in the place of each part of it, and after it.
        pooling: token whose vector stands for all: `mean` of them, or the `lasttoken`.
        file: file that sets an embedder apart from a chat model of the same kind; empty where there is none.
        options: what the maker gives the processor of pictures beside the settings of the checkpoint.
    """

    caption: str
    picture: str
    empty: str
    begin: str
    token: str
    end: str
    pooling: str
    file: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A kind of model of transformers, whose Auto classes load it, and what sets it apart from the others.

    Attributes:
        processor: settings of its image processor, where the files of a checkpoint do not give them; None where its
            own processor prepares pictures, which then have any size.
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
        frames: name of several frames among the arguments of `get_video_features`; empty for single pictures.
        instructions: what it reads around captions and pictures, where one tower reads both; None for two towers.
    """

    title: str
    processor: Mapping[str, Any] | None = field(default_factory=lambda: _CLIP)
    word_head: str = "text_projection"
    picture_length: str = ""
    padded: bool = False
    longest: int | None = None
    positions: int = 77
    first_position: int = 0
    lower_cases: bool = False
    averages_words: bool = False
    any_size: bool = False
    frames: str = ""
    instructions: Instructions | None = None

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
