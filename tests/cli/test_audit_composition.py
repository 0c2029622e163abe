"""`evenreel audit` of composition, visual and textual as a person types it, and what is wrong in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, save_corpus
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import save_scores
from evenreel.language.composition.answers import ANSWERS
from evenreel.types import Scores
from tests.audits.composition.small_readers import CLIP_IDS, content, corpus, heard, of, said
from tests.audits.edits import small_edits
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


def test_the_sentence_the_effect_and_the_page(swapped: Path, tmp_path: Path) -> None:
    words = ["--scores", swapped / "reads.npz", "--corpus", swapped / "corpus", "--report", tmp_path / "r.html"]
    for edit in ("background-swapped", "entity-swapped", "control"):
        words += ["--edited", f"{edit}={swapped}/reads{edit}.npz"]
    done = here("audit", "visual", *words, "--resamples", "100", COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("The ranking hangs on what 'background-swapped' changes: with it the clip of a caption")
    assert lines[2].startswith("movement beyond the control (background-swapped), SD: ")
    assert lines[2].endswith(": above 0") and (tmp_path / "r.html").is_file()


def test_each_system_has_edited_scores_of_its_own_in_their_order(
    swapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
