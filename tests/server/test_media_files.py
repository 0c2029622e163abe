"""Files are opened below their folder, without following links, and only if they are regular."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Message

from evenreel.server.media import OpenedFile, SentAs, media_type, open_beneath

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


def test_what_a_browser_is_asked_about() -> None:
    assert media_type("mp4", "hevc") == 'video/mp4; codecs="hvc1.1.6.L120.90"'
    assert media_type("matroska", "h264") == 'video/x-matroska; codecs="avc1.640028"'
    assert media_type("flv", "flv") == "application/octet-stream"


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
