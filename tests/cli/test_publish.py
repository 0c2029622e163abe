"""`evenreel publish`, and what reads a published snapshot from the command line and over HTTP."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evenreel.library import published
from evenreel.server import ServeSettings, make_app
from tests.cli.test_library_commands import here
from tests.library.videos import write_folder
from tests.library.words_only import index
from tests.server.conftest import wait_for_model, wait_until


def library(folder: Path, count: int) -> Path:
    write_folder(folder / "videos", count)
    index(folder / "videos", folder / "library")
    return folder / "library"


def test_a_library_is_published_described_searched_served_and_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "EVERY_S", 0.05)
    home, place, cache = library(tmp_path, 3), str(tmp_path / "published"), str(tmp_path / "cache")
    done = here("publish", "-l", str(home), "--to", place, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["to"] == place and report["sent_bytes"] == report["bytes"]
    assert f"published snapshot {report['id']}" in here("info", "-l", place, "--snapshot-cache", cache).stdout
    about = json.loads(here("info", "-l", place, "--snapshot-cache", cache, "--json").stdout)
    assert (about["snapshot"]["id"], about["library"], about["clips"]) == (report["id"], place, 3)
    found = here("search", "clip", "--no-vision", "-l", place, "--snapshot-cache", cache, "--json").stdout
    own = here("search", "clip", "--no-vision", "-l", str(home), "--json").stdout
    assert found == own and len(json.loads(own)["hits"]) == 3
    nowhere = here("publish", "-l", str(home))
    assert nowhere.returncode == 2 and "--engine ADDRESS" in nowhere.stderr
    refused = here("verify", "--repair", "-l", place)
    assert refused.returncode == 1 and "is a published snapshot, which is only read" in refused.stderr
    settings = ServeSettings(vision=False, cache=tmp_path / "pictures", snapshot_cache=Path(cache))
    with TestClient(make_app(Path(place), settings), base_url="http://127.0.0.1:8765") as visitor:
        wait_for_model(visitor)
        answer = visitor.get("/api/v1/search", params={"q": "clip"}).json()
        assert [hit["clip_id"] for hit in answer["hits"]] == [hit["clip_id"] for hit in json.loads(own)["hits"]]
        assert "A published snapshot is only read" in visitor.post("/api/v1/retry").json()["sentence"]
        (tmp_path / "videos" / "clip_00.mp4").rename(tmp_path / "gone.mp4")
        clip = next(hit for hit in json.loads(own)["hits"] if "clip_00" in json.dumps(hit))["clip_id"]
        gone = visitor.get(f"/api/v1/clips/{clip}/media")
        assert gone.status_code == 404 and "A published snapshot has no videos" in gone.json()["detail"]
        library(tmp_path, 4)
        assert here("publish", "-l", str(home), "--to", place).returncode == 0
        wait_until(lambda: visitor.get("/api/v1/stats").json()["clips"] == 4)
        Path(place, "current.json").write_text("{")
        assert visitor.get("/api/v1/search", params={"q": "clip"}).status_code == 200


@pytest.mark.parametrize(("package", "to"), [("fsspec", "published"), ("s3fs", "s3://films/x")])
def test_without_the_extra_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, to: str
) -> None:
    home = library(tmp_path, 1)
    monkeypatch.setitem(sys.modules, package, None)
    done = here("publish", "-l", str(home), "--to", to if ":" in to else str(tmp_path / to))
    assert done.returncode == 1 and f"{package}, which is not installed: pip install 'evenreel[scale]'" in done.stderr
