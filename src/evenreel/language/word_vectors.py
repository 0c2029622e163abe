"""Reader of pretrained word vectors in the text files that they are published in."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.types import FloatArray

_GZIP = b"\x1f\x8b"
_LONGEST_LINE = 1 << 20


def read_word_vectors(path: str | Path, words: Sequence[str]) -> tuple[NDArray[np.bool_], FloatArray]:
    """Read the pretrained vectors of some words from a text file in the form of GloVe or word2vec.

    GloVe's form is a word and its numbers a line; word2vec's has one line more at the start. Only the vectors asked for
    are kept in memory; the file may be packed with gzip. Where a word has several lines the first counts.

    Args:
        path: the file.
        words: W words as the file spells them.

    Returns:
        Which words the file has, boolean (W,), and their vectors (W, D), zero where it has none.

    Raises:
        UsageError: the file cannot be read, is empty, or a line is not a word and as many numbers as the first.
    """
    path = Path(path)
    rows: dict[bytes, list[int]] = {}
    for row, word in enumerate(words):
        rows.setdefault(word.encode(), []).append(row)
    found = np.zeros(len(words), np.bool_)
    try:
        with _opened(path) as stream:
            first, dimension = _first_line(stream, path)
            vectors = np.zeros((len(words), dimension), np.float32)
            for line in _lines(stream, first):
                if (vector := _vector(line, rows, dimension, path)) is not None:
                    places = rows.pop(vector.word)
                    found[places], vectors[places] = True, vector.values
    except (OSError, EOFError) as error:  # a broken gzip ends too early
        raise UsageError(f"The word vectors in {path} cannot be read: {error}.") from error
    return found, vectors


class _Line(NamedTuple):
    number: int
    text: bytes


class _Vector(NamedTuple):
    word: bytes
    values: FloatArray


def _opened(path: Path) -> BinaryIO | gzip.GzipFile:
    with path.open("rb") as stream:
        packed = stream.read(len(_GZIP)) == _GZIP
    return gzip.open(path) if packed else path.open("rb")


def _first_line(stream: BinaryIO | gzip.GzipFile, path: Path) -> tuple[_Line, int]:
    """The first line with a vector, and how many numbers it has."""
    number, parts = 1, stream.readline(_LONGEST_LINE).split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):  # word2vec: how many words, how many numbers
        number, parts = 2, stream.readline(_LONGEST_LINE).split()
    if len(parts) < 2:
        raise UsageError(f"Line {number} of {path} is no word with its vector; {_FORM}.")
    return _Line(number, b" ".join(parts)), len(parts) - 1


def _lines(stream: BinaryIO | gzip.GzipFile, first: _Line) -> Iterator[_Line]:
    yield first
    number = first.number
    while text := stream.readline(_LONGEST_LINE):
        number += 1
        yield _Line(number, text.rstrip())


def _vector(line: _Line, rows: Mapping[bytes, Sequence[int]], dimension: int, path: Path) -> _Vector | None:
    """The vector of a line, None where its word is not wanted; some published words have spaces."""
    if line.text.count(b" ") < dimension:
        raise _bad(line, dimension, path)
    if line.text.split(b" ", 1)[0] not in rows:
        return None
    word, *parts = line.text.rsplit(b" ", dimension)
    if word not in rows:
        return None
    try:
        values = np.array([float(part) for part in parts], np.float32)
    except ValueError as error:
        raise _bad(line, dimension, path) from error
    if not np.isfinite(values).all():
        raise _bad(line, dimension, path)
    return _Vector(word, values)


def _bad(line: _Line, dimension: int, path: Path) -> UsageError:
    return UsageError(f"Line {line.number:,} of {path} is not a word and {dimension} finite numbers; {_FORM}.")


_FORM = "give GloVe's or word2vec's text form, unpacked or as .gz"
