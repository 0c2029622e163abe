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


@dataclass(frozen=True)
class Forecast:
    """How much a run has to read, and how long that may take: said once, before anything is read."""

    files: int  # that will be read
    video_s: float  # their length
    sure: bool = True  # whether the header of every file was read for it, else part of it is an estimate
    pictures_s: float | None = None  # that pictures may take, measured on short stretches; None where it was not
    words_s: float | None = None  # that words on screen may take
    hears: bool = False  # whether speech is recognised besides, of which the time is not measured


@dataclass(frozen=True)
class VideoProgress:
    """How far a run has read, in seconds of video."""

    stage: str  # what is read in this pass: `pictures`, `words` or `pictures and words`
    done_s: float
    total_s: float  # to read in this pass; lengths not known yet are estimates, and 0 where no length is known yet
    files_done: int  # finished or set aside
    files: int
    rate: float | None = None  # seconds of video that are read in a second; None before that can be told
    remaining_s: float | None = None
    file: str = ""  # of which something was read last, printable


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

    def forecast(self, forecast: Forecast) -> None:
        """Take how much there is to read, and how long it may take."""

    def video(self, progress: VideoProgress) -> None:
        """Take how far the run has read; called a few times a second at most."""


class NoProgress:
    """A `StagedProgress` that ignores every event."""

    def begin(self, files: int) -> None: ...
    def frame(self) -> None: ...
    def file_done(self, path: str) -> None: ...
    def stage(self, name: str, count: int | None = None) -> None: ...
    def advance(self, steps: int) -> None: ...
    def forecast(self, forecast: Forecast) -> None: ...
    def video(self, progress: VideoProgress) -> None: ...
