"""How a checkpoint's own processor prepares pictures, read off its settings and done with Pillow, as the makers do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from evenreel.documents import brief
from evenreel.encoders.families import FAMILIES
from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels

LONGEST_SIDE = 4_096
"""Most pixels along a side of a prepared picture; models take some 224 to 1,024."""
_MOST_PIXELS = 2**24  # of a picture that is resized whole, whatever its shape
_BILINEAR_BICUBIC = (2, 3)

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
        mean, std: numbers to subtract after scaling, and to divide by after that, one a channel.
    """

    shortest_edge: int | None
    resized: tuple[int, int] | None
    crop: tuple[int, int] | None
    resample: int
    scale: float
    mean: _Channels
    std: _Channels

    @property
    def output_size(self) -> tuple[int, int]:
        """Height and width of every prepared picture."""
        size = self.crop or self.resized
        assert size is not None, "read_preprocessing refuses pictures of varying size"
        return size

    @property
    def uncropped(self) -> Preprocessing:
        """Settings that squeeze the whole picture into the output's size and cut nothing off."""
        return replace(self, shortest_edge=None, resized=self.output_size, crop=None)

    def seen_box(self, height: int, width: int) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the part of a picture that is kept, in pixels."""
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
        box = (across.source[0], down.source[0], across.source[1], down.source[1])
        shrinks = height >= 2 * down.whole and width >= 2 * across.whole and height <= 2 * width
        inside_alone = shrinks or down.whole * across.whole > _MOST_PIXELS
        made = np.zeros((*pixels.shape[:2], *self.output_size), np.uint8)
        for frame, result in zip(pixels, made, strict=True):
            for plane, kept in zip(frame, result, strict=True):
                picture, inside = Image.fromarray(plane), kept[down.place, across.place]
                if inside_alone:
                    inside[:] = picture.resize(inside.shape[::-1], how, box)
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


def read_preprocessing(settings: Mapping[str, Any], family: str) -> Preprocessing:
    """Read the settings of an image processor, old forms included."""
    given = {key: value for key, value in settings.items() if value is not None}
    values: dict[str, Any] = {**(FAMILIES[family].processor or {}), **given}
    if values.get("do_pad") or values["resample"] not in _BILINEAR_BICUBIC:
        raise EncoderError(
            f"The image processor pads pictures or resizes with filter {brief(values['resample'])}; only bilinear (2) "
            "and bicubic (3) without padding are known."
        )
    try:
        size = _size(values["size"], ("shortest_edge",)) if values["do_resize"] else {}
        crop = _size(values["crop_size"], ("height", "width")) if values["do_center_crop"] else {}
        scale = float(values["rescale_factor"]) if values["do_rescale"] else 1.0
        mean, std = _channels(values["image_mean"]), _channels(values["image_std"], divisor=True)
        normalises, offset = values["do_normalize"], float(bool(values.get("rescale_offset") and values["do_rescale"]))
        # The last two steps are those of EfficientNet's processor, which ALIGN has.
        subtracted = [(one if normalises else 0.0) + offset for one in mean]
        divided = [(one if normalises else 1.0) * (one if values.get("include_top") else 1.0) for one in std]
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
        mean=(subtracted[0], subtracted[1], subtracted[2]),
        std=(divided[0], divided[1], divided[2]),
    )


def _size(given: Any, meaning_of_a_number: tuple[str, ...]) -> dict[str, int]:
    """A size in any of its forms as a dictionary of positive whole numbers."""
    named = dict.fromkeys(meaning_of_a_number, given) if isinstance(given, int) else dict(given)
    size = {key: int(value) for key, value in named.items() if value is not None}
    known = set(size) in ({"shortest_edge"}, {"height", "width"})
    if not known or not 1 <= min(size.values()) <= max(size.values()) <= LONGEST_SIDE:
        raise ValueError(f"size {given}")
    return size


def _channels(given: Any, *, divisor: bool = False) -> list[float]:
    channels = [float(value) for value in given]
    if len(channels) != 3 or not np.isfinite(channels).all() or (divisor and 0.0 in channels):
        raise ValueError(f"channels {given}")
    return channels
