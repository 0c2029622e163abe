"""Retrying files that were set aside: the index command in a process of its own, so that no search waits."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

from evenreel.library import Library
from evenreel.server.records import Retry
from evenreel.wording import count

log = logging.getLogger("evenreel")

FAILED = Retry(state="failed", sentence="The folders could not be looked through; the server's log says why.")


class Retrier:
    """Runs `evenreel index --retry` over the folders of a library, once at a time."""

    def __init__(self, library: Path) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._state = Retry(state="idle", sentence="")
        self._closed = False

    def state(self) -> Retry:
        """Return the state of the run, or of the last one."""
        return self._state

    def start(self, library: Library) -> Retry:
        """Start a run, unless one is under way.

        Raises:
            LibraryError: the catalog cannot be read just now.
        """
        with self._lock:
            if self._state.state == "running" or self._closed:
                return self._state
            places, gone = _places(library)
            if not places:
                self._state = Retry(state="failed", sentence="None of the folders is there; is their disk connected?")
                return self._state
            left_out = f" {count(gone, 'folder')} cannot be reached and {_are(gone)} left out." if gone else ""
            self._state = Retry(state="running", sentence=f"The folders are looked through again.{left_out}")
            command = [*_command(library), "--", *places]
            threading.Thread(target=self._run, args=(command, left_out), name="retry", daemon=True).start()
            return self._state

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

    def _run(self, command: list[str], left_out: str) -> None:
        try:
            with self._lock:
                if self._closed:
                    return
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    errors="replace",
                )
            said, complained = self._process.communicate()
            self._state = _outcome(self._process.returncode, said, complained, left_out)
        except Exception:
            log.exception("trying again what was set aside failed")
            self._state = FAILED


def _places(library: Library) -> tuple[list[str], int]:
    """The folders and single files that can be looked at again, and how many of the folders are gone."""
    roots = library.roots()
    there = [root for root in roots if os.path.isdir(root)]
    return [*there, *(path for path in library.single_files() if os.path.exists(path))], len(roots) - len(there)


def _command(library: Library) -> list[str]:
    """What a person would type, with the stages that the library has."""
    stats = library.stats()
    command = [sys.executable, "-m", "evenreel", "--quiet", "index", "--retry", "--json"]
    command += ["--library", str(library.path)]
    if stats.clips and not stats.model:
        command.append("--no-vision")
    if stats.clips and not _reads_text(library):
        command.append("--no-ocr")
    return command


def _reads_text(library: Library) -> bool:
    """Whether on-screen text was read of any clip; it is not to be read of all of them now."""
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
