"""Confidence and times of all tracks as columns of numbers, so that a query reads those of a common word at once.

A block is a row of the table `track_blocks` with the float64 values of `TRACKS` neighbouring track ids; where there is
no track they are 0, and a block of nothing but zeros is not stored. The table is derived from `tracks`; every function
works inside the caller's transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from itertools import groupby

import numpy as np

from evenreel.arrays import Column, Indices

TRACKS = 1024
"""Track ids a block."""

TABLE = "track_blocks"
COLUMNS = ("confidence", "start_s", "end_s")

Facts = tuple[int, float, float, float]
"""Track id, confidence, start and end in seconds."""


def put_tracks(connection: sqlite3.Connection, tracks: Iterable[Facts]) -> None:
    """Write the facts of tracks into their blocks, in place of what stood there.

    Args:
        connection: connection to the catalog, inside a transaction.
        tracks: tracks; each block is read and written once where their ids rise.
    """
    for block, found in groupby(tracks, lambda track: track[0] // TRACKS):
        rows = list(found)
        values = _block(connection, block)
        values[:, [track[0] % TRACKS for track in rows]] = np.array([track[1:] for track in rows]).T
        if values.any():
            columns = [values[place].tobytes() for place in range(len(COLUMNS))]
            connection.execute(f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?, ?)", (block, *columns))
        else:
            connection.execute(f"DELETE FROM {TABLE} WHERE block = ?", (block,))


def take_tracks(connection: sqlite3.Connection, track_ids: Iterable[int]) -> None:
    """Remove tracks from their blocks; those that are in none are no error."""
    put_tracks(connection, ((track_id, 0.0, 0.0, 0.0) for track_id in sorted(track_ids)))


def fill_blocks(connection: sqlite3.Connection) -> None:
    """Write the blocks of all of `tracks` into an empty table, one at a time."""
    put_tracks(
        connection, connection.execute("SELECT track_id, confidence, start_s, end_s FROM tracks ORDER BY track_id")
    )


def read_facts(connection: sqlite3.Connection, tracks: Indices, column: str) -> Column:
    """Read one fact of tracks.

    Args:
        connection: connection to the catalog.
        tracks: (N,) ids of tracks.
        column: one of `COLUMNS`.

    Returns:
        (N,) its values; 0 for a track that is in no block.
    """
    blocks, place = np.unique(tracks // TRACKS, return_inverse=True)
    rows = connection.execute(
        f"SELECT block, {column} FROM {TABLE} WHERE block IN (SELECT value FROM json_each(?)) ORDER BY block",
        (json.dumps(blocks.tolist()),),
    ).fetchall()
    there = dict(rows)
    empty = bytes(8 * TRACKS)
    values = np.frombuffer(b"".join(there.get(block, empty) for block in blocks.tolist()), np.float64)
    found: Column = values[place * TRACKS + tracks % TRACKS]
    return found


def _block(connection: sqlite3.Connection, block: int) -> Column:
    """(3, TRACKS) values of a block, to be changed."""
    row = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM {TABLE} WHERE block = ?", (block,)).fetchone()
    if row is None:
        return np.zeros((len(COLUMNS), TRACKS))
    return np.stack([np.frombuffer(column, np.float64) for column in row])
