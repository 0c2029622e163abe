"""People over HTTP: a row of the filters where somebody has a name, `person:` in a query, and gone when forgotten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.library.people import forget_everyone, name_person
from evenreel.server import ServeSettings, make_app
from tests.faces.drawn_faces import write_models, write_people


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
    facets = client.get("/api/v1/stats").json()["facets"]
    return [(one["value"], one["clips"]) for facet in facets if facet["column"] == "people" for one in facet["values"]]


def names(client: TestClient, **query: str) -> list[str]:
    answer = client.get("/api/v1/search", params=query)
    assert answer.status_code == 200, answer.text
    return sorted(hit["name"] for hit in answer.json()["hits"])


def test_people_are_offered_searched_and_gone_when_they_are_forgotten(library: Path) -> None:
    app = make_app(library, ServeSettings(vision=False))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert row_of_people(client) == []  # nobody has a name
        name_person(library, "1", "Ada King")
        assert row_of_people(client) == [("Ada King", 2)]
        face = client.get("/api/v1/people/still", params={"who": "ada king"})
        assert (face.content[:2], face.headers["cache-control"]) == (b"\xff\xd8", "no-store")
        assert client.get("/api/v1/people/still", params={"who": "zoe"}).status_code == 404
        assert names(client, q="person:ada") == ["ada_0.mp4", "ada_1.mp4"]
        assert names(client, q="mp4", where="people = 'Ada King'") == ["ada_0.mp4", "ada_1.mp4"]
        assert names(client, q="person:ada mp4", where="name = 'ada_1.mp4'") == ["ada_1.mp4"]
        listed = client.get("/api/v1/browse", params={"where": "people is null"}).json()
        assert [clip["name"] for clip in listed["clips"]] == ["bob.mp4"]
        unknown = client.get("/api/v1/search", params={"q": "person:zoe"})
        assert (unknown.status_code, "Nobody is called 'zoe'" in unknown.text) == (400, True)
        forget_everyone(library)
        assert row_of_people(client) == []
        assert client.get("/api/v1/people/still", params={"who": "Ada King"}).status_code == 400
        gone = client.get("/api/v1/search", params={"q": "person:ada"})
        assert (gone.status_code, "knows no people" in gone.text) == (400, True)
