"""Evaluation of predicted windows: values of each metric for every query, and figures with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.config import check_kind, check_settings_kind
from evenreel.corpus.imported import some
from evenreel.errors import ScoresError
from evenreel.evaluation.intervals import GroupedMean, degree_interval, share_interval
from evenreel.evaluation.moments.predictions import MomentPredictions, RankedWindows
from evenreel.evaluation.moments.settings import (
    CORPUS_WORDS,
    DEFAULT_WORDS,
    HIGHLIGHT_WORDS,
    LEVELS,
    RANK_WORDS,
    MomentMetric,
    MomentSettings,
    parse_moment_metric,
)
from evenreel.evaluation.moments.truth import SLACK_S, MomentTruth
from evenreel.evaluation.moments.windows import (
    THRESHOLDS,
    Windows,
    average_precision,
    found_windows,
    overlaps,
    rated_precision,
)
from evenreel.evaluation.results import Interval, shown_figure
from evenreel.types import Shown
from evenreel.wording import count


@dataclass(frozen=True, eq=False)
class MomentEvaluation(Shown):
    """Figures of one system's predicted windows on the queries of a corpus.

    Attributes:
        query_ids: Q ids of captions.
        clip_ids: clip of each query; intervals draw clips with all their queries.
        per_query: (Q,) values in percent by the metric's name; NaN for a query that the metric is not defined for, such
            as one of highlights where the clip is not rated.
        summary: figure of each metric with its interval, by the metric's name.
        confidence: confidence of the intervals.
        notices: sentences that belong beside the figures.
        all_clips: whether windows are of all clips (video corpus moment retrieval), not of each query's own.
    """

    query_ids: tuple[str, ...]
    clip_ids: tuple[str, ...]
    per_query: dict[str, NDArray[np.float64]]
    summary: dict[str, Interval]
    confidence: float
    notices: tuple[str, ...] = ()
    all_clips: bool = False

    def _shown(self) -> Iterable[Sequence[object]]:
        yield "metric", "value", f"{100 * self.confidence:g}% interval"
        yield from ((word, *shown_figure(figure)) for word, figure in self.summary.items())

    def to_json(self, *, per_query: bool = False) -> dict[str, Any]:
        """Return the evaluation as a dictionary that JSON can hold; `per_query` adds every query's values."""
        document: dict[str, Any] = {
            "queries": len(self.query_ids),
            "searched": "all clips" if self.all_clips else "each query's own clip",
            "interval_over": {"what": "clips", "count": len(set(self.clip_ids))},
            "confidence": self.confidence,
            "notices": list(self.notices),
            "summary": {
                word: {"value": one.value, "low": one.low, "high": one.high} for word, one in self.summary.items()
            },
        }
        if per_query:
            columns = {
                word: [None if np.isnan(value) else float(value) for value in values]
                for word, values in self.per_query.items()
            }
            document["per_query"] = {"id": list(self.query_ids), **columns}
        return document


def evaluate_moments(
    predictions: MomentPredictions, truth: MomentTruth, settings: MomentSettings | None = None
) -> MomentEvaluation:
    """Evaluate windows predicted for queries, in each query's own clip or in all clips.

    Any of a query's true windows answers it; for the average precision each counts (QVHighlights, Lei et al. 2021). A
    query without a prediction has found nothing.

    Args:
        predictions: windows of queries, the likeliest first.
        truth: true windows.
        settings: metrics, number of windows that count, intervals.

    Raises:
        ScoresError: predictions are of queries that the truth does not have, or leave some out without
            `settings.partial`, or a metric of highlights finds no ratings.
    """
    check_kind(predictions, MomentPredictions, "predictions", "give what load_predictions(path) returns")
    check_kind(truth, MomentTruth, "truth", "give what moment_truth(corpus) returns")
    check_settings_kind(settings, MomentSettings)
    settings = settings or MomentSettings()
    notices = _misfits(predictions, truth, settings)
    metrics = [parse_moment_metric(word) for word in settings.metrics or _default_words(predictions, truth)]
    values: dict[MomentMetric, list[float]] = {metric: [] for metric in metrics}
    for name, clip, true, agreeing in zip(truth.query_ids, truth.clip_ids, truth.windows, truth.agreeing, strict=True):
        query = _Query(_in_clip(predictions, name, clip), true, int(agreeing), settings.windows)
        ratings = truth.ratings.get(name), predictions.ratings.get(name)
        for metric in metrics:
            values[metric].append(_highlight(metric, *ratings) if metric.of_highlights else query.value(metric))
    per_query = {str(metric): 100 * np.array(column) for metric, column in values.items()}
    groups = np.unique(truth.clip_ids, return_inverse=True)[1].astype(np.int64)
    summary = {}
    for metric in metrics:
        column = per_query[str(metric)]
        if np.isnan(column).all():
            raise ScoresError(f"{metric} needs ratings of clips, which this corpus does not have; leave it out.")
        interval = share_interval if metric.is_hit else degree_interval
        summary[str(metric)] = interval(GroupedMean.of(column, groups), settings.confidence)
    return MomentEvaluation(
        truth.query_ids, truth.clip_ids, per_query, summary, settings.confidence, notices, bool(predictions.clips)
    )


def _in_clip(predictions: MomentPredictions, query: str, clip: str) -> RankedWindows:
    """A query's predicted windows, those in other clips than its own empty, so that they overlap with nothing."""
    windows = predictions.windows.get(query, np.empty((0, 2)))
    if query not in predictions.clips:
        return windows
    return np.where(np.array([one == clip for one in predictions.clips[query]])[:, None], windows, -1.0)


