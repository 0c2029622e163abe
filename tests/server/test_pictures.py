"""Stills and previews, those that were kept when a clip was indexed, and pictures that visitors search by."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import av
import numpy as np
import pytest
from PIL import Image
from starlette.requests import Request
from starlette.testclient import TestClient

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError
from evenreel.library.contents import Located
from evenreel.library.store.catalog import STILLS
from evenreel.media.workers import FileStamp
from evenreel.planted import write_clip
from evenreel.server import ServeSettings, make_app
from evenreel.server import media as uploads
from evenreel.server.desk import BusyError
from evenreel.server.media import PAGE_GAP_S, PREVIEW_PART_S, Pictures, trim
from evenreel.types import Pixels
from tests.server.conftest import PATIENCE_S, Served, wait_for_model, wait_until

CLIP = "0" * 32
FPS = 5


def greys(seconds: int) -> Iterator[Pixels]:
    """Two greys that tell the time: the left half the tens of its second, the right half the units."""
    for number in range(seconds * FPS):
        tens, units = divmod(number // FPS, 10)
        picture = np.empty((64, 96, 3), np.uint8)
        picture[:, :48], picture[:, 48:] = 20 + 20 * tens, 20 + 20 * units
        yield picture


def second_of(picture: Pixels) -> int:
    tens, units = (round((float(half.mean()) - 20) / 20) for half in (picture[:, :40], picture[:, 56:]))
    return 10 * tens + units


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "greys.mp4"
    write_clip(path, greys(70), FPS)
    return path


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> ServeSettings:
    return ServeSettings(cache=tmp_path_factory.mktemp("cache"), painters=1)


@pytest.fixture
def pictures(tmp_path: Path, settings: ServeSettings) -> Iterator[Pictures]:
    made = Pictures(settings, lambda _: tmp_path / STILLS)
    made.start()
    yield made
    made.close()


def located(path: Path) -> Located:
    """The file as it is now."""
    found = path.stat()
    return Located(str(path), str(path.parent), FileStamp.of(found))


async def get_still(pictures: Pictures, path: Path, time_s: float, width: int = 320, clip_id: str = CLIP) -> bytes:
    """A still as the server gives it: the one that is kept, or a new one."""
    kept = pictures.kept_still(clip_id, time_s, width)
    return kept if kept is not None else await pictures.still(clip_id, located(path), time_s, width)


def still(pictures: Pictures, path: Path, time_s: float, width: int = 320, clip_id: str = CLIP) -> Image.Image:
    return Image.open(io.BytesIO(asyncio.run(get_still(pictures, path, time_s, width, clip_id))))


@pytest.mark.parametrize("time_s", [0.0, 3.5, 41.99, 69.9, 500.0])
def test_a_still_shows_its_moment(pictures: Pictures, video: Path, time_s: float) -> None:
    picture = still(pictures, video, time_s)
    assert (picture.format, picture.size) == ("JPEG", (96, 64))  # never larger than it is
    assert second_of(np.asarray(picture)) == min(int(time_s), 69)


def test_who_asks_at_the_same_time_waits_for_the_same_picture(
    pictures: Pictures, video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted = []
    paint = Pictures._paint_still

    def counting(self: Pictures, *given: Any) -> bytes:
        painted.append(given[-1]["time_s"])
        return paint(self, *given)

    monkeypatch.setattr(Pictures, "_paint_still", counting)

    async def crowd() -> list[bytes]:
        return await asyncio.gather(*(pictures.still("3" * 32, located(video), 2.0, 160) for _ in range(8)))

    (made,) = set(asyncio.run(crowd()))
    assert pictures.kept_still("3" * 32, 2.0, 100) == made
    assert painted == [2.0]


def test_the_page_that_was_turned_to_last_is_made_first_from_its_top(
    pictures: Pictures, video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[float] = []
    turned = threading.Event()
    now_s = 1000.0

    def painting(self: Pictures, *given: Any) -> bytes:
        assert turned.wait(60)
        painted.append(given[-1]["time_s"])
        return b""

    monkeypatch.setattr(Pictures, "_paint_still", painting)
    monkeypatch.setattr("evenreel.server.media.time", SimpleNamespace(monotonic=lambda: now_s))

    def page(*times_s: float) -> list[asyncio.Task[bytes]]:
        return [asyncio.create_task(pictures.still("6" * 32, located(video), time_s, 160)) for time_s in times_s]

    async def two_pages() -> None:
        nonlocal now_s
        first = page(0.0, 1.0, 2.0, 3.0)
        await asyncio.sleep(0)
        now_s += 2 * PAGE_GAP_S
        second = page(10.0, 11.0)
        await asyncio.sleep(0)
        turned.set()
        await asyncio.gather(*first, *second)

    asyncio.run(two_pages())
    assert painted == [0.0, 10.0, 11.0, 1.0, 2.0, 3.0]


def test_previews_leave_a_painter_to_the_stills(
    settings: ServeSettings, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: list[int] = []
    running = 0

    def slow(self: Pictures, *_: Any) -> bytes:
        nonlocal running
        running += 1
        at_once.append(running)
        time.sleep(0.05)
        running -= 1
        return b""

    monkeypatch.setattr(Pictures, "_paint_preview", slow)
    pictures = Pictures(replace(settings, painters=2), lambda _: tmp_path / STILLS)
    pictures.start()

    async def crowd() -> None:
        await asyncio.gather(*(pictures.preview("7" * 32, located(video), part) for part in range(4)))

    asyncio.run(crowd())
    pictures.close()
    assert at_once == [1, 1, 1, 1]


def test_too_many_that_wait_give_up_the_first(pictures: Pictures, video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.server.media.WAITING", 2)
    monkeypatch.setattr(Pictures, "_paint_still", lambda self, *_: time.sleep(0.05) or b"x")

    async def crowd() -> list[bytes | BaseException]:
        asked = (pictures.still("8" * 32, located(video), float(number), 160) for number in range(5))
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(crowd())
    assert [isinstance(answer, BusyError) for answer in answers] == [False, True, True, False, False]


def test_a_file_that_has_changed_is_neither_shown_nor_kept(pictures: Pictures, video: Path, tmp_path: Path) -> None:
    path = tmp_path / "changed.mp4"
    shutil.copyfile(video, path)
    before = located(path)
    write_clip(path, [np.zeros((64, 96, 3), np.uint8)] * 5, FPS)
    with pytest.raises(MediaError, match="changed since it was indexed"):
        asyncio.run(pictures.still("9" * 32, before, 0.0, 160))
    with pytest.raises(MediaError, match="changed since it was indexed"):
        asyncio.run(pictures.preview("9" * 32, before, 0))
    assert pictures.kept_still("9" * 32, 0.0, 160) is None
    assert not pictures.preview_path("9" * 32, 0).exists()


def test_a_file_that_is_no_video_is_one_sentence(pictures: Pictures, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(MediaError, match="not a video"):
        still(pictures, tmp_path / "text.mp4", 0.0, clip_id="4" * 32)
    with (
        patch.object(Pictures, "_paint_still", side_effect=AssertionError("it was tried again")),
        pytest.raises(MediaError, match="not a video"),
    ):
        still(pictures, tmp_path / "text.mp4", 0.0, clip_id="4" * 32)


def test_a_preview_is_an_h264_file_of_its_part(pictures: Pictures, video: Path) -> None:
    made = asyncio.run(pictures.preview(CLIP, located(video), 1))
    with av.open(str(made)) as container:
        stream = container.streams.video[0]
        frames = [(frame.time, second_of(frame.to_ndarray(format="rgb24"))) for frame in container.decode(stream)]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    assert len(frames) == 10 * FPS
    assert all(int(PREVIEW_PART_S + (time_s or 0) + 1e-3) == second for time_s, second in frames)
    assert made == pictures.preview_path(CLIP, 1)


def test_a_part_past_the_end_is_one_sentence_and_leaves_nothing(pictures: Pictures, video: Path) -> None:
    with pytest.raises(MediaError, match="ends at 70"):
        asyncio.run(pictures.preview("5" * 32, located(video), 2))
    assert not list(pictures.preview_path("5" * 32, 2).parent.iterdir())


def test_the_oldest_pictures_go_first(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "old", "oldest")):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    trim(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
    trim(tmp_path / "not there", 0)


@pytest.fixture
def visitor(served: Served, tmp_path: Path) -> Iterator[TestClient]:
    """A visitor of a copy of the served library, of which no picture was ever asked for."""
    shutil.copytree(served.library, tmp_path / "library")
    settings = replace(served.settings, cache=tmp_path / "cache", vision=False)
    with TestClient(make_app(tmp_path / "library", settings), base_url="http://127.0.0.1:8765") as visitor:
        wait_for_model(visitor)
        yield visitor


def size(content: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(content)) as image:
        assert image.format == "JPEG"
        return image.size


def test_the_pictures_of_a_page_are_there_already(visitor: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pictures, "still", lambda *_: pytest.fail("a still was decoded"))
    hits = visitor.get("/api/v1/search", params={"q": "harbour"}).json()["hits"]
    files = visitor.get("/api/v1/files", params={"state": "indexed"}).json()["files"]
    assert len(hits) == len(files) == 4
    addresses = [moment["still"] for hit in hits for moment in hit["moments"]]
    for address in (*addresses, *(hit["still"] for hit in hits), *(file["still"] for file in files)):
        answer = visitor.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
        assert max(size(answer.content)) <= 320
        assert "immutable" in answer.headers["cache-control"]


def test_it_is_the_picture_that_would_be_decoded(visitor: TestClient, served: Served, tmp_path: Path) -> None:
    (hit,) = visitor.get("/api/v1/search", params={"q": "heart"}).json()["hits"]
    kept = visitor.get(f"/api/v1/clips/{hit['clip_id']}/still", params={"t": 2.0})
    shutil.rmtree(tmp_path / "library" / "stills")
    decoded = visitor.get(f"/api/v1/clips/{hit['clip_id']}/still", params={"t": 2.0})
    assert size(kept.content) == size(decoded.content)
    assert kept.content != decoded.content  # of another quality
    one, other = (Image.open(io.BytesIO(answer.content)).convert("L").resize((32, 18)) for answer in (kept, decoded))
    assert max(abs(a - b) for a, b in zip(one.tobytes(), other.tobytes(), strict=True)) < 24


def test_a_clip_whose_file_is_gone_is_still_shown(visitor: TestClient, served: Served) -> None:
    (hit,) = visitor.get("/api/v1/search", params={"q": "cross"}).json()["hits"]
    gone = served.videos / "cross.mp4"
    gone.rename(served.videos / "cross.away")
    try:
        assert visitor.get(hit["still"]).status_code == 200
        assert visitor.get(hit["still"] + "&width=640").status_code == 404
    finally:
        (served.videos / "cross.away").rename(gone)


ADDRESS = "/api/v1/search/image"
HANGING = "tests.media.stub_targets:HangingImages"


def star() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (80, 60), "red").save(file, "PNG")
    return file.getvalue()


def send(visitor: TestClient, picture: bytes) -> tuple[int, str]:
    answer = visitor.post(ADDRESS, content=picture, headers={"content-type": "image/png"})
    return answer.status_code, answer.json().get("detail", "")


@contextmanager
def visiting(served: Served, monkeypatch: pytest.MonkeyPatch, stall_timeout_s: float) -> Iterator[TestClient]:
    """A visitor of a server whose decoder hangs on some pictures."""
    monkeypatch.setattr("evenreel.library.search.query.READER", HANGING)
    settings = replace(served.settings, image_limits=MediaLimits(stall_timeout_s=stall_timeout_s))
    with TestClient(make_app(served.library, settings), base_url="http://127.0.0.1:8765") as visitor:
        wait_for_model(visitor)
        yield visitor


@contextmanager
def hanging(visitor: TestClient, place: Path, count: int) -> Iterator[list[tuple[int, str]]]:
    """So many pictures that never end are sent, and as many decode as may; their answers when the block has ended."""
    place.mkdir()
    answers: list[tuple[int, str]] = []
    pictures = [b"hang" + bytes(place / str(number)) for number in range(count)]
    threads = [threading.Thread(target=lambda one=one: answers.append(send(visitor, one))) for one in pictures]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(list(place.iterdir())) >= min(count, uploads.DECODING))
    yield answers
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_good_pictures_are_answered_beside_some_that_never_end(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with visiting(served, monkeypatch, 0.5) as visitor:
        with hanging(visitor, tmp_path / "first", 1):
            assert send(visitor, star())[0] == 200
        with hanging(visitor, tmp_path / "second", uploads.DECODING + 1) as answers:
            assert send(visitor, star())[0] == 200
            assert visitor.get("/api/v1/search", params={"q": "a star"}).status_code == 200
    assert [status for status, _ in answers] == [400] * (uploads.DECODING + 1)
    assert all("no progress for 0.5 s" in sentence for _, sentence in answers)


def test_the_server_ends_while_a_picture_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that decodes cannot be ended, so Ctrl-C would wait for it."""
    monkeypatch.setattr("evenreel.library.search.query.READER", HANGING)
    picture = b"hang" + bytes(tmp_path / "began")

    async def body() -> dict[str, object]:
        return {"type": "http.request", "body": picture, "more_body": False}

    async def search(desk: uploads.Uploads) -> None:
        sent = {"type": "http", "method": "POST", "headers": [(b"content-type", b"image/png")]}
        async with desk.picture(Request(sent, body)):
            pytest.fail("it was decoded")

    async def serve() -> None:
        desk = uploads.Uploads(ServeSettings(image_limits=MediaLimits(stall_timeout_s=1e6)))
        desk.start()
        visitor = asyncio.create_task(search(desk))
        while not (tmp_path / "began").exists():
            await asyncio.sleep(0.01)
        desk.close()
        with pytest.raises(EvenreelError):
            await visitor

    asyncio.run(serve())


@pytest.mark.parametrize("length", ["9" * 5_000, "21000000"])
def test_a_length_that_is_too_large_is_refused_before_anything_is_read(client: TestClient, length: str) -> None:
    refused = client.post(ADDRESS, content=b"x", headers={"content-type": "image/png", "content-length": length})
    assert refused.status_code == 413
