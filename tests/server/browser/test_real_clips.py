"""The page in a Chromium, on real clips: from a query to the frame of its moment."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.media import open_video, parse_rule
from evenreel.server import ServeSettings
from tests.server.browser.visits import (
    Visits,
    first_frame,
    frame_now,
    names,
    nearest_time,
    search,
    serving_here,
    settled,
    show_filters,
)

REAL = (
    *("msrvtt_video7500.mp4", "metro_train.mp4", "kitten_on_grass.mp4", "cogvideox_1.mp4"),
    *("ucf101_eye_makeup.avi", "video_90.mov", "corrupted.mp4"),
)
MATCH = "msrvtt_video7500.mp4"
SEVERAL = "hyundai minute"
"""Words of signs of that clip: one is on screen at 0:15, the other at 0:04 and 0:05."""
TIME = "() => document.querySelector('#video').currentTime"


@pytest.fixture(scope="module")
def real_library(real_clips: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Real clips with their captions and sources, indexed as a person would; only with `--all` more than two."""
    names = REAL if request.config.getoption("all") else REAL[:2]
    folder = tmp_path_factory.mktemp("real")
    clips = folder / "clips"
    clips.mkdir()
    for name in names:
        shutil.copyfile(real_clips / name, clips / name)
    with (
        (real_clips / "manifest.csv").open(newline="", encoding="utf-8") as given,
        (clips / "metadata.csv").open("w", newline="", encoding="utf-8") as kept,
    ):
        header, *rows = csv.reader(given)
        csv.writer(kept).writerows([header, *(row for row in rows if row[0] in names)])
    index_folders([clips], folder / "library", IndexSettings(model="builtin"))
    return folder / "library"


@pytest.fixture(scope="module")
def site(real_library: Path) -> Iterator[str]:
    with serving_here(real_library, ServeSettings(cache=real_library.parent / "cache")) as port:
        yield f"http://127.0.0.1:{port}"


def open_first(page: Page, words: str) -> float:
    """Search, open the first card with Enter, and tell the time that the address then names."""
    search(page, words)
    return open_at_moment(page)


def open_at_moment(page: Page) -> float:
    """The same, where the answer is there already."""
    page.locator(".card h3 a").first.press("Enter")
    return float(page.evaluate("() => new URL(location).searchParams.get('t')"))


def shows(page: Page, video: Path, time_s: float) -> None:
    """The clip began at this time, and with the frame of that time: frames elsewhere look different.

    On a busy machine the frame before the jump may still be there when playing begins; it must go at once, which is a
    tenth of a second of the clip.
    """
    began_s, picture = first_frame(page)
    assert began_s == pytest.approx(time_s, abs=0.5)
    nearest_s, times, distances = nearest_time(video, picture)
    if nearest_s != pytest.approx(time_s, abs=0.5):
        page.wait_for_timeout(1000)
        nearest_s, times, distances = nearest_time(video, frame_now(page))
    assert nearest_s == pytest.approx(time_s, abs=0.5)
    elsewhere = [far for at, far in zip(times, distances, strict=True) if abs(at - time_s) > 1.5]
    assert min(elsewhere) > 2 * min(distances)


@pytest.mark.parametrize(
    ("words", "name", "marks"),
    [("japan netherlands", MATCH, ["NETHERLANDS", "JAPAN"]), ("a metro train", "metro_train.mp4", ["metro", "train"])],
)
def test_a_card_plays_from_its_moment(
    visits: Visits, real_library: Path, words: str, name: str, marks: list[str]
) -> None:
    page = visits.open()
    moment_s = open_first(page, words)
    assert page.locator(".card").first.locator(".reason mark").all_inner_texts() == marks
    shows(page, real_library.parent / "clips" / name, moment_s)
    expect(page.locator("#player-title")).to_have_text(name)
    expect(page.locator("#play")).to_have_attribute("aria-label", "Pause")


