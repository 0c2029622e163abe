"""Paths of a corpus's features, and a ledger of each video's content when it was last read."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenreel.documents import parse_json
from evenreel.errors import FeaturesError, MediaError
from evenreel.features.shards import shard_path
from evenreel.files import TEMPORARY_SUFFIX, is_temporary, write_durably
from evenreel.media.workers import FileStamp, stamp

LEDGER, CLIPS, TEXTS = "files.json", "clips", "texts"
SAVE_EVERY_S = 30.0
RECOMPUTE = "run `evenreel features` again to compute it anew"


def clip_shard(folder: Path, key: str) -> Path:
    """Return the path of a clip's shard."""
    return shard_path(folder / CLIPS, key)


def store(path: Path, payload: bytes) -> None:
    """Write a file durably.

    Raises:
        FeaturesError: it cannot be written; the file that was there before is still there.
    """
    try:
        write_durably(path, payload)
    except OSError as error:
        raise FeaturesError(
            f"Cannot write {path} ({len(payload)} bytes): {error.strerror or error}; what was computed so far is kept."
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Delete files that a killed run had half written."""
    for temporary in folder.rglob(f".*{TEMPORARY_SUFFIX}"):
        if is_temporary(temporary.name):
            temporary.unlink(missing_ok=True)


@dataclass
class Ledger:
    """Digests of the videos when they were last read, and clips that are set aside.

    It saves reading every video again to see whether it has changed. A lost ledger costs time and no feature.

    Attributes:
        path: file of the ledger.
        files: stamp and digest of each video, by its path in the corpus.
        set_aside: reason and sentence of clips that cannot be read, by their key.
        unreadable: reason and sentence of videos whose content could not be read, by their path in the corpus.
    """

    path: Path
    files: dict[str, tuple[FileStamp, str]] = field(default_factory=dict)
    set_aside: dict[str, tuple[str, str]] = field(default_factory=dict)
    unreadable: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._saved = time.monotonic()

    @classmethod
    def load(cls, folder: Path) -> Ledger:
        """Read the ledger of a folder; return an empty one where none can be read."""
        ledger = cls(folder / LEDGER)
        try:
            fields = parse_json(ledger.path.read_text(encoding="utf-8"))
            ledger.files = {name: (FileStamp(*of), digest) for name, (of, digest) in fields["files"].items()}
            for name in ("set_aside", "unreadable"):
                getattr(ledger, name).update({key: (reason, why) for key, (reason, why) in fields[name].items()})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls(folder / LEDGER)
        return ledger

    def digest(self, name: str, place: Path) -> str | None:
        """Return the known digest of a file that is unchanged or gone; None where it must be read."""
        known = self.files.get(name)
        try:
            now = stamp(str(place))
        except MediaError:
            return known[1] if known else None
        return known[1] if known and known[0] == now else None

    def look(self, name: str, place: Path, digest: Callable[[str], str]) -> tuple[FileStamp, str]:
        """Read a file for its digest, and note it with the file's stamp.

        Args:
            name: path of the file in the corpus.
            place: path on this machine.
            digest: reads a file; see `evenreel.media.workers`.

        Raises:
            MediaError: the file cannot be read, which is noted too; of one that is gone, its last content stays known.
        """
        try:
            before = stamp(str(place))
        except MediaError as error:
            if name not in self.files:
                self._note_unreadable(name, error)
            raise
        try:
            found = before, digest(str(place))
        except MediaError as error:
            self._note_unreadable(name, error)
            raise
        with self._lock:
            self.files[name] = found
            self.unreadable.pop(name, None)
        return found

    def _note_unreadable(self, name: str, error: MediaError) -> None:
        with self._lock:
            self.files.pop(name, None)
            self.unreadable[name] = (error.reason, str(error))

    def note_aside(self, key: str, error: MediaError | None) -> None:
        """Note that a clip cannot be read, with the error; None notes that it can."""
        with self._lock:
            if error is None:
                self.set_aside.pop(key, None)
            else:
                self.set_aside[key] = (error.reason, str(error))

    def save(self, *, now: bool = False) -> None:
        """Write the ledger, if the last time is long ago or `now` is set.

        Raises:
            FeaturesError: it cannot be written.
        """
        with self._lock:
            if not now and time.monotonic() - self._saved < SAVE_EVERY_S:
                return
            self._saved = time.monotonic()
            files = {name: ([of.size, of.mtime_ns, of.ctime_ns], digest) for name, (of, digest) in self.files.items()}
            payload: dict[str, Any] = {"files": files, "set_aside": self.set_aside, "unreadable": self.unreadable}
            store(self.path, json.dumps(payload, sort_keys=True).encode())
