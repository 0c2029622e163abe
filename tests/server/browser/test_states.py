"""Every state of the page in a Chromium: what it says, at any width, in light and dark, and to a screen reader."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from axe_core_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Page, Route, expect

from evenreel.media.picture import to_jpeg
from tests.cli.test_serve import TOKEN
from tests.server.browser.visits import Look, Visits, first_frame, names, search, settled, show_advanced, unfold
from tests.server.conftest import SCENES

WIDTHS = (320, 390, 1024, 1680)
STAR = "/?q=a+red+star+on+a+beach"
FAVOURED = "Clips of a camera are shown more often than chance would."


def favouring(visits: Visits, look: Look) -> Page:
    """A result with a sentence on what it favours; four clips are too few for a true one."""
    return visits.changed(STAR, lambda found: found["favours"]["sentences"].append(FAVOURED), look)


def start(visits: Visits, look: Look) -> Page:
    page = visits.open("/", look)
    expect(page.locator("#home-examples li").first).to_be_visible()
    return page


def found(visits: Visits, look: Look) -> Page:
    page = favouring(visits, look)
    show_advanced(page)
    page.locator(".card details summary").first.click()
    page.locator(".favours details:not([open]) summary, .favours details[open]").first.click()
    return page


def nothing_fits(visits: Visits, look: Look) -> Page:
    page = visits.found("/?q=quarterly+tax+spreadsheet", look)
    expect(page.locator("#summary")).to_have_text("Nothing fits “quarterly tax spreadsheet”")
    expect(page.locator(".calm").first).to_contain_text("No clip fits your words better than chance")
    expect(page.locator(".others > summary")).to_have_text("4 weaker matches")
    expect(page.locator(".card").first).to_be_hidden()
    return page


def others_shown(visits: Visits, look: Look) -> Page:
    page = nothing_fits(visits, look)
    unfold(page)
    expect(page.locator(".others .card").first).to_be_visible()
    return page


def failed(visits: Visits, look: Look) -> Page:
    visits.expected.append("status of 500")
    page = visits.blank(look)
    page.route("**/api/v1/search?*", lambda route: route.fulfill(status=500, json={"detail": "The server failed."}))
    page.goto(visits.address + STAR)
    expect(page.locator(".failed")).to_contain_text("The server failed.")
    return page


def loading(visits: Visits, look: Look) -> Page:
    page = visits.blank(look)
    page.route("**/api/v1/search?*", lambda _: None)  # never answered
    page.goto(visits.address + STAR)
    expect(page.locator(".skeleton")).to_have_count(8)
    return page


def player(visits: Visits, look: Look) -> Page:
    page = visits.found(STAR, look)
    page.locator(".card h3 a").first.press("Enter")
    first_frame(page)
    page.keyboard.press("k")
    expect(page.locator("#play")).to_have_attribute("aria-label", "Play")
    return page


def library(visits: Visits, look: Look) -> Page:
    page = visits.open("/library", look)
    expect(page.locator(".file")).to_have_count(5)
    expect(page.locator(".holdings dd")).to_have_count(7)
    return page


QUICK: tuple[Callable[[Visits, Look], Page], ...] = (start, found, player)
SLOW: tuple[Callable[[Visits, Look], Page], ...] = (nothing_fits, others_shown, failed, loading, library)
STATES = [pytest.param(state, id=state.__name__) for state in QUICK] + [
    pytest.param(state, id=state.__name__, marks=pytest.mark.slow) for state in SLOW
]


VIOLATIONS = """async (rules) => {
    const found = await axe.run({resultTypes: ['violations'], ...(rules && {runOnly: rules})});
    return found.violations.flatMap((one) =>
        one.nodes.map((node) => `${one.id}, ${one.impact}: ${node.target} ${node.failureSummary}`));
}"""
BY_COLOURS = ["color-contrast", "link-in-text-block"]


def violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """What axe-core finds wrong for people who cannot see, or not well, by all its rules or some.

    What is right stays in the browser: for each rule it is a list of every element, which driver and browser would work
    on for long where the machine is busy.
    """
    if page.evaluate("() => typeof axe === 'undefined'"):
        page.evaluate(AXE_SCRIPT)
    found: list[str] = page.evaluate(VIOLATIONS, rules)
    return found


MOVING = "() => document.getAnimations().filter((one) => one.effect.getTiming().duration > 1).length"
COLOURS_HAVE_CHANGED = """() => Promise.allSettled(
    document.getAnimations().filter((one) => one instanceof CSSTransition).map((one) => one.finished)
)"""


def in_light_and_dark(page: Page) -> dict[str, list[str]]:
    """The same for a visitor who changes from light to dark: of the two only the style sheet knows, so only colours."""
    found = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.evaluate(COLOURS_HAVE_CHANGED)
        found[scheme] = violations(page, BY_COLOURS if scheme == "dark" else None)
    return found


def at_every_width(page: Page) -> list[str]:
    """The same on a phone and on a desk; what a tablet shows is one or the other."""
    found = []
    for width in (390, 1680):
        page.set_viewport_size({"width": width, "height": 800})
        found += [f"{width} px, {scheme}: {one}" for scheme, wrong in in_light_and_dark(page).items() for one in wrong]
    return found


def assert_for_everyone(page: Page, widths: tuple[int, ...] = WIDTHS) -> None:
    """A page can be read in light and dark, and is nowhere wider than the window."""
    assert in_light_and_dark(page) == {"light": [], "dark": []}
    assert {width: overflow(page, width) for width in widths} == {width: [] for width in widths}


def overflow(page: Page, width: int) -> list[str]:
    """What reaches beyond the right edge of a page of this width."""
    page.set_viewport_size({"width": width, "height": 800})
    return list(
        page.evaluate(
            """() => {
                const wide = document.documentElement.scrollWidth;
                if (wide <= innerWidth) return [];
                const beyond = [...document.body.querySelectorAll('*')]
                    .filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5);
                return [`${wide} px on ${innerWidth}`, ...beyond.map((one) => `${one.tagName}.${one.className}`)];
            }"""
        )
    )


@pytest.mark.parametrize("state", STATES)
def test_a_state_can_be_read_by_everyone(visits: Visits, state: Callable[[Visits, Look], Page]) -> None:
    page = state(visits, Look(still=True))
    assert page.evaluate(MOVING) == 0
    assert at_every_width(page) == []
    assert {width: overflow(page, width) for width in WIDTHS} == {width: [] for width in WIDTHS}


def test_the_page_begins_with_the_search_box_and_examples(visits: Visits) -> None:
    page = visits.open()
    expect(page.locator(".totals")).to_contain_text("4 clips")
    assert page.evaluate("() => document.activeElement.id") == "query"
    page.locator(".hints button", has_text="HARBOUR").click()
    settled(page)
    assert page.locator("mark").all_inner_texts() == ["HARBOUR"] * 4
    assert "circle <b>.mp4" in names(page) and page.locator(".card h3 b").count() == 0


@pytest.mark.slow
def test_while_the_model_is_loaded_it_is_tried_again(visits: Visits) -> None:
    visits.expected.append("status of 503")
    page = visits.blank()
    refused: list[str] = []

    def not_yet(route: Route) -> None:
        if refused:
            route.continue_()
            return
        refused.append(route.request.url)
        detail = "The model is still being loaded; try again in a moment."
        route.fulfill(status=503, headers={"Retry-After": "3"}, json={"detail": detail})

    page.route("**/api/v1/search?*", not_yet)
    page.goto(visits.address + STAR)
    expect(page.locator(".message.waiting")).to_contain_text("The model is still being loaded")
    settled(page)
    page.wait_for_selector(".card:not(.skeleton)")
    assert names(page)[0] == "star.mp4"


def test_a_server_that_is_gone_can_be_tried_again(visits: Visits) -> None:
    visits.expected.append("ERR_CONNECTION_REFUSED")
    page = visits.open()
    page.route("**/api/v1/search?*", lambda route: route.abort("connectionrefused"))
    search(page, "a red star on a beach")
    expect(page.locator(".failed")).to_contain_text("The server does not answer.")
    page.unroute("**/api/v1/search?*")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector(".card:not(.skeleton)")
    assert names(page)[0] == "star.mp4"


@pytest.mark.slow
def test_a_wrong_filter_is_explained_by_its_field(visits: Visits) -> None:
    visits.expected.append("status of 400")
    page = visits.found(STAR)
    show_advanced(page)
    page.get_by_label("Your own filter").fill("sauce = 'camera'")
    page.keyboard.press("Enter")
    expect(page.locator("#where-error")).to_contain_text("sauce")
    expect(page.get_by_label("Your own filter")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Your own filter").fill("duration_s > 600")
    page.keyboard.press("Enter")
    expect(page.locator("#results")).to_contain_text("No clip passes the filters.")
    expect(page.locator("#where-error")).to_be_empty()
    page.get_by_role("button", name="Search without filters").click()
    expect(page.locator(".card:not(.skeleton)").first).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["q=star", "browse=latest"])
def test_a_bad_filter_of_an_address_says_what_is_wrong_and_is_removed(visits: Visits, asked: str) -> None:
    visits.expected.append("status of 400")
    page = visits.open(
        f'/?{asked}&f=["sauce","camera"]&f=["source","camera"]&f=oops', Look(size=(390, 844), still=True)
    )
    expect(page.locator(".refused")).to_have_count(2)
    expect(page.locator(".refused").first).to_contain_text("There is no column 'sauce'")
    expect(page.locator("#chips .wrong")).to_have_count(2)
    assert_for_everyone(page, (390, 1680))
    page.get_by_role("button", name="Remove this filter", exact=True).first.click()
    expect(page.locator(".refused")).to_have_count(1)
    page.get_by_role("button", name="Remove this filter", exact=True).press("Enter")
    expect(page.locator(".card:not(.skeleton)")).to_have_count(2)
    expect(page.locator("#chips li")).to_have_text(["source: camera"])
    expect(page.locator("#chips .wrong")).to_have_count(0)


@pytest.mark.slow
def test_a_library_is_sorted_by_its_heads_and_the_focus_stays(visits: Visits) -> None:
    page = visits.open("/library")
    names_ = page.locator(".file .name")
    expect(names_).to_have_text(sorted([*SCENES, "broken.mp4"]))
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "ascending")
    head = page.get_by_role("button", name="Length")
    head.focus()
    page.keyboard.press("Enter")
    expect(names_.first).to_have_text("star.mp4")
    page.keyboard.press("Enter")
    expect(names_.first).to_have_text("circle <b>.mp4")
    expect(head).to_be_focused()
    expect(page.get_by_role("columnheader", name="Length")).to_have_attribute("aria-sort", "descending")
    assert page.url.endswith("/library?sort=-length")
    expect(page.locator(".file .size").first).to_contain_text("kB")
    page.reload()
    expect(names_.first).to_have_text("circle <b>.mp4")
    expect(page.locator(".notices li")).to_have_count(1)  # and above no result
    expect(visits.found(STAR).locator("#results .notices")).to_have_count(0)


@pytest.mark.slow
def test_a_picture_search_has_an_address_in_its_own_browser(visits: Visits) -> None:
    page = start(visits, Look())
    grey = to_jpeg(np.full((900, 1200, 3), 99, np.uint8), 1200, 1200)
    page.locator("#picture-file").set_input_files({"name": "a.jpg", "mimeType": "image/jpeg", "buffer": grey})
    page.wait_for_url("**/?picture=*")
    settled(page)
    found_, address = names(page), page.url
    assert len(page.evaluate("localStorage['evenreel-pictures']")) < 100_000
    page.reload()
    settled(page)
    expect(page.locator("#query-picture img")).to_be_visible()
    assert names(page) == found_
    page.goto(visits.address + STAR)
    settled(page)
    page.go_back()
    page.wait_for_url(address)
    settled(page)
    assert names(page) == found_
    other = visits.open(address.removeprefix(visits.address))
    expect(other.locator("#results h2")).to_have_text("The picture is not in this browser")
    expect(other.get_by_role("button", name="Choose a picture")).to_be_visible()
    page.goto(visits.address)
    page.evaluate("import('/static/remembered.js').then(({forgetSearches}) => forgetSearches())")
    page.goto(address)
    expect(page.locator("#results h2")).to_have_text("The picture is not in this browser")


@pytest.mark.slow
def test_what_was_skipped_is_tried_again(visits: Visits) -> None:
    page = visits.open()
    page.get_by_role("link", name="Library").click()
    page.locator("label", has_text="Skipped").click()
    page.wait_for_url("**/library?state=set_aside")
    expect(page.locator(".file .name")).to_have_text(["broken.mp4"])
    expect(page.locator(".file .why")).to_contain_text("not a video")
    sentence = "0 files added, 1 file still skipped."
    started: list[str] = []

    def answer(route: Route) -> None:
        started.extend([route.request.method] if started or route.request.method == "POST" else [])
        state = {0: "idle", 1: "running"}.get(len(started), "done")
        route.fulfill(json={"state": state, "sentence": sentence if started else ""})

    page.route("**/api/v1/retry", answer)
    page.get_by_role("button", name="Try skipped files again").click()
    expect(page.locator(".aside [role=status]")).to_have_text(sentence)
    expect(page.get_by_role("button", name="Try skipped files again")).to_be_enabled()
    assert started[:2] == ["POST", "GET"]


def test_a_visitor_without_the_token_is_asked_for_it(token_visits: Visits) -> None:
    token_visits.expected.append("status of 401")
    page = token_visits.open("/?q=harbour")
    assert violations(page) == []
    page.get_by_label("Token").fill("a wrong guess")
    with page.expect_navigation(wait_until="load"):
        page.keyboard.press("Enter")
    page.get_by_label("Token").fill(TOKEN)
    with page.expect_navigation(wait_until="load"):
        page.keyboard.press("Enter")
    settled(page)
    assert page.url == f"{token_visits.address}/?q=harbour"
    assert names(page)
