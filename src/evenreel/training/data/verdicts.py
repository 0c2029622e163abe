"""File, in the folder of a run, of which clips could be read: a line of JSON for each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from evenreel.documents import parse_json
from evenreel.features.pool import TRANSIENT
from evenreel.files import make_folder, sync_file, write_durably

PASSING = TRANSIENT | {"timeout"}
"""Reasons that may be gone at the next look; a busy machine alone can make a clip overdue."""


class ClipVerdict(NamedTuple):
    """Result of reading a clip: its number of frames, or the reason why it cannot be read.

    Attributes:
        frames: number of frames decoded.
        reason: code of `evenreel.errors.Reason`; None for a readable clip.
        sentence: the reason in words.
    """

    frames: int
    reason: str | None = None
    sentence: str = ""


class Verdicts:
    """File of which clips could be read, by key; each result is appended at once.

    It is a cache: a line that cannot be read, since a crash cut it short or the disk damaged it, is left out.

    Args:
        path: the file; None for none.
    """

    def __init__(self, path: Path | None) -> None:
        self.known: dict[str, ClipVerdict] = {}
        self._path = path
        if path is None or not path.exists():
            return
        content = path.read_bytes()
        self.known = dict(_readable(content))
        if self._lines() != content:  # a line that is appended has to begin as one
            self._replace()

    def note(self, key: str, verdict: ClipVerdict) -> None:
        """Add the result of reading a clip to the file."""
        self.known[key] = verdict
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(_line(key, verdict))

    def forget_passing(self) -> None:
        """Drop results whose cause may be gone, such as a missing file, so that these clips are read again."""
        self.known = {key: verdict for key, verdict in self.known.items() if verdict.reason not in PASSING}
        self._replace()

    def make_durable(self) -> None:
        """Flush the file to disk, so that results survive a power cut."""
        if self._path is not None and self._path.exists():
            sync_file(self._path)

    def _lines(self) -> bytes:
        return b"".join(_line(key, verdict) for key, verdict in self.known.items())

    def _replace(self) -> None:
        if self._path is not None:
            write_durably(self._path, self._lines())


@contextmanager
def locked(path: Path | None) -> Iterator[None]:
    """Lock the file of results against other processes for a `with` block; None locks nothing.

    Raises:
        OSError: the disk refuses.
    """
    if path is None:
        yield
        return
    make_folder(path.parent)
    with FileLock(path.with_suffix(".lock")):
        yield


def forget_passing(path: Path) -> None:
    """Remove results whose cause may be gone, such as a missing file, from the file of results.

    Raises:
        OSError: the disk refuses.
    """
    with locked(path):
        Verdicts(path).forget_passing()


def _line(key: str, verdict: ClipVerdict) -> bytes:
    return json.dumps([key, *verdict]).encode() + b"\n"


def _readable(content: bytes) -> Iterator[tuple[str, ClipVerdict]]:
    for line in content.split(b"\n"):
        try:
            key, frames, reason, sentence = parse_json(line)
            verdict = ClipVerdict(int(frames), reason, sentence)
        except (ValueError, TypeError):
            continue
        yield str(key), verdict
