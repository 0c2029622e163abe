"""Moment retrieval and highlights: true and predicted windows of time, metrics, comparison, guesses without video."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.config import as_path, check_kind, check_named, check_settings, check_settings_kind, one_or_more, whole
from evenreel.corpus.folder import CorpusLike, as_corpus
from evenreel.corpus.imported import json_lines, some, typed
from evenreel.documents import brief
from evenreel.errors import CorpusError, ScoresError, UsageError
from evenreel.evaluation.intervals import (
    GroupedMean,
    Interval,
    degree_interval,
    hits_interval,
    holm,
    mean_interval,
    share_interval,
    shown_figure,
    wilcoxon_test,
)
from evenreel.evaluation.metrics import RESAMPLING
from evenreel.types import Corpus, Shown
from evenreel.wording import count

Family = Literal["R", "mAP", "mIoU", "nDCG", "Rank", "HL-mAP", "HIT@1"]
LEVELS = {"Fair": 2, "Good": 3, "VeryGood": 4}
"""Least rating of a clip that counts as a highlight, of 0 to 4 (QVHighlights)."""
_RANK = re.compile(r"Rank@([1-9]\d{0,2})")
_WORD = re.compile(r"(?:R([1-9]\d{0,2})|(mAP)|nDCG@([1-9]\d{0,2}))@(0\.\d{1,2}|1(?:\.0)?)")


@dataclass(frozen=True)
class MomentMetric:
    """Metric of moment retrieval or highlight detection; make it with `parse_moment_metric`."""

    # `R`, a true window is among the first n; `mAP`; `mIoU`, mean overlap of the first window; `nDCG`; `Rank`, the mean
    # rank of the windows of those who agree best is at most n (DiDeMo); `HL-mAP` and `HIT@1` of highlights
    family: Family
    # least overlap (IoU) with a true window; None where there is none, and for the mean over 0.5 to 0.95
    threshold: float | None = None
    first: int = 0  # number of first windows that count; 0 for no limit
    level: str = ""  # least rating of a highlight, a key of `LEVELS`; empty for other metrics

    def __str__(self) -> str:
        if self.level:
            return f"{self.family}-{self.level}"
        name = f"R{self.first}" if self.family == "R" else f"{self.family}@{self.first}" if self.first else self.family
        return name if self.threshold is None else f"{name}@{self.threshold:g}"

    @property
    def is_hit(self) -> bool:
        """Whether the value of a single query is always 0 or 100."""
        return self.family in ("R", "Rank", "HIT@1")

    @property
    def of_highlights(self) -> bool:
        """Whether the metric is of ratings of clips' stretches, not of windows."""
        return bool(self.level)


def parse_moment_metric(word: str) -> MomentMetric:
    """Parse the name of a metric of moments: `R1@0.5`, `mAP@0.5`, `mAP`, `mIoU`, `nDCG@10@0.5` or `HL-mAP-VeryGood`.

    Raises:
        UsageError: the word is no metric.

    >>> str(parse_moment_metric("R5@0.70")), str(parse_moment_metric("HIT@1-Good"))
    ('R5@0.7', 'HIT@1-Good')
    """
    check_kind(word, str, "a metric of moments", "give its name, such as R1@0.5")
    if word in ("mAP", "mIoU"):
        return MomentMetric(word)  # type: ignore[arg-type]  # both are families
    for family in ("HL-mAP", "HIT@1"):
        if word.startswith(f"{family}-") and word.removeprefix(f"{family}-") in LEVELS:
            return MomentMetric(family, level=word.removeprefix(f"{family}-"))
    if match := _RANK.fullmatch(str(word)):
        return MomentMetric("Rank", first=int(match[1]))
    if (match := _WORD.fullmatch(str(word))) and float(match[4]) > 0:
        family = "R" if match[1] else "mAP" if match[2] else "nDCG"
        return MomentMetric(family, float(match[4]), int(match[1] or match[3] or 0))  # type: ignore[arg-type]
    raise UsageError(
        f"{word!r} is no metric of moments; there are Rn@IoU, mAP@IoU and nDCG@n@IoU for an IoU above 0 and up to 1 "
        f"(R1@0.5), mAP, mIoU, Rank@n, and HL-mAP and HIT@1 with {', '.join(f'-{level}' for level in LEVELS)}."
    )


