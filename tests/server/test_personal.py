"""Favourites, notes, saved searches, folded takes and people over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.library.people import forget_everyone, name_person
from evenreel.server import ServeSettings, make_app
from tests.faces.drawn_faces import write_models, write_people
from tests.library.damage import forget_own
from tests.library.videos import write_video
from tests.server.conftest import QUIET, Served, make_own, wait_for_model
from tests.server.test_api import ask, clip_named


@pytest.fixture(scope="module")
def own(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rendered videos with two takes of the star, in a library that may be written to."""
    return make_own(tmp_path_factory.mktemp("own"), served)


@pytest.fixture
def visitor(own: Path, served: Served) -> Iterator[TestClient]:
    """A visitor; what earlier ones kept is gone."""
    forget_own(own / "library")
    with TestClient(make_app(own / "library", served.settings), base_url="http://127.0.0.1:8765") as one:
        wait_for_model(one)
        yield one


def names(found: list[dict[str, Any]]) -> list[str]:
    return [one["name"] for one in found]


def test_a_mark_is_written_listed_filtered_by_and_deleted(visitor: TestClient, own: Path) -> None:
    heart = clip_named(visitor, "heart")
    said = visitor.post(f"/api/v1/clips/{heart}/mark", json={"favourite": True, "note": "<b>blue</b>\nheart"})
    assert said.status_code == 200
    visitor.post(f"/api/v1/clips/{heart}/mark", json={"time_s": 1.5, "note": "here"})
    whole, moment = ask(visitor, "/api/v1/marks")
    assert whole == said.json()
    assert (whole["name"], whole["folder"], whole["state"], whole["favourite"]) == ("heart.mp4", "", "here", True)
    assert whole["note"] == "<b>blue</b>\nheart"
    assert (moment["time_s"], moment["note"], moment["favourite"]) == (1.5, "here", False)
    assert visitor.get(moment["still"]).headers["content-type"] == "image/jpeg"
    assert names(ask(visitor, "/api/v1/search", q="a star", where="favourite")["hits"]) == ["heart.mp4"]
    assert names(ask(visitor, "/api/v1/browse", where="note like '%here%'")["clips"]) == ["heart.mp4"]
    assert str(own) not in visitor.get("/api/v1/marks").text
    assert visitor.delete(f"/api/v1/clips/{heart}/mark").status_code == 204
    assert visitor.delete(f"/api/v1/clips/{heart}/mark").status_code == 404
    assert [mark["note"] for mark in ask(visitor, "/api/v1/marks")] == ["here"]
    assert ask(visitor, "/api/v1/search", q="a star", where="favourite")["hits"] == []
    visitor.post(f"/api/v1/clips/{heart}/mark", json={"time_s": 1.5, "note": ""})
    assert ask(visitor, "/api/v1/marks") == []


def test_a_saved_search_says_what_is_new(visitor: TestClient, own: Path) -> None:
    saved = visitor.post("/api/v1/saved", json={"query": '"comet"', "name": "comets"})
    assert saved.status_code == 200
    assert visitor.post("/api/v1/saved", json={"query": "x", "name": "comets"}).status_code == 400
    assert ask(visitor, "/api/v1/saved") == [saved.json()]
    assert ask(visitor, "/api/v1/saved/news", name="comets") == {"name": "comets", "new": []}
    write_video(own / "videos" / "comet.mp4", 99)
    index_folders([own / "videos"], own / "library", QUIET)
    new = [clip_named(visitor, "comet")]
    assert [ask(visitor, "/api/v1/saved/news", name="comets")["new"] for _ in range(2)] == [new, new]
    assert visitor.post("/api/v1/saved/seen", params={"name": "comets"}).json()["new"] == new
    assert ask(visitor, "/api/v1/saved/news", name="comets")["new"] == []
    assert visitor.delete("/api/v1/saved", params={"name": "comets"}).status_code == 204
    assert visitor.delete("/api/v1/saved", params={"name": "comets"}).status_code == 404
    (own / "videos" / "comet.mp4").unlink()
    index_folders([own / "videos"], own / "library", QUIET)


