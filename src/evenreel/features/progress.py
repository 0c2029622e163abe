"""Progress of long runs that read video files, and clips and files that they set aside."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

TRANSIENT = frozenset({"unreadable", "changed_while_reading", "bad_features", "killed"})
"""Reasons that may be gone at the next look, so such a file is tried again each time."""


@dataclass(frozen=True)
class SetAside:
    """A clip of a corpus or a file of a library that cannot be used, and why.

    Attributes:
        clip_id: id of the clip; empty for a file.
        path: the file; empty where the corpus names none.
        reason: a code of `evenreel.errors.Reason`.
        sentence: the reason in words.
    """

    clip_id: str
    path: str
    reason: str
    sentence: str

    def to_json(self) -> dict[str, str]:
        """Return the record as plain data; a file has no `clip_id`."""
        return {name: text for name, text in asdict(self).items() if text or name != "clip_id"}


class StagedProgress(Protocol):
    """Receives the events of a run that reads video files. Calls come from several threads."""

    def begin(self, files: int) -> None:
        """Begin a run over this many files."""

    def frame(self) -> None:
        """Count one more decoded frame."""

    def file_done(self, path: str) -> None:
        """Count one more file, finished or set aside."""

    def stage(self, name: str, count: int | None = None) -> None:
        """Begin a stage of `count` steps; None where they cannot be counted."""

    def advance(self, steps: int) -> None:
        """Count finished steps of the stage."""


class NoProgress:
    """A `StagedProgress` that ignores every event."""

    def begin(self, files: int) -> None:
        """Ignore that a run over this many files begins."""

    def frame(self) -> None:
        """Ignore that one more frame was decoded."""

    def file_done(self, path: str) -> None:
        """Ignore that one more file was finished or set aside."""

    def stage(self, name: str, count: int | None = None) -> None:
        """Ignore that a stage of `count` steps begins."""

    def advance(self, steps: int) -> None:
        """Ignore that steps of the stage were finished."""
