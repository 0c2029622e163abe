"""A home folder with videos in it, an empty library, and how folders are added to it in a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenreel.library.index.run import make_empty
from evenreel.media import workers
from evenreel.server import ServeSettings, make_app
from evenreel.server.adding import adder
from tests.forked import FORKED_SUBPROCESS, ForkedWorker, context, opened
from tests.server.adding import gated_run
from tests.server.adding.gated_run import GATE

HERE = ("127.0.0.1", 50_000)
"""Where a visitor at the machine of the server comes from."""


@dataclass(frozen=True)
class NewHome:
    """A home folder, the empty library in it, and the file that lets a run go on after its first video."""

    home: Path
    library: Path
    gate: Path

    @property
    def settings(self) -> ServeSettings:
        """Settings of a server on this machine."""
        return ServeSettings(cache=self.home / ".cache", painters=1)

    def visitor(self, settings: ServeSettings | None = None, client: tuple[str, int] = HERE) -> TestClient:
        """A visitor of a server that is not started yet."""
        app = make_app(self.library, settings or self.settings)
        return TestClient(app, base_url="http://127.0.0.1:8765", client=client)


class ForkedRun(ForkedWorker):
    """What the adder uses of a `subprocess.Popen`, of a gated run that is forked; so are its readers."""

    def __init__(self, command: Sequence[str], **_: Any) -> None:
        orders, stdin = context.Pipe(duplex=False)
        stdout, told = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(dict(os.environ), orders, told))  # type: ignore[assignment]
        with self.lock:
            self._process.start()
        orders.close()
        told.close()
        self.stdin, self.stdout = opened(stdin, "wb"), opened(stdout, "rb")

    @property
    def returncode(self) -> int | None:
        return self.poll()


def _run(environment: dict[str, str], orders: Connection, told: Connection) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for number, descriptor in enumerate((orders.fileno(), told.fileno(), os.open(os.devnull, os.O_WRONLY))):
        os.dup2(descriptor, number)
    orders.close()
    told.close()
    workers.subprocess = FORKED_SUBPROCESS  # type: ignore[assignment]
    gated_run.main()


def begun(command: Sequence[str], **options: Any) -> Any:
    """A run; of what a test puts in the place of one, a process as it is begun otherwise."""
    return (ForkedRun if "tests.server.adding.gated_run" in command else subprocess.Popen)(command, **options)


@pytest.fixture
def new_home(rendered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewHome]:
    videos = tmp_path / "home" / "Videos" / "Trips"
    videos.mkdir(parents=True)
    for name in ("star.mp4", "heart.mp4", "cross.mp4"):
        shutil.copyfile(rendered / name, videos / name)
    library, gate = tmp_path / "home" / ".library", tmp_path / "gate"
    make_empty(library)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(GATE, str(gate))
    monkeypatch.setattr(adder, "COMMAND", (sys.executable, "-m", "tests.server.adding.gated_run"))
    forked = SimpleNamespace(Popen=begun, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(adder, "subprocess", forked)
    yield NewHome(tmp_path / "home", library, gate)
    gate.touch()


@pytest.fixture
def here(new_home: NewHome) -> Iterator[TestClient]:
    """A visitor at the machine of the server."""
    with new_home.visitor() as visitor:
        yield visitor
