"""Visits to a served library with a Chromium, and what goes wrong in its pages.

That is: an error in the console, an exception of a script, a page that crashes, a request that leaves the machine.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Queue
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import uvicorn
from numpy.typing import NDArray
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route, expect

from evenreel.media import open_video, parse_rule
from evenreel.server import ServeSettings, serve
from tests.cli.test_serve import wait_for
from tests.server.conftest import PATIENCE_S

PATIENCE_MS = 60_000  # a busy machine is no failure
HERE = {"blob", "data"}
PICTURE_SIZE = (96, 54)
WATCH = """
    addEventListener('loadstart', ({target: video}) => { video.defaultPlaybackRate = video.playbackRate = 0.1; }, true);
    addEventListener('playing', ({target: video}) => {
        (window.begun ??= []).push({time_s: video.currentTime, rgba: window.picture(video)});
    }, true);
    window.picture = (video) => {
        const pen = new OffscreenCanvas(WIDTH, HEIGHT).getContext('2d');
        pen.drawImage(video, 0, 0, WIDTH, HEIGHT);
        return Array.from(pen.getImageData(0, 0, WIDTH, HEIGHT).data);
    };
""".replace("WIDTH", str(PICTURE_SIZE[0])).replace("HEIGHT", str(PICTURE_SIZE[1]))
"""Notes what is shown when a clip begins to play.

Clips play slowly, so that a busy machine looks at a moment while it is there.
"""


@dataclass(frozen=True)
class Look:
    """How a visitor looks at a page."""

    size: tuple[int, int] = (1280, 800)
    dark: bool = False
    still: bool = False
    """Whether the visitor asks for less motion."""


@dataclass
class Visits:
    """Opens pages of a site, each for a visitor who was never there, and writes down what goes wrong in them."""

    browser: Browser
    address: str
    expected: list[str] = field(default_factory=list)
    """Parts of what the console may say, for tests in which something fails on purpose."""
    trouble: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    def open(self, path: str = "/", look: Look | None = None, *, wait: bool = True) -> Page:
        """A page at an address of the site, once it is loaded."""
        page = self.blank(look)
        page.goto(self.address + path, wait_until="load" if wait else "commit")
        return page

    def found(self, path: str, look: Look | None = None) -> Page:
        """The same of a search, once it is answered."""
        page = self.open(path, look)
        settled(page)
        return page

    def changed(self, path: str, change: Callable[[dict[str, Any]], object], look: Look | None = None) -> Page:
        """The same of a search whose answer is changed on its way."""
        page = self.blank(look)

        def answer(route: Route) -> None:
            found = route.fetch().json()
            change(found)
            route.fulfill(json=found)

        page.route("**/api/v1/search?*", answer)
        page.goto(self.address + path)
        settled(page)
        return page

    def blank(self, look: Look | None = None) -> Page:
        """A page that shows nothing yet."""
        look = look or Look()
        context = self.browser.new_context(
            viewport={"width": look.size[0], "height": look.size[1]},
            color_scheme="dark" if look.dark else "light",
            reduced_motion="reduce" if look.still else "no-preference",
            locale="en-GB",
        )
        self.contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(WATCH)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.trouble.append(f"exception: {error.error}"))
        context.on("request", self._asked)
        page = context.new_page()
        page.on("crash", lambda _: self.trouble.append("the page crashed"))
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(part in message.text for part in self.expected):
            self.trouble.append(f"console: {message.text} ({message.location.get('url')})")

    def _asked(self, request: Request) -> None:
        asked = urlsplit(request.url)
        if asked.scheme not in HERE and f"{asked.scheme}://{asked.netloc}" != self.address:
            self.trouble.append(f"a request left the machine: {request.url}")


@contextlib.contextmanager
def serving_here(library: Path, settings: ServeSettings) -> Iterator[int]:
    """Port of a server in a thread of this process, which has the imports of a model behind it; its model is loaded."""
    servers: list[uvicorn.Server] = []
    addresses: Queue[str] = Queue()

    class Kept(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", Kept)
        patch.setenv("XDG_CACHE_HOME", str(library.parent / "cache"))
        thread = threading.Thread(target=serve, args=(library, replace(settings, port=0), addresses.put))
        thread.start()
        try:
            port = urlsplit(addresses.get(timeout=PATIENCE_S)).port
            assert port is not None
            wait_for(port, "/api/v1/health", "model", {"ready", "none"})
            yield port
        finally:
            for server in servers:
                server.should_exit = True
            thread.join()


def search(page: Page, words: str) -> None:
    """Type into the field, which has the focus, and press Enter, as a visitor does; wait for the answer."""
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.type(words)
    expect(page.locator("#query")).to_have_value(words)
    page.keyboard.press("Enter")
    settled(page)


def ask(page: Page, words: str) -> None:
    """Have other words in the field answered."""
    page.locator("#query").fill(words)
    page.locator("#query").press("Enter")


def settled(page: Page) -> None:
    """Wait for the answer to a search."""
    page.wait_for_selector("#results:not([aria-busy]) #summary")


def names(page: Page) -> list[str]:
    """The names on all cards, also on those that are folded away, in their order."""
    return page.locator(".card h3").all_text_contents()


def unfold(page: Page) -> None:
    """Show the nearest others, too."""
    others = page.locator("details.others")
    if others.count() and others.get_attribute("open") is None:
        others.locator("> summary").click()


def show_filters(page: Page) -> None:
    """Show the filters: beside results on a wide page they are there, on a narrow one they are a drawer."""
    if not page.locator("#filters").is_visible():
        page.get_by_role("button", name="Filters", exact=True).click()


def show_advanced(page: Page) -> None:
    """Show the field for the filter language."""
    show_filters(page)
    if page.locator(".advanced").get_attribute("open") is None:
        page.locator(".advanced > summary").click()


def first_frame(page: Page) -> tuple[float, NDArray[np.float64]]:
    """The first frame that was shown when a clip began to play: its time in what is played, and its pixels."""
    begun: dict[str, Any] = page.wait_for_function("() => window.begun?.[0]").json_value()
    return float(begun["time_s"]), _pixels(begun["rgba"])


def frame_now(page: Page) -> NDArray[np.float64]:
    """The pixels of the frame that is shown now."""
    return _pixels(page.evaluate("() => window.picture(document.querySelector('#video'))"))


def _pixels(rgba: Sequence[int]) -> NDArray[np.float64]:
    width, height = PICTURE_SIZE
    return np.reshape(np.array(rgba, float), (height, width, 4))[..., :3]


def nearest_time(video: Path, picture: NDArray[np.float64]) -> tuple[float, Sequence[float], Sequence[float]]:
    """The time of the frame of a video that looks most like a picture; all times, and how far each frame is."""
    from PIL import Image

    with open_video(video) as opened:
        frames = [
            (frame.time_s, np.asarray(Image.fromarray(frame.pixels).resize(PICTURE_SIZE), float))
            for frame in opened.frames(parse_rule("every 0.5 s"))
        ]
    distances = [float(np.abs(pixels - picture).mean()) for _, pixels in frames]
    return frames[int(np.argmin(distances))][0], [time_s for time_s, _ in frames], distances
