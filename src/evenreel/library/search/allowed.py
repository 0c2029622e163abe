"""Clips that a search may find: those with a file that is there and passes the filter."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from evenreel.arrays import Flags
from evenreel.files import first_there
from evenreel.library.search.compact_ids import LINE_END, ClipIds, Encoded, encoded_ids, joined_ids
from evenreel.library.search.filters import Filter
from evenreel.library.store.catalog import loaded_path

KEPT_FILTERS = 32
"""Filters of which is kept what passes; a byte for each clip."""


@dataclass(frozen=True, eq=False)
class AllowedClips(Container[str]):
    """Clips that a search may find.

    Attributes:
        gallery: ids of the C clips with frames.
        mask: (C,) which of these may be found.
        others: ids of clips without frames that may be found.
        where: the filter that they pass.
    """

    gallery: ClipIds
    mask: Flags
    others: ClipIds = field(default_factory=lambda: ClipIds(encoded_ids(())))
    where: Filter = field(default_factory=Filter)

    def __contains__(self, clip_id: object) -> bool:
        if not isinstance(clip_id, str):
            return False
        place = self.gallery.place(clip_id)
        return bool(self.mask[place]) if place >= 0 else clip_id in self.others

    @cached_property
    def count(self) -> int:
        """Number of clips."""
        return int(np.count_nonzero(self.mask)) + len(self.others)

    def among(self, clip_ids: Iterable[str] | Encoded) -> Flags:
        """Mark which of N clips may be found, (N,)."""
        wanted = clip_ids if isinstance(clip_ids, np.ndarray) else encoded_ids(clip_ids)
        places = self.gallery.places(wanted)
        known = places >= 0
        found = np.zeros(len(wanted), np.bool_)
        found[known] = self.mask[places[known]]
        if len(self.others) and not known.all():
            found[~known] = self.others.places(wanted[~known]) >= 0
        return found

    def mask_of(self, gallery: ClipIds) -> Flags:
        """Mark which clips of a gallery may be found, (C,); also of another model's."""
        return self.mask if gallery is self.gallery else self.among(gallery.encoded)


def read_allowed(connection: sqlite3.Connection, gallery: ClipIds, where: Filter) -> AllowedClips:
    """Read which clips have a file that is there and passes a filter, in one pass over the files."""
    join = " JOIN clips ON clips.clip_id = files.clip_id" if where.of_clips else ""
    (text,) = connection.execute(
        f"SELECT group_concat(files.clip_id, char({LINE_END})) FROM files{join}"
        f" WHERE files.state = 'indexed' AND {where.sql}",
        where.parameters,
    ).fetchone()
    found = joined_ids(text)
    places, mask = gallery.places(found), np.zeros(len(gallery), np.bool_)
    mask[places[places >= 0]] = True
    return AllowedClips(gallery, mask, ClipIds(np.unique(found[places < 0])), where)


def first_paths(connection: sqlite3.Connection, where: Filter, clip_ids: Sequence[str]) -> dict[str, str]:
    """Read the first of each clip's files that was there at the last index run and passes a filter."""
    return {clip_id: paths[0] for clip_id, paths in _paths(connection, where, clip_ids).items()}


def shown_paths(connection: sqlite3.Connection, where: Filter, clip_ids: Sequence[str]) -> dict[str, str]:
    """Read the first of each clip's files that passes a filter and is there now, such as on a disk of another name."""
    return {clip_id: first_there(paths) for clip_id, paths in _paths(connection, where, clip_ids).items()}


def _paths(connection: sqlite3.Connection, where: Filter, clip_ids: Sequence[str]) -> dict[str, list[str]]:
    rows = connection.execute(
        "SELECT files.clip_id, files.path FROM json_each(?) AS wanted"
        " CROSS JOIN files ON files.clip_id = wanted.value CROSS JOIN clips ON clips.clip_id = files.clip_id"
        f" WHERE files.state = 'indexed' AND {where.sql} ORDER BY files.path",
        (json.dumps(list(clip_ids)), *where.parameters),
    )
    paths: dict[str, list[str]] = {}
    for clip_id, path in rows:
        paths.setdefault(clip_id, []).append(loaded_path(path))
    return paths


class KeptFilters:
    """What passes the filters that were last asked for, in one state of a catalog."""

    def __init__(self, connection: sqlite3.Connection, read_filter: Callable[[str | None], Filter]) -> None:
        self._connection, self._read_filter = connection, read_filter
        self._kept: OrderedDict[str | None, AllowedClips] = OrderedDict()

    def clear(self) -> None:
        """Forget everything, since the catalog has changed."""
        self._kept.clear()

    def allowed(self, gallery: ClipIds, where: str | None) -> AllowedClips:
        """Return the clips that pass a filter; None for no filter."""
        found = self._kept.get(where)
        if found is None or found.gallery is not gallery:
            written = Filter() if where is None else self._read_filter(where)
            found = read_allowed(self._connection, gallery, written)
        self._kept[where] = found
        self._kept.move_to_end(where)
        while len(self._kept) > KEPT_FILTERS:
            self._kept.popitem(last=False)
        return found
