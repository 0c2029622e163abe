"""`evenreel score` by words on screen, and of the search of a library, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, load_texts, make_corpus, save_corpus
from evenreel.errors import FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features, load_text_features, load_video_features
from evenreel.language.wording import babbled
from evenreel.planted import PlantSettings, SceneRanges, plan_corpus, write_corpus
from evenreel.types import Corpus, Scores
from tests.cli.test_library_commands import here
from tests.features.pixel_encoder import PixelEncoder
from tests.library.index.test_subtitles import say

SCENES = SceneRanges(duration_s=(0.5, 0.8), sign_share=0.0, width=64, height=48)
CLIPS = 10


class Place(NamedTuple):
    """A planted corpus, its features with the words of the corpus, and some without any words."""

    corpus: Path
    features: Path
    wordless: Path

    def command(self, *words: str | Path) -> list[str]:
        return list(map(str, ["score", "bm25", self.corpus, "--features", self.features, *words]))

    def score(self, *words: str | Path) -> Result:
        """The command in this process, which has its imports behind it."""
        return CliRunner().invoke(app, self.command(*words))

    def loaded(self) -> Corpus:
        return load_corpus(self.corpus)

    def read(self, path: Path) -> Scores:
        scores = load_scores(path, self.loaded(), partial=True)
        assert isinstance(scores, Scores)
        return scores


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("words")
    plan = plan_corpus("scene_text", 1.0, CLIPS, settings=PlantSettings(SCENES, val_share=0.2, group=2))
    write_corpus(plan, folder / "corpus", workers=1)
    corpus, texts = load_corpus(folder / "corpus"), load_texts(folder / "corpus")
    for name, read_text, words in (("features", True, texts), ("wordless", False, None)):
        settings = FeatureSettings("2 midpoints", read_text, videos=folder / "corpus", workers=1)
        compute_features(corpus, folder / name, PixelEncoder(), settings, words=words)
    return Place(folder / "corpus", folder / "features", folder / "wordless")


def told_apart(scores: Scores, corpus: Corpus) -> list[bool]:
    """Whether no other clip scores higher with a caption than its own."""
    owner = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
    columns = {clip: place for place, clip in enumerate(scores.video_ids)}
    own = np.array([columns[owner[caption]] for caption in scores.caption_ids])
    right = scores.values[np.arange(len(own)), own]
    return list(right == scores.values.max(axis=1))


def test_the_words_on_screen_find_the_clips_that_captions_name(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "new" / "bm25.npz"
    done = here(*place.command("--out", out, "--words", "corpus"))
    assert (done.returncode, done.stderr) == (0, "")
    corpus = place.loaded()
    scores = place.read(out)
    assert scores.about.uses == ("word counts of the gallery",)
    texts = load_texts(place.corpus)
    assert texts is not None
    signs = {clip: text.casefold() for clip, text in texts.select("clip_id", "text").iter_rows()}
    said = corpus.captions["text"].str.to_lowercase().str.replace_all(r"[^\w ]", "")
    own = [set(signs.get(clip, "").split()) for clip in scores.video_ids]
    shown = np.array([[bool(set(text.split()) & words) for words in own] for text in said])
    assert shown.any(axis=1).sum() >= CLIPS  # captions do name signs
    assert np.array_equal(scores.values > 0, shown)
    assert all(told_apart(scores, corpus))


def test_captions_that_share_nothing_with_any_screen_are_counted(place: Place, tmp_path: Path) -> None:
    corpus = place.loaded()
    nowhere = pl.when(pl.int_range(pl.len()) < 2).then(pl.lit("qwxyz")).otherwise(pl.col("text"))
    changed = Corpus(corpus.clips, corpus.captions.with_columns(nowhere.alias("text")))
    save_corpus(changed, tmp_path / "corpus")
    words = ["score", "bm25", tmp_path / "corpus", "--features", place.features, "--out", tmp_path / "s.npz", "--json"]
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    assert "they score 0 with all clips" in done.stdout
    scores = load_scores(tmp_path / "s.npz", changed)
    assert not scores.block(slice(0, 2), slice(0, CLIPS)).any()


def test_words_that_are_left_out_or_misread_first(place: Place, tmp_path: Path) -> None:
    """What is left of the words is what scores, and is said wherever they are shown."""
    plain, gone, misread, pieces = (tmp_path / f"{name}.npz" for name in ("plain", "gone", "misread", "pieces"))
    assert place.score("--out", plain).exit_code == 0
    assert place.score("--out", gone, "--ocr-ratio", "0").exit_code == 0
    assert not place.read(gone).values.any()
    assert place.read(gone).about.uses == ("word counts of the gallery", "no on-screen words")
    rates = ("--char-errors", "0.4", "--words-seed", "1")
    assert place.score("--out", misread, *rates).exit_code == 0
    assert place.score("--out", pieces, *rates, "--by", "trigrams").exit_code == 0
    matched = {path: int((place.read(path).values > 0).sum()) for path in (plain, misread, pieces)}
    assert matched[misread] < matched[plain]
    assert matched[misread] < matched[pieces]
    assert place.read(misread).about.uses[1] == "on-screen words with 40 % of their characters misread (seed 1)"
    refused = place.score("--out", tmp_path / "no.npz", "--ocr-ratio", "0.5", "--words-unit", "window")
    assert "bm25 reads the words of whole clips and knows no windows" in str(refused.exception)


def test_what_makes_no_sense_is_refused(place: Place, tmp_path: Path) -> None:
    for words, error, sentence in (
        ("--out s.npy", UsageError, "bm25 uses word counts of the gallery, which an .npy cannot say"),
        ("--out s.txt", UsageError, "s.txt ends neither in .npz nor in .npy"),
        ("--out s.npz --words both", UsageError, "--words is 'both'; it must be corpus or ocr."),
        ("--out s.npz --by letters", UsageError, "--by is 'letters'; it must be words or trigrams."),
        ("--out s.npz --single-frame first", UsageError, "bm25 reads the words on screen and no frame"),
        ("--out s.npz --pretrained-features there", UsageError, "bm25 reads the words on screen and no frame"),
        ("--out s.npz --seed 7", UsageError, "--words-seed says which words are kept or misread"),
        ("--out s.npz --ocr-ratio 0.5 --seed 7", UsageError, "--seed draws frames"),
        ("--out s.npz --device cuda", UsageError, "no model that could run on a device"),
        ("--out s.npz --words ocr", FeaturesError, "holds features by '2 midpoints, words of the corpus'"),
        ("windows --out s.npy", UsageError, "windows uses scores of other clips of the gallery, which an .npy"),
        ("windows --out s.npz --by trigrams", UsageError, "--by says what bm25 compares"),
        ("windows --out s.npz --ocr-ratio 0", UsageError, "No clip has on-screen text"),
        ("windows --out s.npz --device cuda", UsageError, "windows has no model that could run on a device"),
        ("windows --out s.npz --reading bias", UsageError, "windows reads the words of captions as they are"),
    ):
        system, _, more = words.partition("--out ")
        given = [str(tmp_path / word) if word.startswith("s.") else word for word in more.split()]
        command = ["score", system.strip() or "bm25", *place.command("--out", *given)[2:]]
        refused = CliRunner().invoke(app, command)
        assert isinstance(refused.exception, error) and sentence in str(refused.exception), refused.output
        assert not list(tmp_path.iterdir())


def test_features_without_words_and_matchers_with_options_of_words_are_refused(place: Place, tmp_path: Path) -> None:
    wordless = place._replace(features=place.wordless).score("--out", tmp_path / "s.npz")
    assert isinstance(wordless.exception, FeaturesError)
    assert "run `evenreel features` without --no-ocr." in str(wordless.exception)
    command = place.command("--out", tmp_path / "s.npz", "--by", "trigrams")
    matcher = CliRunner().invoke(app, ["score", "mean_pool", *command[2:]])
    assert isinstance(matcher.exception, UsageError) and "--by for bm25" in str(matcher.exception)


def windows_command(place: Place, *words: str | Path) -> list[str]:
    return ["score", "windows", *place.command(*words)[2:]]


def test_windows_compares_features_of_words_and_of_what_was_read(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "windows.npz"
    done = here(*windows_command(place, "--out", out, "--words", "corpus"))
    assert (done.returncode, done.stderr) == (0, "")
    corpus = place.loaded()
    scores, texts = place.read(out), load_text_features(place.features, corpus)
    read = load_video_features(place.features, corpus).on_screen
    assert read is not None
    for caption, row in enumerate(texts.words.astype(float)):
        words = [word / np.linalg.norm(word) for word, real in zip(row, texts.word_mask[caption], strict=True) if real]
        for clip in range(CLIPS):
            here_read = read.windows[clip].astype(float)[read.mask[clip]]
            best = max(float(word @ window) for word in words for window in here_read)
            assert scores.values[caption, clip] == pytest.approx(best, abs=2e-3)


def test_windows_misreads_words_first_where_it_is_asked_to(place: Place, tmp_path: Path) -> None:
    plain, gone = tmp_path / "plain.npz", tmp_path / "gone.npz"
    changed = ("--ocr-ratio", "0.5", "--words-unit", "clip", "--json")
    for out, words in ((plain, ()), (gone, changed)):
        done = CliRunner().invoke(app, windows_command(place, "--out", out, *words))
        assert done.exit_code == 0, done.output
    before, after = place.read(plain), place.read(gone)
    assert before.about.uses == ()
    assert after.about.uses[0] == "mean score of the clips with text"
    bare = (before.values != after.values).any(0)
    assert 0 < bare.sum() < CLIPS
    mean = after.values[:, ~bare].mean(1)
    assert np.allclose(after.values[:, bare], mean[:, None], atol=1e-6)
    assert any("nothing is written in" in notice for notice in json.loads(done.stdout)["notices"])


def printed(*words: str | Path) -> str:
    run = here(*words)
    assert (run.returncode, run.stderr) == (0, ""), run
    return run.stdout


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve planted clips; a library of them without subtitles, with another clip's captions, with syllables."""
    shelf = tmp_path_factory.mktemp("shelf")
    printed("planted", "visual", "--strength", "0", "--clips", "40", "--workers", "1", "--out", shelf / "whole")
    corpus = load_corpus(shelf / "whole")
    test = corpus.clips.filter(pl.col("split") == "test")
    shifted = [*test["clip_id"][5:], *test["clip_id"][:5]]
    marked = test.with_columns(path="clips/" + pl.col("clip_id") + ".mp4", voiceover_of=pl.Series(shifted))
    captions = corpus.captions.filter(pl.col("clip_id").is_in(test["clip_id"].implode()))
    (shelf / "clips").mkdir()
    save_corpus(make_corpus(marked, captions), shelf)
    first = dict(captions.select("clip_id", "text").reverse().iter_rows())
    random = np.random.default_rng(0)
    for name in test["clip_id"]:
        (shelf / "whole" / "clips" / f"{name}.mp4").rename(shelf / "clips" / f"{name}.mp4")
    for name in ("clean", "voiceover", "control"):
        for clip, lender in zip(test["clip_id"], shifted, strict=True):
            if name != "clean":
                text = first[lender] if name == "voiceover" else babbled(first[lender], random)
                say(shelf / "clips" / f"{clip}.srt", text)
        model = ("--model", "builtin", "--device", "cpu", "--no-ocr", "--set", "keep_stills=no")
        printed("index", shelf / "clips", "--library", shelf / "library", "--sample", "2 midpoints", *model)
        printed("score", shelf / "library", shelf, "--device", "cpu", "--out", shelf / f"{name}.npz")
    return shelf


