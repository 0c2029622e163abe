"""`evenreel study titan/...` as it is typed, on rendered clips of another domain and a checkpoint that was prepared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, save_pretrained
from evenreel.checkpoint.architecture import build
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.features import FeatureSettings, compute_features, load_text_features
from evenreel.papers import find_study, reading
from evenreel.papers.reading import open_workspace
from evenreel.papers.study import Sources
from evenreel.training.recipe.recipe import RecipeError
from evenreel.types import Corpus, TextFeatures

SPEC = MatcherSpec("adapted", {}, (MatcherSpec("mean_pool"),))
QUICK = ("--resamples", 20, "--device", "cpu")
FEW = ("--set", "causal_fit.steps=3")


class Place(NamedTuple):
    corpus: Path
    checkpoint: Path

    @property
    def features(self) -> Path:
        return self.corpus / "features"

    def study(self, name: str, out: Path, *words: object, matcher: bool = True) -> Result:
        """The command in this process, which has its imports behind it."""
        named = ["--matcher", f"mine={self.checkpoint}"] if matcher else []
        seeds = [] if name in ("titan/f5", "rerank/depth") else ["--seeds", 1]
        quick = (*QUICK, *seeds, *named)
        command = ["study", name, self.corpus, "--features", self.features, "--out", out, *quick, *words]
        return CliRunner().invoke(app, list(map(str, command)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("titan")
    found = Place(folder / "corpus", folder / "checkpoint")
    planted = ["planted", "domain", "--strength", "1", "--clips", "20", "--workers", "1", "--out", str(found.corpus)]
    assert CliRunner().invoke(app, planted).exit_code == 0
    encoder, corpus = load_encoder("builtin", device="cpu"), load_corpus(found.corpus)
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=found.corpus, workers=1)
    compute_features(corpus, found.features, encoder, settings)
    about = About(
        EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension),
        Inputs(frames=2, words=32, rule="2 midpoints"),
    )
    save_pretrained(found.checkpoint, Pretrained(build(SPEC, encoder.dimension), SPEC, about))
    prepare = ["prepare", found.checkpoint, found.corpus, "--features", found.features, "--device", "cpu"]
    words = [*prepare, "--steps", 2, "--confounders", "kmeans", "--count", 4]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return found


def test_a_table_of_streams(place: Place, tmp_path: Path) -> None:
    done = place.study("titan/t1", tmp_path, "--set", "lr=0.001", "--set", "counterfactuals.beta=1", *FEW)
    assert done.exit_code == 0 and "Too few clips" in done.stdout
    found = json.loads((tmp_path / "results.json").read_text())
    rows = [row[1] for row in found["tables"][0]["rows"]]
    assert rows[0] == "source only" and {"TTT++", "TTTFlow", "TITAN", "TITAN, predicted first"} <= set(rows)
    assert {"QB-Norm, training captions", "NNN, past queries"} <= set(rows)
    labels = {row[1]: row for row in found["tables"][2]["rows"]}
    test = select(load_corpus(place.corpus), split="test")
    assert labels["TITAN"][2] == test.captions.height
    assert labels["TITAN"][6] > 0 and labels["TITAN"][7] > 0  # captions lost words, and weights moved
    assert any("learning rate of 0.001" in one and "3 steps of 0.001 each time" in one for one in found["method"])
    assert labels["TITAN"][9] > 1 and labels["TITAN"][10] >= 1  # rank of the labels before and after
    assert labels["naive pseudo-labels"][9:11] == [None, None]


def test_training_captions_are_read_as_they_are_drawn(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them may be more than memory holds."""
    train = select(load_corpus(place.corpus), split="train")
    asked: list[int] = []

    def counted(folder: Path, corpus: Corpus) -> TextFeatures:
        asked.append(corpus.captions.height)
        return load_text_features(folder, corpus)

    monkeypatch.setattr(reading, "load_text_features", counted)
    sources = Sources(features=place.features, matchers={"mine": str(place.checkpoint)})
    bank = open_workspace(find_study("titan/t1"), place.corpus, sources).bank
    assert bank is not None and (bank.count, asked) == (train.captions.height, [])
    drawn = bank.drawn(0, 5)
    assert asked == [5] and set(drawn.ids) <= set(train.captions["caption_id"])
    whole = load_text_features(place.features, train)
    rows = [whole.ids.index(one) for one in drawn.ids]
    assert rows == sorted(rows) and np.array_equal(drawn.sentence, whole.sentence[rows])

    whose = load_corpus(place.corpus)
    learned = pl.col("clip_id").is_in(train.clips["clip_id"].implode())
    other = pl.when(learned).then(pl.lit("that nobody has read")).otherwise("text").alias("text")
    save_corpus(make_corpus(whose.clips, whose.captions.with_columns(other)), tmp_path)
    found = open_workspace(find_study("titan/t1"), tmp_path, sources)
    assert found.bank is None
    (told,) = [one for one in found.notices if one.startswith("Nothing is corrected by training captions: ")]
    assert "that nobody has read" in told


def test_phrases_of_a_caption(place: Place, tmp_path: Path) -> None:
    test = select(load_corpus(place.corpus), split="test")
    caption, clip, text = test.captions.select("caption_id", "clip_id", "text").row(0)
    done = place.study("titan/f5", tmp_path, "--query", caption, *FEW, "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["tables"][0]["rows"]
    assert {row[1] for row in rows} == {text}
    assert all((row[4] == "right") == (row[2] == clip) for row in rows)
    assert rows[0][5] == "the whole caption" and len(rows) > 1


def test_without_a_checkpoint_the_towers_as_they_are_learn(place: Place, tmp_path: Path) -> None:
    done = place.study("titan/t3", tmp_path, "--set", "causal=false", "--set", "lr=0.001", "--json", matcher=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    rows = {row[1] for row in found["tables"][0]["rows"]}
    assert {"naive pseudo-labels", "TITAN without correction"} <= rows and "TTT++" not in rows
    assert any(notice.startswith("mean_pool, left out: TTT++. ") for notice in found["notices"])


def test_what_a_study_does_not_take_is_refused(place: Path, tmp_path: Path) -> None:
    for name, words, kind, sentence in (
        ("titan/t1", "--set protocol=offline", UsageError, "make titan/t3 for it"),
        ("titan/t2", "--set loop.steps=3", RecipeError, "cannot be followed"),
        ("titan/t2", "--recipe tcd.yaml", RecipeError, "There is no file of settings 'tcd.yaml'"),
        ("titan/t2", "--start one", UsageError, "does not look at what is named with --start"),
    ):
        done = place.study(name, tmp_path, *words.split())
        assert isinstance(done.exception, kind) and sentence in str(done.exception), done.output
    assert not any(tmp_path.iterdir())
