"""`evenreel adapt` as it is typed: on a corpus, on a library, with a report, and undone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.adaptation.prepared import load_prepared
from evenreel.adaptation.zero_shot import zero_shot
from evenreel.checkpoint import EncoderNote, load_features_for, load_matcher, save_pretrained
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.encoders import load_encoder
from evenreel.errors import CheckpointError, EvenreelError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features, read_manifest
from evenreel.matchers.scoring import matcher_scores
from tests.test_cli import evenreel

FAST = ("--device", "cpu")
LEARNS = (
    "--settings", "titan/offline", "--set", "causal=false", "--set", "lr=0.01", "--set", "batch_size=4",
    "--set", "counterfactuals.beta=1",
)  # fmt: skip


def run(*words: object) -> Result:
    """The command in this process, which has its imports behind it."""
    return CliRunner().invoke(app, list(map(str, words)))


def good(*words: object) -> str:
    done = run(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


class Place(NamedTuple):
    """Rendered clips of a domain, and what was computed of those of the test split."""

    corpus: Path

    @property
    def features(self) -> Path:
        return self.corpus / "features"

    def adapt(self, *words: object, checkpoint: object = "mean_pool") -> Result:
        return run("adapt", checkpoint, self.corpus, "--features", self.features, *FAST, *words)

    def adapted(self, *words: object, checkpoint: object = "mean_pool") -> str:
        done = self.adapt(*words, checkpoint=checkpoint)
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout


@pytest.fixture(scope="module")
def place(forked_readers: None, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("adapt") / "corpus"
    good("planted", "domain", "--strength", "1", "--clips", "30", "--workers", "1", "--out", folder)
    settings = FeatureSettings(rule="2 midpoints", read_text=False, videos=folder, workers=1)
    test = select(load_corpus(folder), split="test")
    compute_features(test, folder / "features", load_encoder("builtin", device="cpu"), settings)
    return Place(folder)


@pytest.fixture(scope="module")
def checkpoint(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A matcher that could have been trained, with what was prepared of its source."""
    folder = tmp_path_factory.mktemp("source") / "checkpoint"
    manifest = read_manifest(place.features)
    note = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
    save_pretrained(folder, zero_shot(note, seed=3))
    how = ("--split", "test", "--validation", "test", "--confounders", "kmeans", "--count", "4", "--steps", "2", *FAST)
    good("prepare", folder, place.corpus, "--features", place.features, *how)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def error(done: Result) -> str:
    assert isinstance(done.exception, EvenreelError), (done.output, done.exception)
    return str(done.exception)


def test_a_corpus(place: Place, tmp_path: Path) -> None:
    scores, page = tmp_path / "scores.npz", tmp_path / "page.html"
    words = (*LEARNS, "--out", tmp_path / "out", "--scores", scores, "--report", page, "--json")
    printed = json.loads(place.adapted(*words))
    part = select(load_corpus(place.corpus), split="test")
    queries, clips = part.captions.height, part.clips.height
    assert printed["learned_from"] == {"of": "the split test of corpus", "queries": queries, "clips": clips}
    assert printed["kept"] and printed["sentence"] == "Adapted; whether it is better was not asked."
    assert printed["steps"][0]["queries"] == queries and printed["steps"][0]["counterfactual"] > 0
    assert printed["written"] == {"checkpoint": str(tmp_path / "out"), "scores": str(scores), "report": str(page)}
    kept = json.loads((tmp_path / "out" / "adaptation" / "report.json").read_text())
    assert kept == {name: value for name, value in printed.items() if name not in ("written", "set_aside")}
    assert (tmp_path / "out" / "adaptation" / "report.html").read_bytes() == page.read_bytes()
    assert "https://" not in page.read_text().split("<script>")[0]

    made = load_matcher(tmp_path / "out")
    use = f"{queries:,} unlabelled queries and {clips:,} clips of the split test of corpus"
    assert made.about.uses == (use,) and f"It was adapted to {use}" in made.about.limits[0]
    assert f"**It was trained with {use}**" in (tmp_path / "out" / "README.md").read_text()
    loaded = load_features_for(made, place.features, part)
    expected = matcher_scores(made.matcher, loaded.texts, loaded.videos).score_all().values
    found = load_scores(scores, part)
    assert found.uses == (use,)
    np.testing.assert_array_equal(found.block(slice(0, queries), slice(0, clips)), expected)
    source = matcher_scores(zero_shot(made.about.encoder).matcher, loaded.texts, loaded.videos).score_all().values
    assert np.mean(source.argmax(1) != expected.argmax(1)) == pytest.approx(printed["changes"]["first_changed"])
    before = {hub["clip"]: hub["before"] for hub in printed["changes"]["hubs"]}
    first = np.argsort(-source, axis=1, kind="stable")[:, : printed["changes"]["places"]]
    counts = np.bincount(first.ravel(), minlength=clips)
    assert all(before[clip] == counts[loaded.videos.ids.index(clip)] for clip in before)


