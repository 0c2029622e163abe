"""Folders that a person adds to the library from the page, on the machine that it is served from; and trying again.

In this order: which folders may be chosen, a run, what starts, pauses and stops it, and the addresses with who may use
them. A run is a process (`adding_run`); what it was told is noted in the library's folder (`adding.json`), so that it
goes on after the server has ended, however that ended. To pause is to end the process: what is finished is kept, the
library is free for others, and the video that was being read is begun again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import psutil
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, Field

from evenreel.config import DEFAULT_MODEL, usable_cores
from evenreel.errors import EncoderError, NotFoundError, UsageError
from evenreel.files import may_be_video, printable, replacing
from evenreel.library import Library
from evenreel.library.index.scan import SKIPPED_FOLDERS
from evenreel.library.store.catalog import is_published
from evenreel.media.workers import command
from evenreel.server.adding_run import DEFAULT, LOOKING, WORDS_ONLY, RunOrder
from evenreel.server.api import about, add_reading
from evenreel.server.desk import Desk
from evenreel.server.settings import ServeSettings, is_loopback, is_near

log = logging.getLogger("evenreel")

LOOKED_AT = 60_000  # most entries that are looked at to count the videos of one listing, shared among its folders
LOOKED_FOR = 100_000  # most entries that are looked at to tell whether a folder holds any video
SHOWN_FOLDERS = 2_000  # most folders of a listing
NOTE = "adding.json"  # file in the library's folder that says which folders are being added
COMMAND = command("evenreel.server.adding_run")
PATIENCE_S = 12.0  # seconds that a run may take to end before it is killed
TOLD_BYTES = 4_000  # how much of what a failed run complained of goes into the log
BROKE = "The run broke off, killed perhaps or out of memory; what it had finished is kept."
PAUSED = "Paused; what is finished can be searched."
AGAIN = "The folders are looked through again."
ONLY_READ = "A published snapshot is only read; index into the library that it was made of, and publish that again."
ELSEWHERE = (
    "Folders are added only at the machine that the library is served from, and where evenreel serve has none of the "
    "options --host, --allow-host, --trusted-proxy and --workers."
)
ORDERS = "Start, pause, go on with or stop adding folders."
SPEECH_MODEL = "base"
MINUTES_OF_SPEECH = 23.0
"""For an hour of speech by `SPEECH_MODEL` on one core: 8.9 of tiny.en, measured, and 2.6 times as much to compute."""
MOUNTS = ("/media", "/run/media", "/mnt", "/Volumes")
SYSTEM = re.compile(
    "bin|boot|cores|dev|etc|lib|lib32|lib64|library|lost[+]found|private|proc|run|sbin|snap|sys|system|usr|var|"
    r"[$]recycle[.]bin|program files|program files \(x86\)|programdata|system volume information|windows"
)
"""Folders at the top of a disk that hold no videos of a person's, in lower case."""
RunState = Literal["idle", "running", "pausing", "paused", "watching", "done", "failed"]


class Place(BaseModel):
    """A folder that can be opened; `path` is what to ask for."""

    name: str
    path: str


class FolderInside(Place):
    """A folder in another one, or one that a link there leads to: then `path` lies elsewhere.

    `videos` counts those in it and in the folders below, at least so many where `more` is true.
    """

    videos: int
    more: bool


class FolderListing(FolderInside):
    """A folder and those in it; `trail` leads to it from one of `places`: the home folder, disks and shares.

    `hindrance` says why it cannot be added, `added` whether the library has it already, alone or with one above it.
    `left_out` counts folders that are the system's, or cannot be opened, or whose names cannot be shown.
    """

    hindrance: str
    added: bool
    places: list[Place]
    trail: list[Place]
    folders: list[FolderInside]
    left_out: int


class ModelChoice(BaseModel):
    """A model that a library without one can be made with; `name` is what to ask for.

    `download_bytes` are about what it has to fetch once: 0 where nothing, None where that is not known.
    """

    name: str
    label: str
    about: str
    download_bytes: int | None


