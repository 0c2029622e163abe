"""`evenreel study tcd/...` as it is typed, on planted clips whose captions name words on signs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner, Result

from evenreel.checkpoint import Pretrained, save_pretrained
from evenreel.checkpoint.records import About, EncoderNote, Inputs, MatcherSpec
from evenreel.cli.app import app
from evenreel.corpus import load_corpus, load_texts
from evenreel.encoders import load_encoder
from evenreel.features import FeatureSet, FeatureSettings, FoundClips, compute_features, find_clips, read_manifest
from evenreel.features.word_changes import WordChanges
from evenreel.matchers import build_matcher
from evenreel.papers.reading import words_read
from evenreel.planted import PlantSettings, SceneRanges, plan_corpus, write_corpus
from tests.training.conftest import clip_folder

__all__ = ["clip_folder"]

CLIPS, FRAMES = 16, 2
SCENES = SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48)
QUICK = ("loop.steps=2", "loop.epochs=null", "loop.batch_size=8", "data.held_out=0.2", "matcher.settings.heads=1")


class Place(NamedTuple):
    """A planted corpus with words on signs, its features, and these with later ones that nobody read anything for."""

    corpus: Path
    features: Path
    later: Path

    def words(self, name: str, out: Path, *more: str | Path) -> list[str]:
        device = ["--device", "cpu"] if name.startswith("tcd/") and name != "tcd/f1" else []
        return list(map(str, ["study", name, self.corpus, "--out", out, *device, *more]))

    def study(self, name: str, out: Path, *more: str | Path) -> Result:
        """The command in this process, which has its imports behind it."""
        return CliRunner().invoke(app, self.words(name, out, *more))


@pytest.fixture(scope="module")
def place(clip_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("signs")
    plan = plan_corpus("scene_text", 1.0, CLIPS, settings=PlantSettings(SCENES, group=2))
    write_corpus(plan, folder / "corpus", workers=1)
    corpus, texts = load_corpus(folder / "corpus"), load_texts(folder / "corpus")
    encoder = load_encoder(str(clip_folder), device="cpu")
    settings = FeatureSettings(f"{FRAMES} midpoints", videos=folder / "corpus", workers=1)
    compute_features(corpus, folder / "features", encoder, settings, words=texts)
    shutil.copytree(folder / "features", folder / "later")
    compute_features(corpus, folder / "later", encoder, replace(settings, read_text=False))
    return Place(folder / "corpus", folder / "features", folder / "later")


def training(place: Place) -> list[str]:
    words = ["--features", str(place.features), "--seeds", "1"]
    for change in QUICK:
        words += ["--set", change]
    return words


def found(done: Result) -> tuple[list[list[Any]], list[str]]:
    """Rows of the first table, and notices."""
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    return printed["tables"][0]["rows"], printed["notices"]


@pytest.mark.parametrize("name", ["tcd/t1", "tcd/t8"])
def test_windows_among_the_frames_are_more_than_matchers_have_places_for(
    place: Place, tmp_path: Path, name: str
) -> None:
    """2 frames and 12 windows, where x_clip and t_mass have 12 places unless they are told; so too for 12 and 12."""
    rows, _ = found(place.study(name, tmp_path / "out", *training(place), "--json"))
    assert {"t_mass + windows", "x_clip + windows", "tcd"} <= {row[0] for row in rows}


def test_a_table_with_words_left_out(place: Place, tmp_path: Path) -> None:
    rows, notices = found(place.study("tcd/t3", tmp_path / "out", *training(place), "--json"))
    assert [row[0] for row in rows] == ["tcd", "no words", "no words, said so"]
    assert "What each training gives" in (tmp_path / "out" / "report.html").read_text()
    recipe = (tmp_path / "out" / "runs" / "no-words-said-so" / "seed-0" / "recipe.yaml").read_text()
    assert "ratio: 0.0" in recipe and "empty: caption" in recipe
    assert "On-screen text is words of the corpus." in notices
    runs = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").rglob("last.ckpt")}
    again = place.study("tcd/t3", tmp_path / "out", *training(place))
    assert "What is on-screen text worth?\nno words: R@1 T2V " in again.stdout and len(runs) == 3
    assert {path: path.stat().st_mtime_ns for path in runs} == runs


def save_tcd(folder: Path, features: Path, changes: WordChanges | None = None) -> Path:
    """An untrained one that takes words of the corpus."""
    manifest = read_manifest(features)
    settings = {"heads": 1}
    matcher, spec = build_matcher("tcd", manifest.dimension, settings), MatcherSpec("tcd", settings)
    note = EncoderNote(manifest.encoder_id, manifest.weights_hash, manifest.dimension)
    made = manifest.sets[0]
    inputs = Inputs(rule=made.rule, windows=made.windows, words_from="corpus", word_changes=changes)
    save_pretrained(folder, Pretrained(matcher, spec, About(note, inputs)))
    return folder


def a_query(place: Place) -> str:
    captions = load_corpus(place.corpus).captions
    return str(captions.filter(captions["clip_id"].str.starts_with("test"))["caption_id"][0])


def test_whose_words_a_study_looks_at_can_be_said(place: Place, tmp_path: Path) -> None:
    words = ("--features", place.later, "--words", "corpus", "--json")
    rows, notices = found(place.study("tcd/f1", tmp_path / "out", *words))
    assert {row[0]: row[1] for row in rows}["words on signs"] == 1
    assert notices == ["On-screen text is words of the corpus."]
    done = place.study("tcd/f1", tmp_path / "out", "--features", place.later, "--words", "eyes")
    assert "'eyes'; it must be ocr or corpus" in str(done.exception)


def test_other_words_of_the_same_frames_are_named(place: Place) -> None:
    manifest = read_manifest(place.features)
    (own,) = manifest.sets
    others = (FeatureSet(own.rule, "ocr"), FeatureSet(own.rule, "ocr", 4), FeatureSet("every 1 s", "ocr", 4))
    clips = find_clips(place.features, load_corpus(place.corpus))
    assert isinstance(clips, FoundClips)
    (alone,) = words_read(replace(clips, manifest=replace(manifest, sets=(*others[::2], own))))
    (beside,) = words_read(replace(clips, manifest=replace(manifest, sets=(*others, own))))
    assert "--words ocr" in beside and "--words ocr" not in alone


def test_first_clips_with_the_words_that_each_checkpoint_was_given(place: Place, tmp_path: Path) -> None:
    kinds = {"all": None, "none": WordChanges(0.0), "misread": WordChanges(char_errors=1.0)}
    for name, changes in kinds.items():
        save_tcd(tmp_path / name, place.features, changes)
    query, texts = a_query(place), load_texts(place.corpus)
    assert texts is not None
    words = [word for name in kinds for word in ("--matcher", f"{name}={tmp_path / name}")]
    done = place.study("tcd/f4", tmp_path / "out", "--features", place.later, *words, "--query", query, "--json")
    rows, notices = found(done)
    signs = dict(texts.select("clip_id", "text").iter_rows())
    shown = {name: [(row[9], signs[row[3]]) for row in rows if row[0] == name] for name in kinds}
    assert all(word == sign for word, sign in shown["all"]) and len(shown["all"]) == 3
    assert all(row[5] == pytest.approx(sum(row[6:9]) / 3, abs=1e-5) for row in rows if row[0] == "all")
    assert "data:image\\u002fjpeg;base64," in (tmp_path / "out" / "report.html").read_text()
    assert all(word is None for word, _ in shown["none"])
    assert all(word not in (None, sign) for word, sign in shown["misread"])
    assert "none is scored with no on-screen words, as it was trained." in notices
    assert "The on-screen text that all reads is words of the corpus." in notices
    assert not any(notice.startswith("all is scored with") for notice in notices)
