"""What a long run tells while it goes, and what it could not use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

TRANSIENT = frozenset({"unreadable", "changed_while_reading", "bad_features", "killed"})
"""Reasons that may be gone at the next look, so such a file is tried again each time."""


@dataclass(frozen=True)
class SetAside:
    """One file that cannot be used, and why."""

    path: str
    reason: str
    sentence: str


class StagedProgress(Protocol):
    """Told how a run goes. Calls come from several threads."""

    def begin(self, files: int) -> None:
        """So many files are to be read."""

    def frame(self) -> None:
        """One more frame is decoded and read."""

    def file_done(self, path: str) -> None:
        """One more file is finished or set aside."""

    def stage(self, name: str, count: int | None = None) -> None:
        """Another stage has begun, of so many steps where they can be counted."""

    def advance(self, steps: int) -> None:
        """So many steps of a stage are done."""


class NoProgress:
    """A `StagedProgress` that says nothing."""

    def begin(self, files: int) -> None:
        """So many files are to be read."""

    def frame(self) -> None:
        """One more frame is decoded and read."""

    def file_done(self, path: str) -> None:
        """One more file is finished or set aside."""

    def stage(self, name: str, count: int | None = None) -> None:
        """Another stage has begun, of so many steps where they can be counted."""

    def advance(self, steps: int) -> None:
        """So many steps of a stage are done."""
