"""How far an index run has read, in seconds of video: told to whoever shows its progress, a few times a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from evenreel.features.progress import StagedProgress, VideoProgress
from evenreel.wording import printable

TELL_S = 0.25
"""Least seconds between two events; the last one of a pass is always told."""

SURE_S = 2.0
"""Seconds of reading before a rate is told: the first frames wait for processes that start."""


class VideoMeter:
    """Adds up what the readers of a pass have read; calls come from several threads."""

    def __init__(self, stage: str, lengths_s: Mapping[str, float], progress: StagedProgress) -> None:
        self._stage, self._progress = stage, progress
        self._lengths_s, self._read_s = dict(lengths_s), dict.fromkeys(lengths_s, 0.0)
        self._total_s, self._done_s = sum(lengths_s.values()), 0.0
        self._finished, self._file = set[str](), ""
        self._unknown = {path for path, length_s in lengths_s.items() if not length_s}
        self._begun_at: float | None = None
        self._told_at = -TELL_S
        self._lock = threading.Lock()
        self._tell(time.monotonic())

    def read(self, path: str, time_s: float) -> None:
        """Note that a file was read up to a time, in seconds."""
        with self._lock:
            now = time.monotonic()
            self._begun_at = self._begun_at or now
            if path in self._read_s and path not in self._finished:
                self._file = path
                self._set(path, max(self._read_s[path], time_s))
            if now - self._told_at >= TELL_S:
                self._tell(now)

    def finish(self, path: str, length_s: float | None = None) -> None:
        """Note that a file is finished or set aside; `length_s` is its length where that is known by now."""
        with self._lock:
            if path in self._read_s and path not in self._finished:
                self._finished.add(path)
                self._unknown.discard(path)
                if length_s is not None:
                    self._total_s += length_s - self._lengths_s[path]
                    self._lengths_s[path] = length_s
                self._set(path, self._lengths_s[path])
            self._tell(time.monotonic())

    def _set(self, path: str, read_s: float) -> None:
        """Note how much of a file was read; one that goes on after its expected end is longer than that."""
        beyond_s = max(0.0, read_s - self._lengths_s[path])
        self._lengths_s[path] += beyond_s
        self._total_s += beyond_s
        self._done_s += read_s - self._read_s[path]
        self._read_s[path] = read_s

    def _unseen_s(self) -> float:
        """Estimate what is still to be seen of files of unknown length: such a file is as long as finished ones are."""
        if not self._finished:
            return 0.0
        mean_s = sum(self._lengths_s[path] for path in self._finished) / len(self._finished)
        return sum(max(0.0, mean_s - self._lengths_s[path]) for path in self._unknown)

    def _tell(self, now: float) -> None:
        self._told_at = now
        seconds = 0.0 if self._begun_at is None else now - self._begun_at
        rate = self._done_s / seconds if seconds >= SURE_S and self._done_s > 0 else None
        total_s = self._total_s + self._unseen_s()
        is_told = bool(self._finished) or not self._unknown
        left_s = max(0.0, total_s - self._done_s)
        self._progress.video(
            VideoProgress(
                self._stage,
                done_s=self._done_s,
                total_s=total_s if is_told else 0.0,
                files_done=len(self._finished),
                files=len(self._read_s),
                rate=rate,
                remaining_s=left_s / rate if rate is not None and is_told else None,
                file=printable(self._file),
            )
        )
