"""How a checkpoint's own processor prepares pictures: sizes, cut, filter and range, read off its settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from evenreel.documents import brief
from evenreel.encoders.families import FAMILIES
from evenreel.errors import EncoderError

BILINEAR, BICUBIC = 2, 3
"""Numbers of filters in Pillow."""
LONGEST_SIDE = 4_096
"""Most pixels along a side of a prepared picture; models take some 224 to 1,024."""
_QWEN_FEWEST, _QWEN_MOST = 4, 1800  # blocks of a picture

_Channels: TypeAlias = tuple[float, float, float]


@dataclass(frozen=True)
class Preprocessing:
    """Settings of how a processor prepares a picture.

    Attributes:
        shortest_edge: length that the shorter side is resized to; None where `resized` rules.
        resized: height and width that a picture is resized to; None for neither: no resizing.
        crop: height and width that are cut out of the middle, filled up with black; None for no cut.
        resample: Pillow's number of the filter, 2 bilinear or 3 bicubic.
        scale: factor on the values from 0 to 255.
        mean: numbers to subtract after scaling, one a channel.
        std: numbers to divide by after that, one a channel.
    """

    shortest_edge: int | None
    resized: tuple[int, int] | None
    crop: tuple[int, int] | None
    resample: int
    scale: float
    mean: _Channels
    std: _Channels

    @property
    def output_size(self) -> tuple[int, int] | None:
        """Height and width of every prepared picture; None if they depend on the picture."""
        return self.crop or self.resized

    @property
    def uncropped(self) -> Preprocessing:
        """Return settings that squeeze the whole picture into the output's size and cut nothing off."""
        return replace(self, shortest_edge=None, resized=self.output_size, crop=None)

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the part of a picture that the crop keeps, in pixels."""
        target = self.target_size(height, width)
        kept = self.crop or target
        down, across = (
            (max(0, self.crop_start(whole, part)) * side / whole, min(whole, part) * side / whole)
            for whole, part, side in zip(target, kept, (height, width), strict=True)
        )
        return across[0], down[0], across[0] + across[1], down[0] + down[1]

    def crop_start(self, whole: int, part: int) -> int:
        """Return where a crop of a length begins; below 0, that is a border."""
        return (whole - part) // 2

    def target_size(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width of a picture after resizing, before the crop."""
        if self.resized is not None:
            return self.resized
        if self.shortest_edge is None:
            return height, width
        longer = int(self.shortest_edge * max(height, width) / min(height, width))
        return (longer, self.shortest_edge) if width <= height else (self.shortest_edge, longer)


@dataclass(frozen=True)
class RoundedCropPreprocessing(Preprocessing):
    """Settings of torchvision's steps, which open_clip takes: a crop begins at half the rest, rounded to even."""

    def crop_start(self, whole: int, part: int) -> int:
        """Return where a crop of a length begins; below 0, that is a border."""
        return round((whole - part) / 2)


@dataclass(frozen=True)
class PatchPreprocessing(Preprocessing):
    """Settings of a processor that keeps the shape of a picture, as SigLIP 2's of native resolution (NaFlex).

    Attributes:
        patch_side: height and width of a patch, of which both sides of the resized picture are multiples.
        most_patches: most patches that a picture is resized to.
    """

    patch_side: int
    most_patches: int

    def target_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the largest height and width in whole patches that keep the shape within the number of patches."""
        low, high = 1e-6, 100.0
        while high - low >= 1e-5:  # the processor's own search, whose last step decides the size
            scale = (low + high) / 2
            rows, columns = self._patches(height, scale), self._patches(width, scale)
            low, high = (scale, high) if rows * columns <= self.most_patches else (low, scale)
        return self._patches(height, low) * self.patch_side, self._patches(width, low) * self.patch_side

    def _patches(self, length: int, scale: float) -> int:
        return max(1, math.ceil(length * scale / self.patch_side))


@dataclass(frozen=True)
class BlockPreprocessing(PatchPreprocessing):
    """Settings of a processor that keeps the shape of a picture and makes one token of each square block of patches.

    Attributes:
        block: number of patches along a side of a block.
    """

    block: int

    @property
    def block_side(self) -> int:
        """Return the height and width of a block in pixels; both sides of a resized picture are multiples of it."""
        return self.patch_side * self.block


@dataclass(frozen=True)
class GemmaPreprocessing(BlockPreprocessing):
    """Settings of Gemma 4's processor, which EmbeddingGemma 2 has."""

    def target_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the largest height and width in whole blocks that keep the shape within the number of patches."""
        factor = math.sqrt(self.most_patches * self.patch_side**2 / (height * width))
        rows, columns = (math.floor(factor * length / self.block_side) for length in (height, width))
        most = self.most_patches // self.block**2
        if rows == 0:  # a strip is one block high, and as many wide as it is times as wide as high
            rows, columns = 1, min(width // height, most)
        elif columns == 0:
            rows, columns = min(height // width, most), 1
        return rows * self.block_side, columns * self.block_side


@dataclass(frozen=True)
class QwenPreprocessing(BlockPreprocessing):
    """Settings of `qwen_vl_utils`, by which the maker of Qwen3-VL-Embedding resizes pictures."""

    def target_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the nearest height and width in whole blocks, within 4 and 1,800 of them."""
        side, most = self.block_side, self.most_patches * self.patch_side**2
        rows, columns = (max(1, round(length / side)) for length in (height, width))
        if rows * columns * side**2 > most:
            shrink = math.sqrt(height * width / most)
            rows, columns = (max(1, math.floor(length / shrink / side)) for length in (height, width))
        elif rows * columns < _QWEN_FEWEST:
            grow = math.sqrt(_QWEN_FEWEST * side**2 / (height * width))
            rows, columns = (math.ceil(length * grow / side) for length in (height, width))
        return rows * side, columns * side


