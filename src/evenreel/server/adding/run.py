"""The process that indexes folders for a server: it says in lines of JSON how that goes, and ends with the server.

Standard input brings the order in one line. When it is closed, because a person pauses or the server ends, however that
ends, the run ends as one that is interrupted does: what is finished is kept, and the next run goes on from there.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from evenreel.config import AUTO, IndexSettings
from evenreel.errors import EncoderError, EvenreelError, NotFoundError
from evenreel.extras import needed_extra
from evenreel.features.lock import is_held
from evenreel.features.progress import Forecast, VideoProgress
from evenreel.wording import count, printable

if TYPE_CHECKING:
    from evenreel.library import IndexReport

SAID_EVERY_S = 0.25
"""Seconds between two lines about the same stage."""
FAREWELL_S = 8.0
"""Seconds that a run may take to end by itself; a model that is being loaded hears nothing."""
HELD = "Another process is writing to the library; wait for it to end, then go on."
NO_MODEL = "The model cannot be loaded; the server's log says why. Choose another one, or words only."
FAILED = "The folders could not be looked through; the server's log says why."
"""What visitors are told of an error, whose own sentence may have paths, processes and hosts in it."""
WORDS_ONLY = "words"
"""Name of the choice of no model at all."""


@dataclass(frozen=True)
class RunOrder:
    """What a run is to do.

    Attributes:
        library: folder of the library.
        places: folders and single files.
        model: model of a new library; `words` for none, None for the library's own or the default.
        reads_text: whether on-screen text is read.
        watch: whether it goes on with what changes in the folders afterwards.
    """

    library: str
    places: tuple[str, ...]
    model: str | None = None
    reads_text: bool = True
    watch: bool = False

    def to_json(self) -> str:
        """Write the order in one line; a path that is no UTF-8 is kept as it is."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | bytes) -> RunOrder:
        """Read an order, the inverse of `to_json`."""
        told = json.loads(text)
        model = told["model"]
        return RunOrder(
            library=str(told["library"]),
            places=tuple(str(place) for place in told["places"]),
            model=None if model is None else str(model),
            reads_text=bool(told["reads_text"]),
            watch=bool(told["watch"]),
        )

    @property
    def settings(self) -> IndexSettings:
        """Settings of the run."""
        model = {None: AUTO, WORDS_ONLY: None}.get(self.model, self.model)
        return IndexSettings(model=model, read_text=self.reads_text)


@dataclass(frozen=True)
class StageReached:
    """How far a run is: `done` of `total` steps of a stage after `seconds` in it, and the file that was read last.

    Where lengths are known, `video_done_s` of `video_s` seconds of video are read, `speed` of them in a second, and
    `remaining_s` seconds are left.
    """

    stage: str
    done: int
    total: int | None
    seconds: float
    file: str | None = None
    video_done_s: float | None = None
    video_s: float | None = None
    speed: float | None = None
    remaining_s: float | None = None


