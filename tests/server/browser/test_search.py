"""Searching on the page: how an answer arrives, the cards of a result, keys, selecting, and what is asked beside."""

from __future__ import annotations

import contextlib
from datetime import date
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, Request, Route, expect

from evenreel.library.contents import browse
from evenreel.library.search.filters import read_filter
from tests.library.fakes import empty_catalog
from tests.server.browser.test_states import (
    STAR,
    assert_for_everyone,
    violations,
)
from tests.server.browser.visits import Look, Visits, ask, names, search, settled

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


def test_reasons_of_words_are_told_by_where_they_are(visits: Visits) -> None:
    given = {"written": 1.0, "scores": {"about": 1.0}, "on_screen": [], "said": [], "moments": []}
    caption = {"caption": "On a long and quiet evening walk a Red STAR falls"}
    page = changed(visits, STAR, **given, metadata=caption)
    reason = page.locator("#results .card .reason").first
    expect(reason).to_have_text("caption: …quiet evening walk a Red STAR falls")
    assert reason.locator("mark").all_inner_texts() == ["Red", "STAR"]
    both = {**given, "on_screen": [sign("RED", 4)], "said": [sign("A red star.", 90)], "moments": [moment(90)]}
    page = changed(visits, STAR, **both)
    expect(page.locator("#results .card .reason").first).to_have_text("said: “A red star.” at 1:30")


def test_why_a_clip_is_found_is_said_in_words_with_the_numbers_folded(visits: Visits) -> None:
    signs = [sign("RED STAR", 4), sign("★", 5)]
    page = changed(visits, STAR, written=1.0, on_screen=signs, said=[sign("a star", 90)], moments=[moment(4)])
    page.locator("#results .card summary").first.click()
    why = page.locator("#results .card .explained").first
    sentences = [
        "“RED STAR” is on screen at 0:04.",
        "“a star” is said at 1:30.",
        "Its name has your words: “star.mp4”.",
        "It has all of your words.",
        "Visual match at 0:04: the picture fits your words better than nonsense does.",
        "By picture it is the best of the 4 clips shown.",
    ]
    expect(why.locator("li")).to_have_text(sentences)
    expect(why.locator("dl")).to_be_hidden()
    assert "%" not in why.inner_text()
    page.locator("#results .card h3 a").first.press("Enter")
    expect(page.locator("#about .explained li")).to_have_count(6)
    page = visits.found("/?q=quarterly+tax+spreadsheet")
    page.locator("details.others > summary").click()
    page.locator("#results .card summary").first.click()
    expect(page.locator("#results .card .explained li").first).to_contain_text("Weaker visual match")


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
    expect(cards.locator(".reason")).to_have_text(["on screen: LATE at 33:20", "on screen: EARLY at 0:30"])
    expect(cards.nth(1).locator(".facts")).to_contain_text("moment 2 of 2")
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
    expect(page.locator("#results .card").first.locator(".explained .over")).to_be_visible()
    assert page.locator("#results .card").first.bounding_box() == height  # over the card, which keeps its height
    page.keyboard.press("m")
    page.wait_for_url("**/?like=*")


def test_results_are_selected_and_the_bar_counts_them(visits: Visits) -> None:
    page = visits.found("/?q=harbour", Look(still=True))
    page.locator("#results .card h3 a").nth(1).focus()
    page.keyboard.press("x")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("x")
    expect(page.locator("#selected-count")).to_have_text("2 clips selected")
    assert violations(page) == []
    found = page.evaluate("() => fetch('/api/v1/search?q=harbour').then((answer) => answer.json())")["hits"]
    assert page.evaluate(SELECTED) == [
        {"clip_id": hit["clip_id"], **{end: hit["moments"][0][end] for end in ("start_s", "end_s")}}
        for hit in (found[1], found[0])
    ]
    page.keyboard.press("x")
    expect(page.locator("#selected-count")).to_have_text("1 clip selected")
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
    assert names(page)[0] == "star.mp4"  # what was there stays, dimmed
    # What is only there until the answer comes may be dimmed.
    assert [one for one in violations(page) if not one.startswith("color-contrast")] == []
    for route in held:
        route.continue_()
    settled(page)
    expect(page.locator("#summary")).to_contain_text("“a blue heart in a forest”")
    expect(page.locator("#summary")).not_to_contain_text("Searching")
    assert names(page)[0] == "heart.mp4"


