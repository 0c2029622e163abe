"""The switch that has folders watched, and what a page makes of a server that is busy for a moment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from evenreel.server.adding import FolderListing, Indexing, Place, SpeechChoice
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
    trail = [Place(name="Home", path="/home/me"), Place(name="Films", path="/home/me/Films")]
    films = FolderListing(
        name="Films",
        path="/home/me/Films",
        videos=2,
        more=False,
        hindrance="",
        added=False,
        places=trail[:1],
        trail=trail,
        folders=[],
        left_out=0,
    )
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
    assert script.orders == [{"action": "watch", "folder": "/home/me/Films", "model": None, "speech": False}]


def test_speech_is_a_tick_with_its_price_or_the_reason_why_not(visits: Visits) -> None:
    price = SpeechChoice(minutes_an_hour=14.2, download_bytes=148_000_000)
    page, script = opened(visits, Indexing(state="idle", speech=price))
    dialog = chooser(page)
    expect(dialog).to_contain_text("About 14 min for an hour of speech. 148 MB to download once.")
    dialog.get_by_role("checkbox", name="Also what is said").check()
    dialog.get_by_role("button", name="Look again").click()
    expect(dialog).to_be_hidden()
    assert script.orders == [{"action": "start", "model": None, "speech": True}]
    lacking = price.model_copy(update={"hindrance": "Hearing speech needs faster_whisper."})
    page, _ = opened(visits, Indexing(state="idle", speech=lacking))
    dialog = chooser(page)
    expect(dialog.get_by_role("checkbox", name="Also what is said")).to_be_disabled()
    expect(dialog).to_contain_text("Hearing speech needs faster_whisper.")


def test_new_videos_are_looked_for_from_the_library(visits: Visits) -> None:
    page, script = opened(visits, Indexing(state="idle"), Indexing(state="running", folders=["Videos"]))
    page.get_by_role("link", name="Library").click()
    expect(page.locator(".holdings")).to_contain_text("Model ")
    page.get_by_role("button", name="Look for new videos").click()
    expect(page.get_by_role("region", name="Adding videos")).to_contain_text("Adding Videos")
    expect(page.get_by_role("button", name="Look for new videos")).to_be_hidden()
    assert script.orders == [{"action": "start", "model": None}]


def test_a_server_that_is_busy_for_a_moment_is_asked_again(visits: Visits) -> None:
    visits.expected.append("status of 503")
    done = Indexing(state="done", folders=["Videos"], sentence="3 videos added.")
    page, _ = opened(visits, Indexing(state="running", folders=["Videos"]), 503, done)
    expect(page.get_by_role("region", name="Adding videos")).to_contain_text("3 videos added.")
