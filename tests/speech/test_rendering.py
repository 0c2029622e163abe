"""Subtitles in pictures as dark letters on white paper, held against the letters that were drawn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from evenreel.speech.streams import Area
from evenreel.speech.streams import drawn as rendered
from evenreel.types import Pixels
from tests.speech.picture_files import Drawing, Look, drawn

LOOKS = {
    "white, outlined": Look(),
    "thin outline": Look(outline_px=1),
    "grey, outlined": Look(letters=150),
    "dark, light outline": Look(letters=16, outline=235),
    "white alone": Look(outline_px=0),
    "dark alone": Look(letters=30, outline_px=0),
    "white in a box": Look(boxed=True),
    "dark in a light box": Look(letters=16, outline=200, boxed=True),
}


def area_of(drawing: Drawing, x: int = 0, y: int = 0) -> Area:
    colours = np.zeros((256, 2), np.uint8)
    for index, colour in drawing.colours.items():
        colours[index] = colour
    return Area(x, y, drawing.indices, colours)


def letters_of(words: str, look: Look) -> NDArray[np.bool_]:
    """Where the letters alone are: what of a drawing without an outline is more than half opaque."""
    bare = drawn(words, 40, Look(letters=look.letters, outline_px=0))
    seen = np.array([bare.colours[index][1] for index in range(33)])[bare.indices] > 127
    return within(seen)


def within(seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    return seen[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def dark(sheet: Pixels | None) -> NDArray[np.bool_]:
    assert sheet is not None
    return within(sheet < 128)


@pytest.mark.parametrize("name", LOOKS)
def test_letters_are_black_on_white_whatever_they_are_on_screen(name: str) -> None:
    look = LOOKS[name]
    found, letters = dark(rendered([area_of(drawn("Ribbon", 40, look))])), letters_of("Ribbon", look)
    assert np.abs(np.subtract(found.shape, letters.shape)).max() <= 2  # of a softened edge
    height, width = np.minimum(found.shape, letters.shape)
    best = max(
        (shifted(found, down, right)[:height, :width] == letters[:height, :width]).mean()
        for down in range(3)
        for right in range(3)
    )
    assert best > 0.93


def shifted(mask: NDArray[np.bool_], down: int, right: int) -> NDArray[np.bool_]:
    return np.pad(mask, ((down, 0), (right, 0)))[: mask.shape[0], : mask.shape[1]]


def test_a_fade_looks_the_same_until_nobody_sees_it() -> None:
    drawing = drawn("Ribbon", 40)
    whole = rendered([area_of(drawing)])
    for share in (0.8, 0.5, 0.25):
        faded = rendered([area_of(drawing.faded(share))])
        assert np.array_equal(dark(faded), dark(whole))
    assert rendered([area_of(drawing.faded(0.1))]) is None


def test_areas_stand_below_one_another_from_top_to_bottom() -> None:
    top, bottom = drawn("Upper", 40), drawn("A lower line", 40)
    together = rendered([area_of(bottom, 5, 400), area_of(top, 300, 20)])
    assert together is not None
    filled = np.flatnonzero((together < 128).any(axis=1))
    middle = filled[np.argmax(np.diff(filled)) + 1]
    assert np.array_equal(dark(together[:middle]), dark(rendered([area_of(top)])))
    assert np.array_equal(dark(together[middle:]), dark(rendered([area_of(bottom)])))


def test_nothing_is_rendered_of_nothing() -> None:
    blank = Drawing(np.zeros((20, 30), np.uint8), {0: (235, 0)})
    assert rendered([]) is None
    assert rendered([area_of(blank)]) is None
    plain = Drawing(np.ones((20, 30), np.uint8), {1: (235, 255)})
    sheet = rendered([area_of(plain)])
    assert sheet is not None  # a white block is a block
    assert dark(sheet).all()
