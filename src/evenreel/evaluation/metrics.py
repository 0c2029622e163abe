"""Metrics as values, and the settings of evaluations and corrections.

`parse_metric("nDCG@10")` can be printed, hashed and compared, and computes its figure. Every share is in percent (0 to
100), nDCG, mAP and MRR as much as recall; ranks begin at 1. The command line reads this, so it imports nothing slow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from evenreel.config import (
    ABOVE_0,
    BETWEEN_0_AND_1,
    FINITE,
    MOST_BITS,
    MOST_LAYERS,
    TEXT,
    TRUE_OR_FALSE,
    WORDS,
    Allowed,
    OptionForm,
    check_settings,
    check_word,
    described,
    one_or_more,
    whole,
)
from evenreel.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIRST_RANK = "rank"  # the per-query column of the expected rank of the first relevant item

Cutoff = int | Literal["R"] | None
PerQuery: TypeAlias = "Mapping[str, NDArray[np.float64]]"

_SUMMED = ("R@1", "R@5", "R@10")
_PLAIN = {
    "MedR": "median rank of the first relevant item",
    "MeanR": "mean rank of the first relevant item",
    "MRR": "mean of 1 / rank of the first relevant item",
    "Rsum": "R@1 + R@5 + R@10",
    "GeoR": "geometric mean of R@1, R@5 and R@10",
    "mAP": "mean average precision; relevant is a degree of 1",
    "mAP-EPIC": "the EPIC-KITCHENS form: precision sums the degrees, so it exceeds mAP",
}
_CUT = {
    "R": "chance that one of the first k items is relevant",
    "P": "precision: share of relevant items among the first k",
    "nDCG": "discounted cumulative gain, linear gain, of its best possible value",
}
_NEED_CUTOFF = ("R", "P")
_OF_FIRST_HIT = ("R", "MedR", "MeanR", "MRR", "Rsum", "GeoR")
_WORD = re.compile(r"(R|P|nDCG)(?:@([1-9][0-9]{0,8}|R))?")
_OTHER_NAMES = {"RR": "MRR", "AP": "mAP", "MAP": "mAP", "NDCG": "nDCG", "Precision": "P", "Success": "R"}
"""Names of ir_measures for metrics that have another one here; whatever follows them is the same."""
_NEARLY = {
    r"(?:Recall)(@[1-9][0-9]*)?": "but R@k says whether one of the first k is relevant",
    r"(?:M?RR|M?AP|mAP)@[1-9][0-9]*": "since MRR and mAP are of whole rankings",
    r"\w+\(.*\brel=.*": "since relevant is a degree of 1",
}
"""What comes near other names of ir_measures, by their form."""


@dataclass(frozen=True)
class Metric:
    """Metric of a ranking, such as `R@5`; make it with `parse_metric`.

    Attributes:
        name: `R`, `P`, `MedR`, `MeanR`, `MRR`, `Rsum`, `GeoR`, `nDCG`, `mAP` or `mAP-EPIC`.
        cutoff: number of first places that count. None: all; `R` (of nDCG): as many as the query has items with a
            degree of relevance above 0.
    """

    name: str
    cutoff: Cutoff = None

    def __str__(self) -> str:
        return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the per-query columns that `summary` reads."""
        if self.name in ("Rsum", "GeoR"):
            return _SUMMED
        return (FIRST_RANK,) if self.name in ("MedR", "MeanR") else (str(self),)

    @property
    def needs_order(self) -> bool:
        """Whether the places of all relevant items are needed, not only that of the first one."""
        return self.name not in _OF_FIRST_HIT

    @property
    def higher_is_better(self) -> bool:
        """Whether higher figures are better; False for ranks."""
        return not self.is_rank

    @property
    def is_rank(self) -> bool:
        """Whether the figure is a rank, from 1, and no share in percent."""
        return self.name in ("MedR", "MeanR")

    @property
    def is_of_means(self) -> bool:
        """Whether the figure can be computed from the means of `columns` alone; False for the median."""
        return self.name != "MedR"

    @property
    def explanation(self) -> str:
        """Explanation of the metric in one line."""
        return _CUT.get(self.name) or _PLAIN[self.name]

    def summary(self, per_query: PerQuery, weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Compute the metric's figures (B,) from values of queries, for each of B weightings, as a bootstrap needs.

        `per_query` has the columns named in `columns`, (n,) each; a query whose value is NaN does not count in it. The
        weights (B, n) say how often a query counts; None for once each, with B = 1.

        >>> import numpy as np
        >>> rank = {"rank": np.array([1.0, 2.0, 9.0])}
        >>> parse_metric("MedR").summary(rank, np.array([[1, 1, 1], [0, 1, 1]])).tolist()
        [2.0, 5.5]
        """
        import numpy as np

        first = per_query[self.columns[0]]
        if weights is None:
            weights = np.ones((1, len(first)))
        if not self.is_of_means:
            return weighted_median(first, weights)
        return self.of_means([weighted_mean(per_query[column], weights) for column in self.columns])

    def of_means(self, means: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Compute the metric's figures (B,) from the means (B,) of each of `columns`."""
        import numpy as np

        figures = np.cbrt(np.prod(means, axis=0)) if self.name == "GeoR" else np.sum(means, axis=0)
        return np.asarray(figures, dtype=np.float64)


def weighted_mean(values: NDArray[np.float64], weights: NDArray[Any]) -> NDArray[np.float64]:
    """Compute the mean of values (n,), leaving out NaN, for each of B rows of counts (B, n); NaN without values."""
    import numpy as np

    values, weights = _known(values, weights)
    with np.errstate(invalid="ignore"):  # a sample without any known query has no mean
        return np.asarray(weights @ values / weights.sum(axis=1), dtype=np.float64)


def weighted_median(values: NDArray[np.float64], weights: NDArray[Any]) -> NDArray[np.float64]:
    """Compute the median of values (n,), leaving out NaN, for each of B rows of counts (B, n); NaN without values.

    It is the middle value, or the mean of the two in the middle.
    """
    import numpy as np

    values, weights = _known(values, weights)
    order = np.argsort(values)
    ordered = np.append(values[order], np.nan)  # what a sample without any known query gets
    reached = np.cumsum(weights[:, order], axis=1)
    half = reached[:, -1:] / 2
    upper = (reached <= half).sum(axis=1)
    lower = np.where(upper < len(values), (reached < half).sum(axis=1), upper)
    return np.asarray((ordered[lower] + ordered[upper]) / 2, dtype=np.float64)


def _known(values: NDArray[np.float64], weights: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Leave out queries whose value is NaN; a copy only where there is one, which is rare."""
    import numpy as np

    known = ~np.isnan(values)
    return (values, weights) if known.all() else (values[known], weights[:, known])


def parse_metric(word: str) -> Metric:
    """Parse the name of a metric, such as `R@7`, `MedR`, `nDCG@10` or `mAP-EPIC`.

    The names `RR`, `AP`, `Success@k` and other spellings of ir_measures are read as `MRR`, `mAP` and `R@k`.

    Raises:
        UsageError: the word is no metric.

    >>> str(parse_metric("nDCG@10")), parse_metric("R@5") == Metric("R", 5)
    ('nDCG@10', True)
    """
    text = word if isinstance(word, str) else ""
    name, rest = re.fullmatch(r"(\w*)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]  # it always fits
    known = f"{_OTHER_NAMES.get(name, name)}{rest}"
    if known in _PLAIN:
        return Metric(known)
    if match := _WORD.fullmatch(known):
        short, cut = match.groups()
        if not (cut == "R" and short != "nDCG") and not (cut is None and short in _NEED_CUTOFF):
            return Metric(short, "R" if cut == "R" else int(cut) if cut else None)
    near = next((f", {hint}" for form, hint in _NEARLY.items() if re.fullmatch(form, text)), "")
    raise UsageError(
        f"{described(word)} is no metric{near}; there are R@k, P@k and nDCG@k for any whole k from 1, nDCG, nDCG@R, "
        f"{', '.join(_PLAIN)}, and ir_measures computes others, such as RBP, ERR and Bpref, from the files that "
        "--save-run and --save-qrels write."
    )


def parse_metrics(words: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """Parse the names of metrics, in order and without repetitions; metrics among them stay as they are.

    Args:
        words: several names or metrics, or a single one.

    Raises:
        UsageError: a word is no metric, or there is none.

    >>> parse_metrics("R@1") == parse_metrics(["R@1", "R@1"]) == (Metric("R", 1),)
    True
    """
    words = one_or_more(words, "metrics", (str, Metric))
    if not words:
        raise UsageError("No metric is named; name at least one, R@1 for example.")
    return tuple(dict.fromkeys(word if isinstance(word, Metric) else parse_metric(word) for word in words))


DEFAULT_METRICS = parse_metrics(["R@1", "R@5", "R@10", "MedR", "MeanR", "Rsum", "MRR"])

Direction = Literal["t2v", "v2t"]
TextProtocol = Literal["caption", "video-mean"]
VideoProtocol = Literal["best-caption", "caption-group", "every-caption"]
Ties = Literal["expected", "optimistic", "pessimistic"]

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
            one, else clips; `clip`; `video`; or a column of the corpus (`evenreel.evaluation.intervals`).
        by: columns of the clips or captions to group queries by, each value a group, more than 8 numbers in four bands;
            `seconds` and `words` are lengths of clips and captions; COLUMN=GROUP also shows how the others differ from
            that one. May be given again.
        partial: accept scores that leave captions or clips of the corpus out, with a notice.
        band_bytes: about how many bytes of scores are read at once.
        threads: number of threads that compute; 0 is one a core.
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
    by: tuple[str, ...] = ()
    partial: bool = False
    band_bytes: int = 64 * 2**20
    threads: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", one_or_more(self.metrics, "metrics", (str, Metric)))
        object.__setattr__(self, "directions", tuple(dict.fromkeys(one_or_more(self.directions, "directions"))))
        object.__setattr__(self, "by", one_or_more(self.by, "by"))
        for value, known, what in (
            (self.t2v_protocol, TextProtocol, "protocol of captions"),
            (self.v2t_protocol, VideoProtocol, "protocol of videos"),
            (self.ties, Ties, "rule for ties"),
            *((direction, Direction, "direction") for direction in self.directions),
        ):
            check_word(value, get_args(known), what)
        if not self.metrics or not self.directions:
            raise UsageError("Nothing is asked for; name at least one metric and one direction.")
        object.__setattr__(self, "metrics", parse_metrics(self.metrics))
        ordered = [str(metric) for metric in self.metrics if metric.needs_order]
        if ordered and self.v2t_protocol == "every-caption" and "v2t" in self.directions:
            raise UsageError(
                f"{ordered[0]} needs all captions of a video in one ranking, but the protocol every-caption ranks them "
                "one at a time; use best-caption or caption-group."
            )
        allowed = RESAMPLING | {"threads": whole(0, MOST_LAYERS), "partial": TRUE_OR_FALSE, "by": WORDS}
        check_settings("the evaluation", self, allowed)


_ALLOWED = {
    "scale": ABOVE_0,
    "temperature": ABOVE_0,
    "top": whole(1),
    "neighbours": whole(1),
    "weight": FINITE,
    "iterations": whole(1),
    "batch": whole(1),
    "remembered": whole(1),
    "alpha": ABOVE_0,
    "beta": ABOVE_0,
}
_COUNT = OptionForm(least=1, most=1_000_000)


@dataclass(frozen=True)
class RescoringSettings:
    """Settings of a correction of scores; each that is None has the value of the correction's authors.

    Attributes:
        scale: inverse temperature of softmaxes over scores: `dsl` (100), `dsl-double` (1/500), `inverted` and `qb-norm`
            (20).
        temperature: temperature of the transport: `sinkhorn` and `dbsn` (0.01), `sinkhorn-bank` (0.02).
        top: best places of each query of the bank that count as hubs, for `qb-norm` (1); best scores in the bank that
            count for an item, for `nnn` (128).
        neighbours: best scores of a row or a column that count, for `csls` (10).
        weight: weight of the correction, for `nnn` (0.75); share of the softmax over queries, for `hub-memory` (0.5).
        iterations: most rounds of Sinkhorn: `sinkhorn` and `dbsn` (10), `sinkhorn-bank` (20).
        batch: queries that are answered at a time, for `hub-memory` (16).
        remembered: earlier batches that count, for `hub-memory` (a tenth of the number of items).
        alpha: inverse temperature of the softmax over queries, for `hub-memory` (100).
        beta: inverse temperature of the softmax over items, for `hub-memory` (10).

    Raises:
        UsageError: a setting is out of its range.
    """

    scale: float | None = None
    temperature: float | None = None
    top: Annotated[int | None, _COUNT] = None
    neighbours: Annotated[int | None, _COUNT] = None
    weight: float | None = None
    iterations: Annotated[int | None, _COUNT] = None
    batch: Annotated[int | None, _COUNT] = None
    remembered: Annotated[int | None, _COUNT] = None
    alpha: float | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        check_settings("the correction", self, {name: one for name, one in _ALLOWED.items() if name in self.given})

    @property
    def given(self) -> dict[str, Any]:
        """Settings that are given, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
