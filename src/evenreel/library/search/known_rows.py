"""What a catalog says of the clips with frames, read once and then only where it has changed.

The seals tell what has changed: that of a table is the sum of the checksums of its rows, so that rows which were read
before, with rows that came since, are all there is where their sums are the seal (`evenreel.library.store.seals`).
"""

from __future__ import annotations

import json
import sqlite3

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.library.search.compact_ids import LINE_END, ClipIds, Encoded, encoded_ids, joined_ids
from evenreel.library.store import seals

AT_ONCE = 50_000
"""Rows that are Python objects at one time."""

FEW = 10_000
"""Most clips whose scores of nonsense are looked up one by one."""

ROWS, SCORES = "vector_rows", "null_scores"


class ClipRows:
    """Rows of the clips with frames, in the order of the vector file; arrays are (C,).

    Attributes:
        clip_ids: ids of the clips.
        first_rows: first row of each in the vector file.
        counts: number of rows of each.
        means: mean score of nonsense queries on each; NaN where they were not scored yet.
        deviations: standard deviation of these scores; NaN where there are none.
        scores_sound: whether means and deviations are what was written.
    """

    def __init__(self) -> None:
        self.clip_ids = ClipIds(np.empty(0, "S1"))
        self.first_rows: Indices = np.empty(0, np.int64)
        self.counts: Indices = np.empty(0, np.int64)
        self.means: Column = np.empty(0, np.float64)
        self.deviations: Column = np.empty(0, np.float64)
        self.scores_sound = True
        self._totals: dict[str, int | None] = {ROWS: None, SCORES: None}  # of what is held; None where it is not known

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Read what has changed since the last time, or all where that is not told."""
        stored = seals.stored(connection, (ROWS, SCORES))
        wanted = {table: None if stored is None else stored.get((table, ""), 0) for table in (ROWS, SCORES)}
        try:
            if not self._add_rows(connection, wanted[ROWS]):
                self._read_rows(connection, wanted[ROWS])
            if not self._add_scores(connection, wanted[SCORES]):
                self._read_scores(connection, wanted[SCORES])
        except BaseException:
            self._totals = {ROWS: None, SCORES: None}
            raise

    def _add_rows(self, connection: sqlite3.Connection, wanted: int | None) -> bool:
        """Take up rows behind those that are held; False where more than that has changed."""
        held = self._totals[ROWS]
        if held is None or wanted is None or held == wanted:
            return held is not None and held == wanted
        end = int((self.first_rows + self.counts).max()) if len(self.first_rows) else 0
        ids, first_rows, counts = _vector_rows(connection, end)
        if (held + seals.total_of(ROWS, ids, first_rows, counts)) & seals.MASK != wanted:
            return False
        unknown = np.full(len(ids), np.nan)
        self.clip_ids = self.clip_ids.with_more(ids)
        self.first_rows = np.concatenate([self.first_rows, first_rows])
        self.counts = np.concatenate([self.counts, counts])
        self.means, self.deviations = (np.concatenate([kept, unknown]) for kept in (self.means, self.deviations))
        self._totals[ROWS] = wanted
        return True

    def _read_rows(self, connection: sqlite3.Connection, wanted: int | None) -> None:
        ids, self.first_rows, self.counts = _vector_rows(connection)
        if wanted is not None and seals.total_of(ROWS, ids, self.first_rows, self.counts) != wanted:
            raise sqlite3.DatabaseError("its rows of the vector matrix are not what was written")
        try:
            self.clip_ids = ClipIds(ids)
        except ValueError as error:  # in a catalog of the first format, which has no seals
            raise sqlite3.DatabaseError("its rows of the vector matrix are not what was written") from error
        self._totals = {ROWS: wanted, SCORES: None}  # the scores are read anew

    def _add_scores(self, connection: sqlite3.Connection, wanted: int | None) -> bool:
        """Take up scores of clips that had none; False where more than that has changed, or is not known."""
        held = self._totals[SCORES]
        if held is None or wanted is None or held == wanted:
            return held is not None and held == wanted
        without = np.flatnonzero(np.isnan(self.means))
        if len(without) > FEW:
            return False
        rows = connection.execute(
            "SELECT clip_id, mean, deviation FROM null_scores WHERE clip_id IN (SELECT value FROM json_each(?))",
            (json.dumps([self.clip_ids[place] for place in without.tolist()]),),
        ).fetchall()
        ids, means, deviations = _columns(rows)
        if (held + seals.total_of(SCORES, ids, means, deviations)) & seals.MASK != wanted:
            return False
        places = self.clip_ids.places(ids)
        self.means[places], self.deviations[places] = means, deviations
        self._totals[SCORES] = wanted
        return True

    def _read_scores(self, connection: sqlite3.Connection, wanted: int | None) -> None:
        self.means, self.deviations = (np.full(len(self.clip_ids), np.nan) for _ in range(2))
        cursor, total = connection.execute("SELECT clip_id, mean, deviation FROM null_scores"), 0
        while rows := cursor.fetchmany(AT_ONCE):
            ids, means, deviations = _columns(rows)
            places = self.clip_ids.places(ids)
            known = places >= 0
            self.means[places[known]], self.deviations[places[known]] = means[known], deviations[known]
            total += seals.total_of(SCORES, ids[known], means[known], deviations[known])
        self.scores_sound = wanted is None or total & seals.MASK == wanted
        self._totals[SCORES] = wanted if self.scores_sound else None


def _vector_rows(connection: sqlite3.Connection, start: int = 0) -> tuple[Encoded, Indices, Indices]:
    """Ids, first rows and counts of the clips from a row of the matrix on, in its order."""
    joined = ", ".join(f"group_concat({column}, char({LINE_END}))" for column in ("clip_id", "first_row", "count"))
    found = connection.execute(f"SELECT {joined} FROM vector_rows WHERE first_row >= ?", (start,)).fetchone()
    ids, first_rows, counts = joined_ids(found[0]), *(_joined_numbers(text) for text in found[1:])
    if not len(ids) == len(first_rows) == len(counts):
        raise sqlite3.DatabaseError("its rows of the vector matrix are not what was written")
    order = np.argsort(first_rows, kind="stable")
    return ids[order], first_rows[order], counts[order]


def _joined_numbers(text: str | None) -> Indices:
    """Whole numbers that SQLite has joined by line ends."""
    if not text:
        return np.empty(0, np.int64)
    try:
        return np.array(text.split("\n"), np.int64)
    except (ValueError, OverflowError) as error:
        raise sqlite3.DatabaseError("its rows of the vector matrix are not what was written") from error


def _columns(rows: list[tuple[str, float, float]]) -> tuple[Encoded, Column, Column]:
    ids = encoded_ids(clip_id for clip_id, _, _ in rows)
    numbers = np.array([numbers for _, *numbers in rows], np.float64).reshape(-1, 2)
    return ids, numbers[:, 0], numbers[:, 1]
