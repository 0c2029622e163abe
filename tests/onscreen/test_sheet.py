"""Sheets of dark letters on white paper are read line by line, whatever their size."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from evenreel.onscreen.scene import SheetReader
from evenreel.types import Pixels


@pytest.fixture(scope="module")
def reader() -> SheetReader:
    return SheetReader()


def sheet(px: int, *lines: tuple[int, float, str]) -> Pixels:
    """Words at places, in letters of a height."""
    face = ImageFont.load_default(px)
    picture = Image.new("L", (30 * px, int(2 * px * (1 + max(row for _, row, _ in lines)))), 255)
    for column, row, words in lines:
        ImageDraw.Draw(picture).text((column * px, int(2 * px * row)), words, 0, font=face)
    return np.asarray(picture)


@pytest.mark.parametrize("px", [9, 14, 30, 60, 160])
def test_letters_of_any_size_are_read(reader: SheetReader, px: int) -> None:
    words, confidence = reader.read(sheet(px, (1, 0, "The old house"), (1, 1, "by the river.")))
    assert words == "The old house by the river."
    assert confidence > 0.9


def test_words_side_by_side_are_one_line(reader: SheetReader) -> None:
    both = sheet(30, (16, 0, "is late."), (1, 0.1, "The train"), (1, 1, "Let us walk."))
    assert reader.read(both)[0] == "The train is late. Let us walk."


def test_a_sheet_without_letters_says_nothing(reader: SheetReader) -> None:
    for blank in (np.full((40, 300), 255, np.uint8), np.zeros((1, 1), np.uint8), np.zeros((4000, 3), np.uint8)):
        assert reader.read(blank) == ("", 0.0)


def test_languages_of_scripts_that_are_not_read_are_told(reader: SheetReader) -> None:
    read = ("en", "pt-BR", "vi", "zh", "zh-TW", "ja", "sr-Latn", None)
    assert all(map(reader.can_read, read))
    assert not any(map(reader.can_read, ("ru", "el", "ko", "ar", "he", "th", "hi", "sr", "uk")))
