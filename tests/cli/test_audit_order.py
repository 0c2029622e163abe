"""`evenreel audit order` as a person types it: twins of the corpus, scores of another order, and a library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evenreel import checkpoint as checkpoint_module
from evenreel import library as library_module
from evenreel.cli.app import app
from evenreel.corpus import save_corpus
from evenreel.errors import UsageError
from evenreel.evaluation import save_scores
from evenreel.library import Library, open_library
from evenreel.types import Scores
from tests.audits.order.small_orders import Ranker, both, orders, scores_of
from tests.cli.test_library_commands import here
from tests.library.fakes import SUBJECTS, WordsEncoder, on_disk
from tests.library.mirrored import finish_on_disk
from tests.library.search.test_rerank import LastFrame, pretrained

PAIRS = 40
CORPUS = orders(PAIRS, both(PAIRS), [f"a man {('opens', 'closes')[one % 2]} a door" for one in range(2 * PAIRS)])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips and their twins with scores; scores of the clips alone, and of these turned round; a library."""
    place = tmp_path_factory.mktemp("order")
    save_corpus(CORPUS, place / "corpus")
    scores = scores_of(Ranker(2.0, disliked=0.5).values(CORPUS, 1).astype(np.float32), CORPUS)
    save_scores(scores, place / "sees.npz")
    shot, captions = scores.video_ids[:PAIRS], scores.caption_ids
    for name, part in (("clips", slice(PAIRS)), ("turned", slice(PAIRS, None))):
        save_scores(Scores(scores.values[:, part], captions, shot), place / f"{name}.npz")
    made = on_disk(place / "lib")
    for number in range(PAIRS):
        first, last = SUBJECTS[number % 6], SUBJECTS[(number + 1) % 6]
        made.add_clip(f"c{number:02}", [f"{first} place{number}", f"place{number}", f"{last} place{number}"])
        made.add_file(f"/v/{number:02}.mp4", f"c{number:02}")
    finish_on_disk(made)
    made.connection.close()
    sentences = [f"{SUBJECTS[(number + 1) % 6]} place{number}" for number in range(PAIRS)]
    (place / "q.txt").write_text("\n".join(sentences), encoding="utf-8")
    return place


def test_the_sentence_the_effect_the_tables_and_the_page(place: Path, tmp_path: Path) -> None:
    words = ("--scores", place / "sees.npz", "--corpus", place / "corpus", "--report", tmp_path / "r.html")
    done = here("audit", "order", *words, COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("The ranking sees order: in ") and lines[2].endswith(": above 50")
    assert "By kind of action" in lines and lines[1][:60] in (tmp_path / "r.html").read_text(encoding="utf-8")
    found = json.loads(here("audit", "order", *words, "--kinds", "split", "--json").stdout)["audits"][0]
    assert "Of 40 of 40 pairs no kind of action is known." in found["notices"]


def told(place: Path, *words: str) -> Any:
    done = CliRunner().invoke(app, ["audit", "order", *words, "--json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["audits"]
    return found


def test_scores_of_another_order_say_the_same_as_twins_in_the_corpus(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    twins = told(place, "--scores=sees.npz", "--corpus=corpus")
    edited = told(place, "--scores=clips.npz", "--edited=reversed=turned.npz", "--corpus=corpus")
    assert edited["effect"] == twins["effect"] and edited["sentence"] == twins["sentence"]
    blind = told(place, "--scores=clips.npz", "--edited=reversed=clips.npz", "--corpus=corpus")
    assert blind["sentence"].startswith("The ranking is order-blind")


@pytest.fixture
def library(place: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    opened = open_library(place / "lib", encoder=WordsEncoder())
    monkeypatch.setattr(library_module, "open_library", lambda path: opened)
    return opened


@pytest.mark.usefixtures("library")
def test_the_search_of_a_library_is_blind_and_exits_with_0(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    found = told(place, "--library=lib", "--queries=q.txt")
    assert found["sentence"].startswith("The ranking is order-blind")


@pytest.mark.usefixtures("library")
def test_a_matcher_that_re_ranks_a_library_may_see_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It likes clips by their last frame, and every sentence says what that shows."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(checkpoint_module, "load_matcher", lambda name: {"last": pretrained(LastFrame())}[name])
    found = told(place, "--library=lib", "--queries=q.txt", "--rerank=last")
    assert found["sentence"].startswith("The ranking sees order: in ")
    assert any("Nobody has said which clip a sentence is of" in notice for notice in found["notices"])


WRONG = [
    ("order --scores sees.npz --corpus corpus --rerank m", "--rerank goes with the audit order of --library alone"),
    ("order hubness --library lib --queries q.txt --rerank m", "--rerank goes with the audit order of --library alone"),
    ("hubness --scores sees.npz --corpus corpus --kinds split", "--kinds goes with the audit order of --scores"),
    ("order --library lib --queries q.txt --edited a=sees.npz", "The audit order holds scores against those after an"),
    ("order visual --scores sees.npz --corpus corpus --edited a=sees.npz", "give each a command of its own"),
]


def test_hazard_214_options_that_do_not_go_with_the_audit_of_order_are_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for words, sentence in WRONG:
        done = CliRunner().invoke(app, ["audit", *words.split()])
        assert isinstance(done.exception, UsageError) and sentence in str(done.exception), words
