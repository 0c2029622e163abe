"""`evenreel score` with frames changed first: the same as changing them by hand, and said wherever scores are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, load_matcher, save_pretrained
from evenreel.cli.app import app
from evenreel.cli.score.probes import BLIND
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.edits.frame_order import reordered, single_frame
from evenreel.errors import CorpusError, FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features, load_text_features, load_video_features
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import Scores, VideoFeatures
from tests.checkpoint import conftest as checkpoints
from tests.features.corpora import write_corpus
from tests.features.pixel_encoder import PixelEncoder


class Place(NamedTuple):
    """Two real clips and their mirrors, features by two rules, and a matcher that sees the order of frames."""

    corpus: Path
    features: Path
    checkpoint: Path

    def score(self, *words: str | Path, matcher: str | None = None, corpus: Path | None = None) -> Result:
        command = ["score", matcher or self.checkpoint, corpus or self.corpus, "--features", self.features, *words]
        return CliRunner().invoke(app, list(map(str, command)))

    def videos(self, rule: str) -> VideoFeatures:
        return load_video_features(self.features, load_corpus(self.corpus), rule=rule)

    def expected(self, videos: VideoFeatures) -> np.ndarray[Any, Any]:
        texts = load_text_features(self.features, load_corpus(self.corpus))
        return matcher_scores(load_matcher(self.checkpoint).matcher, texts, videos).score_all().values

    def read(self, path: Path) -> Scores:
        scores = load_scores(path, load_corpus(self.corpus))
        assert isinstance(scores, Scores)
        return scores


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("probes")
    plain = write_corpus(folder)
    clips = plain.clips.with_columns(
        pl.Series("source", ["camera", "sora", "camera", "sora"]), pl.Series("pair_id", [None, "a", None, "c"])
    )
    corpus, encoder = make_corpus(clips, plain.captions), PixelEncoder()
    save_corpus(corpus, folder / "corpus")
    save_corpus(plain, folder / "plain")
    for rule in ("every 0.5 s", "4 midpoints"):
        settings = FeatureSettings(rule=rule, read_text=False, videos=folder, workers=1)
        compute_features(corpus, folder / "features", encoder, settings)
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    spec = MatcherSpec("temporal", {"layers": 1, "heads": 2, "max_frames": 12})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "DIMENSION", encoder.dimension)
        about = About(note, Inputs(frames=4, rule="4 midpoints"))
        save_pretrained(folder / "checkpoint", checkpoints.trained(spec, about))
    return Place(folder / "corpus", folder / "features", folder / "checkpoint")


def test_frames_in_random_order_and_what_is_said_of_them(place: Place, tmp_path: Path) -> None:
    out, said = tmp_path / "random.npz", "frames in random order (seed 3)"
    done = place.score("--frame-order", "random", "--seed", "3", "--out", out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert " ".join(done.stdout.split()) == f"Scored 4 captions with 4 clips each into {out}. note: scored with {said}"
    scores = place.read(out)
    assert scores.about.uses == (said,)
    np.testing.assert_array_equal(
        scores.values, place.expected(reordered(place.videos("4 midpoints"), "random", seed=3))
    )
    asked = ["evaluate", str(out), "--corpus", str(place.corpus), "--resamples", "0"]
    told = " ".join(CliRunner().invoke(app, asked).stdout.split())
    assert f"These scores use {said}: they are not to be compared with scores that do not." in told


def test_frames_of_generated_clips_alone(place: Place, tmp_path: Path) -> None:
    done = place.score("--frame-order", "reversed", "--probe", "generated", "--out", tmp_path / "s.npz", "--json")
    assert json.loads(done.stdout)["notices"] == ["scored with frames of generated clips in reversed order"]
    videos = place.videos("4 midpoints")
    before, both = place.expected(videos), place.expected(reordered(videos, "reversed"))
    found = place.read(tmp_path / "s.npz").values
    np.testing.assert_allclose(found, np.where([False, True, False, True], both, before), atol=1e-6)
    assert np.abs(before - both).max() > 1e-3


def test_whole_videos_of_other_features(place: Place, tmp_path: Path) -> None:
    words = ("--frame-order", "reversed", "--order-stage", "video", "--frames", "5", "--rule", "every 0.5s")
    done = place.score(*words, "--out", tmp_path / "s.npz", "--json")
    assert json.loads(done.stdout)["notices"] == [
        "scored with frames in reversed order, moved before 5 were taken",
        "5 frames are taken of a clip that has more",
        "the matcher was trained on 4 frames at most",
    ]
    expected = reordered(place.videos("every 0.5 s"), "reversed", stage="video", take=5)
    assert expected.frames.shape[1] == 5
    np.testing.assert_array_equal(place.read(tmp_path / "s.npz").values, place.expected(expected))
    plain = place.score("--frames", "2", "--out", tmp_path / "plain.npz")
    assert plain.stdout.splitlines()[1:] == ["  note: 2 frames are taken of a clip that has more"]
    assert place.read(tmp_path / "plain.npz").about.uses == ()


def test_one_frame_of_each(place: Place, tmp_path: Path) -> None:
    assert place.score("--single-frame", "middle", "--out", tmp_path / "s.npz").exit_code == 0
    scores = place.read(tmp_path / "s.npz")
    assert scores.about.uses == ("the middle frame of each clip alone",)
    np.testing.assert_array_equal(scores.values, place.expected(single_frame(place.videos("4 midpoints"))))


def test_a_matcher_that_sees_no_order_is_told_of(place: Place, tmp_path: Path) -> None:
    done = place.score("--frame-order", "random", "--out", tmp_path / "s.npz", "--json", matcher="mean_pool")
    assert json.loads(done.stdout)["notices"] == ["scored with frames in random order (seed 0)", BLIND]


@pytest.mark.parametrize(
    ("words", "kind", "sentence"),
    [
        (["--frame-order", "shuffled"], UsageError, "--frame-order is 'shuffled'; it must be original, random, reve"),
        (["--single-frame", "last"], UsageError, "--single-frame is 'last'; it must be middle, first, random."),
        (["--single-frame", "first", "--frames", "3"], UsageError, "--single-frame leaves nothing to move or to take"),
        (["--probe", "generated"], UsageError, "--probe says whose frames --frame-order moves; give both."),
        (["--order-stage", "video", "--frames", "3"], UsageError, "--order-stage says when --frame-order moves frames"),
        (["--frame-order", "random", "--order-stage", "video"], UsageError, "--order-stage video needs --frames"),
        (["--rule", "every 0.5 s"], UsageError, "--rule needs --frames"),
        (
            ["--rule", "every 2 s", "--frames", "3"],
            FeaturesError,
            "holds no frames by 'every 2 s'; add them with `even",
        ),
    ],
)
def test_what_makes_no_sense(place: Place, words: list[str], kind: type[Exception], sentence: str) -> None:
    done = place.score(*words, "--out", place.corpus / "s.npz")
    assert isinstance(done.exception, kind)
    assert sentence in str(done.exception)


def test_scores_that_cannot_be_kept_and_clips_that_are_not_there(place: Place, tmp_path: Path) -> None:
    done = place.score("--single-frame", "first", "--out", tmp_path / "s.npy")
    assert "An .npy cannot say what was done to frames; let --out end in .npz." in str(done.exception)
    words = ("--frame-order", "random", "--probe", "generated", "--out", tmp_path / "s.npz")
    done = place.score(*words, corpus=place.corpus.parent / "plain")
    assert isinstance(done.exception, CorpusError)
    assert "No clip of the corpus is generated" in str(done.exception)
