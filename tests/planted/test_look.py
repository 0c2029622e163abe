"""Looks: none changes nothing; each knob does to a pixel what its formula says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from evenreel.planted import Entity, Look, Scene, draw_frame
from evenreel.planted.scenes import apply_look

SCENE = Scene((Entity("star", "red", "large"),), "rests", "beach", width=160, height=120)
FINE = st.integers(0, 255)


def _flat(colour: tuple[int, int, int]) -> Image.Image:
    return Image.new("RGB", (8, 8), colour)


def test_no_look_gives_the_very_picture() -> None:
    picture = _flat((1, 2, 3))
    assert apply_look(picture, Look()) is picture


@given(
    st.tuples(FINE, FINE, FINE),
    st.tuples(*[st.floats(0.5, 1.5)] * 3),
    st.floats(0, 1.5),
    st.floats(0.3, 1.5),
    st.floats(-40, 40),
)
def test_a_grading_is_saturation_then_tint_then_contrast_then_lift(
    colour: tuple[int, int, int],
    gains: tuple[float, float, float],
    saturation: float,
    contrast: float,
    lift: float,
) -> None:
    found = apply_look(_flat(colour), Look(gains, saturation, contrast, lift)).getpixel((4, 4))
    grey = 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]
    for value, gain, pixel in zip(colour, gains, found, strict=True):  # type: ignore[arg-type]
        tinted = gain * (grey + saturation * (value - grey))
        expected = min(max(127.5 + contrast * (tinted - 127.5) + lift, 0), 255)
        assert abs(pixel - expected) <= 1


@pytest.mark.parametrize("look", [Look(blur=0.02), Look(resolution=0.4)])
def test_soft_looks_take_fine_detail_and_keep_the_mean(look: Look) -> None:
    plain, soft = (draw_frame(replace(SCENE, look=each), 0.0).astype(float) for each in (Look(), look))
    assert np.abs(np.diff(soft, axis=1)).mean() < 0.8 * np.abs(np.diff(plain, axis=1)).mean()
    assert abs(soft.mean() - plain.mean()) < 1
