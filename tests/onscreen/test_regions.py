"""Masks and rectangles against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from evenreel.onscreen.scene import CELL_PX, cells_of, rectangles, under, whole_cells

masks = arrays.arrays(np.bool_, arrays.array_shapes(min_dims=2, max_dims=2, max_side=14))


@given(masks, st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_rectangles_are_disjoint_and_cover_every_cell_with_its_margin(
    mask: np.ndarray[tuple[int, int], np.dtype[np.bool_]], margin: tuple[int, int]
) -> None:
    times_covered = np.zeros(mask.shape, int)
    for rect in rectangles(mask, margin):
        times_covered[rect.cells] += 1
    assert times_covered.max(initial=0) <= 1
    for row, column in np.argwhere(mask):
        around = times_covered[
            max(row - margin[0], 0) : row + margin[0] + 1, max(column - margin[1], 0) : column + margin[1] + 1
        ]
        assert around.all()


def test_an_empty_mask_has_no_rectangles_and_a_full_one_has_one() -> None:
    assert rectangles(np.zeros((3, 4), np.bool_)) == []
    (whole,) = rectangles(np.ones((3, 4), np.bool_))
    assert whole.pixels == (slice(0, 3 * CELL_PX), slice(0, 4 * CELL_PX))


@given(masks, st.integers(1, 9), st.integers(1, 9))
def test_a_cell_is_true_where_any_of_its_pixels_is(
    mask: np.ndarray[tuple[int, int], np.dtype[np.bool_]], rows: int, columns: int
) -> None:
    cells = cells_of(mask, rows, columns)
    height, width = mask.shape
    for y, x in np.argwhere(mask):
        centre = int((y + 0.5) * rows / height), int((x + 0.5) * columns / width)
        # A pixel far smaller than a cell may fall between two cells; its centre's cell always has it.
        if rows <= height and columns <= width:
            assert cells[centre]
    assert cells.any() == mask.any() or rows > height or columns > width


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(1, 50))
def test_a_box_always_lies_over_some_cell(a: float, b: float, c: float, d: float, side: int) -> None:
    box = (min(a, b), min(c, d), max(a, b), max(c, d))
    part = np.zeros((side, side), np.bool_)
    part[under(box, part.shape)] = True
    assert part.any()


def test_sides_are_whole_cells_and_never_none() -> None:
    assert [whole_cells(px) for px in (0, 1, 47, 49, 736)] == [32, 32, 32, 64, 736]
