"""The page keeps favourites, notes and saved searches, folds takes, and shows clips unlike the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from evenreel.library import index_folders, open_library
from tests.library.damage import forget_own
from tests.library.videos import write_video
from tests.server.browser.test_states import STAR, in_light_and_dark
from tests.server.browser.visits import Visits, serving_here
from tests.server.conftest import Served
from tests.server.own_library import QUIET, make_own

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
    row.get_by_role("button", name="All of them").click()
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
    page.get_by_role("button", name="Keep for the clip").click()
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
    more = page.get_by_role("button", name="and 1 like it")
    expect(more).to_have_count(1)
    shown = page.locator(".card").count()
    more.click()
    expect(page.locator(".card.under")).to_have_count(1)
    assert in_light_and_dark(page) == {"light": [], "dark": []}
    expect(page.locator(".card")).to_have_count(shown + 1)
    page.get_by_role("button", name="hide those like it").click()
    expect(page.locator(".card")).to_have_count(shown)


def test_what_comes_after_is_saved_with_the_search_and_marks_cannot_be(visits: Visits, own: Path) -> None:
    page = found(visits, STAR + "&then=a+blue+heart")
    page.get_by_role("button", name="Save search").click()
    expect(page.get_by_role("button", name="Saved", exact=True)).to_be_visible()
    with open_library(own / "library", vision=False) as opened:
        assert [one.query for one in opened.personal.searches()] == ["a red star on a beach, then a blue heart"]
    page.goto(visits.address)
    expect(page.get_by_role("region", name="Last searches").locator(".choice")).to_have_text(
        ["a red star on a beach, then a blue heart"]
    )
    page.get_by_role("region", name="Saved searches").locator(".choice").click()
    expect(page.locator("#results h2").first).to_contain_text("then")
    expect(page.get_by_role("button", name="Saved", exact=True)).to_be_visible()
    page = found(visits)
    page.locator(".card .mark[aria-label^='Right']").first.click()
    expect(page.locator("#marks-count")).to_be_visible()
    expect(page.get_by_role("button", name="Save search")).to_be_hidden()


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


def test_the_home_shows_clips_unlike_the_rest_where_there_are_more_than_these(visits: Visits) -> None:
    page = visits.blank()
    page.route("**/api/v1/highlights?k=12", lambda route: route.continue_(url=route.request.url.replace("k=12", "k=3")))
    page.goto(visits.address)
    expect(page.get_by_role("region", name="Unlike the rest").locator(".card")).to_have_count(3)
