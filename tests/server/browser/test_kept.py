"""What a person keeps and exports on the page: favourites, notes, saved searches, takes, cuts."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import av
import pytest
from playwright.sync_api import Locator, Page, expect

from evenreel.library import index_folders, open_library
from tests.library.damage import forget_own
from tests.library.videos import write_video
from tests.server.browser.test_states import STAR, in_light_and_dark
from tests.server.browser.visits import Look, Visits, serving_here
from tests.server.conftest import QUIET, Served, make_own

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that may be written to."""
    return make_own(tmp_path_factory.mktemp("own_page"), served)


@pytest.fixture(scope="module")
def site(own: Path, served: Served) -> Iterator[str]:
    """Address of its server."""
    with serving_here(own / "library", served.settings) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(autouse=True)
def nothing_kept(own: Path) -> None:
    """What earlier tests kept is gone."""
    forget_own(own / "library")


def found(visits: Visits, path: str = STAR) -> Page:
    """A page with results, the nearest others in the open."""
    page = visits.open(path)
    page.locator(".card:not(.skeleton)").first.wait_for(state="attached")
    page.evaluate("for (const one of document.querySelectorAll('details.others')) one.open = true")
    return page


def test_a_favourite_stays_and_is_on_the_home(visits: Visits, own: Path) -> None:
    page = found(visits)
    star = page.get_by_role("button", name="Favourite: heart.mp4")
    expect(star).to_have_attribute("aria-pressed", "false")
    star.click()
    expect(star).to_have_attribute("aria-pressed", "true")
    with open_library(own / "library", vision=False) as opened:
        assert [Path(one.path).name for one in opened.personal.marks()] == ["heart.mp4"]
    page.goto(visits.address)
    row = page.get_by_role("region", name="Favourites and notes")
    expect(row.locator(".card")).to_have_count(1)
    row.get_by_role("button", name="Show all").click()
    expect(page.locator("#browsed .card h3")).to_have_text(["heart.mp4"])
    page.locator("#browsed .card h3 a").click()
    page.locator("#player-actions").get_by_role("button", name="Favourite: heart.mp4").click()
    expect(page.locator("#browsed .star")).to_have_attribute("aria-pressed", "false")


def test_a_note_is_written_at_a_moment_by_keyboard_and_steers_nothing(visits: Visits, own: Path) -> None:
    page = found(visits)
    page.locator(".card h3 a", has_text="heart").first.click()
    note = page.locator("#player-actions summary")
    expect(note).to_be_visible()
    page.evaluate("document.getElementById('video').pause()")
    note.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("textbox", name="Note")).to_be_focused()
    page.keyboard.type("? f m <b>a heart</b>, blue")
    page.get_by_role("button", name="Save for the clip").click()
    expect(page.locator(".notes-there .text")).to_have_text(["? f m <b>a heart</b>, blue"])
    assert in_light_and_dark(page) == {"light": [], "dark": []}
    with open_library(own / "library", vision=False) as opened:
        (mark,) = (one.mark for one in opened.personal.marks())
    assert (mark.note, mark.time_s) == ("? f m <b>a heart</b>, blue", None)
    page.keyboard.press("Escape")
    expect(page.locator("#player")).to_be_visible()
    expect(page.locator(".note-panel")).to_be_hidden()
    page.locator("#player-actions summary").click()
    page.get_by_role("button", name="Delete the note").click()
    expect(page.locator(".notes-there .text")).to_have_count(0)
    with open_library(own / "library", vision=False) as opened:
        assert opened.personal.marks() == ()


def test_takes_open_from_the_card_of_the_best(visits: Visits) -> None:
    page = found(visits)
    more = page.get_by_role("button", name="1 similar")
    expect(more).to_have_count(1)
    shown = page.locator(".card").count()
    more.click()
    expect(page.locator(".card.under")).to_have_count(1)
    assert in_light_and_dark(page) == {"light": [], "dark": []}
    expect(page.locator(".card")).to_have_count(shown + 1)
    page.get_by_role("button", name="Hide similar").click()
    expect(page.locator(".card")).to_have_count(shown)


