"""`evenreel prepare` as it is typed: rendered clips, their features by the encoder of the package, a checkpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.adaptation.prepared import load_prepared
from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, load_matcher, save_pretrained
from evenreel.checkpoint.architecture import build
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, save_corpus, select
from evenreel.encoders import load_encoder
from evenreel.errors import CheckpointError, CorpusError, FeaturesError, UsageError
from evenreel.features import FeatureSettings, compute_features
from evenreel.types import Corpus

SPEC = MatcherSpec("adapted", {}, (MatcherSpec("mean_pool"),))


class Place(NamedTuple):
    corpus: Path
    checkpoint: Path

    @property
    def features(self) -> Path:
        return self.corpus / "features"

    def prepare(self, *words: object, checkpoint: object = None, corpus: object = None) -> Result:
        """The command in this process, which has its imports behind it."""
        named = self.checkpoint if checkpoint is None else checkpoint
        command = ["prepare", named, corpus or self.corpus, "--features", self.features, "--device", "cpu", *words]
        return CliRunner().invoke(app, list(map(str, command)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("prepare")
    words = "planted domain --strength 1 --clips 20 --workers 1 --out"
    planted = [*words.split(), str(folder / "corpus")]
    assert CliRunner().invoke(app, planted).exit_code == 0
    encoder = load_encoder("builtin", device="cpu")
    corpus = load_corpus(folder / "corpus")
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=folder / "corpus", workers=1)
    compute_features(corpus, folder / "corpus" / "features", encoder, settings)
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    about = About(note, Inputs(frames=2, words=32, rule="2 midpoints"))
    save_pretrained(folder / "checkpoint", Pretrained(build(SPEC, encoder.dimension), SPEC, about))
    return Place(folder / "corpus", folder / "checkpoint")


def test_all_that_adaptation_needs_lies_in_the_checkpoint(place: Place) -> None:
    done = place.prepare("--steps", 8, "--count", 20, "--json")
    assert done.exit_code == 0, done.output
    told, train = json.loads(done.stdout), select(load_corpus(place.corpus), split="train")
    assert (told["captions"], told["clips"]) == (train.captions.height, train.clips.height)
    assert (told["corpus"], told["split"], told["validation"]) == ("corpus", "train", "val")
    found = load_prepared(place.checkpoint)
    assert found is not None and found.correction is not None
    assert told["bytes"] == sum(path.stat().st_size for path in (place.checkpoint / "source").iterdir())
    assert (len(found.correction.source), len(found.note.names)) == (20, 20)
    assert found.dictionary is not None and set(found.note.names) <= {
        *found.dictionary.dictionary.entities,
        *found.dictionary.dictionary.activities,
    }
    assert found.statistics is not None and int(found.statistics.video.size) == train.clips.height
    assert found.flows is not None
    assert dict(found.note.figures) == told["figures"]


def test_a_person_reads_what_was_fitted(place: Place) -> None:
    done = place.prepare("--steps", 8, "--confounders", "kmeans", "--count", 6, "--seed", 2)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    figures = load_prepared(place.checkpoint).note.figures
    assert lines[0].startswith("Prepared from ") and lines[0].endswith(" MB).")
    assert lines[1] == "  confounders: 6 centres of frames"
    assert f"{figures['bce_end']:.3f} after 8 steps" in lines[2] and figures["bce_end"] < figures["bce_start"]
    assert f"{100 * figures['validation_accuracy']:.1f} %" in lines[3]


def test_the_source_stage_is_set_as_the_target_stage_is(place: Place, tmp_path: Path) -> None:
    """A file, then --steps and --seed, then --set; what nothing has is refused before anything is read."""
    (tmp_path / "own.yaml").write_text("causal_fit: {steps: 9, lr: 0.01}\ncausal: {eta: 3}\nflow: {steps: 1}\n")
    quick = ("--confounders", "kmeans", "--count", 4, "--json")
    told = {}
    for name, words in {
        "file": ("--settings", tmp_path / "own.yaml"),
        "steps": ("--settings", tmp_path / "own.yaml", "--steps", 2, "--seed", 3),
        "set": ("--steps", 2, "--seed", 3, "--set", "causal_fit.steps=5", "--set", "causal.eta=3"),
    }.items():
        done = place.prepare(*quick, *words)
        assert done.exit_code == 0, done.output
        told[name] = json.loads(done.stdout)
        found = load_prepared(place.checkpoint)
        assert found is not None and found.correction is not None and found.correction.settings.eta == 3
    assert {name: (one["figures"]["steps"], one["seed"]) for name, one in told.items()} == {
        "file": (9, 0), "steps": (2, 3), "set": (5, 3),
    }  # fmt: skip
    done = place.prepare("--set", "fit.steps=2", checkpoint=tmp_path / "nowhere")
    assert isinstance(done.exception, UsageError), done.output
    assert "There is no setting fit; there are causal, causal_fit, flow, seed." in str(done.exception)


def test_a_split_without_captions_is_named(place: Place, tmp_path: Path) -> None:
    whole = load_corpus(place.corpus)
    clips = select(whole, split="val").clips["clip_id"].implode()
    save_corpus(Corpus(whole.clips, whole.captions.filter(~pl.col("clip_id").is_in(clips))), tmp_path / "mute")
    done = place.prepare("--confounders", "kmeans", corpus=tmp_path / "mute")
    assert isinstance(done.exception, CorpusError), done.output
    assert "No caption of the split val has a clip that can be used" in str(done.exception)


def test_a_matcher_without_an_adapter_is_prepared_and_what_it_cannot_do_is_said(place: Place, tmp_path: Path) -> None:
    about, bare = load_matcher(place.checkpoint).about, MatcherSpec("mean_pool")
    save_pretrained(tmp_path / "bare", Pretrained(build(bare, about.encoder.dimension), bare, about))
    words = ("--steps", 1, "--confounders", "kmeans", "--count", 3)
    done = place.prepare(*words, checkpoint=tmp_path / "bare")
    assert done.exit_code == 0, done.output
    assert "no adapter in front: TTT++ and TTTFlow cannot adapt it" in done.stdout
    assert "no adapter" not in place.prepare(*words).stdout


def test_confounders_of_ones_own(place: Place, tmp_path: Path) -> None:
    np.save(tmp_path / "detected.npy", np.random.default_rng(0).normal(size=(5, 24)))
    done = place.prepare("--split", "val", "--steps", 2, "--confounders", tmp_path / "detected.npy")
    assert done.exit_code == 0, done.output
    assert "5 vectors of a file" in done.stdout
    found = load_prepared(place.checkpoint)
    assert "validation_accuracy" not in found.note.figures, "a split is not measured on itself"
    assert (found.note.confounders, tuple(found.correction.source.shape)) == ("file", (5, 24))


def test_what_cannot_be_prepared_is_refused_and_nothing_is_lost(place: Place, tmp_path: Path) -> None:
    assert place.prepare("--steps", 1, "--confounders", "kmeans", "--count", 3).exit_code == 0
    shutil.copytree(place.checkpoint, tmp_path / "before")
    for words, checkpoint, kind, sentence in (
        ((), "org/tiny", CheckpointError, "get a copy with `hf download org/tiny --local-dir tiny` and name that"),
        ((), tmp_path / "nowhere", CheckpointError, "is no folder of a checkpoint"),
        (("--confounders", "words"), None, UsageError, "--confounders is 'words'; give elements, kmeans"),
        (("--confounders", tmp_path), None, FeaturesError, "There is no scene dictionary in"),
        (("--split", "dev"), None, CorpusError, "split 'dev'"),
        (("--validation", "dev"), None, CorpusError, "split 'dev'"),
        (("--validation", "train"), None, UsageError, "--validation is train, which is prepared from; name another"),
    ):
        done = place.prepare(*words, checkpoint=checkpoint)
        assert isinstance(done.exception, kind), done.output
        assert sentence in str(done.exception)
    for name in ("config.json", "prepared.safetensors"):
        assert (place.checkpoint / "source" / name).read_bytes() == (tmp_path / "before" / "source" / name).read_bytes()
