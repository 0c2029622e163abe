"""What searches that wait have in common, done once for all: texts encoded together, clips scanned in one pass.

A search that follows finds both done and is answered as it would be alone: the codes of vectors are whole numbers, so
that a scan of many queries gives each the similarities of a scan of its own.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from evenreel.arrays import Indices
from evenreel.errors import EvenreelError
from evenreel.library.search.asked import read_query
from evenreel.library.search.gallery import Opened
from evenreel.library.search.query import captions_of, readable, unit
from evenreel.library.store.codes import HalfArray
from evenreel.library.store.vectors import VectorIndex
from evenreel.library.store.writer import open_vectors
from evenreel.types import Encoder, FloatArray

PAYS_FROM = 2
"""Number of queries from which one pass for all takes less time than one for each."""
MOST = 16
"""Most queries whose scores are kept at a time."""


class ScannedAhead:
    """Vectors of a library, with the scores of some queries that were scanned together."""

    def __init__(self, vectors: VectorIndex, version: Callable[[], object]) -> None:
        self._vectors, self._version = vectors, version
        self._scanned: dict[bytes, FloatArray] = {}
        self._of: tuple[object, Indices, Indices] | None = None

    @property
    def dimension(self) -> int:
        """D, the length of a vector."""
        return self._vectors.dimension

    def scan_ahead(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> None:
        """Scan for some queries (Q, D) in one pass; the scores are kept until others are."""
        self._of, self._scanned = None, {}
        if len(queries) >= PAYS_FROM:
            scores = self._vectors.scan(queries[:MOST], first_rows, counts)
            self._scanned = {query.tobytes(): row for query, row in zip(queries, scores, strict=False)}
            self._of = self._version(), first_rows, counts

    def scan(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score as `best_per_clip`, (Q, C), faster and to within `scan_error`."""
        found = [self._scanned.get(np.asarray(query, np.float32).tobytes()) for query in queries] if self._of else []
        if found and self._is_of(first_rows, counts):
            kept = [row for row in found if row is not None]
            if len(kept) == len(found):
                return np.stack(kept)
        return self._vectors.scan(queries, first_rows, counts)

    def _is_of(self, first_rows: Indices, counts: Indices) -> bool:
        """Whether these rows were scanned, in the catalog as it is now."""
        if self._of is None:
            return False
        version, scanned_rows, scanned_counts = self._of
        same = np.array_equal(first_rows, scanned_rows) and np.array_equal(counts, scanned_counts)
        return same and version == self._version()

    def scan_error(self, queries: FloatArray) -> FloatArray:
        """How far `scan` may be from `best_per_clip` for each of some queries (Q, D): (Q,)."""
        return self._vectors.scan_error(queries)

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        """Score queries (Q, D) by the best frame of each clip, (Q, C); clips are given by first row and count, (C,)."""
        return self._vectors.best_per_clip(queries, first_rows, counts)

    def frame_scores(self, query: FloatArray, first_row: int, count: int) -> FloatArray:
        """Score one query (D,) on the frames of one clip: (count,)."""
        return self._vectors.frame_scores(query, first_row, count)

    def read(self, first_row: int, count: int) -> HalfArray:
        """Read the stored vectors of one clip: (count, D)."""
        return self._vectors.read(first_row, count)


def encoded_ahead(encoder: Encoder, texts: Iterable[str]) -> list[FloatArray]:
    """Encode texts together with an encoder that keeps what it has encoded; return a unit vector (D,) of each.

    A text that cannot be encoded is left to its own search, which says why.
    """
    clean = list(_seen(texts))
    if not clean:
        return []
    with contextlib.suppress(EvenreelError):  # what can be encoded has been, and is kept
        encoder.encode_text([caption for text in clean for caption in captions_of(text)])
    found: list[FloatArray] = []
    for text in clean:
        with contextlib.suppress(EvenreelError):
            found.append(unit(encoder.encode_text([text]).sentence[0]))
    return found


def _seen(texts: Iterable[str]) -> Iterator[str]:
    """What frames are searched for, of queries that ask them."""
    for text in filter(None, map(readable, texts)):
        with contextlib.suppress(EvenreelError):  # the search for it says what is wrong
            asked = read_query(text)
            if asked.sees:
                yield asked.text


def scanned_ahead(library: Path, connection: sqlite3.Connection) -> Callable[[Mapping[str, str]], ScannedAhead | None]:
    """Return a function that opens the vectors of a library, which its catalog names, to be scanned ahead."""

    def version() -> object:
        return connection.execute("PRAGMA data_version").fetchone()

    def opened(meta: Mapping[str, str]) -> ScannedAhead | None:
        vectors = open_vectors(library, meta)
        return None if vectors is None else ScannedAhead(vectors, version)

    return opened


def scan_ahead(opened: Opened, queries: Sequence[FloatArray]) -> None:
    """Scan all clips of an opened library for some queries, (D,) each, in one pass."""
    if isinstance(opened.vectors, ScannedAhead) and queries:
        opened.vectors.scan_ahead(np.stack(queries), opened.gallery.first_rows, opened.gallery.counts)
