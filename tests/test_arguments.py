"""Arguments of the wrong kind, as somebody types them in Python: each gets a sentence, none an AttributeError."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy import sparse

import evenreel
from evenreel import audits, corpus, evaluation
from evenreel.arguments import as_path, check_corpus, check_scores, one_or_more
from evenreel.config import IndexSettings
from evenreel.errors import EvenreelError, ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, compare, evaluate, fuse
from evenreel.evaluation.rescoring import rescore
from evenreel.types import Corpus, Scores
from tests.each import of_each

CLIPS = [f"clip{number}" for number in range(12)]
CAPTIONS = [f"caption{number}" for number in range(12)]
VALUES = np.random.default_rng(0).normal(size=(12, 12)) + np.eye(12)
SCORES = Scores(VALUES, CAPTIONS, CLIPS)
CORPUS = corpus.make_corpus(
    pl.DataFrame({"clip_id": CLIPS}),
    pl.DataFrame({"caption_id": CAPTIONS, "clip_id": CLIPS, "text": ["a ball"] * 12}),
)
FIGURES = evaluate(SCORES, CORPUS)

NO_SCORES: dict[str, Any] = {
    "nothing": None,
    "number": 3,
    "set": {1.0},
    "corpus": CORPUS,
    "function": len,
    "class": Scores,
}
NO_CORPUS: dict[str, Any] = {
    "tuple": (CORPUS.clips, CORPUS.captions),
    "texts": ["a ball rolls", "a box falls"],
    "nothing": None,
    "scores": SCORES,
}
TABLES: dict[str, Any] = {"path": Path("corpus"), "name": "corpus", "frame": CORPUS.captions}
"""What is taken for a corpus where scores are evaluated or audited, and not where a corpus is changed."""
TAKE_SCORES: dict[str, Callable[[Any], object]] = {
    "evaluate": lambda scores: evaluate(scores, CORPUS),
    "fuse": lambda scores: fuse({"one": SCORES, "other": scores}),
    "save_scores": lambda scores: evaluation.save_scores(scores, "never_written.npz"),
    "audit": lambda scores: evenreel.audit("hubness", scores, CORPUS),
    "audit_length": lambda scores: audits.audit_length(scores, CORPUS),
    "audit_source": lambda scores: audits.audit_source(scores, CORPUS),
    "measure_hubness": lambda scores: audits.measure_hubness(scores, CORPUS),
    "measure_perturbed": lambda scores: audits.measure_perturbed(SCORES, CORPUS, {"a": scores}, audits.AuditSettings()),
    "rescore": lambda scores: rescore("csls", scores, "t2v"),
    "edited": lambda scores: audits.audit_visual(SCORES, CORPUS, edited={"background": scores}),
}
ACCEPT_CORPUS: dict[str, Callable[[Any], object]] = {
    "evaluate": lambda given: evaluate(SCORES, given),
    "audit": lambda given: evenreel.audit("hubness", SCORES, given),
    "audit_hubness": lambda given: audits.audit_hubness(SCORES, given),
    "audit_source": lambda given: audits.audit_source(SCORES, given),
    "audit_textual": lambda given: audits.audit_textual(SCORES, given),
    "measure_hubness": lambda given: audits.measure_hubness(SCORES, given),
    "measure_length": lambda given: audits.measure_length(SCORES, given),
    "measure_perturbed": lambda given: audits.measure_perturbed(SCORES, given, {"a": SCORES}, audits.AuditSettings()),
    "train": lambda given: audits.audit_length(SCORES, CORPUS, train=given if given is not None else 3),
    "inputs": lambda given: audits.AuditInputs(train=given if given is not None else 3),
}
TAKE_CORPUS: dict[str, Callable[[Any], object]] = {
    "load_scores": lambda given: evaluation.load_scores("scores.npz", given),
    "save_corpus": lambda given: corpus.save_corpus(given, "never_written"),
    "select": lambda given: corpus.select(given, split="test"),
    "split_corpus": lambda given: corpus.split_corpus(given, {"train": 0.5, "test": 0.5}, 0),
    "summarise": corpus.summarise,
    "own_clip": lambda given: corpus.own_clip(given, CAPTIONS, CLIPS),
    "same_text": lambda given: corpus.same_text(given, CAPTIONS, CLIPS),
    "class_relevance": lambda given: corpus.class_relevance(given, CAPTIONS, CLIPS),
}


@of_each(product(TAKE_SCORES, NO_SCORES))
def test_what_is_no_scores_is_told_how_scores_are_made(call: str, given: str) -> None:
    with pytest.raises(UsageError, match=r"; give Scores\(values, caption_ids, video_ids\), the path of a file, or"):
        TAKE_SCORES[call](NO_SCORES[given])


@of_each(product(ACCEPT_CORPUS, NO_CORPUS))
def test_what_no_corpus_is_made_of_is_told_what_one_is(call: str, given: str) -> None:
    with pytest.raises(UsageError, match=r"give a Corpus, the path of one, or a table of captions with the columns"):
        ACCEPT_CORPUS[call](NO_CORPUS[given])


@of_each(product(TAKE_CORPUS, NO_CORPUS | TABLES))
def test_what_is_no_corpus_is_told_how_a_corpus_is_had(call: str, given: str) -> None:
    with pytest.raises(UsageError, match=r"give a corpus: load_corpus\(path\) reads one"):
        TAKE_CORPUS[call]((NO_CORPUS | TABLES)[given])


def test_the_sentence_says_what_was_given() -> None:
    for given, words in (
        (VALUES, "scores is an array of float64 with the shape (12, 12);"),
        ("x.npz", "scores is 'x.npz';"),
        (None, "scores is None;"),
        (CORPUS, "scores is a Corpus;"),
        (CORPUS.clips, "scores is a DataFrame;"),
    ):
        with pytest.raises(UsageError, match=re.escape(words)):
            check_scores(given)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (None, "caption_ids is None"),
        ((one for one in CAPTIONS), "caption_ids is a generator"),
        (set(CAPTIONS), "caption_ids is a set"),
        (dict.fromkeys(CAPTIONS), "caption_ids is a dict"),
        ("abcdefghijkl", "caption_ids is 'abcdefghijkl'"),
        ([[one] for one in CAPTIONS], "caption_ids holds a list"),
        (list(range(12)), "caption_ids holds 0; ids are text, so give [str(one) for one in ids]"),
        ([one.encode() for one in CAPTIONS], "caption_ids holds b'caption0'; ids are text, so give [one.decode()"),
        (np.array(CAPTIONS).astype("S"), "ids are text, so give [one.decode()"),
        (np.array(CAPTIONS)[:, None], "caption_ids is an array of <U9 with the shape (12, 1)"),
    ],
)
def test_ids_that_are_no_row_of_text_are_refused(ids: Any, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        evaluate(Scores(VALUES, ids, CLIPS), CORPUS)
    with pytest.raises(UsageError, match=re.escape(words.replace("caption_ids", "video_ids"))):
        evaluate(Scores(VALUES, CAPTIONS, ids), CORPUS)


@pytest.mark.parametrize("make", [list, tuple, np.array, pl.Series, lambda ids: np.array(ids, dtype=object)])
def test_ids_may_be_any_row_of_text(make: Callable[[list[str]], Any]) -> None:
    found = evaluate(Scores(VALUES, make(CAPTIONS), make(CLIPS)), CORPUS)
    assert found.directions["t2v"].summary == FIGURES.directions["t2v"].summary


@pytest.mark.parametrize(
    "values",
    [
        VALUES.tolist(),
        torch.tensor(VALUES),
        torch.tensor(VALUES, requires_grad=True),
        pl.DataFrame(VALUES),
    ],
    ids=["lists", "tensor", "tensor with gradients", "frame"],
)
def test_a_table_may_come_in_any_form(values: Any, tmp_path: Path) -> None:
    found = evaluate(Scores(values, CAPTIONS, CLIPS), CORPUS)
    assert found.directions["t2v"].summary == FIGURES.directions["t2v"].summary
    evaluation.save_scores(Scores(values, CAPTIONS, CLIPS), tmp_path / "kept.npz")
    with np.load(tmp_path / "kept.npz") as kept:
        assert np.array_equal(kept["values"], VALUES)


def test_a_tensor_in_half_precision_is_ranked_as_its_numbers_are() -> None:
    half = torch.tensor(VALUES).bfloat16()
    found = evaluate(Scores(half, CAPTIONS, CLIPS), CORPUS)
    wanted = evaluate(Scores(half.float().numpy(), CAPTIONS, CLIPS), CORPUS)
    assert found.directions["t2v"].summary == wanted.directions["t2v"].summary


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (None, "is None; give an array of numbers"),
        (sparse.csr_array(VALUES), "is a csr_array, which leaves numbers out; give its .toarray()"),
        (torch.tensor(VALUES).to_sparse(), "no table of numbers"),
        ([["a"] * 12] * 12, "are of type <U1"),
    ],
    ids=["nothing", "sparse", "sparse tensor", "words"],
)
def test_a_table_without_numbers_is_refused(values: Any, words: str) -> None:
    with pytest.raises(ScoresError, match=re.escape(words)):
        evaluate(Scores(values, CAPTIONS, CLIPS), CORPUS)


def test_one_word_is_one_metric_one_direction_one_audit() -> None:
    assert EvaluationSettings(metrics="R@1") == EvaluationSettings(metrics=("R@1",))
    one = evaluation.parse_metric("MRR")
    assert EvaluationSettings(metrics=one).metrics == (one,)
    assert evaluation.parse_metrics("nDCG@10") == (evaluation.parse_metric("nDCG@10"),)
    assert EvaluationSettings(directions="t2v").directions == ("t2v",)
    assert one_or_more("hubness") == ("hubness",)
    with pytest.raises(UsageError, match="'R@1,R@5' is no metric"):
        EvaluationSettings(metrics="R@1,R@5")


def test_directions_are_each_calculated_once_however_they_come() -> None:
    for given in (["v2t", "v2t"], (one for one in ["v2t"])):
        found = evaluate(SCORES, CORPUS, EvaluationSettings(directions=given))
        assert list(found.directions) == ["v2t"]


@pytest.mark.parametrize(("kind", "what"), [(EvaluationSettings, "evaluation"), (audits.AuditSettings, "audit")])
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("resamples", 10.5, "is 10.5; it must be a whole number, at least 0"),
        ("resamples", "10", "is '10'; it must be a whole number"),
        ("resamples", True, "is True; it must be a whole number"),
        ("resamples", -1, "is -1; it must be a whole number, at least 0"),
        ("seed", None, "is None; it must be a whole number"),
        ("seed", 2.0, "is 2.0; it must be a whole number"),
        ("band_bytes", 1e7, "is 10000000.0; it must be a whole number"),
        ("confidence", "0.9", "is '0.9'; it must be a number between 0 and 1"),
        ("confidence", None, "is None; it must be a number between 0 and 1"),
        ("confidence", 95, "is 95; it must be a number between 0 and 1"),
        ("confidence", float("nan"), "is nan; it must be a number between 0 and 1"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_named(kind: Any, what: str, name: str, value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"The setting {name} of the {what} {words}")):
        kind(**{name: value})


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    found = evaluate(SCORES, CORPUS, EvaluationSettings(resamples=np.int64(1000)))
    assert found.directions["t2v"].summary == FIGURES.directions["t2v"].summary


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "settings as a dict": (
        lambda: evaluate(SCORES, CORPUS, {"metrics": ["R@1"]}),
        "settings is a dict; give EvaluationSettings(...)",
    ),
    "settings of an evaluation for an audit": (
        lambda: evenreel.audit("hubness", SCORES, CORPUS, EvaluationSettings()),
        "settings is an EvaluationSettings; give AuditSettings(...)",
    ),
    "no settings for an audit": (
        lambda: evenreel.audit("hubness", SCORES, CORPUS, {}),
        "settings is a dict; give AuditSettings(...)",
    ),
    "metrics that are numbers": (lambda: EvaluationSettings(metrics=(1,)), "one of metrics is 1; give one"),
    "no metric": (lambda: EvaluationSettings(metrics=None), "metrics is None"),
    "no direction": (lambda: EvaluationSettings(directions=None), "directions is None"),
    "no metric at all": (lambda: evaluation.parse_metric(None), "None is no metric"),
    "threads that are no whole number": (
        lambda: EvaluationSettings(threads=1.5),
        "The setting threads of the evaluation is 1.5; it must be a whole number, at least 0",
    ),
    "partial as text": (
        lambda: EvaluationSettings(partial="no"),
        "The setting partial of the evaluation is 'no'; it must be true or false",
    ),
    "no relevance": (
        lambda: evaluate(SCORES, CORPUS, relevance=None),
        "relevance is None; give one of clip, text, classes, classes-iou, or degrees from 0 to 1",
    ),
    "relevance of words": (
        lambda: evaluate(SCORES, CORPUS, relevance=[["a"] * 12] * 12),
        "it must be numbers, a caption a row and a video a column",
    ),
    "progress that is no function": (
        lambda: evaluate(SCORES, CORPUS, progress=True),
        "progress is True; give a function that takes the share that is done, or None",
    ),
    "a comparison of a list": (
        lambda: compare(FIGURES, [FIGURES]),
        "others is a list; give evaluations by the names of their systems, {'name': evaluation}",
    ),
    "a comparison of one": (
        lambda: compare(FIGURES, FIGURES),
        "others is an Evaluation; give evaluations by the names of their systems",
    ),
    "a comparison of scores": (
        lambda: compare(FIGURES, {"b": SCORES}),
        "others['b'] is a Scores; give what evaluate(scores, corpus) returns",
    ),
    "scores as a baseline": (
        lambda: compare(SCORES, {"b": FIGURES}),
        "baseline is a Scores; give what evaluate(scores, corpus) returns",
    ),
    "a fusion of a list": (
        lambda: fuse([SCORES, SCORES]),
        "systems is a list; give scores by the names of their systems, {'name': scores}",
    ),
    "one weight": (lambda: fuse({"a": SCORES, "b": SCORES}, weights=0.5), "weights is 0.5; give a number for each"),
    "weights as text": (
        lambda: fuse({"a": SCORES, "b": SCORES}, weights=["a", "b"]),
        "one of the weights is 'a'; give a number for each",
    ),
    "no audit named": (lambda: evenreel.audit(None, SCORES, CORPUS), "names is None"),
    "arguments swapped": (lambda: evenreel.audit(SCORES, "hubness", CORPUS), "names is a Scores"),
    "edited scores in a list": (
        lambda: audits.audit_textual(SCORES, CORPUS, edited=[SCORES]),
        "edited is a list; give scores by the names of their edits, {'name': scores}",
    ),
    "tables as dicts": (
        lambda: corpus.make_corpus({"clip_id": "a"}, CORPUS.captions),
        "clips is a dict; give a table, such as a DataFrame of polars or pandas",
    ),
    "tables as paths": (
        lambda: corpus.make_corpus(CORPUS.clips, "b.csv"),
        "captions is 'b.csv'; give a table, such as a DataFrame of polars or pandas; load_corpus(path) reads files",
    ),
    "no path of a corpus": (lambda: evenreel.load_corpus(None), "folder is None; give a path"),
    "a table as a path": (lambda: evenreel.load_corpus(CORPUS.clips), "folder is a DataFrame; give a path"),
    "no path of scores": (lambda: evenreel.load_scores(None, CORPUS), "path is None; give a path"),
    "an array as a path": (
        lambda: evenreel.load_scores(VALUES, CORPUS),
        "path is an array of float64 with the shape (12, 12); give a path",
    ),
    "no place for scores": (lambda: evaluation.save_scores(SCORES, None), "path is None; give a path"),
    "no place for a corpus": (lambda: corpus.save_corpus(CORPUS, None), "folder is None; give a path"),
    "splits in a list": (lambda: corpus.select(CORPUS, split=["test"]), "split is a list; give its name"),
    "a condition as text": (
        lambda: corpus.select(CORPUS, where="source = 'camera'"),
        "where is \"source = 'camera'\"; give a polars expression, such as pl.col(\"source\") == \"camera\"",
    ),
    "one share": (
        lambda: corpus.split_corpus(CORPUS, 0.5, 0),
        "shares is 0.5; give a share for each split, {'train': 0.8, 'test': 0.2}",
    ),
    "shares as text": (
        lambda: corpus.split_corpus(CORPUS, {"train": "half"}, 0),
        "shares['train'] is 'half'; give a share for each split",
    ),
    "no path of a library": (lambda: evenreel.open_library(None), "path is None; give a path"),
    "no place of a library": (
        lambda: evenreel.index_folders(["videos"], None, IndexSettings()),
        "library is None; give a path",
    ),
    "no folder": (lambda: evenreel.index_folders(None, "library", IndexSettings()), "places is None"),
    "settings of an index as a dict": (
        lambda: evenreel.index_folders(["videos"], "library", {}),
        "settings is a dict; give IndexSettings(...)",
    ),
}  # fmt: skip


@of_each(WRONG)
def test_a_wrong_argument_gets_a_sentence(name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises(UsageError, match=re.escape(words)):
        call()


def test_a_folder_to_index_may_stand_alone(tmp_path: Path) -> None:
    """A text is a list of letters to Python, and the first letter of a path is the root of the disk."""
    for folder in (str(tmp_path / "nowhere"), tmp_path / "nowhere"):
        with pytest.raises(EvenreelError, match=r"nowhere does not exist"):
            evenreel.index_folders(folder, tmp_path / "library")


def test_checks_let_good_arguments_through() -> None:
    check_scores(SCORES)
    check_corpus(Corpus(CORPUS.clips, CORPUS.captions))
    assert as_path("a/b", "path") == as_path(Path("a/b"), "path") == Path("a/b")
    assert one_or_more(["a", "b"]) == ("a", "b")


def test_numbers_of_numpy_are_numbers() -> None:
    systems, whole = {"a": SCORES, "b": SCORES}, slice(0, 12)
    given, wanted = np.array([0.25, 0.75], np.float32), (0.25, 0.75)
    fused = [fuse(systems, weights=weights).block(whole, whole) for weights in (given, wanted)]
    assert np.array_equal(*fused)
    dealt = corpus.split_corpus(CORPUS, {"train": np.float32(0.5), "test": np.float32(0.5)}, np.int64(3))
    assert dealt.clips.equals(corpus.split_corpus(CORPUS, {"train": 0.5, "test": 0.5}, 3).clips)
