"""Progress bars on standard error, where a person is looking."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.progress import Progress, ProgressColumn, TaskID

    from evenreel.features.progress import Forecast, VideoProgress
    from evenreel.progress import Progress as Share
    from evenreel.training.loop.milestones import Watch

PATIENCE_S = 2.0
"""How long work takes before a bar is drawn, for those who begin to wonder."""


class Bars:
    """A progress bar in one line: files done of all, files a minute, frames a second, time left.

    It has the methods of `evenreel.features.progress.StagedProgress`, which it does not import: the command line stays
    light.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._frames = 0
        self._started = time.monotonic()

    def begin(self, files: int) -> None:
        """Begin to count files that are read."""
        self._started, self._frames = time.monotonic(), 0
        self._show("reading videos", files)

    def frame(self) -> None:
        """Count one more frame that is decoded and read."""
        self._frames += 1
        self._rates()

    def file_done(self, path: str) -> None:
        """Count one more file that is finished or set aside."""
        if self._task is not None:
            self._progress.advance(self._task)
            self._rates()

    def stage(self, name: str, count: int | None = None) -> None:
        """Begin another stage; `count` is the number of its steps, None where they cannot be counted."""
        self._show(name, count)

    def advance(self, steps: int) -> None:
        """Count steps of the stage that are done."""
        if self._task is not None:
            self._progress.advance(self._task, steps)

    def forecast(self, forecast: Forecast) -> None:
        """Take how much there is to read."""

    def video(self, progress: VideoProgress) -> None:
        """Take how far the run has read."""

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
    """Draw bars for the time of a block; nothing is drawn where standard error is not a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

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
    with _drawn(columns) as progress:
        yield Bars(progress)


@contextlib.contextmanager
def share_bar(words: str) -> Iterator[Share]:
    """Give a function to call with the share that is done; a bar is drawn after `PATIENCE_S`, on a terminal alone.

    Args:
        words: name of the work; it is shown as text, without markup.
    """
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from evenreel.wording import printable

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with _late_bar(columns, description=printable(words), total=1.0) as update:
        yield lambda share: update(completed=share)


@contextlib.contextmanager
def step_bar(*, shown: bool) -> Iterator[Watch]:
    """Draw a bar of a training's steps with the latest loss and figures, after `PATIENCE_S` where it is shown."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    figures_column = TextColumn("{task.description}", markup=False)
    columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), figures_column)

    with _late_bar(columns, shown=shown, description="", total=None) as update:

        def watch(step: int, steps: int, figures: Mapping[str, float]) -> None:
            update(completed=step, total=steps, description=_in_short(figures))

        yield watch


def _drawn(columns: tuple[ProgressColumn, ...], *, shown: bool = True) -> Progress:
    """A bar on standard error that leaves nothing behind; none is drawn where that is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))


@contextlib.contextmanager
def _late_bar(columns: tuple[ProgressColumn, ...], *, shown: bool = True, **task: Any) -> Iterator[Callable[..., None]]:
    """A function that updates the one task of a bar, which is drawn once the work has taken `PATIENCE_S`."""
    bar = _drawn(columns, shown=shown)
    number, started = bar.add_task(**task), time.monotonic()
    with contextlib.ExitStack() as stack:

        def update(**values: Any) -> None:
            if not bar.live.is_started and time.monotonic() - started > PATIENCE_S:
                stack.enter_context(bar)
            bar.update(number, **values)

        yield update


def _in_short(figures: Mapping[str, float]) -> str:
    loss = sum(value for name, value in figures.items() if name.startswith("loss/"))
    recalls = [f"{name.removeprefix('validation/')} {figures[name]:.1f}" for name in figures if name.endswith("R@1")]
    return ", ".join([f"loss {loss:.3f}", *recalls]) if figures else ""
