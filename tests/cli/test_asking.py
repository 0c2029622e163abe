"""`evenreel search` for more than one thing, as a person types it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.planted import Entity, Scene, write_scene
from tests.in_process import run_here

STAR = Scene((Entity("star", "red", "large"),), "moves_right", "beach", duration_s=3.0)
HEART = Scene((Entity("heart", "blue", "large"),), "bounces", "forest", duration_s=3.0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    videos = folder / "videos"
    videos.mkdir()
    for name, scene in (("star.mp4", STAR), ("heart.mp4", HEART)):
        write_scene(videos / name, scene)
    index_folders([videos], folder / "library", IndexSettings(model="builtin", workers=1, read_text=False))
    return folder


def search(place: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    words = map(str, ("search", "--library", place / "library", "--device", "cpu", *arguments))
    return run_here(*words, environment={"COLUMNS": "200"})


def answered(place: Path, *arguments: object) -> dict[str, Any]:
    done = search(place, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_then_is_printed_with_both_times(place: Path) -> None:
    assert ", then 0:0" in search(place, "star, then a star", "--within", 2, "--all").stdout
    found = answered(place, "star, then a star", "--within", 2)
    assert found["steps"] == ["star", "a star"]
    first, second = found["hits"][0]["steps"]
    assert first["time_s"] < second["time_s"] <= first["time_s"] + 2


def test_marks_and_words_beside_a_picture_move_what_is_found(place: Path) -> None:
    star, heart = place / "videos" / "star.mp4", place / "videos" / "heart.mp4"
    found = answered(place, "a shape", "--right", f"{heart}@1", "--wrong", star)
    assert [Path(hit["path"]).name for hit in found["hits"]] == ["heart.mp4"]
    assert Path(answered(place, "--right", star)["hits"][0]["path"]).name == "star.mp4"


def test_what_cannot_be_asked_is_one_sentence(place: Path) -> None:
    for words, sentence in (
        (("a bus then",), "after 'then'"),
        (("a then b then c then d",), "3 times"),
        (("a then b", "--within", "0"), "seconds above 0"),
        (("a bus", "--within", "5"), "gap of two moments"),
        (("a bus", "--right", "nowhere.mp4"), "nowhere.mp4"),
        (("a bus", "--right", "@5"), "names no clip"),
        (("a then b", "--right", "x.mp4"), "leave one of the two out"),
        (("--wrong", "x.mp4"), "Give a sentence, a picture or an example"),
        (("--image", "x.png", "--right", "x.mp4"), "leave --right, --wrong and --within out"),
        (("a bus", "--rerank", "x", "--right", "x.mp4"), "knows of no examples"),
    ):
        done = search(place, *words)
        assert (done.returncode, done.stdout) in {(2, ""), (1, "")} and done.stderr.count("\n") == 1
        assert done.stderr.startswith("evenreel: ") and sentence in done.stderr
