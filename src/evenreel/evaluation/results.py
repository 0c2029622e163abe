"""What an evaluation is asked for and what it answers: per-query vectors first, figures with intervals last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenreel.arguments import one_or_more
from evenreel.errors import UsageError
from evenreel.evaluation.first_hit import Hits
from evenreel.evaluation.metrics import DEFAULT_METRICS, FIRST_RANK, Metric, mean_of, parse_metrics
from evenreel.evaluation.places import Ties
from evenreel.settings_checks import (
    BETWEEN_0_AND_1,
    MOST_BITS,
    MOST_LAYERS,
    TEXT,
    TRUE_OR_FALSE,
    Allowed,
    check_settings,
    whole,
)

Direction = Literal["t2v", "v2t"]
TextProtocol = Literal["caption", "video-mean"]
VideoProtocol = Literal["best-caption", "caption-group", "every-caption"]

MOST_RESAMPLES = 1_000_000

RESAMPLING: dict[str, Allowed] = {
    "resamples": whole(0, MOST_RESAMPLES),
    "seed": whole(0, MOST_BITS),
    "confidence": BETWEEN_0_AND_1,
    "band_bytes": whole(0, MOST_BITS),
    "cluster": TEXT,
}
"""What the settings of intervals, of what is drawn and of reading may be; those of an audit have them too."""


@dataclass(frozen=True)
class Interval:
    """Figure with the ends of its interval; None where there is no interval."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class EvaluationSettings:
    """Settings of an evaluation.

    Attributes:
        metrics: figures, in the order they are shown; words such as `R@1` become metrics, and one may stand alone.
        directions: `t2v`, captions look for videos, and `v2t`, videos look for captions; one may stand alone.
        t2v_protocol: how several captions of a video count. `caption`: each caption is a query (CLIP4Clip, X-CLIP,
            HGR, EPIC-KITCHENS). `video-mean`: each video counts once, with the mean over its captions.
        v2t_protocol: what a video with several captions has to find. `best-caption`: among all captions, the
            best-placed of its own (Collaborative Experts, Frozen in Time, HGR, EPIC-KITCHENS). `caption-group`:
            among videos, itself, where a video's score is the best of its captions' (CLIP4Clip, X-CLIP, X-Pool).
            `every-caption`: each of its own captions in turn, among the captions that do not answer it, averaged
            over its own; unlike the others it does not get easier the more captions a video has.
        ties: how items with equal scores are ranked. `expected` is the mean over all their orders; `optimistic` puts
            the more relevant of them first and `pessimistic` last.
        resamples: bootstrap samples for intervals of medians, and arrangements of a comparison's test; 0 for neither
            test nor any interval.
        seed: seed of those samples.
        confidence: confidence of the intervals, between 0 and 1.
        cluster: what intervals and tests draw: `auto`, videos where the corpus shows that several clips are cut from
            one, else clips; `clip`; `video`; or a column of the corpus (`evenreel.evaluation.clusters`).
        partial: accept scores that leave captions or clips of the corpus out, with a notice.
        band_bytes: about how many bytes of scores are asked for at once.
        threads: that calculate; 0 is one a core.
    """

    metrics: tuple[Metric, ...] = DEFAULT_METRICS
    directions: tuple[Direction, ...] = ("t2v", "v2t")
    t2v_protocol: TextProtocol = "caption"
    v2t_protocol: VideoProtocol = "best-caption"
    ties: Ties = "expected"
    resamples: int = 1000
    seed: int = 0
    confidence: float = 0.95
    cluster: str = "auto"
    partial: bool = False
    band_bytes: int = 64 * 2**20
    threads: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", one_or_more(self.metrics, "metrics", (str, Metric)))
        object.__setattr__(self, "directions", tuple(dict.fromkeys(one_or_more(self.directions, "directions"))))
        for value, known, what in (
            (self.t2v_protocol, TextProtocol, "protocol of captions"),
            (self.v2t_protocol, VideoProtocol, "protocol of videos"),
            (self.ties, Ties, "rule for ties"),
            *((direction, Direction, "direction") for direction in self.directions),
        ):
            if value not in get_args(known):
                raise UsageError(f"{value!r} is no {what}; there are: {', '.join(get_args(known))}.")
        if not self.metrics or not self.directions:
            raise UsageError("Nothing is asked for; name at least one metric and one direction.")
        object.__setattr__(self, "metrics", parse_metrics(self.metrics))
        ordered = [str(metric) for metric in self.metrics if metric.needs_order]
        if ordered and self.v2t_protocol == "every-caption" and "v2t" in self.directions:
            raise UsageError(
                f"{ordered[0]} needs all captions of a video in one ranking, but the protocol every-caption ranks them "
                "one at a time; use best-caption or caption-group."
            )
        allowed = RESAMPLING | {"threads": whole(0, MOST_LAYERS), "partial": TRUE_OR_FALSE}
        check_settings("the evaluation", self, allowed)


