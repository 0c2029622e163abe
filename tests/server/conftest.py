"""A small library of rendered videos, served to a client in this process."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evenreel.config import IndexSettings
from evenreel.media import workers
from evenreel.planted import Entity, Scene, write_scene
from evenreel.server import ServeSettings, make_app
from tests import prebuilt
from tests.forked import FORKED_SUBPROCESS

PATIENCE_S = 120.0  # a busy machine is no failure
SCENES = {
    "star.mp4": Scene((Entity("star", "red", "large"),), "moves_right", "beach", duration_s=3.0),
    "heart.mp4": Scene((Entity("heart", "blue", "large"),), "bounces", "forest", duration_s=4.0),
    "cross.mp4": Scene((Entity("cross", "green", "large"),), "grows", "city", duration_s=5.0),
    "circle <b>.mp4": Scene((Entity("circle", "orange", "large"),), "sways", "mountains", duration_s=6.0),
}
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


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[TestClient]:
    """A visitor of the served library, whose model is loaded."""
    with TestClient(make_app(served.library, served.settings), base_url="http://127.0.0.1:8765") as visitor:
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
