"""Searches that wait: taken together, answered as if each were alone."""

from __future__ import annotations

import json
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evenreel.config import IndexSettings
from evenreel.library import Library, index_folders
from evenreel.planted import Entity, Scene, write_scene
from evenreel.server import make_app
from evenreel.server.batched_encoder import BatchedEncoder
from evenreel.server.turns import MOST, Request, Turns, Wanted, look_ahead
from tests.server.conftest import Served, rendered, served, wait_for_model, wait_until

__all__ = ["rendered", "served"]

QUERIES = ["a red star", "a heart", "harbour", "the blue heart bounces in a dark forest beside the long river", "cross"]


def request(text: str | None = None) -> Request:
    return Request(lambda library: text, None if text is None else Wanted(text))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("line", ["", "s", "ss", "f", "fs", "sfsf", "s" * 7 + "f" + "s" * 40])
def test_each_is_taken_once_and_searches_by_equal_shares(threads: int, line: str) -> None:
    turns = Turns(threads)
    put = [request("text" if kind == "s" else None) for kind in line]
    for one in put:
        turns.put(one)
    taken: list[Request] = []
    while batch := turns.take():
        left = sum(one.wanted is not None for one in put if one not in taken)
        first = next(one for one in put if one not in taken)
        assert batch[0] is first
        assert len(batch) == (1 if first.wanted is None else min(MOST, -(-left // threads)))
        taken += batch
    assert sorted(map(id, taken)) == sorted(map(id, put))
    assert [one for one in taken if one.wanted] == [one for one in put if one.wanted]


def test_who_never_pauses_leaves_nothing_behind(served: Served) -> None:
    # One thread answers sixteen at a time; what wakes it must not be one for each of them, or it piles up for good.
    turns = Turns(2)
    assert [turns.put(request("text")) for _ in range(40)] == [True, True] + [False] * 38
    for _ in range(50):
        for one in turns.take():
            one.answer.set_result(None)
        assert not any(turns.put(request("text")) for _ in range(5))
    while turns.take():
        pass
    assert turns.put(request("text"))


def test_threads_that_ended_are_started_for_the_next(served: Served) -> None:
    turns, started, lock = Turns(3), [0], threading.Lock()
    put = [request("text" if number % 3 else None) for number in range(600)]

    def take_all() -> None:
        while taken := turns.take():
            for one in taken:
                one.answer.set_result(None)

    with ThreadPoolExecutor(3) as pool, ThreadPoolExecutor(8) as visitors:

        def visit(one: Request) -> None:
            if turns.put(one):
                with lock:
                    started[0] += 1
                pool.submit(take_all)
            one.answer.result(timeout=30)

        list(visitors.map(visit, put))
    assert all(one.answer.done() for one in put)
    assert started[0] <= len(put)


def test_those_that_nobody_will_take_are_told(served: Served) -> None:
    turns, waiting = Turns(1), [request("x"), request(), request("y")]
    for one in waiting:
        turns.put(one)
    turns.cancel()
    assert all(one.answer.cancelled() for one in waiting)
    assert turns.take() == []


def test_a_search_looked_ahead_for_is_the_search_alone(served: Served) -> None:
    with Library(served.library) as library:
        alone = [json.dumps(library.search(query, 4).to_json(), sort_keys=True) for query in QUERIES]
        encoder = library.encoder
    assert encoder is not None
    with Library(served.library, encoder=BatchedEncoder(encoder)) as library:
        look_ahead(library, [*map(Wanted, QUERIES), Wanted(" "), Wanted('"a')])
        together = [json.dumps(library.search(query, 4).to_json(), sort_keys=True) for query in QUERIES]
    assert together == alone


def test_sixteen_ask_while_a_clip_comes(served: Served, tmp_path: Path) -> None:
    library, videos = tmp_path / "library", tmp_path / "videos"
    shutil.copytree(served.library, library)
    videos.mkdir()
    write_scene(videos / "late.mp4", Scene((Entity("ring", "yellow", "large"),), "sways", "beach", duration_s=3.0))
    with Library(library) as opened:
        right = {query: {hit.clip_id for hit in opened.search(query, 20).hits} for query in QUERIES}
    settings = replace(served.settings, searchers=2)
    with TestClient(make_app(library, settings), base_url="http://127.0.0.1:8765") as visitor:
        wait_for_model(visitor)

        def ask(number: int) -> bool:
            """Ask again where it is loading; the answer holds all clips that were there, and the late one or not."""
            query = QUERIES[number % len(QUERIES)]
            answer = visitor.get("/api/v1/search", params={"q": query, "k": 20 + number % 16})
            if answer.status_code == 503:
                return False
            found = {hit["clip_id"] for hit in answer.json()["hits"]}
            assert answer.status_code == 200, answer.text
            assert right[query] <= found, query
            return len(found) > len(right[query])

        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(ask, number) for number in range(60)]
            index_folders([videos], library, IndexSettings(model="builtin", read_text=False, workers=1))
            asked += [pool.submit(ask, number) for number in range(60)]
            for one in asked:
                one.result()
        wait_until(lambda: ask(0))
