"""Each argument that people give, given every wrong kind of thing: one sentence, never an error from inside."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import evenreel
from evenreel import audits, corpus, evaluation, features
from evenreel.audits import AuditInputs, AuditSettings
from evenreel.corpus.counterparts import counterparts
from evenreel.debias.source.level import levelled, source_levels
from evenreel.encoders import load_encoder
from evenreel.errors import EvenreelError
from evenreel.evaluation import EvaluationSettings
from evenreel.evaluation.comparison import means_of_directions, side_by_side
from evenreel.evaluation.fusion import TwoStage
from evenreel.evaluation.moments import (
    MomentPredictions,
    MomentTruth,
    compare_moments,
    evaluate_moments,
    load_predictions,
    moment_truth,
    parse_moment_metric,
)
from evenreel.evaluation.rescoring import rescore
from evenreel.evaluation.saving import write_run
from evenreel.library.search.query import as_pixels
from evenreel.types import Scores
from tests.each import of_each

CLIPS = [f"v{number}" for number in range(6)]
CAPTIONS = [f"c{number}" for number in range(6)]
VALUES = np.random.default_rng(0).normal(size=(6, 6))
SCORES = Scores(VALUES, CAPTIONS, CLIPS)
CORPUS = corpus.make_corpus(
    {"clip_id": CLIPS}, {"caption_id": CAPTIONS, "clip_id": CLIPS, "text": ["a ball rolls"] * 6}
)
FEW = EvaluationSettings(resamples=20)
FIGURES = evaluation.evaluate(SCORES, CORPUS, FEW)
ENCODER = load_encoder("builtin")
NO_TRUTH = MomentTruth((), (), (), np.zeros(0, np.int64), np.zeros(0), {})


class Bare:
    """Has nothing that anyone asks for."""


TABLE = {"x": ["b"], "y": ["a"]}
KINDS: dict[str, Callable[[], Any]] = {
    "None": lambda: None, "a truth": lambda: True, "a number": lambda: 1.5, "a whole number": lambda: -3,
    "a word": lambda: "nowhere", "a path": lambda: Path("nowhere"), "bytes": lambda: b"x", "a set": lambda: {1},
    "a dict of nothing": dict, "a dict of numbers": lambda: {"a": 1}, "a dict of dicts": lambda: {"a": {"b": 1.0}},
    "a list of numbers": lambda: [1, 2], "a list of words": lambda: ["a", "b"], "an empty list": list,
    "a list of lists of unlike length": lambda: [[1.0], [1.0, 2.0]], "a generator": lambda: (one for one in [1]),
    "a row": lambda: np.zeros(3), "a matrix": lambda: np.full((2, 3), 7.0), "a cube": lambda: np.zeros((2, 2, 2)),
    "an array of objects": lambda: np.array([[None, "a"]], dtype=object),
    "complex numbers": lambda: np.zeros((6, 6), complex), "a tensor": lambda: torch.full((2, 3), 7.0),
    "a tensor with gradients": lambda: torch.full((2, 3), 7.0, requires_grad=True),
    "a tensor without values": lambda: torch.zeros(2, 3, device="meta"),
    "a DataFrame of pandas": lambda: pd.DataFrame(TABLE), "a DataFrame of polars": lambda: pl.DataFrame(TABLE),
    "a DataFrame of pandas with two columns of one name": lambda: pd.DataFrame([[1, 2]], columns=["x", "x"]),
    "a Series of pandas": lambda: pd.Series([1.0]), "a Series of polars": lambda: pl.Series([1.0]),
    "a LazyFrame that cannot be read": lambda: pl.LazyFrame({"x": [1]}).select("y"),
    "a class": lambda: int, "an object": Bare, "scores": lambda: Scores(VALUES[:2], ["p", "q"], CLIPS),
}  # fmt: skip
"""What somebody may give where something else is meant: fits no argument below but where `FITS` says so."""

CALLS: dict[str, Callable[[Any], object]] = {
    "evaluate": lambda one: evaluation.evaluate(one, CORPUS, FEW),
    "evaluate, corpus": lambda one: evaluation.evaluate(SCORES, one, FEW),
    "evaluate, settings": lambda one: evaluation.evaluate(SCORES, CORPUS, one),
    "evaluate, relevance": lambda one: evaluation.evaluate(SCORES, CORPUS, FEW, relevance=one),
    "evaluate, progress": lambda one: evaluation.evaluate(SCORES, CORPUS, FEW, progress=one),
    "evaluate, by": lambda one: evaluation.evaluate(SCORES, CORPUS, EvaluationSettings(by=one, resamples=20)),
    "evaluate, cluster": lambda one: evaluation.evaluate(SCORES, CORPUS, EvaluationSettings(cluster=one)),
    "evaluate, on the diagonal": lambda one: evaluation.evaluate(one, None, FEW),
    "evaluate, captions_per_clip": lambda one: evaluation.evaluate(VALUES, None, FEW, captions_per_clip=one),
    "EvaluationSettings, metrics": lambda one: EvaluationSettings(metrics=one),
    "EvaluationSettings, directions": lambda one: EvaluationSettings(directions=one),
    "EvaluationSettings, ties": lambda one: EvaluationSettings(ties=one),
    "EvaluationSettings, seed": lambda one: EvaluationSettings(seed=one),
    "parse_metrics": evaluation.parse_metrics,
    "parse_metric": evaluation.parse_metric,
    "load_scores": lambda one: evaluation.load_scores(one, CORPUS),
    "load_scores, corpus": lambda one: evaluation.load_scores("nowhere.npz", one),
    "as_scores": evaluation.as_scores,
    "save_scores": lambda one: evaluation.save_scores(one, "never.npz"),
    "save_scores, path": lambda one: evaluation.save_scores(SCORES, one),
    "write_run": lambda one: write_run(one, "never.run"),
    "compare": lambda one: evaluation.compare(one, {"b": FIGURES}),
    "compare, others": lambda one: evaluation.compare(FIGURES, one),
    "compare, one of others": lambda one: evaluation.compare(FIGURES, {"b": one}),
    "compare, settings": lambda one: evaluation.compare(FIGURES, {"b": FIGURES}, one),
    "side_by_side": side_by_side,
    "side_by_side, one of the evaluations": lambda one: side_by_side({"a": FIGURES, "b": one}),
    "side_by_side, settings": lambda one: side_by_side({"a": FIGURES, "b": FIGURES}, one),
    "fuse": evaluation.fuse,
    "fuse, one of the systems": lambda one: evaluation.fuse({"a": SCORES, "b": one}),
    "fuse, way": lambda one: evaluation.fuse({"a": SCORES, "b": SCORES}, one),
    "fuse, validation": lambda one: evaluation.fuse({"a": SCORES, "b": SCORES}, validation=one),
    "fuse, direction": lambda one: evaluation.fuse({"a": SCORES, "b": SCORES}, direction=one),
    "rescore": lambda one: rescore(one, SCORES, "t2v"),
    "rescore, scores": lambda one: rescore("dsl", one, "t2v"),
    "rescore, direction": lambda one: rescore("dsl", SCORES, one),
    "rescore, bank": lambda one: rescore("qb-norm", SCORES, "t2v", one),
    "rescore, settings": lambda one: rescore("dsl", SCORES, "t2v", settings=one),
    "audit": lambda one: evenreel.audit(one, SCORES, CORPUS),
    "audit, scores": lambda one: evenreel.audit("hubness", one, CORPUS),
    "audit, corpus": lambda one: evenreel.audit("hubness", SCORES, one),
    "audit, settings": lambda one: evenreel.audit("hubness", SCORES, CORPUS, one),
    "audit, inputs": lambda one: evenreel.audit("hubness", SCORES, CORPUS, inputs=one),
    "AuditInputs, train": lambda one: AuditInputs(train=one),
    "audit, one of the edited": lambda one: evenreel.audit(
        "visual", SCORES, CORPUS, None, AuditInputs(edited={"a": one})
    ),
    "audit_length, tail": lambda one: audits.audit_length(SCORES, CORPUS, tail=one),
    "measure_hubness": lambda one: audits.measure_hubness(one, CORPUS),
    "measure_length": lambda one: audits.measure_length(one, CORPUS),
    "measure_source": lambda one: audits.measure_source(one, CORPUS, "sora"),
    "measure_source, group": lambda one: audits.measure_source(SCORES, CORPUS, one),
    "measure_composition, edited": lambda one: audits.measure_composition(SCORES, CORPUS, one, AuditSettings()),
    "measure_composition, texts": lambda one: audits.measure_composition(
        SCORES, CORPUS, {"a": SCORES}, AuditSettings(), one
    ),
    "measure_order": lambda one: audits.measure_order(one, CORPUS),
    "measure_order, corpus": lambda one: audits.measure_order(SCORES, one),
    "measure_order, edited": lambda one: audits.measure_order(SCORES, CORPUS, edited=one),
    "measure_perturbed": lambda one: audits.measure_perturbed(one, CORPUS, {"a": SCORES}, AuditSettings()),
    "measure_perturbed, corpus": lambda one: audits.measure_perturbed(SCORES, one, {"a": SCORES}, AuditSettings()),
    "measure_perturbed, edited": lambda one: audits.measure_perturbed(SCORES, CORPUS, one, AuditSettings()),
    "measure_perturbed, settings": lambda one: audits.measure_perturbed(SCORES, CORPUS, {"a": SCORES}, one),
    "measure_overlay": lambda one: audits.measure_overlay(one, CORPUS, {"a": SCORES}, AuditSettings()),
    "read_tail_classes": audits.read_tail_classes,
    "load_predictions": load_predictions,
    "moment_truth": moment_truth,
    "evaluate_moments": lambda one: evaluate_moments(one, NO_TRUTH),
    "evaluate_moments, truth": lambda one: evaluate_moments(MomentPredictions({}), one),
    "compare_moments": compare_moments,
    "parse_moment_metric": parse_moment_metric,
    "TwoStage": lambda one: TwoStage(one, SCORES, 2),
    "TwoStage, expensive": lambda one: TwoStage(SCORES, one, 2),
    "means_of_directions": means_of_directions,
    "source_levels": lambda one: source_levels(one, CORPUS, {}),
    "source_levels, corpus": lambda one: source_levels(SCORES, one, {}),
    "source_levels, sources": lambda one: source_levels(SCORES, CORPUS, one),
    "levelled": lambda one: levelled(one, {}, {}),
    "levelled, levels": lambda one: levelled(SCORES, one, {}),
    "load_corpus": evenreel.load_corpus,
    "as_corpus": corpus.as_corpus,
    "make_corpus": lambda one: corpus.make_corpus(one, CORPUS.captions),
    "make_corpus, captions": lambda one: corpus.make_corpus(CORPUS.clips, one),
    "save_corpus": lambda one: corpus.save_corpus(one, "never"),
    "save_corpus, folder": lambda one: corpus.save_corpus(CORPUS, one),
    "select": corpus.select,
    "counterparts": counterparts,
    "compute_features": lambda one: features.compute_features(one, "never", ENCODER),
    "find_clips": lambda one: features.find_clips(one, CORPUS),
    "find_clips, corpus": lambda one: features.find_clips("nowhere", one),
    "load_text_features": lambda one: features.load_text_features(one, CORPUS),
    "read_manifest": features.read_manifest,
    "store_features": lambda one: features.store_features(one, "never", features.StoredSettings("c3d", {})),
    "store_features, settings": lambda one: features.store_features(CORPUS, "never", one),
    "split_corpus": lambda one: corpus.split_corpus(one, {"train": 1.0}, 0),
    "summarise": corpus.summarise,
    "own_clip": lambda one: corpus.own_clip(CORPUS, one, CLIPS),
    "same_text": lambda one: corpus.same_text(CORPUS, CAPTIONS, one),
    "save_texts": lambda one: corpus.save_texts(one, "never"),
    "load_matcher": evenreel.load_matcher,
    "load_matcher, device": lambda one: evenreel.load_matcher("nowhere", device=one),
    "load_encoder": load_encoder,
    "load_encoder, device": lambda one: load_encoder("builtin", device=one),
    "load_encoder, precision": lambda one: load_encoder("builtin", precision=one),
    "load_encoder, batch_size": lambda one: load_encoder("builtin", batch_size=one),
    "open_library": evenreel.open_library,
    "open_library, cache": lambda one: evenreel.open_library("nowhere", cache=one),
    "index_folders": lambda one: evenreel.index_folders(one, "never"),
    "index_folders, library": lambda one: evenreel.index_folders("nowhere", one),
    "index_folders, settings": lambda one: evenreel.index_folders("nowhere", "never", one),
    "search_image": as_pixels,
}
FITTING: dict[tuple[str, ...], set[str]] = {
    (
        "evaluate, settings", "compare, settings", "side_by_side, settings", "fuse, validation", "rescore, settings",
        "audit, settings", "audit, inputs", "AuditInputs, train", "measure_perturbed, settings",
    ): {"None"},
    (
        "as_scores", "save_scores", "write_run", "levelled", "rescore, scores", "audit, scores", "measure_hubness",
    ): {"scores"},
    ("evaluate, by", "read_tail_classes"): {"a dict of nothing", "an empty list"},
    ("own_clip", "same_text"): {"an empty list"},
    ("evaluate, progress",): {"None", "a class"},
    ("evaluate, corpus",): {"None"},
    ("levelled, levels",): {"a dict of nothing", "a dict of numbers", "a dict of dicts"},
    ("measure_composition, texts",): {"a dict of nothing"},
    ("save_corpus, folder",): {"a word", "a path"},
    ("load_encoder, batch_size",): {"a truth"},
    ("save_texts",): {"None", "a DataFrame of polars"},
}  # fmt: skip
FITS = {call: kinds for calls, kinds in FITTING.items() for call in calls}
"""Kinds that an argument does take; the others are refused."""


@of_each(CALLS)
def test_hazard_190_a_wrong_kind_gets_one_sentence(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failures = []
    for kind, make in KINDS.items():
        if kind in FITS.get(call, ()):
            CALLS[call](make())
            continue
        try:
            CALLS[call](make())
        except EvenreelError as error:
            if not is_one_sentence(error):
                failures.append(f"{kind}: {error}")
        except Exception as error:
            failures.append(f"{kind}: {type(error).__name__}: {error}")
        else:
            failures.append(f"{kind}: is taken")
    assert not failures, "\n".join(failures)


def is_one_sentence(error: EvenreelError) -> bool:
    """Whether an error has one sentence, which ends where another could begin."""
    (sentence,) = error.args
    return sentence.endswith((".", "?")) and "\n" not in sentence and not re.search(r"\. [A-Z]", sentence)


def test_all_that_the_package_offers_first_is_among_the_calls() -> None:
    named = {call.partition(",")[0] for call in CALLS}
    assert {name for name in evenreel.__all__ if name != "__version__"} <= named
