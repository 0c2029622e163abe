"""Pictures that visitors send: one that never ends costs no more than its own time."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from starlette.requests import Request
from starlette.testclient import TestClient

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError
from evenreel.server import ServeSettings, make_app
from evenreel.server import pictures as uploads

from .conftest import PATIENCE_S, Served, wait_for_model, wait_until

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
    monkeypatch.setattr("evenreel.library.search.image.READER", HANGING)
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


def test_so_many_wait_and_no_more(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "QUEUED", uploads.DECODING)
    with (
        visiting(served, monkeypatch, 0.5) as visitor,
        hanging(visitor, tmp_path / "all", uploads.DECODING) as answers,
    ):
        status, sentence = send(visitor, star())
        assert (status, "try again" in sentence) == (503, True)
    assert [status for status, _ in answers] == [400] * uploads.DECODING


def test_the_server_ends_while_a_picture_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that decodes cannot be ended, so Ctrl-C would wait for it."""
    monkeypatch.setattr("evenreel.library.search.image.READER", HANGING)
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
