"""Settings of the evaluation of moments, and its metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from evenreel.config import check_kind, check_settings, one_or_more, whole
from evenreel.errors import UsageError
from evenreel.evaluation.settings import RESAMPLING

Family = Literal["R", "mAP", "mIoU", "nDCG", "Rank", "HL-mAP", "HIT@1"]
LEVELS = {"Fair": 2, "Good": 3, "VeryGood": 4}
"""Least rating of a clip that counts as a highlight, of 0 to 4 (QVHighlights)."""
_RANK = re.compile(r"Rank@([1-9]\d{0,2})")
_WORD = re.compile(r"(?:R([1-9]\d{0,2})|(mAP)|nDCG@([1-9]\d{0,2}))@(0\.\d{1,2}|1(?:\.0)?)")


@dataclass(frozen=True)
class MomentMetric:
    """Metric of moment retrieval or highlight detection; make it with `parse_moment_metric`.

    Attributes:
        family: `R`, a true window is among the first n; `mAP`; `mIoU`, mean overlap of the first window; `nDCG`;
            `Rank`, the mean rank of the windows of those who agree best is at most n (DiDeMo); `HL-mAP` and `HIT@1` of
            highlights.
        threshold: least overlap (IoU) with a true window; None where there is none, and for the mean over 0.5 to 0.95.
        first: number of first windows that count; 0 for no limit.
        level: least rating of a highlight, a key of `LEVELS`; empty for other metrics.
    """

    family: Family
    threshold: float | None = None
    first: int = 0
    level: str = ""

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
