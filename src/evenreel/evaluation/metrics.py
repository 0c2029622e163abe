"""Metrics as values: `parse_metric("nDCG@10")` can be printed, hashed and compared, and computes its figure.

Every share is in percent (0 to 100), nDCG, mAP and MRR as much as recall; ranks begin at 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from evenreel.config import described, one_or_more
from evenreel.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FIRST_RANK = "rank"
"""The per-query column of the expected rank of the first relevant item."""

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
_OTHER_NAMES = {
    "RR": "MRR",
    "AP": "mAP",
    "MAP": "mAP",
    "NDCG": "nDCG",
    "Precision": "P",
    "Success": "R",
}
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
        """Compute the metric's figure from values of queries, for each of B weightings, as a bootstrap needs.

        Args:
            per_query: the columns named in `columns`, (n,) each. A query whose value is NaN does not count in it.
            weights: (B, n), number of times a query counts; None for once each, with B = 1.

        Returns:
            (B,) figures.

        >>> import numpy as np
        >>> rank = {"rank": np.array([1.0, 2.0, 9.0])}
        >>> parse_metric("MedR").summary(rank, np.array([[1, 1, 1], [0, 1, 1]])).tolist()
        [2.0, 5.5]
        """
        import numpy as np

        from evenreel.evaluation.weighted import weighted_mean, weighted_median

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
    match = _WORD.fullmatch(known)
    if match and (metric := _cut_metric(*match.groups())):
        return metric
    near = next((f", {hint}" for form, hint in _NEARLY.items() if re.fullmatch(form, text)), "")
    raise UsageError(
        f"{described(word)} is no metric{near}; there are R@k, P@k and nDCG@k for any whole k from 1, nDCG, nDCG@R, "
        f"{', '.join(_PLAIN)}, and ir_measures computes others, such as RBP, ERR and Bpref, from the files that "
        "--save-run and --save-qrels write."
    )


def _cut_metric(name: str, cutoff: str | None) -> Metric | None:
    """The metric of a word's parts; None where they do not go together."""
    if (cutoff == "R" and name != "nDCG") or (cutoff is None and name in _NEED_CUTOFF):
        return None
    return Metric(name, "R" if cutoff == "R" else int(cutoff) if cutoff else None)


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