def test_half_a_word_is_not_told_that_nothing_fits(visits: Visits) -> None:
    page = visits.open()
    expect(page.locator("#home-examples li").first).to_be_visible()
    said = page.evaluate(TYPE, ["xq", "harbour"])
    assert "4 clips match “harbour”" in said[-1]
    assert not [text for text in said if "Nothing fits" in text]


def test_a_beginning_that_fits_nothing_is_read_to_its_end(visits: Visits) -> None:
    """A slow model has read less than what is typed: that nothing fits it says nothing of the whole."""
    page, _ = typing_page(visits)

    def of_a_beginning(route: Route) -> None:
        found = route.fetch().json()
        route.fulfill(json=found | ({} if "paused" in route.request.url else {"answering": 0, "matches": 0}))

    page.route("**/api/v1/search?q=harbour*", of_a_beginning)
    page.keyboard.type("harbour")
    expect(page.locator("#summary")).to_have_text("4 clips match “harbour”")
    assert not [text for text in page.evaluate("() => window.said") if "Nothing fits" in text]


HISTORY = """
    window.written = [];
    for (const name of ['pushState', 'replaceState']) {
        const own = history[name].bind(history);
        history[name] = (...given) => { window.written.push(`${name} ${given[2]}`); own(...given); };
    }
    window.said = [];
    addEventListener('DOMContentLoaded', () => new MutationObserver(() => window.said.push(
        document.getElementById('announcements').textContent,
    )).observe(document.getElementById('announcements'), {childList: true}));
    const fetched = window.fetch;
    window.fetch = async (...given) => {
        if (window.slow_ms) await new Promise((go) => setTimeout(go, window.slow_ms));
        return fetched(...given);
    };
"""
"""Notes what a page writes into its history, and what a screen reader is told; makes answers slow where that is set."""


PAUSED = """() => performance.getEntriesByType('resource').some(
    ({name, responseEnd}) => responseEnd > 0 && new URL(name).searchParams.get('paused') && name.includes('q=harbour'),
) && !document.getElementById('results').ariaBusy"""
"""Whether the page has asked once more, and has the answer."""


def typing_page(visits: Visits) -> tuple[Page, list[str]]:
    """A page, and the sentences that it asks while they are typed."""
    page, asked = visits.blank(), list[str]()
    page.add_init_script(HISTORY)

    def note(request: Request) -> None:
        given = parse_qs(urlsplit(request.url).query)
        if "/api/v1/search?" in request.url and "typing" in given and "paused" not in given:
            asked.append(given["q"][0])

    def with_patience(route: Route) -> None:
        route.fulfill(
            content_type="text/javascript", body=route.fetch().text().replace("SLOW_MS = 300", "SLOW_MS = 3000")
        )

    page.route("**/static/results.js", with_patience)  # a busy machine is no slow server
    page.on("request", note)
    page.goto(visits.address)
    expect(page.locator("#home-examples li").first).to_be_visible()
    return page, asked


def test_results_come_at_each_pause_of_a_key_and_the_history_has_one_entry(visits: Visits) -> None:
    page, asked = typing_page(visits)
    page.keyboard.type("harbour", delay=250)
    expect(page.locator("#summary")).to_have_text("4 clips match “harbour”")
    assert len(asked) >= 2 and asked[-1] == "harbour"
    page.evaluate("() => (window.card = document.querySelector('#results .card'))")
    page.wait_for_function(PAUSED)
    assert page.evaluate("() => window.card.isConnected")  # nothing was drawn anew
    page.wait_for_function("() => window.written.at(-1)?.endsWith('q=harbour')")
    written = page.evaluate("() => window.written")
    assert sum(one.startswith("pushState") for one in written) == 1 and len(written) <= 3
    page.keyboard.press("Enter")
    settled(page)
    page.wait_for_function("() => window.said.at(-1)?.includes('“harbour”')")
    assert {one for one in page.evaluate("() => window.said") if one} == {"4 clips match “harbour”"}
    page.go_back()
    expect(page.locator("#home")).to_be_visible()
    expect(page.locator("#query")).to_have_value("")
    page.go_forward()
    settled(page)
    expect(page.locator("#query")).to_have_value("harbour")


