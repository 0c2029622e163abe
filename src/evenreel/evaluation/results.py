"""Results of an evaluation: values of each query, and figures with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.evaluation.first_hit import Hits
from evenreel.evaluation.metrics import FIRST_RANK, Metric
from evenreel.evaluation.settings import Direction, Ties
from evenreel.evaluation.weighted import mean_of
from evenreel.types import Shown


@dataclass(frozen=True)
class Interval:
    """A figure with the ends of its confidence interval; the ends are None where there is no interval."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class GroupFigures:
    """Figures of the queries of one group, such as those about clips of one source.

    Attributes:
        name: value of the column, or a band of it.
        queries: number of queries.
        drawn: number of clips (or videos) that they are of.
        summary: figure of each metric with its interval, by the metric's name; without metrics that have no value here.
    """

    name: str
    queries: int
    drawn: int
    summary: dict[str, Interval]


@dataclass(frozen=True)
class GroupGap:
    """Gap between the best and the worst group in one metric.

    Attributes:
        best: name of the best group.
        worst: name of the worst group.
        gap: difference between them, at least 0, with the interval of the largest true difference of any two groups.
        p: chance of a studentised difference as large where no group differs, corrected for the numbers of groups and
            of columns; None where nothing says how much chance does.
        chance: gap that chance alone makes on average where no group differs.
        against: differences such as `de - en`, of each group and the one that was named (`COLUMN=GROUP`), query by
            query where a clip has queries in both; their intervals hold for all pairs at once.
    """

    best: str
    worst: str
    gap: Interval
    p: float | None
    chance: float | None
    against: dict[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True)
class ColumnFigures(Shown):
    """Figures of groups by one column.

    Attributes:
        groups: figures of each group.
        gaps: gap of each metric, by its name; empty where fewer than two groups are large enough.
        notices: sentences that belong beside the figures.
    """

    groups: tuple[GroupFigures, ...]
    gaps: dict[str, GroupGap]
    notices: tuple[str, ...] = ()

    def _shown(self) -> Iterable[Sequence[object]]:
        metrics = list(next((one.summary for one in self.groups), {}))
        yield ("group", "queries", *metrics)
        for one in self.groups:
            yield one.name, one.queries, *(f"{figure.value:.2f}" for figure in one.summary.values())

    def to_frame(self) -> pl.DataFrame:
        """Return the groups as a table for a notebook: a row a group and metric, with numbers of queries and clips."""
        rows = [
            (one.name, one.queries, one.drawn, word, figure.value, figure.low, figure.high)
            for one in self.groups
            for word, figure in one.summary.items()
        ]
        names = {"group": pl.String, "queries": pl.Int64, "drawn": pl.Int64, "metric": pl.String}
        return pl.DataFrame(rows, names | dict.fromkeys(("value", "low", "high"), pl.Float64), orient="row")


@dataclass(frozen=True, eq=False)
class DirectionResult(Shown):
    """Figures of one direction over the n queries that have a relevant item.

    Attributes:
        direction: `t2v` or `v2t`.
        protocol: name of the protocol, see `EvaluationSettings`.
        query_ids: n ids of captions, or of clips where a clip is the query.
        groups: (n,) numbers, equal for queries that are resampled together: those of one clip, or of one video. The
            captions of a clip are not independent, so samples are of groups.
        per_query: (n,) columns that the metrics are computed from, and `rank`; shares in percent. Columns that need an
            item of full relevance are NaN for a query that has items of lower degrees only.
        summary: figure of each metric with its interval, by the metric's name.
        gallery_size: items that each query is ranked against.
        gallery_digest: digest of the items' ids, whatever their order; equal for systems that ranked the same items.
        hits: first hits of the queries, their `query` a place in `query_ids`; what `hit_chance` is calculated from.
            Several of a query count on average: a hit a caption under `video-mean` and `every-caption`.
        without_relevant: ids of the queries that have no item of a degree above 0; no figure includes them.
        drawn_by: name for groups in the plural: `clips`, `videos`, or values of a column.
        by: figures of groups of queries by the columns that were asked for (`EvaluationSettings.by`).
    """

    direction: Direction
    protocol: str
    query_ids: Sequence[str]
    groups: NDArray[np.int64]
    per_query: dict[str, NDArray[np.float64]]
    summary: dict[str, Interval]
    gallery_size: int
    gallery_digest: str
    hits: Hits
    without_relevant: tuple[str, ...] = ()
    drawn_by: str = "clips"
    by: dict[str, ColumnFigures] = field(default_factory=dict)

    def _shown(self) -> Iterable[Sequence[object]]:
        yield "metric", self.direction, "interval"
        yield from ((word, *shown_figure(figure)) for word, figure in self.summary.items())
        yield (f"{self.protocol}: {len(self.query_ids):,} queries among {self.gallery_size:,}",)

    @property
    def drawn(self) -> int:
        """Number of groups that intervals and tests draw from."""
        return len(np.unique(self.groups))

    @property
    def first_rank(self) -> NDArray[np.float64]:
        """Rank (n,) of the first relevant item, from 1; ties are ranked as the settings say."""
        return self.per_query[FIRST_RANK]

    def hit_chance(self, k: int) -> NDArray[np.float64]:
        """Compute `R@k` of each query (n,) for any k: the chance in percent of a relevant item among the first k."""
        return mean_of(self.hits.query, 100 * self.hits.chance(k), len(self.query_ids))


