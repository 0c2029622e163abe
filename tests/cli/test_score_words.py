"""`evenreel score bm25` and `windows` as they are typed, on planted clips that differ in words on screen alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, load_texts, save_corpus
from evenreel.errors import FeaturesError, UsageError
from evenreel.evaluation import load_scores
from evenreel.features import FeatureSettings, compute_features, load_text_features, load_video_features
from evenreel.planted import PlantSettings, SceneRanges, plan_corpus, write_corpus
from evenreel.types import Corpus, Scores
from tests.cli.test_library_commands import here
from tests.features.pixel_encoder import PixelEncoder

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
    shown = np.array(
        [
            [bool(set(text.split()) & set(signs.get(clip, "").split())) for clip in scores.video_ids]
            for text in corpus.captions["text"].str.to_lowercase().str.replace_all(r"[^\w ]", "")
        ]
    )
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
    said = json.loads(done.stdout)
    assert said["uses"] == ["word counts of the gallery"]
    # a clip's words are looked for as they are in the folder of features, whatever its captions say
    assert any(notice.endswith("they score 0 with all clips, whose order is left open") for notice in said["notices"])
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


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
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
    ],
)
def test_what_makes_no_sense_is_refused(
    place: Place, tmp_path: Path, words: str, error: type[Exception], sentence: str
) -> None:
    system, _, more = words.partition("--out ")
    given = [str(tmp_path / word) if word.startswith("s.") else word for word in more.split()]
    command = ["score", system.strip() or "bm25", *place.command("--out", *given)[2:]]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, error), refused.output
    assert sentence in str(refused.exception)
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
