"""What the tables on frame length measure: nDCG and two mAP both ways by classes, and the ranks of a caption's clip."""

from __future__ import annotations

import numpy as np

from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.metrics import Direction
from evenreel.types import Corpus, ScoreBlocks

BOTH_WAYS: dict[str, Direction] = {"V2T": "v2t", "T2V": "t2v"}
MEAN = "AVG"
GRADED = {"nDCG": "nDCG@R", "mAP-EPIC": "mAP-EPIC", "mAP": "mAP"}
"""Columns and their metrics. The paper's nDCG is cut after as many places as a query has relevant items (section 4);
its mAP is that of the scripts of EPIC-KITCHENS-100, `mAP-EPIC`, in which precision sums degrees of relevance."""

NDCG, MAP_EPIC, MAP = (tuple(f"{name} {way}" for way in (*BOTH_WAYS, MEAN)) for name in GRADED)
RANKS = ("R@1", "R@5", "R@10", "MedR", "MeanR", "Rsum")
ENDS = {"MedR": (1.0, np.inf), "MeanR": (1.0, np.inf), "Rsum": (0.0, 300.0)}
"""Between which values a figure lies whatever is measured, where that is not 0 to 100."""


def length_figures(scores: ScoreBlocks, corpus: Corpus, names: tuple[str, ...]) -> dict[str, float]:
    """Measure the metrics of a table on one system's scores."""
    found: dict[str, float] = {}
    if graded := tuple(name for name in GRADED if f"{name} {MEAN}" in names):
        found |= _graded(scores, corpus, graded)
    if ranked := tuple(name for name in RANKS if name in names):
        settings = EvaluationSettings(parse_metrics(ranked), ("t2v",), resamples=0)
        summary = evaluate(scores, corpus, settings).directions["t2v"].summary
        found |= {name: summary[name].value for name in ranked}
    return {name: found[name] for name in names}


def _graded(scores: ScoreBlocks, corpus: Corpus, names: tuple[str, ...]) -> dict[str, float]:
    settings = EvaluationSettings(parse_metrics([GRADED[name] for name in names]), resamples=0)
    found = evaluate(scores, corpus, settings, relevance="classes-iou").directions
    figures: dict[str, float] = {}
    for name in names:
        ways = {way: found[direction].summary[GRADED[name]].value for way, direction in BOTH_WAYS.items()}
        figures |= {f"{name} {way}": value for way, value in {**ways, MEAN: float(np.mean([*ways.values()]))}.items()}
    return figures