class SaidProgress:
    """A `StagedProgress` that tells a function how far a run is, at most every `SAID_EVERY_S` seconds of a stage."""

    def __init__(self, say: Callable[[StageReached], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._lock = threading.Lock()
        self._stage, self._done = "looking through the folders", 0
        self._total: int | None = None
        self._file: str | None = None
        self._began = self._said_at = clock()

    def begin(self, files: int) -> None:
        """Begin a run over this many files."""
        self.stage("reading videos", files)

    def frame(self) -> None:
        """Count one more decoded frame; it is no step."""

    def file_done(self, path: str) -> None:
        """Count one more file, finished or set aside."""
        with self._lock:
            self._file = printable(os.path.basename(path))
        self.advance(1)

    def stage(self, name: str, count: int | None = None) -> None:
        """Begin a stage of `count` steps; None where they cannot be counted."""
        with self._lock:
            self._stage, self._total, self._done = name, count, 0
            self._began = self._said_at = self._clock()
            self._say(self._reached())

    def advance(self, steps: int) -> None:
        """Count finished steps of the stage."""
        with self._lock:
            self._done += steps
            if self._done == self._total or self._clock() - self._said_at >= SAID_EVERY_S:
                self._said_at = self._clock()
                self._say(self._reached())

    def forecast(self, forecast: Forecast) -> None:
        """Take how much there is to read; each pass says it again."""

    def video(self, progress: VideoProgress) -> None:
        """Tell how far the run has read, with the length of video that is behind it and before it."""
        with self._lock:
            if self._stage != (stage := f"reading {progress.stage}"):
                self._stage, self._began = stage, self._clock()
            self._file = os.path.basename(progress.file) or None
            self._done, self._total = progress.files_done, progress.files
            self._said_at = self._clock()
            self._say(
                replace(
                    self._reached(),
                    video_done_s=progress.done_s,
                    video_s=progress.total_s,
                    speed=progress.rate,
                    remaining_s=progress.remaining_s,
                )
            )

    def _reached(self) -> StageReached:
        return StageReached(self._stage, self._done, self._total, self._clock() - self._began, self._file)


class StoppedError(BaseException):
    """Raised when the run is to end; no `except Exception` takes it for a failure."""


def index(order: RunOrder, say: Callable[[StageReached], None]) -> str:
    """Index what an order says; return one sentence on what came of it."""
    from evenreel.library import index_folders

    order, remark = _there(order)
    places = [Path(place) for place in order.places]
    taken = _sentence(index_folders(places, order.library, order.settings, progress=SaidProgress(say)))
    return f"{taken} {remark}".rstrip()


def watch(order: RunOrder, say: Callable[[StageReached], None]) -> None:
    """Index what an order says and go on with what changes in its folders, until no run can succeed.

    Single files are looked at once.
    """
    from evenreel.library.watching import Watcher

    order, remark = _there(order)
    taken = ""
    if single := tuple(filter(os.path.isfile, order.places)):
        taken = index(replace(order, places=single), say)
        remark += f" Not watched, only looked at now: {_names(single)}."

    def tell(report: IndexReport) -> None:
        nonlocal taken
        taken = _sentence(report)
        _say({"taken": taken})

    folders = [place for place in order.places if place not in single]
    watcher = Watcher(order.library, folders, order.settings, progress=SaidProgress(say), told=tell)
    watcher.start()
    last = None
    try:
        while not watcher.wait(SAID_EVERY_S):
            state = watcher.state
            if last != (last := (state.working or not state.runs, state.trouble or "")):
                quiet = f"{taken} {remark.strip()}".strip() if remark and not last[0] else ""
                _say({"working": last[0], "trouble": FAILED if last[1] else quiet, "why": last[1]})
    finally:
        watcher.stop(FAREWELL_S / 2)


def _sentence(report: IndexReport) -> str:
    taken = report.indexed + report.recognised
    parts = [f"{count(taken, 'video')} taken in" if taken or not report.unchanged else "Nothing is new"]
    if report.set_aside:
        parts.append(f"{count(len(report.set_aside), 'file')} set aside (the view Library says why)")
    if closed := len(report.closed_folders):
        parts.append(f"{count(closed, 'folder')} could not be opened")
    return "; ".join(parts) + "."


def _there(order: RunOrder) -> tuple[RunOrder, str]:
    """The order without places that have gone since, and a remark on them."""
    there = tuple(filter(os.path.exists, order.places))
    gone = [place for place in order.places if place not in there]
    if not gone:
        return order, ""
    remark = f"Left out, as not there: {_names(gone)}; connect its disk and add it again."
    if not there:
        raise NotFoundError(remark)
    return replace(order, places=there), remark


def _names(places: Iterable[str]) -> str:
    return ", ".join(printable(os.path.basename(place)) for place in places)


def main() -> None:
    """Do what the first line of standard input says, and end when that is closed."""
    signal.signal(signal.SIGTERM, _stop)
    order = RunOrder.from_json(_first_line())
    threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    try:
        if order.watch:
            watch(order, lambda reached: _say(asdict(reached)))
        else:
            _say({"ended": index(order, lambda reached: _say(asdict(reached)))})
    except StoppedError:
        return
    except EvenreelError as error:
        held = is_held(error)
        known = {EncoderError: NO_MODEL, NotFoundError: str(error)}
        told = HELD if held else known.get(type(error), FAILED)
        _say({"failed": told, "held": held, "why": printable(str(error))})
    except ModuleNotFoundError as error:
        if (sentence := needed_extra(error, "Indexing")) is None:
            raise
        _say({"failed": sentence})


def _first_line() -> bytes:
    """The first line of standard input, not a byte more."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line


def _end_with_input() -> None:
    while os.read(0, 4_096):
        pass
    last = threading.Timer(FAREWELL_S, os._exit, (1,))
    last.daemon = True
    last.start()
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise StoppedError


def _say(what: dict[str, object]) -> None:
    try:
        os.write(1, json.dumps(what).encode() + b"\n")
    except OSError:  # the server has gone; the run ends with its input
        return


if __name__ == "__main__":
    main()
