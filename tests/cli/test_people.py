"""`evenreel people` and `evenreel index --people` as they are typed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from evenreel.library.people import list_people
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
    models = ("--people", "--set", f"face_models={home / 'models'}")
    done = run("index", home / "videos", "--no-vision", "--no-ocr", *models, home=home)
    assert done.returncode == 0, done.stderr
    assert "4 clips looked at for people" in done.stdout
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """A copy whose library may be changed."""
    shutil.copytree(made / "library", tmp_path / "library")
    return tmp_path


def test_people_are_listed_named_searched_and_forgotten(home: Path) -> None:
    done = run("people", "--stills", home / "stills", home=home)
    assert done.returncode == 0, done.stderr
    person, more = (line.split() for line in done.stdout.splitlines() if line.strip()[:1].isdigit())
    assert person == ["1", "6", "3"] and more[:2] == ["1", "more"]
    assert [path.name for path in (home / "stills").iterdir()] == ["1.jpg"]
    assert (home / "stills" / "1.jpg").read_bytes().startswith(b"\xff\xd8")
    named = run("people", "--name", "1", "Ada King", home=home)
    assert named.stdout.split("\n")[0] == "Named: Ada King, number 1, 6 faces in 3 clips."
    found = run("search", "person:ada", "--json", home=home)
    assert {Path(hit["path"]).name for hit in json.loads(found.stdout)["hits"]} == {f"ada_{n}.mp4" for n in range(3)}
    merged = json.loads(run("people", "--merge", "ada king", "2", "--json", home=home).stdout)
    assert (merged["name"], merged["faces"], merged["clips"]) == ("Ada King", 7, 4)
    forgotten = run("people", "--forget", "ada king", home=home)
    assert "Ada King, number 1, 7 faces in 4 clips: forgotten" in forgotten.stdout
    unknown = run("search", "person:ada", home=home)
    assert unknown.returncode == 2 and "Nobody is called 'ada'" in unknown.stderr
    everyone = run("people", "--forget", "ALL", "--json", home=home)
    assert json.loads(everyone.stdout) == {"forgotten": 0, "everyone": True}
    gone = run("people", home=home)
    assert gone.returncode == 2 and "No people were looked for" in gone.stderr


def test_a_wrong_call_is_told_in_a_sentence_and_changes_nothing(home: Path) -> None:
    for arguments, said in (
        (["--name", "1", "Ada", "--forget", "1"], "one change each"),
        (["--forget", "1", "--all"], "leave them out where something is changed"),
        (["--forget", "Zoe"], "Nobody is called 'Zoe'"),
    ):
        done = run("people", *arguments, home=home)
        assert done.returncode in (1, 2) and said in done.stderr
    assert [one.faces for one in list_people(home / "library", everyone=True)] == [6, 1]