@dataclass(frozen=True, eq=False)
class DirectionResult:
    """Figures of one direction over the n queries that have a relevant item.

    Attributes:
        direction: direction of the search.
        protocol: name of the protocol, see `EvaluationSettings`.
        query_ids: n ids of captions, or of clips where a clip is the query.
        groups: (n,) whole numbers, equal for queries that are drawn together: those of one clip, or of one video. The
            captions of a clip are not independent, so whoever resamples draws groups.
        per_query: (n,) columns that the metrics are calculated from, and `rank`. Shares in percent. NaN in columns
            that need an item of degree 1 where a query has items of lower degrees only.
        summary: a figure for each metric, by its word.
        gallery_size: items that each query is ranked against.
        gallery_digest: of their ids in any order; equal for systems that ranked the same items.
        hits: first hits of the queries, their `query` a place in `query_ids`; what `hit_chance` is calculated from.
            Several of a query count on average: a hit a caption under `video-mean` and `every-caption`.
        without_relevant: ids of the queries that have no item of a degree above 0; no figure includes them.
        drawn_by: what a group is, in the plural: `clips`, `videos`, or values of a column.
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

    @property
    def drawn(self) -> int:
        """Number of groups that intervals and tests draw from."""
        return len(np.unique(self.groups))

    @property
    def first_rank(self) -> NDArray[np.float64]:
        """(n,) rank of the first relevant item, from 1, under the rule for ties."""
        return self.per_query[FIRST_RANK]

    def hit_chance(self, k: int) -> NDArray[np.float64]:
        """(n,) percent, the column `R@k` for any k: the chance that one of the first k items is relevant."""
        return mean_of(self.hits.query, 100 * self.hits.chance(k), len(self.query_ids))


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Figures of one system on one corpus.

    Attributes:
        directions: results by direction.
        metrics: metrics in the order of the settings.
        ties: the rule for ties.
        relevance: name of what counts as relevant.
        confidence: confidence of the intervals.
        uses: what the scores were made from beside caption and video, `ScoreNotes.uses`.
        notices: sentences that belong beside the figures.
    """

    directions: dict[Direction, DirectionResult]
    metrics: tuple[Metric, ...]
    ties: Ties
    relevance: str
    confidence: float
    uses: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    def to_json(self, *, per_query: bool = False) -> dict[str, Any]:
        """Numbers, words and lists only, ready for `json.dumps`; `per_query` adds every query's columns."""
        return {
            "metrics": [str(metric) for metric in self.metrics],
            "ties": self.ties,
            "relevance": self.relevance,
            "confidence": self.confidence,
            "uses": list(self.uses),
            "notices": list(self.notices),
            "directions": {name: _as_json(result, per_query) for name, result in self.directions.items()},
        }


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
    if per_query:
        columns = {name: values.tolist() for name, values in result.per_query.items()}
        document["per_query"] = {"id": list(result.query_ids), **columns}
    return document