class SpeechChoice(BaseModel):
    """What hearing speech costs: about so many minutes for an hour of it, and a download; or why it cannot be had."""

    minutes_an_hour: float
    download_bytes: int | None
    hindrance: str = ""


class Downloading(BaseModel):
    """How far a download is; `total_bytes` is 0 where that is not known."""

    done_bytes: int
    total_bytes: int


class Indexing(BaseModel):
    """How adding folders goes.

    `watching` is for what changes in the folders, and `watches` whether the run goes on with that. `done` of `total`
    steps of `stage` are done, None where they cannot be counted; `per_minute` of them in a minute, with `remaining_s`
    seconds left at that pace, None before that is known. `file` was read last. Where lengths are known, `video_done_s`
    of `video_s` seconds of video are read, `speed` of them in a second. `share` is of the whole run, 0 to 1, and never
    falls; `download` is there while a model is fetched. `models` are those that a library without one can be made with,
    the best first. Of a run that failed, `details` are what the log says, and `words_only` whether it can go on without
    a model. `can_add` is false where the library is only read.
    """

    state: RunState
    can_add: bool = True
    sentence: str = ""
    folders: list[str] = []
    watches: bool = False
    stage: str = ""
    file: str | None = None
    done: int = 0
    total: int | None = None
    per_minute: float | None = None
    remaining_s: float | None = None
    video_done_s: float | None = None
    video_s: float | None = None
    speed: float | None = None
    share: float = 0.0
    download: Downloading | None = None
    details: str | None = None
    words_only: bool = False
    models: list[ModelChoice] = []
    speech: SpeechChoice | None = None


class Retry(BaseModel):
    """A run that tries skipped files again: `state` is `idle`, `running`, `done` or `failed`."""

    state: str
    sentence: str


class IndexingOrder(BaseModel):
    """What is to be done: `start` takes a folder as `GET /api/v1/folders` names it, or None for all that were added.

    `watch` is `start` that goes on with what changes in the folders afterwards, until `stop`. `model` is a name of
    `models`, for a library that has none yet, also with `resume`. `speech` has what is said written down.
    """

    action: Literal["start", "watch", "pause", "resume", "stop"]
    folder: Annotated[str | None, Field(max_length=4_096)] = None
    model: Annotated[str | None, Field(max_length=100)] = None
    speech: bool = False


MODELS = {
    DEFAULT: ("Pictures and words (recommended)", "Knows what is seen, in many languages."),
    "fast": (
        "Pictures and words, faster",
        "Takes about half the time, and finds a little less.",
    ),
    WORDS_ONLY: (
        "Words only",
        "Finds words on screen, words in subtitles, and names of files. Pictures can be added later.",
    ),
    "builtin": ("Shapes and colours (small)", "To try things out: knows drawn shapes only."),
}
"""What a library without a model can be made with, the best first: name, label, and what is said of it."""


