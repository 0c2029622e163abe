"""Resizing and cutting pictures for a tower, pixel for pixel as Pillow does it, with torch on a GPU and without it.

Processors resize with Pillow. `torch.nn.functional.interpolate(antialias=True)` looks like Pillow but differs
by up to 31 of 255 (measured, bicubic, noise): on floats it does not round between the two axes, on bytes its
weights are coarser and the axes may change places. Here each axis is one product with Pillow's own weights
(`Resample.c`: the same windows, fixed-point coefficients of 22 bits, rounding to bytes after each axis). Only the
part inside the cut is calculated, so a frame of extreme shape costs no more than another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenreel.encoders.preprocessing import BICUBIC, BILINEAR, Preprocessing
from evenreel.types import FloatArray, Pixels

if TYPE_CHECKING:
    import torch

_FILTER_RADIUS = {BILINEAR: 1.0, BICUBIC: 2.0}
_WEIGHT_BITS = 22  # 32 - 8 - 2, PRECISION_BITS of Pillow's Resample.c


def prepare(pixels: torch.Tensor, preprocessing: Preprocessing) -> torch.Tensor:
    """Resize, cut, scale and normalise frames, on the device that they are on."""
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
    """Return whether Pillow resizes the height before the width; rounding in between makes it matter.

    Since Pillow 13 (its pull request 9549) it does so where more than twice as many rows as columns go. Which
    Pillow is installed makes no difference here, so the features of a library do not depend on it.
    """
    rows_gone, columns_gone = source[0] - target[0], source[1] - target[1]
    return rows_gone > 0 and rows_gone > 2 * columns_gone


def axis_weights(source: int, target: int, kept: int, resample: int, first: int) -> tuple[NDArray[np.float64], slice]:
    """Compute Pillow's weights along one axis, for a part of the result."""
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
    if resample == BILINEAR:
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