def test_no_answer_is_read(place: Place, tmp_path: Path) -> None:
    """Captions of one clip under the ids of another: the bytes of the weights are the same."""
    corpus = load_corpus(place.corpus)
    clips_of_test = corpus.clips.filter(pl.col("split") == "test")["clip_id"].to_list()
    turned = dict(zip(clips_of_test, clips_of_test[3:] + clips_of_test[:3], strict=True))
    moved = corpus.captions.with_columns(pl.col("clip_id").replace(turned))
    assert moved["clip_id"].to_list() != corpus.captions["clip_id"].to_list()
    save_corpus(make_corpus(corpus.clips, moved), tmp_path / "corpus")
    place.adapted(*LEARNS, "--out", tmp_path / "one")
    done = run(
        "adapt", "mean_pool", tmp_path / "corpus", "--features", place.features, *FAST, *LEARNS, "--out",
        tmp_path / "two",
    )  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert weights[0] == weights[1]
    untouched = save_pretrained(tmp_path / "three", zero_shot(load_matcher(tmp_path / "one").about.encoder))
    assert untouched.spec.name == "adapted" and (tmp_path / "three" / "model.safetensors").read_bytes() != weights[0]


def test_online_scores_are_the_answers_as_they_were_given(place: Place, tmp_path: Path) -> None:
    words = (*LEARNS, "--set", "protocol=online", "--set", "predict=before", "--scores", tmp_path / "scores.npz")
    said = place.adapted(*words, "--dry-run")
    assert "No checkpoint was written. Scores are in" in said
    part = select(load_corpus(place.corpus), split="test")
    found = load_scores(tmp_path / "scores.npz", part)
    assert "unlabelled queries" in found.uses[0]
    manifest = read_manifest(place.features)
    source = zero_shot(EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension))
    loaded = load_features_for(source, place.features, part)
    expected = matcher_scores(source.matcher, loaded.texts, loaded.videos).score_all().values
    got = found.block(slice(0, len(expected)), slice(0, expected.shape[1]))
    np.testing.assert_allclose(got[:4], expected[:4], atol=1e-6)  # answered before anything was learned
    assert np.abs(got[4:] - expected[4:]).max() > 1e-4


def test_left_as_it_was(place: Place, checkpoint: Path, tmp_path: Path) -> None:
    """The weights are those of the source, also where a script asked for a checkpoint."""
    before = files(checkpoint)
    said = place.adapted("--out", tmp_path / "out", "--scores", tmp_path / "scores.npz", checkpoint=checkpoint)
    assert said.startswith("Left as it was: ")
    assert "has the weights of the source, unchanged, and the report" in " ".join(said.split())
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before["model.safetensors"]
    assert load_matcher(tmp_path / "out").about.uses == ()
    assert load_scores(tmp_path / "scores.npz", select(load_corpus(place.corpus), split="test")).uses == ()
    in_place = place.adapted("--in-place", checkpoint=checkpoint)
    assert "No checkpoint was written." in in_place and files(checkpoint) == before


