"""Measuring: metrics of any system's scores, with intervals, on numpy alone."""

from evenreel.evaluation.evaluate import RELEVANCE, RelevanceName, evaluate
from evenreel.evaluation.metrics import DEFAULT_METRICS, Metric, parse_metric, parse_metrics
from evenreel.evaluation.results import DirectionResult, Evaluation, EvaluationSettings, Interval

__all__ = [
    "DEFAULT_METRICS",
    "RELEVANCE",
    "DirectionResult",
    "Evaluation",
    "EvaluationSettings",
    "Interval",
    "Metric",
    "RelevanceName",
    "evaluate",
    "parse_metric",
    "parse_metrics",
]
