"""How many hours of video an index run has to read: told by the catalog and by headers, before anything is decoded."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.library.store.catalog import loaded_path
from evenreel.library.store.writer import FoundFile
from evenreel.media.workers import Worker

HEADER_READER = "evenreel.media.video:HeaderReader"

PATIENCE_S = 5.0
"""Seconds for which headers are read; the length of further files is estimated by their bytes."""

STALL_S = 3.0
"""Seconds that one header may take here; the file is read all the same later on, with the limits of the run."""

SMALL_BYTES = 16 * 2**20
"""With less than this to read in all, nobody waits long: no header is read ahead."""


@dataclass(frozen=True)
class VideoLengths:
    """Lengths of the files of a run.

    Attributes:
        by_path: length of each file in seconds, by path; an estimate where no header was read.
        sure: whether none of them is an estimate.
    """

    by_path: dict[str, float] = field(default_factory=dict)
    sure: bool = True

    @property
    def video_s(self) -> float:
        """Length of all files together, in seconds."""
        return sum(self.by_path.values())


def measure_lengths(
    work: Sequence[FoundFile], connection: sqlite3.Connection, limits: MediaLimits, patience_s: float | None = None
) -> VideoLengths:
    """Measure how long the files of a run are.

    Headers are read in a random order, so that those that are read in time stand for the others.
    """
    known = {
        loaded_path(path): float(length_s)
        for path, length_s in connection.execute(
            "SELECT path, duration_s FROM files JOIN clips USING (clip_id) WHERE duration_s IS NOT NULL"
        )
    }
    found = {file.path: known[file.path] for file in work if file.path in known}
    unknown = [file for file in work if file.path not in found]
    if sum(file.stamp.size for file in unknown) >= SMALL_BYTES:
        random.Random(0).shuffle(unknown)
        found |= _by_header(unknown, limits, PATIENCE_S if patience_s is None else patience_s)
    seconds_a_byte = _rate([file for file in work if file.path in found], found)
    estimated = {file.path: file.stamp.size * seconds_a_byte for file in unknown if file.path not in found}
    return VideoLengths(found | estimated, sure=not estimated)


def _by_header(files: Sequence[FoundFile], limits: MediaLimits, patience_s: float) -> dict[str, float]:
    """Lengths by what headers say; 0 of a file that cannot be read, which takes no time either."""
    limits = replace(limits, stall_timeout_s=min(STALL_S, limits.stall_timeout_s))
    found: dict[str, float] = {}
    with closing(Worker(HEADER_READER, {"limits": asdict(limits)}, limits)) as worker:
        until = time.monotonic() + patience_s
        for file in files:
            if time.monotonic() > until:
                break
            try:
                header = next(message for message, _ in worker.run({"path": file.path}))
                found[file.path] = header["duration_s"] or 0.0
            except MediaError:
                found[file.path] = 0.0
    return found


def _rate(files: Sequence[FoundFile], found: dict[str, float]) -> float:
    """Seconds of video that a byte holds in files of known length; 0 where there are none."""
    size = sum(file.stamp.size for file in files)
    return sum(found[file.path] for file in files) / size if size else 0.0
