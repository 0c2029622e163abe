"""`evenreel audit visual` and `textual` as a person types them, and what is wrong in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenreel.cli.app import app
from evenreel.corpus import save_corpus
from evenreel.errors import EvenreelError, ScoresError, UsageError
from evenreel.evaluation import save_scores
from tests.audits.edits.small_edits import World, corpus, of
from tests.cli.test_library_commands import here


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, and the scores of a ranking that reads the background and of one that does not."""
    place = tmp_path_factory.mktemp("edits")
    save_corpus(corpus(), place / "corpus")
    for name, world in (("reads", World(1.0)), ("blind", World(0.0, seed=1))):
        clean, edited = world.scores()
        for edit, values in {"": clean, **edited}.items():
            save_scores(of(values), place / f"{name}{edit}.npz")
    return place


def test_the_sentence_the_effect_and_the_page(place: Path, tmp_path: Path) -> None:
    words = ["--scores", place / "reads.npz", "--corpus", place / "corpus", "--report", tmp_path / "r.html"]
    for edit in ("background-swapped", "entity-swapped", "control"):
        words += ["--edited", f"{edit}={place}/reads{edit}.npz"]
    done = here("audit", "visual", *words, "--resamples", "100", COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("The ranking hangs on what 'background-swapped' changes: with it the clip of a caption")
    assert lines[2].startswith("movement beyond the control (background-swapped), SD: ")
    assert lines[2].endswith(": above 0") and (tmp_path / "r.html").is_file()


def test_each_system_has_edited_scores_of_its_own_in_their_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    words = ["audit", "visual", "--corpus=corpus", "--scores=blind.npz", "--scores=reads.npz", "--resamples=50"]
    for name in ("blind", "reads"):
        words += [f"--edited=background-swapped={name}background-swapped.npz", f"--edited=control={name}control.npz"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    blind, reads = (one["effect"] for one in json.loads(done.stdout)["audits"])
    assert blind["low"] <= 0 < reads["low"]


WRONG = [
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


@pytest.mark.parametrize(("words", "error", "sentence"), WRONG, ids=[words for words, *_ in WRONG])
def test_what_is_wrong_is_said_in_a_sentence(
    place: Path, words: str, error: type[EvenreelError], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    corpus_of = [] if "--library" in words else ["--corpus", "corpus"]
    done = CliRunner().invoke(app, ["audit", *words.split(), *corpus_of])
    assert isinstance(done.exception, error)
    assert sentence in str(done.exception)
