"""`evenreel corpus edit` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.errors import UsageError
from evenreel.planted import write_clip
from tests.test_cli import evenreel


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of a clip that brightens, and of one that is no video."""
    place = tmp_path_factory.mktemp("edit")
    write_clip(place / "a.mp4", [np.full((32, 48, 3), 40 * number, np.uint8) for number in range(5)], fps=5)
    (place / "b.mp4").write_bytes(b"this is no video")
    clips = pl.DataFrame({"clip_id": ["a", "b"], "path": ["a.mp4", "b.mp4"], "split": ["test", "train"]})
    captions = pl.DataFrame({"caption_id": ["0", "1"], "clip_id": ["a", "b"], "text": ["a wall", "a wall"]})
    save_corpus(make_corpus(clips, captions), place)
    return place


def test_clips_are_written_and_what_is_no_video_is_set_aside(place: Path, tmp_path: Path) -> None:
    words = ("corpus", "edit", place, "--remove", "motion", "--out", tmp_path / "still")
    done = evenreel(*words, COLUMNS="120")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith(f"Wrote {tmp_path}/still: 1 clip in ")
    assert "Set aside: 1 clip" in done.stdout
    assert load_corpus(tmp_path / "still").clips.select("clip_id", "frame_count", "fps").rows() == [("a", 4, 4.0)]
    again = CliRunner().invoke(app, [*map(str, words), "--split", "test", "--json"])
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    assert (found["written"], found["unchanged"], found["set_aside"]) == (0, 1, [])


def test_what_is_wrong_is_said_before_anything_is_loaded(place: Path, tmp_path: Path) -> None:
    for words, sentence in {
        ("--remove", "sky"): "'sky' cannot be taken out of clips",
        ("--remove", "background"): "Say in words what backgrounds are",
        ("--remove", "entity", "--share", "2"): "is above 0 and at most 1",
        ("--remove", "motion", "--fps", "0"): "give a number above 0",
        ("--remove", "motion", "--tagger", "nltk"): "There is no tagger 'nltk'",
    }.items():
        done = CliRunner().invoke(app, ["corpus", "edit", str(place), "--out", str(tmp_path / "new"), *words])
        assert isinstance(done.exception, UsageError) and sentence in str(done.exception)
    assert not (tmp_path / "new").exists()
