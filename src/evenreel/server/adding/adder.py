"""Starting, pausing and stopping of the process that indexes folders, one at a time for a library.

What it was told is noted in the library's folder (`adding.json`), so that a run goes on after the server has ended,
however that ended. To pause is to end the process: what is finished is kept, the library is free for others, and the
video that was being read is begun again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from evenreel.errors import UsageError
from evenreel.files import replacing
from evenreel.processes import command
from evenreel.server.adding.places import HomeFolders
from evenreel.server.adding.records import Indexing, RunState
from evenreel.server.adding.run import RunOrder, StageReached
from evenreel.wording import printable

log = logging.getLogger("evenreel")

NOTE = "adding.json"
"""File in the library's folder that says which folders are being added."""
COMMAND = command("evenreel.server.adding.run")
LOOKING = "looking through the folders"
PATIENCE_S = 12.0
"""Seconds that a run may take to end before it is killed."""
TOLD_BYTES = 4_000
"""How much of what a failed run complained of goes into the log."""
BROKE = "The run broke off, killed perhaps or out of memory (see the log); what it had finished is kept: go on."
FIRST_S = 3.0
"""Seconds of a stage before its pace is told."""


@dataclass(frozen=True)
class Noted:
    """What a run was told, and whether it is to go on or waits for a person."""

    order: RunOrder
    state: RunState


@dataclass
class RunningProcess:
    """The process of a run: what it is to do, its input, which it ends with, and where it complains."""

    order: RunOrder
    process: subprocess.Popen[bytes]
    complaints: IO[bytes]
    wanted: RunState | None = None
    """State to go into when it has ended; None for what it says itself."""

    def ask_to_end(self) -> None:
        """Close its input, the sign to end."""
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()

    def end(self) -> None:
        """Wait until it has ended, and kill it where that takes too long."""
        self.ask_to_end()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Adder:
    """Indexes folders in a process of its own, which can be paused; the state is that of the run."""

    def __init__(self, library: Path, homes: Callable[[], HomeFolders]) -> None:
        self._library, self._homes = library, homes
        self._lock = threading.RLock()
        self._run: RunningProcess | None = None
        self._told = Indexing(state="idle")
        self._order: RunOrder | None = None
        self._next: RunOrder | None = None
        self._before: Noted | None = None
        self._closed = False

    def go_on(self) -> None:
        """Take up what was under way when the server ended; a run that was paused stays so."""
        noted = _noted(self._library / NOTE)
        if noted is None:
            return
        with self._lock:
            self._order = replace(noted.order, library=str(self._library))  # it may have been moved since
            self._told = self._said("paused", "Paused; what is finished can be searched.")
            if noted.state == "running":
                with contextlib.suppress(UsageError):
                    self.start(self._order)

    def state(self) -> Indexing:
        """Return how adding goes."""
        with self._lock:
            return self._told

    def check_free(self) -> None:
        """Refuse a second run."""
        if self._run is not None and self._told.state != "watching":
            raise UsageError("Videos are being added already; wait until that is done, or stop it first.")

    def start(self, order: RunOrder) -> Indexing:
        """Begin a run; what was paused is done with it."""
        with self._lock:
            self.check_free()
            order = order if self._order is None else _together(self._order, order)
            if self._closed:
                raise UsageError("The server is about to end.")
            self._before = _noted(self._library / NOTE)
            self._note(Noted(order, "running"))
            self._order = order
            if self._run is None:
                return self._begin(order)
            self._next = order  # begun when the one that watches has ended
            self._end_with("running")
            self._told = self._said("running", stage=LOOKING)
            return self._told

    def _begin(self, order: RunOrder) -> Indexing:
        try:
            self._run = _started(order)
        except OSError as error:
            self._told = self._said("failed", f"The run cannot be started ({error.strerror or error}); try again.")
            return self._told
        self._told = self._said("running", stage=LOOKING)
        threading.Thread(target=self._follow, args=(self._run,), name="adding", daemon=True).start()
        return self._told

    def pause(self) -> Indexing:
        """End the process, to go on later."""
        with self._lock:
            if self._run is not None and self._order is not None:
                self._note(Noted(self._order, "paused"))
                self._end_with("paused")
            return self._told

    def resume(self) -> Indexing:
        """Go on with a run that was paused or failed."""
        with self._lock:
            if self._order is None:
                raise UsageError("Nothing was begun that could go on; add a folder.")
            return self._told if self._run is not None else self.start(self._order)

    def stop(self) -> Indexing:
        """End the process and forget what is left to do; what it has finished stays in the library."""
        with self._lock:
            self._forget()
            if self._run is not None:
                self._end_with("idle")
            else:
                self._told, self._order = Indexing(state="idle"), None
            return self._told

    def close(self) -> None:
        """End the process with the server; the next one goes on from there."""
        with self._lock:
            self._closed = True
            run = self._run
            if run is not None:
                run.wanted = "paused"
        if run is not None:
            run.end()

    def _end_with(self, wanted: RunState) -> None:
        assert self._run is not None
        self._run.wanted = wanted
        if wanted != "running":
            self._next = None
        self._told = _changed(self._told, state="pausing", per_minute=None, remaining_s=None)
        threading.Thread(target=self._run.end, name="pausing", daemon=True).start()

    def _follow(self, run: RunningProcess) -> None:
        """Hear what a run says until it has ended, and say so."""
        last: dict[str, Any] = {}
        assert run.process.stdout is not None
        with run.process.stdout as said, run.complaints:
            for line in said:
                told = _told(line)
                if told.get("why"):
                    log.error("adding folders: %s", told["why"])
                with self._lock:
                    if run.wanted is None:
                        self._told = _changed(self._told, **_news(told))
                last = told or last
            run.process.wait()
            with self._lock:
                self._finish(run, last)

    def _finish(self, run: RunningProcess, last: dict[str, Any]) -> None:
        run.ask_to_end()
        self._run = None
        if self._next is not None and not self._closed:
            order, self._next = self._next, None
            self._begin(order)
        elif "ended" in last:
            self._forget()
            self._told, self._order = self._said("done", str(last["ended"])), None
        elif run.wanted == "paused":
            self._told = self._said("paused", "Paused; what is finished can be searched.")
        elif run.wanted == "idle":
            self._told, self._order = Indexing(state="idle"), None
        elif "failed" in last:
            self._told = self._said("failed", str(last["failed"]))
        else:
            run.complaints.seek(0)
            complained = run.complaints.read().decode("utf-8", "replace")[-TOLD_BYTES:]
            log.error("adding folders broke off (status %s): %s", run.process.returncode, complained)
            self._told = self._said("failed", BROKE)
        if self._told.state == "failed":
            left = Noted(run.order, "paused")  # not begun again by itself
            if last.get("held") and self._before is not None and self._before.state == "running":
                left = self._before  # what another server does, which holds the library
            with contextlib.suppress(UsageError):
                self._note(left)

    def _said(self, state: RunState, sentence: str = "", stage: str = "") -> Indexing:
        places: Sequence[str] = self._order.places if self._order else ()
        try:
            shown = list(map(self._homes().shown, places))
        except UsageError:  # there is no home folder any more
            shown = [printable(os.path.basename(place)) for place in places]
        watches = self._order is not None and self._order.watch
        return Indexing(state=state, sentence=sentence, folders=shown, watches=watches, stage=stage)

    def _note(self, noted: Noted) -> None:
        text = json.dumps({"state": noted.state, "order": json.loads(noted.order.to_json())})
        try:
            with replacing(self._library / NOTE) as part:
                part.write_text(text, encoding="utf-8")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(
                f"The library's folder cannot be written ({why}); make room there, or make it writable."
            ) from error

    def _forget(self) -> None:
        with contextlib.suppress(OSError):
            (self._library / NOTE).unlink(missing_ok=True)


