"""What a matcher says of each clip, on the page in a Chromium, at the sizes of a laptop and of a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Page

from evenreel.library.store.catalog import open_for_writing
from tests.cli.test_serve import get
from tests.server.browser.test_states import assert_for_everyone
from tests.server.browser.visits import Look, Visits, serving_here, settled, unfold
from tests.server.conftest import Served
from tests.server.reranked import save_tcd

pytestmark = pytest.mark.slow

ASKED = "/?q=a+red+star"


@pytest.fixture(scope="module")
def port(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Of a server that re-ranks clips, on one of which nothing was read."""
    folder = tmp_path_factory.mktemp("matcher")
    checkpoint = save_tcd(folder / "checkpoint")
    shutil.copytree(served.library, folder / "library")
    connection = open_for_writing(folder / "library")
    connection.execute("DELETE FROM tracks WHERE clip_id = (SELECT min(clip_id) FROM tracks)")
    connection.close()
    with serving_here(folder / "library", replace(served.settings, rerank=str(checkpoint))) as port:
        yield port


@pytest.fixture
def site(port: int) -> str:
    """Its address."""
    return f"http://127.0.0.1:{port}"


def told(page: Page) -> list[list[str]]:
    """The lines of each card."""
    return [one.locator(".parts > div").all_inner_texts() for one in page.locator(".card").all()]


def shown(value: float) -> str:
    """Two places, and no minus before nothing."""
    return f"{value:.2f}".replace("-0.00", "0.00")


@pytest.mark.parametrize("size", [(1280, 800), (390, 800)])
def test_each_card_tells_the_parts_and_their_mean(visits: Visits, port: int, size: tuple[int, int]) -> None:
    page = visits.found(ASKED, Look(size=size, still=True))
    unfold(page)
    _, answer = get(port, "/api/v1/search?q=a+red+star")
    expected = [
        [
            f"{name}\n{shown(value)}"
            for name, value in zip(
                ("Seen", f"On screen{' none read' if hit['none_read'] else ''}", "Both"),
                hit["parts"].values(),
                strict=True,
            )
        ]
        + [f"Mean\n{shown(hit['scores']['reranked'])}"]
        for hit in answer["hits"]
    ]
    assert [[line.replace("\n\n", "\n").strip() for line in card] for card in told(page)] == expected
    for row, hit in zip(page.locator(".parts").all(), answer["hits"], strict=True):
        bars = row.locator(".meter > span").evaluate_all(
            "(bars) => bars.map((bar) => bar.offsetWidth / bar.parentNode.offsetWidth)"
        )
        shares = [*hit["parts"].values(), hit["scores"]["reranked"]]
        assert bars == pytest.approx([max(0.0, min(1.0, share)) for share in shares], abs=0.02)
        assert "its rank is fused with those of the words on screen" in str(row.get_attribute("title"))
        assert row.locator(".unread").count() == hit["none_read"]
    assert {hit["none_read"] for hit in answer["hits"]} == {True, False}
    assert_for_everyone(page)


def test_what_is_not_re_ranked_has_none(visits: Visits) -> None:
    page = visits.found(ASKED, Look(still=True))
    page.get_by_role("button", name="More like this").first.click()
    settled(page)
    page.wait_for_function("() => !document.querySelector('.parts') && document.querySelector('.card')")
    assert page.locator(".card").count() > 0
    assert page.locator(".parts").count() == 0