class Folders:
    """Folders that may be added: those below the home folder, on disks and shares, and others but the system's.

    No hidden one is; links are followed, and what they lead to counts. Where `shared` is set, only those below the home
    folder are.
    """

    def __init__(self, home: Path, disks: Iterable[Path] = (), *, shared: bool = False) -> None:
        self._home, self._shared = Path(os.path.realpath(home)), shared
        self._places = [self._home, *(() if shared else sorted(disks))]

    def find(self, path: str) -> Path:
        """Return the folder that a path names, absolute or below the home folder, without links; '' is that itself."""
        given = Path(path[2:] if path == "~" or path.startswith(("~/", "~\\")) else path)
        if "\0" in path or ".." in given.parts:
            raise UsageError(f"{printable(path)} is no folder that can be added: write its path without '..'.")
        folder = Path(os.path.realpath(self._home / given))
        if self._shared and not folder.is_relative_to(self._home):
            raise UsageError(
                "Others are logged in at this machine, so folders outside your home folder need a token: "
                "evenreel serve --token TOKEN, or evenreel index FOLDER in a terminal."
            )
        if self._place_of(folder) is None:
            raise UsageError(
                f"{printable(str(folder))} is hidden or one of the system's folders; choose another, or add it in a "
                "terminal: evenreel index FOLDER."
            )
        name = shown(str(folder), self._home)
        try:
            if not folder.is_dir():
                raise NotFoundError(f"There is no folder {name}; choose another.")
            os.scandir(folder).close()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(f"{name} cannot be opened ({why}); make it readable or choose another.") from error
        return folder

    def hindrance(self, folder: Path, added: Iterable[str], *, has_video: bool) -> str:
        """Say why a folder cannot be added: it is a whole disk or home, is in the library, or holds no video."""
        if folder in self._places or folder == Path(folder.anchor):
            whole = "Your whole home folder" if folder == self._home else "A whole disk"
            return (
                f"{whole} is too much to add at once: choose a folder in it, or add it in a terminal: evenreel index "
                "FOLDER."
            )
        if is_below(folder, added):
            name = printable(folder.name)
            return f"{name} is in the library already; look for new videos in it instead of adding it."
        if not has_video:
            return f"There is no video in {shown(str(folder), self._home)}; choose a folder that holds some."
        return ""

    def listing(self, path: str, added: Iterable[str] = ()) -> FolderListing:
        folder, added = self.find(path), tuple(added)
        found, left_out = self._folders_in(folder)
        share = LOOKED_AT // (1 + len(found))
        here, more = count_videos(folder, share, below=False)
        inside = []
        for name, one in found:
            videos, one_more = count_videos(one, share)
            inside.append(FolderInside(name=name, path=str(one), videos=videos, more=one_more))
        videos, more = here + sum(one.videos for one in inside), more or any(one.more for one in inside)
        return FolderListing(
            name=self._name(folder),
            path=str(folder),
            videos=videos,
            more=more,
            hindrance=self.hindrance(folder, added, has_video=bool(videos or more)),
            added=is_below(folder, added),
            places=[Place(name=self._name(one), path=str(one)) for one in self._places if one.is_dir()],
            trail=self._trail(folder),
            folders=inside,
            left_out=left_out,
        )

    def _name(self, folder: Path) -> str:
        return "Home" if folder == self._home else printable(folder.name or str(folder))

    def _trail(self, folder: Path) -> list[Place]:
        place, steps = self._place_of(folder), [folder, *folder.parents]
        above = steps[: steps.index(place) + 1] if place in steps else steps
        return [Place(name=self._name(one), path=str(one)) for one in reversed(above)]

    def _place_of(self, folder: Path) -> Path | None:
        """The innermost place that holds a folder, or the root of its disk; None where it may not be chosen."""
        holding = [one for one in self._places if folder.is_relative_to(one)]
        place = max([Path(folder.anchor), *holding], key=lambda one: len(one.parts))
        inside = folder.relative_to(place).parts
        is_systems = len(place.parts) == 1 and inside and SYSTEM.fullmatch(inside[0].lower())
        return None if is_systems or any(map(_is_out_of_the_way, inside)) else place

    def _folders_in(self, folder: Path) -> tuple[list[tuple[str, Path]], int]:
        """The folders in a folder by their names, links to others followed, and how many cannot be chosen."""
        found: dict[Path, str] = {}
        left_out = 0
        for entry in _entries(folder):
            if _is_out_of_the_way(entry.name) or not _is_folder(entry):
                continue
            real = Path(os.path.realpath(entry.path)) if entry.is_symlink() else folder / entry.name
            if folder.is_relative_to(real):  # a link in a circle
                continue
            outside = self._shared and not real.is_relative_to(self._home)
            named = not outside and self._place_of(real) and printable(entry.name + str(real)) == entry.name + str(real)
            if len(found) < SHOWN_FOLDERS and named and os.access(real, os.R_OK | os.X_OK):
                found.setdefault(real, entry.name)
            else:
                left_out += 1
        names = ((name, one) for one, name in found.items())
        return sorted(names, key=lambda one: (one[0].casefold(), one[0])), left_out


def shown(folder: str, home: Path) -> str:
    """Return a folder as a person knows it: below the home folder where it is there, else its path."""
    path = Path(folder)
    inside = path.relative_to(home).as_posix() if path.is_relative_to(home) else folder
    return "Your home folder" if inside == "." else printable(inside)


