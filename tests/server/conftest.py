"""A small library of rendered videos, served to a client in this process."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenreel.config import IndexSettings
from evenreel.library.index.run import make_empty
from evenreel.media import workers
from evenreel.planted import Entity, Scene, draw_clip, write_clip, write_scene
from evenreel.server import ServeSettings, adding, make_app
from tests import prebuilt
from tests.forked import FORKED_SUBPROCESS, ForkedWorker, context, opened
from tests.server import gated_run
from tests.server.gated_run import GATE

PATIENCE_S = 120.0  # a busy machine is no failure
HERE = ("127.0.0.1", 50_000)
"""Where a visitor at the machine of the server comes from."""
SCENES = {
    "star.mp4": Scene((Entity("star", "red", "large"),), "moves_right", "beach", duration_s=3.0),
    "heart.mp4": Scene((Entity("heart", "blue", "large"),), "bounces", "forest", duration_s=4.0),
    "cross.mp4": Scene((Entity("cross", "green", "large"),), "grows", "city", duration_s=5.0),
    "circle <b>.mp4": Scene((Entity("circle", "orange", "large"),), "sways", "mountains", duration_s=6.0),
}
QUIET = IndexSettings(model="builtin", read_text=False, speech=None, workers=1)
SOURCES = {"star.mp4": "camera", "heart.mp4": "camera", "cross.mp4": "generator_a", "circle <b>.mp4": "generator_b"}


@dataclass(frozen=True)
class Served:
    """A library on disk, its videos, and how it is served."""

    library: Path
    videos: Path
    settings: ServeSettings


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of videos, one of them broken, with a table of their sources."""
    folder = tmp_path_factory.mktemp("rendered")
    for name, scene in SCENES.items():
        write_scene(folder / name, replace(scene, seed=1))
    (folder / "broken.mp4").write_text("no video")
    with (folder / "metadata.csv").open("w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerows([("path", "source"), *SOURCES.items()])
    return folder


@pytest.fixture(scope="session")
def served(rendered: Path, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """The videos indexed with the built-in encoder; HARBOUR is read on each of them."""
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenreel.library.index.run.READER", "tests.library.stub_reader:QuickReader")
        patch.setattr(workers, "subprocess", FORKED_SUBPROCESS)
        prebuilt.library(rendered, folder / "library", IndexSettings(model="builtin", workers=1))
    return Served(folder / "library", rendered, ServeSettings(cache=folder / "cache", painters=1))


def make_own(folder: Path, served: Served) -> Path:
    """Fill `videos` and `library` of a folder that a test may write to, with two takes of one scene."""
    shutil.copytree(served.videos, folder / "videos")
    (folder / "videos" / "broken.mp4").unlink()
    star = list(draw_clip(replace(SCENES["star.mp4"], seed=1)))
    write_clip(folder / "videos" / "star trimmed.mp4", star[6:], 12)
    prebuilt.library(folder / "videos", folder / "library", QUIET)
    return folder


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[TestClient]:
    """A visitor of the served library, whose model is loaded, at the machine of the server."""
    app = make_app(served.library, served.settings)
    with TestClient(app, base_url="http://127.0.0.1:8765", client=HERE) as visitor:
        wait_for_model(visitor)
        yield visitor


def wait_for_model(visitor: TestClient) -> None:
    """Ask until the model is no longer on its way."""
    wait_until(lambda: visitor.get("/api/v1/health").json()["model"] != "loading")


def wait_until(holds: Callable[[], bool]) -> None:
    """Look again and again."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it did not come to hold"
        time.sleep(0.02)


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
    return (ForkedRun if "tests.server.gated_run" in command else subprocess.Popen)(command, **options)


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
    monkeypatch.setattr(adding, "COMMAND", (sys.executable, "-m", "tests.server.gated_run"))
    forked = SimpleNamespace(Popen=begun, PIPE=subprocess.PIPE, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(adding, "subprocess", forked)
    yield NewHome(tmp_path / "home", library, gate)
    gate.touch()


@pytest.fixture
def here(new_home: NewHome) -> Iterator[TestClient]:
    """A visitor at the machine of the server."""
    with new_home.visitor() as visitor:
        yield visitor
