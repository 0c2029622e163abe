"""`evenreel study tcd/...` as it is typed, on planted clips whose captions name words on signs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import Pretrained, save_pretrained
from evenreel.checkpoint.records import About, EncoderNote, Inputs, MatcherSpec
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, load_texts
from evenreel.encoders import load_encoder
from evenreel.errors import UsageError
from evenreel.features import FeatureSettings, compute_features, read_manifest
from evenreel.matchers import build_matcher
from evenreel.planted import PlantSettings, SceneRanges, plan_corpus, write_corpus
from tests.test_cli import evenreel
from tests.training.conftest import clip_folder

__all__ = ["clip_folder"]

CLIPS, FRAMES = 24, 2
SCENES = SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48)
QUICK = ("loop.steps=2", "loop.epochs=null", "loop.batch_size=8", "data.held_out=0.2", "matcher.settings.heads=1")


class Place(NamedTuple):
    """A planted corpus with words on signs, its features, and some that nobody read anything for."""

    corpus: Path
    features: Path
    wordless: Path

    def words(self, name: str, out: Path, *more: str | Path) -> list[str]:
        return list(map(str, ["study", name, self.corpus, "--out", out, "--device", "cpu", *more]))

    def study(self, name: str, out: Path, *more: str | Path) -> Result:
        """The command in this process, which has its imports behind it."""
        return CliRunner().invoke(app, self.words(name, out, *more))


@pytest.fixture(scope="module")
def place(clip_folder: Path, forked_readers: None, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("signs")
    plan = plan_corpus("scene_text", 1.0, CLIPS, settings=PlantSettings(SCENES, group=2))
    write_corpus(plan, folder / "corpus", workers=1)
    corpus, texts = load_corpus(folder / "corpus"), load_texts(folder / "corpus")
    encoder = load_encoder(str(clip_folder), device="cpu")
    for name, read_text, words in (("features", True, texts), ("wordless", False, None)):
        settings = FeatureSettings(f"{FRAMES} midpoints", read_text, words, videos=folder / "corpus", workers=1)
        compute_features(corpus, folder / name, encoder, settings)
    return Place(folder / "corpus", folder / "features", folder / "wordless")


def training(place: Place) -> list[str]:
    words = ["--features", str(place.features), "--seeds", "1"]
    for change in QUICK:
        words += ["--set", change]
    return words


def rows_of(done: Result | str) -> list[list[Any]]:
    return json.loads(done if isinstance(done, str) else done.stdout)["tables"][0]["rows"]  # type: ignore[no-any-return]


def test_a_table_with_words_left_out(place: Place, tmp_path: Path) -> None:
    done = evenreel(*place.words("tcd/t3", tmp_path / "out", *training(place)))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("What is on-screen text worth?\nno words: R@1 T2V ")
    rows = rows_of((tmp_path / "out" / "results.json").read_text())
    assert [row[0] for row in rows] == ["tcd", "no words", "no words, said so"]
    assert "What each training gives" in (tmp_path / "out" / "report.html").read_text()
    recipe = (tmp_path / "out" / "runs" / "no-words-said-so" / "seed-0" / "recipe.yaml").read_text()
    assert "ratio: 0.0" in recipe and "empty: caption" in recipe
    runs = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").rglob("last.ckpt")}
    again = place.study("tcd/t4", tmp_path / "out", *training(place), "--json")
    assert again.exit_code == 0, again.output
    assert {row[0] for row in rows_of(again)} >= {"tcd", "no words", "40 % of the words"}
    assert {path: path.stat().st_mtime_ns for path in runs} == runs


def test_tokens_are_counted(place: Place, tmp_path: Path) -> None:
    done = place.study("tcd/f1", tmp_path / "out", "--features", place.features, "--json")
    assert done.exit_code == 0, done.output
    counts = {row[0]: row[1:] for row in rows_of(done)}
    assert counts["frames"] == [FRAMES] * 4
    assert counts["words on signs"] == [1, 1, 1, 1]  # each clip has a sign of one word, all the time
    assert counts["words in frames"] == [FRAMES] * 4


def test_first_clips_with_their_words(place: Place, tmp_path: Path) -> None:
    manifest = read_manifest(place.features)
    settings = {"heads": 1}
    matcher, spec = build_matcher("tcd", manifest.dimension, settings), MatcherSpec("tcd", settings)
    note = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
    inputs = Inputs(rule=manifest.sets[0].rule, windows=manifest.sets[0].windows, words_from="corpus")
    save_pretrained(tmp_path / "tcd", Pretrained(matcher, spec, About(note, inputs)))
    corpus, texts = load_corpus(place.corpus), load_texts(place.corpus)
    assert texts is not None
    query = corpus.captions.filter(corpus.captions["clip_id"].str.starts_with("test"))["caption_id"][0]
    words = ["--features", place.features, "--matcher", f"tcd={tmp_path / 'tcd'}", "--query", query, "--json"]
    done = place.study("tcd/f4", tmp_path / "out", *words)
    assert done.exit_code == 0, done.output
    rows = rows_of(done)
    signs = dict(texts.select("clip_id", "text").iter_rows())
    assert [row[9] for row in rows] == [signs[row[3]] for row in rows] and len(rows) == 3
    assert all(row[5] == pytest.approx(sum(row[6:9]) / 3, abs=1e-5) for row in rows)
    assert "data:image\\u002fjpeg;base64," in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("name", ["tcd/t2", "tcd/t8", "tcd/f1", "tcd/f4"])
def test_features_that_nobody_read_words_for_are_refused(name: str, place: Place, tmp_path: Path) -> None:
    done = place.study(name, tmp_path / "out", "--features", place.wordless, "--seeds", "1")
    assert isinstance(done.exception, UsageError), done.output
    assert "the features have none; give it features that were computed without --no-ocr" in str(done.exception)
    assert not (tmp_path / "out" / "runs").exists()
