"""The page before a search: what is there, what was searched for, and looking through clips without a query."""

from __future__ import annotations

from datetime import date

import pytest
from playwright.sync_api import Page, Route, expect

from evenreel.library.browsing import browse
from evenreel.library.search.filters import read_filter
from tests.cli.test_serve import get
from tests.library.fakes import empty_catalog
from tests.server.browser.test_states import WIDTHS, assert_for_everyone, in_light_and_dark
from tests.server.browser.visits import Look, Visits, ask, names, settled, show_filters

pytestmark = pytest.mark.slow

FOLDERS = ("", "a_b", "a_b/c", "aXb", "aXb/c", "a_b c", "a_b0", "a_b.d/e", "A_b/c", "it's/100%", "it's/100%/x")
COMPOSED = """(conditions) => import('/static/conditions.js').then(({compose}) => compose(conditions, ''))"""


def browsed(page: Page) -> list[str]:
    """The names that are listed without a query."""
    expect(page.locator("#browsed-summary")).to_be_visible()
    return page.locator("#browsed .card h3").all_text_contents()


def test_it_shows_what_there_is_and_examples_that_find_it(visits: Visits) -> None:
    page = visits.open("/", Look(still=True))
    expect(page.locator("#home .totals")).to_contain_text("4 clips, 18 seconds")
    expect(page.locator("#home-recent .card")).to_have_count(4)
    expect(page.locator("#home-searches")).to_be_hidden()
    port = int(visits.address.rpartition(":")[2])
    _, offered = get(port, "/api/v1/examples")
    assert [one["query"] for one in offered]
    expect(page.locator(".hints li")).to_have_count(len(offered) + 1)  # and that a picture can be shown
    for one in offered:
        _, answer = get(port, f"/api/v1/search?q={one['query']}")
        assert answer["answering"]
    assert_for_everyone(page)


def test_the_last_searches_are_kept_and_forgotten(visits: Visits) -> None:
    page = visits.found("/?q=harbour")
    ask(page, "a red star")
    expect(page.locator("#summary")).to_contain_text("“a red star”")
    page.locator(".brand").click()
    expect(page.locator("#home-searches .choice")).to_have_text(["a red star", "harbour"])
    page.locator("#home-searches .choice", has_text="harbour").click()
    expect(page.locator("#summary")).to_contain_text("“harbour”")
    page.reload()
    settled(page)
    page.locator(".brand").click()
    expect(page.locator("#home-searches .choice")).to_have_text(["harbour", "a red star"])
    page.get_by_role("button", name="Forget").click()
    expect(page.locator("#home-searches")).to_be_hidden()
    assert page.evaluate("() => localStorage.getItem('evenreel-searches')") == "[]"


def test_what_others_wrote_into_the_browser_s_memory_is_no_search(visits: Visits) -> None:
    page = visits.open("/")
    for kept in ("{", '{"a": 1}', "[1, null, []]", '"harbour"'):
        page.evaluate("(kept) => localStorage.setItem('evenreel-searches', kept)", kept)
        page.reload()
        expect(page.locator("#home-recent .card")).to_have_count(4)
        expect(page.locator("#home-searches")).to_be_hidden()


def test_clips_are_looked_through_by_date_without_a_query(visits: Visits) -> None:
    page = visits.open("/", Look(still=True))
    month = page.locator("#home-days .choice").first
    expect(month.locator(".amount")).to_have_text("4")
    told = month.locator("span").first.inner_text()
    month.click()
    assert sorted(browsed(page)) == ["circle <b>.mp4", "cross.mp4", "heart.mp4", "star.mp4"]
    expect(page.locator("#chips button")).to_have_text([f"date: {told}"])
    expect(page.locator("#rail")).to_be_visible()
    show_filters(page)
    page.get_by_role("checkbox", name="generator_a").check()
    expect(page.locator("#browsed .card")).to_have_count(1)
    page.get_by_label("Order").select_option("path")
    expect(page.locator("#browsed .card")).to_have_count(1)
    assert "browse=path" in page.url
    assert in_light_and_dark(page) == {"light": [], "dark": []}
    ask(page, "a star")
    settled(page)
    assert names(page) == ["cross.mp4"]  # the filters hold for the search


def test_a_list_grows_by_pages(visits: Visits) -> None:
    page = visits.blank()

    def two_at_a_time(route: Route) -> None:
        route.continue_(url=route.request.url.replace("limit=48", "limit=2"))

    page.route("**/api/v1/browse?*", two_at_a_time)
    page.goto(f"{visits.address}/?browse=path")
    assert browsed(page) == ["circle <b>.mp4", "cross.mp4"]
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#browsed .card")).to_have_count(4)
    assert browsed(page)[2:] == ["heart.mp4", "star.mp4"]
    assert page.evaluate("() => document.activeElement.textContent") == "heart.mp4"
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)


def test_the_order_and_the_size_of_cards_are_chosen_beside_each_other(visits: Visits) -> None:
    page = visits.open("/?browse=latest", Look(still=True))
    expect(page.locator("#browsed .card")).to_have_count(4)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        order, size = page.get_by_label("Order").bounding_box(), page.locator("#compact").bounding_box()
        assert order and size
        beside = order["x"] + order["width"] <= size["x"] or size["y"] + size["height"] <= order["y"]
        assert beside, width


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
