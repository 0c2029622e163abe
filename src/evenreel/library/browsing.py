"""Clips of a library without a query: by the day they were recorded, or by their place."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

from evenreel.errors import UsageError
from evenreel.library.search.filters import Filter, columns_of, limited
from evenreel.library.store.catalog import load_metadata, loaded_path
from evenreel.types import Metadata

BrowseOrder = Literal["latest", "earliest", "path"]

_ORDERS: dict[BrowseOrder, str] = {
    "latest": "day IS NULL, day DESC, files.mtime_ns DESC, files.path",
    "earliest": "day IS NULL, day, files.mtime_ns, files.path",
    "path": "files.path",
}


@dataclass(frozen=True)
class BrowsedClip:
    """A clip that is there.

    Attributes:
        clip_id: its id.
        path: its first file by path, among those that pass the filter.
        day: when it was recorded or, where its file does not say, last changed, such as `2024-05-31`.
        duration_s: its length in seconds; None where it is not known.
        metadata: metadata of that file.
    """

    clip_id: str
    path: str
    day: str | None
    duration_s: float | None
    metadata: Metadata


@dataclass(frozen=True)
class BrowsedPage:
    """A page of clips; `total` counts those of all pages."""

    total: int
    clips: tuple[BrowsedClip, ...]


def browse(
    connection: sqlite3.Connection, where: Filter, order: BrowseOrder = "latest", limit: int = 50, offset: int = 0
) -> BrowsedPage:
    """List a page of the clips that pass a filter."""
    if order not in _ORDERS:
        raise UsageError(f"Clips cannot be browsed by {order!r}; there are: {', '.join(_ORDERS)}.")
    if limit < 1 or offset < 0:
        raise UsageError(f"{limit} clips from number {offset} on cannot be listed; ask for 1 or more, from 0 on.")
    there = f"FROM files JOIN clips USING (clip_id) WHERE state = 'indexed' AND {where.sql}"
    with limited(connection, where):
        (total,) = connection.execute(f"SELECT count(DISTINCT clip_id) {there}", where.parameters).fetchone()
        rows = connection.execute(
            f"SELECT clips.clip_id, files.path, metadata, {columns_of(connection)['date'].sql} AS day, duration_s"
            f" FROM (SELECT min(files.path) AS path {there} GROUP BY clip_id) AS first"
            f" JOIN files ON files.path = first.path JOIN clips USING (clip_id)"
            f" ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?",
            (*where.parameters, limit, offset),
        ).fetchall()
    return BrowsedPage(
        total,
        tuple(
            BrowsedClip(clip_id, loaded_path(path), day, duration_s, load_metadata(metadata))
            for clip_id, path, metadata, day, duration_s in rows
        ),
    )
