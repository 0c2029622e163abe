"""The first run as a new user has it: from `evenreel serve` to a hit in a folder of one's own, by keyboard alone.

Five steps, the first two in a terminal: get it and install it; `evenreel serve`, and open the address that it says;
'Add a folder of videos'; choose the folder; search. Each of them is looked at. No model is named: the recommended one
comes from a hub on the loopback, without torch, also where that breaks off, or there is no network.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from evenreel.config import DEFAULT_MODEL
from evenreel.planted import write_scene
from tests.cli.test_serve import wait_for
from tests.encoders.hub import EXPORT, Hub, default_checkpoint, default_export, environment
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


@contextmanager
def visited(browser: Browser, user: NewUser) -> Iterator[Visits]:
    """Visits to the page that a new user serves."""
    process, port = user.serve()
    visits = Visits(browser, f"http://127.0.0.1:{port}", ["status of 503"])  # the model is loaded when there is one
    try:
        yield visits
        visits.close()
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, visits.trouble) == (0, [])


@pytest.fixture
def visits(browser: Browser, new_user: NewUser) -> Iterator[Visits]:
    with visited(browser, new_user) as visits:
        yield visits


@pytest.fixture
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with what stands for the recommended model, 6 MB."""
    place = tmp_path_factory.mktemp("hub")
    models = {DEFAULT_MODEL: default_checkpoint(place / "torch"), EXPORT: default_export(place / "onnx")}
    with Hub(models) as hub:
        yield hub


def of_hub(user: NewUser, hub: Hub | str, place: Path) -> NewUser:
    """The same user on a machine that takes `hub` for the hub, and has no torch."""
    away = environment(hub, place)
    wanted = ("PYTHONPATH", "MISSING", "HF_ENDPOINT", "HF_HOME")
    kept = {name: text for name, text in user.environment.items() if name not in ("HF_HUB_OFFLINE", "EVENREEL_OFFLINE")}
    return replace(user, environment=kept | {name: away[name] for name in wanted})


def add_videos(page: Page) -> Locator:
    """Choose `Videos` and leave all else as it is offered; what is told of the run."""
    page.get_by_role("button", name="Add a folder of videos").click()
    chooser = page.get_by_role("dialog", name="Add a folder")
    expect(chooser.get_by_role("button", name="Choose a folder")).to_be_disabled()
    expect(chooser).to_contain_text("Your whole home folder is too much to add at once")
    expect(chooser.get_by_role("radio", name="recommended")).to_be_checked()
    expect(chooser).to_contain_text("1.5 GB to download once.")
    chooser.get_by_role("button", name="Videos 3 videos").click()
    chooser.get_by_role("button", name="Add “Videos” (3 videos)").click()
    return page.get_by_role("region", name="Adding videos")


def test_a_download_that_failed_is_tried_again_paused_and_gone_on_with(
    browser: Browser, new_user: NewUser, hub: Hub, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hub.refuse_files = 503
    with visited(browser, of_hub(new_user, hub, tmp_path_factory.mktemp("machine"))) as visits:
        page = visits.open(look=Look(still=True))
        run = add_videos(page)
        expect(run).to_contain_text("The download of the model broke off; what has arrived is kept.")
        expect(run.get_by_role("button", name="Search by words only for now")).to_be_visible()
        run.get_by_text("Details").click()
        expect(run.locator("pre")).to_contain_text("siglip2-base-patch16-224")
        looked_at(page)

        hub.refuse_files, hub.bytes_a_second = None, 400_000
        run.get_by_role("button", name="Try again").click()
        expect(run.locator(".figures")).to_have_text(re.compile(r"Downloading the model: [1-6] MB of [56] MB"))
        looked_at(page)
        run.get_by_role("button", name="Pause").click()
        expect(run.get_by_role("heading")).to_have_text("Paused: Videos")
        hub.bytes_a_second = None
        run.get_by_role("button", name="Go on").click()
        expect(run).to_contain_text("3 videos added.")
        assert all(sent < 1.5 * (hub.models[model] / name).stat().st_size for (model, name), sent in hub.sent.items())
        wait_for(int(visits.address.rpartition(":")[2]), "/api/v1/health", "model", {"ready"})
        page.keyboard.press("/")
        search(page, "a red star")
        assert names(page)[0] == "star.mp4"


def test_without_a_network_words_only_find_and_pictures_can_be_added_later(
    browser: Browser, new_user: NewUser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with visited(browser, of_hub(new_user, "http://127.0.0.1:9", tmp_path_factory.mktemp("machine"))) as visits:
        page = visits.open(look=Look(still=True))
        run = add_videos(page)
        expect(run).to_contain_text("The model cannot be downloaded: there is no network.")
        looked_at(page)
        run.get_by_role("button", name="Search by words only for now").click()
        expect(run).to_contain_text("3 videos added.")
        page.goto(f"{visits.address}/?q=a+dog+on+a+beach")
        expect(page.get_by_placeholder("Words on screen, words said, or a name")).to_be_visible()
        expect(page.locator("#results")).to_contain_text("Pictures are not searched here")
        looked_at(page)
        page.locator("#results").get_by_role("button", name="Search pictures too").click()
        chooser = page.get_by_role("dialog", name="Search pictures too")
        expect(chooser.get_by_role("radio", name="recommended")).to_be_focused()
        looked_at(page)
        chooser.get_by_role("radio", name="small").check()
        chooser.get_by_role("button", name="Look at the pictures").click()
        expect(run).to_contain_text("3 videos added.")
        expect(run.get_by_role("button", name="Search pictures too")).to_be_hidden()
        page.goto(visits.address)
        search(page, "star")
        assert names(page)[0] == "star.mp4"


def test_from_nothing_to_a_hit_by_keyboard_alone(visits: Visits, new_user: NewUser) -> None:
    page = visits.open(look=Look(still=True))
    invitation = page.get_by_role("button", name="Add a folder of videos")
    expect(invitation).to_be_visible()
    expect(page.get_by_role("button", name="Filters")).to_be_hidden()  # there is nothing to filter
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
    tab_to(page, chooser.get_by_role("radio", name="recommended"))
    page.keyboard.press("ArrowUp")  # the last choice: the small model, which needs no network
    expect(chooser.get_by_role("radio", name="small")).to_be_checked()
    looked_at(page)

    press(page, chooser.get_by_role("button", name="Add “Videos” (3 videos)"))
    run = page.get_by_role("region", name="Adding videos")
    expect(run.get_by_role("heading")).to_have_text(re.compile("Adding Videos|Added Videos"))
    looked_at(page)
    expect(run).to_contain_text("Added Videos")
    expect(run).to_contain_text("3 videos added.")
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
