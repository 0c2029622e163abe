"""Undoing of a first index run that fails before anything is indexed: better no library than an empty one.

A run that is killed cannot tidy up; the empty library that it leaves says that it is empty. A page that folders are to
be added from begins with an empty library that is made on purpose.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.features.lock import HOLDER, LOCK
from evenreel.features.shards import remove_shards, shard_files
from evenreel.library.store.catalog import CATALOG, SHARDS, STILLS, open_for_writing
from evenreel.library.store.filesystem import library_lock
from evenreel.library.store.model_folders import MODELS
from evenreel.library.store.user_tables import forget_copy

JOURNALS = ("", "-wal", "-shm", "-journal")


def make_empty(library: Path) -> None:
    """Make a library without videos where there is none."""
    if not (library / CATALOG).exists():
        with library_lock(library):
            open_for_writing(library).close()


@contextlib.contextmanager
def taken_back_if_empty(library: Path, *, folder_is_new: bool) -> Iterator[None]:
    """Undo a new library if the block fails before a clip is stored.

    The caller holds the library's lock, so that nothing of another run is removed. Only what a run makes goes: other
    files in the folder stay.
    """
    is_new = not (library / CATALOG).exists()
    try:
        yield
    except BaseException:
        if is_new and not _holds_clips(library):
            _remove(library, folder_is_new)
        raise


def _holds_clips(library: Path) -> bool:
    """Whether anything would be lost; what cannot be read counts as something."""
    if next(shard_files(library / SHARDS), None) is not None:
        return True
    if not (library / CATALOG).exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(library / CATALOG)) as connection:
            return connection.execute("SELECT 1 FROM clips").fetchone() is not None
    except sqlite3.Error:
        return True


def _remove(library: Path, folder_is_new: bool) -> None:
    with contextlib.suppress(OSError):
        for journal in JOURNALS:
            (library / f"{CATALOG}{journal}").unlink(missing_ok=True)
        with contextlib.suppress(LibraryError, OSError):  # it is somebody else's
            forget_copy(library)
        for folder in (STILLS, SHARDS):  # stills of a clip whose shard was not written any more
            remove_shards(library / folder)
        shutil.rmtree(library / MODELS, ignore_errors=True)
        for name in (LOCK, HOLDER):
            (library / name).unlink(missing_ok=True)
        if folder_is_new:
            library.rmdir()
