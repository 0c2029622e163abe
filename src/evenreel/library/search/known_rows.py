"""What a catalog says of the clips with frames, read again where the catalog has changed."""

from __future__ import annotations

import sqlite3

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.library.search.compact_ids import LINE_END, ClipIds, Encoded, encoded_ids, joined_ids

AT_ONCE = 50_000
"""Rows that are Python objects at one time."""


class ClipRows:
    """Rows of the clips with frames, in the order of the vector file; arrays are (C,).

    Attributes:
        clip_ids: ids of the clips.
        first_rows: first row of each in the vector file.
        counts: number of rows of each.
        means: mean score of nonsense queries on each; NaN where they were not scored yet.
        deviations: standard deviation of these scores; NaN where there are none.
    """

    def __init__(self) -> None:
        self.clip_ids = ClipIds(np.empty(0, "S1"))
        self.first_rows: Indices = np.empty(0, np.int64)
        self.counts: Indices = np.empty(0, np.int64)
        self.means: Column = np.empty(0, np.float64)
        self.deviations: Column = np.empty(0, np.float64)

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Read all rows."""
        ids, self.first_rows, self.counts = _vector_rows(connection)
        try:
            self.clip_ids = ClipIds(ids)
        except ValueError as error:
            raise sqlite3.DatabaseError("its rows of the vector matrix are not what was written") from error
        self.means, self.deviations = (np.full(len(self.clip_ids), np.nan) for _ in range(2))
        cursor = connection.execute("SELECT clip_id, mean, deviation FROM null_scores")
        while rows := cursor.fetchmany(AT_ONCE):
            ids, means, deviations = _columns(rows)
            places = self.clip_ids.places(ids)
            known = places >= 0
            self.means[places[known]], self.deviations[places[known]] = means[known], deviations[known]


def _vector_rows(connection: sqlite3.Connection) -> tuple[Encoded, Indices, Indices]:
    """Ids, first rows and counts of the clips, in the order of the matrix."""
    joined = ", ".join(f"group_concat({column}, char({LINE_END}))" for column in ("clip_id", "first_row", "count"))
    found = connection.execute(f"SELECT {joined} FROM vector_rows").fetchone()
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
