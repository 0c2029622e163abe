"""`evenreel corpus edit` as it is typed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.media import open_video, parse_rule
from evenreel.planted import write_clip, write_scene
from evenreel.planted.scenes import Entity, SceneRanges, sample_scene
from evenreel.types import Encoder, FloatArray
from tests.cli.test_library_commands import here

CIRCLES = 6


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
    done = here(*words, COLUMNS="120")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith(f"Wrote {tmp_path}/still: 1 clip in ")
    assert "Set aside: 1 clip" in done.stdout
    assert load_corpus(tmp_path / "still").clips.select("clip_id", "frame_count", "fps").rows() == [("a", 4, 4.0)]
    again = CliRunner().invoke(app, [*map(str, words), "--split", "test", "--json"])
    assert again.exit_code == 0, again.output
    found = json.loads(again.stdout)
    assert (found["written"], found["unchanged"], found["set_aside"]) == (0, 1, [])


def test_the_built_in_encoder_takes_what_captions_name_out_of_files(tmp_path: Path) -> None:
    """The mean score of a caption falls when its circle goes, and less when as much goes elsewhere."""
    encoder = load_encoder("builtin", device="cpu")
    red_circle = encoder.encode_text(["a red circle"]).sentence[0]
    circles(tmp_path / "clean")
    corpora = {"clean": tmp_path / "clean"}
    for name, more in {"gone": (), "control": ("--control",)}.items():
        corpora[name] = tmp_path / name
        words = ("--remove", "entity", "--place", "a meadow", "--share", "0.2", "--out", corpora[name], "--json", *more)
        done = here("corpus", "edit", tmp_path / "clean", "--model", "builtin", "--tagger", "pattern", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["written"] == CIRCLES
    clean, gone, control = (float(np.mean(seen(folder, encoder) @ red_circle)) for folder in corpora.values())
    assert clean - gone > 0.05
    assert clean - gone > 2 * (clean - control)


def circles(folder: Path) -> None:
    """A corpus of short square clips that show a red circle before any background."""
    folder.mkdir()
    ids = [f"c{seed}" for seed in range(CIRCLES)]
    for seed, name in enumerate(ids):
        ranges = SceneRanges(duration_s=(0.5, 0.5), sign_share=0.0, width=128, height=128)
        scene = sample_scene(np.random.default_rng(seed), ranges)
        subject = Entity("circle", "red", "medium", scene.subject.x, scene.subject.y)
        write_scene(folder / f"{name}.mp4", replace(scene, entities=(subject, *scene.entities[1:])))
    clips = pl.DataFrame({"clip_id": ids, "path": [f"{name}.mp4" for name in ids]})
    said = {"caption_id": ids, "clip_id": ids, "text": "in this video there is a red circle"}
    save_corpus(make_corpus(clips, pl.DataFrame(said)), folder)


def seen(folder: Path, encoder: Encoder) -> FloatArray:
    """(N, D) all frames of a corpus's clips."""
    frames = []
    for path in load_corpus(folder).clips["path"]:
        with open_video(folder / path) as video:
            frames += [frame.pixels.transpose(2, 0, 1) for frame in video.frames(parse_rule("2 midpoints"))]
    return encoder.encode_windows(np.stack(frames)[:, None])


def test_what_is_wrong_is_said_before_anything_is_loaded(place: Path, tmp_path: Path) -> None:
    for words, sentence in {
        ("--remove", "sky"): "'sky' cannot be taken out of clips",
        ("--remove", "background"): "Say in words what backgrounds are",
        ("--remove", "motion", "--place", "kitchen"): "leave the phrases for places out",
        ("--remove", "entity", "--share", "2"): "is above 0 and at most 1",
        ("--remove", "motion", "--tagger", "nltk"): "There is no tagger 'nltk'",
    }.items():
        done = CliRunner().invoke(app, ["corpus", "edit", str(place), "--out", str(tmp_path / "new"), *words])
        assert isinstance(done.exception, UsageError) and sentence in str(done.exception)
    never = ["corpus", "edit", str(place), "--out", str(tmp_path / "new"), "--remove", "motion", "--fps", "0"]
    done = CliRunner().invoke(app, never)
    assert done.exit_code == 2 and "Invalid value for '--fps'" in done.output
    assert not (tmp_path / "new").exists()
