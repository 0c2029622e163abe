"""Files of clips: opened below their folder, only what was indexed is sent, and players and searches leave room."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Message

from evenreel.config import IndexSettings
from evenreel.library import Library, index_folders
from evenreel.library import contents as identity
from evenreel.server import ServeSettings, make_app
from evenreel.server import media as playback
from evenreel.server.media import OpenedFile, SentAs, open_beneath

from .conftest import PATIENCE_S, Served, wait_until

READERS = ThreadPoolExecutor(1)
TOLD = SentAs("video/mp4", "a.mp4", "content")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "videos" / "trams").mkdir(parents=True)
    (tmp_path / "videos" / "trams" / "a.mp4").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    return tmp_path / "videos"


def open_below(folder: Path) -> int:
    """How many descriptors of this process are of files and folders there, removed ones included.

    A count of all descriptors falls where a garbage collection closes one of an earlier test.
    """
    return sum(name.startswith(str(folder)) for name in map(_name_of, os.listdir("/proc/self/fd")))


def _name_of(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:  # that of the list
        return ""


def content(root: Path, path: str | Path) -> bytes:
    descriptor = open_beneath(str(root), str(path))
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_a_regular_file_below_is_opened_whatever_its_name(root: Path) -> None:
    assert content(root, root / "trams" / "a.mp4") == b"inside"
    path = os.fsdecode(os.path.join(os.fsencode(root), b"b\xff.mp4"))
    Path(path).write_bytes(b"odd")
    assert content(root, path) == b"odd"


@pytest.mark.parametrize("path", ["../secret", "trams/../../secret", "/etc/passwd", ".", "trams", "none.mp4", "a\0b"])
def test_anything_else_is_not(root: Path, path: str) -> None:
    with pytest.raises((OSError, ValueError)):
        open_beneath(str(root), os.path.join(root, path))
    assert open_below(root.parent) == 0


def test_no_link_is_followed(root: Path) -> None:
    (root / "link.mp4").symlink_to(root.parent / "secret")
    (root / "door").symlink_to(root.parent)
    for path in ("link.mp4", "door/secret"):
        with pytest.raises(OSError):
            open_beneath(str(root), str(root / path))


def test_pipes_and_sockets_do_not_hold_us_up(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe.mp4")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(root)  # a path of a socket has to be short
        listener.bind("socket.mp4")
    for name in ("pipe.mp4", "socket.mp4"):
        with pytest.raises(OSError):
            open_beneath(str(root), str(root / name))


def sender(make: Callable[[], Response]) -> TestClient:
    """A visitor who is sent a file at /."""
    app = FastAPI()

    async def send() -> Response:
        return make()

    app.add_api_route("/", send, methods=["GET", "HEAD"])
    return TestClient(app)


@pytest.fixture
def visitor(root: Path) -> TestClient:
    """A visitor who is sent a file of six bytes, `inside`."""
    path = root / "trams" / "a.mp4"
    return sender(lambda: OpenedFile(open_beneath(str(root), str(path)), TOLD, READERS))


def test_an_open_file_is_sent_though_its_name_is_anothers_by_now(root: Path) -> None:
    path = root / "trams" / "a.mp4"

    def make() -> Response:
        descriptor = open_beneath(str(root), str(path))
        assert os.read(descriptor, 3) == b"ins"  # wherever it stands, it is sent from its start
        path.unlink()
        path.write_bytes(b"another file")
        return OpenedFile(descriptor, TOLD, READERS)

    assert sender(make).get("/").content == b"inside"
    assert open_below(root.parent) == 0


@pytest.mark.parametrize("year", [-1200, 11_476, 300_000])
def test_a_file_of_a_year_that_http_has_no_word_for_is_sent(
    root: Path, monkeypatch: pytest.MonkeyPatch, year: int
) -> None:
    """Some disks keep any date; this one may not, so what it says is a stub."""
    path, when_s = root / "trams" / "a.mp4", round((year - 1970) * 365.2425 * 86_400)
    real = os.stat(path)
    found = SimpleNamespace(
        st_mode=real.st_mode, st_size=6, st_mtime=float(when_s), st_mtime_ns=when_s * 10**9, st_ctime_ns=0
    )
    with monkeypatch.context() as patch:
        patch.setattr("evenreel.server.media.os.fstat", lambda _: found)
        answer = sender(lambda: OpenedFile(open_beneath(str(root), str(path)), TOLD, READERS)).get("/")
    assert (answer.status_code, answer.content, answer.headers["content-length"]) == (200, b"inside", "6")
    assert answer.headers["etag"] == '"content"'


@pytest.mark.parametrize(
    ("asked", "status", "sent"),
    [
        ("bytes=1-3", 206, b"nsi"),
        ("Bytes=-2", 206, b"de"),
        *((other, 200, b"inside") for other in ("lines=0-1", "lines=9-", "nonsense")),
        ("bytes=2-", 206, b"side"),
        ("bytes=" + ",".join(["0-0"] * 10_000), 200, b"inside"),
        ("bytes=6-", 416, None),
        ("bytes=3-1", 400, None),
        ("bytes=x-y", 400, None),
    ],
)
def test_ranges_in_bytes_are_sent_and_other_units_ignored(
    visitor: TestClient, root: Path, asked: str, status: int, sent: bytes | None
) -> None:
    visitor.head("/", headers={"range": asked})
    answer = visitor.get("/", headers={"range": asked})
    assert (answer.status_code, open_below(root.parent)) == (status, 0)
    if sent is None:
        assert list(answer.json()) == ["detail"] and answer.json()["detail"].endswith(".")
        assert answer.headers.get("content-range") == ("bytes */6" if status == 416 else None)
    else:
        assert answer.content == sent


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(b"B" * 1_000), lambda path: os.truncate(path, 300)])
def test_a_file_that_changes_while_it_is_sent_is_not_sent_whole(
    root: Path, change: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has come is of the old content; of the new one nothing comes under the old one's tag."""
    monkeypatch.setattr(OpenedFile, "chunk_size", 100)
    path = root / "trams" / "a.mp4"
    path.write_bytes(b"A" * 1_000)
    sent: list[bytes] = []

    async def receive() -> Message:
        return await asyncio.Event().wait()  # type: ignore[return-value]

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        if len(sent) == 3:  # the beginning and two of ten chunks
            change(path)

    async def answer() -> None:
        file = OpenedFile(open_beneath(str(root), str(path)), TOLD, READERS)
        await file({"type": "http", "method": "GET", "headers": [], "asgi": {"spec_version": "2.4"}}, receive, send)

    asyncio.run(answer())
    assert b"".join(sent) == b"A" * 200