def test_the_search_of_a_library_is_measured_as_any_system(shelf: Path) -> None:
    out = shelf / "again.npz"
    found = json.loads(printed("score", shelf / "library", shelf, "--device", "cpu", "--out", out, "--json"))
    assert (found["captions"], found["clips"], found["uses"]) == (24, 12, ["word counts of the gallery"])
    assert "R@1" in printed("evaluate", shelf / "clean.npz", "--corpus", shelf, "--json", "--resamples", "0")


def test_what_is_said_over_the_wrong_clips_leads_the_search_astray(shelf: Path) -> None:
    edited = ("--edited", f"voiceover={shelf / 'voiceover.npz'}", "--edited", f"control={shelf / 'control.npz'}")
    words = ("audit", "overlay", "--scores", shelf / "clean.npz", *edited, "--corpus", shelf, "--json")
    (found,) = json.loads(printed(*words))["audits"]
    effect = found["effect"]
    assert effect["value"] > 0.5 and effect["low"] > 0.2
    assert "a wrong clip that says words of the caption's clip rises by" in found["sentence"]
    rises = found["tables"][0]
    control = dict(zip(rises["columns"], rises["rows"][1], strict=True))
    assert abs(control["rises by, places"]) < 0.5, "syllables say nothing"


def test_what_a_library_has_no_use_for_is_refused_before_anything_is_read(shelf: Path, tmp_path: Path) -> None:
    library = str(shelf / "library")
    for words, sentence in {
        (library, "--features", "here"): "A library has its own vectors; leave --features and",
        (library, "--frame-order", "random"): "The search of a library is scored as it is",
        (library, "--alpha", "0.5"): "The search of a library is scored as it is",
        (library, "--words", "ocr"): "--words is for bm25 and windows",
        ("mean_pool",): "reads features; name their folder with --features",
        ("bm25",): "reads features; name their folder with --features",
    }.items():
        command = ["score", words[0], str(shelf), *words[1:], "--out", str(tmp_path / "s.npz")]
        refused = CliRunner().invoke(app, command)
        assert isinstance(refused.exception, UsageError) and sentence in str(refused.exception), words
    plain = CliRunner().invoke(app, ["score", library, str(shelf), "--out", str(tmp_path / "s.npy")])
    assert isinstance(plain.exception, UsageError) and "let --out end in .npz" in str(plain.exception)


def test_clips_that_the_library_lacks_are_set_aside(shelf: Path, tmp_path: Path) -> None:
    corpus = load_corpus(shelf)
    clips = corpus.clips.with_columns(
        path=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("no.mp4")).otherwise("path")
    )
    save_corpus(make_corpus(clips, corpus.captions), tmp_path)
    run = here("score", shelf / "library", tmp_path, "--device", "cpu", "--out", tmp_path / "s.npz")
    assert run.returncode == 3 and "no.mp4): the library does not have its file" in run.stdout
