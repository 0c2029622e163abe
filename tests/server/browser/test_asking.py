"""One moment after another and marked clips, in a Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.server.browser.test_states import assert_for_everyone, violations
from tests.server.browser.visits import Look, Visits, ask, names, search, settled

pytestmark = pytest.mark.slow


def test_what_comes_after_has_a_box_of_its_own(visits: Visits) -> None:
    page = visits.open("/")
    expect(page.locator("#open-then")).to_be_hidden()
    search(page, "star")
    page.locator("#open-then").click()
    expect(page.locator("#then-field")).to_be_focused()
    page.locator("#then-field").fill("circle")
    page.locator("#then-field").press("Enter")
    page.wait_for_url("**then=circle*")
    settled(page)
    assert ", then at " in (page.locator(".card .reason").first.text_content() or "")
    assert violations(page) == []
    page.reload()
    settled(page)
    expect(page.locator("#then-field")).to_have_value("circle")
    page.locator("#close-then").click()
    page.wait_for_url(lambda address: "then=" not in address)
    expect(page.locator("#then")).to_be_hidden()


def test_marks_move_what_is_found_and_are_taken_back(visits: Visits) -> None:
    page = visits.found("/?q=shape", Look(size=(390, 844)))
    before = names(page)
    page.locator(".card .mark[aria-label^='Right']").first.click()
    expect(page.locator("#marks-count")).to_have_text("1 clip right, 0 wrong")
    settled(page)
    page.locator(".card .mark[aria-label^='Wrong']").last.click()
    expect(page.locator("#marks-count")).to_have_text("1 clip right, 1 wrong")
    settled(page)
    assert len(names(page)) == len(before) - 1
    assert_for_everyone(page, (390,))
    page.locator("#undo-mark").click()
    settled(page)
    assert sorted(names(page)) == sorted(before)
    page.locator("#clear-marks").click()
    settled(page)
    expect(page.locator("#marks")).to_be_hidden()
    assert names(page) == before


def test_words_stand_beside_a_clip(visits: Visits) -> None:
    page = visits.found("/?q=star")
    page.locator(".card").first.get_by_role("button", name="More like this").click()
    page.wait_for_url("**/?like=*")
    settled(page)
    expect(page.locator("#query-picture img")).to_have_js_property("complete", True)
    ask(page, "in a forest")
    page.wait_for_url("**q=in+a+forest*like=*")
    expect(page.locator("#summary")).to_contain_text("like this one with “in a forest”")
    assert names(page)[0] == "heart.mp4"
    page.get_by_role("button", name="Clear the search").click()
    expect(page.locator("#query-picture")).to_be_hidden()
