"""The desk: few threads, one model, answers that are never stale, and a library that changes beneath it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from evenreel.config import IndexSettings
from evenreel.errors import EncoderError, LibraryError
from evenreel.features.shards import ClipSounds
from evenreel.library import Library, UnfinishedText, index_folders, reindex
from evenreel.library.search.query import PausedText
from evenreel.library.search.seen import NO_SOUNDS
from evenreel.library.store import catalog as catalogs
from evenreel.library.store.vectors import SOUNDS
from evenreel.library.store.writer import Store
from evenreel.server import ServeSettings, make_app
from evenreel.server.desk import BusyError, Desk, SharedEncoder
from evenreel.types import Encoder, FloatArray, TextEmbedding
from tests.library.fakes import WordsEncoder, encode, on_disk
from tests.library.stub_models import SETTINGS, load
from tests.library.videos import write_folder
from tests.server.conftest import PATIENCE_S, Served, wait_for_model, wait_until

HOST = "http://127.0.0.1"
WORDS_ONLY = ServeSettings(vision=False, searchers=2, waiting=2)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A library of one clip, without model."""
    made = on_disk(tmp_path / "library")
    made.connection.execute("DELETE FROM meta WHERE key IN ('model', 'encoder_id', 'weights_hash', 'dimension')")
    made.add_clip("sea")
    made.add_file("/v/sea.mp4", "sea")
    made.connection.close()
    return tmp_path / "library"


@contextmanager
def open_desk(place: Path, settings: ServeSettings = WORDS_ONLY) -> Iterator[Desk]:
    desk = Desk(place, settings)
    desk.start()
    try:
        yield desk
    finally:
        desk.close()


def test_a_slow_model_holds_up_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.server.desk.AT_A_KEY_S", -1.0)
    ready = threading.Event()

    class Slow(WordsEncoder):
        def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
            assert ready.wait(PATIENCE_S)
            return super().encode_text(captions)

    shared = SharedEncoder(Slow())

    def read_as(kind: type[str], text: str) -> FloatArray:
        return np.asarray(shared.encode_text([kind(text)]).sentence[0])

    ready.set()
    assert np.array_equal(read_as(UnfinishedText, "a red"), encode("a red"))  # no beginning is known
    ready.clear()
    for typed in ("a red s", "a red star", "a red star o"):
        assert np.array_equal(read_as(UnfinishedText, typed), encode("a red"))
    ready.set()
    wait_until(lambda: np.array_equal(read_as(UnfinishedText, "a red star on"), encode("a red star")))
    for kind in (PausedText, str):
        assert np.array_equal(read_as(kind, "a red star on"), encode("a red star on"))
    assert np.array_equal(read_as(UnfinishedText, "something else"), encode("something else"))


def clips(library: Library) -> bytes:
    return str(library.stats().clips).encode()


