"""`evenreel score` as it is typed: a trained matcher and features in, what `evenreel evaluate` reads out."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner, Result

from evenreel.checkpoint import Pretrained, load_features_for, load_matcher
from evenreel.cli.app import app
from evenreel.cli.train import inputs_of
from evenreel.corpus import load_corpus, select
from evenreel.encoders import load_encoder
from evenreel.errors import EvenreelError, FeaturesError, OutputError, ScoresError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import (
    FeatureSet,
    FeatureSettings,
    compute_features,
    load_text_features,
    load_video_features,
    read_manifest,
)
from evenreel.features.manifest import write_manifest
from evenreel.matchers.scoring import matcher_scores
from evenreel.media.workers import content_digest as digest
from evenreel.training.material import load_material
from evenreel.training.recipe import load_recipe
from evenreel.types import Corpus, VideoFeatures
from tests.cli.test_library_commands import here
from tests.features.test_sets import words_table
from tests.library.videos import write_folder
from tests.training.conftest import BROKEN, clip_folder, corpus_folder

__all__ = ["clip_folder", "corpus_folder"]

OTHER = {"id": "org/one", "weights_hash": "00" * 32}


class Place(NamedTuple):
    """A corpus, its features by a rule that is not the last, and a matcher that was trained on them."""

    corpus: Path
    features: Path
    checkpoint: Path

    def score(self, *words: str | Path, features: Path | None = None) -> Result:
        """The command in this process, which has its imports behind it."""
        command = ["score", self.checkpoint, self.corpus, "--features", features or self.features, *words]
        return CliRunner().invoke(app, list(map(str, command)))


@pytest.fixture(scope="module")
def place(corpus_folder: Path, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("score")
    encoder = load_encoder(str(clip_folder), device="cpu")
    recipe = {
        "name": "small",
        "data": {"corpus": str(corpus_folder), "features": str(folder / "features"), "validation": None},
        "matcher": {"name": "x_pool"},
        "loop": {"batch_size": 4, "epochs": 1, "device": "cpu"},
        "records": {"tensorboard": False},
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(recipe))
    settings = FeatureSettings(rule="3 midpoints", read_text=False, videos=corpus_folder, workers=1)
    compute_features(load_corpus(corpus_folder), folder / "features", encoder, settings)
    trained = CliRunner().invoke(app, ["train", str(folder / "small.yaml"), "--out", str(folder / "run")])
    assert trained.exit_code == 3, trained.output
    later = replace(read_manifest(folder / "features"), sets=(FeatureSet("2 midpoints"),))
    write_manifest(folder / "features", later)  # of which there is no shard
    return Place(corpus_folder, folder / "features", folder / "run" / "checkpoint")


def expected(place: Place, split: str) -> np.ndarray[Any, Any]:
    """What the matcher gives when it is asked without the command, on the frames that it was trained on."""
    part = select(load_corpus(place.corpus), split=split)
    videos = load_video_features(place.features, part, rule="3 midpoints", leave_out_aside=True)
    matcher = load_matcher(place.checkpoint).matcher
    return matcher_scores(matcher, load_text_features(place.features, part), videos).score_all().values


def test_what_is_scored_is_what_evaluation_reads(place: Place, tmp_path: Path) -> None:
    words = ("--features", place.features, "--split", "val", "--device", "cpu", "--out", tmp_path / "new" / "val.npz")
    done = here("score", place.checkpoint, place.corpus, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Scored 8 captions with 4 clips each into {tmp_path}/new/val.npz.\n"
    scores = load_scores(tmp_path / "new" / "val.npz", select(load_corpus(place.corpus), split="val"))
    assert np.array_equal(scores.block(slice(0, 8), slice(0, 4)), expected(place, "val"))
    asked = ("--corpus", place.corpus, "--split", "val", "-m", "R@1", "--resamples", "0", "--json")
    evaluated = CliRunner().invoke(app, ["evaluate", str(tmp_path / "new" / "val.npz"), *map(str, asked)])
    own = scores.values[np.arange(8), np.arange(8) // 2]  # two captions a clip
    first = 100 * np.mean(own >= scores.values.max(axis=1))
    figure = json.loads(evaluated.stdout)["systems"][0]["directions"]["t2v"]["summary"]["R@1"]
    assert figure["value"] == pytest.approx(first)


def test_a_matrix_without_ids(place: Place, tmp_path: Path) -> None:
    done = place.score("--split", "val", "--out", tmp_path / "val.npy", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["clips"] == 4
    assert np.array_equal(np.load(tmp_path / "val.npy"), expected(place, "val"))
    left_out = place.score("--split", "train", "--out", tmp_path / "train.npy")
    assert isinstance(left_out.exception, UsageError)
    assert "The features leave 1 clip out that had been skipped" in str(left_out.exception)


def test_the_mean_frame_scores_without_training(place: Place, tmp_path: Path) -> None:
    words = ["score", "mean_pool", place.corpus, "--features", place.features, "--split", "val"]
    done = CliRunner().invoke(app, [*map(str, words), "--out", str(tmp_path / "zero.npy")])
    assert done.exit_code == 0, done.output
    part = select(load_corpus(place.corpus), split="val")
    videos = load_video_features(place.features, part, rule="3 midpoints")
    mean = videos.frames.astype(np.float64).mean(axis=1)
    own = load_text_features(place.features, part).sentence @ (mean / np.linalg.norm(mean, axis=1, keepdims=True)).T
    np.testing.assert_allclose(np.load(tmp_path / "zero.npy"), own, atol=3e-4)  # features are kept in half precision
    words[1] = "x_pool"
    refused = CliRunner().invoke(app, [*map(str, words), "--out", str(tmp_path / "no.npy")])
    assert isinstance(refused.exception, UsageError)
    assert "The matcher x_pool has parameters that are learned" in str(refused.exception)


def test_clips_that_were_set_aside_are_left_out_and_named(place: Place, tmp_path: Path) -> None:
    done = place.score("--out", tmp_path / "all.npz")
    assert done.exit_code == 3
    assert f"{BROKEN} ({BROKEN}.mp4): " in done.stdout
    assert "the splits train, val are scored as one gallery; --split scores one alone" in " ".join(done.stdout.split())
    assert "(not_media)" in done.stdout
    asked = ["evaluate", str(tmp_path / "all.npz"), "--corpus", str(place.corpus), "--resamples", "0"]
    assert isinstance(CliRunner().invoke(app, asked).exception, ScoresError)
    assert CliRunner().invoke(app, [*asked, "--partial"]).exit_code == 0


def told(pretrained: Pretrained, **changes: Any) -> Pretrained:
    return replace(pretrained, about=replace(pretrained.about, **changes))


def with_inputs(pretrained: Pretrained, **inputs: Any) -> Pretrained:
    return told(pretrained, inputs=replace(pretrained.about.inputs, **inputs))


@pytest.mark.parametrize(
    ("note", "inputs", "sentence"),
    [
        ({}, {"rule": "every 1 s"}, "trained on frames by 'every 1 s', and .* --rule 'every 1 s' --no-ocr --out "),
        ({}, {"windows": 5}, "'3 midpoints' and the on-screen text of 5 windows, and .* --windows 5 --out "),
        ({}, {"windows": 5, "words_from": "corpus"}, "words of the corpus.*, and .* --windows 5 --words corpus --out "),
        ({}, {"windows": 5, "rule": None}, "trained on frames and the on-screen text of 5 windows, and "),
        (OTHER, {}, "of org/one, .* holds those of .*clip, and .* features CORPUS --model org/one --rule '3 m"),
        (OTHER | {"before": "11" * 32}, {}, "of org/one, trained further, .* --model CHECKPOINT/encoder --rule '3 m"),
    ],
)
def test_features_that_it_was_not_trained_on(
    place: Place, note: dict[str, Any], inputs: dict[str, Any], sentence: str
) -> None:
    pretrained = load_matcher(place.checkpoint)
    about = pretrained.about
    changed = told(pretrained, inputs=replace(about.inputs, **inputs), encoder=replace(about.encoder, **note))
    with pytest.raises(FeaturesError, match=sentence):
        load_features_for(changed, place.features, load_corpus(place.corpus))


def test_the_command_that_adds_features_fits_the_folder(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "half of it"
    folder.mkdir()
    write_manifest(folder, replace(read_manifest(place.features), precision="bfloat16"))
    other = with_inputs(load_matcher(place.checkpoint), rule="every 1 s")
    with pytest.raises(FeaturesError, match=f"--rule 'every 1 s' --no-ocr --precision bfloat16 --out '{folder}'`"):
        load_features_for(other, folder, load_corpus(place.corpus))


class Several(NamedTuple):
    """Four clips with features of two rules, the first with words of the corpus, and a matcher of their encoder."""

    part: Corpus
    features: Path
    pretrained: Pretrained

    def videos(self, **inputs: Any) -> VideoFeatures:
        """What a matcher is given that was trained on such."""
        return load_features_for(with_inputs(self.pretrained, **inputs), self.features, self.part).videos


@pytest.fixture(scope="module")
def several(place: Place, clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Several:
    folder = tmp_path_factory.mktemp("several")
    part = select(load_corpus(place.corpus), split="val")
    encoder = load_encoder(str(clip_folder), device="cpu")
    words = words_table([(clip_id, "GATE", 0, 9) for clip_id in part.clips["clip_id"]])
    first = FeatureSettings(rule="2 midpoints", windows=2, videos=place.corpus, workers=1)
    compute_features(part, folder, encoder, first, words=words)
    compute_features(part, folder, encoder, replace(first, rule="3 midpoints", read_text=False))
    absent = FeatureSet("2 midpoints", "ocr", 2)  # as after a run on another corpus: of these clips there is no shard
    write_manifest(folder, replace(read_manifest(folder), sets=(absent,)))
    return Several(part, folder, load_matcher(place.checkpoint))


@pytest.mark.parametrize("source", ["corpus", None])
def test_on_screen_text_is_from_where_it_was_in_training(several: Several, source: str | None) -> None:
    """Nobody noted it in older checkpoints: then what there is."""
    given = several.videos(rule="2 midpoints", windows=2, words_from=source)
    own = load_video_features(several.features, several.part, rule="2 midpoints", words="corpus")
    assert given.on_screen is not None and given.on_screen.mask.any()
    np.testing.assert_array_equal(given.on_screen.windows, own.on_screen.windows)


def test_on_screen_text_from_elsewhere_is_refused(several: Several) -> None:
    with pytest.raises(FeaturesError, match="4 of 4 clips have no up-to-date features"):
        several.videos(rule="2 midpoints", windows=2, words_from="ocr")
    with pytest.raises(FeaturesError, match=r"windows \(words of the corpus\), and .* holds no such features"):
        several.videos(rule="3 midpoints", windows=2, words_from="corpus")


def test_a_matcher_without_on_screen_text_takes_the_frames_that_are_there(several: Several) -> None:
    """The latest that are, where it was noted of nothing."""
    given = several.videos(rule="2 midpoints", windows=None)
    assert given.frames.shape[1] == 2 and given.on_screen is None
    assert several.videos(rule=None, windows=None).frames.shape[1] == 3


def test_training_notes_where_on_screen_text_is_from(several: Several, place: Place, tmp_path: Path) -> None:
    shutil.copytree(several.features, tmp_path / "features")
    features = tmp_path / "features"
    latest = replace(read_manifest(features), sets=(FeatureSet("2 midpoints", "corpus", 2),))
    write_manifest(features, latest)
    data = {"corpus": str(place.corpus), "features": str(features), "train": "val", "validation": None}
    recipe = {"name": "small", "data": data, "matcher": {"name": "mean_pool"}, "adapter": {"windows": True}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(recipe))
    read = load_recipe(tmp_path / "small.yaml")
    noted = inputs_of(read, load_material(read))
    assert (noted.rule, noted.windows, noted.words_from) == ("2 midpoints", 2, "corpus")
    without = replace(read, adapter=None)
    noted = inputs_of(without, load_material(without))
    assert (noted.windows, noted.words_from) == (None, None)


def test_a_video_that_was_touched_is_read_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    part, read = select(load_corpus(place.corpus), split="val"), Counter[str]()
    for path in part.clips["path"]:
        os.utime(place.corpus / path)
    monkeypatch.setattr("evenreel.features.load.content_digest", lambda path: (read.update([path]), digest(path))[1])
    load_features_for(load_matcher(place.checkpoint), place.features, part)
    assert read == {str(place.corpus / path): 1 for path in part.clips["path"]}


def test_longer_captions_and_clips_are_told(place: Place) -> None:
    pretrained = load_matcher(place.checkpoint)
    changed = with_inputs(pretrained, frames=2, words=4)
    part = select(load_corpus(place.corpus), split="val")
    longer = (load_text_features(place.features, part).word_mask.sum(1) > 4).sum()
    captions, clips = load_features_for(changed, place.features, part).notices
    assert captions.startswith(f"{longer} of 8 captions have more than the 4 word") and clips.startswith("4 of 4 clips")
    assert load_features_for(pretrained, place.features, part).notices == ()


def test_wrong_usage_is_said(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("")
    for words, kind, sentence in (
        ("--out scores.csv", UsageError, "ends neither in .npz nor in .npy"),
        ("--out FILE/s.npz", OutputError, "FILE/s.npz cannot be written"),
        ("--out s.npz --split tset", EvenreelError, "tset"),
        ("--out s.npz --device nonsense", UsageError, "nonsense"),
    ):
        done = place.score(*words.split())
        assert isinstance(done.exception, kind) and sentence in str(done.exception)


def test_a_table_that_is_large_and_one_that_is_too_large(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenreel.cli.score.command.LARGE_BYTES", 100)
    done = place.score("--split", "val", "--out", tmp_path / "s.npz")
    assert done.stderr == f"The scores of 8 captions and 4 clips take 0.0 GiB in {tmp_path / 's.npz'}.\n"
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=127))
    full = place.score("--split", "val", "--out", tmp_path / "s.npz")
    assert isinstance(full.exception, OutputError) and "has 0.0 GiB left; choose another place" in str(full.exception)


def test_recall_by_language_on_captions_of_one_s_own(clip_folder: Path, tmp_path: Path) -> None:
    """A csv of clip, text and language, as a person writes it, to the difference of each language to one."""
    paths = write_folder(tmp_path / "videos", 30, 0.4)
    said = {"en": "a red square {}", "de": "ein rotes Quadrat {}", "fa": "مربع قرمز {}"}
    rows = [f"{path.name},{text.format(at)},{name}" for at, path in enumerate(paths) for name, text in said.items()]
    (tmp_path / "captions.csv").write_text("\n".join(["path,text,language", *rows]), encoding="utf-8")
    corpus, features, scores = tmp_path / "corpus", tmp_path / "features", tmp_path / "s.npz"
    for words in (
        ("corpus", "import", "table", tmp_path / "captions.csv", "--out", corpus),
        ("features", corpus, "--videos", tmp_path / "videos", "--model", clip_folder, "--device", "cpu", "--rule",
         "1 midpoints", "--no-ocr", "--workers", 1, "--out", features),
        ("score", "mean_pool", corpus, "--features", features, "--out", scores),
    ):  # fmt: skip
        done = CliRunner().invoke(app, list(map(str, words)))
        assert done.exit_code in {0, 3}, (done.output, done.exception)
    asked = ["evaluate", str(scores), "--corpus", str(corpus), "--by", "language=en", "--direction", "t2v"]
    told = CliRunner().invoke(app, [*asked, "--json"])
    assert told.exit_code == 0, (told.output, told.exception)
    result = json.loads(told.stdout)["systems"][0]["directions"]["t2v"]["by"]["language=en"]
    held = load_scores(scores, load_corpus(corpus)).block(slice(0, 90), slice(0, 30))
    own = held[np.arange(90), np.repeat(np.arange(30), 3)]
    first = 100 * (own >= held.max(axis=1)).reshape(30, 3).mean(axis=0)  # ties aside: the vectors of 30 clips differ
    recall = {one["name"]: one["summary"]["R@1"] for one in result["groups"]}
    assert [recall[name]["value"] for name in said] == pytest.approx(first, abs=1e-4)
    assert all(one["low"] <= one["value"] <= one["high"] for one in recall.values())
    for name in ("R@1", "R@5", "R@10"):
        assert list(result["gaps"][name]["against"]) == ["de - en", "fa - en"]
    german = result["gaps"]["R@1"]["against"]["de - en"]
    assert german["value"] == pytest.approx(first[1] - first[0], abs=1e-4)
    shown = CliRunner().invoke(app, asked).stdout
    assert "de - en" in shown and "fa" in shown
