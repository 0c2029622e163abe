"""Following of a library: the folder that it is read from now, whichever snapshot was published last."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from evenreel.errors import EvenreelError
from evenreel.features.shards import shard_files, shard_path
from evenreel.files import write_durably
from evenreel.library.snapshot.holding import FolderHold, SnapshotCache, marker_of
from evenreel.library.snapshot.manifest import read_pointer
from evenreel.library.snapshot.opening import folder_of_snapshot, open_table
from evenreel.library.snapshot.place import SNAPSHOTS, SnapshotPlace, snapshot_place
from evenreel.library.store.catalog import STILLS
from evenreel.library.store.filesystem import is_published

EVERY_S = 5.0
STILLS_BYTES = 2 * 2**30
"""Most bytes of stills that are kept of a snapshot."""
PAUSE_S = 30.0
"""Seconds for which no stills are asked for where the store did not answer: whoever wants one would wait for it."""
LOOKED_AFTER = 200
"""Clips whose stills are fetched between two looks at their size."""

log = logging.getLogger("evenreel")


class FollowedLibrary:
    """The folder that a library is read from: its own, or that of the newest published snapshot.

    A new snapshot is opened in the background; the folder changes when it is whole. Where a new one cannot be opened,
    the last one goes on.
    """

    def __init__(self, given: Path, cache: SnapshotCache | None = None, every_s: float = EVERY_S) -> None:
        self.folder = given
        self._cache, self._every_s = cache or SnapshotCache(), every_s
        self._place = snapshot_place(given) if is_published(given) else None
        self._hold: FolderHold | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._said = ""
        self._fetched, self._paused_until = 0, 0.0

    @property
    def is_published(self) -> bool:
        """True for published snapshots, which are only read."""
        return self._place is not None

    def start(self) -> None:
        """Open the current snapshot, and begin to look for new ones."""
        if self._place is None or self._thread is not None:
            return
        self.look()
        self._thread = threading.Thread(target=self._follow, name="follow", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Open the current snapshot, if it is another one than before."""
        if self._place is None:
            return
        pointer = read_pointer(self._place)
        if self._hold is not None and pointer.id == self.folder.name:
            return
        folder = folder_of_snapshot(self._place, pointer, self._cache, lambda share: None)
        before, self._hold = self._hold, FolderHold(folder)
        self.folder = folder
        if before is not None:
            log.info("the snapshot %s is served from now on", pointer.id)
            before.close()  # those who still read it hold it too

    def close(self) -> None:
        """Look no further."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        if self._hold is not None:
            self._hold.close()

    def _follow(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self.look()
                self._said = ""
            except Exception as error:  # whatever it is, the last snapshot is still served
                sentence = str(error) if isinstance(error, EvenreelError) else f"it failed ({type(error).__name__})"
                if sentence != self._said:
                    log.warning("no newer snapshot can be taken up: %s", sentence)
                self._said = sentence

    def stills_of(self, clip_id: str) -> Path:
        """Return the folder in which the stills of a clip lie, if it has any; those of a snapshot are fetched."""
        folder = self.folder
        marker = marker_of(folder) if self._place is not None else None
        if self._place is not None and marker is not None and time.monotonic() >= self._paused_until:
            try:
                self._fetched += fetch_stills(folder, self._place, marker.id, clip_id)
                if self._fetched >= LOOKED_AFTER:
                    self._fetched = 0
                    trim_stills(folder / STILLS, STILLS_BYTES)
            except (EvenreelError, OSError) as error:
                self._paused_until = time.monotonic() + PAUSE_S
                log.info("the stills of %s cannot be had: %s", clip_id, error)
        return folder / STILLS


def fetch_stills(folder: Path, place: SnapshotPlace, snapshot_id: str, clip_id: str) -> bool:
    """Copy the stills of a clip from a snapshot to its folder in the cache; return whether anything was copied."""
    path = shard_path(folder / STILLS, clip_id)
    if path.exists() or not clip_id.isalnum():
        return False
    with place.telling("read"):
        if not place.files.exists(place.at(f"{SNAPSHOTS}/{snapshot_id}/stills.lance")):
            return False
        table = open_table(place, f"{SNAPSHOTS}/{snapshot_id}/stills.lance")
        found = table.to_table(columns=["stills"], filter=f"clip_id = '{clip_id}'")["stills"].to_pylist()
    if found:
        write_durably(path, found[0])
    return bool(found)


def trim_stills(folder: Path, most_bytes: int) -> None:
    """Delete the oldest files of stills in a folder until at most `most_bytes` are left."""
    found = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in shard_files(folder))
    excess = sum(size for _, size, _ in found) - most_bytes
    for _, size, path in found:
        if excess <= 0:
            return
        path.unlink(missing_ok=True)
        excess -= size
