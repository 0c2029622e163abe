"""Sources of a library's clips, and the real clip that each generated one mirrors, from their metadata.

`source` is `camera` or the name of a generator; `pair_id` of a generated clip names the real one: by its clip id, or by
its file name, with or without suffix and any of the folders above it (`0007`, `0007.mp4`, `real/0007.mp4`). Only real
clips are candidates, so that a mirror may have the name of its original, in another folder.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from evenreel.library.store.catalog import loaded_path
from evenreel.types import CAMERA
from evenreel.wording import printable


@dataclass(frozen=True, eq=False)
class ClipSources:
    """Sources of C clips, and the real clip that each generated one mirrors.

    Attributes:
        names: `camera`, a generator, or None where the source is unknown, as for a clip whose files are all gone.
        settings: input of the generator, such as `text` or `image`; None where that is not noted.
        paths: path of the clip's first file, printable; None where all are gone.
        mirrored: (C,) row of the real clip that each generated one mirrors, -1 for none.
    """

    names: tuple[str | None, ...]
    settings: tuple[str | None, ...]
    paths: tuple[str | None, ...]
    mirrored: NDArray[np.int64]


@dataclass(frozen=True)
class _ClipNote:
    """What the metadata of a clip's first file says; `path` is the file."""

    path: str | None = None
    source: str | None = None
    pair_id: str | None = None
    setting: str | None = None


def read_sources(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> ClipSources:
    """Read the sources of some clips from the metadata of their first files."""
    known = _read_notes(connection)
    said = [known.get(clip_id, _ClipNote()) for clip_id in clip_ids]
    wanted = {row: one.pair_id for row, one in enumerate(said) if one.pair_id and one.source not in {None, CAMERA}}
    mirrored = np.full(len(clip_ids), -1, np.int64)
    if wanted:
        real = [row for row, one in enumerate(said) if one.source == CAMERA]
        originals = _Originals((row, clip_ids[row], said[row].path or "") for row in real)
        mirrored[list(wanted)] = [originals.find(pair_id) for pair_id in wanted.values()]
    return ClipSources(
        names=tuple(one.source for one in said),
        settings=tuple(one.setting for one in said),
        paths=tuple(one.path and printable(one.path) for one in said),
        mirrored=mirrored,
    )


class _Originals:
    """Real clips by what a `pair_id` may call them."""

    def __init__(self, clips: Iterable[tuple[int, str, str]]) -> None:
        self._by_id: dict[str, int] = {}
        self._by_stem: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for row, clip_id, path in clips:
            self._by_id[clip_id] = row
            self._by_stem[PurePath(path).stem].append((path, row))

    def find(self, named: str) -> int:
        """The row of the clip that is meant, -1 where none or several could be."""
        if named in self._by_id:
            return self._by_id[named]
        wanted = tuple(part for part in PurePath(named).parts if part != "..")
        if not wanted:
            return -1
        stems = {wanted[-1], PurePath(wanted[-1]).stem}
        rows = {
            row for stem in stems for path, row in self._by_stem.get(stem, ()) if _ends_with(PurePath(path), wanted)
        }
        return rows.pop() if len(rows) == 1 else -1


def _ends_with(file: PurePath, parts: tuple[str, ...]) -> bool:
    return parts in {file.parts[-len(parts) :], file.with_suffix("").parts[-len(parts) :]}


def _read_notes(connection: sqlite3.Connection) -> dict[str, _ClipNote]:
    rows = connection.execute(
        "SELECT clip_id, path, json_extract(metadata, '$.source'), json_extract(metadata, '$.pair_id'),"
        " json_extract(metadata, '$.setting') FROM files WHERE state = 'indexed' ORDER BY path DESC"
    )  # of a clip's files the first one comes last
    return {clip_id: _ClipNote(loaded_path(path), *map(_text, values)) for clip_id, path, *values in rows}


def _text(value: object) -> str | None:
    return None if value in {None, ""} else printable(str(value))
