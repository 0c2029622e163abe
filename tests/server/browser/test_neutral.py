"""The choice of a ranking that is neutral to source, in a Chromium: by keyboard, in the address, and what it says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.server.browser.test_states import WIDTHS, in_light_and_dark, overflow
from tests.server.browser.visits import Look, Visits, serving_here, settled, show_filters
from tests.server.conftest import Served
from tests.server.two_sources import PAIRS, QUERY, two_sources

pytestmark = pytest.mark.slow

ASKED = f"/?q={QUERY.replace(' ', '+')}"


@pytest.fixture(scope="module")
def site(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server of a library with clips of two sources."""
    library = two_sources(served, tmp_path_factory.mktemp("two_sources"))
    with serving_here(library, served.settings) as port:
        yield f"http://127.0.0.1:{port}"


def sources(page: Page) -> list[str]:
    return page.locator(".card .badge").all_text_contents()[:12]


def test_it_is_chosen_by_keyboard_and_kept_in_the_address(visits: Visits) -> None:
    page = visits.blank(Look(still=True))
    # the library holds copies, of which each group would stand as one card
    page.route("**/api/v1/search?*", lambda route: route.continue_(url=f"{route.request.url}&fold=false"))
    page.goto(visits.address + ASKED)
    settled(page)
    plain = sources(page)
    page.locator("#toggle-filters").focus()
    page.keyboard.press("Enter")
    box = page.get_by_role("checkbox", name="Neutral to source")
    box.focus()
    page.keyboard.press("Space")
    expect(page.locator(".notices")).to_contain_text(f"generator_a ({PAIRS} pairs)")
    assert sources(page) != plain  # takes fold on the page; by how much is counted at the API
    assert "neutral=1" in page.url
    page.reload()
    expect(page.locator(".notices")).to_contain_text("Neutral to source")
    page.get_by_role("button", name="Remove the filter Neutral to source").click()
    expect(page.locator(".notices")).to_have_count(0)
    assert "neutral" not in page.url
    assert sources(page) == plain
    page.go_back()
    expect(page.locator(".notices")).to_contain_text("Neutral to source")


def test_nothing_lies_over_what_the_ranking_favours_beside_the_results(visits: Visits) -> None:
    page = visits.open(ASKED, Look(size=(1680, 900), still=True))
    settled(page)
    favours, compact = page.locator(".favours").bounding_box(), page.locator("#compact").bounding_box()
    assert favours is not None and compact is not None
    assert favours["y"] < compact["y"] + compact["height"] and favours["x"] >= compact["x"] + compact["width"]


def test_it_can_be_read_by_everyone(visits: Visits) -> None:
    page = visits.open(f"{ASKED}&neutral=1", Look(still=True))
    settled(page)
    show_filters(page)
    expect(page.locator("#neutral")).to_be_checked()
    assert in_light_and_dark(page) == {"light": [], "dark": []}
    assert {width: overflow(page, width) for width in WIDTHS} == {width: [] for width in WIDTHS}
