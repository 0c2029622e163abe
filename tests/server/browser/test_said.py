"""What is said, on the page in a Chromium: on cards, under the video, on the timeline, and in a list that follows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.library.index import run
from tests.server.browser.test_states import assert_for_everyone, violations
from tests.server.browser.visits import Look, Visits, names, serving_here, settled
from tests.server.conftest import Served

pytestmark = pytest.mark.slow

SAID = (
    "WEBVTT\n\n00:00.200 --> 00:00.900\n<v Ann>We leave the old quayside at noon.\n\n"
    "00:01.000 --> 00:01.900\nThe ferry waits for nobody.\n\n"
    "00:02.500 --> 00:03.400\n<v Bob>Then <b>hurry</b> &amp; run: the harbour café closes!\n"
)
GERMAN = "1\n00:00:01,000 --> 00:00:01,900\nDie Fähre wartet auf niemanden.\n"


@pytest.fixture(scope="module")
def site(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server of a library with subtitles in two languages beside one of its videos."""
    folder = tmp_path_factory.mktemp("said")
    videos, library = folder / "videos", folder / "library"
    shutil.copytree(served.videos, videos)
    (videos / "heart.en.vtt").write_text(SAID, encoding="utf-8")
    (videos / "heart.de.srt").write_text(GERMAN, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "READER", "tests.library.stub_reader:QuickReader")
        index_folders([videos], library, IndexSettings(model="builtin", workers=1))
    with serving_here(library, served.settings) as port:
        yield f"http://127.0.0.1:{port}"


def played(visits: Visits, query: str) -> Page:
    """The page with the first clip of an answer open in the player, standing still."""
    page = visits.found(f"/?q={query}", Look(still=True))
    page.locator(".card h3 a").first.press("Enter")
    expect(page.locator("#player .transcript")).to_be_visible()
    page.wait_for_function("() => window.begun?.[0]")
    page.locator("#play").click()
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    return page


def now(page: Page) -> str:
    return page.locator(".words.said [aria-current] button").inner_text()


def test_a_card_says_what_was_said_and_leads_there(visits: Visits) -> None:
    page = visits.found("/?q=ferry+waiting", Look(still=True))
    assert names(page)[0] == "heart.mp4"
    said = page.locator(".card .reason").first
    expect(said).to_have_text("said: “The ferry waits for nobody.” at 0:01")
    assert said.locator("mark").all_inner_texts() == ["ferry", "waits"]
    assert_for_everyone(page)
    page.locator(".card h3 a").first.press("Enter")
    expect(page.locator("#caption")).to_have_text("The ferry waits for nobody.")
    expect(page.locator("#said-marks button")).to_have_count(1)


def test_the_transcript_follows_the_player_and_leads_it(visits: Visits) -> None:
    page = played(visits, "ferry+waiting")
    rows = page.locator(".words.said button")
    assert rows.all_inner_texts() == [
        "0:00\nAnn: We leave the old quayside at noon.",
        "0:01\nThe ferry waits for nobody.",
        "0:02\nBob: Then hurry & run: the harbour café closes!",
    ]
    assert page.locator(".words.said .matched mark").all_inner_texts() == ["ferry", "waits"]
    rows.nth(2).click()
    expect(page.locator("#caption")).to_have_text("Bob: Then hurry & run: the harbour café closes!")
    assert now(page).startswith("0:02")
    page.locator("#position").evaluate("(one) => { one.value = 2.2; one.dispatchEvent(new Event('input')); }")
    expect(page.locator("#caption")).to_have_text("")
    expect(page.locator(".words.said [aria-current]")).to_have_count(0)
    page.locator("#said-marks button").click()
    expect(page.locator("#caption")).to_have_text("The ferry waits for nobody.")
    assert violations(page) == []


def test_what_is_said_is_searched_and_changed_to_another_language(visits: Visits) -> None:
    page = played(visits, "ferry+waiting")
    field = page.get_by_role("searchbox", name="Search what is said")
    field.click()
    page.keyboard.type("CAFE k")
    expect(page.locator(".words.said")).to_have_text("Nothing of it is said.")
    assert page.locator("#play").get_attribute("aria-label") == "Play"  # the keys of the player are no keys here
    field.fill("cafe")
    expect(page.locator(".words.said button")).to_have_count(1)
    field.fill("")
    page.get_by_role("combobox", name="Language of what is said").select_option(label="de (subtitles)")
    expect(page.locator(".words.said button")).to_have_text("0:01Die Fähre wartet auf niemanden.")
    expect(page.locator("#caption")).to_have_text("Die Fähre wartet auf niemanden.")


def test_a_clip_in_which_nothing_is_said_has_no_place_for_it(visits: Visits) -> None:
    page = visits.found("/?q=red+star", Look(still=True))
    page.locator(".card h3 a", has_text="star.mp4").first.press("Enter")
    expect(page.locator("#about dl")).to_be_visible()
    expect(page.locator("#player .transcript")).to_have_count(0)
    expect(page.locator("#caption")).to_be_hidden()
    assert Path(page.locator("#player-title").inner_text()).suffix == ".mp4"


def test_quotes_and_prefixes_are_told_and_searched_on_the_page(visits: Visits) -> None:
    page = visits.open("/", Look(still=True))
    expect(page.locator("#home-examples")).to_contain_text("said:, on-screen:, seen: or sounds:")
    page.locator("#query").fill('said: "')
    page.locator("#query").fill('said: "the ferry waits"')
    settled(page)
    assert names(page) == ["heart.mp4"]
    assert page.locator(".card mark").last.inner_text() == "The ferry waits"


@pytest.mark.parametrize("begun", ["said:", "person:", 'Person: "'])
def test_a_prefix_that_waits_for_words_is_not_asked_for(visits: Visits, begun: str) -> None:
    page = visits.blank()
    page.clock.install()
    page.goto(visits.address)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/v1/search?" in request.url else None)
    page.locator("#query").fill(begun)
    page.clock.run_for(1_000)
    with page.expect_request("**/api/v1/search?*"):
        page.locator("#query").fill("seen: a tram")
        page.clock.run_for(1_000)
    assert len(asked) == 1
