"""The cards of a result: why each is there, a long film's moments, selecting, keys, and playing under the pointer."""

from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.server.browser.test_states import STAR, WIDTHS, assert_for_everyone, in_light_and_dark, overflow, violations
from tests.server.browser.visits import Look, Visits, ask, names, settled, show_filters, unfold

pytestmark = pytest.mark.slow

FOCUS = "() => document.activeElement.closest('.card')?.querySelector('h3').textContent ?? document.activeElement.id"
SELECTED = "() => import('/static/selection.js').then(({selected}) => selected())"
STOPS = """() => [...document.querySelectorAll('#results .card')].map(
    (card) => [...card.querySelectorAll('a, button, summary, input')].filter((one) => one.tabIndex >= 0).length)"""


def moment(time_s: float) -> dict[str, Any]:
    """A second around a time."""
    span = {"time_s": time_s, "start_s": time_s - 0.5, "end_s": time_s + 0.5}
    return {**span, "score": 0.5, "starts_s": None, "ends_s": None, "still": f"/still?{time_s}"}


def sign(text: str, start_s: float) -> dict[str, Any]:
    """Words, all of which were searched for."""
    return {"text": text, "start_s": start_s, "end_s": start_s + 1, "marks": [[0, len(text)]]}


def changed(visits: Visits, path: str, **changes: Any) -> Page:
    """A page whose first hit is another than the server's."""
    visits.expected.append("status of 404")  # a still of a moment that is made up
    return visits.changed(path, lambda found: found["hits"][0].update(changes))


def pictured(page: Page, size: tuple[int, int]) -> None:
    """From now on all stills are of this width and height."""
    made = io.BytesIO()
    Image.new("RGB", size, "teal").save(made, "PNG")
    page.unroute_all()
    page.route("**/still?*", lambda route: route.fulfill(body=made.getvalue(), content_type="image/png"))


def test_the_reason_stands_between_the_picture_and_the_name(visits: Visits) -> None:
    page = visits.found("/?q=harbour")
    first = page.locator("#results .card").first
    time = first.locator(".still .time").inner_text().split()[-1]  # of the picture, "Best moment at 0:01"
    expect(first.locator(".reason")).to_have_text(f"says HARBOUR at {time}")
    parts = first.evaluate("(card) => [...card.children].map((one) => one.className || one.tagName)")
    assert [part for part in parts if part in {"still", "reason", "H3"}] == ["still", "reason", "H3"]
    page = visits.found(STAR)
    unfold(page)
    expect(page.locator("#results .card .reason").first).to_contain_text("looks like it at 0:0")
    expect(page.locator(".nearest .card .reason").last).to_have_text("nearest in looks")


def test_reasons_of_words_are_told_by_where_they_are(visits: Visits) -> None:
    given = {"written": 1.0, "scores": {"about": 1.0}, "on_screen": [], "said": [], "moments": []}
    caption = {"caption": "On a long and quiet evening walk a Red STAR falls"}
    page = changed(visits, STAR, **given, metadata=caption)
    reason = page.locator("#results .card .reason").first
    expect(reason).to_have_text("caption: …quiet evening walk a Red STAR falls")
    assert reason.locator("mark").all_inner_texts() == ["Red", "STAR"]
    page = changed(visits, STAR, **given, metadata={}, name="stars_2.mp4")
    expect(page.locator("#results .card .reason").first).to_have_text("name: stars_2.mp4")
    several = [sign("RED", 4), sign("red", 5), sign("STAR", 6)]
    page = changed(visits, STAR, **{**given, "on_screen": several})
    expect(page.locator("#results .card .reason").first).to_have_text("says RED, STAR at 0:04")
    both = {**given, "on_screen": [sign("RED", 4)], "said": [sign("A red star.", 90)], "moments": [moment(90)]}
    page = changed(visits, STAR, **both)
    expect(page.locator("#results .card .reason").first).to_have_text("said: “A red star.” at 1:30")
    heard = {**given, "scores": {"seen": 0.1, "sounds": 0.9}, "written": 0.0, "sounds": 0.99, "above_nonsense": 0.5}
    page = changed(visits, STAR, **heard)
    expect(page.locator("#results .card .reason").first).to_have_text("sounds like it")


def test_moments_far_apart_in_a_long_film_are_results_of_their_own(visits: Visits) -> None:
    film = {
        "duration_s": 3600.0,
        "written": 1.0,
        "moments": [moment(2000.0), moment(30.0), moment(2060.0)],
        "on_screen": [sign("LATE", 2000.0), sign("EARLY", 29.5)],
    }
    page = changed(visits, STAR, **film)
    cards = page.locator("#results .groups > .cards .card")
    expect(cards.locator("h3")).to_have_text(["star.mp4", "star.mp4"])
    expect(cards.locator(".reason")).to_have_text(["says LATE at 33:20", "says EARLY at 0:30"])
    expect(cards.nth(1).locator(".facts")).to_contain_text("part 2 of 2 found")
    expect(page.locator("#summary")).to_contain_text("1 clip matches")
    cards.nth(1).locator("h3 a").press("Enter")
    expect(page.locator("#player")).to_be_visible()
    assert "t=30" in page.url
    expect(page.locator("#moment-marks button")).to_have_count(3)  # the player has all of the film's
    page.keyboard.press("Escape")
    expect(page.locator("#player")).to_be_hidden()
    assert page.evaluate("() => document.activeElement.closest('.card').dataset.time") == "30"
    page = changed(visits, STAR, **{**film, "duration_s": 500.0})
    expect(page.locator("#results .groups > .cards .card")).to_have_count(1)


