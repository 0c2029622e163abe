"""`evenreel corpus corrupt` and `evenreel shifts` as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, save_pretrained
from evenreel.checkpoint.architecture import build
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.encoders import load_encoder
from evenreel.evaluation import load_scores
from evenreel.evaluation.rescoring import dense
from evenreel.features import read_manifest
from evenreel.planted import write_clip
from tests.cli.test_library_commands import ENVIRONMENT, here

CLIPS = 12
SEEN = ("--model", "builtin", "--kind", "fog", "--strength", "5")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of clips of one colour each, and of one that is no video."""
    place = tmp_path_factory.mktemp("corrupt")
    drawn = np.random.default_rng(0).integers(0, 240, (CLIPS, 3)).astype(np.uint8)
    names = [f"c{number}" for number in range(CLIPS)]
    for name, colour in zip(names, drawn, strict=True):
        write_clip(place / f"{name}.mp4", [np.full((32, 48, 3), colour, np.uint8) + step for step in range(4)], fps=4)
    (place / "broken.mp4").write_bytes(b"this is no video")
    names.append("broken")
    clips = pl.DataFrame({"clip_id": names, "path": [f"{one}.mp4" for one in names], "split": "test"})
    captions = pl.DataFrame({"caption_id": names, "clip_id": names, "text": [f"a wall {one}" for one in names]})
    save_corpus(make_corpus(clips, captions), place)
    return place


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("clips/*.mp4"))}


def test_a_corpus_for_each_corruption_and_what_is_no_video_is_set_aside(place: Path, tmp_path: Path) -> None:
    words = ("corpus", "corrupt", place, "--kind", "fog", "--kind", "scrambling", "--strength", "2", "--out", tmp_path)
    done = here(*words, COLUMNS="160")
    assert (done.returncode, done.stderr) == (3, "")
    assert f"Wrote {tmp_path}/scrambling-2: {CLIPS} clips." in done.stdout
    assert load_corpus(tmp_path / "fog-2").clips.height == CLIPS
    again = json.loads(here(*words, "--json").stdout)
    assert [one["written"] for one in again["corpora"]] == [0, 0]
    assert [one["clip_id"] for one in again["set_aside"]] == ["broken"]


def test_a_run_that_is_killed_goes_on_and_ends_with_the_same_bytes(place: Path, tmp_path: Path) -> None:
    words = ("corpus", "corrupt", str(place), "--kind", "snow", "--kind", "style", "--workers", "1", "--out")
    command = [sys.executable, "-m", "evenreel", *words]
    run = subprocess.Popen([*command, str(tmp_path / "cut")], env=ENVIRONMENT, start_new_session=True)
    while run.poll() is None and len([*(tmp_path / "cut").rglob("clips/*.mp4")]) < 3:
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert len(files(tmp_path / "cut")) >= 3
    assert here(*words, tmp_path / "cut").returncode == here(*words, tmp_path / "whole").returncode == 3
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_shifts_prints_what_a_model_loses_and_leaves_scores_that_say_the_same(place: Path, tmp_path: Path) -> None:
    words = ("shifts", "mean_pool", place, *SEEN, "--out", tmp_path / "out", "--html", tmp_path / "page.html")
    done = here(*words, "--json")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert (found["clips"], found["captions"], [one["clip_id"] for one in found["set_aside"]]) == (12, 12, ["broken"])
    rows = {(row["kind"], row["direction"]): row for row in found["rows"]}
    assert [*rows] == [(kind, way) for way in ("t2v", "v2t") for kind in ("none", "fog")]
    measured = {}
    for kind, folder in (("none", "none"), ("fog", "fog-5")):
        corpus = load_corpus(tmp_path / "out" / folder)
        values = dense(load_scores(tmp_path / "out" / folder / "scores.npz", corpus)).values
        ties = (values == values.diagonal()[:, None]).sum(axis=1)
        first = (values > values.diagonal()[:, None]).sum(axis=1) == 0
        measured[kind] = 100 * float((first / ties).mean())
        assert rows[kind, "t2v"]["found"]["value"] == pytest.approx(measured[kind])
    assert rows["fog", "t2v"]["lost"]["value"] == pytest.approx(measured["none"] - measured["fog"])
    assert "Captions look for videos" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "captions find their clip first among 12 clips as they are" in here(*words).stdout
    for kind, told in (("mist", "'mist' is no kind of corruption"), ("none", "No corruption is measured")):
        refused = here("shifts", "mean_pool", place, "--model", "builtin", "--kind", kind, "--out", tmp_path / "no")
        assert refused.returncode in (1, 2) and told in refused.stderr


def test_a_checkpoint_of_features_by_others_is_refused_before_anything_is_written(place: Path, tmp_path: Path) -> None:
    """Hazard 235."""
    spec = MatcherSpec("mean_pool")
    about = About(EncoderNote("stored:rgb", "0" * 64, 8))
    save_pretrained(tmp_path / "checkpoint", Pretrained(build(spec, 8), spec, about))
    done = here("shifts", tmp_path / "checkpoint", place, "--kind", "fog", "--out", tmp_path / "out")
    assert done.returncode == 1 and "takes features 'rgb', which others computed" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_says_itself_which_features_it_takes(place: Path, tmp_path: Path) -> None:
    encoder, spec = load_encoder("builtin"), MatcherSpec("mean_pool")
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    about = About(note, Inputs(rule="3 midpoints"))
    save_pretrained(tmp_path / "checkpoint", Pretrained(build(spec, encoder.dimension), spec, about))
    words = ("shifts", tmp_path / "checkpoint", place, "--kind", "scrambling", "--out", tmp_path / "out", "--json")
    refused = here(*words, "--model", "builtin")
    assert refused.returncode == 2 and "says itself which encoder its features are of" in refused.stderr
    done = here(*words)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["encoder"] == encoder.encoder_id
    (features,) = (tmp_path / "out" / "scrambling-3" / "features").iterdir()
    assert [made.rule for made in read_manifest(features).sets] == ["3 midpoints"]
