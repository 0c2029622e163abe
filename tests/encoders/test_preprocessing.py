"""Frames are prepared as the checkpoint's own processor does it: that processor, on Pillow, is the oracle."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import av
import numpy as np
import PIL
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from transformers import CLIPImageProcessorPil, SiglipImageProcessorPil
from transformers.models.siglip2.image_processing_pil_siglip2 import get_image_size_for_max_num_patches

from evenreel.encoders.preprocessing import Preprocessing, read_preprocessing
from evenreel.encoders.resizing import axis_weights, prepare, prepare_array, vertical_first
from evenreel.errors import EncoderError
from evenreel.types import Pixels
from tests.each import of_each

PILLOW = int(PIL.__version__.split(".")[0])
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


def noise(height: int, width: int, seed: int = 0) -> Pixels:
    """Black and white at random: the picture on which filters overshoot most."""
    values = np.random.default_rng(seed).integers(0, 2, (3, height, width)) * 255
    return values.astype(np.uint8)


def difference(pixels: Pixels, name: str) -> float:
    """Largest difference to the oracle, in steps of 1/255 before normalisation."""
    family, given_settings = SETTINGS[name]
    oracle = ORACLES[family](**given_settings)
    expected = oracle(pixels, return_tensors="np", input_data_format="channels_first")["pixel_values"][0]
    preprocessing = read_preprocessing(given_settings, family)
    source = (pixels.shape[1], pixels.shape[2])
    if PILLOW < 13 and vertical_first(source, preprocessing.target_size(*source)):
        pytest.skip("Pillow before 13 resizes every picture horizontally first")
    actual = prepare(torch.from_numpy(pixels)[None], preprocessing)[0].numpy()
    assert actual.shape == expected.shape
    steps = np.abs(actual - expected) * np.array(preprocessing.std)[:, None, None] / preprocessing.scale
    return float(steps.max())


@of_each(product(SETTINGS, SHAPES))
def test_at_most_one_step_from_the_processor(name: str, shape: tuple[int, int]) -> None:
    assert difference(noise(*shape), name) <= 1.001


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_at_most_one_step_on_real_frames(name: str, real_clips: Path) -> None:
    measured = {}
    for path in sorted(real_clips.glob("*.*")):
        frame = first_frame(path)
        if frame is not None:
            measured[path.name] = difference(frame, name)
    print(name, measured)
    assert len(measured) >= 10
    assert max(measured.values()) <= 1.001


def first_frame(path: Path) -> Pixels | None:
    try:
        with av.open(str(path)) as container:
            picture = next(container.decode(video=0)).to_ndarray(format="rgb24")
    except (av.FFmpegError, IndexError, StopIteration):
        return None
    return np.ascontiguousarray(picture.transpose(2, 0, 1))


@given(
    source=st.integers(1, 400), target=st.integers(1, 400), resample=st.sampled_from([2, 3]), seed=st.integers(0, 2**16)
)
def test_the_weights_of_an_axis_are_those_of_pillow(source: int, target: int, resample: int, seed: int) -> None:
    row = np.random.default_rng(seed).integers(0, 256, (1, source), dtype=np.uint8)
    expected = np.asarray(Image.fromarray(row).resize((target, 1), resample), dtype=np.int64)[0]
    weights, places = axis_weights(source, target, target, resample, 0)
    actual = np.clip(np.floor(weights @ row[0, places] + 0.5), 0, 255)
    np.testing.assert_array_equal(actual, expected)


def test_the_weights_of_a_case_worked_by_hand() -> None:
    weights, places = axis_weights(2, 4, 4, resample=2, first=0)
    assert places == slice(0, 2)
    np.testing.assert_allclose(weights, [[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]], atol=1e-6)


@given(source=st.integers(1, 300), target=st.integers(1, 300), kept=st.integers(1, 300))
def test_a_cut_has_the_middle_rows_of_the_whole(source: int, target: int, kept: int) -> None:
    whole, everything = axis_weights(source, target, target, resample=3, first=0)
    middle, places = axis_weights(source, target, kept, resample=3, first=(target - kept) // 2)
    dense = np.zeros((kept, source))
    dense[:, places] = middle
    full = np.zeros((target, source))
    full[:, everything] = whole
    first = (target - kept) // 2
    expected = [full[row] if 0 <= row < target else np.zeros(source) for row in range(first, first + kept)]
    np.testing.assert_array_equal(dense, expected)


def test_a_frame_of_extreme_shape_takes_no_memory_for_what_is_cut_away() -> None:
    pixels = noise(1, 16_000)  # resized whole it would be 224 x 3 584 000
    prepared = prepare(torch.from_numpy(pixels)[None], read_preprocessing({}, "clip"))
    assert prepared.shape == (1, 3, 224, 224)


@given(
    height=st.integers(1, 3000), width=st.integers(1, 3000), side=st.sampled_from([8, 14, 16]), most=st.integers(1, 400)
)
def test_a_picture_in_patches_has_the_size_of_the_processor(height: int, width: int, side: int, most: int) -> None:
    preprocessing = read_preprocessing({"patch_size": side, "max_num_patches": most}, "siglip2")
    expected = get_image_size_for_max_num_patches(height, width, side, most)
    assert preprocessing.target_size(height, width) == expected


def test_frames_of_a_batch_do_not_influence_each_other() -> None:
    batch = torch.from_numpy(np.stack([noise(40, 50, seed) for seed in range(3)]))
    preprocessing = read_preprocessing({"size": 32, "crop_size": 32}, "clip")
    one_by_one = torch.cat([prepare(frame[None], preprocessing) for frame in batch])
    torch.testing.assert_close(prepare(batch, preprocessing), one_by_one, rtol=0, atol=0)


def test_settings_that_are_not_given_are_those_of_the_family() -> None:
    assert read_preprocessing({"crop_size": None, "resample": None}, "clip") == read_preprocessing({}, "clip")
    assert read_preprocessing({}, "siglip") == Preprocessing(
        None, (224, 224), None, 3, 1 / 255, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
    )


@pytest.mark.parametrize(
    ("given_settings", "sentence"),
    [
        ({"resample": 1}, "resizes with filter 1"),
        ({"do_pad": True}, "pads pictures"),
        ({"size": {"longest_edge": 5}}, "make no sense"),
        ({"size": {"shortest_edge": 0}}, "make no sense"),
        ({"size": "large"}, "make no sense"),
        ({"image_mean": [0.5]}, "make no sense"),
        ({"image_std": [0.5, 0.0, 0.5]}, "make no sense"),
        ({"do_center_crop": False}, "varying size"),
        ({"do_resize": False, "do_center_crop": False}, "varying size"),
        ({"max_num_patches": 0, "patch_size": 16}, "make no sense"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(given_settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(EncoderError, match=sentence):
        read_preprocessing(given_settings, "clip")


@given(st.tuples(st.integers(1, 90), st.integers(1, 90)), st.sampled_from([2, 3]), st.booleans())
def test_without_extras_the_values_are_the_same_bit_for_bit(side: tuple[int, int], resample: int, cut: bool) -> None:
    how = read_preprocessing(
        {"size": {"shortest_edge": 24}, "crop_size": 24, "resample": resample}
        if cut
        else {"size": {"height": 17, "width": 30}, "do_center_crop": False, "resample": resample},
        "clip",
    )
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, *side), dtype=np.uint8)
    assert np.array_equal(prepare_array(pixels, how), prepare(torch.from_numpy(pixels), how).numpy())
