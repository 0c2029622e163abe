"""What tells one state of a library's files from another, without opening them."""

from __future__ import annotations

from pathlib import Path

from evenreel.files import FileState, file_state
from evenreel.library.store.catalog import CATALOG
from evenreel.library.store.model_folders import MODELS
from evenreel.library.store.user_tables import COPY

Version = tuple[FileState, ...]
"""States of files."""


def library_version(library: Path) -> Version:
    """Return what changes with every change of a catalog or a person's own records."""
    places = (library, *sorted((library / MODELS).glob("*")))
    catalogs = (place / name for place in places for name in (CATALOG, f"{CATALOG}-wal"))
    return tuple(_stamp(path) for path in (*catalogs, library / COPY))


def _stamp(path: Path) -> FileState:
    return file_state(path) or (0, 0, 0)
