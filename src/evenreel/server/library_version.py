"""What tells one state of a library's files from another, without opening them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evenreel.files import FileState, file_state
from evenreel.library.people.store import FILE as PEOPLE
from evenreel.library.personal.file import FILE as PERSONAL
from evenreel.library.store.also import MODELS, place_of
from evenreel.library.store.catalog import CATALOG

Version = tuple[FileState, ...]
"""States of files."""


def library_version(library: Path) -> Version:
    """Return what changes with every change of a catalog, a person's own records or the people."""
    places = (library, *sorted((library / MODELS).glob("*")))
    beside = (library / name for name in (PERSONAL, PEOPLE))
    return tuple(_stamp(path) for path in (*_files_of(places), *beside))


def vectors_version(library: Path, folder: str) -> Version:
    """Return what changes with the vectors of a further model; an empty -wal is that of a reader."""
    found = (_stamp(path) for path in _files_of([place_of(library, folder)]))
    return tuple(stamp for stamp in found if stamp[1])


def _files_of(places: Iterable[Path]) -> list[Path]:
    return [place / name for place in places for name in (CATALOG, f"{CATALOG}-wal")]


def _stamp(path: Path) -> FileState:
    return file_state(path) or (0, 0, 0)
