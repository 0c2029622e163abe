"""Confidence and times of all tracks as columns of numbers, so that a query reads those of a common word at once.

A block is a row of the table `track_blocks` with the float64 values of `TRACKS` neighbouring track ids; where there is
no track they are 0, and a block of nothing but zeros is not stored. The table is derived from `tracks`, and
`said_blocks` in the same way from `utterances`; every function works inside the caller's transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from itertools import groupby

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.library.store.timed_texts import TimedTexts

TRACKS = 1024
"""Track ids a block."""

COLUMNS = ("confidence", "start_s", "end_s")

Facts = tuple[int, float, float, float]
"""Track id, confidence, start and end in seconds."""


def put_tracks(connection: sqlite3.Connection, kind: TimedTexts, tracks: Iterable[Facts]) -> None:
    """Write the facts of tracks into their blocks, in place of what stood there."""
    for block, found in groupby(tracks, lambda track: track[0] // TRACKS):
        rows = list(found)
        values = _block(connection, kind.blocks, block)
        values[:, [track[0] % TRACKS for track in rows]] = np.array([track[1:] for track in rows]).T
        if values.any():
            columns = [values[place].tobytes() for place in range(len(COLUMNS))]
            connection.execute(f"INSERT OR REPLACE INTO {kind.blocks} VALUES (?, ?, ?, ?)", (block, *columns))
        else:
            connection.execute(f"DELETE FROM {kind.blocks} WHERE block = ?", (block,))


def take_tracks(connection: sqlite3.Connection, kind: TimedTexts, track_ids: Iterable[int]) -> None:
    """Remove tracks from their blocks; those that are in none are no error."""
    put_tracks(connection, kind, ((track_id, 0.0, 0.0, 0.0) for track_id in sorted(track_ids)))


def fill_blocks(connection: sqlite3.Connection, kind: TimedTexts) -> None:
    """Write the blocks of all texts of a kind into an empty table, one at a time."""
    put_tracks(connection, kind, connection.execute(f"SELECT {facts_of(kind)} FROM {kind.table} ORDER BY {kind.key}"))


def facts_of(kind: TimedTexts) -> str:
    """Return SQL for the facts of a row of a kind of text; what has no confidence is sure."""
    return f"{kind.key}, coalesce(confidence, 1.0), start_s, end_s"


def read_facts(connection: sqlite3.Connection, kind: TimedTexts, tracks: Indices, column: str) -> Column:
    """Read one fact of tracks."""
    blocks, place = np.unique(tracks // TRACKS, return_inverse=True)
    rows = connection.execute(
        f"SELECT block, {column} FROM {kind.blocks} WHERE block IN (SELECT value FROM json_each(?)) ORDER BY block",
        (json.dumps(blocks.tolist()),),
    ).fetchall()
    there = dict(rows)
    empty = bytes(8 * TRACKS)
    values = np.frombuffer(b"".join(there.get(block, empty) for block in blocks.tolist()), np.float64)
    found: Column = values[place * TRACKS + tracks % TRACKS]
    return found


def _block(connection: sqlite3.Connection, table: str, block: int) -> Column:
    """(3, TRACKS) values of a block, to be changed."""
    row = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {table} WHERE block = ?", (block,)).fetchone()
    if row is None:
        return np.zeros((len(COLUMNS), TRACKS))
    return np.stack([np.frombuffer(column, np.float64) for column in row])