def test_in_place_and_back(place: Place, checkpoint: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(checkpoint, own)
    before = files(own)
    place.adapted(*LEARNS, "--in-place", checkpoint=own)
    once = files(own)
    assert once["model.safetensors"] != before["model.safetensors"]
    assert {name: once[f"before/{name}"] for name in before} == before
    assert load_matcher(own).about.uses and load_prepared(own) is not None
    place.adapted(*LEARNS, "--set", "seed=5", "--in-place", checkpoint=own)
    assert run("adapt", own, "--undo").stdout == f"{own} is as it was before it was adapted.\n"
    assert files(own) == once
    good("adapt", own, "--undo", "--json")
    assert files(own) == before
    assert "was not adapted in place" in error(run("adapt", own, "--undo"))
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


@pytest.mark.parametrize(
    ("settings", "term"),
    [("titan/online", "contrastive"), ("titan/ttt", "mean_text"), ("titan/ttt-flow", "flow_video")],
)
def test_what_was_prepared_is_used_and_goes_along(
    place: Place, checkpoint: Path, tmp_path: Path, settings: str, term: str
) -> None:
    words = ("--settings", settings, "--set", "batch_size=8", "--out", tmp_path / "out", "--json")
    printed = json.loads(place.adapted(*words, checkpoint=checkpoint))
    assert printed["kept"] and any(term in name for name in printed["steps"][0]["loss"])
    one, two = load_prepared(checkpoint), load_prepared(tmp_path / "out")
    assert one is not None and two is not None and one.note == two.note
    assert one.statistics is not None and two.statistics is not None
    assert one.statistics.text.mean.equal(two.statistics.text.mean)
    safe = json.loads(place.adapted("--dry-run", "--json", checkpoint=checkpoint))
    assert not safe["kept"] and safe["drift"] is not None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mean_pool", "CORPUS", "--features", "F"], "Give one of --out DIR, --in-place and --dry-run"),
        (["mean_pool", "CORPUS", "--features", "F", "--dry-run", "--in-place"], "not --in-place and --dry-run"),
        (["mean_pool", "CORPUS", "--dry-run"], "Give with --features the folder"),
        (["mean_pool", "--dry-run"], "Name what to learn from"),
        (["mean_pool", "CORPUS", "--library", "L", "--dry-run"], "Name what to learn from"),
        (["mean_pool", "--library", "L", "--dry-run"], "Give with --queries a file"),
        (["mean_pool", "--library", "L", "--features", "F", "--dry-run"], "--features is about a corpus"),
        (["mean_pool", "CORPUS", "--features", "F", "--queries", "Q", "--dry-run"], "leave --queries out"),
        (["mean_pool", "CORPUS", "--features", "F", "--dry-run", "--scores", "s.npy"], "does not end in .npz"),
        (["x_pool", "CORPUS", "--features", "F", "--dry-run"], "The matcher x_pool has to be trained"),
        (["mean_pool", "CORPUS", "--features", "F", "--in-place"], "'mean_pool' is no folder"),
        (["mean_pool", "CORPUS", "--features", "F", "--dry-run", "--settings", "titn"], "There is no file of settings"),
        (["mean_pool", "CORPUS", "--features", "F", "--undo"], "with CHECKPOINT alone"),
        (["no/such/folder", "--undo"], "is no folder"),
    ],
)
def test_what_cannot_be_meant(words: list[str], sentence: str) -> None:
    done = run("adapt", *words)
    assert isinstance(done.exception, UsageError), (done.output, done.exception)
    assert sentence in str(done.exception)


def test_what_is_missing_is_said(place: Place, tmp_path: Path) -> None:
    words = ("--settings", "titan/offline", "--out", tmp_path / "out")
    assert "The checkpoint carries no bias correction; make one with `evenreel prepare" in error(place.adapt(*words))
    assert "carries nothing for ttt;" in error(place.adapt("--settings", "titan/ttt", "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    done = place.adapt(*LEARNS, "--out", tmp_path / "mine")
    assert isinstance(done.exception, CheckpointError) and "holds other things (letter.txt)" in str(done.exception)


def test_a_library_from_nothing(place: Place, forked_readers: None, tmp_path: Path) -> None:
    """The whole way of someone without any training: index, queries in a file, adapt, search, adapt in place, undo."""
    part = select(load_corpus(place.corpus), split="test")
    for path in part.clips["path"].to_list():
        shutil.copyfile(place.corpus / path, tmp_path / Path(path).name)
    index = ("--library", tmp_path / "library", "--model", "builtin", "--no-ocr", "--sample", "2 midpoints")
    clips = [tmp_path / Path(path).name for path in part.clips["path"].to_list()]
    good("index", *clips, *index, "--workers", "1", *FAST)
    texts = part.captions["text"].to_list()
    (tmp_path / "queries.txt").write_text("\n".join([*texts, texts[0]]) + "\n")
    asked = ("--library", tmp_path / "library", "--queries", tmp_path / "queries.txt", *LEARNS, *FAST)
    done = evenreel("adapt", "mean_pool", *asked, "--out", tmp_path / "mine", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    printed = json.loads(done.stdout)
    assert printed["learned_from"]["queries"] == len(set(texts)) and printed["kept"]
    shown = {name for one in printed["changes"]["examples"] for name in (one["before"], one["after"])}
    assert shown and {printed["names"][clip] for clip in shown} <= {clip.name for clip in clips}
    assert "asked again what others had" in printed["notices"][0]

    hits = hits_of(tmp_path, texts[1], tmp_path / "mine")
    stored = files(tmp_path / "mine")
    said = good("adapt", tmp_path / "mine", *asked, "--in-place")
    assert "The adapted checkpoint, with its report in adaptation/, is" in said
    assert hits_of(tmp_path, texts[1], tmp_path / "mine") != hits
    good("adapt", tmp_path / "mine", "--undo")
    assert files(tmp_path / "mine") == stored and hits_of(tmp_path, texts[1], tmp_path / "mine") == hits


def hits_of(folder: Path, query: str, checkpoint: Path) -> list[Any]:
    """Clips and scores of a search that a matcher re-ranks."""
    found = good("search", query, "--library", folder / "library", "--rerank", checkpoint, "--json", *FAST)
    return [(hit["clip_id"], hit["scores"]) for hit in json.loads(found)["hits"]]
