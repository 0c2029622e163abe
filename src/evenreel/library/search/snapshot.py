"""A library at one moment, as searches read it: columns with a place for each clip, vectors, and what is kept.

The place of a clip is its key in the catalog (`clip_keys`): columns are (C,), C above the greatest key, and `there`
says which places have a clip with a file that is there. What a change leaves as it was is not read again.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.arrays import Flags, Indices
from evenreel.errors import LibraryError, OtherModelError
from evenreel.library.search import filters
from evenreel.library.search.filters import Filter
from evenreel.library.store.catalog import get_meta, reading
from evenreel.library.store.vectors import DEVIATION_FLOOR, FRAMES, ExactVectors, Matrix, load_null_best
from evenreel.types import FloatArray

KEPT_FILTERS = 32  # filters of which is kept what passes; a byte for each clip
AT_ONCE = 50_000  # rows that are Python objects at one time

HAS_FILE = "EXISTS (SELECT 1 FROM files WHERE files.clip_id = clip_keys.clip_id AND state = 'indexed')"


@dataclass(eq=False)
class Snapshot:
    """A library at one moment; arrays are (C,), with a place for each clip."""

    folder: Path | None  # folder of the library; None for one in memory
    connection: sqlite3.Connection  # connection to its catalog, within a transaction
    meta: Mapping[str, str]  # the catalog's table of that name
    there: Flags  # which places have a clip with a file that is there
    first_rows: Indices  # first row of each clip in the vectors
    counts: Indices  # number of rows of each; 0 of a clip without frames
    means: FloatArray  # mean score of nonsense queries on each
    deviations: FloatArray  # their standard deviation
    null_best: FloatArray  # (N,) the best z of each nonsense query, sorted; empty where that was not measured
    vectors: ExactVectors | None  # the frame vectors; None without vision
    read_filter: Callable[[str | None], Filter]
    of: Matrix  # which matrix these vectors are
    held: dict[Any, Any]  # what outlives a change, and reads again what has changed
    kept: dict[Any, Any] = field(default_factory=dict)  # what was read of this state of the catalog

    @property
    def measured(self) -> bool:
        """True if nonsense queries, which no video answers, were scored: else no match is said to be weaker."""
        return len(self.null_best) > 0

    @cached_property
    def seen(self) -> Indices:
        """The places of the clips with frames, in the order of the vector file."""
        places = np.flatnonzero(self.there & (self.counts > 0))
        return places[np.argsort(self.first_rows[places], kind="stable")]

    @cached_property
    def seen_ids(self) -> tuple[str, ...]:
        return tuple(self.ids(self.seen))

    def ids(self, places: Indices | Sequence[int]) -> list[str]:
        wanted = json.dumps([int(place) for place in places])
        rows = self.connection.execute(
            "SELECT clip_id FROM json_each(?) AS wanted CROSS JOIN clip_keys ON clip_keys.key = wanted.value"
            " ORDER BY wanted.key",
            (wanted,),
        )
        return [clip_id for (clip_id,) in rows]

    def places(self, clip_ids: Sequence[str]) -> list[int]:
        """Find the places of clips by their ids; 0, where no clip is, for one that the library does not have."""
        rows = self.connection.execute(
            "SELECT clip_id, clip_keys.key FROM json_each(?) AS wanted"
            " CROSS JOIN clip_keys ON clip_keys.clip_id = wanted.value",
            (json.dumps(list(clip_ids)),),
        )
        known = dict(rows.fetchall())
        return [known.get(clip_id, 0) for clip_id in clip_ids]

    def allowed(self, where: str | None) -> Flags:
        if where is None:
            return self.there
        if ("where", where) not in self.kept:
            kept = [key for key in self.kept if key[0] == "where"]
            for key in kept[: max(0, len(kept) + 1 - KEPT_FILTERS)]:
                del self.kept[key]
            self.kept["where", where] = self.passing(self.read_filter(where))
        found: Flags = self.kept["where", where]
        return found

    def passing(self, where: Filter) -> Flags:
        """Mark the clips (C,) with a file that is there and passes a condition."""
        with filters.limited(self.connection, where):
            found = np.zeros(len(self.there), np.bool_)
            found[_keys(self.connection, where)] = True
        return found & self.there


def _keys(connection: sqlite3.Connection, where: Filter) -> Indices:
    """The numbers of the clips with a file that is there and passes a condition."""
    join = " CROSS JOIN clips ON clips.clip_id = files.clip_id" if "clips." in where.sql else ""
    (keys,) = connection.execute(
        f"SELECT group_concat(key) FROM files{join} CROSS JOIN clip_keys"
        f" ON clip_keys.clip_id = files.clip_id WHERE files.state = 'indexed' AND {where.sql}",
        where.parameters,
    ).fetchone()
    return numbers(keys)


def numbers(joined: str | None) -> Indices:
    """Read whole numbers of a text with commas between them, (N,), as SQLite has joined them: in one step."""
    return np.fromstring(joined, np.int64, sep=",") if joined else np.empty(0, np.int64)


class ClipColumns:
    """What a matrix has of each clip that is there, and how nonsense scores on it; what has changed is read again."""

    def __init__(self, of: Matrix) -> None:
        self._changed = (
            "SELECT key, NOT gone AND {}, ifnull(first_row, 0), ifnull(count, 0), mean, deviation FROM clip_keys"
            f" LEFT JOIN {of.rows} USING (clip_id) LEFT JOIN {of.nulls} USING (clip_id) WHERE change > ?"
        )
        self._change, self._generation = -1, ""
        self._columns = [np.zeros(1, np.bool_), *np.zeros((2, 1), np.int64), *np.full((2, 1), np.nan)]

    def read(self, connection: sqlite3.Connection, generation: str) -> dict[str, Any]:
        newest = "SELECT (SELECT ifnull(max(change), 0) FROM clip_keys), (SELECT ifnull(max(key), 0) FROM clip_keys)"
        change, last = connection.execute(newest).fetchone()
        if generation != self._generation or change < self._change:
            self._change = -1
        columns = [np.zeros(last + 1, np.bool_), *np.zeros((2, last + 1), np.int64), *np.full((2, last + 1), np.nan)]
        if self._change >= 0:
            for column, known in zip(columns, self._columns, strict=True):
                column[: len(known)] = known[: last + 1]
        # In a library that is read for the first time, all files at once: one by one takes twice as long.
        cursor = connection.execute(self._changed.format(HAS_FILE if self._change >= 0 else "FALSE"), (self._change,))
        while rows := cursor.fetchmany(AT_ONCE):
            keys, *values = zip(*rows, strict=True)
            places = np.array(keys, np.int64)
            for column, value in zip(columns, values, strict=True):
                column[places] = np.array(value, column.dtype)
        if self._change < 0:
            columns[0][_keys(connection, Filter())] = True
        self._columns, self._change, self._generation = columns, change, generation
        there, first_rows, counts, means, deviations = columns
        return {
            "there": there,
            "first_rows": first_rows,
            "counts": counts,
            "means": _filled(means, 0.0),
            "deviations": _filled(deviations, DEVIATION_FLOOR),
        }


class SnapshotReader:
    """Reads snapshots of one library; keeps what it read of the catalog until that changes. Threads take turns."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        open_vectors: Callable[[Mapping[str, str]], ExactVectors | None],
        folder: Path | None = None,
        *,
        read_filter: Callable[[str | None], Filter] | None = None,
        keeps_model: bool = True,
    ) -> None:
        self._connection, self._open_vectors, self._folder = connection, open_vectors, folder
        self._read_filter = read_filter or (lambda where: filters.read_filter(connection, where))
        self._keeps_model = keeps_model
        self._lock, self._inside = threading.RLock(), False
        self._last: Snapshot | None = None
        self._read_at: tuple[object, ...] = ()
        self._columns = ClipColumns(FRAMES)
        self._held: dict[Any, Any] = {}

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read the library at one moment, whatever an indexer writes meanwhile; within another one, at the same."""
        with self._lock, reading(self._connection, self._folder):
            if self._inside and self._last is not None:
                yield self._last
                return
            begins = not self._connection.in_transaction  # else it is the writer's own
            self._inside = True
            try:
                yield self._begin()
            finally:
                self._inside = False
                if begins and self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def _begin(self) -> Snapshot:
        """Begin a transaction, and read what has changed; once more where a repair may have come in between."""
        for again in (False, True):
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN")
            version = self._version()
            if self._last is not None and version == self._read_at:
                break
            try:
                self._last = self._load(needs_vectors=not again)
                self._read_at = version
                break
            except LibraryError:
                if again or not self._connection.in_transaction:
                    raise
                self._connection.execute("ROLLBACK")
        assert self._last is not None
        return self._last

    def _version(self) -> tuple[object, ...]:
        (changes,) = self._connection.execute("PRAGMA data_version").fetchone()
        return changes, self._connection.total_changes

    def _load(self, *, needs_vectors: bool) -> Snapshot:
        meta, before = get_meta(self._connection), self._last
        if self._keeps_model and before and meta.get("weights_hash") != before.meta.get("weights_hash"):
            raise OtherModelError("The model of the library was exchanged for another one; open the library again.")
        generation = meta.get("vectors_generation", "0")
        # Rows mean nothing but in the matrix of the same moment.
        is_new = before is None or before.meta.get("vectors_generation", "0") != generation
        vectors = self._open_vectors(meta) if is_new or before is None or before.vectors is None else before.vectors
        columns = self._columns.read(self._connection, generation)
        first_rows, counts = columns["first_rows"], columns["counts"]
        if vectors is not None and counts.any():
            # The file is open from now on, whoever replaces it; where it is damaged, words are searched without it.
            with contextlib.nullcontext() if needs_vectors else contextlib.suppress(LibraryError):
                vectors.read(int((first_rows + counts).max()), 0)
        return Snapshot(
            folder=self._folder,
            connection=self._connection,
            meta=meta,
            **columns,
            null_best=load_null_best(meta),
            vectors=vectors,
            read_filter=self._read_filter,
            of=FRAMES,
            held=self._held,
        )


def _filled(values: FloatArray, where_none: float) -> FloatArray:
    """Clips that an indexer has just added are not measured yet: they get the average of the others."""
    values = values.astype(np.float32)
    unknown = np.isnan(values)
    average = np.float32(where_none) if unknown.all() else values[~unknown].mean()
    return np.where(unknown, average, values).astype(np.float32)