def _news(told: dict[str, Any]) -> dict[str, Any]:
    """What a line of a run changes: how far it is, whether one that watches has anything to do, what it took in."""
    if "stage" in told:
        with contextlib.suppress(TypeError):  # a library printed it
            return pace(StageReached(**told))
        return {}
    if "working" in told:
        state: RunState = "running" if told["working"] else "watching"
        return {"state": state} | ({"sentence": str(told["trouble"])} if told["working"] or told["trouble"] else {})
    return {"sentence": str(told["taken"])} if "taken" in told else {}


def _together(left: RunOrder, more: RunOrder) -> RunOrder:
    """One order of what is left of one and another; a run leaves out folders that have gone since, and says so."""
    return replace(
        more,
        places=tuple(dict.fromkeys((*left.places, *more.places))),
        model=more.model or left.model,
        watch=left.watch or more.watch,
    )


def _changed(record: Indexing, **changes: object) -> Indexing:
    """Return a record with some fields changed."""
    return record.model_copy(update=changes)


def pace(reached: StageReached) -> dict[str, Any]:
    """Return the fields of `Indexing` that tell how far a stage is, and when it will be done at its pace so far.

    >>> told = pace(StageReached("reading videos", done=5, total=20, seconds=60.0))
    >>> told["per_minute"], told["remaining_s"]
    (5.0, 180.0)
    """
    known = reached.done > 0 and reached.seconds >= FIRST_S
    a_minute = 60 * reached.done / reached.seconds if known else None
    left = reached.remaining_s
    if left is None and a_minute is not None and reached.total is not None:
        left = 60 * (reached.total - reached.done) / a_minute
    return {
        "stage": reached.stage,
        "file": reached.file,
        "done": reached.done,
        "total": reached.total,
        "per_minute": a_minute,
        "remaining_s": left,
        "video_done_s": reached.video_done_s,
        "video_s": reached.video_s,
        "speed": reached.speed,
    }


def _started(order: RunOrder) -> RunningProcess:
    """Start the process of a run."""
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 -- as long as the run
    try:
        process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,  # a terminal's Ctrl-C is for the server, which ends it
        )
    except OSError:
        complaints.close()
        raise
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it may have died already
        process.stdin.write(order.to_json().encode() + b"\n")
        process.stdin.flush()
    return RunningProcess(order, process, complaints)


def _told(line: bytes) -> dict[str, Any]:
    """What a line of the run says; nothing where a library printed it."""
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _noted(path: Path) -> Noted | None:
    """What was noted of a run; None where there is nothing, or nothing that can be understood."""
    try:
        told = json.loads(path.read_bytes())
        state: RunState = "running" if told["state"] == "running" else "paused"
        return Noted(RunOrder.from_json(json.dumps(told["order"])), state)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s cannot be understood (%s); folders that were being added have to be added again", path, error)
        return None
