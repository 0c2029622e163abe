"""Taking stretches away on the page in a Chromium: from a card, from what is selected, from the player."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import av
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.browser.test_states import WIDTHS, in_light_and_dark
from tests.server.browser.visits import Look, Visits

pytestmark = pytest.mark.slow


def results(visits: Visits) -> Page:
    return visits.found("/?q=star", Look(still=True))


def dialog(page: Page) -> Locator:
    shown = page.locator("dialog.take-away[open]")
    expect(shown).to_be_visible()
    return shown


def saved(page: Page, shown: Locator) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        shown.get_by_role("button", name="Save").click()
    path = waiting.value.path()
    return waiting.value.suggested_filename, Path(path).read_bytes()


def test_a_stretch_is_cut_from_a_card_by_keyboard(visits: Visits) -> None:
    page = results(visits)
    page.get_by_role("button", name="Take away star.mp4").first.press("Enter")
    shown = dialog(page)
    expect(shown.locator("h2")).to_have_text("Take away star.mp4")
    shown.get_by_label("Start").fill("0:01")
    shown.get_by_label("End").fill("2,0")
    shown.get_by_label("To the frame").check()
    name, content = saved(page, shown)
    assert name == "star 00.00.01.000-00.00.02.000.mp4"
    with av.open(io.BytesIO(content)) as container:
        assert container.duration == pytest.approx(1_000_000, abs=1000)
    expect(shown.locator(".take-away-said")).to_contain_text(f"{name} is saved.")
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    expect(page.get_by_role("button", name="Take away star.mp4").first).to_be_focused()


def test_what_is_no_time_or_outside_is_said_and_nothing_is_saved(visits: Visits) -> None:
    visits.expected.append("404")
    page = results(visits)
    page.get_by_role("button", name="Take away star.mp4").first.click()
    shown = dialog(page)
    shown.get_by_label("Start").fill("noon")
    shown.get_by_label("Start").press("Enter")
    expect(shown.locator(".take-away-said")).to_have_text("Write a time as 75.5, 1:15.5 or 1:02:03.")
    expect(shown.get_by_label("Start")).to_be_focused()
    shown.get_by_label("Start").fill("90")
    shown.get_by_label("End").fill("1:40")
    shown.get_by_label("End").press("Enter")
    expect(shown.locator(".take-away-said")).to_contain_text("from 90 to 100 s is outside of the clip")


def test_what_is_selected_is_taken_away_together(visits: Visits) -> None:
    page = results(visits)
    page.locator("details.others > summary").click()
    for name in ("star.mp4", "heart.mp4"):
        page.get_by_label(f"Select {name}").first.check(force=True)
    page.locator("#take-away button").click()
    shown = dialog(page)
    expect(shown.locator("h2")).to_have_text("Take away 2 stretches")
    expect(shown.locator(".times")).to_be_hidden()
    shown.get_by_label("EDL").check()
    expect(shown.get_by_label("To the frame")).to_be_hidden()
    name, content = saved(page, shown)
    assert name == "star.edl"
    assert content.count(b"CLIP NAME") == 2
    shown.get_by_label("Video").check()
    name, content = saved(page, shown)
    assert name == "star.zip"
    assert len([one for one in zipfile.ZipFile(io.BytesIO(content)).namelist() if one.endswith(".mp4")]) == 2


def test_the_player_takes_the_moment_away(visits: Visits) -> None:
    page = results(visits)
    page.locator(".card h3 a").first.press("Enter")
    page.locator("#player").get_by_role("button", name="Take away star.mp4").click()
    shown = dialog(page)
    shown.get_by_label("Contact sheet").check()
    name, content = saved(page, shown)
    assert (name, content[:2]) == ("star.jpg", b"\xff\xd8")
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    expect(page.locator("#player")).to_be_visible()


def test_the_dialog_fits_every_window(visits: Visits) -> None:
    page = results(visits)
    page.get_by_role("button", name="Take away star.mp4").first.click()
    shown = dialog(page)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        box = shown.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
        assert shown.evaluate("(one) => one.scrollWidth <= one.clientWidth")
    assert in_light_and_dark(page) == {"light": [], "dark": []}
