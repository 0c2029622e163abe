"""A matcher that tells parts, for the served library: TCD as it begins, which compares features as they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient
from uvicorn import Server

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, load_matcher, save_pretrained
from evenreel.checkpoint.architecture import build, module
from evenreel.encoders import load_encoder
from evenreel.library import Library, open_library
from evenreel.library.search.result import SearchResult
from evenreel.server import make_app
from tests.in_process import run_here
from tests.server.conftest import Served, wait_for_model
from tests.server.test_api import ask

WINDOWS = 4


def save_tcd(folder: Path, weights_hash: str | None = None) -> Path:
    """A checkpoint for libraries of the built-in encoder, or for those of other weights."""
    torch.manual_seed(0)
    encoder = load_encoder("builtin", device="cpu")
    note = EncoderNote(encoder.encoder_id, weights_hash or encoder.weights_hash, encoder.dimension)
    matcher = build(MatcherSpec("tcd"), encoder.dimension)
    module(matcher).eval()
    about = About(note, Inputs(frames=12, words=32, windows=WINDOWS))
    save_pretrained(folder, Pretrained(matcher, MatcherSpec("tcd"), about))
    return folder


QUERY = "a red star"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tcd(tmp_path_factory.mktemp("matcher") / "checkpoint")


@pytest.fixture(scope="module")
def reranking(served: Served, checkpoint: Path) -> Iterator[TestClient]:
    """A visitor of the served library."""
    yield from visitor(served, rerank=str(checkpoint), rerank_depth=3)


def visitor(served: Served, **changes: Any) -> Iterator[TestClient]:
    app = make_app(served.library, replace(served.settings, **changes))
    with TestClient(app, base_url="http://127.0.0.1:8765") as client:
        wait_for_model(client)
        yield client


def test_each_clip_that_was_re_ranked_tells_its_parts(reranking: TestClient, served: Served, checkpoint: Path) -> None:
    answer = ask(reranking, "/api/v1/search", q=QUERY, k=2)
    with open_library(served.library) as library:
        found = library.search(QUERY, k=2, rerank=load_matcher(checkpoint), rerank_depth=3)
    assert [hit["clip_id"] for hit in answer["hits"]] == [hit.clip_id for hit in found.hits]
    for hit, expected in zip(answer["hits"], found.hits, strict=True):
        assert list(hit["parts"]) == ["seen", "on_screen", "both"]
        assert hit["parts"] == pytest.approx(expected.parts, abs=1e-5)
        assert hit["none_read"] == expected.none_read
        assert hit["scores"]["reranked"] == pytest.approx(sum(hit["parts"].values()) / 3, abs=1e-4)
    assert answer["notices"] == list(found.notices)


def test_one_thread_re_ranks_so_that_no_clip_is_encoded_twice(
    reranking: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread has a library of its own, with the clips that its matcher has encoded."""
    threads: dict[bool, set[str]] = {True: set(), False: set()}
    plain = Library.search

    def noted(self: Library, *given: Any, rerank: Pretrained | None = None, **more: Any) -> SearchResult:
        threads[rerank is not None].add(threading.current_thread().name)
        return plain(self, *given, rerank=rerank, **more)

    monkeypatch.setattr(Library, "search", noted)
    for number in range(4):
        ask(reranking, "/api/v1/search", q=f"a first search {number}", k=1)
        ask(reranking, "/api/v1/search", q=f"a first search {number}", k=1, rerank=False)
    assert threads[True] == {"rerank_0"} and not threads[True] & threads[False]


def test_a_matcher_of_another_model_leaves_the_library_s_order(
    served: Served, client: TestClient, tmp_path: Path
) -> None:
    foreign = save_tcd(tmp_path / "foreign", weights_hash="00" * 32)
    for other in visitor(served, rerank=str(foreign)):
        answer = ask(other, "/api/v1/search", q=QUERY)
        assert ask(other, "/api/v1/stats")["notices"][0].startswith("The first results are not re-ranked")
        assert [hit["clip_id"] for hit in answer["hits"]] == [
            hit["clip_id"] for hit in ask(client, "/api/v1/search", q=QUERY)["hits"]
        ]


def test_the_command_says_at_once_what_cannot_be(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "run", lambda *_, **__: pytest.fail("it serves"))
    foreign = save_tcd(tmp_path / "foreign", weights_hash="00" * 32)
    for matcher, sentence in ((foreign, "index the videos with --model"), (tmp_path / "nowhere", "nowhere")):
        options = ("--library", served.library, "--port", "0", "--rerank", matcher)
        done = run_here("serve", *options, environment={})
        assert (done.returncode, sentence in done.stderr) == (1, True)