class _Query:
    """A query's predicted windows against its true ones, compared once for all metrics.

    Windows of people who agree are one answer, whose overlap is the mean of those that count.
    """

    def __init__(self, predicted: RankedWindows, true: Windows, agreeing: int, most: int) -> None:
        shared = overlaps(predicted, true)
        self._people, self._most = min(agreeing, len(true)), most
        self._same = (predicted[:, None] == true[None]).all(-1)
        self._shared = np.sort(shared, axis=1)[:, -self._people :].mean(1, keepdims=True) if agreeing else shared

    def value(self, metric: MomentMetric) -> float:
        """The metric's value, 0 to 1."""
        if metric.family == "mIoU":
            return float(self._shared[:1].max(initial=0.0))
        if metric.family == "R":
            assert metric.threshold is not None
            return float((self._shared[: metric.first] >= metric.threshold).any())
        if metric.family == "Rank":
            return float(self._rank() <= metric.first)
        if metric.family == "nDCG":
            return self._gain(metric)
        thresholds = THRESHOLDS if metric.threshold is None else (metric.threshold,)
        return float(np.mean([self._precision(threshold) for threshold in thresholds]))

    def _precision(self, threshold: float) -> float:
        shared = self._shared[: self._most]
        return average_precision(found_windows(shared, threshold), shared.shape[1])

    def _rank(self) -> float:
        """Mean rank of the windows of those who agree best; infinite where one of these is not among the predicted."""
        ranks = np.where(self._same.any(0), self._same.argmax(0) + 1.0, np.inf) if len(self._same) else [np.inf]
        return float(np.sort(ranks)[: self._people or 1].mean())

    def _gain(self, metric: MomentMetric) -> float:
        """Discounted gain of the windows that find a true one, of its best possible value."""
        assert metric.threshold is not None
        hits = found_windows(self._shared[: metric.first], metric.threshold)
        discounts = 1 / np.log2(np.arange(2, metric.first + 2))
        best = discounts[: min(metric.first, self._shared.shape[1])].sum()
        return float((hits * discounts[: len(hits)]).sum() / best)


def _highlight(metric: MomentMetric, rated: NDArray[np.float64] | None, scores: NDArray[np.float64] | None) -> float:
    """A metric of highlights, 0 to 1: that of each rater, then their mean (mAP) or the best (HIT@1)."""
    if rated is None:
        return np.nan
    if scores is None or not len(scores):
        return 0.0
    right = rated >= LEVELS[metric.level]
    if metric.family == "HIT@1":
        best = int(scores.argmax())
        return float(best < len(right) and right[best].any())
    fitted = np.zeros(len(right))
    fitted[: len(scores)] = scores[: len(right)]
    return float(np.mean([rated_precision(column, fitted) for column in right.T]))


def _default_words(predictions: MomentPredictions, truth: MomentTruth) -> tuple[str, ...]:
    """The metrics that the truth and the predictions have an answer to."""
    if predictions.clips:
        return CORPUS_WORDS
    ranks = RANK_WORDS if (truth.agreeing > 1).any() else ()
    return (*DEFAULT_WORDS, *ranks, *(HIGHLIGHT_WORDS if truth.ratings and predictions.ratings else ()))


def _misfits(predictions: MomentPredictions, truth: MomentTruth, settings: MomentSettings) -> tuple[str, ...]:
    """Sentences on queries without predictions, and on windows that are hardly in seconds."""
    asked = set(truth.query_ids)
    unknown = [name for name in predictions.windows if name not in asked]
    if unknown:
        raise ScoresError(
            f"Predictions are of {len(unknown):,} queries that this corpus has no window for, {some(unknown)} for "
            "example; select the split they are of."
        )
    named = {clip for clips in predictions.clips.values() for clip in clips}
    if named and named.isdisjoint(truth.clip_ids):
        raise ScoresError(
            f"No query is about one of the {len(named):,} clips that predictions name, {some(sorted(named))} for "
            "example; are they of another corpus?"
        )
    missing = [name for name in truth.query_ids if name not in predictions.windows]
    if missing and not settings.partial:
        raise ScoresError(
            f"{len(missing):,} of {len(truth.query_ids):,} queries have no prediction, {some(missing)} for example; "
            "give an empty list of windows for each, or accept that with partial."
        )
    told = [f"{len(missing):,} queries have no prediction and find nothing"] if missing else []
    return (*told, *_odd_times(predictions, truth))


def _odd_times(predictions: MomentPredictions, truth: MomentTruth) -> Iterator[str]:
    """Sentences on windows whose times are hardly seconds of their clips."""
    length = dict(zip(truth.clip_ids, truth.durations, strict=True))
    own = dict(zip(truth.query_ids, truth.clip_ids, strict=True))
    given = {name: windows for name, windows in predictions.windows.items() if len(windows)}
    last = max((windows.max() for windows in given.values()), default=np.inf)
    if last <= 1 < max(windows.max() for windows in truth.windows):
        yield "all predicted windows end within the first second, as shares of a clip do; seconds of the clip are read"
    beyond = [
        f"{start:g} to {end:g} s of the {length[clip]:g} s of {clip!r} for query {name!r}"
        for name, windows in given.items()
        for (start, end), clip in zip(windows, predictions.clips.get(name) or [own[name]] * len(windows), strict=True)
        if start < 0 or end > length.get(clip, np.nan) + SLACK_S
    ]
    if beyond:
        yield f"{count(len(beyond), 'predicted window')} not within the clip, such as {beyond[0]}; are they in seconds?"