def read_preprocessing(settings: Mapping[str, Any], family: str) -> Preprocessing:
    """Read the settings of an image processor, old forms included."""
    given = {key: value for key, value in settings.items() if value is not None}
    values: dict[str, Any] = {**FAMILIES[family].processor, **given}
    if values.get("do_pad") or values["resample"] not in (BILINEAR, BICUBIC):
        raise EncoderError(
            f"The image processor pads pictures or resizes with filter {brief(values['resample'])}; only bilinear (2) "
            "and bicubic (3) without padding are known."
        )
    try:
        preprocessing = _from_values(values)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise EncoderError(f"The settings of the image processor make no sense: {brief(error, 200)}.") from error
    if preprocessing.output_size is None and not isinstance(preprocessing, PatchPreprocessing):
        raise EncoderError("The image processor makes pictures of varying size; a tower takes one size only.")
    return preprocessing


def _from_values(values: Mapping[str, Any]) -> Preprocessing:
    of_patches = any(name in values for name in ("max_num_patches", "max_soft_tokens", "merge_size"))
    size = {} if of_patches else _size(values["size"], ("shortest_edge",))
    crop = _size(values["crop_size"], ("height", "width")) if values["do_center_crop"] else {}
    resize = bool(values["do_resize"])
    mean, std = _affine(values)
    steps: dict[str, Any] = {
        "shortest_edge": size.get("shortest_edge") if resize else None,
        "resized": (size["height"], size["width"]) if resize and "height" in size else None,
        "crop": (crop["height"], crop["width"]) if crop else None,
        "resample": int(values["resample"]),
        "scale": float(values["rescale_factor"]) if values["do_rescale"] else 1.0,
        "mean": mean,
        "std": std,
    }
    return _of_patches(values, steps) if of_patches else Preprocessing(**steps)


def _of_patches(values: Mapping[str, Any], steps: dict[str, Any]) -> PatchPreprocessing:
    """Settings of a processor that keeps the shape of pictures; `steps` are those that others have too."""
    side = int(values["patch_size"])
    block = int(values.get("pooling_kernel_size", values.get("merge_size", 1)))
    if "max_num_patches" in values:
        most = int(values["max_num_patches"])
    else:
        most = int(values.get("max_soft_tokens", _QWEN_MOST)) * block**2
    if min(side, block, most) < 1 or most * side**2 > LONGEST_SIDE**2 or not values["do_resize"]:
        raise ValueError(f"{most} patches of {side}, resized: {values['do_resize']}")
    steps |= {"patch_side": side, "most_patches": most}
    if "max_num_patches" in values:
        return PatchPreprocessing(**steps)
    kind = GemmaPreprocessing if "max_soft_tokens" in values else QwenPreprocessing
    return kind(**steps, block=block)


def _affine(values: Mapping[str, Any]) -> tuple[_Channels, _Channels]:
    """What is subtracted of scaled values, one a channel, and what they are divided by then.

    `rescale_offset` and `include_top` are steps of EfficientNet's processor, which ALIGN has.
    """
    mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    if values["do_normalize"]:
        mean, std = _channels(values["image_mean"]), _channels(values["image_std"], divisor=True)
    if values.get("rescale_offset") and values["do_rescale"]:
        mean = (mean[0] + 1, mean[1] + 1, mean[2] + 1)
    if values.get("include_top"):
        top = _channels(values["image_std"], divisor=True)
        std = (std[0] * top[0], std[1] * top[1], std[2] * top[2])
    return mean, std


def _size(given: Any, meaning_of_a_number: tuple[str, ...]) -> dict[str, int]:
    """A size in any of its forms as a dictionary of positive whole numbers."""
    named = dict.fromkeys(meaning_of_a_number, given) if isinstance(given, int) else dict(given)
    size = {key: int(value) for key, value in named.items() if value is not None}
    sizes = set(size) in ({"shortest_edge"}, {"height", "width"})
    if not sizes or not 1 <= min(size.values()) <= max(size.values()) <= LONGEST_SIDE:
        raise ValueError(f"size {given}")
    return size


def _channels(given: Any, *, divisor: bool = False) -> _Channels:
    red, green, blue = (float(value) for value in given)
    if not np.isfinite([red, green, blue]).all() or (divisor and 0.0 in (red, green, blue)):
        raise ValueError(f"channels {given}")
    return red, green, blue
