"""Frames are prepared as the checkpoint's own processor does it: that processor is the oracle."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import CLIPImageProcessorPil, SiglipImageProcessorPil

from evenreel.encoders.checkpoint import FAMILIES, Preprocessing, read_preprocessing
from evenreel.errors import EncoderError
from evenreel.types import Pixels
from tests.each import of_each

ORACLES: dict[str, Any] = {"clip": CLIPImageProcessorPil, "siglip": SiglipImageProcessorPil}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "clip": ("clip", {}),
    "clip bilinear 336": ("clip", {"size": {"shortest_edge": 336}, "crop_size": 336, "resample": 2}),
    "clip old form": ("clip", {"size": 64, "crop_size": 64, "resample": 3, "do_center_crop": True}),
    "clip squashed": ("clip", {"size": {"height": 48, "width": 64}, "do_center_crop": False}),
    "clip wider cut than picture": ("clip", {"size": {"shortest_edge": 48}, "crop_size": 65}),
    "clip cut only": ("clip", {"do_resize": False, "crop_size": {"height": 50, "width": 31}}),
    "clip bare": ("clip", {"do_normalize": False, "do_rescale": False}),
    "siglip": ("siglip", {}),
    "siglip 2": ("siglip", {"size": {"height": 256, "width": 256}, "resample": 2}),
    "siglip oblong": ("siglip", {"size": {"height": 40, "width": 70}}),
}
SHAPES = [(224, 224), (240, 320), (100, 37), (37, 53), (225, 223), (1080, 1920), (721, 1281), (3, 500), (500, 3)]
SHAPES += [(1, 1), (16, 17), (640, 360), (900, 300)]


def noise(height: int, width: int) -> Pixels:
    """Black and white at random: the picture on which filters overshoot most."""
    return (np.random.default_rng(0).integers(0, 2, (3, height, width)) * 255).astype(np.uint8)


def difference(pixels: Pixels, name: str) -> float:
    """Largest difference to the oracle, in steps of 1/255 before normalisation."""
    family, settings = SETTINGS[name]
    oracle = ORACLES[family](**settings)
    expected = oracle(pixels, return_tensors="np", input_data_format="channels_first")["pixel_values"][0]
    how = read_preprocessing(settings, FAMILIES[family])
    found = how.prepare(pixels[None])[0]
    assert found.shape == expected.shape and found.dtype == np.float32
    return float((np.abs(found - expected) * np.array(how.std)[:, None, None] / how.scale).max())


@of_each(product(SETTINGS, SHAPES))
def test_at_most_one_step_from_the_processor(name: str, shape: tuple[int, int]) -> None:
    assert difference(noise(*shape), name) <= 1.001


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_at_most_one_step_on_real_frames(name: str, real_clips: Path) -> None:
    frames = [frame for path in sorted(real_clips.glob("*.*")) if (frame := first_frame(path)) is not None]
    assert len(frames) >= 10
    assert max(difference(frame, name) for frame in frames) <= 1.001


def first_frame(path: Path) -> Pixels | None:
    try:
        with av.open(str(path)) as container:
            picture = next(container.decode(video=0)).to_ndarray(format="rgb24")
    except (av.FFmpegError, IndexError, StopIteration):
        return None
    return np.ascontiguousarray(picture.transpose(2, 0, 1))


@given(height=st.integers(1, 90), width=st.integers(1, 90), crop=st.integers(1, 90))
def test_what_is_seen_is_what_changes_the_result(height: int, width: int, crop: int) -> None:
    how = read_preprocessing({"size": {"shortest_edge": 24}, "crop_size": crop}, FAMILIES["clip"])
    left, top, right, bottom = how.seen_box(height, width)
    assert 0 <= left < right <= width and 0 <= top < bottom <= height
    inside = np.zeros((1, 3, height, width), np.uint8)
    around = 2 * max(1.0, min(height, width) / 24) + 1  # a cubic filter reaches two pixels of the smaller picture
    rows, columns = (
        slice(max(0, int(low - around)), int(high + around) + 1) for low, high in ((top, bottom), (left, right))
    )
    inside[..., rows, columns] = 255
    made = how.resize(inside)
    assert made.shape == (1, 3, crop, crop)
    assert made[..., crop // 2, crop // 2].min() == 255


def test_a_frame_of_extreme_shape_takes_no_memory_for_what_is_cut_away() -> None:
    pixels = noise(1, 16_000)  # resized whole it would be 224 x 3 584 000
    assert read_preprocessing({}, FAMILIES["clip"]).resize(pixels[None]).shape == (1, 3, 224, 224)


def test_settings_that_are_not_given_are_those_of_the_family() -> None:
    clip, siglip = FAMILIES["clip"], FAMILIES["siglip"]
    assert read_preprocessing({"crop_size": None, "resample": None}, clip) == read_preprocessing({}, clip)
    halves = (0.5, 0.5, 0.5)
    assert read_preprocessing({}, siglip) == Preprocessing(None, (224, 224), None, 3, 1 / 255, halves, halves)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"resample": 1}, "resizes with filter 1"),
        ({"do_pad": True}, "pads pictures"),
        ({"size": {"longest_edge": 5}}, "make no sense"),
        ({"size": {"shortest_edge": 0}}, "make no sense"),
        ({"size": "large"}, "make no sense"),
        ({"image_mean": [0.5]}, "make no sense"),
        ({"image_std": [0.5, 0.0, 0.5]}, "make no sense"),
        ({"image_std": [0.5, "x", float("nan")]}, "make no sense"),
        ({"do_center_crop": False}, "varying size"),
        ({"do_resize": False, "do_center_crop": False}, "varying size"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EncoderError, match=sentence):
        read_preprocessing(settings, FAMILIES["clip"])
