"""The player beside its picture: where the file is, how fast it plays, and frame by frame."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.server.browser.test_states import STAR, assert_for_everyone
from tests.server.browser.visits import Look, Visits, first_frame, settled

pytestmark = pytest.mark.slow

TIME = "() => document.querySelector('#video').currentTime"
RATE = "() => document.querySelector('#video').playbackRate"
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


def test_the_speed_is_chosen_and_stays(visits: Visits) -> None:
    page = opened(visits.open("/?q=harbour", Look(still=True)))
    page.get_by_label("Speed").select_option("2")
    assert page.evaluate(RATE) == 2
    page.locator("#play").focus()
    page.keyboard.press("<")
    assert page.evaluate(RATE) == 1.5
    expect(page.get_by_label("Speed")).to_have_value("1.5")
    for _ in range(20):
        page.keyboard.press(">")
    assert page.evaluate(RATE) == 4
    assert page.evaluate("() => document.querySelector('#video').defaultPlaybackRate") == 4  # of the next clip too


def test_the_path_is_copied_and_shows_no_more_than_the_page_may_tell(visits: Visits) -> None:
    page = visits.blank(Look(still=True))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=visits.address)
    page.goto(visits.address + STAR)
    opened(page)
    expect(page.locator("#player-file code")).to_have_text("star.mp4")
    expect(page.get_by_role("button", name="Open folder")).to_have_count(0)
    page.get_by_role("button", name="Copy path").click()
    expect(page.locator("#player-file")).to_contain_text("Copied")
    assert page.evaluate("() => navigator.clipboard.readText()") == "star.mp4"


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
