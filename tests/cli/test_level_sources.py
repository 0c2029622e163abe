"""`evenreel score --level-sources`: scores of generated clips less their level on a held-out split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import load_features_for, named_matcher
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.debias.source.level import USES
from evenreel.errors import UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import FloatArray
from tests.features.corpora import write_corpus
from tests.features.pixel_encoder import PixelEncoder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pairs of a real clip and its mirror, one held out; two right answers are taken as enough."""
    folder = tmp_path_factory.mktemp("levels")
    plain = write_corpus(folder)
    clips = plain.clips.with_columns(
        pl.Series("source", ["camera", "sora", "camera", "sora"]),
        pl.Series("pair_id", [None, "a", None, "c"]),
        pl.Series("split", ["test", "test", "val", "val"]),
    )
    corpus = make_corpus(clips, plain.captions)
    save_corpus(corpus, folder / "corpus")
    settings = FeatureSettings(rule="3 midpoints", read_text=False, videos=folder, workers=1)
    compute_features(corpus, folder / "features", PixelEncoder(), settings)
    return folder


def score(place: Path, *words: str) -> Result:
    command = ["score", "mean_pool", str(place / "corpus"), "--features", str(place / "features"), "--split", "test"]
    return CliRunner().invoke(app, [*command, *words])


def plain_values(place: Path, split: str) -> np.ndarray:
    part = select(load_corpus(place / "corpus"), split=split)
    matcher = named_matcher("mean_pool", place / "features")
    loaded = load_features_for(matcher, place / "features", part)
    return matcher_scores(matcher.matcher, loaded.texts, loaded.videos).score_all().values


def test_scores_are_less_what_mirrors_lead_by_on_the_held_out_split(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenreel.debias.source.level.MIN_CLIPS", 1)
    done = score(place, "--level-sources", "val", "--out", str(tmp_path / "s.npz"))
    assert done.exit_code == 0, done.output
    part = select(load_corpus(place / "corpus"), split="test")
    found = load_scores(tmp_path / "s.npz", part)
    assert found.about.uses == (USES,)
    held, values = plain_values(place, "val"), plain_values(place, "test")
    level = (held[:, 1] - held[:, 0]).mean()  # every caption is of the one pair
    values[:, 1] -= level
    assert list(found.video_ids) == ["a", "b"]
    np.testing.assert_allclose(found.block(slice(0, len(values)), slice(0, 2)), values, atol=1e-6)


def test_what_made_a_clip_is_told_by_its_frames_where_the_corpus_does_not_say(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenreel.debias.source.level.MIN_CLIPS", 1)
    whole = load_corpus(place / "corpus")
    unsaid = whole.clips.with_columns(
        source=pl.when(pl.col("split") == "test").then(None).otherwise("source"),
        pair_id=pl.when(pl.col("split") == "test").then(None).otherwise("pair_id"),
    )
    save_corpus(make_corpus(unsaid, whole.captions), tmp_path / "corpus")
    monkeypatch.setattr("evenreel.debias.source.level.recognised_sources", nearest)  # two clips are too few for LDA
    options = ["--level-sources", "val", "--recognise-sources", "val", "--out", str(tmp_path / "s.npz")]
    command = ["score", "mean_pool", str(tmp_path / "corpus"), "--features", str(place / "features")]
    done = CliRunner().invoke(app, [*command, "--split", "test", *options])
    assert done.exit_code == 0, done.output
    found = load_scores(tmp_path / "s.npz", select(load_corpus(tmp_path / "corpus"), split="test"))
    held, values = plain_values(place, "val"), plain_values(place, "test")
    pretrained = named_matcher("mean_pool", place / "features")
    known, asked = (
        load_features_for(pretrained, place / "features", select(whole, split=name)).videos.frames.astype(float).mean(1)
        for name in ("val", "test")
    )
    generated = ((asked - known[1]) ** 2).sum(1) < ((asked - known[0]) ** 2).sum(1)
    values -= generated * (held[:, 1] - held[:, 0]).mean()
    np.testing.assert_allclose(found.block(slice(0, len(values)), slice(0, 2)), values, atol=1e-6)


def nearest(known: FloatArray, sources: Sequence[str], clips: FloatArray) -> list[str]:
    """The source of the nearest known clip."""
    return [sources[int(((known - clip) ** 2).sum(1).argmin())] for clip in clips]


def test_what_cannot_be_levelled_is_refused(place: Path, tmp_path: Path) -> None:
    few = score(place, "--level-sources", "val", "--out", str(tmp_path / "s.npz"))
    assert isinstance(few.exception, UsageError) and "on held-out captions" in str(few.exception)
    nameless = score(place, "--level-sources", "val", "--out", str(tmp_path / "s.npy"))
    assert isinstance(nameless.exception, UsageError) and ".npz" in str(nameless.exception)
    assert not (tmp_path / "s.npy").exists()
    alone = score(place, "--recognise-sources", "val", "--out", str(tmp_path / "s.npz"))
    assert isinstance(alone.exception, UsageError) and "--level-sources" in str(alone.exception)
