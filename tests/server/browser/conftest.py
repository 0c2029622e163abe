"""A Chromium in front of a served library; a test fails on whatever goes wrong in its pages."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from tests.cli.test_serve import TOKEN, running, wait_for
from tests.server.browser.visits import PATIENCE_MS, Visits, serving_here
from tests.server.conftest import Served

REAL = (
    *("msrvtt_video7500.mp4", "metro_train.mp4", "kitten_on_grass.mp4", "cogvideox_1.mp4"),
    *("ucf101_eye_makeup.avi", "video_90.mov", "corrupted.mp4"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium of the system: the one that Playwright brings cannot play H.264."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium (on Debian: apt install chromium)")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chromium = playwright.chromium.launch(executable_path=program, args=arguments, timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def real_library(real_clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the real clips with their captions and sources, indexed as a person would; one is damaged."""
    folder = tmp_path_factory.mktemp("real")
    clips = folder / "clips"
    clips.mkdir()
    for name in REAL:
        shutil.copyfile(real_clips / name, clips / name)
    with (
        (real_clips / "manifest.csv").open(newline="", encoding="utf-8") as given,
        (clips / "metadata.csv").open("w", newline="", encoding="utf-8") as kept,
    ):
        header, *rows = csv.reader(given)
        csv.writer(kept).writerows([header, *(row for row in rows if row[0] in REAL)])
    index_folders([clips], folder / "library", IndexSettings(model="builtin"))
    return folder / "library"


@pytest.fixture(scope="module")
def real_site(real_library: Path) -> Iterator[str]:
    """Address of a server of the real clips, a process of its own."""
    with running(real_library) as (_, port):
        wait_for(port, "/api/v1/health", "model", {"ready"})
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def rendered_site(served: Served) -> Iterator[str]:
    """Address of a server of the rendered videos, in this process: that of the real clips is one of its own."""
    with serving_here(served.library, served.settings) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def token_site(served: Served) -> Iterator[str]:
    """Address of a server that wants to hear a token."""
    with running(served.library, "--no-vision", token=TOKEN) as (_, port):
        yield f"http://127.0.0.1:{port}"


def _visits(browser: Browser, address: str) -> Iterator[Visits]:
    visits = Visits(browser, address)
    yield visits
    visits.close()
    assert visits.trouble == []


@pytest.fixture
def visits(browser: Browser, site: str) -> Iterator[Visits]:
    """Visits to the server whose address is the fixture `site` of the module."""
    yield from _visits(browser, site)


@pytest.fixture
def real(browser: Browser, real_site: str) -> Iterator[Visits]:
    """Visits to the real clips."""
    yield from _visits(browser, real_site)


@pytest.fixture
def rendered_visits(browser: Browser, rendered_site: str) -> Iterator[Visits]:
    """Visits to the rendered videos."""
    yield from _visits(browser, rendered_site)


@pytest.fixture
def token_visits(browser: Browser, token_site: str) -> Iterator[Visits]:
    """Visits to a server that wants to hear a token."""
    yield from _visits(browser, token_site)
