"""Arguments and settings of the wrong kind are told in a sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy import sparse

import evenreel
from evenreel import audits, corpus, evaluation
from evenreel.config import IndexSettings, check_scores
from evenreel.errors import EvenreelError, ScoresError, UsageError
from evenreel.evaluation import EvaluationSettings, compare, evaluate, fuse
from evenreel.matchers import MATCHERS
from evenreel.matchers.adapter import AdapterSettings
from evenreel.types import Scores
from tests.each import check_each, of_each

CLIPS = [f"clip{number}" for number in range(12)]
CAPTIONS = [f"caption{number}" for number in range(12)]
VALUES = np.random.default_rng(0).normal(size=(12, 12)) + np.eye(12)
SCORES = Scores(VALUES, CAPTIONS, CLIPS)
CORPUS = corpus.make_corpus({"clip_id": CLIPS}, {"caption_id": CAPTIONS, "clip_id": CLIPS, "text": ["a ball"] * 12})
FIGURES = evaluate(SCORES, CORPUS)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (VALUES, "scores is an array of float64 with the shape (12, 12);"),
        ("x.npz", "scores is 'x.npz';"),
        (None, "scores is None;"),
        (CORPUS.clips, "scores is a DataFrame;"),
    ],
)
def test_what_is_no_scores_is_told_how_scores_are_made(given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words) + r".* Scores\(values, caption_ids, video_ids\)"):
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
    "make", [np.ndarray.tolist, torch.tensor, lambda one: torch.tensor(one, requires_grad=True), pl.DataFrame]
)
def test_a_table_may_come_in_any_form(make: Callable[[Any], Any], tmp_path: Path) -> None:
    values = make(VALUES)
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


def test_one_word_is_one_metric_and_one_direction_each_calculated_once() -> None:
    one = evaluation.parse_metric("MRR")
    assert EvaluationSettings(metrics="R@1").metrics == evaluation.parse_metrics("R@1")
    assert EvaluationSettings(metrics=one).metrics == (one,)
    for given in ("v2t", ["v2t", "v2t"], (word for word in ["v2t"])):
        found = evaluate(SCORES, CORPUS, EvaluationSettings(directions=given))
        assert list(found.directions) == ["v2t"]


@pytest.mark.parametrize("kind", [EvaluationSettings, audits.AuditSettings])
@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("resamples", (10.5, "10", True, -1), "a whole number, at least 0"),
        ("seed", (None, 2.0), "a whole number"),
        ("band_bytes", (1e7,), "a whole number"),
        ("confidence", ("0.9", None, 95, float("nan")), "a number between 0 and 1"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_named(kind: Any, name: str, values: tuple[Any, ...], words: str) -> None:
    for value in values:
        with pytest.raises(UsageError, match=re.escape(f"is {value!r}; it must be {words}")) as raised:
            kind(**{name: value})
        assert str(raised.value).startswith(f"The setting {name} of the ")


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: evaluate(SCORES, CORPUS, {"metrics": ["R@1"]}), "settings is a dict; give EvaluationSettings(...)"),
    (
        lambda: evenreel.audit("hubness", SCORES, CORPUS, EvaluationSettings()),
        "settings is an EvaluationSettings; give AuditSettings(...)",
    ),
    (lambda: evenreel.index_folders(["videos"], "library", {}), "settings is a dict; give IndexSettings(...)"),
    (lambda: EvaluationSettings(metrics=(1,)), "one of metrics is 1; give one"),
    (lambda: EvaluationSettings(metrics="R@1,R@5"), "'R@1,R@5' is no metric"),
    (lambda: EvaluationSettings(threads=1.5), "threads of the evaluation is 1.5; it must be a whole number"),
    (lambda: EvaluationSettings(partial="no"), "partial of the evaluation is 'no'; it must be true or false"),
    (lambda: evaluate(SCORES, CORPUS, relevance=None), "give one of clip, text, classes, classes-iou, degrees"),
    (lambda: evaluate(SCORES, CORPUS, relevance=[["a"] * 12] * 12), "numbers, a caption a row and a video a column"),
    (lambda: evaluate(SCORES, CORPUS, progress=True), "progress is True; give a function that takes the share"),
    (lambda: evaluate(SCORES, len), "give a Corpus, the path of one, or a table of captions with the columns"),
    (lambda: corpus.summarise("corpus"), "give a corpus: load_corpus(path) reads one"),
    (lambda: compare(FIGURES, [FIGURES]), "others is a list; give evaluations by the names of their systems"),
    (lambda: compare(FIGURES, {"b": SCORES}), "others['b'] is a Scores; give what evaluate(scores, corpus) returns"),
    (lambda: compare(SCORES, {"b": FIGURES}), "baseline is a Scores; give what evaluate(scores, corpus) returns"),
    (lambda: fuse([SCORES, SCORES]), "systems is a list; give scores by the names of their systems"),
    (lambda: fuse({"a": SCORES, "b": SCORES}, weights=0.5), "weights is 0.5; give a number for each"),
    (lambda: fuse({"a": SCORES, "b": SCORES}, weights=["a", "b"]), "one of the weights is 'a'; give a number for each"),
    (lambda: evenreel.audit(SCORES, "hubness", CORPUS), "names is a Scores"),
    (
        lambda: audits.audit_textual(SCORES, CORPUS, edited=[SCORES]),
        "edited is a list; give scores by the names of their edits, {'name': scores}",
    ),
    (lambda: corpus.make_corpus(CORPUS.clips, "b.csv"), "captions is 'b.csv'; give a table, such as a DataFrame of "),
    (lambda: evenreel.load_corpus(CORPUS.clips), "folder is a DataFrame; give a path"),
    (lambda: evenreel.load_scores(VALUES, CORPUS), "path is an array of float64 with the shape (12, 12); give a path"),
    (lambda: evenreel.index_folders(["videos"], None, IndexSettings()), "library is None; give a path"),
    (lambda: corpus.select(CORPUS, split=["test"]), "split is a list; give its name"),
    (lambda: corpus.select(CORPUS, where="source = 'camera'"), 'give a polars expression, such as pl.col("source")'),
    (lambda: corpus.split_corpus(CORPUS, 0.5, 0), "shares is 0.5; give a share for each split"),
    (
        lambda: corpus.split_corpus(CORPUS, {"train": "half"}, 0),
        "shares['train'] is 'half'; give a share for each split",
    ),
]


@of_each(WRONG, name=lambda case: case[1])
def test_a_wrong_argument_gets_a_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        call()


def test_a_folder_to_index_may_stand_alone(tmp_path: Path) -> None:
    """A text is a list of letters to Python, and the first letter of a path is the root of the disk."""
    for folder in (str(tmp_path / "nowhere"), tmp_path / "nowhere"):
        with pytest.raises(EvenreelError, match=r"nowhere does not exist"):
            evenreel.index_folders(folder, tmp_path / "library")


def test_numbers_of_numpy_are_numbers() -> None:
    found = evaluate(SCORES, CORPUS, EvaluationSettings(resamples=np.int64(1000)))
    assert found.directions["t2v"].summary == FIGURES.directions["t2v"].summary
    systems, whole = {"a": SCORES, "b": SCORES}, slice(0, 12)
    given, wanted = np.array([0.25, 0.75], np.float32), (0.25, 0.75)
    fused = [fuse(systems, weights=weights).block(whole, whole) for weights in (given, wanted)]
    assert np.array_equal(*fused)
    dealt = corpus.split_corpus(CORPUS, {"train": np.float32(0.5), "test": np.float32(0.5)}, np.int64(3))
    assert dealt.clips.equals(corpus.split_corpus(CORPUS, {"train": 0.5, "test": 0.5}, 3).clips)


NO_NUMBERS = (math.nan, math.inf, "0.01", True, None)
RANGES: dict[tuple[Any, ...], str] = {
    (0, -1.0, *NO_NUMBERS): "temperature attention_temperature radius tau cycle_tau",
    (-0.1, *NO_NUMBERS): "prior_std support_weight sharpness free_nats lambda_cap lambda_rec lambda_kl lambda_orth "
    "lambda_hsc",
    (-0.1, 1.0, 2, *NO_NUMBERS): "dropout graph_dropout",
    (-0.1, 2.5, *NO_NUMBERS): "margin margin_pos",
    (0, 2, *NO_NUMBERS): "tau_neg tau_pos",
    (0, -1, 1.5, *NO_NUMBERS): "layers weight_layers heads max_frames max_words trials word_size words_at_least "
    "max_verbs max_nouns kappa samples decoder_layers vocabulary_size",
    (-1, 2.5, *NO_NUMBERS): "temporal_layers noise_seed",
    (1, 2.5, *NO_NUMBERS): "size",
    (-0.1, math.nan, math.inf, "0.01", True): "variance_weight",
    ("fixed", *NO_NUMBERS): "g",
    ("no such choice", None): "kind prior mining modalities fusion intra types calibration cycle kl_on reduction",
    ("", 3, True): "vectors elements embeddings",
    ("cut", ("cut", "cut"), (1,), None): "vocabulary entities activities",
    ((), ("sound",), ("video", "video"), "video", None): "matches",
    (1, "true", None): "use_entities use_activities residual captioning disentangle text_condition preserve_mean "
    "confidence co_attention attention_norm co_residual both_ways normalise_index diagonal_only",
}
"""Every setting of every matcher is here: one that is added without a range fails the test."""
BAD = {name: values for values, names in RANGES.items() for name in names.split()}

CASES = [
    (name, setting, value)
    for name, entry in MATCHERS.items()
    for setting in entry.settings.__dataclass_fields__
    for value in BAD[setting]
]


def test_out_of_range() -> None:
    def check(case: tuple[str, str, Any]) -> None:
        name, setting, value = case
        with pytest.raises(UsageError) as raised:
            MATCHERS[name].settings(**{setting: value})
        assert str(raised.value).startswith(f"The setting {setting} of {name} is {value!r}; it must be ")

    check_each(CASES, check)


def test_what_it_must_be() -> None:
    settings = MATCHERS["t_mass"].settings
    for given, words in (
        ({"trials": 0}, "is 0; it must be a whole number, at least 1 and at most"),
        ({"radius": math.nan}, "is nan; it must be a number above 0."),
        ({"support_weight": -1}, "is -1; it must be a number of at least 0."),
        ({"dropout": 1.0}, "is 1.0; it must be a number of at least 0 and below 1."),
        ({"prior": "cauchy"}, "is 'cauchy'; it must be uniform or normal."),
    ):
        with pytest.raises(UsageError, match=words):
            settings(**given)


@pytest.mark.parametrize("entry", MATCHERS.values(), ids=MATCHERS.keys())
def test_the_ends_of_the_ranges(entry: Any) -> None:
    ends = {
        "temperature": 1, "dropout": 0, "prior_std": 0, "support_weight": 0, "temporal_layers": 0, "noise_seed": 0,
        "layers": 1, "weight_layers": 1, "heads": 1, "max_frames": 1, "max_words": 1, "trials": 1,
        "margin": 0, "margin_pos": 2, "tau_neg": 1, "tau_pos": 1, "size": 2, "word_size": 1, "words_at_least": 1,
        "max_verbs": 1, "max_nouns": 1, "sharpness": 0, "graph_dropout": 0, "vocabulary": (), "vectors": None,
        "elements": None, "embeddings": None, "entities": (), "activities": (), "g": -1, "lambda_cap": 0,
        "lambda_rec": 0, "lambda_kl": 0, "lambda_orth": 0, "kappa": 1, "samples": 1, "free_nats": 0,
        "decoder_layers": 1, "vocabulary_size": 1, "lambda_hsc": 0, "variance_weight": 0,
    }  # fmt: skip
    given = {name: value for name, value in ends.items() if name in entry.settings.__dataclass_fields__}
    built = entry.settings(**given)
    assert {name: getattr(built, name) for name in given} == given


@pytest.mark.parametrize("given", [{"dropout": 2}, {"kind": "lora"}], ids=str)
def test_settings_of_adapters(given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(UsageError, match=f"The setting {name} of the adapter is .*; it must be "):
        AdapterSettings(**given)