def folders_here(*, with_token: bool = False) -> Folders:
    """The folders of this machine; those outside the home folder need a token where others are logged in."""
    try:
        home = Path.home()
    except RuntimeError as error:
        raise UsageError("The system knows no home folder to choose from; set HOME, or run evenreel index.") from error
    own, disks = psutil.Process().username(), psutil.disk_partitions(all=True)
    paths = {Path(one.mountpoint) for one in disks if os.name == "nt" or one.mountpoint.startswith(MOUNTS)}
    others = any(user.name != own.rpartition("\\")[2] for user in psutil.users())
    return Folders(home, paths - {Path(place) for place in MOUNTS}, shared=others and not with_token)


def count_videos(folder: Path, most: int, *, below: bool = True) -> tuple[int, bool]:
    """Count the videos in a folder as an index run finds them; True where counting ended before all was seen."""
    videos, waiting = 0, [folder]
    while waiting:
        for entry in _entries(waiting.pop()):
            most -= 1
            if most < 0:
                return videos, True
            if _is_out_of_the_way(entry.name) or entry.is_symlink():
                continue
            if _is_folder(entry):
                waiting += [Path(entry.path)] if below else []
            else:
                videos += may_be_video(entry.path)
    return videos, False


def is_below(folder: Path, others: Iterable[str]) -> bool:
    return any(folder.is_relative_to(os.path.realpath(other)) for other in others)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from entries


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_out_of_the_way(name: str) -> bool:
    return name.startswith(".") or name.lower() in SKIPPED_FOLDERS


