"""How an answer arrives in a Chromium: what stands there while it is awaited, what is shown of a clip, what is not."""

from __future__ import annotations

from urllib.parse import quote_plus

import pytest
from playwright.sync_api import Route, expect

from tests.cli.test_serve import TOKEN
from tests.server.browser.test_states import (
    FAVOURED,
    STAR,
    WIDTHS,
    assert_for_everyone,
    favouring,
    overflow,
    violations,
)
from tests.server.browser.visits import Look, Visits, names, search, settled, unfold

pytestmark = pytest.mark.slow

LONG = "2024-07-13_family-trip_to_the-harbour_of_Hamburg_second_camera_uncut_version.mp4"
LINES = """link => {
    const lines = [];
    const walk = document.createTreeWalker(link, NodeFilter.SHOW_TEXT);
    let top = null;
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        for (let at = 0; at < node.length; at += 1) {
            const range = document.createRange();
            range.setStart(node, at);
            range.setEnd(node, at + 1);
            const box = range.getBoundingClientRect();
            if (top === null || box.top > top + 4) lines.push('');
            top = box.top;
            lines[lines.length - 1] += node.data[at];
        }
    }
    return lines;
}"""


TYPE = """async (texts) => {
    const [results, field, said] = [document.getElementById('results'), document.getElementById('query'), []];
    const look = () => said.push(results.textContent);
    new MutationObserver(look).observe(results, {childList: true, subtree: true});
    const until = async (holds) => {
        while (!holds()) await new Promise((go) => setTimeout(go, 20));
    };
    const answered = (text) => performance.getEntriesByType('resource').some(
        ({name, responseEnd}) => responseEnd > 0 && new URL(name).searchParams.get('q') === text,
    );
    for (const text of texts) {
        field.value = text;
        field.dispatchEvent(new Event('input', {bubbles: true}));
        await until(() => answered(text));
    }
    await until(() => !results.ariaBusy && said.at(-1)?.includes(`“${texts.at(-1)}”`));
    return said;
}"""
"""Types texts one after the other, each as soon as the one before is answered; everything that the results said."""


def test_a_clip_found_by_its_name_alone_has_its_picture(token_visits: Visits) -> None:
    page = token_visits.found(f"/?q=star&token={quote_plus(TOKEN)}")
    assert page.url == f"{token_visits.address}/?q=star"
    card = page.locator(".card").first
    expect(card.locator("h3")).to_have_text("star.mp4")
    assert card.locator(".still img").evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
    expect(card.locator(".still .placeholder")).to_have_count(0)
    expect(card.locator(".still .time")).to_have_count(0)  # no moment of it was found
    expect(card.locator(".still .length")).to_have_text("Length 0:03")


def test_where_no_picture_comes_the_words_that_were_found_stand_in_its_place(visits: Visits) -> None:
    visits.expected.append("status of 404")
    page = visits.blank()
    gone = {"detail": "The file is not there any more; is its disk connected?"}
    page.route("**/still?*", lambda route: route.fulfill(status=404, json=gone))
    page.goto(f"{visits.address}/?q=harbour")
    settled(page)
    expect(page.locator(".card .placeholder mark").first).to_have_text("HARBOUR")
    page.goto(visits.address + STAR)
    settled(page)
    expect(page.locator(".card .placeholder").first).to_have_text("No picture")


def test_a_second_search_that_takes_long_says_that_it_is_under_way(visits: Visits) -> None:
    page = visits.found(STAR)
    held: list[Route] = []
    page.route("**/api/v1/search?*", lambda route: held.append(route))  # noqa: PLW0108 -- Playwright takes no built-in
    field = page.locator("#query")
    field.fill("a blue heart in a forest")
    field.press("Enter")
    expect(page.locator("#summary")).to_have_text("Searching for “a blue heart in a forest”…")
    expect(page.locator("#results")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#announcements")).to_have_text("Searching for “a blue heart in a forest”…")
    expect(page.locator(".groups > .cards")).to_have_css("opacity", "0.55")
    assert names(page)[0] == "star.mp4"  # what was there stays, dimmed
    # What is only there until the answer comes may be dimmed.
    assert [one for one in violations(page) if not one.startswith("color-contrast")] == []
    for route in held:
        route.continue_()
    settled(page)
    expect(page.locator("#summary")).to_contain_text("“a blue heart in a forest”")
    expect(page.locator("#summary")).not_to_contain_text("Searching")
    assert names(page)[0] == "heart.mp4"


def test_what_a_ranking_favours_never_stands_above_the_results(visits: Visits) -> None:
    page = favouring(visits, Look())
    expect(page.locator(".favours")).to_contain_text(FAVOURED)
    for width in (390, 1280, 1680):
        page.set_viewport_size({"width": width, "height": 800})
        first, panel = page.locator(".card").first.bounding_box(), page.locator(".favours").bounding_box()
        assert first is not None and panel is not None
        below, beside = panel["y"] >= first["y"] + first["height"], panel["x"] >= first["x"] + first["width"]
        assert below or beside, width
    compact = page.locator("#compact").bounding_box()  # at the widest they stand side by side
    assert panel is not None and compact is not None
    assert panel["y"] < compact["y"] + compact["height"] and panel["x"] >= compact["x"] + compact["width"]


def test_a_long_name_breaks_between_its_words(visits: Visits) -> None:
    page = visits.changed(STAR, lambda found: found["hits"][0].update(name=LONG))
    for width in WIDTHS:
        assert overflow(page, width) == []
        lines = page.locator(".card h3 a").first.evaluate(LINES)
        assert "".join(lines) == LONG
        assert len(lines) > 1
        assert all(line[-1] in "-_." for line in lines[:-1]), lines


def test_half_a_word_is_not_told_that_nothing_fits(visits: Visits) -> None:
    page = visits.open()
    expect(page.locator("#home-examples li").first).to_be_visible()
    said = page.evaluate(TYPE, ["xq", "harbour"])
    assert "4 clips match “harbour”" in said[-1]
    assert not [text for text in said if "Nothing fits" in text]


def test_who_stops_typing_or_asks_is_told_that_nothing_fits(visits: Visits) -> None:
    page = visits.open()
    page.locator("#query").press_sequentially("quarterly tax spreadsheet", delay=1)
    expect(page.locator("#summary")).to_have_text("Nothing fits “quarterly tax spreadsheet”")
    page = visits.open()
    search(page, "annual tax spreadsheet")
    expect(page.locator("#summary")).to_have_text("Nothing fits “annual tax spreadsheet”")


def test_an_address_of_nothing_leads_back(visits: Visits) -> None:
    visits.expected.append("status of 404")
    page = visits.open("/nothing")
    expect(page.get_by_role("heading")).to_have_text("There is nothing at this address")
    assert_for_everyone(page, (320, 1280))
    page.get_by_role("link", name="To the search").click()
    search(page, "harbour")
    unfold(page)
    assert len(names(page)) == 4
