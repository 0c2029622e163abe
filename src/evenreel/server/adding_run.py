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

from evenreel.config import AUTO, DEFAULT_MODEL, IndexSettings
from evenreel.errors import DownloadError, EncoderError, EvenreelError, NotFoundError
from evenreel.extras import Download, needed_extra
from evenreel.features.pool import Forecast, NoProgress, VideoProgress, is_held
from evenreel.files import printable
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.library import IndexReport

DEFAULT = "default"
WORDS_ONLY = "words"  # name of the choice of no model at all
LOOKING = "looking through the folders"
DOWNLOADING = "downloading the model"
PARTS = {"reading pictures and words": 0.95, "reading words": 0.95, "reading videos": 0.95, "hearing what is said": 0.9}
SIDE_PART = 0.1  # of what is left of the bar, that any other stage takes
SAID_EVERY_S = 0.25  # seconds between two lines about the same stage
FIRST_S = 3.0  # seconds of a stage before its pace is told
FAREWELL_S = 8.0  # seconds that a run may take to end by itself; a model that is being loaded hears nothing
HELD = "Another process is writing to the library; wait for it to end, then go on."
NO_MODEL = "The model cannot be loaded."
FAILED = "The folders could not be looked through."
NO_DOWNLOAD = {
    "offline": "The model cannot be downloaded: there is no network.",
    "refused": "The model cannot be downloaded: its host refuses to send it.",
    "missing": "The model cannot be downloaded: the hub does not have it.",
    "disk_full": "The model cannot be downloaded: the disk is full. Make room, then try again.",
    "checksum": "The model arrived damaged, so it is not used.",
    "failed": "The download of the model broke off; what has arrived is kept.",
}
"""What is said of an error first; its own sentence, with paths, processes and hosts in it, is in the details."""


@dataclass(frozen=True)
class RunOrder:
    """What a run is to do; a path that is no UTF-8 is kept as it is."""

    library: str  # its folder
    places: tuple[str, ...]  # folders and single files
    model: str | None = None  # of a library without one; `words` for none, None for its own or the default
    reads_text: bool = True  # whether on-screen text is read
    watch: bool = False  # goes on with what changes in the folders afterwards
    retry: bool = False  # tries again what was set aside
    speech: str | None = None  # the model that hears what is said; None for the library's own, if any
    share: float = 0.0  # how much of it was done when it was paused, 0 to 1

    @staticmethod
    def from_json(told: dict[str, Any]) -> RunOrder:
        return RunOrder(**told | {"places": tuple(map(str, told["places"]))})

    @property
    def settings(self) -> IndexSettings:
        model = {None: AUTO, DEFAULT: DEFAULT_MODEL, WORDS_ONLY: None}.get(self.model, self.model)
        return IndexSettings(model=model, read_text=self.reads_text, retry=self.retry, speech=self.speech or AUTO)