@pytest.mark.slow
def test_marks_of_the_timeline_go_to_their_moments(visits: Visits, real_library: Path) -> None:
    page = visits.open()
    open_first(page, SEVERAL)
    first_frame(page)
    page.keyboard.press("k")
    marks = page.locator("#moment-marks button")
    assert marks.count() > 1
    marks.first.click()
    expect(page.locator("#position")).to_have_attribute("aria-valuetext", "0:04 of 0:16")
    assert page.evaluate(TIME) == pytest.approx(4.0, abs=0.5)
    page.evaluate("window.begun = []")
    page.keyboard.press("k")
    first_frame(page)
    page.keyboard.press("k")
    page.keyboard.press("n")
    assert page.evaluate(TIME) == pytest.approx(5.0, abs=0.5)
    page.keyboard.press("p")
    assert page.evaluate(TIME) == pytest.approx(4.0, abs=0.5)
    shows(page, real_library.parent / "clips" / MATCH, 4.0)


@pytest.mark.slow
def test_the_address_alone_brings_everything_back(visits: Visits) -> None:
    page = visits.open()
    search(page, SEVERAL)
    show_filters(page)
    page.locator("#filters").get_by_label("camera").check()
    expect(page.locator("#chips button")).to_have_count(1)
    settled(page)
    page.locator(".card h3 a").first.press("Enter")
    first_frame(page)
    page.keyboard.press("k")
    page.locator("#moment-marks button").first.click()
    page.wait_for_url("**&t=4")
    address = page.url.removeprefix(visits.address)

    other = visits.open(address)
    expect(other.locator("#player-title")).to_have_text(MATCH)
    expect(other.locator("#position")).to_have_attribute("aria-valuetext", "0:04 of 0:16")
    expect(other.locator("#moment-marks button")).to_have_count(page.locator("#moment-marks button").count())
    other.keyboard.press("Escape")
    expect(other.locator("#player")).to_be_hidden()
    assert other.locator("#query").input_value() == SEVERAL
    assert names(other) == names(page)
    expect(other.locator("#chips button")).to_have_text("source: camera")


def frame_of(video: Path, time_s: float) -> bytes:
    """A frame as a JPEG."""
    with open_video(video) as opened:
        frame = min(opened.frames(parse_rule("every 1 s")), key=lambda frame: abs(frame.time_s - time_s))
    made = io.BytesIO()
    Image.fromarray(frame.pixels).save(made, "JPEG", quality=90)
    return made.getvalue()


@pytest.mark.slow
def test_a_chosen_picture_is_searched_for(visits: Visits, real_library: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "kitten.jpg"
    chosen.write_bytes(frame_of(real_library.parent / "clips" / "kitten_on_grass.mp4", 3.0))
    page = visits.open()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Search by a picture").click()
    chooser.value.set_files(chosen)
    settled(page)
    assert names(page)[0] == "kitten_on_grass.mp4"
    assert page.locator("#query-picture img").evaluate("image => image.naturalWidth") > 0


@pytest.mark.slow
def test_a_clip_that_stands_on_its_side_is_shown_upright(visits: Visits) -> None:
    page = visits.open("/library?text=video_90")
    still = page.locator(".file .still img")
    still.evaluate("image => image.decode()")
    width, height = still.evaluate("image => [image.naturalWidth, image.naturalHeight]")
    page.locator(".file .name a").click()
    video = page.locator("#video")
    page.wait_for_function("() => document.querySelector('#video').videoWidth")
    video_width, video_height = video.evaluate("video => [video.videoWidth, video.videoHeight]")
    assert np.isclose(width / height, video_width / video_height, rtol=0.05)


@pytest.mark.slow
def test_what_the_browser_cannot_play_is_shown_as_a_preview(visits: Visits, real_library: Path) -> None:
    page = visits.open()
    search(page, "a woman is putting on eye makeup")
    assert names(page)[0] == "ucf101_eye_makeup.avi"
    moment_s = open_at_moment(page)
    shows(page, real_library.parent / "clips" / "ucf101_eye_makeup.avi", moment_s)
    expect(page.locator("#player-note")).to_have_text(
        "This browser cannot play the original. This is a small preview without sound."
    )


def test_keyboard_alone_from_the_query_to_the_clip_and_back(visits: Visits) -> None:
    page = visits.open()
    search(page, SEVERAL)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("() => document.activeElement.textContent") == MATCH
    page.keyboard.press("Enter")
    first_frame(page)
    page.keyboard.press(" ")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    page.keyboard.press("p")
    assert page.evaluate(TIME) == pytest.approx(5.0, abs=0.5)
    page.keyboard.press("Escape")
    expect(page.locator("#player")).to_be_hidden()
    assert page.evaluate("() => document.activeElement.textContent") == MATCH
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "query"
    page.keyboard.type("a metro train")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=a+metro+train")
