"""`evenreel mark` and `saved`, and a search without words, as a person types them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evenreel.library import index_folders
from tests.in_process import run_here
from tests.library.damage import QUICK, table_of, without_models
from tests.library.videos import write_video

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
    done = told("mark", "videos/boat.mp4", "--note", "the bridge\nat [red]dawn", "--at", "1")
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
        (("mark", "videos/boat.mp4", "--at", "-1"), "no time in a clip"),
        (("mark", "videos/boat.mp4", "--at", "nan"), "no time in a clip"),
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
    assert told("search", "--where", "folder = 'elsewhere'").stdout == "No clip with pictures is there.\n"
    assert told("search").stdout.splitlines()[0].startswith(" 1. ")