DEFAULT_WORDS = ("R1@0.3", "R1@0.5", "R1@0.7", "R5@0.5", "mIoU", "mAP@0.5", "mAP@0.75", "mAP")
CORPUS_WORDS = ("R1@0.5", "R10@0.5", "R100@0.5", "R1@0.7", "R10@0.7", "R100@0.7")
"""Metrics of windows in all clips, as TVR reports them."""
RANK_WORDS = ("Rank@1", "Rank@5")
HIGHLIGHT_WORDS = tuple(f"{family}-{level}" for level in LEVELS for family in ("HL-mAP", "HIT@1"))


@dataclass(frozen=True)
class MomentSettings:
    """Settings of an evaluation of moments.

    Attributes:
        metrics: names of metrics, in the order they are shown; empty for all that the annotations allow.
        windows: number of predicted windows of a query that count for mAP (QVHighlights: 10).
        partial: accept predictions that leave queries out, with a notice; a query without a prediction counts as not
            found.
        confidence: confidence of the intervals, between 0 and 1.
    """

    metrics: tuple[str, ...] = ()
    windows: int = 10
    partial: bool = False
    confidence: float = 0.95

    def __post_init__(self) -> None:
        words = () if self.metrics == () else one_or_more(self.metrics, "metrics", (str,))
        object.__setattr__(self, "metrics", tuple(dict.fromkeys(str(parse_moment_metric(word)) for word in words)))
        check_settings("the evaluation of moments", self, {"windows": whole(1), "confidence": RESAMPLING["confidence"]})


Windows = NDArray[np.float64]
"""(N, 2) start and end of windows, in seconds."""
THRESHOLDS = tuple(round(0.5 + 0.05 * step, 2) for step in range(10))
"""Overlaps over which a mean average precision is taken, as by QVHighlights and ActivityNet: 0.5, 0.55 to 0.95."""


def overlaps(first: Windows, second: Windows) -> NDArray[np.float64]:
    """Compute the intersection over union (IoU) of windows in time, each of the first with each of the second.

    Args:
        first: (M, 2) start and end.
        second: (N, 2) start and end.

    Returns:
        (M, N) from 0 to 1; 0 where both are empty.

    >>> overlaps(np.array([[0.0, 4.0]]), np.array([[2.0, 4.0], [4.0, 8.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0, 1.0]]
    """
    start = np.maximum(first[:, None, 0], second[None, :, 0])
    end = np.minimum(first[:, None, 1], second[None, :, 1])
    shared = np.clip(end - start, 0, None)
    lengths = (first[:, 1] - first[:, 0])[:, None] + (second[:, 1] - second[:, 0])[None, :]
    union = lengths - shared
    shares: NDArray[np.float64] = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares


def found_windows(shared: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Mark the ranked windows that match a true window which no window before them has matched.

    Each takes the true window that it overlaps most, among those that are left (the rule of ActivityNet's and
    QVHighlights' evaluations).

    Args:
        shared: (M, N) overlaps (IoU) of ranked windows with true ones.
        threshold: least overlap.

    Returns:
        (M,) whether each ranked window matches one.
    """
    found = np.zeros(len(shared), np.bool_)
    left = np.ones(shared.shape[1], np.bool_)
    for place, row in enumerate(shared):
        candidates = np.where(left & (row >= threshold), row, -1.0)
        best = int(candidates.argmax()) if len(candidates) else 0
        if len(candidates) and candidates[best] >= 0:
            found[place], left[best] = True, False
    return found


def average_precision(hits: NDArray[np.bool_], relevant: int) -> float:
    """Compute average precision: the area under the interpolated curve of precision over recall.

    Args:
        hits: (M,) whether each ranked item is right.
        relevant: number of right items, ranked or not.

    >>> average_precision(np.array([True, False, True]), 2)  # 1 of 1, then 2 of 3
    0.8333333333333333
    """
    places = np.flatnonzero(hits)
    if not len(places) or not relevant:
        return 0.0
    precision = np.arange(1, len(places) + 1) / (places + 1)
    best_after = np.maximum.accumulate(precision[::-1])[::-1]
    return float(best_after.sum() / relevant)


def rated_precision(right: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Compute the average precision of scored items, as QVHighlights does for highlights.

    It is the mean interpolated precision at the scores where recall rises. Items of equal score are found together;
    without ties it is `average_precision` of their ranking.

    Args:
        right: (S,) whether each item is right.
        scores: (S,) scores; items are ranked from the highest.

    >>> rated_precision(np.array([True, False, True]), np.array([3.0, 2.0, 1.0]))
    0.8333333333333333
    >>> rated_precision(np.array([True, False, True]), np.array([3.0, 1.0, 1.0]))  # 1, then 2 of 3
    0.8333333333333333
    """
    if not right.any():
        return 0.0
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    found = np.cumsum(right[order])[last]
    rises = np.diff(found, prepend=0) > 0
    best_after = np.maximum.accumulate((found / (last + 1))[::-1])[::-1]
    return float(best_after[rises].mean())


WINDOWS, AGREEING, RATINGS = "windows", "agreeing", "ratings"
"""Columns of captions: true windows (list of [start, end] in seconds of the clip); where these are answers of several
people about one moment, how many of them count, those that agree best with a prediction; ratings of the stretches of
the clip (list over stretches of a list over raters, 0 to 4)."""
SLACK_S = 1.0  # by how many seconds a window may end after its clip: annotations are rounded


@dataclass(frozen=True, eq=False)
class MomentTruth(Shown):
    """True windows of Q queries, any of which answers the query.

    Attributes:
        query_ids: Q ids, those of captions.
        clip_ids: clip that each query is about.
        windows: (W_q, 2) windows of each query, in seconds of the clip; W_q is at least 1.
        agreeing: (Q,) number of annotators that count, where a query's windows are several people's answers about one
            moment; 0 where its windows are different moments.
        durations: (Q,) length of the clip in seconds; NaN where it is not known.
        ratings: (S, raters) ratings of the S stretches of the clip, by query id; empty without ratings.
    """

    query_ids: tuple[str, ...]
    clip_ids: tuple[str, ...]
    windows: tuple[Windows, ...]
    agreeing: NDArray[np.int64]
    durations: NDArray[np.float64]
    ratings: Mapping[str, NDArray[np.float64]]

    def between(self, shortest_s: float, longest_s: float) -> MomentTruth:
        """Select windows longer than `shortest_s` and at most `longest_s` seconds, and the queries that have any."""
        kept = [
            one[(one[:, 1] - one[:, 0] > shortest_s) & (one[:, 1] - one[:, 0] <= longest_s)] for one in self.windows
        ]
        return replace(self, windows=tuple(kept)).of([row for row, one in enumerate(kept) if len(one)])

    def of(self, rows: Sequence[int]) -> MomentTruth:
        """Select some queries, by their indices."""
        return replace(
            self,
            query_ids=tuple(self.query_ids[row] for row in rows),
            clip_ids=tuple(self.clip_ids[row] for row in rows),
            windows=tuple(self.windows[row] for row in rows),
            agreeing=self.agreeing[rows],
            durations=self.durations[rows],
        )


def has_windows(corpus: Corpus) -> bool:
    """Return whether any caption of a corpus has an annotated window."""
    captions = corpus.captions
    return WINDOWS in captions.columns and bool((captions[WINDOWS].list.len() > 0).any())


def moment_truth(corpus: CorpusLike) -> MomentTruth:
    """Read the true windows of a corpus's captions.

    Args:
        corpus: captions with the column `windows`, and perhaps `agreeing` and `ratings`, see `CorpusLike`; select the
            split first.

    Raises:
        CorpusError: there is no such column, no caption has a window, or a window ends before it starts, or is outside
            its clip.
    """
    corpus = as_corpus(corpus)
    captions = corpus.captions
    if WINDOWS not in captions.columns:
        raise CorpusError(
            f"Moments are measured by the captions' column {WINDOWS!r}, a list of [start, end] in seconds of the clip, "
            "which this corpus does not have."
        )
    length = pl.col("end_s") - pl.col("start_s").fill_null(0.0)
    if "duration_s" in corpus.clips.columns:
        length = pl.coalesce(length, "duration_s")
    known = corpus.clips.select("clip_id", length.alias("s")).drop_nulls("s")
    durations: dict[str, float] = dict(known.iter_rows())
    if not has_windows(corpus):
        raise CorpusError(f"No caption of this corpus has a window in its column {WINDOWS!r}.")
    asked = captions.filter(pl.col(WINDOWS).list.len() > 0)
    windows = [
        _checked(rows, name, durations.get(clip, np.nan))
        for name, clip, rows in asked.select("caption_id", "clip_id", WINDOWS).iter_rows()
    ]
    ratings = captions.select("caption_id", RATINGS).iter_rows() if RATINGS in captions.columns else ()
    return MomentTruth(
        tuple(asked["caption_id"]),
        tuple(asked["clip_id"]),
        tuple(windows),
        asked[AGREEING].fill_null(0).to_numpy().astype(np.int64)
        if AGREEING in asked.columns
        else np.zeros(asked.height, np.int64),
        np.array([durations.get(clip, np.nan) for clip in asked["clip_id"]]),
        {name: np.array(rows, np.float64) for name, rows in ratings if rows},
    )


def _checked(rows: Sequence[Sequence[float]], name: str, duration_s: float) -> Windows:
    """Windows of a query, which lie in its clip."""
    for row in rows:
        if len(row) != 2:
            raise CorpusError(f"Caption {name!r} has a window of {len(row)} numbers; give [start, end].")
    windows = np.array(rows, np.float64)
    wrong = ~np.isfinite(windows).all(1) | (windows[:, 1] <= windows[:, 0]) | (windows[:, 0] < 0)
    if wrong.any():
        start, end = windows[int(np.argmax(wrong))]
        raise CorpusError(
            f"Caption {name!r} has a window from {start:g} to {end:g} s; a window ends after it starts, from 0 on."
        )
    if (windows[:, 1] > duration_s + SLACK_S).any():
        end = windows[:, 1].max()
        raise CorpusError(
            f"Caption {name!r} has a window that ends at {end:g} s, but its clip is {duration_s:g} s long."
        )
    return windows


RankedWindows = NDArray[np.float64]
"""(M, 2) start and end of windows in seconds of the clip, the likeliest first."""
_IDS = ("caption_id", "query_id", "qid", "desc_id")
_WINDOWS, _RATINGS = "pred_relevant_windows", "pred_saliency_scores"


@dataclass(frozen=True, eq=False)
class MomentPredictions(Shown):
    """Windows that a system predicts for queries, and ratings of stretches of clips.

    Attributes:
        windows: (M, 2) start and end in seconds, the likeliest first, by query id.
        ratings: (S,) scores of the stretches of the clip, the higher the better, by query id; empty where a system
            gives none.
        clips: clip of each window, by query id, where a system searched all clips (video corpus moment retrieval);
            empty where each query's own clip was searched.
    """

    windows: Mapping[str, RankedWindows]
    ratings: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    clips: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def load_predictions(path: str | PathLike[str]) -> MomentPredictions:
    """Load predicted moments from a JSON Lines file, a query a line, in the form of QVHighlights' submissions.

    A line has the id of a caption (`caption_id`, `query_id`, `qid` or `desc_id`), `pred_relevant_windows`, a list of
    [start, end] or [start, end, score] in seconds of the clip, and perhaps `pred_saliency_scores`. With scores windows
    are ordered by them, equal ones as they stand. Where all clips were searched, each begins with its clip: [clip_id,
    start, end] or [clip_id, start, end, score].

    Raises:
        ScoresError: the file cannot be read, a line is no such object or names a query again, or a window ends before
            it starts.
    """
    path = as_path(path, "path")
    windows: dict[str, RankedWindows] = {}
    ratings: dict[str, NDArray[np.float64]] = {}
    clips: dict[str, tuple[str, ...]] = {}
    try:
        for where, entry in json_lines(path):
            name = next((str(entry[key]) for key in _IDS if entry.get(key) is not None), None)
            if name is None:
                raise ScoresError(f"{where} has no id of a query; give one of {', '.join(_IDS)}.")
            if name in windows:
                raise ScoresError(f"{where} answers query {name!r} again; a query has one line.")
            windows[name], named = _ranked(entry.get(_WINDOWS), f"{where} query {name!r},")
            if named:
                clips[name] = named
            if entry.get(_RATINGS) is not None:
                ratings[name] = _numbers(entry[_RATINGS], f"{where} query {name!r}, {_RATINGS},")
    except CorpusError as error:
        raise ScoresError(*error.args) from error
    if not windows:
        raise ScoresError(f"{path} has no predictions.")
    plain = [name for name in windows if len(windows[name]) and name not in clips]
    if clips and plain:
        raise ScoresError(
            f"{path} says of some windows which clip they are in, not of those of query {plain[0]!r}; say it of all."
        )
    return MomentPredictions(windows, ratings, clips)


def _ranked(rows: Any, where: str) -> tuple[RankedWindows, tuple[str, ...]]:
    """Windows in the order of their scores, where they have any, and the clip of each, where that is said."""
    if not isinstance(rows, list) or any(not isinstance(row, list) for row in rows):
        raise ScoresError(f"{where} needs {_WINDOWS}, a list of [start, end] or [start, end, score].")
    clips = [row[0] for row in rows if row and isinstance(row[0], str)]
    if clips and len(clips) < len(rows):
        raise ScoresError(f"{where} says of some windows which clip they are in; say it of all, or of none.")
    times = [row[1:] for row in rows] if clips else rows
    if any(len(row) not in (2, 3) for row in times):
        raise ScoresError(
            f"{where} needs {_WINDOWS}, a list of [start, end] or [start, end, score], or of [clip_id, start, end] or "
            "[clip_id, start, end, score]."
        )
    if len({len(row) for row in times}) > 1:
        raise ScoresError(f"{where} has windows with a score and windows without; give all of them one, or none.")
    if not rows:
        return np.empty((0, 2)), ()
    table = np.array([_numbers(row, where) for row in times])
    wrong = table[:, 1] < table[:, 0]
    if wrong.any():
        start, end = table[int(np.argmax(wrong)), :2]
        raise ScoresError(f"{where} has a window from {start:g} to {end:g} s, which ends before it starts.")
    order = np.argsort(-table[:, 2], kind="stable") if table.shape[1] == 3 else np.arange(len(table))
    return table[order, :2], tuple(clips[row] for row in order) if clips else ()


def _numbers(values: object, where: str) -> NDArray[np.float64]:
    """Finite numbers of a list."""
    found = np.array([typed(one, float, where) for one in typed(values, list, where)], np.float64)
    if not np.isfinite(found).all():
        raise ScoresError(f"{where} has {brief(values)}; give finite numbers.")
    return found


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
            "summary": {word: asdict(one) for word, one in self.summary.items()},
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
    words = settings.metrics or (CORPUS_WORDS if predictions.clips else DEFAULT_WORDS)
    if not settings.metrics and not predictions.clips:  # what truth and predictions have an answer to
        words += RANK_WORDS if (truth.agreeing > 1).any() else ()
        words += HIGHLIGHT_WORDS if truth.ratings and predictions.ratings else ()
    metrics = [parse_moment_metric(word) for word in words]
    values: dict[MomentMetric, list[float]] = {metric: [] for metric in metrics}
    for name, clip, true, agreeing in zip(truth.query_ids, truth.clip_ids, truth.windows, truth.agreeing, strict=True):
        predicted = predictions.windows.get(name, np.empty((0, 2)))
        if name in predictions.clips:  # windows in other clips overlap with nothing
            own = np.array([one == clip for one in predictions.clips[name]])
            predicted = np.where(own[:, None], predicted, -1.0)
        query = _Query(predicted, true, int(agreeing), settings.windows)
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
            # Those who agree best; infinite where one of their windows is not among the predicted.
            ranks = np.where(self._same.any(0), self._same.argmax(0) + 1.0, np.inf) if len(self._same) else [np.inf]
            return float(np.sort(ranks)[: self._people or 1].mean() <= metric.first)
        if metric.family == "nDCG":
            assert metric.threshold is not None  # the gain of windows that find a true one, of its best possible value
            hits = found_windows(self._shared[: metric.first], metric.threshold)
            discounts = 1 / np.log2(np.arange(2, metric.first + 2))
            best = discounts[: min(metric.first, self._shared.shape[1])].sum()
            return float((hits * discounts[: len(hits)]).sum() / best)
        thresholds = THRESHOLDS if metric.threshold is None else (metric.threshold,)
        shared = self._shared[: self._most]
        found = [average_precision(found_windows(shared, least), shared.shape[1]) for least in thresholds]
        return float(np.mean(found))


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


def _misfits(predictions: MomentPredictions, truth: MomentTruth, settings: MomentSettings) -> tuple[str, ...]:
    """Sentences on queries without predictions, and on windows whose times are hardly seconds of their clips."""
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
    length = dict(zip(truth.clip_ids, truth.durations, strict=True))
    own = dict(zip(truth.query_ids, truth.clip_ids, strict=True))
    given = {name: windows for name, windows in predictions.windows.items() if len(windows)}
    last = max((windows.max() for windows in given.values()), default=np.inf)
    if last <= 1 < max(windows.max() for windows in truth.windows):
        told.append(
            "all predicted windows end within the first second, as shares of a clip do; seconds of the clip are read"
        )
    beyond = [
        f"{start:g} to {end:g} s of the {length[clip]:g} s of {clip!r} for query {name!r}"
        for name, windows in given.items()
        for (start, end), clip in zip(windows, predictions.clips.get(name) or [own[name]] * len(windows), strict=True)
        if start < 0 or end > length.get(clip, np.nan) + SLACK_S
    ]
    if beyond:
        told.append(
            f"{count(len(beyond), 'predicted window')} not within the clip, such as {beyond[0]}; are they in seconds?"
        )
    return tuple(told)


@dataclass(frozen=True)
class MomentDifference:
    """Difference between a system and the first one in a metric of moments."""

    system: str  # name of the system
    metric: str  # name of the metric
    interval: Interval  # difference in percentage points, with its interval
    p_wilcoxon: float  # p value of Wilcoxon's signed ranks over clips
    p_holm: float  # the same, adjusted for the number of systems compared


def compare_moments(systems: Mapping[str, MomentEvaluation], confidence: float = 0.95) -> list[MomentDifference]:
    """Compare systems with the first of them on the same queries; intervals draw clips with all their queries.

    Args:
        systems: evaluations of the same queries by the names of the systems.
        confidence: confidence of the intervals.

    Raises:
        ScoresError: some searched all clips and others each query's own.
    """
    check_named(systems, "systems", "evaluations of moments by the names of their systems", "evaluation")
    for name, one in systems.items():
        check_kind(
            one, MomentEvaluation, f"systems[{name!r}]", "give what evaluate_moments(predictions, truth) returns"
        )
    if not systems:
        raise UsageError("No system is given; give one evaluation at least.")
    (_, first), *others = systems.items()
    if len({one.all_clips for one in systems.values()}) > 1:
        raise ScoresError("Some systems searched all clips and others each query's own; compare systems of one kind.")
    groups = np.unique(first.clip_ids, return_inverse=True)[1].astype(np.int64)
    found = []
    for word in first.summary:
        gains = {name: one.per_query[word] - first.per_query[word] for name, one in others if word in one.summary}
        p_values = [wilcoxon_test(gained, groups) for gained in gains.values()]
        interval = hits_interval if parse_moment_metric(word).is_hit else mean_interval
        found += [
            MomentDifference(name, word, interval(GroupedMean.of(gained, groups), confidence), p, adjusted)
            for (name, gained), p, adjusted in zip(gains.items(), p_values, holm(p_values), strict=True)
        ]
    return found


STEPS = 20  # shares of a clip at which windows of the position prior begin and end: every twentieth
FEW = 100  # different windows, at most, that annotators chose among
WHOLE, PRIOR, FIXED = "the whole clip", "the best position", "the first half"


def best_positions(truth: MomentTruth, learned: MomentTruth | None) -> MomentPredictions:
    """Predict, for every query, the positions in a clip that true windows have most often.

    Where annotators chose among few windows (the 21 of DiDeMo), these are predicted in the order of how often they were
    chosen. Else windows between twentieths of a clip are, in the order of how many queries they answer with an overlap
    of a half (after Otani et al. 2020).

    Args:
        truth: queries to answer.
        learned: annotations of the training split to learn from; None predicts the first half of a clip.
    """
    shares = np.array([[0.0, 0.5]])
    if learned is not None:
        chosen, counts = np.unique(np.concatenate(learned.windows), axis=0, return_counts=True)
        if len(chosen) <= FEW:
            ranked = chosen[np.argsort(-counts, kind="stable")]
            return MomentPredictions(dict.fromkeys(truth.query_ids, ranked))
        edges = np.arange(STEPS + 1) / STEPS
        candidates = np.array([[start, end] for start in edges for end in edges if end > start])
        answered = np.zeros(len(candidates))
        for windows, end in zip(learned.windows, _ends(learned), strict=True):
            shared = overlaps(candidates, windows / end).max(1)
            answered += (shared >= 0.5) + shared / (
                1 + len(learned.windows)
            )  # of those that answer as many, the closer
        shares = candidates[np.argsort(-answered, kind="stable")[:10]]
    return MomentPredictions({name: shares * end for name, end in zip(truth.query_ids, _ends(truth), strict=True)})


def blind_predictions(truth: MomentTruth, learned: MomentTruth | None = None) -> dict[str, MomentPredictions]:
    """Return the predictions of both baselines that look at no video, by name: whole clip, and best position."""
    position = f"{PRIOR} of the training annotations" if learned else f"{FIXED} of the clip"
    ends = zip(truth.query_ids, _ends(truth), strict=True)
    whole = MomentPredictions({name: np.array([[0.0, end]]) for name, end in ends})
    return {WHOLE: whole, position: best_positions(truth, learned)}


def clips_alone(predictions: MomentPredictions, truth: MomentTruth) -> MomentPredictions:
    """Replace predicted windows by the whole of their clips, in the same order: what a system finds without moments.

    A clip of unknown length, which no query is about, ends where the last window predicted in it ends.
    """
    ends = dict(zip(truth.clip_ids, _ends(truth), strict=True))
    windows, clips = {}, {}
    for query, named in predictions.clips.items():
        last = dict(zip(named[::-1], predictions.windows[query][::-1, 1], strict=True))
        clips[query] = tuple(dict.fromkeys(named))
        windows[query] = np.array([[0.0, ends.get(clip, last[clip])] for clip in clips[query]])
    return MomentPredictions(dict.fromkeys(predictions.windows, np.empty((0, 2))) | windows, clips=clips)


def _ends(truth: MomentTruth) -> NDArray[np.float64]:
    """(Q,) seconds of each query's clip, or of its last true window."""
    last = np.array([windows[:, 1].max() for windows in truth.windows])
    return np.where(np.isnan(truth.durations), last, np.maximum(truth.durations, last))
