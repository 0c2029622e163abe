"""A Ray cluster of this machine that outlives the runs which use it: for scripts that kill, and for tests."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_START_S = 120.0
_STORE_BYTES = 80 * 2**20


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        address: `HOST:PORT` of it.
        session: id of the session of processes that all its processes are in.
        temp: folder of what Ray writes.
    """

    address: str
    session: int
    temp: Path

    def workers(self) -> list[Any]:
        """List the processes that read clips."""
        import psutil

        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if "MapWorker" in "".join(one.cmdline()[:1]) and os.getsid(one.pid) == self.session:
                    found.append(one)
        return found


@contextlib.contextmanager
def started(cores: int = 2) -> Iterator[Cluster]:
    """Start a cluster, and end it with all its processes after the block; it takes tasks of this environment alone."""
    temp, port = tempfile.mkdtemp(prefix="ray-"), _free_port()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"]
    command += [f"--port={port}", f"--num-cpus={cores}", f"--temp-dir={temp}"]
    command += ["--include-dashboard=false", f"--object-store-memory={_STORE_BYTES}", "--min-worker-port=0"]
    command += ["--max-worker-port=0"]
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    before = {name: os.environ.get(name) for name in token}
    os.environ.update(token)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"}
    with open(Path(temp, "start.log"), "wb") as log:
        head = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        _wait_for(head, port, Path(temp, "start.log"))
        yield Cluster(f"127.0.0.1:{port}", head.pid, Path(temp))
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})
        with contextlib.suppress(ProcessLookupError):
            os.killpg(head.pid, signal.SIGKILL)
        head.wait()
        shutil.rmtree(temp, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(head: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until the cluster runs, which it says at the end of its start."""
    deadline = time.monotonic() + _START_S
    while "Ray runtime started" not in log.read_text(encoding="utf-8", errors="replace"):
        if head.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"no Ray cluster at port {port}: {log.read_text(encoding='utf-8', errors='replace')}")
        time.sleep(0.05)
