"""Stills that were kept when a clip was indexed are sent without decoding anything."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

from evenreel.server import make_app
from evenreel.server.pictures import Pictures
from tests.server.conftest import Served, wait_for_model


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


def test_a_larger_picture_is_decoded(visitor: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    (hit,) = visitor.get("/api/v1/search", params={"q": "heart"}).json()["hits"]
    asked: list[int] = []
    still = Pictures.still

    async def counted(self: Pictures, clip_id: str, file: object, time_s: float, width: int) -> bytes:
        asked.append(width)
        return await still(self, clip_id, file, time_s, width)  # type: ignore[arg-type]

    monkeypatch.setattr(Pictures, "still", counted)
    for width in (160, 320, 640):
        found = visitor.get(f"/api/v1/clips/{hit['clip_id']}/still", params={"t": 2.0, "width": width})
        assert size(found.content)[0] <= width
    assert asked == [160, 640]


def test_a_clip_whose_file_is_gone_is_still_shown(visitor: TestClient, served: Served) -> None:
    (hit,) = visitor.get("/api/v1/search", params={"q": "cross"}).json()["hits"]
    gone = served.videos / "cross.mp4"
    gone.rename(served.videos / "cross.away")
    try:
        assert visitor.get(hit["still"]).status_code == 200
        assert visitor.get(hit["still"] + "&width=640").status_code == 404
    finally:
        (served.videos / "cross.away").rename(gone)
