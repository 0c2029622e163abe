"""`evenreel people` and `evenreel index --people` as they are typed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from evenreel.faces.models import DETECTOR, RECOGNISER
from evenreel.library.people.editing import name_person
from evenreel.library.people.listing import list_people
from tests.faces.drawn_faces import write_models, write_people
from tests.in_process import run_here


def run(*arguments: object, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {"EVENREEL_LIBRARY": str(home / "library"), "COLUMNS": "200"}
    return run_here(*map(str, arguments), environment=environment)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `videos`, `models`, and a `library` of words alone that the real command made."""
    home = tmp_path_factory.mktemp("home")
    write_models(home / "models")
    for number in range(3):
        write_people(home / "videos" / f"ada_{number}.mp4", [{(0, 0): 0}, {(1, 3): 0}], grey=60 + 20 * number)
    write_people(home / "videos" / "bob.mp4", [{(0, 0): 1}])
    done = run(
        "index",
        home / "videos",
        "--no-vision",
        "--no-ocr",
        "--people",
        "--set",
        f"face_models={home / 'models'}",
        home=home,
    )
    assert done.returncode == 0, done.stderr
    assert "4 clips looked at for people" in done.stdout
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A copy whose library may be changed."""
    shutil.copytree(made / "library", tmp_path / "library")
    return tmp_path


def test_people_are_listed_named_searched_and_forgotten(home: Path) -> None:
    done = run("people", "--sheet", home / "people.jpg", home=home)
    assert done.returncode == 0, done.stderr
    person, more = (line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit())
    assert person == ["1", "6", "3"] and more[:2] == ["1", "more"]
    assert (home / "people.jpg").read_bytes().startswith(b"\xff\xd8")
    named = run("people", "--name", "1", "Ada King", home=home)
    assert named.stdout.split("\n")[0] == "Named: Ada King, number 1: 6 faces in 3 clips."
    found = run("search", "person:ada", "--json", home=home)
    assert {Path(hit["path"]).name for hit in json.loads(found.stdout)["hits"]} == {f"ada_{n}.mp4" for n in range(3)}
    forgotten = run("people", "--forget", "ada king", home=home)
    assert "Ada King is forgotten (6 faces in 3 clips)" in forgotten.stdout
    unknown = run("search", "person:ada", home=home)
    assert unknown.returncode == 2 and "Nobody is called 'ada'" in unknown.stderr
    everyone = run("people", "--forget", "ALL", "--json", home=home)
    assert json.loads(everyone.stdout) == {"forgotten": 1, "everyone": True}
    gone = run("people", home=home)
    assert gone.returncode == 2 and "No people were looked for" in gone.stderr


def test_the_faces_of_a_person_are_listed_with_their_numbers_to_correct(home: Path) -> None:
    name_person(home / "library", "1", "Ada")
    listed = json.loads(run("people", "--faces", "ada", "--json", home=home).stdout)
    assert len(listed) == 6
    wrong = run("people", "--not", listed[0]["number"], home=home)
    assert wrong.stdout.startswith(f"Face {listed[0]['number']} is now of person ")
    shown = run("people", "--faces", "ada", home=home).stdout
    assert shown.count(".mp4") == 5
    merged = run("people", "--merge", "ada", "2", home=home)
    assert merged.stdout.startswith("Merged: Ada, number 1: 6 faces in 4 clips.")
    split = run("people", "--split", "ada", "--json", home=home)
    assert [(one["name"], one["faces"]) for one in json.loads(split.stdout)] == [("Ada", 5), (None, 1)]
    assert [one.name for one in list_people(home / "library")] == ["Ada"]


def test_a_wrong_call_is_told_in_a_sentence_and_changes_nothing(home: Path) -> None:
    for arguments, said in (
        (["--name", "1", "Ada", "--split", "1"], "one change each"),
        (["--forget", "1", "--all"], "leave them out where something is changed"),
        (["--forget", "Zoe"], "Nobody is called 'Zoe'"),
    ):
        done = run("people", *arguments, home=home)
        assert done.returncode in (1, 2) and said in done.stderr
    assert [one.faces for one in list_people(home / "library", everyone=True)] == [6, 1]


def test_models_that_are_not_there_are_asked_for_and_nothing_is_fetched(made: Path, tmp_path: Path) -> None:
    done = run("index", made / "videos", "--no-vision", "--no-ocr", "--people", home=tmp_path)
    assert done.returncode == 1
    for part in (DETECTOR.name, DETECTOR.sha256, RECOGNISER.name, RECOGNISER.sha256, "github.com/opencv/opencv_zoo"):
        assert part in done.stderr
    assert not (tmp_path / "library").exists()
