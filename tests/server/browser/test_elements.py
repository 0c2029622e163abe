"""What clips show, on the page in a Chromium: on the cards and beside the player, and a click filters by it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from evenreel.language.scene_dictionary import given
from evenreel.library import tag_library
from tests.server.browser.test_states import assert_for_everyone
from tests.server.browser.visits import Look, Visits, names, serving_here, show_filters
from tests.server.conftest import Served
from tests.server.test_elements import PLACES, THINGS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server of a library with scene elements."""
    library = tmp_path_factory.mktemp("elements") / "library"
    shutil.copytree(served.library, library)
    tag_library(library, given([*THINGS, *PLACES], []))
    with serving_here(library, served.settings) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_click_on_what_a_clip_shows_leaves_those_that_show_it(visits: Visits) -> None:
    page = visits.found("/?q=a+large+shape", Look(still=True))
    assert len(names(page)) == 4
    assert_for_everyone(page)
    page.get_by_role("list", name="Shows").get_by_role("button", name="red star", exact=True).click()
    remove = page.get_by_role("button", name="Remove the filter scene element: red star")
    expect(page.locator(".card:not(.skeleton)")).to_have_count(1)
    assert page.evaluate("() => JSON.parse(new URL(location).searchParams.get('f'))") == ["element", "red star"]
    assert names(page) == ["star.mp4"]
    page.reload()
    expect(remove).to_be_visible()
    page.locator(".card h3 a").press("Enter")
    expect(page.locator(".about dd", has_text="red star")).to_be_visible()
    page.keyboard.press("Escape")
    show_filters(page)
    expect(page.get_by_role("checkbox", name="red star")).to_be_checked()
    remove.click()
    expect(page.locator(".card:not(.skeleton)")).to_have_count(4)
    assert "f=" not in page.url
