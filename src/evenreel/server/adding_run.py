"""The process that adds folders to a library for the page, apart from the server so that it can be ended at any time.

It says in lines of JSON how that goes. Its standard input brings the order in one line; when it is closed, because a
person pauses or the server ends, the run ends as one that is interrupted does.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenreel.config import AUTO, IndexSettings
from evenreel.errors import EncoderError, EvenreelError, NotFoundError
from evenreel.extras import needed_extra
from evenreel.features.pool import NoProgress, VideoProgress, is_held
from evenreel.files import printable
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.library import IndexReport

WORDS_ONLY = "words"  # name of the choice of no model at all
LOOKING = "looking through the folders"
SAID_EVERY_S = 0.25  # seconds between two lines about the same stage
FIRST_S = 3.0  # seconds of a stage before its pace is told
FAREWELL_S = 8.0  # seconds that a run may take to end by itself; a model that is being loaded hears nothing
HELD = "Another process is writing to the library; wait for it to end, then go on."
NO_MODEL = "The model cannot be loaded; the server's log says why. Choose another one, or words only."
FAILED = "The folders could not be looked through; the server's log says why."
"""What visitors are told of an error, whose own sentence may have paths, processes and hosts in it."""


@dataclass(frozen=True)
class RunOrder:
    """What a run is to do; a path that is no UTF-8 is kept as it is."""

    library: str  # its folder
    places: tuple[str, ...]  # folders and single files
    model: str | None = None  # of a new library; `words` for none, None for the library's own or the default
    reads_text: bool = True  # whether on-screen text is read
    watch: bool = False  # goes on with what changes in the folders afterwards
    retry: bool = False  # tries again what was set aside

    @staticmethod
    def from_json(told: dict[str, Any]) -> RunOrder:
        return RunOrder(**told | {"places": tuple(map(str, told["places"]))})

    @property
    def settings(self) -> IndexSettings:
        model = {None: AUTO, WORDS_ONLY: None}.get(self.model, self.model)
        return IndexSettings(model=model, read_text=self.reads_text, retry=self.retry)


class SaidProgress(NoProgress):
    """Says how far a run is, in fields of `adding.Indexing`, at most every `SAID_EVERY_S` of a stage."""

    def __init__(self) -> None:
        self._lock, self._said_at = threading.Lock(), 0.0
        self._file: str | None = None
        self._begin(LOOKING)

    def _begin(self, stage: str, total: int | None = None) -> None:
        self._stage, self._total, self._done, self._began = stage, total, 0, time.monotonic()
        self._video: VideoProgress | None = None

    def begin(self, files: int) -> None:
        self.stage("reading videos", files)

    def file_done(self, path: str) -> None:
        self._file = printable(os.path.basename(path))
        self.advance(1)

    def stage(self, name: str, count: int | None = None) -> None:
        with self._lock:
            self._begin(name, count)
            self._tell()

    def advance(self, steps: int) -> None:
        with self._lock:
            self._done += steps
            if self._done == self._total or time.monotonic() - self._said_at >= SAID_EVERY_S:
                self._tell()

    def video(self, progress: VideoProgress) -> None:
        with self._lock:
            if self._stage != (stage := f"reading {progress.stage}"):
                self._begin(stage)
            self._file = os.path.basename(progress.file) or None
            self._done, self._total, self._video = progress.files_done, progress.files, progress
            self._tell()

    def _tell(self) -> None:
        self._said_at, video = time.monotonic(), self._video
        seconds = self._said_at - self._began
        a_minute = 60 * self._done / seconds if self._done > 0 and seconds >= FIRST_S else None
        remaining_s = video.remaining_s if video else None
        if remaining_s is None and a_minute is not None and self._total is not None:
            remaining_s = 60 * (self._total - self._done) / a_minute
        told = {
            "stage": self._stage,
            "file": self._file,
            "done": self._done,
            "total": self._total,
            "per_minute": a_minute,
            "remaining_s": remaining_s,
            "video_done_s": video and video.done_s,
            "video_s": video and video.total_s,
            "speed": video and video.rate,
        }
        _say({"reached": told})


def index(order: RunOrder) -> str:
    from evenreel.library import index_folders  # which a server of the page does without

    order, remark = _there(order)
    report = index_folders(
        [Path(place) for place in order.places], order.library, order.settings, progress=SaidProgress()
    )
    return f"{_sentence(report, order)} {remark}".rstrip()


def watch(order: RunOrder) -> None:
    """Index what an order says and go on with what changes in its folders, until no run can succeed.

    Single files are looked at once.
    """
    from evenreel.library import Watcher

    order, remark = _there(order)
    taken = ""
    if single := tuple(filter(os.path.isfile, order.places)):
        taken = index(replace(order, places=single))
        remark += f" Not watched, only looked at now: {_names(single)}."

    def tell(report: IndexReport) -> None:
        nonlocal taken
        taken = _sentence(report, order)
        _say({"reached": {"sentence": taken}})

    folders = [place for place in order.places if place not in single]
    watcher = Watcher(order.library, folders, order.settings, progress=SaidProgress(), told=tell)
    watcher.start()
    last = None
    try:
        while not watcher.wait(SAID_EVERY_S):
            state = watcher.state
            if last == (last := (state.working or not state.runs, state.trouble or "")):
                continue
            working, trouble = last
            quiet = f"{taken} {remark.strip()}".strip() if remark and not working else ""
            told = {"state": "running" if working else "watching"}
            sentence = FAILED if trouble else quiet
            if working or sentence:
                told["sentence"] = sentence
            _say({"reached": told, "why": trouble})
    finally:
        watcher.stop(FAREWELL_S / 2)


def _sentence(report: IndexReport, order: RunOrder) -> str:
    taken, aside = report.indexed + report.recognised, len(report.set_aside)
    if order.retry:
        return f"{count(taken, 'file')} taken in; {count(aside, 'file')} still set aside."
    parts = [f"{count(taken, 'video')} taken in" if taken or not report.unchanged else "Nothing is new"]
    if aside:
        parts.append(f"{count(aside, 'file')} set aside (the view Library says why)")
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
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the server was started with
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):  # not a byte more
        line += byte
    order = RunOrder.from_json(json.loads(line))
    threading.Thread(target=_end_with_input, name="input", daemon=True).start()
    try:
        if order.watch:
            watch(order)
        else:
            _say({"ended": index(order)})
    except KeyboardInterrupt:
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


def _end_with_input() -> None:
    while os.read(0, 4_096):
        pass
    _stop()


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(FAREWELL_S)
    os._exit(1)


def _say(what: dict[str, Any]) -> None:
    try:
        os.write(1, json.dumps(what).encode() + b"\n")
    except OSError:  # the server has gone; the run ends with its input
        return


if __name__ == "__main__":
    main()