@pytest.mark.parametrize("frozen", [False, True])
def test_an_answer_is_kept_until_the_library_changes(
    place: Path, frozen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the folder may not be written by the server, and by another user."""
    asked: list[int] = []
    if frozen:
        monkeypatch.setattr(catalogs.os, "access", lambda *_: False)  # type: ignore[attr-defined]

    def counting(library: Library) -> bytes:
        asked.append(1)
        return clips(library)

    async def three_times(desk: Desk) -> list[bytes]:
        first = await desk.query_once("clips", counting)
        again = await desk.query_once("clips", counting)
        connection = catalogs.open_for_writing(place)
        connection.execute(
            "INSERT INTO clips SELECT 'bus', container, codec, width, height, duration_s, fps, has_vision,"
            " has_text, notes, shard_hash FROM clips"
        )
        connection.close()
        return [first, again, await desk.query_once("clips", counting)]

    with open_desk(place) as desk:
        wait_until(lambda: desk.model == "none")
        assert asyncio.run(three_times(desk)) == [b"1", b"1", b"2"]
    assert len(asked) == 2


def test_more_than_may_wait_are_told_to_come_back(place: Path) -> None:
    gate = threading.Event()

    def waiting(library: Library) -> bytes:
        assert gate.wait(PATIENCE_S)
        return b"x"

    async def crowd(desk: Desk) -> list[bytes | BaseException]:
        asked = [asyncio.create_task(desk.query(waiting)) for _ in range(6)]
        await asyncio.sleep(0)
        gate.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    with open_desk(place) as desk:
        answers = asyncio.run(crowd(desk))
    assert [isinstance(answer, BusyError) for answer in answers] == [False] * 4 + [True] * 2


def test_a_catalog_that_goes_comes_back_or_gives_way_to_another(place: Path, tmp_path: Path) -> None:
    catalog, away = place / catalogs.CATALOG, place / "away.sqlite"
    other = on_disk(tmp_path / "other")
    for clip_id in ("one", "two", "three"):
        other.add_clip(clip_id)
    other.connection.close()
    with open_desk(place, replace(WORDS_ONLY, searchers=1)) as desk:
        assert asyncio.run(desk.query(clips)) == b"1"
        catalog.rename(away)
        with pytest.raises(LibraryError):
            asyncio.run(desk.query(clips))
        away.rename(catalog)
        assert asyncio.run(desk.query(clips)) == b"1"
        os.replace(tmp_path / "other" / catalogs.CATALOG, catalog)
        assert asyncio.run(desk.query(clips)) == b"3"


def test_a_catalog_that_cannot_be_read_for_a_moment_takes_no_model_away(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, open_for_reading = list[Path](), catalogs.open_for_reading

    def locked(library: Path) -> Any:
        if threading.current_thread().name == "model" and not asked:
            asked.append(library)
            raise LibraryError("The catalog is locked.")
        return open_for_reading(library)

    def channels(library: Library) -> bytes:
        return " ".join(library.search("a red star", 1).hits[0].scores).encode()

    with open_desk(served.library, served.settings) as desk:
        wait_until(lambda: desk.model == "ready")
        monkeypatch.setattr(catalogs, "open_for_reading", locked)
        desk._looked_at = None  # as after a change
        assert b"seen" in asyncio.run(desk.query(channels))
        wait_until(lambda: bool(asked) and not desk._warming)
        assert (desk.model, desk.notices()) == ("ready", ())


@pytest.fixture
def pictured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of two videos, whose model is a stub."""
    monkeypatch.setattr("evenreel.encoders.load_encoder", load)
    write_folder(tmp_path / "videos", 2)
    index_folders([tmp_path / "videos"], tmp_path / "library", SETTINGS)
    return tmp_path / "library"


def test_the_model_is_loaded_once(pictured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    def counted(name: str, **_: object) -> Encoder:
        loaded.append(name)
        return load(name)

    monkeypatch.setattr("evenreel.encoders.load_encoder", counted)
    with open_desk(pictured, replace(WORDS_ONLY, vision=True)) as desk:
        wait_until(lambda: desk.model == "ready")
        assert asyncio.run(desk.query(lambda library: len(library.search("red").hits)))
    assert loaded == ["org/pixels@1"]


def with_sounds(library: Path, model: Encoder) -> None:
    """Give a library vectors of this model in the place of those of sounds."""
    tie = {"encoder_id": model.encoder_id, "weights_hash": model.weights_hash, "dimension": str(model.dimension)}
    vectors = np.eye(1, model.dimension, dtype=np.float16)
    with closing(catalogs.open_for_writing(library)) as connection:
        clips = [clip_id for (clip_id,) in connection.execute("SELECT clip_id FROM clips")]
        catalogs.set_meta(connection, SOUNDS.named({**tie, "vectors_generation": "1"}))
        for clip_id in clips:
            sounds = ClipSounds(model.encoder_id, model.weights_hash, np.array([[0.0, 1.0]]), vectors)
            Store(library, connection, {}).put_sounds(clip_id, sounds)


def heard(desk: Desk) -> tuple[str, ...]:
    return asyncio.run(desk.query(lambda library: library.search("sounds: red").notices))


def test_a_model_of_sounds_is_taken_up_and_let_go_while_searches_go_on(
    pictured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is loaded beside the searches, which go on without it."""
    library = pictured
    gate, threads = threading.Event(), list[str]()

    def slow(name: str, device: str) -> Encoder:
        threads.append(threading.current_thread().name)
        assert gate.wait(PATIENCE_S)
        return load(name)

    monkeypatch.setattr("evenreel.server.desk.load_sounds", slow)
    with open_desk(library, replace(WORDS_ONLY, vision=True)) as desk:
        wait_until(lambda: desk.model == "ready")
        assert heard(desk) == (NO_SOUNDS,)
        with_sounds(library, load("org/windows"))
        assert "went on without the model org/windows@1: It is loading" in heard(desk)[0]
        gate.set()
        wait_until(lambda: not any("went on without" in notice for notice in heard(desk)))
        with closing(catalogs.open_for_writing(library)) as connection:
            connection.execute("DELETE FROM meta WHERE key GLOB 'sounds_*'")
        wait_until(lambda: heard(desk) == (NO_SOUNDS,))
        wait_until(lambda: desk._sounds.name is None)
    assert threads == ["model"]


@pytest.mark.parametrize("error", [EncoderError("It is not there."), RuntimeError("odd")])
def test_without_its_model_words_are_searched_and_it_is_said(
    served: Served, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("evenreel.server.desk.load_pictures", fail)
    with TestClient(make_app(served.library, served.settings), base_url="http://127.0.0.1") as visitor:
        wait_until(lambda: visitor.get("/api/v1/health").json()["model"] == "failed")
        answer = visitor.get("/api/v1/search", params={"q": "harbour"}).json()
        assert answer["hits"][0]["on_screen"][0]["text"] == "HARBOUR"
        told = visitor.get("/api/v1/stats").json()["notices"]
        assert told[0] == "Only words are searched: the model could not be loaded."
        assert visitor.get("/api/v1/stats").json()["vision"] is False
        refused = visitor.post("/api/v1/search/image", content=b"x", headers={"content-type": "image/png"})
        assert refused.status_code == 400
        clip_id = answer["hits"][0]["clip_id"]
        assert visitor.get(f"/api/v1/clips/{clip_id}/similar").json()["hits"]  # the stored frames are enough


def test_a_model_that_has_changed_since_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.server.desk.load_pictures", lambda *_, **__: WordsEncoder("another"))
    with open_desk(served.library, served.settings) as desk:
        wait_until(lambda: desk.model == "failed")
        assert "has changed since" in desk._held.trouble


def test_while_the_model_loads_searches_are_told_to_come_back(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def slow(*_: object, **__: object) -> WordsEncoder:
        gate.wait(PATIENCE_S)
        raise EncoderError("It was not to be.")

    monkeypatch.setattr("evenreel.server.desk.load_pictures", slow)
    with TestClient(make_app(served.library, served.settings), base_url="http://127.0.0.1") as visitor:
        refused = visitor.get("/api/v1/search", params={"q": "star"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert visitor.get("/api/v1/stats").status_code == 200
        gate.set()


def test_a_library_that_is_filled_while_it_is_served(served: Served, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "broken.mp4").write_bytes(b"no video at all")
    settings = IndexSettings(model="builtin", read_text=False, workers=1)
    report = index_folders([tmp_path / "videos"], tmp_path / "library", settings)
    assert (report.indexed, report.newly_aside) == (0, 1)  # a library without a clip, and so without a model yet
    with TestClient(make_app(tmp_path / "library", served.settings), base_url="http://127.0.0.1") as visitor:
        wait_until(lambda: visitor.get("/api/v1/health").json()["model"] == "none")
        assert visitor.get("/api/v1/search", params={"q": "a red star"}).json()["hits"] == []
        shutil.copy(served.videos / "star.mp4", tmp_path / "videos")
        index_folders([tmp_path / "videos"], tmp_path / "library", settings)
        visitor.get("/api/v1/stats")
        wait_until(lambda: visitor.get("/api/v1/health").json()["model"] == "ready")
        answer = visitor.get("/api/v1/search", params={"q": "a red star"}).json()
        assert [hit["name"] for hit in answer["hits"]] == ["star.mp4"]
        assert "seen" in answer["hits"][0]["scores"]


@pytest.mark.slow
def test_sixteen_ask_while_the_model_is_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is that of one of the two models or a request to come back; the last are those of the new one."""
    monkeypatch.setattr("evenreel.encoders.load_encoder", load)
    videos, library = tmp_path / "videos", tmp_path / "library"
    write_folder(videos, 6)
    index_folders([videos], library, SETTINGS)
    queries = [f"colour number {number}" for number in range(8)]

    def alone() -> list[list[str]]:
        with Library(library) as opened:
            return [[hit.clip_id for hit in opened.search(query, 6).hits] for query in queries]

    before, told, ended = alone(), Counter[str](), threading.Event()
    with TestClient(make_app(library, replace(WORDS_ONLY, vision=True, waiting=64)), base_url=HOST) as visitor:
        wait_for_model(visitor)

        def ask(number: int) -> None:
            while not ended.is_set():
                answer = visitor.get("/api/v1/search", params={"q": queries[number % 8], "k": 6, "fold": "false"})
                if answer.status_code == 503:
                    told["come back"] += 1
                    continue
                assert answer.status_code == 200, answer.text
                told[json.dumps([number % 8, [hit["clip_id"] for hit in answer.json()["hits"]]])] += 1

        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(ask, number) for number in range(16)]
            try:
                wait_until(lambda: len(told) >= 8)
                reindex(library, "org/windows", IndexSettings(workers=1))
                after = alone()
                wait_until(lambda: all(json.dumps([place, ids]) in told for place, ids in enumerate(after)))
            finally:
                ended.set()
            for one in asked:
                one.result()
        assert before != after
        known = {json.dumps([place, ids]) for ids_of in (before, after) for place, ids in enumerate(ids_of)}
        assert told.keys() - known <= {"come back"}