def test_a_descriptor_is_closed_after_the_last_read_of_a_receiver_who_has_gone(root: Path) -> None:
    """Closed before, its number would be another file's by the time the thread reads."""
    opened, going, reads = threading.Event(), threading.Event(), []

    class Slow(OpenedFile):
        def _read(self, position: int, size: int) -> bytes:
            opened.set()
            going.wait(10)
            reads.append(super()._read(position, size))
            return reads[-1]

    async def hear(message: Message | None = None) -> Message:
        return message or await asyncio.Event().wait()  # type: ignore[return-value]

    async def leave() -> int:
        descriptor = open_beneath(str(root), str(root / "trams" / "a.mp4"))
        scope = {"type": "http", "method": "GET", "headers": [], "asgi": {"spec_version": "2.4"}}
        visitor = asyncio.create_task(Slow(descriptor, TOLD, READERS)(scope, hear, hear))  # type: ignore[arg-type]
        await asyncio.to_thread(opened.wait)
        visitor.cancel()
        with pytest.raises(asyncio.CancelledError):
            await visitor
        os.fstat(descriptor)  # still open
        going.set()
        return descriptor

    descriptor = asyncio.run(leave())
    READERS.submit(int).result()  # after the read
    assert reads == [b"inside"]
    with pytest.raises(OSError):
        os.fstat(descriptor)


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
        assert (busy.status_code, "Too many clips are being played" in busy.text) == (503, True)
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
