"""A home folder with videos in it, an empty library, and how folders are added to it in a test."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evenreel.library.index.first_run import make_empty
from evenreel.server import ServeSettings, make_app
from evenreel.server.adding import adder
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
    yield NewHome(tmp_path / "home", library, gate)
    gate.touch()


@pytest.fixture
def here(new_home: NewHome) -> Iterator[TestClient]:
    """A visitor at the machine of the server."""
    with new_home.visitor() as visitor:
        yield visitor
