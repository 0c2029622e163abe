"""FileChanges of watched folders that no index run has looked at yet; files that are still being written wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from evenreel.files import may_be_video
from evenreel.library.index.ignoring import IGNORE_FILE
from evenreel.speech.subtitles import is_subtitle

SETTLE_S = 2.0
"""Seconds for which size and times of a file stay the same before it is read: copying pauses for less."""

TABLES = ("metadata.", "manifest.")

Look = tuple[int, int, int] | None
"""Size and times of a file in nanoseconds; None where it is gone."""


@dataclass
class _Unsettled:
    """A path that has changed: what it looked like, and since when."""

    look: Look
    since_s: float


class FileChanges:
    """Paths that have changed, each until it is settled and taken; calls come from several threads."""

    def __init__(self, left_out: Collection[str] = ()) -> None:
        self._left_out = tuple(left_out)
        self._waiting: dict[str, _Unsettled] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._waiting)

    def note(self, paths: Iterable[str], now_s: float, roots: Sequence[str]) -> list[str]:
        """Note that paths have changed; return those that count."""
        counted = [path for path in paths if self._counts(path, roots)]
        with self._lock:
            for path in counted:
                self._waiting[path] = _Unsettled(_look(path), now_s)
        return counted

    def again(self, paths: Iterable[str]) -> None:
        """Note paths that are settled and have to be looked at once more."""
        with self._lock:
            for path in paths:
                self._waiting.setdefault(path, _Unsettled(_look(path), float("-inf")))

    def settled(self, now_s: float) -> set[str]:
        """Return the paths that have stayed the same for `SETTLE_S`; one that has changed begins anew."""
        with self._lock:
            for path, one in self._waiting.items():
                if (look := _look(path)) != one.look:
                    one.look, one.since_s = look, now_s
            return {path for path, one in self._waiting.items() if now_s - one.since_s >= SETTLE_S}

    def take(self, now_s: float) -> set[str]:
        """Return the settled paths and forget them."""
        found = self.settled(now_s)
        with self._lock:
            for path in found:
                self._waiting.pop(path, None)
        return found

    def unsettled(self) -> set[str]:
        """Return the paths that are still waiting."""
        with self._lock:
            return set(self._waiting)

    def clear(self) -> None:
        """Forget all changes: everything is going to be looked at."""
        with self._lock:
            self._waiting.clear()

    def _counts(self, path: str, roots: Sequence[str]) -> bool:
        """Whether a change may be one of videos, subtitles, tables, ignore lists or folders, and is not hidden."""
        if any(path == one or path.startswith(one + os.sep) for one in self._left_out):
            return False
        root = next((one for one in roots if path == one or path.startswith(one.rstrip(os.sep) + os.sep)), None)
        if root is None:
            return False
        *folders, name = PurePath(path).relative_to(root).parts or ("",)
        if any(folder.startswith(".") for folder in folders):
            return False
        if name == IGNORE_FILE or name.lower().startswith(TABLES):
            return True
        # What is gone may have been a folder of any name.
        may_be_folder = os.path.isdir(path) or not os.path.lexists(path)
        return not name.startswith(".") and (may_be_video(path) or is_subtitle(name) or may_be_folder)


def _look(path: str) -> Look:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
