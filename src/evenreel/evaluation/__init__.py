"""Measuring: metrics of any system's scores, with intervals, on numpy alone."""

from evenreel.evaluation.comparison import Comparison, compare
from evenreel.evaluation.evaluate import RELEVANCE, RelevanceName, evaluate
from evenreel.evaluation.fused import Validation, fuse
from evenreel.evaluation.metrics import DEFAULT_METRICS, Metric, parse_metric, parse_metrics
from evenreel.evaluation.results import DirectionResult, Evaluation, EvaluationSettings, Interval
from evenreel.evaluation.scores import load_scores, save_scores

__all__ = [
    "DEFAULT_METRICS",
    "RELEVANCE",
    "Comparison",
    "DirectionResult",
    "Evaluation",
    "EvaluationSettings",
    "Interval",
    "Metric",
    "RelevanceName",
    "Validation",
    "compare",
    "evaluate",
    "fuse",
    "load_scores",
    "parse_metric",
    "parse_metrics",
    "save_scores",
]
