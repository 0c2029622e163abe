"""`evenreel perturb` and `evenreel audit composition` as a person types them, and what is wrong in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import load_corpus, save_corpus
from evenreel.errors import CorpusError, EvenreelError, UsageError
from evenreel.evaluation import save_scores
from evenreel.language.composition.answers import ANSWERS
from evenreel.types import Scores
from tests.audits.composition.small_readers import CLIP_IDS, content, corpus, heard, of, said
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


@pytest.mark.parametrize(("words", "error", "sentence"), WRONG, ids=[words for words, *_ in WRONG])
def test_what_is_wrong_is_said_in_a_sentence(
    place: Path, words: str, error: type[EvenreelError], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    done = CliRunner().invoke(app, ["audit", *words.split(), "--scores", "clean.npz", "--corpus", "corpus"])
    assert isinstance(done.exception, error)
    assert sentence in str(done.exception)
