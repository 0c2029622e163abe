"""Searches that are neutral to source, over HTTP and by the command: what they say and change, and when not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenreel.library import open_library
from evenreel.server import make_app
from tests.in_process import run_here
from tests.server.conftest import Served, wait_for_model
from tests.server.two_sources import PAIRS, QUERY, two_sources


@pytest.fixture(scope="module")
def place(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A library with clips of two sources."""
    folder = tmp_path_factory.mktemp("two_sources")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield two_sources(served, folder)


@pytest.fixture(scope="module")
def even(place: Path, served: Served) -> Iterator[TestClient]:
    """A visitor of it."""
    app = make_app(place, served.settings)
    with TestClient(app, base_url="http://127.0.0.1:8765") as visitor:
        wait_for_model(visitor)
        yield visitor


def ask(client: TestClient, path: str, **query: object) -> dict[str, Any]:
    answer = client.get(path, params={name: str(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def generated(answer: dict[str, Any]) -> int:
    return sum(hit["source"] == "generator_a" for hit in answer["hits"])


def test_a_neutral_search_favours_no_source(even: TestClient) -> None:
    plain = ask(even, "/api/v1/search", q=QUERY, k=12, fold="false")
    neutral = ask(even, "/api/v1/search", q=QUERY, k=12, neutral=True, fold="false")
    assert generated(plain) >= 10
    assert any("generator_a" in sentence for sentence in plain["favours"]["sentences"])
    assert 3 <= generated(neutral) <= 8
    assert neutral["favours"]["sentences"] == []
    assert neutral["notices"][0].startswith("Neutral to source: ")
    assert f"generator_a ({PAIRS} pairs)" in neutral["notices"][0]
    assert neutral["notices"][1].endswith("generator_b (1).")
    assert ask(even, "/api/v1/search", q=QUERY, k=12, fold="false") == plain


def test_pictures_and_clips_can_be_searched_for_so_too(even: TestClient) -> None:
    first = ask(even, "/api/v1/search", q=QUERY, k=1, where="source = 'generator_a'")["hits"][0]
    clip_id = first["clip_id"]
    plain, neutral = (
        ask(even, f"/api/v1/clips/{clip_id}/similar", t=1.0, k=4, neutral=chosen) for chosen in (False, True)
    )
    assert generated(neutral) < generated(plain)
    still = even.get(f"/api/v1/clips/{clip_id}/still", params={"t": 1.0}).content
    found = even.post(
        "/api/v1/search/image", params={"neutral": True}, content=still, headers={"content-type": "image/x"}
    )
    assert found.json()["notices"][0].startswith("Neutral to source: ")


def test_it_says_whether_it_can(even: TestClient, client: TestClient, served: Served) -> None:
    assert ask(even, "/api/v1/stats")["neutral_trouble"] is None
    sentence = ask(client, "/api/v1/stats")["neutral_trouble"]
    assert "there must be 20 of a camera and 20 of one generator" in sentence
    refused = client.get("/api/v1/search", params={"q": QUERY, "neutral": "true"})
    assert (refused.status_code, refused.json()["detail"]) == (400, sentence)
    with open_library(served.library) as library:
        assert library.neutral_trouble() == sentence


def test_what_is_no_choice_is_refused(even: TestClient) -> None:
    assert even.get("/api/v1/search", params={"q": QUERY, "neutral": "somewhat"}).status_code == 422


def search(library: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The command as a person types it."""
    return run_here("search", QUERY, "--neutral-source", "--library", library, *options, environment={})


def test_the_command_says_and_shows_the_same(even: TestClient, place: Path) -> None:
    done = search(place, "-k", "12", "--all")
    assert (done.returncode, done.stderr) == (0, "")
    expected = ask(even, "/api/v1/search", q=QUERY, k=12, neutral=True)
    lines = done.stdout.splitlines()
    assert lines[:2] == expected["notices"]
    told = [line.rpartition("source: ")[2] for line in lines if "  source: " in line]
    assert told == [hit["source"] for hit in expected["hits"]]


def test_the_command_refuses_what_is_not_neutral(served: Served, place: Path) -> None:
    refused = search(place, "--no-vision")
    assert refused.returncode == 2
    assert "--neutral-source changes how frames are ranked" in refused.stderr
    assert "there must be 20 of a camera" in search(served.library).stderr
