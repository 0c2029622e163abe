"""The switch that has folders watched, and what a page makes of a server that is busy for a moment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from evenreel.server.adding import FolderListing, Indexing
from tests.server.browser.visits import Visits

pytestmark = pytest.mark.slow


@dataclass
class ScriptedAdding:
    """A server's answers about adding folders: the states that it goes through, and what it was told to do."""

    states: list[Indexing | int]
    """The last stays; a number is the status of a refusal that passes."""
    orders: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, route: Route) -> None:
        if route.request.method == "POST":
            self.orders.append(route.request.post_data_json)
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, int):
            route.fulfill(status=state, headers={"retry-after": "1"}, json={"detail": "Too many ask at once."})
        else:
            route.fulfill(json=state.model_dump())


def opened(visits: Visits, *states: Indexing | int) -> tuple[Page, ScriptedAdding]:
    """A page over such a server."""
    script, page = ScriptedAdding(list(states)), visits.blank()
    page.route("**/api/v1/indexing", script.answer)
    films = FolderListing(name="Films", path="Films", videos=2, more=False, added=False, folders=[], left_out=0)
    page.route("**/api/v1/folders*", lambda route: route.fulfill(json=films.model_dump()))
    page.goto(visits.address + "/")
    return page, script


def chooser(page: Page) -> Locator:
    page.get_by_role("button", name="Add a folder").click()
    return page.get_by_role("dialog", name="Add a folder")


@pytest.mark.parametrize("state", ["running", "paused"])
def test_the_switch_breaks_off_no_run(visits: Visits, state: Any) -> None:
    page, script = opened(visits, Indexing(state=state, folders=["Videos"]))
    dialog = chooser(page)
    switch = dialog.get_by_role("switch")
    switch.check()
    expect(dialog).to_contain_text("Watched from when the folder is added")
    switch.uncheck()
    switch.check()
    dialog.get_by_role("button", name=re.compile("^Add “Films”")).click()
    expect(dialog).to_be_hidden()
    assert script.orders == [{"action": "watch", "folder": "Films", "model": None}]


def test_a_server_that_is_busy_for_a_moment_is_asked_again(visits: Visits) -> None:
    visits.expected.append("status of 503")
    done = Indexing(state="done", folders=["Videos"], sentence="3 videos taken in.")
    page, _ = opened(visits, Indexing(state="running", folders=["Videos"]), 503, done)
    expect(page.get_by_role("region", name="Adding videos")).to_contain_text("3 videos taken in.")
