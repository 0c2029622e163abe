"""`evenreel score` with frames, captions or levels changed first: as by hand, and said wherever scores are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, load_matcher, named_matcher, save_pretrained
from evenreel.checkpoint.architecture import module
from evenreel.cli.app import app
from evenreel.cli.score.command import BLIND
from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.debias.source import USES
from evenreel.edits.frame_order import reordered, single_frame
from evenreel.errors import CorpusError, FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features, load_text_features, load_video_features
from evenreel.matchers.bima import Reading, captions_read
from evenreel.matchers.scoring import matcher_scores
from evenreel.types import Scores, VideoFeatures
from tests.checkpoint import conftest as checkpoints
from tests.features.corpora import write_corpus
from tests.features.pixel_encoder import PixelEncoder

MATCHERS = {
    "temporal": {"layers": 1, "heads": 2, "max_frames": 12},
    "bima": {  # its textual half: no scene elements, no decoders
        "use_entities": False, "use_activities": False, "captioning": False, "lambda_rec": 0.0, "temporal_layers": 0,
    },
}  # fmt: skip
"""One that sees the order of frames, and one that tells the bias of captions from their content."""


class Place(NamedTuple):
    """Two real clips and their mirrors, also as a test and a held-out split and without sources; their features."""

    folder: Path

    @property
    def features(self) -> Path:
        return self.folder / "features"

    def score(self, matcher: str, *words: str | Path, out: Path, corpus: str = "corpus") -> Result:
        name = self.folder / matcher if matcher in MATCHERS else matcher
        command = ["score", name, self.folder / corpus, "--features", self.features, *words, "--out", out]
        return CliRunner().invoke(app, list(map(str, command)))

    def videos(self, rule: str) -> VideoFeatures:
        return load_video_features(self.features, load_corpus(self.folder / "corpus"), rule=rule)

    def expected(self, matcher: str, videos: VideoFeatures, reading: Reading | None = None) -> np.ndarray[Any, Any]:
        texts = load_text_features(self.features, load_corpus(self.folder / "corpus"))
        loaded = load_matcher(self.folder / matcher).matcher
        if reading is None:
            return matcher_scores(loaded, texts, videos).score_all().values
        with captions_read(module(loaded), reading):
            return matcher_scores(loaded, texts, videos).score_all().values

    def read(self, path: Path) -> Scores:
        scores = load_scores(path, load_corpus(self.folder / "corpus"))
        assert isinstance(scores, Scores)
        return scores


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("changed")
    plain, encoder = write_corpus(folder), PixelEncoder()
    sources = {"source": ["camera", "sora"] * 2, "pair_id": [None, "a", None, "c"]}
    said = plain.clips.with_columns(**{name: pl.Series(values) for name, values in sources.items()})
    split = said.with_columns(split=pl.Series(["test", "test", "val", "val"]))
    here = pl.col("split") == "test"
    unsaid = split.with_columns(**{name: pl.when(here).then(None).otherwise(name) for name in sources})
    for name, clips in {"corpus": said, "plain": plain.clips, "split": split, "unsaid": unsaid}.items():
        save_corpus(make_corpus(clips, plain.captions), folder / name)
    for rule in ("every 0.5 s", "4 midpoints"):
        settings = FeatureSettings(rule=rule, read_text=False, videos=folder, workers=1)
        compute_features(plain, folder / "features", encoder, settings)
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "DIMENSION", encoder.dimension)
        about = About(note, Inputs(frames=4, rule="4 midpoints"))
        for name, given in MATCHERS.items():
            save_pretrained(folder / name, checkpoints.trained(MatcherSpec(name, given), about))
    return Place(folder)


def test_frames_in_random_order_and_what_is_said_of_them(place: Place, tmp_path: Path) -> None:
    out, said = tmp_path / "random.npz", "frames in random order (seed 3)"
    done = place.score("temporal", "--frame-order", "random", "--seed", "3", out=out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"note: scored with {said}" in " ".join(done.stdout.split())
    scores = place.read(out)
    assert scores.about.uses == (said,)
    changed = reordered(place.videos("4 midpoints"), "random", seed=3)
    np.testing.assert_array_equal(scores.values, place.expected("temporal", changed))
    asked = ["evaluate", str(out), "--corpus", str(place.folder / "corpus"), "--resamples", "0"]
    told = " ".join(CliRunner().invoke(app, asked).stdout.split())
    assert f"These scores use {said}: they are not to be compared with scores that do not." in told


def test_frames_of_generated_clips_alone(place: Place, tmp_path: Path) -> None:
    words = ("--frame-order", "reversed", "--probe", "generated", "--json")
    done = place.score("temporal", *words, out=tmp_path / "s.npz")
    assert json.loads(done.stdout)["notices"] == ["scored with frames of generated clips in reversed order"]
    videos = place.videos("4 midpoints")
    before, both = (place.expected("temporal", one) for one in (videos, reordered(videos, "reversed")))
    found = place.read(tmp_path / "s.npz").values
    np.testing.assert_allclose(found, np.where([False, True, False, True], both, before), atol=1e-6)
    assert np.abs(before - both).max() > 1e-3
    refused = place.score("temporal", *words, out=tmp_path / "s.npz", corpus="plain").exception
    assert isinstance(refused, CorpusError) and "No clip of the corpus is generated" in str(refused)


def test_whole_videos_of_other_features(place: Place, tmp_path: Path) -> None:
    words = ("--frame-order", "reversed", "--order-stage", "video", "--frames", "5", "--rule", "every 0.5s", "--json")
    done = place.score("temporal", *words, out=tmp_path / "s.npz")
    moved, taken, longer = json.loads(done.stdout)["notices"]
    assert "moved before 5 were taken" in moved and taken.startswith("5 frames are") and "trained on 4 frames" in longer
    expected = reordered(place.videos("every 0.5 s"), "reversed", stage="video", take=5)
    assert expected.frames.shape[1] == 5
    np.testing.assert_array_equal(place.read(tmp_path / "s.npz").values, place.expected("temporal", expected))
    plain = place.score("temporal", "--frames", "2", out=tmp_path / "plain.npz")
    assert "note: 2 frames are taken of a clip that has more" in plain.stdout
    assert place.read(tmp_path / "plain.npz").about.uses == ()


def test_one_frame_of_each(place: Place, tmp_path: Path) -> None:
    assert place.score("temporal", "--single-frame", "middle", out=tmp_path / "s.npz").exit_code == 0
    scores = place.read(tmp_path / "s.npz")
    assert scores.about.uses == ("the middle frame of each clip alone",)
    expected = place.expected("temporal", single_frame(place.videos("4 midpoints")))
    np.testing.assert_array_equal(scores.values, expected)


def test_a_matcher_that_sees_no_order_is_told_of(place: Place, tmp_path: Path) -> None:
    done = place.score("mean_pool", "--frame-order", "random", "--json", out=tmp_path / "s.npz")
    assert json.loads(done.stdout)["notices"] == ["scored with frames in random order (seed 0)", BLIND]


@pytest.mark.parametrize(
    ("words", "reading", "said"),
    [
        ("--reading bias", Reading("bias"), "the bias of captions in place of their content, its mean"),
        ("--alpha 0.5", Reading(alpha=0.5), "the content of captions and 0.5 times their bias, its mean"),
        ("--alpha 2 --draws 3 --draws-seed 7", Reading(alpha=2, draws=3, seed=7), "the mean of 3 draws (seed 7)"),
        ("", Reading(), None),
    ],
)
def test_a_part_of_captions_is_read_and_said(
    place: Place, tmp_path: Path, words: str, reading: Reading, said: str | None
) -> None:
    done = place.score("bima", *words.split(), "--json", out=tmp_path / "s.npz")
    scores, videos = place.read(tmp_path / "s.npz"), place.videos("4 midpoints")
    assert done.exit_code == 0 and all(str(said) in use for use in scores.about.uses)
    assert json.loads(done.stdout)["notices"] == [f"scored with {use}" for use in scores.about.uses]
    assert (said is None) == (not scores.about.uses)
    np.testing.assert_array_equal(scores.values, place.expected("bima", videos, reading))
    if said:
        assert np.abs(scores.values - place.expected("bima", videos, Reading())).max() > 1e-3


def of_split(place: Place, split: str) -> np.ndarray[Any, Any]:
    part = select(load_corpus(place.folder / "split"), split=split)
    videos = load_video_features(place.features, part, rule="4 midpoints")
    pretrained = named_matcher("mean_pool", place.features)
    return matcher_scores(pretrained.matcher, load_text_features(place.features, part), videos).score_all().values


@pytest.mark.parametrize(("corpus", "generated"), [("split", 1), ("unsaid", 0)])
def test_scores_are_less_what_mirrors_lead_by_on_the_held_out_split(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: str, generated: int
) -> None:
    """Two right answers are taken as enough; what made a clip is told by frames where the corpus does not say."""
    monkeypatch.setattr("evenreel.debias.source.MIN_CLIPS", 1)
    monkeypatch.setattr("evenreel.debias.source.recognised_sources", lambda *_: ["sora", "camera"])
    words = ["--split", "test", "--level-sources", "val"]
    words += ["--recognise-sources", "val"] if corpus == "unsaid" else []
    done = place.score("mean_pool", *words, out=tmp_path / "s.npz", corpus=corpus)
    assert done.exit_code == 0, done.output
    found = load_scores(tmp_path / "s.npz", select(load_corpus(place.folder / corpus), split="test"))
    held, values = of_split(place, "val"), of_split(place, "test")
    values[:, generated] -= (held[:, 1] - held[:, 0]).mean()  # every caption is of the one pair
    assert USES in found.about.uses and list(found.video_ids) == ["a", "b"]
    np.testing.assert_allclose(found.block(slice(0, len(values)), slice(0, 2)), values, atol=1e-6)


def test_what_makes_no_sense(place: Place, tmp_path: Path) -> None:
    for matcher, words, sentence in (
        ("temporal", "--frame-order shuffled", "--frame-order is 'shuffled'; it must be original, random or reve"),
        ("temporal", "--single-frame last", "--single-frame is 'last'; it must be middle, first or random."),
        ("temporal", "--single-frame first --frames 3", "--single-frame leaves nothing to move or to take"),
        ("temporal", "--probe generated", "--probe says whose frames --frame-order moves; give both."),
        ("temporal", "--order-stage video --frames 3", "--order-stage says when --frame-order moves frames"),
        ("temporal", "--frame-order random --order-stage video", "--order-stage video needs --frames"),
        ("temporal", "--rule 4_midpoints", "--rule needs --frames"),
        ("temporal", "--rule 9_midpoints --frames 3", "holds no frames by '9 midpoints'; add them with `even"),
        ("temporal", "--single-frame first --out s.npy", "An .npy cannot say what was done to frames"),
        ("bima", "--reading style", "--reading is 'style'; it must be content or bias."),
        ("bima", "--reading bias --alpha 1", "--alpha adds bias to content, and --reading bias has the bias"),
        ("bima", "--draws 2", "--draws and --draws-seed draw the bias; give --reading bias or --alpha with them."),
        ("bima", "--alpha 1 --draws-seed 2", "--draws-seed is of --draws, and none are drawn; say how many."),
        ("mean_pool", "--alpha 1", "The matcher has no bias of captions to read"),
        ("bm25", "--alpha 1", "bm25 reads the words of captions as they are"),
        ("bima", "--alpha 1 --out s.npy", "An .npy cannot say what captions were read by"),
        ("mean_pool", "--split test --level-sources val", "on held-out captions"),
        ("mean_pool", "--split test --level-sources val --out s.npy", ".npz"),
        ("mean_pool", "--split test --recognise-sources val", "--level-sources"),
    ):
        given, _, name = words.partition(" --out ")
        options = [word.replace("_", " ") for word in given.split()]
        done = place.score(matcher, *options, out=tmp_path / (name or "s.npz"), corpus="split")
        assert isinstance(done.exception, (UsageError, FeaturesError)) and sentence in str(done.exception)
        assert not list(tmp_path.iterdir())