@dataclass(frozen=True, eq=False)
class Evaluation(Shown):
    """Figures of one system on one corpus.

    Attributes:
        directions: results by direction.
        metrics: metrics in the order of the settings.
        ties: how items with equal scores are ranked.
        relevance: name of what counts as relevant.
        confidence: confidence of the intervals.
        uses: what the scores use beside caption and video, `ScoreNotes.uses`.
        notices: sentences that belong beside the figures.
    """

    directions: dict[Direction, DirectionResult]
    metrics: tuple[Metric, ...]
    ties: Ties
    relevance: str
    confidence: float
    uses: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def _shown(self) -> Iterable[Sequence[object]]:
        yield "metric", *(head for one in self.directions for head in (one, f"{100 * self.confidence:g}% interval"))
        for word in map(str, self.metrics):
            yield word, *(cell for one in self.directions.values() for cell in shown_figure(one.summary[word]))
        for one in self.directions.values():
            yield (f"{one.direction} {one.protocol}: {len(one.query_ids):,} queries among {one.gallery_size:,}",)
        yield from ((notice,) for notice in self.notices)

    def to_json(self, *, per_query: bool = False) -> dict[str, Any]:
        """Return the evaluation as a dictionary that JSON can hold; `per_query` adds every query's values."""
        return {
            "metrics": [str(metric) for metric in self.metrics],
            "ties": self.ties,
            "relevance": self.relevance,
            "confidence": self.confidence,
            "uses": list(self.uses),
            "notices": list(self.notices),
            "directions": {name: _as_json(result, per_query) for name, result in self.directions.items()},
        }

    def to_frame(self) -> pl.DataFrame:
        """Return the figures as a table for a notebook: `direction`, `metric`, `value`, `low` and `high`."""
        rows = [
            (direction, word, figure.value, figure.low, figure.high)
            for direction, result in self.directions.items()
            for word, figure in result.summary.items()
        ]
        names = {"direction": pl.String, "metric": pl.String}
        return pl.DataFrame(rows, names | dict.fromkeys(("value", "low", "high"), pl.Float64), orient="row")


def shown_figure(figure: Interval) -> tuple[str, str]:
    """Format a figure and the ends of its interval for the `repr` of a result."""
    ends = "" if figure.low is None or figure.high is None else f"{figure.low:.2f} to {figure.high:.2f}"
    return f"{figure.value:.2f}", ends


def _as_json(result: DirectionResult, per_query: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "protocol": result.protocol,
        "queries": len(result.query_ids),
        "gallery_size": result.gallery_size,
        "interval_over": {"what": result.drawn_by, "count": result.drawn},
        "without_relevant": list(result.without_relevant),
        "summary": {
            word: {"value": figure.value, "low": figure.low, "high": figure.high}
            for word, figure in result.summary.items()
        },
    }
    if result.by:
        document["by"] = {column: asdict(found) for column, found in result.by.items()}
    if per_query:
        columns = {name: values.tolist() for name, values in result.per_query.items()}
        document["per_query"] = {"id": list(result.query_ids), **columns}
    return document
