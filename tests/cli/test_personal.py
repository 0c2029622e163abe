from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from evenreel.library import index_folders, published
from evenreel.library.people import list_people
from evenreel.server import ServeSettings, make_app
from tests.cli.test_library_commands import here
from tests.faces.drawn_faces import write_models, write_people
from tests.in_process import run_here
from tests.library.damage import QUICK, table_of, without_models
from tests.library.videos import write_folder, write_video
from tests.library.words_only import index
from tests.server.conftest import wait_for_model, wait_until

NAMES = ("red bus", "blue bus", "boat")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the library of three videos, of which one is there twice, encoded anew."""
    with without_models():
        for number, name in enumerate(NAMES):
            write_video(tmp_path / "videos" / f"{name}.mp4", number)
        write_video(tmp_path / "videos" / "copies" / "boat again.mp4", 2, seconds=1.8)
        index_folders([tmp_path / "videos"], tmp_path / "library", QUICK)
        monkeypatch.chdir(tmp_path)
        yield tmp_path


def told(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_here(*arguments, "--library", "library", environment={"COLUMNS": "200", "NO_COLOR": "1"})


def printed(*arguments: str | Path) -> Any:
    done = told(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_favourites_and_notes(place: Path) -> None:
    assert "no favourites and no notes" in told("mark").stdout
    assert told("mark", "videos/boat.mp4").returncode == 0
    done = told("mark", "videos/boat.mp4", "--note", "the bridge\nat [red]dawn", "--at", "0:01")
    assert f"  {place}/videos/boat.mp4  at 0:01\n      the bridge\n      at [red]dawn\n" in done.stdout
    found = printed("search", "boat", "--where", "favourite")
    assert [Path(hit["path"]).name for hit in found["hits"]] == ["boat.mp4"]
    (place / "videos" / "boat.mp4").rename(place / "videos" / "ship.mp4")
    with without_models():
        index_folders([place / "videos"], place / "library", QUICK)
    assert [Path(mark["path"]).name for mark in printed("mark")] == ["ship.mp4", "ship.mp4"]
    assert len(printed("mark", "videos/ship.mp4", "--remove")) == 1
    assert printed("mark", "videos/ship.mp4", "--note", "", "--at", "1") == []


def test_what_is_wrong_is_said_in_a_sentence(place: Path) -> None:
    for words, said in (
        (("mark", "nobody.mp4"), "The library has no clip"),
        (("mark", "--remove"), "Name the clip"),
        (("mark", "--note", "x"), "Name the clip"),
        (("mark", "videos/boat.mp4", "--at", "-1"), "'-1' is no time"),
        (("mark", "videos/boat.mp4", "--at", "soon"), "'soon' is no time; write seconds (75.5), 1:15.5 or 1:02:03."),
        (("mark", "videos/boat.mp4", "--at", "900"), "900 s is after the end of the clip, which is 2.00 s long"),
        (("mark", "videos/boat.mp4", "--note", "x" * 10_001), "at most 10,000"),
        (("saved", "add", ""), "empty"),
        (("saved", "add", "bus", "--where", "colour = 'red'"), "no column 'colour'"),
        (("saved", "run", "nobody"), "no saved search 'nobody'"),
        (("saved", "remove", "nobody"), "no saved search 'nobody'"),
        (("search", "--where", "colour = 'red'"), "no column 'colour'"),
        (("search", "--no-vision"), "need a sentence, a picture or an example"),
    ):
        done = told(*words)
        assert done.returncode != 0 and said in done.stderr and "Traceback" not in done.stderr
    assert not table_of(place / "library", "marks") + table_of(place / "library", "searches")


def test_saved_searches(place: Path) -> None:
    assert "No search is saved" in told("saved", "list").stdout
    assert "2 clips found now" in told("saved", "add", '"bus"', "--name", "buses").stdout
    assert "There is a saved search" in told("saved", "add", "x", "--name", "buses").stderr
    assert told("saved", "list").stdout.startswith('buses: "bus"')
    write_video(place / "videos" / "green bus.mp4", 30)
    with without_models():
        index_folders([place / "videos"], place / "library", QUICK)
    assert len(printed("saved", "run", "buses", "--keep")["new"]) == 1
    done = told("saved", "run", "buses")
    assert done.stdout.startswith("buses: 1 new since 20")
    assert "green bus.mp4" in done.stdout and "red bus.mp4" not in done.stdout
    assert "3 clips found in all (--all shows them)" in told("saved", "run", "buses").stdout
    done = told("saved", "run", "buses", "--all")
    assert "buses: 0 new" in done.stdout and "red bus.mp4" in done.stdout
    assert told("saved", "remove", "buses").stdout == "Removed buses.\n"
    assert printed("saved", "list") == []


def test_takes_are_folded_unless_that_is_not_wanted(place: Path) -> None:
    folded, flat = (printed("search", "boat", "-k", "4", *more)["hits"] for more in ((), ("--no-fold",)))
    assert len(flat) == 4 and not any(hit["folded"] for hit in flat)
    assert len([hit for hit in folded if hit["folded"]]) == 1
    shown = told("search", "boat", "--all").stdout
    assert "nearly the same:" in shown and "(--no-fold shows all)" in shown


def test_without_words_the_clips_that_are_unlike_the_rest_are_shown(place: Path) -> None:
    found = printed("search", "-k", "3")
    assert (found["compared"], found["total"], len(found["clips"])) == (4, 4, 3)
    kinds = {Path(clip["path"]).stem.removesuffix(" again") for clip in found["clips"]}
    assert kinds == set(NAMES)
    only = printed("search", "--where", "folder = 'copies'")
    assert [Path(clip["path"]).name for clip in only["clips"]] == ["boat again.mp4"]
    assert "There are no highlights" in told("search", "--where", "folder = 'elsewhere'").stdout
    heading, first = told("search").stdout.splitlines()[:2]
    assert heading.startswith("Highlights") and first.startswith(" 1. ")


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
        assert gone.status_code == 404 and "a published snapshot has no videos" in gone.json()["detail"]
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
    if registry := sys.modules.get("fsspec.registry"):  # it remembers what another test has loaded
        monkeypatch.delitem(registry._registry, "s3", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    done = here("publish", "-l", str(home), "--to", to if ":" in to else str(tmp_path / to))
    assert done.returncode == 1 and f"{package}, which is not installed: pip install 'evenreel[scale]'" in done.stderr
