"""Notices for figures that are right and mean less than they seem to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenreel.evaluation.blocks import CheckedScores
from evenreel.evaluation.intervals import effective
from evenreel.evaluation.metrics import Metric
from evenreel.evaluation.results import DirectionResult

FEWEST = 20
"""Over fewer clips, or videos, than this intervals cover less than they say (`benchmarks/coverage.py`)."""


def beyond_gallery(result: DirectionResult, metrics: Sequence[Metric]) -> list[str]:
    """Return a sentence on recalls whose k is at least the size of the gallery, so that no order could change them.

    Returns:
        One sentence, or none where no recall is such.
    """
    size = result.gallery_size
    found = [
        str(metric)
        for metric in metrics
        for column in metric.columns
        if column.startswith("R@") and int(column.removeprefix("R@")) >= size
    ]
    if not found:
        return []
    words = ", ".join(dict.fromkeys(found))
    return [
        f"{result.direction}: the gallery has {size:,} items, so {words} would count all of them in any order; choose "
        "a k below that."
    ]


def too_few(result: DirectionResult) -> list[str]:
    """Return a sentence where there are fewer clips (or videos) than intervals were measured to be valid for.

    Returns:
        One sentence, or none from `FEWEST` on; clusters of unequal size count as `intervals.effective` says.
    """
    told = f"{result.direction}: the {result.drawn_by} that the queries are of"
    rule = f"intervals hold from about {FEWEST} on, so do not rely on these."
    if result.drawn < FEWEST:
        return [f"{told} are too few ({result.drawn}); {rule}"]
    as_many = effective(np.unique(result.groups, return_counts=True)[1].astype(np.float64))
    if as_many >= FEWEST:
        return []
    return [f"{told} differ so much in size that the {result.drawn:,} are as sure as {as_many:.1f} of one size; {rule}"]


def infinite_scores(scores: CheckedScores) -> list[str]:
    """Return a sentence that names the first score of plus infinity that was read; no sentence where there is none."""
    if scores.infinite is None:
        return []
    caption, video = scores.infinite
    return [
        f"The score of caption {caption!r} and video {video!r} is plus infinity, and others may be: they tie ahead of "
        "all finite ones, in whatever order. Half precision overflows to it; check what calculates the scores."
    ]
