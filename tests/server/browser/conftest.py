"""A Chromium in front of a served library; a test fails on whatever goes wrong in its pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.cli.test_serve import TOKEN
from tests.server.browser.visits import PATIENCE_MS, Visits, serving_here
from tests.server.conftest import Served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium of the system: the one that Playwright brings cannot play H.264."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no Chromium (on Debian: apt install chromium)")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chromium = playwright.chromium.launch(executable_path=program, args=arguments, timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def site(served: Served) -> Iterator[str]:
    """Address of a server of the rendered videos."""
    with serving_here(served.library, served.settings) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def token_site(served: Served) -> Iterator[str]:
    """Address of a server that wants to hear a token."""
    with serving_here(served.library, replace(served.settings, vision=False, token=TOKEN)) as port:
        yield f"http://127.0.0.1:{port}"


def _visits(browser: Browser, address: str) -> Iterator[Visits]:
    visits = Visits(browser, address)
    yield visits
    visits.close()
    assert visits.trouble == []


@pytest.fixture
def visits(browser: Browser, site: str) -> Iterator[Visits]:
    """Visits to the server whose address is the fixture `site`: that of the rendered videos, or the module's own."""
    yield from _visits(browser, site)


@pytest.fixture
def token_visits(browser: Browser, token_site: str) -> Iterator[Visits]:
    """Visits to a server that wants to hear a token."""
    yield from _visits(browser, token_site)