def test_a_card_is_one_stop_and_arrows_lead_from_the_field_to_it_and_on(visits: Visits) -> None:
    page = visits.found("/?q=harbour", Look(size=(1024, 800), still=True))
    assert page.evaluate(STOPS) == [1, 1, 1, 1]
    order = names(page)
    page.locator("#query").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUS) == order[0]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(FOCUS) == order[2]
    page.keyboard.press("ArrowDown")  # three in a row: below the third there is only the fourth
    assert page.evaluate(FOCUS) == order[3]
    page.keyboard.press("ArrowUp")
    assert page.evaluate(FOCUS) == order[0]
    page.keyboard.press("ArrowUp")
    assert page.evaluate(FOCUS) == "query"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("b")
    for _ in range(page.locator("#results .card").first.locator("footer button, footer summary").count() - 1):
        page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.activeElement.classList.contains('like')")
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.matches('h3 a')")
    height = page.locator("#results .card").first.bounding_box()
    page.keyboard.press("s")
    expect(page.locator("#results .card").first.locator(".scores dl")).to_be_visible()
    assert page.locator("#results .card").first.bounding_box() == height  # over the card, which keeps its height
    page.keyboard.press("m")
    page.wait_for_url("**/?like=*")


def test_question_mark_shows_all_keys(visits: Visits) -> None:
    page = visits.found(STAR, Look(still=True))
    page.locator("#query").press("?")
    expect(page.locator("#help")).to_be_hidden()  # there it is a letter
    page.locator("#results .card h3 a").first.focus()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_contain_text("more like this")
    assert_for_everyone(page)
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


def test_results_are_selected_and_the_bar_counts_them(visits: Visits) -> None:
    page = visits.found("/?q=harbour", Look(still=True))
    page.locator("#results .card h3 a").nth(1).focus()
    page.keyboard.press("x")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("x")
    expect(page.locator("#selected-count")).to_have_text("2 results selected")
    assert violations(page) == []
    found = page.evaluate("() => fetch('/api/v1/search?q=harbour').then((answer) => answer.json())")["hits"]
    assert page.evaluate(SELECTED) == [
        {"clip_id": hit["clip_id"], **{end: hit["moments"][0][end] for end in ("start_s", "end_s")}}
        for hit in (found[1], found[0])
    ]
    page.keyboard.press("x")
    expect(page.locator("#selected-count")).to_have_text("1 result selected")
    ask(page, "harbour ")
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(page.locator("#selection")).to_be_hidden()
    assert page.evaluate(SELECTED) == []


def test_the_moment_plays_under_the_pointer_and_stops_behind_it(visits: Visits) -> None:
    page = visits.found(STAR)
    page.locator("#results .card").first.hover()
    expect(page.locator(".still.plays .moment")).to_have_count(1)
    assert page.locator(".moment").evaluate("(video) => video.muted && !video.paused")
    page.mouse.move(0, 0)
    expect(page.locator(".moment")).to_have_count(0)


def test_who_asks_for_less_motion_sees_none(visits: Visits) -> None:
    page = visits.found(STAR, Look(still=True))
    page.clock.install()
    page.locator("#results .card").first.hover()
    page.clock.run_for(2000)
    assert page.locator(".moment").count() == 0


def test_a_portrait_picture_fills_its_box_until_somebody_looks_closer(visits: Visits) -> None:
    page = visits.blank(Look(still=True))
    for size, fit in (((90, 160), "cover"), ((160, 90), "contain")):
        pictured(page, size)
        page.goto(visits.address + STAR)
        settled(page)
        page.mouse.move(0, 0)
        picture = page.locator("#results .card .still img").first
        expect(picture).to_have_js_property("complete", True)
        expect(picture).to_have_css("object-fit", fit)
        page.locator("#results .card").first.hover()
        expect(picture).to_have_css("object-fit", "contain")


def test_small_cards_are_remembered(visits: Visits) -> None:
    page = visits.found("/?q=harbour", Look(still=True))
    wide = page.locator("#results .card").first.bounding_box()
    page.get_by_role("button", name="Compact").click()
    page.reload()
    settled(page)
    expect(page.get_by_role("button", name="Compact")).to_have_attribute("aria-pressed", "true")
    small = page.locator("#results .card").first.bounding_box()
    assert wide and small and small["height"] < wide["height"] and small["width"] < wide["width"]
    assert_for_everyone(page)


def test_filters_are_a_rail_where_there_is_room_and_a_drawer_where_not(visits: Visits) -> None:
    page = visits.found(STAR, Look(size=(1280, 800), still=True))
    rail, card = page.locator("#rail").bounding_box(), page.locator("#results .card").first.bounding_box()
    assert rail and card and rail["x"] + rail["width"] <= card["x"]
    page.get_by_role("button", name="Close the filters").click()
    expect(page.locator("#rail")).to_be_hidden()
    page.set_viewport_size({"width": 1279, "height": 800})
    expect(page.locator("#filters")).to_be_hidden()
    show_filters(page)
    expect(page.locator("#filter-drawer")).to_be_visible()
    page.get_by_role("checkbox", name="generator_a").check()
    assert in_light_and_dark(page) == {"light": [], "dark": []}
    assert {width: overflow(page, width) for width in WIDTHS if width < 1280} == {320: [], 390: [], 1024: []}
    page.keyboard.press("Escape")
    expect(page.locator("#filter-drawer")).to_be_hidden()
    expect(page.locator("#results .card:not(.skeleton)")).to_have_count(1)
    expect(page.locator("#filter-count")).to_have_text("1")
