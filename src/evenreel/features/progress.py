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
    """How much a run has to read, and how long that may take: said once, before anything is read.

    Attributes:
        files: files that will be read.
        video_s: their length in seconds; part of it is an estimate where `sure` is False.
        sure: whether the header of every file was read for the length.
        pictures_s: seconds that pictures may take, measured on short stretches of some of the files; None where that
            was not measured.
        words_s: seconds that words on screen may take, measured in the same way.
        hears: whether speech is recognised besides, of which the time is not measured.
    """

    files: int
    video_s: float
    sure: bool = True
    pictures_s: float | None = None
    words_s: float | None = None
    hears: bool = False


@dataclass(frozen=True)
class VideoProgress:
    """How far a run has read, in seconds of video.

    Attributes:
        stage: what is read in this pass: `pictures`, `words` or `pictures and words`.
        done_s: seconds of video that were read.
        total_s: seconds of video to read in this pass; lengths that are not known yet are estimates. 0 where no length
            is known yet.
        files_done: files that are finished or set aside.
        files: files to read in this pass.
        rate: seconds of video that are read in a second; None before that can be told.
        remaining_s: seconds that this pass may still take; None before that can be told.
        file: the file of which something was read last, printable; empty at the beginning.
    """

    stage: str
    done_s: float
    total_s: float
    files_done: int
    files: int
    rate: float | None = None
    remaining_s: float | None = None
    file: str = ""


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

    def forecast(self, forecast: Forecast) -> None:
        """Ignore how much there is to read."""

    def video(self, progress: VideoProgress) -> None:
        """Ignore how far the run has read."""
