"""What a watcher is doing, for a page or a log to show."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from evenreel.features.progress import Forecast, StagedProgress, VideoProgress


@dataclass(frozen=True)
class WatchState:
    """What a watcher is doing at a moment.

    Attributes:
        watching: whether changes are listened to, or looked for, and index runs made of them.
        folders: the watched folders.
        waiting: number of changed files and folders that wait to settle, or for the run at hand to end.
        working: whether an index run is going on.
        progress: how far its reading of videos is; None where none is read.
        last_event: the file or folder that changed last, printable; None where none has.
        last_event_at: when it did, in ISO 8601 with the zone; None where nothing has.
        runs: number of index runs that have ended.
        trouble: a sentence on what the last run failed of, or why no changes are told; None where all is well.
    """

    watching: bool
    folders: tuple[str, ...]
    waiting: int = 0
    working: bool = False
    progress: VideoProgress | None = None
    last_event: str | None = None
    last_event_at: str | None = None
    runs: int = 0
    trouble: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain data."""
        return asdict(self)


class WatchedProgress:
    """Progress of a run that is passed on, and of which the last is kept.

    Attributes:
        last: how far the reading of videos is; None where none is read.
    """

    def __init__(self, onward: StagedProgress) -> None:
        self._onward = onward
        self.last: VideoProgress | None = None

    def begin(self, files: int) -> None:
        """Pass on that a run over this many files begins."""
        self._onward.begin(files)

    def frame(self) -> None:
        """Pass on that one more frame was decoded."""
        self._onward.frame()

    def file_done(self, path: str) -> None:
        """Pass on that one more file was finished or set aside."""
        self._onward.file_done(path)

    def stage(self, name: str, count: int | None = None) -> None:
        """Pass on that a stage of `count` steps begins."""
        self._onward.stage(name, count)

    def advance(self, steps: int) -> None:
        """Pass on that steps of the stage were finished."""
        self._onward.advance(steps)

    def forecast(self, forecast: Forecast) -> None:
        """Pass on how much there is to read."""
        self._onward.forecast(forecast)

    def video(self, progress: VideoProgress) -> None:
        """Keep how far the run has read, and pass it on."""
        self.last = progress
        self._onward.video(progress)
