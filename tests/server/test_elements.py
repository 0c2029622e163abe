"""What clips show, in phrases of a dictionary: found by the command, told by searches, API and records, filtered by."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenreel.library import open_library
from evenreel.planted import vocabulary
from evenreel.server import make_app
from tests.cli.test_library_commands import here, printed_json
from tests.server.conftest import Served, wait_for_model
from tests.server.test_api import ask

THINGS = [f"{colour} {shape}" for colour in vocabulary.colours() for shape in vocabulary.shapes()]
PLACES = list(vocabulary.backgrounds())
SHOWN = {
    "star.mp4": ("red star", "beach"),
    "heart.mp4": ("blue heart", "forest"),
    "cross.mp4": ("green cross", "city"),
    "circle <b>.mp4": ("orange circle", "mountains"),
}


@pytest.fixture(scope="module")
def place(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the served library, whose elements were found by the command."""
    folder = tmp_path_factory.mktemp("elements")
    shutil.copytree(served.library, folder / "library")
    (folder / "things.txt").write_text("\n".join([*THINGS, *PLACES]), encoding="utf-8")
    told = printed_json(
        here("elements", "--library", folder / "library", "--entities", folder / "things.txt", "--json")
    )
    assert (told["entities"], told["activities"], told["clips"]) == (len(THINGS) + len(PLACES), 0, 4)
    assert told["source"] == "things.txt"
    return folder / "library"


@pytest.fixture(scope="module")
def tagged(place: Path, served: Served) -> Iterator[TestClient]:
    """A visitor of it."""
    with TestClient(make_app(place, served.settings), base_url="http://127.0.0.1:8765") as visitor:
        wait_for_model(visitor)
        yield visitor


def phrases(found: dict[str, Any]) -> list[str]:
    return [element["phrase"] for element in found["elements"]]


def test_elements_of_a_planted_world_are_right_far_more_often_than_chance(tagged: TestClient) -> None:
    hits = ask(tagged, "/api/v1/search", q="a large shape", k=4)["hits"]
    right = [phrase in SHOWN[hit["name"]] for hit in hits for phrase in phrases(hit)]
    assert len(right) >= 4
    assert sum(right) / len(right) > 0.5  # by chance 1 in 36
    named = [thing for hit in hits for thing in SHOWN[hit["name"]] if thing in phrases(hit)]
    assert len(named) >= 5


def test_answers_tell_them_and_filters_go_by_them(tagged: TestClient) -> None:
    (hit,) = ask(tagged, "/api/v1/search", q="a shape", where="element = 'red star'")["hits"]
    assert hit["name"] == "star.mp4"
    first = hit["elements"][0]
    assert (first["kind"], first["score"] > 3) == ("entity", True)
    assert ask(tagged, f"/api/v1/clips/{hit['clip_id']}")["elements"] == hit["elements"]
    assert ask(tagged, "/api/v1/search", q="a shape", where="element = 'unicorn'")["hits"] == []
    (facet,) = [facet for facet in ask(tagged, "/api/v1/stats")["facets"] if facet["column"] == "element"]
    assert facet["label"] == "scene element"
    assert {"value": "red star", "clips": 1} in facet["values"]
    refused = tagged.get("/api/v1/search", params={"q": "a shape", "where": "element > 'a'"})
    assert (refused.status_code, "have no order" in refused.json()["detail"]) == (400, True)


def test_without_a_dictionary_there_are_none(client: TestClient) -> None:
    hits = ask(client, "/api/v1/search", q="a large shape", k=4)["hits"]
    assert [hit["elements"] for hit in hits] == [[]] * 4
    refused = client.get("/api/v1/search", params={"q": "a shape", "where": "element = 'red star'"})
    assert (refused.status_code, "evenreel elements --library" in refused.json()["detail"]) == (400, True)


def test_a_person_reads_what_was_found_and_can_have_it_forgotten(place: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    shutil.copytree(place, library)
    (tmp_path / "things.txt").write_text("red star\nblue heart\n[b]\n", encoding="utf-8")
    done = here("elements", "--library", library, "--entities", tmp_path / "things.txt")
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("of 4 clips of", "3 entities, 0 activities", "the dictionary has none", "element = 'blue heart'"):
        assert words in done.stdout
    found = here("search", "a red star", "--library", library, "-k", "1", "--where", "element = 'red star'")
    assert "      shows " in found.stdout and "red star" in found.stdout
    assert here("elements", "--library", library, "--forget").stdout.endswith("has no scene elements any more.\n")
    with open_library(library, vision=False) as opened:
        assert opened.stats().with_elements is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--library", "LIBRARY", "--out", "x", "--top", "3"), "own model, and takes no --out and no --top."),
        (("--library", "LIBRARY", "--replace"), "and takes no --replace."),
        (("corpus", "--library", "LIBRARY"), "takes no CORPUS. To look for what captions name"),
        (("--forget",), "name it with --library"),
        (("--forget", "--library", "LIBRARY", "--packaged"), "looks for no phrases, and --packaged names some"),
        (("--library", "LIBRARY", "--packaged", "--text", "x"), "Give one of these"),
    ],
)
def test_what_does_not_go_together_is_refused(place: Path, options: tuple[str, ...], sentence: str) -> None:
    done = here("elements", *(str(place) if option == "LIBRARY" else option for option in options))
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


def test_a_library_that_is_none_is_not_made(tmp_path: Path) -> None:
    done = here("elements", "--library", tmp_path / "none", "--packaged")
    assert (done.returncode, "There is no library at" in done.stderr) == (1, True)
    assert not (tmp_path / "none").exists()
