"""Processes that a server forks, which has their imports behind it: a tenth of the time of a new Python."""

from __future__ import annotations

import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

READING = ["evenreel.media.workers", "tests.library.stub_reader", "av", "PIL.Image", "cv2", "rapidocr"]
RENDERING = ["evenreel.planted.folder"]
RUNNING = ["tests.features.killed_run", "evenreel.cli.app", "evenreel.library"]

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(READING + RENDERING + RUNNING)


class ForkedWorker:
    """What `evenreel.media.workers` uses of a `subprocess.Popen`, of a child that is forked.

    It is as real as that one: a process and a session of its own, with pipes, limits and an end of its own.
    """

    lock = threading.Lock()  # multiprocessing looks at all its children from whatever thread starts one

    def __init__(self, command: Sequence[str], *, env: dict[str, str], **_: Any) -> None:
        tasks, stdin = context.Pipe(duplex=False)
        stdout, messages = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(command[-1], env, tasks, messages), daemon=True)
        with self.lock:
            self._process.start()
        tasks.close()
        messages.close()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.stdin, self.stdout, self.stderr = opened(stdin, "wb"), opened(stdout, "rb"), io.BytesIO()

    def kill(self) -> None:
        if self.poll() is None:
            self._process.kill()

    def poll(self) -> int | None:
        with self.lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("forked", timeout or 0.0)
        return code


def opened(end: Connection, mode: str) -> Any:
    """A file of one end of a pipe."""
    with end:
        return os.fdopen(os.dup(end.fileno()), mode)


def _serve(target: str, environment: dict[str, str], tasks: Connection, messages: Connection) -> None:
    from evenreel.media import workers

    os.setsid()
    os.environ.clear()
    os.environ.update(environment, EVENREEL_PARENT=str(os.getppid()))
    nothing = os.open(os.devnull, os.O_WRONLY)
    for number, descriptor in enumerate((tasks.fileno(), messages.fileno(), nothing)):
        os.dup2(descriptor, number)
    tasks.close()
    messages.close()
    sys.argv = ["workers", target]
    workers.main()


FORKED_SUBPROCESS = SimpleNamespace(
    Popen=ForkedWorker,
    PIPE=subprocess.PIPE,
    DEVNULL=subprocess.DEVNULL,
    TimeoutExpired=subprocess.TimeoutExpired,
)
"""Stands in for the module `subprocess` in `evenreel.media.workers`."""


def run_cli(*arguments: str | Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, with its exit status and what it wrote to its two streams."""
    command = ["evenreel", *map(str, arguments)]
    with tempfile.TemporaryDirectory() as place:
        streams = [Path(place) / name for name in ("stdout", "stderr")]
        process = context.Process(target=_main, args=(command, environment, streams))
        with ForkedWorker.lock:
            process.start()
        process.join(timeout=120)
        with ForkedWorker.lock:
            code = process.exitcode
        output, errors = (path.read_text(encoding="utf-8") for path in streams)
    assert code is not None
    return subprocess.CompletedProcess(command, code, output, errors)


def _main(command: list[str], environment: dict[str, str], streams: list[Path]) -> None:
    from evenreel.cli import main

    os.environ.clear()
    os.environ.update(environment)
    for number, path in enumerate(streams, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 -- as a new Python opens them
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = command
    main()
