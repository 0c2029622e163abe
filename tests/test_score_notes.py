"""What scores say of themselves reaches whoever reads them, however many wrappers lie between."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenreel
from evenreel.config import check_scores
from evenreel.corpus import make_corpus
from evenreel.debias.source import levelled
from evenreel.errors import UsageError
from evenreel.evaluation import load_scores, save_scores
from evenreel.evaluation.fusion import TwoStage, _System, fuse
from evenreel.evaluation.ranking import CaptionGroups, CheckedScores, GroupedScores, aligned
from evenreel.evaluation.rescoring import RESCORINGS, dense, rescore
from evenreel.evaluation.saving import write_run
from evenreel.evaluation.scores import by_ids, cut_to
from evenreel.types import Corpus, ScoreBlocks, ScoreNotes, Scores

CAPTIONS, CLIPS = [f"c{row}" for row in range(12)], [f"v{column}" for column in range(12)]
VALUES = np.random.default_rng(0).random((12, 12))
ROUND = slice(None, None, -1)

WORDS = st.text("abc ", min_size=1, max_size=6)
TABLES = st.dictionaries(st.sampled_from(CAPTIONS[:3]), WORDS)
NOTES = st.builds(
    ScoreNotes,
    uses=st.lists(WORDS, unique=True, max_size=3).map(tuple),
    notices=st.lists(WORDS, unique=True, max_size=3).map(tuple),
    texts=TABLES,
    names=TABLES,
    complete=st.booleans(),
)


def scores_with(notes: ScoreNotes) -> Scores:
    return Scores(VALUES, CAPTIONS, CLIPS, notes)


def corpus() -> Corpus:
    captions = {"caption_id": CAPTIONS, "clip_id": CLIPS, "text": ["a ball rolls"] * len(CAPTIONS)}
    return make_corpus(pl.DataFrame({"clip_id": CLIPS}), pl.DataFrame(captions))


def turned(scores: Scores) -> Scores:
    return Scores(scores.values.T, scores.video_ids, scores.caption_ids, scores.about)


def part_of(whole: Corpus) -> Corpus:
    return Corpus(whole.clips.head(7), whole.captions.head(7))


WRAPPERS: Mapping[str, Callable[[Scores], ScoreBlocks]] = {
    "CheckedScores": CheckedScores,
    "_Moved": lambda one: aligned(one, Scores(VALUES, CAPTIONS[ROUND], CLIPS)),
    "_Moved and less": lambda one: aligned(one, Scores(VALUES[:5], CAPTIONS[:5], CLIPS)),
    "GroupedScores": lambda one: GroupedScores(one, CaptionGroups.of([*CLIPS[:6], *CLIPS[:6]])),
    "_System": lambda one: _System("a", one, one, finite=True),
    "FusedScores": lambda one: fuse({"a": one, "b": one}),
    "FusedRanks": lambda one: fuse({"a": one, "b": one}, "rank"),
    "FusedVideoRanks": lambda one: fuse({"a": one, "b": one}, "rank", direction="v2t"),
    "TwoStage": lambda one: TwoStage(Scores(VALUES, CAPTIONS, CLIPS), one, 2),
    "TwoStage, as the first": lambda one: TwoStage(one, Scores(VALUES, CAPTIONS, CLIPS), 2),
    "TwoStage of all": lambda one: TwoStage(Scores(VALUES, CAPTIONS, CLIPS), one, None),
    "LevelledScores": lambda one: levelled(one, {"made": 0.5}, dict.fromkeys(CLIPS[:3], "made")),
    "dense": lambda one: dense(CheckedScores(one)),
    "cut to a part": lambda one: cut_to(part_of(corpus()), one, corpus(), Path("s.npz"), lambda sentence: None),
    "turned": lambda one: by_ids("s.npz", turned(one), corpus(), lambda sentence: None),
    **{
        word: lambda one, word=word, method=method: rescore(  # type: ignore[misc]
            word,
            one,
            "t2v",
            np.random.default_rng(1).random((130, len(CLIPS))) if method.needs_bank else None,
            np.random.default_rng(2).random((130, 9)) if method.needs_pairs else None,
        )
        for word, method in RESCORINGS.items()
    },
}
"""What makes scores of others' scores, by its class or by what it does."""

SOURCES = {
    "Scores", "ScoreBlocks", "ListedScores", "MatcherScores", "BestFrames", "Bm25Scores", "VectorScores",
}  # fmt: skip
"""Classes that wrap no scores, and the protocol."""


@pytest.mark.parametrize("name", WRAPPERS)
@given(notes=NOTES)
def test_every_wrapper_keeps_every_note(name: str, notes: ScoreNotes) -> None:
    kept = WRAPPERS[name](scores_with(notes)).about
    assert kept.uses[: len(notes.uses)] == notes.uses
    assert kept.notices == notes.notices
    assert (kept.texts, kept.names, kept.complete) == (notes.texts, notes.names, notes.complete)


@given(first=NOTES, second=NOTES)
def test_what_is_made_of_two_systems_keeps_the_notes_of_both(first: ScoreNotes, second: ScoreNotes) -> None:
    both = scores_with(first), scores_with(second)
    for made in (TwoStage(*both, 3), fuse(dict(zip("ab", both, strict=True)), "rank")):
        kept = made.about
        for row in ("uses", "notices"):
            told = tuple(dict.fromkeys((*getattr(first, row), *getattr(second, row))))
            assert getattr(kept, row)[: len(told)] == told
        assert kept.texts == {**second.texts, **first.texts}
        assert kept.names == {**second.names, **first.names}
        assert kept.complete == (first.complete and second.complete)


@given(notes=NOTES)
def test_a_first_stage_without_a_part_in_the_ranking_says_nothing(notes: ScoreNotes) -> None:
    assert TwoStage(scores_with(notes), scores_with(ScoreNotes()), None).about == ScoreNotes()


def test_files_say_what_scores_use(tmp_path: Path) -> None:
    scores = scores_with(ScoreNotes(uses=("other queries", "a bank")))
    save_scores(scores, tmp_path / "s.npz")
    write_run(scores, tmp_path / "s.run")
    for name in ("s.npz", "s.run"):
        assert load_scores(tmp_path / name, corpus()).about == scores.about


def test_scores_that_say_nothing_of_themselves_are_refused() -> None:
    class Silent:
        caption_ids = CAPTIONS
        video_ids = CLIPS

        def block(self, captions: slice, videos: slice) -> np.ndarray:
            return VALUES[captions, videos]

    with pytest.raises(UsageError, match=r"scores.about is None; say what .*ScoreNotes\(\)"):
        check_scores(Silent())


def test_every_class_of_scores_is_a_wrapper_that_is_tested_or_a_source() -> None:
    found = {name for path in Path(evenreel.__file__).parent.rglob("*.py") for name in _classes_of_scores(path)}
    assert found == SOURCES | {name for name in WRAPPERS if name in found}


def _classes_of_scores(path: Path) -> Iterator[str]:
    """Classes that have blocks of captions and videos, and ids; those of relevance have a shape."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            functions = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            methods = {one.name: [arg.arg for arg in one.args.args] for one in functions}
            if methods.get("block") == ["self", "captions", "videos"] and "shape" not in methods:
                yield node.name
