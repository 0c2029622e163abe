"""Word vectors of others, read from text."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from evenreel.errors import UsageError
from evenreel.language.wording import read_word_vectors

GLOVE = "the 0.5 -1 2\nat name 1 1 1\ncat 3 4 5e-1 \nnaïve 7 8 9\ncat 0 0 0\n"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", ["", "5 3\n"])
def test_only_the_words_asked_for(tmp_path: Path, header: str, *, packed: bool) -> None:
    """The first line of a word counts, a word with spaces is one word, and a word may be asked for twice."""
    place = tmp_path / "vectors.txt"
    text = (header + GLOVE).encode()
    place.write_bytes(gzip.compress(text) if packed else text)
    found, vectors = read_word_vectors(place, ["cat", "dog", "naïve", "at", "cat"])
    assert found.tolist() == [True, False, True, False, True]
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[3, 4, 0.5], [0, 0, 0], [7, 8, 9], [0, 0, 0], [3, 4, 0.5]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("the 1 2\ncat 1\n", "Line 2 of .* is not a word and 2 finite numbers"),
        ("the 1 2\n\ncat 1 2\n", "Line 2 of"),
        ("the 1 2\ncat 1 two\n", "Line 2 of"),
        ("the 1 2\ncat 1 nan\n", "Line 2 of"),
        ("", "Line 1 of .* is no word with its vector"),
        ("2 3\n", "Line 2 of .* is no word with its vector; give GloVe's or word2vec's text form, unpacked or as"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, text: str, why: str) -> None:
    place = tmp_path / "vectors.txt"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=why):
        read_word_vectors(place, ["cat"])


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"word vectors in .*none\.txt cannot be read: .*No such file"):
        read_word_vectors(tmp_path / "none.txt", ["cat"])
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(GLOVE.encode())[:-9])
    with pytest.raises(UsageError, match="cannot be read"):
        read_word_vectors(broken, ["cat"])


def test_a_pickle_or_a_binary_file_is_no_text(tmp_path: Path) -> None:
    place = tmp_path / "vectors.bin"
    place.write_bytes(b"2 3\nthe " + np.ones(3, np.float32).tobytes() + b"cat " + np.ones(3, np.float32).tobytes())
    with pytest.raises(UsageError, match=r"is not a word and|is no word with"):
        read_word_vectors(place, ["cat", "the"])
