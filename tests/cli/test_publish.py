"""`evenreel publish`, and what reads a published snapshot from the command line and over HTTP."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evenreel.library import publish_library
from evenreel.library.snapshot.following import FollowedLibrary
from evenreel.server import ServeSettings, make_app
from tests.cli.test_library_commands import here
from tests.library.snapshot.libraries import make_library
from tests.server.conftest import wait_for_model, wait_until


def test_a_library_is_published_described_searched_and_served(tmp_path: Path) -> None:
    home = make_library(tmp_path / "library", seed=7, clips=12)
    place, cache = str(tmp_path / "published"), str(tmp_path / "cache")
    published = here("publish", "-l", str(home), "--to", place, "--json")
    assert published.returncode == 0, published.stderr
    report = json.loads(published.stdout)
    assert (report["clips"], report["to"]) == (12, place)
    told = here("info", "-l", place, "--snapshot-cache", cache)
    assert f"published snapshot {report['id']}" in told.stdout
    about = json.loads(here("info", "-l", place, "--snapshot-cache", cache, "--json").stdout)
    assert about["snapshot"]["id"] == report["id"] and about["library"] == place
    found = json.loads(here("search", "bus", "--no-vision", "-l", place, "--snapshot-cache", cache, "--json").stdout)
    own = json.loads(here("search", "bus", "--no-vision", "-l", str(home), "--json").stdout)
    assert found == own
    refused = here("verify", "--repair", "-l", place)
    assert refused.returncode == 1 and "is a published snapshot, which is only read" in refused.stderr
    settings = ServeSettings(vision=False, cache=tmp_path / "pictures", snapshot_cache=Path(cache))
    with TestClient(make_app(Path(place), settings), base_url="http://127.0.0.1:8765") as visitor:
        wait_for_model(visitor)
        answer = visitor.get("/api/v1/search", params={"q": "bus"}).json()
        assert [hit["clip_id"] for hit in answer["hits"]] == [hit["clip_id"] for hit in own["hits"]]
        gone = visitor.get(f"/api/v1/clips/{own['hits'][0]['clip_id']}/media")
        assert gone.status_code == 404 and "A published snapshot has no videos" in gone.json()["detail"]
        assert "A published snapshot is only read" in visitor.post("/api/v1/retry").json()["sentence"]


def test_a_server_takes_up_what_is_published_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = partial(FollowedLibrary, every_s=0.05)
    monkeypatch.setattr("evenreel.server.desk.FollowedLibrary", quick)
    home, place = make_library(tmp_path / "library", seed=7, clips=6), tmp_path / "published"
    publish_library(home, place)
    settings = ServeSettings(vision=False, cache=tmp_path / "pictures", snapshot_cache=tmp_path / "cache")
    with TestClient(make_app(place, settings), base_url="http://127.0.0.1:8765") as visitor:
        wait_for_model(visitor)
        assert visitor.get("/api/v1/stats").json()["clips"] == 6
        publish_library(make_library(tmp_path / "larger", seed=8, clips=9), place)
        wait_until(lambda: visitor.get("/api/v1/stats").json()["clips"] == 9)
        (place / "current.json").write_text("{")
        assert visitor.get("/api/v1/search", params={"q": "bus"}).status_code == 200


def test_without_the_extra_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_library(tmp_path / "library", seed=7, clips=4)
    monkeypatch.setitem(sys.modules, "lance", None)
    done = here("publish", "-l", str(home), "--to", str(tmp_path / "published"))
    assert done.returncode == 1 and "lance, which is not installed: pip install 'evenreel[scale]'" in done.stderr
