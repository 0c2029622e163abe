"""Progress bars on standard error, where a person is looking."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Bars:
    """One line: files done of all, files a minute, frames a second, time left.

    It has the methods of `evenreel.features.progress.StagedProgress`, which it does not import: the command line stays
    light.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._frames = 0
        self._started = time.monotonic()

    def begin(self, files: int) -> None:
        """So many files are to be read."""
        self._started, self._frames = time.monotonic(), 0
        self._show("reading videos", files)

    def frame(self) -> None:
        """One more frame is decoded and read."""
        self._frames += 1
        self._rates()

    def file_done(self, path: str) -> None:
        """One more file is finished or set aside."""
        if self._task is not None:
            self._progress.advance(self._task)
            self._rates()

    def stage(self, name: str, count: int | None = None) -> None:
        """Another stage has begun, of so many steps where they can be counted."""
        self._show(name, count)

    def advance(self, steps: int) -> None:
        """So many steps of a stage are done."""
        if self._task is not None:
            self._progress.advance(self._task, steps)

    def _show(self, name: str, total: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=total, rates="")

    def _rates(self) -> None:
        seconds = time.monotonic() - self._started
        if self._task is not None and seconds > 0.5:
            files = self._progress.tasks[0].completed * 60 / seconds
            self._progress.update(self._task, rates=f"{files:.0f} files/min  {self._frames / seconds:.1f} frames/s")


@contextlib.contextmanager
def bars() -> Iterator[Bars]:
    """Bars for the time of a block; nothing is drawn where standard error is not a terminal."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rates]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bars(progress)