def test_takes_fold_under_the_best_of_them(visitor: TestClient) -> None:
    folded = ask(visitor, "/api/v1/search", q="a red star on a beach", k=4)["hits"]
    flat = ask(visitor, "/api/v1/search", q="a red star on a beach", k=5, fold="false")["hits"]
    assert len(folded) == 4 and len(flat) == 5
    (head,) = (hit for hit in folded if hit["folded"])
    (under,) = head["folded"]
    assert {head["name"], under["name"]} == {"star.mp4", "star trimmed.mp4"}
    assert [hit["clip_id"] for hit in flat if hit["clip_id"] != under["clip_id"]] == [hit["clip_id"] for hit in folded]
    assert 0 <= under["distance"] < 0.05
    assert under["reason"] in {"take", "part", "whole"} and (under["from_s"] is None) == (under["reason"] == "take")
    assert visitor.get(under["still"]).status_code == 200


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Ada in two clips, Bob in one, by words alone."""
    for number in range(2):
        write_people(tmp_path / "videos" / f"ada_{number}.mp4", [{(0, 0): 0}], grey=60 + 20 * number)
    write_people(tmp_path / "videos" / "bob.mp4", [{(0, 0): 1}])
    settings = IndexSettings(model=None, read_text=False, workers=1)
    models = write_models(tmp_path / "models")
    index_folders(tmp_path / "videos", tmp_path / "library", replace(settings, people=True, face_models=models))
    return tmp_path / "library"


def row_of_people(client: TestClient) -> list[tuple[str, int]]:
    facets = ask(client, "/api/v1/stats")["facets"]
    return [(one["value"], one["clips"]) for facet in facets if facet["column"] == "people" for one in facet["values"]]


def hits(client: TestClient, **query: str) -> list[str]:
    return sorted(names(ask(client, "/api/v1/search", **query)["hits"]))


def test_people_are_offered_searched_and_gone_when_they_are_forgotten(library: Path) -> None:
    app = make_app(library, ServeSettings(vision=False))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert row_of_people(client) == []  # nobody has a name
        name_person(library, "1", "Ada King")
        assert row_of_people(client) == [("Ada King", 2)]
        face = client.get("/api/v1/people/still", params={"who": "ada king"})
        assert (face.content[:2], face.headers["cache-control"]) == (b"\xff\xd8", "no-store")
        assert client.get("/api/v1/people/still", params={"who": "zoe"}).status_code == 404
        assert hits(client, q="person:ada") == ["ada_0.mp4", "ada_1.mp4"]
        assert hits(client, q="mp4", where="people = 'Ada King'") == ["ada_0.mp4", "ada_1.mp4"]
        assert hits(client, q="person:ada mp4", where="name = 'ada_1.mp4'") == ["ada_1.mp4"]
        listed = client.get("/api/v1/browse", params={"where": "people is null"}).json()
        assert [clip["name"] for clip in listed["clips"]] == ["bob.mp4"]
        unknown = client.get("/api/v1/search", params={"q": "person:zoe"})
        assert (unknown.status_code, "Nobody is called 'zoe'" in unknown.text) == (400, True)
        forget_everyone(library)
        assert row_of_people(client) == []
        assert client.get("/api/v1/people/still", params={"who": "Ada King"}).status_code == 400
        gone = client.get("/api/v1/search", params={"q": "person:ada"})
        assert (gone.status_code, "knows no people" in gone.text) == (400, True)


@pytest.mark.parametrize(
    ("clip_id", "body", "status"),
    [
        ("f" * 32, {"favourite": True}, 404),
        ("star", {"favourite": True}, 422),
        (None, {"note": "x" * 10_001}, 422),
        (None, {"time_s": -1}, 422),
        (None, {"favourite": "perhaps"}, 422),
    ],
)
def test_a_wrong_mark_is_refused_in_a_sentence(
    visitor: TestClient, clip_id: str | None, body: dict[str, object], status: int
) -> None:
    answer = visitor.post(f"/api/v1/clips/{clip_id or clip_named(visitor, 'star')}/mark", json=body)
    assert answer.status_code == status
    assert answer.json()["detail"]
    assert ask(visitor, "/api/v1/marks") == []


def test_other_sites_write_nothing(visitor: TestClient) -> None:
    star = clip_named(visitor, "star")
    for method, path in (("POST", f"/clips/{star}/mark"), ("DELETE", f"/clips/{star}/mark"), ("POST", "/saved")):
        answer = visitor.request(method, f"/api/v1{path}", json={}, headers={"origin": "https://elsewhere.example"})
        assert answer.status_code == 403
    assert ask(visitor, "/api/v1/marks") == []
