"""The player: frame by frame, the folder of a file, and what is said."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.library.index import run
from tests.server.browser.test_states import STAR, assert_for_everyone, violations
from tests.server.browser.visits import Look, Visits, first_frame, names, serving_here, settled
from tests.server.conftest import Served

pytestmark = pytest.mark.slow

TIME = "() => document.querySelector('#video').currentTime"
FPS = """async () => {
    const id = new URL(location).searchParams.get('clip');
    return (await (await fetch(`/api/v1/clips/${id}`)).json()).fps;
}"""


def opened(page: Page) -> Page:
    """The first card's clip, which was stopped."""
    settled(page)
    page.locator("#results .card h3 a").first.press("Enter")
    first_frame(page)
    page.keyboard.press("k")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    return page


def test_frame_by_frame_and_back(visits: Visits) -> None:
    page = opened(visits.open(STAR, Look(still=True)))
    frame_s = 1 / page.evaluate(FPS)
    page.keyboard.press(".")
    first = page.evaluate(TIME)
    page.keyboard.press(".")
    page.locator("#frame-on").click()
    assert page.evaluate(TIME) == pytest.approx(first + 2 * frame_s, abs=frame_s / 10)
    page.keyboard.press(",")
    page.locator("#frame-back").click()
    assert page.evaluate(TIME) == pytest.approx(first, abs=frame_s / 10)
    for _ in range(200):
        page.keyboard.press(",")
    assert 0 <= page.evaluate(TIME) <= frame_s


def test_the_folder_is_opened_where_the_server_was_started_for_it(visits: Visits) -> None:
    visits.expected.append("status of 404")
    page = visits.blank(Look(still=True))
    asked: list[str] = []

    def stats(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "opens_folders": True})

    def folder(route: Route) -> None:
        asked.append(route.request.method)
        if len(asked) < 3:
            route.fulfill(json={"path": "/home/ann/videos/a very long folder of many words/beach/star.mp4"})
        else:
            route.fulfill(status=404, json={"detail": "The file is not there any more; is its disk connected?"})

    page.route("**/api/v1/stats", stats)
    page.route("**/api/v1/clips/*/folder", folder)
    page.goto(visits.address + STAR)
    opened(page)
    expect(page.locator("#player-file code")).to_contain_text("words/beach/star.mp4")
    assert_for_everyone(page)
    page.get_by_role("button", name="Open folder").click()
    expect(page.locator("#player-file")).to_contain_text("Opened")
    page.get_by_role("button", name="Opened").click()
    expect(page.locator("#player-file")).to_contain_text("is its disk connected?")
    assert asked == ["GET", "POST", "POST"]


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
    field = page.get_by_role("searchbox", name="Search the transcript")
    field.click()
    page.keyboard.type("CAFE k")
    expect(page.locator(".words.said")).to_have_text("No line has these words.")
    assert page.locator("#play").get_attribute("aria-label") == "Play"  # the keys of the player are no keys here
    field.fill("cafe")
    expect(page.locator(".words.said button")).to_have_count(1)
    field.fill("")
    page.get_by_role("combobox", name="Language of the transcript").select_option(label="de (subtitles)")
    expect(page.locator(".words.said button")).to_have_text("0:01Die Fähre wartet auf niemanden.")
    expect(page.locator("#caption")).to_have_text("Die Fähre wartet auf niemanden.")


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
