"""On-screen text from mp4 files to the order of a search: signs are read, TCD re-ranks, and its parts say why.

The clips of a group show the same scene, and each another word: only what is read tells them apart.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.planted import write_scene
from tests.trained_tcd import RULE, signs_plan, train_tcd

CLIPS = {clip.clip_id: clip for clip in signs_plan().split("test")[:8]}
WORDS = {clip_id: clip.scene.signs[0].text for clip_id, clip in CLIPS.items()}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`read`, a library whose signs were read, `unread`, the same without, and `checkpoint`."""
    place = tmp_path_factory.mktemp("signs")
    (place / "videos").mkdir()
    for clip_id, clip in CLIPS.items():
        write_scene(place / "videos" / f"{clip_id}.mp4", clip.scene)
    for name, read in (("read", True), ("unread", False)):
        settings = IndexSettings(model="builtin", rule=RULE, read_text=read, device="cpu", workers=1)
        index_folders([place / "videos"], place / name, settings)
    train_tcd(place)
    return place


def asked(place: Path, library: str, query: str, *options: str) -> dict[str, Any]:
    words = [query, "--library", str(place / library), "--rerank", str(place / "checkpoint"), "--json", *options]
    done: Result = CliRunner().invoke(app, ["search", "--no-fold", *words])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def by_clip(found: dict[str, Any], name: str) -> dict[str, float]:
    return {Path(hit["path"]).stem: hit["parts"][name] for hit in found["hits"]}


@pytest.mark.parametrize("word", ["STAR", "HEART", "RING", "CIRCLE"])
def test_the_clips_with_the_word_have_the_highest_parts(place: Path, word: str) -> None:
    found = asked(place, "read", f"the sign says {word.lower()}")
    assert {WORDS[Path(hit["path"]).stem] for hit in found["hits"][: list(WORDS.values()).count(word)]} == {word}
    on_screen = by_clip(found, "on_screen")
    shows = {clip_id for clip_id, own in WORDS.items() if own == word}
    assert len(on_screen) == 8
    for group in ("test_00000", "test_00001"):
        own = {clip_id: score for clip_id, score in on_screen.items() if clip_id.startswith(group)}
        if shows & own.keys():
            assert max(own, key=lambda clip_id: own[clip_id]) in shows
    for hit in found["hits"]:
        assert list(hit["parts"]) == ["seen", "on_screen", "both"]
        assert hit["scores"]["reranked"] == pytest.approx(sum(hit["parts"].values()) / 3, abs=1e-3)
    assert found["notices"] == []
    assert not any(hit["none_read"] for hit in found["hits"])


def test_a_terminal_shows_which_words_when_and_the_parts(place: Path) -> None:
    words = ["ring", "--library", str(place / "read"), "--rerank", str(place / "checkpoint"), "-k", "1"]
    done = CliRunner().invoke(app, ["search", "--no-fold", *words])
    assert (done.exit_code, done.stderr) == (0, "")
    answer, path, shown, *rest = done.stdout.splitlines()
    assert "match" in answer
    assert "test_00001_2.mp4" in path
    assert shown.strip().startswith("on screen 0:00") and shown.endswith("RING")
    assert any("matcher: visual match 0." in line and "words on screen 0." in line for line in rest)


def test_without_reading_the_words_nothing_tells_the_clips_apart_and_that_is_said(place: Path) -> None:
    found = asked(place, "unread", "the sign says ring")
    (notice,) = found["notices"]
    assert "on-screen text too, which was read in none of the clips that it ordered" in notice
    group = [score for clip_id, score in by_clip(found, "on_screen").items() if clip_id.startswith("test_00001")]
    assert max(group) - min(group) < 0.1  # the frames show the signs, and the encoder reads a little of them
    assert all(not hit["on_screen"] and hit["none_read"] for hit in found["hits"])