class Run:
    """A process that does what an order says; it ends when its input is closed."""

    def __init__(self, order: RunOrder) -> None:
        self.order = order
        self.wanted: RunState | None = None  # state to go into when it was ended; None for what it says itself
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def follow(self, hear: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Do it; `hear` is called with what it says, and what it says last is returned."""
        last: dict[str, Any] = {}
        with tempfile.TemporaryFile() as complaints:
            with self._lock:
                if self.wanted is not None:
                    return {}
                try:
                    self.process = process = subprocess.Popen(
                        COMMAND,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=complaints,
                        start_new_session=True,  # a terminal's Ctrl-C is for the server, which ends it
                    )
                except OSError as error:
                    return {"failed": f"The run cannot be started ({error.strerror or error}); try again."}
            assert process.stdin is not None and process.stdout is not None
            with contextlib.suppress(OSError, ValueError):  # it may have died already
                process.stdin.write(json.dumps(asdict(self.order)).encode() + b"\n")
                process.stdin.flush()
            with process.stdout as said:
                for line in said:
                    told: Any = None
                    with contextlib.suppress(ValueError):
                        told = json.loads(line)
                    if not isinstance(told, dict):  # a library printed it
                        continue
                    if told.get("why"):
                        log.error("adding folders: %s", told["why"])
                    hear(told)
                    last = told
            process.wait()
            self._ask_to_end()
            if not {"ended", "failed"} & last.keys():
                complaints.seek(0)
                complained = complaints.read().decode("utf-8", "replace")[-TOLD_BYTES:]
                if self.wanted is None:
                    log.error("adding folders broke off (status %s): %s", process.returncode, complained)
                last = {"failed": BROKE, "why": complained.strip()}
        return last

    def end(self, wanted: RunState) -> None:
        """End it, and wait until it has; it is killed where that takes too long."""
        with self._lock:
            self.wanted = wanted
        if self.process is None:
            return
        self._ask_to_end()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ask_to_end(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


class Adder:
    def __init__(self, library: Path) -> None:
        self._library = library
        self._lock = threading.RLock()
        self._run: Run | None = None
        self._order: RunOrder | None = None  # of the run, or what is left to do
        self._told = Indexing(state="idle")
        self._retries = self._closed = False

    def go_on(self) -> None:
        """Take up what was under way when the server ended; a run that was paused stays so."""
        order, state, _ = _noted(self._library / NOTE)
        if order is None:
            return
        with self._lock:
            self._order = replace(order, library=str(self._library))  # it may have been moved since
            self._told = self._said("paused", PAUSED)
            if state == "running":
                with contextlib.suppress(UsageError):
                    self.start(self._order)

    def state(self) -> Indexing:
        return self._told

    def check_free(self) -> None:
        if self._run is not None and self._told.state != "watching":
            raise UsageError("Videos are being added already; wait until that is done, or stop it first.")

    def start(self, order: RunOrder) -> Indexing:
        """Begin a run, in the place of one that watches; what was paused is done with it."""
        with self._lock:
            self.check_free()
            if self._closed:
                raise UsageError("The server is about to end.")
            if self._order is not None:
                order = replace(
                    order,
                    retry=order.retry or self._order.retry,
                    places=tuple(dict.fromkeys((*self._order.places, *order.places))),
                    model=order.model or self._order.model,
                    speech=order.speech or self._order.speech,
                    share=self._order.share,
                    watch=order.watch or self._order.watch,
                )
            before = _noted(self._library / NOTE)
            self._note(order, "running", os.getpid())
            watching, self._run, self._order, self._retries = self._run, Run(order), order, order.retry
            self._told = self._said("running", stage=LOOKING).model_copy(update={"share": order.share})
            threading.Thread(target=self._work, args=(self._run, watching, before), name="adding", daemon=True).start()
            return self._told

    def pause(self) -> Indexing:
        with self._lock:
            if self._run is not None and self._order is not None:
                self._order = replace(self._order, share=self._told.share)
                self._note(self._order, "paused", os.getpid())
                self._end("paused")
            return self._told

    def resume(self, model: str | None = None) -> Indexing:
        with self._lock:
            if self._order is None:
                raise UsageError("Nothing was begun that could go on; add a folder.")
            go_on = replace(self._order, model=model or self._order.model)
            return self._told if self._run is not None else self.start(go_on)

    def stop(self) -> Indexing:
        with self._lock:
            self._forget()
            if self._run is not None:
                self._end("idle")
            else:
                self._told, self._order = Indexing(state="idle"), None
            return self._told

    def retry(self, library: Library) -> Retry:
        """Begin a run over all folders, with what was set aside, unless one is under way."""
        if is_published(self._library):
            return Retry(state="failed", sentence=ONLY_READ)
        if (now := self.retry_state()).state == "running":
            return now
        places = (*library.roots(), *library.single_files())
        if not places:
            return Retry(state="failed", sentence="The library has no folder yet; add one.")
        self.start(RunOrder(str(self._library), places, reads_text=reads_text(library), retry=True))
        return self.retry_state()

    def retry_state(self) -> Retry:
        """Return how the latest run went that tried again what was set aside, here or in another worker."""
        with self._lock:
            told, retries = self._told, self._retries
        if retries and told.state in {"running", "pausing"}:
            return Retry(state="running", sentence=AGAIN)
        if retries and told.state != "idle":
            return Retry(state="failed" if told.state == "failed" else "done", sentence=told.sentence)
        order, state, pid = _noted(self._library / NOTE)
        elsewhere = order is not None and order.retry and state == "running" and psutil.pid_exists(pid)
        return Retry(state="running", sentence=AGAIN) if elsewhere else Retry(state="idle", sentence="")

    def close(self) -> None:
        with self._lock:
            self._closed, run = True, self._run
        if run is not None:
            run.end("paused")

    def _end(self, wanted: RunState) -> None:
        assert self._run is not None
        self._told = self._told.model_copy(update={"state": "pausing", "per_minute": None, "remaining_s": None})
        threading.Thread(target=self._run.end, args=(wanted,), name="pausing", daemon=True).start()

    def _work(self, run: Run, watching: Run | None, before: tuple[RunOrder | None, RunState, int]) -> None:
        if watching is not None:
            watching.end("idle")

        def hear(told: dict[str, Any]) -> None:
            with self._lock:
                if run is self._run and self._told.state != "pausing" and isinstance(told.get("reached"), dict):
                    self._told = Indexing(**self._told.model_dump() | told["reached"])

        last = run.follow(hear)
        with self._lock:
            if run is not self._run:  # another one has taken its place
                return
            self._run = None
            if "ended" in last:
                self._forget()
                self._told, self._order = self._said("done", str(last["ended"])), None
            elif run.wanted == "paused":
                share = {"share": run.order.share if self._order is None else self._order.share}
                self._told = self._said("paused", PAUSED).model_copy(update=share)
            elif run.wanted == "idle":
                self._told, self._order = Indexing(state="idle"), None
            else:
                told = {"details": last.get("why"), "words_only": bool(last.get("no_model"))}
                self._told = self._said("failed", str(last["failed"])).model_copy(update=told)
                left, state, pid = before
                if not last.get("held") or left is None or state != "running":
                    left, state, pid = run.order, "paused", os.getpid()  # not begun again by itself
                with contextlib.suppress(UsageError):
                    self._note(left, state, pid)  # where another server holds the library, what that one does

    def _said(self, state: RunState, sentence: str = "", stage: str = "") -> Indexing:
        home = Path(os.path.realpath(os.path.expanduser("~")))
        folders = [shown(place, home) for place in self._order.places] if self._order else []
        watches = self._order is not None and self._order.watch
        return Indexing(state=state, sentence=sentence, folders=folders, watches=watches, stage=stage)

    def _note(self, order: RunOrder, state: RunState, pid: int) -> None:
        try:
            with replacing(self._library / NOTE) as part:
                part.write_text(json.dumps({"state": state, "pid": pid, "order": asdict(order)}), encoding="utf-8")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(
                f"The library's folder cannot be written ({why}); make room there, or make it writable."
            ) from error

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            (self._library / NOTE).unlink(missing_ok=True)


def _noted(path: Path) -> tuple[RunOrder | None, RunState, int]:
    """What was noted of a run, and by which process; None where there is nothing, or nothing that can be understood."""
    try:
        told = json.loads(path.read_bytes())
        state: RunState = "running" if told["state"] == "running" else "paused"
        return RunOrder.from_json(told["order"]), state, int(told.get("pid", 0))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s cannot be understood (%s); folders that were being added have to be added again", path, error)
    return None, "idle", 0


def reads_text(library: Library) -> bool:
    """Return whether on-screen text was read of any clip there is; else it is not to be read of all of them now."""
    return not library.stats().clips or bool(library.browse("has_text", limit=1).clips)


class AddingApi:
    def __init__(self, desk: Desk, library: Path, settings: ServeSettings) -> None:
        self._desk, self._library, self._settings = desk, library, settings
        self.adder = Adder(library)

    def router(self, *, adds: bool = True) -> APIRouter:
        """Make the router; without `adds`, what was set aside can still be tried again, also from elsewhere."""
        router = APIRouter(prefix="/api/v1")
        add_reading(router, "/retry", self.adder.retry_state, about("How trying again goes.", Retry))
        described = about("Try skipped files again.", Retry)
        router.add_api_route("/retry", self.retry, methods=["POST"], status_code=202, **described)
        local = APIRouter(dependencies=[Depends(self.check_local)])
        add_reading(local, "/folders", self.folders, about("Folders that can be added.", FolderListing, 404))
        add_reading(local, "/indexing", self.indexing, about("How adding folders goes.", Indexing, 404))
        local.add_api_route("/indexing", self.order_indexing, methods=["POST"], **about(ORDERS, Indexing, 404))
        if adds:
            router.include_router(local)
        return router

    async def retry(self) -> Retry:
        return await self._desk.query(self.adder.retry)

    def start(self) -> None:
        if self._settings.workers == 1 and is_loopback(self._settings.host) and not is_published(self._library):
            self.adder.go_on()

    async def check_local(self, request: Request) -> None:
        if self._settings.workers > 1 or not is_near(request, self._settings):
            raise HTTPException(403, ELSEWHERE)

    async def folders(
        self, inside: Annotated[str, Query(max_length=4_096, description="A folder that this address named.")] = ""
    ) -> FolderListing:
        added = await self._desk.query(_added)
        return await asyncio.to_thread(lambda: self._folders().listing(inside, added))

    def _folders(self) -> Folders:
        return folders_here(with_token=self._settings.token is not None)

    async def indexing(self) -> Indexing:
        return await self._with_choices(self.adder.state())

    async def order_indexing(self, order: IndexingOrder) -> Indexing:
        if order.action in {"start", "watch"}:
            self.adder.check_free()
            run = await self._planned(order)
            return await self._with_choices(await asyncio.to_thread(self.adder.start, run))
        if order.action == "resume":
            await self._desk.query(partial(_check_model, order.model))
        acts = {"pause": self.adder.pause, "stop": self.adder.stop}
        act = acts.get(order.action, lambda: self.adder.resume(order.model))
        return await self._with_choices(await asyncio.to_thread(act))

    async def _with_choices(self, told: Indexing) -> Indexing:
        if is_published(self._library):
            return told.model_copy(update={"can_add": False})
        if told.state == "running":
            return told
        model, hears = await self._desk.query(lambda library: (library.stats().model, _hears(library)))
        models = await asyncio.to_thread(_model_choices) if model is None else []
        speech = None if hears else await asyncio.to_thread(_speech_choice)
        words_only = told.words_only and model is None
        return told.model_copy(update={"models": models, "speech": speech, "words_only": words_only})

    async def _planned(self, order: IndexingOrder) -> RunOrder:
        if is_published(self._library):
            raise UsageError(ONLY_READ)
        folder, has_video = None, True
        if order.folder is not None:
            folder = await asyncio.to_thread(self._folders().find, order.folder)
            has_video = await asyncio.to_thread(count_videos, folder, LOOKED_FOR) != (0, False)

        def planned(library: Library) -> RunOrder:
            _check_model(order.model, library)
            places = (*library.roots(), *library.single_files())
            if folder is not None:
                places = (str(folder),)
                if hindrance := self._folders().hindrance(folder, _added(library), has_video=has_video):
                    raise UsageError(hindrance)
            places, watch = tuple(filter(os.path.exists, places)), order.action == "watch"
            if not places:
                raise UsageError(
                    "No folder of the library is there to be looked at again; add one, or connect its disk."
                )
            if watch and all(map(os.path.isfile, places)):
                raise UsageError("The library holds single files only; add a folder to have it watched.")
            speech = SPEECH_MODEL if order.speech and not _hears(library) else None
            return RunOrder(str(library.path), places, order.model, reads_text(library), watch, speech=speech)

        return await self._desk.query(planned)


def _added(library: Library) -> tuple[str, ...]:
    return library.roots(with_files=True)


def _check_model(name: str | None, library: Library) -> None:
    if name is not None and name not in MODELS:
        raise UsageError(f"There is no choice {printable(name)}; GET /api/v1/indexing lists them as models.")
    if name is not None and library.stats().model is not None:
        raise UsageError("The library has its model already; evenreel reindex --model MODEL exchanges it.")


def _hears(library: Library) -> bool:
    """Whether a model of speech has heard clips of the library; later runs go on with the same."""
    with library.snapshot() as snapshot:
        heard = "SELECT 1 FROM transcripts WHERE source = 'recognised' LIMIT 1"
        return snapshot.connection.execute(heard).fetchone() is not None


def _model_choices() -> list[ModelChoice]:
    from evenreel.encoders.loading import download_bytes

    sizes = {DEFAULT: download_bytes(DEFAULT_MODEL), WORDS_ONLY: 0}
    sizes |= {name: download_bytes(name) for name in MODELS if name not in sizes}
    return [
        ModelChoice(name=name, label=label, about=text, download_bytes=sizes[name])
        for name, (label, text) in MODELS.items()
    ]


def _speech_choice() -> SpeechChoice:
    from evenreel.speech.recogniser import check_extra, download_bytes

    minutes, hindrance = MINUTES_OF_SPEECH / min(8, usable_cores()) ** (2 / 3), ""  # two cores took .63 of one's time
    try:
        check_extra()
    except EncoderError as error:
        hindrance = str(error)
    return SpeechChoice(minutes_an_hour=minutes, download_bytes=download_bytes(SPEECH_MODEL), hindrance=hindrance)
