"""`evenreel perturb` and `audit` of composition, visual and textual as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, make_corpus, save_corpus
from evenreel.errors import CorpusError, ScoresError, UsageError
from evenreel.evaluation import save_scores
from evenreel.language.composition import ANSWERS
from evenreel.types import Scores
from tests.audits import small_edits
from tests.audits.small_readers import CLIP_IDS, content, corpus, heard, of, said
from tests.cli.test_library_commands import here


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, its scores, and those of captions of which the own clips hear that they are wrong."""
    place = tmp_path_factory.mktemp("composition")
    save_corpus(corpus(), place / "corpus")
    words = content()
    save_scores(of(said(words, 0)), place / "clean.npz")
    save_scores(of(heard(words)), place / "heard.npz")
    return place


def test_captions_are_swapped_scored_and_held_against_the_true_ones(place: Path, tmp_path: Path) -> None:
    done = here("perturb", place / "corpus", "--edit", "role-swapped", "--out", tmp_path / "swapped", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["changed"] == 60
    swapped = load_corpus(tmp_path / "swapped").captions
    assert set(swapped["text"]) == {"a cat chases a dog"}
    known = set(swapped["caption_id"])
    rows = [row for row, name in enumerate(of(content()).caption_ids) if name in known]
    given = of(heard(content()))
    some = type(given)(np.asarray(given.values)[rows], [given.caption_ids[row] for row in rows], given.video_ids)
    save_scores(some, tmp_path / "swapped.npz")
    words = ["--scores", place / "clean.npz", "--corpus", place / "corpus", "--report", tmp_path / "r.html"]
    words += ["--edited", f"role-swapped={tmp_path}/swapped.npz", "--edited-corpus", f"role-swapped={tmp_path}/swapped"]
    done = here("audit", "composition", *words, COLUMNS="150")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("The ranking reads who does what to whom") and lines[2].endswith(": above 0")
    assert "reads who does what to whom" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_questions_of_four_answers_are_written_scored_and_asked(place: Path, tmp_path: Path) -> None:
    """A ranking by the things that are named, whatever stands before them, affirms and hears no denial."""
    clips = ["a dog chases a cat", "a red ball rolls", "there is a boat"] * (len(CLIP_IDS) // 3)
    save_corpus(corpus(clips), tmp_path / "corpus")
    words = ["--scores", place / "clean.npz", "--corpus", tmp_path / "corpus", "--json"]
    for edit in ANSWERS:
        done = here("perturb", tmp_path / "corpus", "--edit", edit, "--out", tmp_path / edit, "--tagger", "pattern")
        assert (done.returncode, done.stderr) == (0, "")
        asked = load_corpus(tmp_path / edit).captions
        named = [{"ball", "boat", "cat", "dog"} & set(text.split()) for text in asked["text"]]
        values = np.array([[len(one & set(text.split())) / len(one) for text in clips] for one in named])
        save_scores(
            Scores(values.astype(np.float32), asked["caption_id"].to_list(), CLIP_IDS), tmp_path / f"{edit}.npz"
        )
        words += ["--edited", f"{edit}={tmp_path / edit}.npz"]
    done = here("audit", "composition", *words, "--edited-corpus", f"true-hybrid={tmp_path}/true-hybrid")
    assert (done.returncode, done.stderr) == (0, "")
    (result,) = json.loads(done.stdout)["audits"]
    table, instead = result["tables"]
    assert [row[:5] for row in table["rows"]] == [
        ["affirmation", "reads it", 120, 120, 50.0],
        ["negation", "does not read it", 120, 120, 0.0],
        ["hybrid", "does not read it", 120, 120, 0.0],
        ["all", None, 360, 120, pytest.approx(50 / 3)],
    ]
    assert instead["rows"][1] == ["negation", 0.0, 0.0, 100.0, 0.0]
    assert "It does not read that a thing is absent, or hardly ever: 0.0% are right" in result["sentence"]


WRONG = [
    ("composition --edited a=heard.npz --edited-corpus a", UsageError, "'a' is not of the form NAME=DIR"),
    ("composition --edited a=heard.npz --edited-corpus a=x --edited-corpus a=y", UsageError, "names 'a' twice; name"),
    ("textual --edited a=heard.npz --edited-corpus a=x", UsageError, "--edited-corpus goes with the audit composition"),
    ("composition --edited a=heard.npz --edited-corpus a=none", CorpusError, "none"),
    ("composition --edited a=heard.npz --edited-corpus b=corpus", UsageError, "captions of the edit 'b' and no scores"),
    ("composition --edited control=heard.npz", UsageError, "those of a control, or none; give those of one beside it"),
    ("composition", UsageError, "The audit composition holds scores against those after an edit; give --scores FILE"),
]


def test_what_is_wrong_is_said_in_a_sentence(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for words, error, sentence in WRONG:
        done = CliRunner().invoke(app, ["audit", *words.split(), "--scores", "clean.npz", "--corpus", "corpus"])
        assert isinstance(done.exception, error) and sentence in str(done.exception), words


@pytest.fixture(scope="module")
def swapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and the scores of a ranking that reads the background and of one that does not."""
    swapped = tmp_path_factory.mktemp("edits")
    save_corpus(small_edits.corpus(), swapped / "corpus")
    for name, world in (("reads", small_edits.World(1.0)), ("blind", small_edits.World(0.0, seed=1))):
        clean, edited = world.scores()
        for edit, values in {"": clean, **edited}.items():
            save_scores(small_edits.of(values), swapped / f"{name}{edit}.npz")
    return swapped


def test_each_system_has_edited_scores_in_their_order(swapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(swapped)
    words = ["audit", "visual", "--corpus=corpus", "--scores=blind.npz", "--scores=reads.npz", "--resamples=50"]
    for name in ("blind", "reads"):
        words += [f"--edited=background-swapped={name}background-swapped.npz", f"--edited=control={name}control.npz"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    blind, reads = (one["effect"] for one in json.loads(done.stdout)["audits"])
    assert blind["low"] <= 0 < reads["low"]


WRONG_EDITS = [
    ("visual --scores reads.npz", UsageError, "The audit visual holds scores against those after an edit; give"),
    ("textual --library lib --edited a=reads.npz", UsageError, "The audit textual holds scores against those"),
    ("visual textual --scores reads.npz --edited a=reads.npz", UsageError, "give each a command of its own"),
    ("length --scores reads.npz --edited a=reads.npz", UsageError, "--edited goes with the audit visual, textual"),
    ("visual --scores reads.npz --edited reads.npz", UsageError, "'reads.npz' is not of the form NAME=FILE"),
    ("visual --scores reads.npz --edited =reads.npz", UsageError, "'=reads.npz' is not of the form NAME=FILE"),
    ("visual --scores reads.npz --edited a=reads.npz --edited a=blind.npz", UsageError, "a=FILE is given 2 times and"),
    ("visual --scores reads.npz --scores blind.npz --edited a=reads.npz", UsageError, "--scores 2 times; give it once"),
    ("visual --scores reads.npz --edited a=none.npz", ScoresError, "There is no file none.npz."),
    ("visual --scores reads.npz --edited control=reads.npz", UsageError, "are of the control; give those of an edit"),
    ("textual --scores reads.npz --edited content-removed=reads.npz", UsageError, "of no edit that changes the style"),
]


def test_what_is_wrong_with_edits_is_said_in_a_sentence(swapped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(swapped)
    for words, error, sentence in WRONG_EDITS:
        corpus_of = [] if "--library" in words else ["--corpus", "corpus"]
        done = CliRunner().invoke(app, ["audit", *words.split(), *corpus_of])
        assert isinstance(done.exception, error) and sentence in str(done.exception), words


TEXTS = ["In this video we see a man who runs.", "a dog jumps, as one can see", "a video."]


@pytest.fixture(scope="module")
def styled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("perturb")
    ids = ["a", "b", "c"]
    clips = pl.DataFrame({"clip_id": ids, "path": [f"{one}.mp4" for one in ids], "split": ["test", "test", "val"]})
    captions = {"caption_id": ["0", "1", "2"], "clip_id": ids, "text": TEXTS, "writer": ["x", "y", "z"]}
    save_corpus(make_corpus(clips, pl.DataFrame(captions)), place / "corpus")
    (place / "words.csv").write_text('caption_id,paraphrase\n1,"a hound leaps, high"\n')
    (place / "bare.csv").write_text("caption_id,words\n1,x\n")
    (place / "twice.csv").write_text("caption_id,paraphrase\n1,x\n1,y\n")
    (place / "other.csv").write_text("caption_id,paraphrase\n9,x\n")
    (place / "empty.csv").write_text("caption_id,paraphrase\n0,x\n1, \n")
    return place


def perturbed(styled: Path, out: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["perturb", str(styled / "corpus"), "--out", str(out), *words])


def texts(folder: Path) -> list[str]:
    return load_corpus(folder).captions["text"].to_list()


def test_style_is_removed_and_everything_else_stays(styled: Path, tmp_path: Path) -> None:
    done = here("perturb", styled / "corpus", "--edit", "style-removed", "--out", tmp_path / "new", COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"  {TEXTS[0]}\n  became a man who runs\n" in done.stdout
    assert "In 1 caption nothing is to be changed beyond capital and full stop" in done.stdout
    clean, after = load_corpus(styled / "corpus"), load_corpus(tmp_path / "new")
    assert after.clips.equals(clean.clips)
    assert after.captions.drop("text").equals(clean.captions.drop("text")[:2])
    assert after.captions["text"].to_list() == ["a man who runs", "a dog jumps"]


def test_captions_that_stay_as_they_were_are_kept_on_request(styled: Path, tmp_path: Path) -> None:
    asked = ("--edit", "style-removed", "--json")
    kept = perturbed(styled, tmp_path / "all", *asked, "--keep-unchanged")
    assert json.loads(kept.stdout)["changed"] == 2
    assert texts(tmp_path / "all") == ["a man who runs", "a dog jumps", TEXTS[2]]
    none = perturbed(styled, tmp_path / "none", *asked, "--split", "val")
    assert isinstance(none.exception, CorpusError) and "In none of the 1 captions" in str(none.exception)
    over = perturbed(styled, styled / "corpus", "--edit", "control").exception
    assert isinstance(over, CorpusError) and "is the corpus itself" in str(over)


def test_other_edits_and_one_split(styled: Path, tmp_path: Path) -> None:
    for edit, expected in {
        "content-removed": ["In this video we see something.", "something, as one can see"],
        "style-swapped": ["a man who runs, as one can see", "In this video we see a dog jumps."],
        "control": ["in this video we see a man who runs", "A dog jumps, as one can see."],
    }.items():
        assert perturbed(styled, tmp_path / edit, "--edit", edit, "--split", "test").exit_code == 0
        assert texts(tmp_path / edit) == expected


def test_paraphrases_come_from_a_table_or_from_patterns(styled: Path, tmp_path: Path) -> None:
    asked = ("--edit", "paraphrased")
    assert perturbed(styled, tmp_path / "a", *asked, "--paraphrases", str(styled / "words.csv")).exit_code == 0
    assert texts(tmp_path / "a") == ["a hound leaps, high"]
    assert perturbed(styled, tmp_path / "b", *asked, "--pattern", "so: {caption}").exit_code == 0
    assert texts(tmp_path / "b") == [f"so: i{TEXTS[0][1:]}", f"so: {TEXTS[1]}", f"so: {TEXTS[2]}"]


WRONG_PERTURB = [
    ("--edit style", UsageError, "'style' is no edit of captions; there are: style-removed, style-swapped"),
    ("--edit paraphrased", UsageError, "goes with either --pattern or --paraphrases; give one of the two"),
    ("--edit control --pattern {caption}", UsageError, "go with --edit paraphrased; leave them out"),
    ("--edit paraphrased --pattern x", UsageError, "has {caption} 0 times; write it once"),
    ("--edit style-removed --tagger nltk", UsageError, "There is no tagger 'nltk'"),
    ("--edit paraphrased --paraphrases none.csv", CorpusError, "none.csv"),
    ("--edit paraphrased --paraphrases bare.csv", CorpusError, "bare.csv has no column 'paraphrase'"),
    ("--edit paraphrased --paraphrases twice.csv", CorpusError, "names captions twice (1); give each one row"),
    ("--edit paraphrased --paraphrases other.csv", CorpusError, "names captions that are not in the corpus (9)"),
    ("--edit paraphrased --paraphrases empty.csv", CorpusError, "Row 2 of empty.csv lacks caption_id or paraphrase"),
]


def test_what_is_wrong_with_an_edit_of_captions_is_said(
    styled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(styled)
    for words, error, sentence in WRONG_PERTURB:
        done = perturbed(styled, tmp_path / "new", *words.split())
        assert isinstance(done.exception, error) and sentence in str(done.exception), words
    assert not (tmp_path / "new").exists()
