"""Playing: only what was indexed is sent, and who plays and who searches leave each other room."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evenreel.config import IndexSettings
from evenreel.library import Library, index_folders
from evenreel.library.store import identity
from evenreel.server import ServeSettings, make_app
from evenreel.server import media as playback

from .conftest import PATIENCE_S, Served, wait_until


@pytest.fixture
def place(served: Served, tmp_path: Path) -> Served:
    """A library of two files that a test may change."""
    videos = tmp_path / "videos"
    videos.mkdir()
    for name in ("star.mp4", "heart.mp4"):
        shutil.copyfile(served.videos / name, videos / name)
    index_folders([videos], tmp_path / "library", IndexSettings(model=None, read_text=False, workers=1))
    return Served(tmp_path / "library", videos, ServeSettings(cache=tmp_path / "cache", painters=1, searchers=1))


@contextmanager
def visiting(place: Served, **changes: int) -> Iterator[TestClient]:
    app = make_app(place.library, replace(place.settings, **changes))  # type: ignore[arg-type]
    with TestClient(app, base_url="http://127.0.0.1:8765") as visitor:
        yield visitor


def address(visitor: TestClient, name: str, part: str = "media") -> str:
    (file,) = visitor.get("/api/v1/files", params={"text": name}).json()["files"]
    return f"/api/v1/clips/{file['clip_id']}/{part}"


def put_other_content(path: Path) -> None:
    """Another film of the same size and time, as a restored backup or a careful forger leaves it."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[-100:] = bytes(100)
    path.with_name("new").write_bytes(content)
    path.with_name("new").replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_a_replaced_file_is_not_sent_under_the_old_id(place: Served) -> None:
    with visiting(place) as visitor:
        media, preview = (address(visitor, "star", part) for part in ("media", "preview"))
        still = address(visitor, "star", "still?width=640")  # a smaller one was kept of the content that was indexed
        assert visitor.get(media).status_code == 200
        tag = visitor.head(media).headers["etag"]
        put_other_content(place.videos / "star.mp4")
        for path in (media, still, preview):
            refused = visitor.get(path, headers={"if-range": tag, "range": "bytes=0-9"})
            assert (refused.status_code, "immutable" in refused.headers["cache-control"]) == (404, False)
            assert "has changed since it was indexed" in refused.json()["detail"]
        assert not list(place.settings.cache.rglob("*.jpg"))


def test_a_touched_file_is_sent_with_the_tag_of_its_content(place: Served) -> None:
    with visiting(place) as visitor:
        media, still = address(visitor, "star"), address(visitor, "star", "still")
        before = visitor.get(media)
        os.utime(place.videos / "star.mp4", ns=(10**18, 10**18))
        os.link(place.videos / "star.mp4", place.videos.parent / "link.mp4")
        after = visitor.get(media)
        assert (after.status_code, after.content) == (200, before.content)
        assert before.headers["etag"] == after.headers["etag"] == f'"{media.split("/")[4]}"'
        assert visitor.get(still).status_code == 200
        assert visitor.head(address(visitor, "heart")).headers["etag"] != after.headers["etag"]


