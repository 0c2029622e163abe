"""Files whose own clock does not begin at zero, in a Chromium: the picture at our time is the one that is shown."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from evenreel.config import IndexSettings
from evenreel.library import index_folders, open_library
from tests.cli.test_serve import running
from tests.media.test_frames import shifted
from tests.media_files import Film, gop, remux, steady, write_film
from tests.server.browser.visits import Visits

pytestmark = pytest.mark.slow

FPS = 25
PREVIEW = "This browser cannot play the original. This is a small preview without sound."
NUMBER = """() => {
    const video = document.querySelector("#video");
    if (video.readyState < 2 || video.seeking) return null;
    const pen = new OffscreenCanvas(video.videoWidth, video.videoHeight).getContext("2d");
    pen.drawImage(video, 0, 0);
    const {data, width, height} = pen.getImageData(0, 0, video.videoWidth, video.videoHeight);
    let number = 0;
    for (let bit = 0; bit < 12; bit++) {
        const [x, y] = [(width * (2 * (bit % 6) + 1)) / 12, (height * (2 * Math.floor(bit / 6) + 1)) / 4];
        if (data[4 * (Math.floor(y) * width + Math.floor(x))] > 128) number |= 1 << bit;
    }
    return number;
}"""
"""The number that a picture of `tests.media_files` shows; null while the video is on its way."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty seconds that begin at 2:00:00 by their own clock, or at 0:05, or at zero."""
    folder = tmp_path_factory.mktemp("times")
    made = write_film(folder / "made.mp4", Film(steady(20 * FPS), options=gop(25, b_frames=2)))
    vp8 = Film(steady(20 * FPS), codec="libvpx", options={"g": "25", "deadline": "realtime"})
    webm = write_film(folder / "made.webm", vp8)
    (folder / "videos").mkdir()
    for start_s in (0, 5, 7200):
        for source, kind in ((webm, "webm"), (made, "mkv"), (made, "mp4")):
            remux(source, folder / "videos" / f"from{start_s}.{kind}", shifted(Fraction(start_s)))
    index_folders([folder / "videos"], folder / "library", IndexSettings(model=None, read_text=False))
    return folder / "library"


@pytest.fixture(scope="module")
def site(library: Path) -> Iterator[str]:
    """Address of a server of it."""
    with running(library, "--no-vision") as (_, port):
        yield f"http://127.0.0.1:{port}"


def clip_id(library: Path, name: str) -> str:
    with open_library(library, vision=False) as opened:
        (found,) = [hit.clip_id for hit in opened.search(name).hits if Path(hit.path).name == name]
    return found


def shows(page: Page, number: int) -> None:
    """The picture of that number comes on screen; coding and scaling may not move it by more than a frame."""
    wanted = [number - 1, number, number + 1]
    page.wait_for_function(f"(wanted) => wanted.includes(({NUMBER})())", arg=wanted)


@pytest.mark.parametrize(
    "name", [f"from{start_s}.{kind}" for start_s in (0, 5, 7200) for kind in ("webm", "mkv", "mp4")]
)
def test_hazard_13_the_player_shows_the_moment_that_is_asked_for(visits: Visits, library: Path, name: str) -> None:
    page = visits.open(f"/?clip={clip_id(library, name)}&t=8")
    page.wait_for_function(f"() => ({NUMBER})() !== null")  # sooner there is nothing to seek in or to pause
    page.evaluate("() => document.querySelector('#video').pause()")
    slider = page.locator("#position")
    for time_s in (12, 0, 19, 3):
        slider.evaluate("(one, time) => { one.value = time; one.dispatchEvent(new Event('input')); }", time_s)
        shows(page, FPS * time_s)
        expect(page.locator("#clock")).to_have_text(f"0:{time_s:02} / 0:20")
    expect(page.locator("#player-note")).to_have_text(
        PREVIEW if name.endswith("mp4") and not name.startswith("from0") else ""
    )