def test_a_saved_search_says_what_is_new(visits: Visits, own: Path) -> None:
    page = visits.open('/?q="comet"')
    page.get_by_role("button", name="Save search").click()
    expect(page.get_by_role("button", name="Saved", exact=True)).to_have_attribute("aria-pressed", "true")
    write_video(own / "videos" / "comet.mp4", 99)
    index_folders([own / "videos"], own / "library", QUIET)
    page.goto(visits.address)
    row = page.get_by_role("region", name="Saved searches")
    expect(row.locator(".amount")).to_have_text(["1 new"])
    assert in_light_and_dark(page) == {"light": [], "dark": []}
    row.locator(".choice").click()
    expect(page.locator(".card h3")).to_have_text(["comet.mp4"])
    expect(page.locator(".card .badge.new")).to_have_count(1)
    page.goto(visits.address)
    expect(row.locator(".choice")).to_have_text(['"comet"'])
    row.get_by_role("button", name="Remove the saved search").click()
    expect(row).to_have_count(0)


def results(visits: Visits) -> Page:
    return visits.found("/?q=star", Look(still=True))


def dialog(page: Page) -> Locator:
    shown = page.locator("dialog.export[open]")
    expect(shown).to_be_visible()
    return shown


def saved(page: Page, shown: Locator) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        shown.get_by_role("button", name="Save").click()
    path = waiting.value.path()
    return waiting.value.suggested_filename, Path(path).read_bytes()


def test_a_stretch_is_cut_from_a_card_by_keyboard(visits: Visits) -> None:
    page = results(visits)
    page.get_by_role("button", name="Export star.mp4").first.press("Enter")
    shown = dialog(page)
    expect(shown.locator("h2")).to_have_text("Export star.mp4")
    shown.get_by_label("Start").fill("0:01")
    shown.get_by_label("End").fill("2,0")
    shown.get_by_label("Frame-accurate").check()
    name, content = saved(page, shown)
    assert name == "star 00.00.01.000-00.00.02.000.mp4"
    with av.open(io.BytesIO(content)) as container:
        assert container.duration == pytest.approx(1_000_000, abs=1000)
    expect(shown.locator(".export-said")).to_contain_text(f"Saved {name}.")
    page.keyboard.press("Escape")
    expect(shown).to_be_hidden()
    expect(page.get_by_role("button", name="Export star.mp4").first).to_be_focused()


def test_what_is_selected_is_exported_together(visits: Visits) -> None:
    page = results(visits)
    page.locator("details.others > summary").click()
    for name in ("star.mp4", "heart.mp4"):
        page.get_by_label(f"Select {name}").first.check(force=True)
    page.locator("#export button").click()
    shown = dialog(page)
    expect(shown.locator("h2")).to_have_text("Export 2 clips")
    expect(shown.locator(".times")).to_be_hidden()
    shown.get_by_label("Handles").fill("soon")
    shown.get_by_role("button", name="Save").click()
    expect(shown.locator(".export-said")).to_contain_text("Write times as 75.5")
    ends_s = []
    for handles in ("0", "0.25"):
        shown.get_by_label("Handles").fill(handles)
        shown.get_by_label("EDL").check()
        with page.expect_request("**/api/v1/export") as asked:
            saved(page, shown)
        ends_s.append([one["end_s"] for one in asked.value.post_data_json["stretches"]])
    assert ends_s[1] == [end_s + 0.25 for end_s in ends_s[0]]
    expect(shown.get_by_label("Frame-accurate")).to_be_hidden()
    name, content = saved(page, shown)
    assert name == "star.edl"
    assert content.count(b"CLIP NAME") == 2
    shown.get_by_label("Video").check()
    name, content = saved(page, shown)
    assert name == "star.zip"
    assert len([one for one in zipfile.ZipFile(io.BytesIO(content)).namelist() if one.endswith(".mp4")]) == 2
