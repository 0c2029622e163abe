"""`evenreel score` by other parts of captions: as the matcher's own reading, and said where scores are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, load_matcher, save_pretrained
from evenreel.checkpoint.architecture import module
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, save_corpus
from evenreel.errors import UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features, load_text_features, load_video_features
from evenreel.matchers.bima.matcher import Reading, captions_read
from evenreel.matchers.scoring import matcher_scores
from tests.checkpoint import conftest as checkpoints
from tests.features.corpora import write_corpus
from tests.features.pixel_encoder import PixelEncoder

TEXT_HALF = {  # no scene elements, no decoders
    "use_entities": False,
    "use_activities": False,
    "captioning": False,
    "lambda_rec": 0.0,
    "temporal_layers": 0,
}


class Place(NamedTuple):
    """A corpus, its features, and the textual half of a BiMa."""

    corpus: Path
    features: Path
    checkpoint: Path

    def score(self, *words: str | Path, matcher: str | None = None) -> Result:
        command = ["score", matcher or self.checkpoint, self.corpus, "--features", self.features, *words]
        return CliRunner().invoke(app, list(map(str, command)))

    def expected(self, reading: Reading) -> np.ndarray[Any, Any]:
        corpus, matcher = load_corpus(self.corpus), load_matcher(self.checkpoint).matcher
        videos = load_video_features(self.features, corpus)
        with captions_read(module(matcher), reading):
            return matcher_scores(matcher, load_text_features(self.features, corpus), videos).score_all().values


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("reading")
    corpus, encoder = write_corpus(folder), PixelEncoder()
    save_corpus(corpus, folder / "corpus")
    settings = FeatureSettings(rule="3 midpoints", read_text=False, videos=folder, workers=1)
    compute_features(corpus, folder / "features", encoder, settings)
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "DIMENSION", encoder.dimension)
        about = About(note, Inputs(frames=3, rule="3 midpoints"))
        save_pretrained(folder / "checkpoint", checkpoints.trained(MatcherSpec("bima", TEXT_HALF), about))
    return Place(folder / "corpus", folder / "features", folder / "checkpoint")


@pytest.mark.parametrize(
    ("words", "reading", "said"),
    [
        (("--reading", "bias"), Reading("bias"), "the bias of captions in place of their content, its mean"),
        (("--alpha", "0.5"), Reading(alpha=0.5), "the content of captions and 0.5 times their bias, its mean"),
        (
            ("--alpha", "2", "--draws", "3", "--draws-seed", "7"),
            Reading(alpha=2, draws=3, seed=7),
            "the content of captions and 2 times their bias, the mean of 3 draws (seed 7)",
        ),
    ],
)
def test_a_part_of_captions_is_read_and_said(
    place: Place, tmp_path: Path, words: tuple[str, ...], reading: Reading, said: str
) -> None:
    done = place.score(*words, "--out", tmp_path / "s.npz", "--json")
    assert (done.exit_code, json.loads(done.stdout)["notices"]) == (0, [f"scored with {said}"])
    scores = load_scores(tmp_path / "s.npz", load_corpus(place.corpus))
    assert scores.about.uses == (said,)
    np.testing.assert_array_equal(scores.block(slice(None), slice(None)), place.expected(reading))
    assert np.abs(place.expected(reading) - place.expected(Reading())).max() > 1e-3


def test_without_an_option_the_content_is_read(place: Place, tmp_path: Path) -> None:
    assert place.score("--out", tmp_path / "s.npz").exit_code == 0
    scores = load_scores(tmp_path / "s.npz", load_corpus(place.corpus))
    assert scores.about.uses == ()
    np.testing.assert_array_equal(scores.block(slice(None), slice(None)), place.expected(Reading()))


@pytest.mark.parametrize(
    ("words", "matcher", "sentence"),
    [
        (("--reading", "style"), None, "--reading is 'style'; it must be content or bias."),
        (("--reading", "bias", "--alpha", "1"), None, "--alpha adds bias to content, and --reading bias has the bias"),
        (("--draws", "2"), None, "--draws and --draws-seed draw the bias; give --reading bias or --alpha with them."),
        (("--alpha", "1", "--draws-seed", "2"), None, "--draws-seed is of --draws, and none are drawn; say how many."),
        (("--alpha", "1"), "mean_pool", "The matcher has no bias of captions to read"),
        (("--alpha", "1"), "bm25", "bm25 reads the words of captions as they are"),
    ],
)
def test_what_cannot_be_read_is_refused(
    place: Place, tmp_path: Path, words: tuple[str, ...], matcher: str | None, sentence: str
) -> None:
    done = place.score(*words, "--out", tmp_path / "s.npz", matcher=matcher)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith(sentence)
    assert not (tmp_path / "s.npz").exists()


def test_a_file_that_cannot_say_it_is_refused(place: Place, tmp_path: Path) -> None:
    done = place.score("--alpha", "1", "--out", tmp_path / "s.npy")
    assert isinstance(done.exception, UsageError)
    assert "An .npy cannot say what captions were read by" in str(done.exception)
