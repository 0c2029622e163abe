"""What holds of every audit: what it tells of scores, what it refuses, and what its result and its page have."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenreel.audits import AUDITS, OF_EDITS, AuditInputs, AuditSettings, audit
from evenreel.corpus import make_corpus
from evenreel.corpus.counterparts import OVERLAY_OF
from evenreel.errors import CorpusError, ScoresError
from evenreel.report import AuditResult
from evenreel.report.page import audit_page, render
from evenreel.report.result import effect_words
from evenreel.types import Corpus, ScoreNotes, Scores

PAIRS = 40
REAL, MADE = [f"r{one}" for one in range(PAIRS)], [f"s{one}" for one in range(PAIRS)]
CAPTIONS = [f"c{one}" for one in range(PAIRS)]


def corpus(times: int = 1) -> Corpus:
    """All that any audit asks for; every caption is said so many times."""
    clips = pl.DataFrame(
        {
            "clip_id": REAL + MADE,
            "source": ["camera"] * PAIRS + ["<b>sora"] * PAIRS,
            "pair_id": [None] * PAIRS + REAL,
            "frame_count": [*range(30, 30 + PAIRS)] * 2,
            "fps": [24.0] * 2 * PAIRS,
            OVERLAY_OF: REAL[1:] + REAL[:1] + [None] * PAIRS,
        }
    )
    names = [f"{one}{' again' * time}" for time in range(times) for one in CAPTIONS]
    texts = {"caption_id": names, "clip_id": REAL * times, "text": ["a <b>ball rolls"] * len(names)}
    return make_corpus(clips, pl.DataFrame(texts))


def scores(seed: int = 0, captions: int = PAIRS, clips: int = 2 * PAIRS) -> Scores:
    values = np.random.default_rng(seed).normal(size=(captions, clips))
    return Scores(values, CAPTIONS[:captions], (REAL + MADE)[:clips])


def asked(name: str, given: Scores, resamples: int = 20, times: int = 1, of: Corpus | None = None) -> AuditResult:
    otherwise = replace(given, values=given.values + np.sin(37 * given.values))  # goes with captions and clips
    edited = {"<b>edit": otherwise} if name in OF_EDITS else {}
    return audit(name, given, of or corpus(times), AuditSettings(resamples=resamples), AuditInputs(edited=edited))[0]


def finite(cell: object) -> object:
    return None if isinstance(cell, float) and not np.isfinite(cell) else cell


def whole(found: AuditResult) -> None:
    """The tables have a cell for each column, JSON has all of them, and the page has every table and chart."""
    assert found.tables
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    for table, written in zip(found.tables, document["tables"], strict=True):
        assert all(len(row) == len(table.columns) for row in table.rows), table.title
        assert (written["title"], written["columns"]) == (table.title, list(table.columns))
        assert written["rows"] == [[*map(finite, row)] for row in table.rows]
    effect = {name: finite(value) for name, value in asdict(found.effect).items()}
    assert document["effect"] == effect
    assert found.effect.p_value is None or 0 <= found.effect.p_value <= 1
    page = render(audit_page([found]))
    assert page.count('class="chart"') == len(found.figures)
    assert page.count("<table>") == len(found.tables) and "How it was calculated" in page
    assert all(escape(said) in page for said in (found.sentence, *found.notices, *found.method))
    drawn = [str(json.loads(figure.draw().to_json())) for figure in found.figures]  # labels in which tags would count
    assert not any(f"<b>{one}" in text for one in ("sora", "ball", "edit") for text in (page, *drawn))


@pytest.mark.parametrize("name", AUDITS)
def test_a_result_has_whole_tables_a_json_and_a_page_on_which_names_are_text(name: str) -> None:
    whole(asked(name, scores()))


@pytest.mark.parametrize("name", AUDITS)
def test_the_same_seed_gives_the_same_to_the_byte(name: str) -> None:
    first, second = (json.dumps(asked(name, scores()).to_json()) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("bare", ["captions", "sources", "lengths"])
@pytest.mark.parametrize("name", AUDITS)
def test_what_a_corpus_lacks_is_told_or_refused_with_what_to_do(name: str, bare: str) -> None:
    """A library knows no captions, a corpus of other people no sources or lengths."""
    own = corpus()
    unknown = {
        "captions": [],
        "sources": [pl.lit("camera").alias("source"), pl.lit(None, pl.String).alias("pair_id")],
        "lengths": [pl.lit(None, pl.Int64).alias("frame_count"), pl.lit(None, pl.Float64).alias("fps")],
    }
    lacking = Corpus(own.clips.with_columns(unknown[bare]), own.captions if unknown[bare] else own.captions.clear())
    try:
        found = asked(name, scores(), of=lacking)
    except CorpusError as error:
        assert len(str(error)) > 60 and str(error).count(";") + str(error).count(":")
    else:
        whole(found)


@pytest.mark.parametrize("name", AUDITS)
def test_without_samples_there_is_neither_a_verdict_nor_an_interval(name: str) -> None:
    given = scores()
    real = np.repeat([8.0, 0.0], PAIRS)  # what would be told if it could be
    found = asked(name, replace(given, values=given.values + real), resamples=0)
    whole(found)
    if found.effect.low is None:
        assert not found.effect.is_significant
        assert "interval" not in found.sentence.replace("Without an interval", "")
        assert "no interval" in effect_words(found)


@pytest.mark.parametrize("name", AUDITS)
def test_captions_of_one_clip_are_drawn_together_so_saying_all_twice_is_no_more_evidence(name: str) -> None:
    once, given = asked(name, scores()).effect, scores()
    twice = Scores(np.tile(given.values, (2, 1)), [*CAPTIONS, *(f"{one} again" for one in CAPTIONS)], given.video_ids)
    again = asked(name, twice, times=2).effect
    assert again.value == pytest.approx(once.value)
    if name == "confounds":  # of shares of clips with several captions the wider of two intervals is taken
        assert again.low <= once.low <= once.high <= again.high  # type: ignore[operator]
    else:
        assert (again.low, again.high) == pytest.approx((once.low, once.high))


@pytest.mark.parametrize("name", AUDITS)
def test_the_order_of_captions_and_clips_does_not_matter(name: str) -> None:
    given, random = scores(), np.random.default_rng(3)
    rows, columns = random.permutation(PAIRS), random.permutation(2 * PAIRS)
    table = given.values[rows][:, columns]
    moved = Scores(table, [CAPTIONS[one] for one in rows], [(REAL + MADE)[one] for one in columns])
    first, second = asked(name, given).effect, asked(name, moved).effect
    assert (second.value, second.low, second.high) == pytest.approx((first.value, first.low, first.high))


@pytest.mark.parametrize("name", AUDITS)
def test_too_few_give_no_verdict(name: str) -> None:
    few = asked(name, scores(captions=5))
    whole(few)
    assert not few.effect.enough and not few.effect.is_significant
    assert "oo few" in few.sentence


@pytest.mark.parametrize("name", AUDITS)
def test_what_the_scores_use_is_said_first(name: str) -> None:
    found = asked(name, replace(scores(), about=ScoreNotes(("other queries",))))
    assert found.notices[0].startswith("These scores use other queries")


@pytest.mark.parametrize("name", AUDITS)
def test_scores_that_are_broken_are_refused_by_their_ids(name: str) -> None:
    given = scores()
    nan = np.where(np.arange(given.values.size).reshape(given.values.shape) == 3 * 2 * PAIRS + 4, np.nan, given.values)
    masked = np.ma.MaskedArray(given.values, np.eye(PAIRS, 2 * PAIRS, dtype=bool))
    clips, captions = [*given.video_ids[:-1], "r0"], [*given.caption_ids[:-1], "c0"]
    for broken, said in (
        (replace(given, values=nan), "of caption 'c3' and video 'r4' is NaN"),
        (replace(given, values=masked), "masked array with 40 of 3,200 values masked"),
        (replace(given, video_ids=clips), "name the clip 'r0' more than once; every clip has one place"),
        (replace(given, caption_ids=captions), "name the caption 'c0' more than once"),
    ):
        with pytest.raises(ScoresError, match=said):
            asked(name, broken)


@pytest.mark.parametrize("name", AUDITS)
def test_what_scores_leave_out_is_told(name: str) -> None:
    whole = asked(name, scores())
    assert not any("have no scores" in notice for notice in whole.notices)
    part = asked(name, scores(captions=PAIRS - 3, clips=2 * PAIRS - 5))
    told = [notice for notice in part.notices if "have no scores" in notice]
    assert told == [
        f"{what}; what is said here leaves them out, so name the split that was scored."
        for what in (
            "3 of 40 captions of the corpus have no scores, the first 'c37'",
            "5 of 80 clips of the corpus have no scores, the first 's35'",
        )
    ]


HOME = Path(str(files("evenreel.audits")))
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (HOME / "words").iterdir()}


def paragraphs_read() -> Iterator[tuple[str, str, set[str]]]:
    """Page and heading of each paragraph that the sources of audits read, and the values they give it."""
    for path in HOME.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("paragraph", "paragraphs"):
                words = [one.value for one in node.args if isinstance(one, ast.Constant)]
                values = {one.arg for one in node.keywords if one.arg is not None}
                yield from ((str(words[0]), str(heading), values) for heading in words[1:])


def test_every_paragraph_that_is_read_is_there_with_its_values_and_no_other_is() -> None:
    there = {}
    for page, text in PAGES.items():
        for heading, body in re.findall(r"^## (.*)\n\n((?:.+\n)+)", text, re.M):
            there[page, heading] = set(re.findall(r"{(\w+)[^}]*}", body))
    assert there == {(page, heading): values for page, heading, values in paragraphs_read()}
