"""Cache of snapshots on this machine: a folder of each, kept while anybody reads it, and for a while after."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evenreel.files import TEMPORARY_SUFFIX, is_temporary, remove_unfinished
from evenreel.library.store.filesystem import SNAPSHOT_MARKER, size_of

if TYPE_CHECKING:
    from filelock import BaseFileLock

IN_USE = ".in-use"
GRACE_S = 600.0
"""Seconds for which a folder is kept that was named to somebody who has not opened it yet."""


def default_snapshot_cache() -> Path:
    """Return the default folder of cached snapshots: in the platform's cache folder."""
    from platformdirs import user_cache_path

    return user_cache_path("evenreel") / "snapshots"


@dataclass(frozen=True)
class SnapshotCache:
    """Cache of snapshots on this machine.

    Attributes:
        folder: folder of the cache.
        most_bytes: size above which snapshots that nobody reads are deleted, the longest unread first.
        rows_bytes: size up to which the vectors of a snapshot are copied; of a larger one they are read where they lie.
    """

    folder: Path = field(default_factory=default_snapshot_cache)
    most_bytes: int = 32 * 2**30
    rows_bytes: int = 16 * 2**30

    def drop_unused(self) -> list[str]:
        """Delete snapshots that nobody reads until the cache has its size again; return their ids."""
        made = (path.parent for path in self.folder.glob(f"*/{SNAPSHOT_MARKER}"))
        found = [folder for folder in made if not is_temporary(folder.name)]
        sizes = {folder: size_of(folder) for folder in found}
        dropped = []
        for folder in sorted(found, key=_last_use):
            if sum(sizes.values()) <= self.most_bytes:
                break
            if time.time() - _last_use(folder) > GRACE_S and not _is_held(folder):
                gone = folder.with_name(f".{folder.name}.gone")
                with contextlib.suppress(OSError):
                    folder.rename(gone)
                    shutil.rmtree(gone, ignore_errors=True)
                    shutil.rmtree(_locks(folder), ignore_errors=True)
                    dropped.append(folder.name)
                    del sizes[folder]
        return dropped

    def drop_unfinished(self) -> None:
        """Delete what processes have left that were killed while they made a folder."""
        from filelock import FileLock

        for left in self.folder.glob(f".*{TEMPORARY_SUFFIX}"):
            made = self.folder / left.name[1:].partition(".")[0]
            with contextlib.suppress(OSError), FileLock(self.folder / f".{made.name}.lock", timeout=0):
                remove_unfinished(made)


class SnapshotMarker(NamedTuple):
    """What a folder in the cache was made of.

    Attributes:
        place: place of the snapshots.
        id: the snapshot.
        part: part of the snapshot: '' for the library, `models/FOLDER` for its sounds.
        vector_rows: number of its vectors.
        has_rows: True if they were copied into the folder.
    """

    place: str
    id: str
    part: str
    vector_rows: int
    has_rows: bool


def marker_of(folder: Path) -> SnapshotMarker | None:
    """Read which snapshot a folder was made of; None for a folder that is none of the cache."""
    try:
        return SnapshotMarker(**json.loads((folder / SNAPSHOT_MARKER).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):  # there is none, or of another version
        return None


def note_use(folder: Path) -> None:
    """Note that a folder of the cache is used now."""
    with contextlib.suppress(OSError):
        os.utime(folder / SNAPSHOT_MARKER)


class FolderHold:
    """Keeps a folder of the cache from being deleted, until it is closed or the process ends."""

    def __init__(self, folder: Path) -> None:
        self._lock: BaseFileLock | None = None
        if not (folder / SNAPSHOT_MARKER).exists():
            return
        from filelock import FileLock

        note_use(folder)
        with contextlib.suppress(OSError):  # a cache that cannot be written is nobody's to clean either
            _locks(folder).mkdir(exist_ok=True)
            lock = FileLock(_locks(folder) / secrets.token_hex(8))
            lock.acquire(timeout=0)
            self._lock = lock

    def close(self) -> None:
        """Let the folder go."""
        if self._lock is not None:
            self._lock.release()
            with contextlib.suppress(OSError):
                os.unlink(self._lock.lock_file)
            self._lock = None


def _is_held(folder: Path) -> bool:
    """Whether a process reads a folder; the lock of one that was killed is free."""
    from filelock import FileLock, Timeout

    for path in _locks(folder).glob("*"):
        try:
            with FileLock(path, timeout=0):
                path.unlink(missing_ok=True)
        except Timeout:
            return True
    return False


def _locks(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{IN_USE}")


def _last_use(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return (folder / SNAPSHOT_MARKER).stat().st_mtime
    return 0.0
