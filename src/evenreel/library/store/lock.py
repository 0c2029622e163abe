"""A lock that lets one indexer at a time write a library."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.features.lock import writer_lock


def library_lock(library: Path) -> AbstractContextManager[None]:
    """Lock a library for writing.

    Raises:
        LibraryError: (on entering) another process holds it, or the folder cannot be written.
    """
    return writer_lock(library, LibraryError, "use another --library")
