"""Trying again what was set aside: the index command in a process of its own, so that a search never waits for it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path

from evenreel.library import Library
from evenreel.server.records import Retry


class Retrier:
    """Runs `evenreel index --retry` over the folders of a library, once at a time.

    Args:
        library: folder of the library.
    """

    def __init__(self, library: Path) -> None:
        self._library = library
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._state = Retry(state="idle", sentence="")

    def state(self) -> Retry:
        """How the run goes, or how the last one ended."""
        return self._state

    def start(self, library: Library) -> Retry:
        """Begin a run, unless one is under way."""
        with self._lock:
            if self._state.state != "running":
                self._state = Retry(state="running", sentence="The folders are looked through again.")
                threading.Thread(target=self._run, args=(_command(library),), name="retry", daemon=True).start()
            return self._state

    def close(self) -> None:
        """End the run; what it has finished is kept, and the next one goes on from there."""
        process = self._process
        if process is not None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()

    def _run(self, command: list[str]) -> None:
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            said, complained = self._process.communicate()
            self._state = _outcome(self._process.returncode, said, complained)
        except OSError as error:
            self._state = Retry(state="failed", sentence=f"The index command cannot be started: {error}.")


def _command(library: Library) -> list[str]:
    """What a person would type: every folder, with the stages that the library has."""
    stats = library.stats()
    command = [
        sys.executable,
        "-m",
        "evenreel",
        "--quiet",
        "index",
        "--library",
        str(library.path),
        "--retry",
        "--json",
    ]
    if stats.clips and not stats.model:
        command.append("--no-vision")
    if stats.clips and not _reads_text(library):
        command.append("--no-ocr")
    return [*command, "--", *library.roots()]


def _reads_text(library: Library) -> bool:
    """Whether on-screen text was read of any clip; it is not to be read of all of them now."""
    read = [facet.values for facet in library.facets() if facet.column == "has_text"]
    return any(found.value for values in read for found in values)


def _outcome(code: int, said: str, complained: str) -> Retry:
    if code not in {0, 3}:
        lines = complained.strip().splitlines()
        return Retry(state="failed", sentence=lines[-1].removeprefix("evenreel: ") if lines else "The run was ended.")
    report = json.loads(said)
    back, aside = report["indexed"] + report["recognised"], len(report["set_aside"])
    return Retry(state="done", sentence=f"{_files(back)} taken in; {_files(aside)} still set aside.")


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"