def test_what_is_typed_has_its_place_in_the_history_before_a_clip_is_opened(visits: Visits) -> None:
    page, _ = typing_page(visits)
    page.keyboard.type("harb")
    settled(page)
    page.keyboard.type("our")
    expect(page.locator("#summary")).to_have_text("4 clips match “harbour”")
    page.locator("#results .card h3 a").first.press("Enter")
    expect(page.locator("#player")).to_be_visible()
    page.go_back()
    assert page.url.endswith("/?q=harbour")


def test_an_answer_that_is_late_is_not_shown_over_a_later_one(visits: Visits) -> None:
    page, _ = typing_page(visits)
    held: list[Route] = []
    page.route("**/api/v1/search?q=star*", lambda route: held.append(route))  # noqa: PLW0108
    page.keyboard.type("star")
    page.wait_for_timeout(150)
    page.locator("#query").fill("harbour")
    expect(page.locator("#summary")).to_have_text("4 clips match “harbour”")
    for route in held:
        with contextlib.suppress(PlaywrightError):  # the page has taken it back
            route.continue_()
    page.wait_for_timeout(300)
    expect(page.locator("#summary")).to_have_text("4 clips match “harbour”")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_a_server_that_is_slow_is_asked_when_enter_is_pressed(visits: Visits, size: tuple[int, int]) -> None:
    page, asked = typing_page(visits)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate("() => (window.slow_ms = 3500)")
    page.keyboard.type("ha")
    settled(page)
    page.keyboard.type("rb")
    expect(page.locator("#press-enter")).to_be_visible()
    page.wait_for_timeout(500)
    assert asked == ["ha"] and violations(page) == []
    page.evaluate("() => (window.slow_ms = 0)")
    page.keyboard.press("Enter")
    expect(page.locator("#press-enter")).to_be_hidden()
    settled(page)
    page.keyboard.type("our")
    expect(page.locator("#summary")).to_have_text("4 clips match “harbour”")


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
    assert ", followed by " in (page.locator(".card .reason").first.text_content() or "")
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


FOLDERS = ("", "a_b", "a_b/c", "aXb", "aXb/c", "a_b c", "a_b0", "a_b.d/e", "A_b/c", "it's/100%", "it's/100%/x")
COMPOSED = """(conditions) => import('/static/conditions.js').then(({compose}) => compose(conditions, ''))"""


def test_what_others_wrote_into_the_browser_s_memory_is_no_search(visits: Visits) -> None:
    page = visits.open("/")
    for kept in ("{", '{"a": 1}', "[1, null, []]", '"harbour"'):
        page.evaluate("(kept) => localStorage.setItem('evenreel-searches', kept)", kept)
        page.reload()
        expect(page.locator("#home-recent .card")).to_have_count(4)
        expect(page.locator("#home-searches")).to_be_hidden()


def test_a_folder_and_a_month_are_filters_of_just_that(visits: Visits) -> None:
    """Against prefixes in Python: `like` would take the _ of a folder's name for any letter."""
    page = visits.open("/")
    connection = empty_catalog()
    connection.execute("INSERT INTO roots (path) VALUES ('/v')")
    for number, folder in enumerate(FOLDERS):
        clip, day = f"{number:032}", date(2023 + number % 2, 1 + number, 9).isoformat()
        connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h264', 1, 1, 1, 1, 1, 1, '[]', '')", (clip,))
        connection.execute("INSERT INTO recorded VALUES (?, ?)", (clip, day))
        connection.execute(
            "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id)"
            " VALUES (?, 'a.mp4', '/v', 1, 1, 1, 'indexed', ?)",
            (f"/v/{folder}/a.mp4".replace("//", "/"), clip),
        )
    for folder in FOLDERS:
        where = page.evaluate(COMPOSED, [{"column": "folder", "within": folder, "kind": "folders"}])
        found = {FOLDERS[int(one.clip_id)] for one in browse(connection, read_filter(connection, where)).clips}
        assert found == {one for one in FOLDERS if one == folder or (folder and one.startswith(f"{folder}/"))}, folder
    where = page.evaluate(COMPOSED, [{"column": "date", "within": "2023", "kind": "days"}])
    found_days = [one.day or "" for one in browse(connection, read_filter(connection, where)).clips]
    assert sorted(found_days) == sorted(f"2023-{1 + number:02}-09" for number in range(0, len(FOLDERS), 2))
