"""Retrying files that were set aside: the index command in a process of its own, so that no search waits."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import threading
from pathlib import Path

from evenreel.files import replacing
from evenreel.library import Library
from evenreel.library.store.filesystem import is_published
from evenreel.processes import command
from evenreel.server.peers import Peers
from evenreel.server.records import Retry
from evenreel.wording import count

log = logging.getLogger("evenreel")

IDLE = Retry(state="idle", sentence="")
NOTHING_THERE = Retry(state="failed", sentence="None of the folders is there; is their disk connected?")
BROKEN_OFF = Retry(state="failed", sentence="The run was broken off; what it has finished is kept. Try again.")
RUN, TOLD = "retry", "retry.json"
"""Name of the lock that a run holds, and of the file that says how it goes."""
FAILED = Retry(state="failed", sentence="The folders could not be looked through; the server's log says why.")
ONLY_READ = Retry(
    state="failed",
    sentence="A published snapshot is only read; index into the library that it was made of, and publish that again.",
)


class Retrier:
    """Runs `evenreel index --retry` over the folders of a library, once at a time, whichever process is asked."""

    def __init__(self, library: Path, peers: Peers | None = None) -> None:
        self._library, self._peers = library, peers or Peers()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._state = IDLE
        self._closed = False

    def state(self) -> Retry:
        """Return the state of the run, or of the last one."""
        if self._peers.shared is None:
            return self._state
        told = _told(self._peers.shared / TOLD)
        if told.state != "running":
            return told
        with self._peers.only_one(RUN) as nobody_runs:
            return BROKEN_OFF if nobody_runs and _told(self._peers.shared / TOLD).state == "running" else told

    def start(self, library: Library) -> Retry:
        """Start a run, unless one is under way."""
        with self._lock:
            if self._state.state == "running" or self._closed:
                return self._state
            with contextlib.ExitStack() as run:
                if not run.enter_context(self._peers.only_one(RUN)):
                    return self.state()
                if is_published(self._library):
                    return self._tell(ONLY_READ)
                places, gone = known_places(library)
                if not places:
                    return self._tell(NOTHING_THERE)
                left_out = f" {count(gone, 'folder')} cannot be reached and {_are(gone)} left out." if gone else ""
                self._tell(Retry(state="running", sentence=f"The folders are looked through again.{left_out}"))
                asked = [*_command(library), "--", *places]
                held = run.pop_all()
                threading.Thread(target=self._run, args=(asked, left_out, held), name="retry", daemon=True).start()
            return self._state

    def _tell(self, state: Retry) -> Retry:
        self._state = state
        if self._peers.shared is not None:
            with contextlib.suppress(OSError), replacing(self._peers.shared / TOLD) as part:
                part.write_text(state.model_dump_json(), encoding="utf-8")
        return state

    def close(self) -> None:
        """End the run; what it has finished is kept, and the next one goes on from there."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()

    def _run(self, asked: list[str], left_out: str, held: contextlib.ExitStack) -> None:
        with held:
            self._tell(self._outcome(asked, left_out))

    def _outcome(self, asked: list[str], left_out: str) -> Retry:
        try:
            with self._lock:
                if self._closed:
                    return BROKEN_OFF
                self._process = subprocess.Popen(
                    asked,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    errors="replace",
                )
            said, complained = self._process.communicate()
            return _outcome(self._process.returncode, said, complained, left_out)
        except Exception:
            log.exception("trying again what was set aside failed")
            return FAILED


def _told(path: Path) -> Retry:
    """What the process that runs, or the last one that ran, has told of it."""
    try:
        return Retry.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return IDLE


def known_places(library: Library) -> tuple[list[str], int]:
    """Return the folders and single files that can be looked at again, and how many of the folders are gone."""
    roots = library.roots()
    there = [root for root in roots if os.path.isdir(root)]
    return [*there, *(path for path in library.single_files() if os.path.exists(path))], len(roots) - len(there)


def _command(library: Library) -> list[str]:
    """What a person would type, with the stages that the library has."""
    stats = library.stats()
    words = ["--quiet", "index", "--retry", "--json", "--library", str(library.path)]
    if stats.clips and not stats.model:
        words.append("--no-vision")
    if stats.clips and not reads_text(library):
        words.append("--no-ocr")
    return command("evenreel", *words)


def reads_text(library: Library) -> bool:
    """Return whether on-screen text was read of any clip; else it is not to be read of all of them now."""
    read = [facet.values for facet in library.facets() if facet.column == "has_text"]
    return any(found.value for values in read for found in values)


def _outcome(code: int, said: str, complained: str, left_out: str) -> Retry:
    if code not in {0, 3}:
        log.error("trying again what was set aside failed: %s", complained.strip())
        return FAILED
    report = json.loads(said)
    back, aside = report["indexed"] + report["recognised"], len(report["set_aside"])
    return Retry(
        state="done", sentence=f"{count(back, 'file')} taken in; {count(aside, 'file')} still set aside.{left_out}"
    )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
