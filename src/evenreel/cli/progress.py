"""Progress bars on standard error, where a person is looking."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from evenreel import extras
from evenreel.extras import Download, byte_size
from evenreel.features.pool import Forecast, NoProgress, VideoProgress
from evenreel.files import printable
from evenreel.wording import count, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.progress import Progress, ProgressColumn, TaskID

    from evenreel.progress import Progress as Share
    from evenreel.training.loop import Watch

MUCH_S = 600.0  # seconds of video from which on a run is foretold, and told of in a log; a shorter one is soon done
LINE_S = 5.0  # least seconds between two lines in a log
PATIENCE_S = 2.0  # how long work takes before a bar is drawn, for those who begin to wonder


class Bars(NoProgress):
    """A progress bar in one line: what is done of all, how fast, the time left, the file that is read."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._frames = self._files = 0
        self._total: int | None = None
        self._started = time.monotonic()

    def begin(self, files: int) -> None:
        self._started, self._frames = time.monotonic(), 0
        self._show("reading videos", files)

    def frame(self) -> None:
        """Count one more frame, and show how fast files are read where their lengths are not told."""
        self._frames += 1
        seconds = time.monotonic() - self._started
        if self._task is not None and self._total is not None and seconds > 0.5:
            files = self._files * 60 / seconds
            self._progress.update(self._task, rates=f"{files:.0f} files/min  {self._frames / seconds:.1f} frames/s")

    def file_done(self, path: str) -> None:
        self.advance(1)

    def stage(self, name: str, count: int | None = None) -> None:
        self._show(name, count)

    def advance(self, steps: int) -> None:
        self._files += steps
        if self._task is not None and self._total is not None:
            self._progress.update(self._task, completed=self._files, amount=f"{self._files}/{self._total}")

    def forecast(self, forecast: Forecast) -> None:
        if (sentence := foretold(forecast)) and _is_told():
            self._progress.console.print(sentence, markup=False)

    def video(self, progress: VideoProgress) -> None:
        if self._task is None or not progress.total_s:
            return
        self._total = None  # files are counted in other words from now on
        seconds = time.monotonic() - self._started
        frames = f", {self._frames / seconds:.1f} frames/s" if seconds > 0.5 else ""
        self._progress.update(
            self._task,
            description=progress.stage,
            total=progress.total_s,
            completed=progress.done_s,
            amount=_amount(progress),
            rates=f"{_speed(progress)}{frames}  {os.path.basename(progress.file)[-40:]}",
        )

    def download(self, progress: Download) -> None:
        name = f"downloading {progress.model}"
        if self._task is None or self._progress.tasks[-1].description != name:
            self._show(name, None)
        assert self._task is not None
        (amount, rates), total = _arrived(progress), progress.total_bytes or None
        self._progress.update(self._task, total=total, completed=progress.done_bytes, amount=amount, rates=rates)

    def _show(self, name: str, total: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._files, self._total = 0, total
        amount = "" if total is None else f"0/{total}"
        self._task = self._progress.add_task(name, total=total, amount=amount, rates="")


class LogLines(NoProgress):
    """The same for a log: one line at most every `LINE_S` seconds, of runs that have much to read."""

    def __init__(self) -> None:
        self._tells, self._told_at = False, 0.0

    def stage(self, name: str, count: int | None = None) -> None:
        if self._tells:
            steps = "" if count is None else f" ({count:,})"
            _log(f"{name}{steps}")

    def forecast(self, forecast: Forecast) -> None:
        if (sentence := foretold(forecast)) and _is_told():
            self._tells, self._told_at = True, time.monotonic()
            _log(sentence)

    def video(self, progress: VideoProgress) -> None:
        now = time.monotonic()
        if self._tells and progress.total_s and now - self._told_at >= LINE_S:
            self._told_at = now
            _log(f"{progress.stage}: {_amount(progress)}, {_speed(progress)}; {os.path.basename(progress.file)}")

    def download(self, progress: Download) -> None:
        now, ended = time.monotonic(), progress.done_bytes == progress.total_bytes
        if _is_told() and (ended or now - self._told_at >= LINE_S):
            self._told_at = now
            _log(f"downloading {progress.model}: {', '.join(filter(None, _arrived(progress)))}")


def _arrived(progress: Download) -> tuple[str, str]:
    """How much of a download is here, how fast it comes and how long it still takes: `23 MB/s, about 40 s left`."""
    done = byte_size(progress.done_bytes)
    amount = f"{done} of {byte_size(progress.total_bytes)}" if progress.total_bytes else done
    if not progress.remaining_s:
        return amount, ""
    rate = (progress.total_bytes - progress.done_bytes) / progress.remaining_s
    return amount, f"{byte_size(rate)}/s, about {duration(progress.remaining_s)} left"


def foretold(forecast: Forecast) -> str | None:
    """Return the sentence on how much there is to read and how long that may take; None where it is soon done.

    >>> foretold(Forecast(1203, 41 * 3600, pictures_s=3000, words_s=8 * 3600))
    '41 h of video in 1,203 files: pictures about 50 min, words about 8 h'
    """
    if forecast.video_s < MUCH_S:
        return None
    parts = []
    if forecast.pictures_s is not None:
        parts.append(f"pictures about {duration(forecast.pictures_s)}")
    if forecast.words_s is not None:
        parts.append(f"words about {duration(forecast.words_s)}")
    if forecast.hears:
        parts.append("what is said besides")
    much = (
        f"{'' if forecast.sure else 'about '}{duration(forecast.video_s)} of video in {count(forecast.files, 'file')}"
    )
    return f"{much}: {', '.join(parts)}" if parts else much


def _amount(progress: VideoProgress) -> str:
    """What is done of all: `12 of 41 min`."""
    done, total = progress.done_s / 60, progress.total_s / 60
    files = f"{progress.files_done:,}/{progress.files:,} files"
    return f"{done:.0f} of {total:.0f} min, {files}" if total >= 10 else f"{done:.1f} of {total:.1f} min, {files}"


def _speed(progress: VideoProgress) -> str:
    """How fast, and how long it still takes: `23x playing speed, about 8 min left`."""
    if progress.rate is None or progress.remaining_s is None:
        return "speed not known yet"
    rate = f"{progress.rate:.0f}" if progress.rate >= 10 else f"{progress.rate:.1f}"
    return f"{rate}x playing speed, about {duration(progress.remaining_s)} left"


def _is_told() -> bool:
    return logging.getLogger("evenreel").isEnabledFor(logging.WARNING)


def _log(line: str) -> None:
    sys.stderr.write(f"evenreel: {printable(line)}\n")
    sys.stderr.flush()


@contextlib.contextmanager
def bars() -> Iterator[Bars | LogLines]:
    """Draw bars for the time of a block, or write lines where standard error is not a terminal."""
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[amount]}"),
        TextColumn("{task.fields[rates]}", markup=False),
        TimeElapsedColumn(),
    )
    before = extras.on_download
    with _drawn(columns) as progress:
        told = LogLines() if progress.disable else Bars(progress)
        extras.on_download = told.download
        try:
            yield told
        finally:
            extras.on_download = before


@contextlib.contextmanager
def share_bar(words: str) -> Iterator[Share]:
    """Give a function to call with the share that is done; a bar is drawn after `PATIENCE_S`, on a terminal alone."""
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn

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
            loss = sum(value for name, value in figures.items() if name.startswith("loss/"))
            recalls = [
                f"{name.removeprefix('validation/')} {one:.1f}" for name, one in figures.items() if name.endswith("R@1")
            ]
            update(
                completed=step, total=steps, description=", ".join([f"loss {loss:.3f}", *recalls]) if figures else ""
            )

        yield watch


def _drawn(columns: tuple[ProgressColumn, ...], *, shown: bool = True) -> Progress:
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
