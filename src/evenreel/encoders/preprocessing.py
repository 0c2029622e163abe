"""Preprocessing of pictures for a tower, pixel for pixel as the checkpoint's own processor does it.

Processors resize with Pillow. `torch.nn.functional.interpolate(antialias=True)` looks like Pillow but differs
by up to 31 of 255 (measured, bicubic, noise): on floats it does not round between the two axes, on bytes its
weights are coarser and the axes may change places. Here each axis is one product with Pillow's own weights
(`Resample.c`: the same windows, fixed-point coefficients of 22 bits, rounding to bytes after each axis). Only the
part inside the cut is calculated, so a frame of extreme shape costs no more than another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenreel.encoders.families import FAMILIES
from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels

if TYPE_CHECKING:
    import torch

_BILINEAR, _BICUBIC = 2, 3  # Pillow's numbers
_FILTER_RADIUS = {_BILINEAR: 1.0, _BICUBIC: 2.0}
_QWEN_FEWEST, _QWEN_MOST = 4, 1800  # blocks of a picture
_WEIGHT_BITS = 22  # 32 - 8 - 2, PRECISION_BITS of Pillow's Resample.c

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
        mean: subtracted after scaling, one a channel.
        std: divided by then, one a channel.
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
    """Read the settings of an image processor, old forms included.

    Raises:
        EncoderError: the processor has an unknown step, or gives pictures of varying size.
    """
    given = {key: value for key, value in settings.items() if value is not None}
    values: dict[str, Any] = {**FAMILIES[family].processor, **given}
    if values.get("do_pad") or values["resample"] not in _FILTER_RADIUS:
        raise EncoderError(
            f"The image processor pads pictures or resizes with filter {values['resample']}; only bilinear (2) "
            "and bicubic (3) without padding are known."
        )
    try:
        preprocessing = _from_values(values)
    except (TypeError, ValueError, KeyError) as error:
        raise EncoderError(f"The settings of the image processor make no sense: {error!r}.") from error
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
    if min(side, block, most) < 1 or not values["do_resize"]:
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
    if isinstance(given, int):
        return dict.fromkeys(meaning_of_a_number, given)
    size = {key: int(value) for key, value in dict(given).items() if value is not None}
    if set(size) not in ({"shortest_edge"}, {"height", "width"}) or min(size.values()) < 1:
        raise ValueError(f"size {given}")
    return size


def _channels(given: Any, *, divisor: bool = False) -> _Channels:
    red, green, blue = (float(value) for value in given)
    if not np.isfinite([red, green, blue]).all() or (divisor and 0.0 in (red, green, blue)):
        raise ValueError(f"channels {given}")
    return red, green, blue


def prepare(pixels: torch.Tensor, preprocessing: Preprocessing) -> torch.Tensor:
    """Resize, cut, scale and normalise frames, on the device that they are on.

    Args:
        pixels: (N, 3, H, W) uint8.
        preprocessing: as the checkpoint wants it.

    Returns:
        (N, 3, h, w) float32.
    """
    return normalise(resize_and_crop(pixels, preprocessing), preprocessing)


def prepare_array(pixels: Pixels, preprocessing: Preprocessing) -> FloatArray:
    """Resize, cut, scale and normalise (N, 3, H, W) uint8 frames to (N, 3, h, w) without torch, as `prepare` does."""
    mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (preprocessing.mean, preprocessing.std))
    return (_resize_and_crop_array(pixels, preprocessing) * np.float32(preprocessing.scale) - mean) / std


def normalise(resized: torch.Tensor, preprocessing: Preprocessing) -> torch.Tensor:
    """Normalise (N, 3, h, w) values from 0 to 255 to float32, the arithmetic part of `prepare`."""
    import torch

    mean, std = (
        torch.tensor(values, device=resized.device).view(3, 1, 1) for values in (preprocessing.mean, preprocessing.std)
    )
    return (resized * preprocessing.scale - mean) / std


def resize_and_crop(pixels: torch.Tensor, preprocessing: Preprocessing) -> torch.Tensor:
    """Resize and crop (N, 3, H, W) uint8 to (N, 3, h, w) float32 of whole numbers from 0 to 255."""
    import torch

    if pixels.device.type == "cpu":
        return torch.from_numpy(_resize_and_crop_array(pixels.numpy(), preprocessing))
    axes = _Axes.of((pixels.shape[-2], pixels.shape[-1]), preprocessing)
    vertical, horizontal = (
        torch.from_numpy(weights).to(pixels.device, torch.float64) for weights in (axes.vertical, axes.horizontal)
    )
    frames = []
    for frame in pixels:
        part = frame[:, axes.rows, axes.columns].double()
        if axes.vertical_first:
            frames.append(_to_bytes(_to_bytes(vertical @ part) @ horizontal))
        else:
            frames.append(_to_bytes(vertical @ _to_bytes(part @ horizontal)))
    return torch.stack(frames).float()


def _resize_and_crop_array(pixels: Pixels, preprocessing: Preprocessing) -> FloatArray:
    """Do what `resize_and_crop` does in float32: half the time of float64, and off by one in a few of 100 000."""
    axes = _Axes.of((pixels.shape[-2], pixels.shape[-1]), preprocessing)
    vertical, horizontal = axes.vertical.astype(np.float32), axes.horizontal.astype(np.float32)
    frames = np.empty((len(pixels), 3, len(vertical), horizontal.shape[1]), np.float32)
    for frame, made in zip(pixels, frames, strict=True):
        part = frame[:, axes.rows, axes.columns].astype(np.float32)
        if axes.vertical_first:
            made[:] = _array_to_bytes(_array_to_bytes(vertical @ part) @ horizontal)
        else:
            made[:] = _array_to_bytes(vertical @ _array_to_bytes(part @ horizontal))
    return frames


@dataclass(frozen=True, eq=False)
class _Axes:
    """How pictures of one size are resized and cut: (h, S) and (S, w) weights, and the parts that they apply to."""

    vertical: NDArray[np.float64]
    rows: slice
    horizontal: NDArray[np.float64]
    columns: slice
    vertical_first: bool

    @classmethod
    def of(cls, source: tuple[int, int], preprocessing: Preprocessing) -> _Axes:
        target = preprocessing.target_size(*source)
        crop = preprocessing.crop or target
        (down, rows), (across, columns) = (
            axis_weights(
                source[axis],
                target[axis],
                crop[axis],
                preprocessing.resample,
                preprocessing.crop_start(target[axis], crop[axis]),
            )
            for axis in (0, 1)
        )
        return cls(down, rows, np.ascontiguousarray(across.T), columns, vertical_first(source, target))


def vertical_first(source: tuple[int, int], target: tuple[int, int]) -> bool:
    """True if Pillow resizes the height before the width; rounding in between makes it matter.

    Since Pillow 13 (its pull request 9549) it does so where more than twice as many rows as columns go. Which
    Pillow is installed makes no difference here, so the features of a library do not depend on it.
    """
    rows_gone, columns_gone = source[0] - target[0], source[1] - target[1]
    return rows_gone > 0 and rows_gone > 2 * columns_gone


def axis_weights(source: int, target: int, kept: int, resample: int, first: int) -> tuple[NDArray[np.float64], slice]:
    """Compute Pillow's weights along one axis, for a part of the result.

    Args:
        source: length before resizing.
        target: length after resizing.
        kept: how much of `target` is wanted; where it is longer, rows of zeros give the border.
        resample: Pillow's number of the filter.
        first: where in `target` that begins.

    Returns:
        (kept, S) weights, and the slice of S places of the source that they apply to.
    """
    wanted = np.arange(max(first, 0), min(first + kept, target))
    shrink = max(source / target, 1.0)
    reach = _FILTER_RADIUS[resample] * shrink
    centers = ((wanted + 0.5) * (source / target))[:, None]
    low = np.maximum((centers - reach + 0.5).astype(np.int64), 0)
    high = np.minimum((centers + reach + 0.5).astype(np.int64), source)
    places = np.arange(low.min(), high.max())
    weights = _filter((places - centers + 0.5) / shrink, resample)
    weights[(places < low) | (places >= high)] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    fixed = np.trunc(weights * 2**_WEIGHT_BITS + np.copysign(0.5, weights)) / 2**_WEIGHT_BITS
    result = np.zeros((kept, len(places)))
    result[wanted - first] = fixed
    return result, slice(int(places[0]), int(places[-1]) + 1)


def _filter(distance: NDArray[np.float64], resample: int) -> NDArray[np.float64]:
    x = np.abs(distance)
    if resample == _BILINEAR:
        return np.maximum(1.0 - x, 0.0)
    a = -0.5
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _to_bytes(values: torch.Tensor) -> torch.Tensor:
    """Round half up and clip, as Pillow does after each axis; the numbers stay floats."""
    return (values + 0.5).floor_().clamp_(0, 255)


def _array_to_bytes(values: FloatArray) -> FloatArray:
    """Do what `_to_bytes` does, in place."""
    values += 0.5
    np.floor(values, out=values)
    return np.clip(values, 0, 255, out=values)
