"""The first run as a new user has it: from `evenreel serve` to a hit in a folder of one's own, by keyboard alone.

Five steps, the first two in a terminal: get it and install it; `evenreel serve`, and open the address that it says;
'Add a folder of videos'; choose the folder; search. Each of them is looked at.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from evenreel.planted import write_scene
from tests.cli.test_serve import wait_for
from tests.server.browser.test_states import assert_for_everyone
from tests.server.browser.visits import Look, Visits, names, search
from tests.server.conftest import PATIENCE_S, SCENES

MOST_TABS = 40


@dataclass(frozen=True)
class NewUser:
    """A home folder with videos in it, and the environment of a machine on which nothing was ever done."""

    home: Path
    environment: dict[str, str]

    def serve(self) -> tuple[subprocess.Popen[str], int]:
        """Type `evenreel serve`; the process, and the port of the address that it says."""
        process = subprocess.Popen(
            [sys.executable, "-m", "evenreel", "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert found
        return process, int(found[1])


@pytest.fixture
def new_user(tmp_path: Path) -> NewUser:
    trips = tmp_path / "Videos" / "Trips"
    trips.mkdir(parents=True)
    for name in ("star.mp4", "heart.mp4", "cross.mp4"):
        write_scene(trips / name, replace(SCENES[name], seed=1))
    (tmp_path / "Documents").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "elsewhere").symlink_to("/usr")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "EVENREEL_"))}
    return NewUser(tmp_path, {**own, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"})


@pytest.fixture
def visits(browser: Browser, new_user: NewUser) -> Iterator[Visits]:
    """Visits to the page that a new user serves."""
    process, port = new_user.serve()
    visits = Visits(browser, f"http://127.0.0.1:{port}", ["status of 503"])  # the model is loaded when there is one
    yield visits
    visits.close()
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, visits.trouble) == (0, [])


def test_from_nothing_to_a_hit_by_keyboard_alone(visits: Visits, new_user: NewUser) -> None:
    page = visits.open(look=Look(still=True))
    invitation = page.get_by_role("button", name="Add a folder of videos")
    expect(invitation).to_be_visible()
    looked_at(page)

    press(page, invitation)
    chooser = page.get_by_role("dialog", name="Add a folder")
    inside = chooser.locator(".folders button")
    expect(inside).to_have_text(["Documentsno video", "Videos3 videos"])
    expect(chooser).to_contain_text("Left out: 1 folder")
    expect(inside.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(inside).to_have_text(["Trips3 videos"])
    tab_to(page, chooser.get_by_role("radio", name="Pictures and words, best"))
    page.keyboard.press("ArrowUp")  # the last choice: the small model, which needs no network
    expect(chooser.get_by_role("radio", name="Small model")).to_be_checked()
    looked_at(page)

    press(page, chooser.get_by_role("button", name="Add “Videos” (3 videos)"))
    run = page.get_by_role("region", name="Adding videos")
    expect(run.get_by_role("heading")).to_have_text(re.compile("Adding Videos|Added Videos"))
    looked_at(page)
    expect(run).to_contain_text("Added Videos")
    expect(run).to_contain_text("3 videos taken in.")
    expect(page.get_by_role("region", name="Home")).to_contain_text("3 clips")
    looked_at(page)

    page.keyboard.press("/")
    wait_for(int(visits.address.rpartition(":")[2]), "/api/v1/health", "model", {"ready"})
    search(page, "a red star")
    assert names(page)[0] == "star.mp4"
    looked_at(page)
    assert len(list((new_user.home / "Videos" / "Trips").iterdir())) == 3  # nothing is written beside the videos


def press(page: Page, button: Locator) -> None:
    """Go to a button by the Tab key and press Enter."""
    tab_to(page, button)
    page.keyboard.press("Enter")


def tab_to(page: Page, target: Locator) -> None:
    for _ in range(MOST_TABS):
        if target.evaluate("(node) => node === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{target} is not reached by the Tab key")


def looked_at(page: Page) -> None:
    """Nothing of the page is wider than the window of a phone, a tablet or a desk; axe-core finds nothing."""
    assert_for_everyone(page)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 800})