class SaidProgress(NoProgress):
    """Says how far a run is, in fields of `adding.Indexing`, at most every `SAID_EVERY_S` of a stage.

    What `share` says is of the whole run and never falls: each stage takes a part of what the ones before it left.
    """

    def __init__(self, share: float = 0.0) -> None:
        self._lock, self._said_at = threading.Lock(), 0.0
        self._file: str | None = None
        self._forecast: Forecast | None = None
        self._share = share
        self._pass = "reading videos"
        self._begin(LOOKING)

    def run_ended(self) -> None:
        self._share, self._forecast = 0.0, None

    def _begin(self, stage: str, total: int | None = None) -> None:
        self._stage, self._total, self._done, self._began = stage, total, 0, time.monotonic()
        self._video: VideoProgress | None = None
        self._download: Download | None = None
        self._from = self._share

    def forecast(self, forecast: Forecast) -> None:
        self._forecast = forecast

    def begin(self, files: int) -> None:
        self.stage(self._pass, files)

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

    def download(self, progress: Download) -> None:
        with self._lock:
            if self._download is None or self._download.model != progress.model:
                self._begin(DOWNLOADING)
            self._download = progress
            self._tell()

    def video(self, progress: VideoProgress) -> None:
        with self._lock:
            if self._stage != (title := f"reading {progress.stage}"):  # told just before it begins
                self._begin(title, progress.files)
            self._pass = title
            self._file = os.path.basename(progress.file) or None
            self._done, self._video = max(self._done, progress.files_done), progress
            self._tell()

    def _part(self) -> float:
        """The part that the stage takes of what the ones before it have left of the bar."""
        if self._stage != "reading pictures":
            return PARTS.get(self._stage, SIDE_PART)
        seen_s, read_s = (self._forecast.pictures_s, self._forecast.words_s) if self._forecast else (None, None)
        return seen_s / (seen_s + read_s) if seen_s and read_s else 0.5  # and the pass of words follows

    def _tell(self) -> None:
        self._said_at, video, download = time.monotonic(), self._video, self._download
        seconds = self._said_at - self._began
        a_minute = 60 * self._done / seconds if self._done > 0 and seconds >= FIRST_S else None
        remaining_s = video.remaining_s if video else download.remaining_s if download else None
        if remaining_s is None and a_minute is not None and self._total is not None:
            remaining_s = 60 * (self._total - self._done) / a_minute
        if remaining_s is not None and self._stage == "reading pictures" and self._forecast:
            remaining_s += self._forecast.words_s or 0.0
        done = video.done_s / video.total_s if video and video.total_s else self._done / (self._total or 1)
        self._share = max(self._share, self._from + (1 - self._from) * self._part() * min(1.0, done))
        total = self._total
        if video and self._forecast:  # of all videos of the run, also those that need nothing in this pass
            total = max(video.files, self._forecast.files)
        told = {
            "stage": self._stage,
            "file": self._file,
            "done": self._done + (total or 0) - (self._total or 0),
            "total": total,
            "share": self._share,
            "per_minute": a_minute,
            "remaining_s": remaining_s,
            "video_done_s": video and video.done_s,
            "video_s": video and video.total_s,
            "speed": video and video.rate,
            "download": download and {"done_bytes": download.done_bytes, "total_bytes": download.total_bytes},
        }
        _say({"reached": told})


def index(order: RunOrder, progress: SaidProgress | None = None) -> str:
    from evenreel.library import index_folders  # which a server of the page does without

    order, remark = _there(order)
    progress = progress or SaidProgress(order.share)
    report = index_folders([Path(place) for place in order.places], order.library, order.settings, progress=progress)
    return f"{_sentence(report, order)} {remark}".rstrip()


def watch(order: RunOrder) -> None:
    """Index what an order says and go on with what changes in its folders, until no run can succeed.

    Single files are looked at once.
    """
    from evenreel.library import Watcher

    order, remark = _there(order)
    taken, progress = "", SaidProgress(order.share)
    if single := tuple(filter(os.path.isfile, order.places)):
        taken = index(replace(order, places=single), progress)
        remark += f" Not watched, only looked at now: {_names(single)}."

    def tell(report: IndexReport) -> None:
        nonlocal taken
        taken = _sentence(report, order)
        progress.run_ended()
        _say({"reached": {"sentence": taken}})

    folders = [place for place in order.places if place not in single]
    watcher = Watcher(order.library, folders, order.settings, progress=progress, told=tell)
    watcher.start()
    last = None
    try:
        while not watcher.wait(SAID_EVERY_S):
            state = watcher.state
            if last == (last := (state.working or not state.runs, state.trouble or "")):
                continue
            working, trouble = last
            quiet = f"{taken} {remark.strip()}".strip() if remark and not working else ""
            told = {"state": "running" if working else "watching", "details": trouble}
            sentence = FAILED if trouble else quiet
            if working or sentence:
                told["sentence"] = sentence
            _say({"reached": told, "why": trouble})
    finally:
        watcher.stop(FAREWELL_S / 2)


def _sentence(report: IndexReport, order: RunOrder) -> str:
    taken, aside = report.indexed + report.recognised, len(report.set_aside)
    if order.retry:
        return f"{count(taken, 'file')} added; {count(aside, 'file')} still skipped."
    parts = [f"{count(taken, 'video')} added" if taken or not report.unchanged else "Nothing is new"]
    if report.heard:
        parts.append(f"speech looked for in {count(report.heard, 'video')}")
    if aside:
        parts.append(f"{count(aside, 'file')} skipped (Library says why)")
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
        held, kind = is_held(error), error.kind if isinstance(error, DownloadError) else ""
        known = {EncoderError: NO_MODEL, NotFoundError: str(error)}
        told = HELD if held else NO_DOWNLOAD.get(kind) or known.get(type(error), FAILED)
        no_model = isinstance(error, EncoderError)
        _say({"failed": told, "held": held, "no_model": no_model, "why": printable(str(error))})
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
