"""An index run's side of Ray: a process that holds Ray's driver, asked over pipes and ended with the run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from evenreel.errors import LibraryError
from evenreel.extras import installed, needed_extra
from evenreel.library.machines.driver import LOCAL
from evenreel.library.machines.orders import FileStatus, FileTask, WorkOrder
from evenreel.media.workers import read_message, write_message
from evenreel.processes import command, last_words

CONNECT_S = 30.0
"""Longest time in which a cluster must answer."""

MOST_BLOCKS = 2_000
"""Parts that the files of a round come to Ray in; a worker that dies makes Ray begin with a part again."""

_START_S = 180.0
_FAREWELL_S = 10.0
_TASKS_A_MESSAGE = 10_000


def check_address(address: str) -> None:
    """Check that Ray is installed and that an address may be one."""
    for package in ("ray", "fsspec"):
        if not installed(package):
            raise LibraryError(needed_extra(ModuleNotFoundError(name=package), "Indexing with --ray") or "")
    host, _, port = address.rpartition(":")
    if address != LOCAL and not (host and port.isdigit() and "/" not in address):
        raise LibraryError(
            f"--ray {address} is no address of a Ray cluster; give HOST:PORT as `ray start --head` prints it, on a "
            f"machine of the cluster, or {LOCAL}."
        )


class _NoAnswerError(LibraryError):
    """Ray has ended, or was never there."""


class RaySession:
    """A Ray cluster for one index run."""

    def __init__(self, address: str, order: WorkOrder, workers: int, cores: int) -> None:
        self._address = address
        self._process: subprocess.Popen[bytes] | None = None
        self._temp = tempfile.mkdtemp(prefix="evenreel-ray-")  # short: sockets are in it
        team = {"workers": workers, "cores": cores, "blocks": MOST_BLOCKS}
        self._setup = {"address": address, "order": order.to_json(), **team}

    def __enter__(self) -> RaySession:
        """Connect, or start the cluster."""
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the session, and a local cluster."""
        self._end()

    def run(self, tasks: Sequence[FileTask], *, alone: bool) -> Iterator[FileStatus]:
        """Have files read, and yield what became of each as soon as it is known; one may be left out."""
        for first in range(0, len(tasks), _TASKS_A_MESSAGE):
            some = tasks[first : first + _TASKS_A_MESSAGE]
            self._say({"kind": "tasks", "tasks": [task.to_json() for task in some]})
        self._say({"kind": "go", "alone": alone})
        while (message := self._hear())["kind"] != "end":
            yield FileStatus.from_json(message["status"])

    def settle(self, number: int) -> None:
        """Say that the outcome of a task is stored."""
        self._say({"kind": "settled", "number": number})

    def _start(self) -> None:
        with self._within(CONNECT_S):
            self._knock()
        with open(Path(self._temp, "driver.log"), "wb") as log:  # what Ray prints is for nobody, but may help who looks
            self._process = subprocess.Popen(
                command("evenreel.library.machines.driver"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONSAFEPATH": "1", "PYTHONWARNINGS": "ignore", "TMPDIR": self._temp},
                start_new_session=True,  # a terminal's Ctrl-C is for the parent, which ends it
            )
        self._say({**self._setup, "temp": self._temp})
        with self._within(_START_S if self._address == LOCAL else CONNECT_S):
            self._hear()
        self._hear()  # every machine has been looked at

    @contextlib.contextmanager
    def _within(self, seconds: float) -> Iterator[None]:
        timer = threading.Timer(seconds, self._give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        except LibraryError as error:
            if self._address == LOCAL or type(error) is LibraryError:
                raise
            raise LibraryError(
                f"No Ray cluster answers at {self._address} (waited {seconds:g} s at most), or this machine is not "
                "part of it; run `ray start --head` there and `ray start --address` here, or leave --ray out."
            ) from error
        finally:
            timer.cancel()

    def _knock(self) -> None:
        """See whether anything listens at the address, which Ray would find out late."""
        if self._address == LOCAL:
            return
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_S).close()
        except (OSError, OverflowError) as error:  # a port beyond 65535
            raise _NoAnswerError(str(error)) from error

    def _give_up(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _say(self, message: dict[str, Any]) -> None:
        try:
            write_message(self._pipe("stdin"), message)
        except OSError as error:
            raise self._failed() from error

    def _hear(self) -> dict[str, Any]:
        try:
            message, _ = read_message(self._pipe("stdout"))
        except (EOFError, OSError, ValueError) as error:
            raise self._failed() from error
        if message["kind"] == "failed":
            raise LibraryError(message["sentence"]) if message["sentence"] else _NoAnswerError
        return message

    def _failed(self) -> LibraryError:
        """The error for a driver that has ended, with how it did."""
        assert self._process is not None  # it was asked for
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_FAREWELL_S)
        code = self._process.returncode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        with contextlib.suppress(FileNotFoundError):  # it takes its folder with it where it can
            how = (code > 0 and last_words(Path(self._temp, "driver.log").read_bytes())) or how
        return _NoAnswerError(
            f"Ray ended unexpectedly ({how}); what was indexed so far is safe: run the same command again."
        )

    def _pipe(self, name: str) -> IO[bytes]:
        stream: IO[bytes] = getattr(self._process, name)
        return stream

    def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._pipe("stdin").close()
            try:
                self._process.wait(_FAREWELL_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._pipe("stdout").close()
        shutil.rmtree(self._temp, ignore_errors=True)