def test_who_waits_too_long_for_a_comparison_is_told_to_come_back(
    place: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, real = threading.Event(), identity.watched_digest

    def slow(path: str, *rest: object) -> str:
        going.wait(PATIENCE_S)
        return real(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(identity, "watched_digest", slow)
    monkeypatch.setattr(playback, "COMPARED_S", 0.05)
    with visiting(place) as visitor:
        media = address(visitor, "star")
        os.utime(place.videos / "star.mp4", ns=(0, 0))
        for _ in range(2):
            busy = visitor.get(media)
            assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
            assert "is being compared" in busy.json()["detail"]
        assert visitor.get(address(visitor, "heart")).status_code == 200
        going.set()
        wait_until(lambda: visitor.get(media).status_code == 200)


def test_a_copy_that_is_the_same_is_sent_in_its_place(place: Served) -> None:
    shutil.copyfile(place.videos / "star.mp4", place.videos / "copy.mp4")
    index_folders([place.videos], place.library, IndexSettings(model=None, read_text=False, workers=1))
    whole = (place.videos / "star.mp4").read_bytes()
    with visiting(place) as visitor:
        media = address(visitor, "star")
        put_other_content(place.videos / "copy.mp4")
        assert visitor.get(media).content == whole


def test_players_and_reads_by_key_do_not_wait_for_searches(place: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads that search are taken and as many wait as may: a hundred ranges are sent all the same."""
    going, real = threading.Event(), Library.search

    def slow(*given: object, **also: object) -> object:
        going.wait(PATIENCE_S)
        return real(*given, **also)  # type: ignore[arg-type]

    monkeypatch.setattr(Library, "search", slow)
    with visiting(place, waiting=1) as visitor, ThreadPoolExecutor(4) as crowd:
        medias = [address(visitor, name) for name in ("star", "heart")]
        searches = [crowd.submit(visitor.get, "/api/v1/search", params={"q": f"star {number}"}) for number in range(4)]
        wait_until(lambda: sum(search.done() for search in searches) == 2)
        sent = [visitor.get(medias[n % 2], headers={"range": f"bytes={n}-{n + 99}"}).status_code for n in range(100)]
        clip = medias[0].removesuffix("/media")
        known = [
            visitor.get(path).status_code for path in (clip, f"{clip}/transcripts", "/api/v1/marks", "/api/v1/saved")
        ]
        going.set()
        assert (sent, known) == ([206] * 100, [200] * 4)
        assert sorted(search.result().status_code for search in searches) == [200, 200, 503, 503]


def test_searches_do_not_wait_for_players(place: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread that opens files hangs on a disk that does not answer."""
    going, real, opening = threading.Event(), playback.open_beneath, []

    def slow(root: str, path: str) -> int:
        opening.append(path)
        going.wait(PATIENCE_S)
        return real(root, path)

    monkeypatch.setattr(playback, "open_beneath", slow)
    with visiting(place, waiting=1) as visitor, ThreadPoolExecutor(20) as crowd:
        media = address(visitor, "star")
        players = [crowd.submit(visitor.get, media) for _ in range(20)]
        wait_until(lambda: len(opening) == playback.READERS)
        for number in range(5):
            assert visitor.get("/api/v1/search", params={"q": f"star {number}"}).status_code == 200
        going.set()
        assert {player.result().status_code for player in players} == {200}


def test_so_many_play_and_no_more(place: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the connections, but never all: the others are for those who search."""
    going, real = threading.Event(), playback.OpenedFile._read
    reading: list[int] = []

    def slow(self: playback.OpenedFile, position: int, size: int) -> bytes:
        reading.append(position)
        going.wait(PATIENCE_S)
        return real(self, position, size)

    monkeypatch.setattr(playback.OpenedFile, "_read", slow)
    with visiting(place, connections=5) as visitor, ThreadPoolExecutor(3) as crowd:
        media = address(visitor, "star")
        players = [crowd.submit(visitor.get, media) for _ in range(3)]
        wait_until(lambda: len(reading) == 3)
        busy = visitor.get(media)
        assert (busy.status_code, "Too many visitors play" in busy.text) == (503, True)
        assert visitor.get("/api/v1/search", params={"q": "star"}).status_code == 200
        going.set()
        assert [player.result().status_code for player in players] == [200] * 3
        assert visitor.get(media).status_code == 200


def test_nothing_is_left_open_by_files_that_are_refused(place: Served) -> None:
    with visiting(place, connections=1) as visitor:
        media = address(visitor, "star")
        assert visitor.get(media).status_code == 200
        before = len(os.listdir("/proc/self/fd"))
        put_other_content(place.videos / "star.mp4")
        for _ in range(5):
            assert visitor.get(media).status_code == 404
        assert len(os.listdir("/proc/self/fd")) <= before
