"""Deltas between a figure of real clips and of generated clips, and the part that their order explains.

Generative Ghost, section 2.4. A positive delta favours real clips, a negative one generated ones. Figures are floats or
arrays of them, such as one a sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.evaluation.metrics import Metric, parse_metrics

Figures = NDArray[np.float64]

DELTA_METRICS = parse_metrics(["R@1", "R@5", "R@10", "MedR", "MeanR"])
"""What the paper's tables have a delta of."""

LOCATION_METRICS = parse_metrics(["R@1", "R@2", "R@3", "R@5", "R@10", "MedR", "MeanR"])
"""What the Location deltas of `DELTA_METRICS` are calculated from, and those metrics themselves."""

MIXED_METRICS = ("R@1", "MedR", "MeanR")
MIX_R = "MixR"


@overload
def relative_delta(metric: Metric, real: float, generated: float) -> float: ...
@overload
def relative_delta(metric: Metric, real: Figures, generated: Figures) -> Figures: ...
def relative_delta(metric: Metric, real: float | Figures, generated: float | Figures) -> float | Figures:
    """Compute the Relative delta of a metric between real and generated clips, -200 to 200 %; above 0, real is better.

    It is 200 (real - generated) / (real + generated) for shares, with the opposite sign for ranks; 0 where both are 0.

    >>> from evenreel.evaluation import parse_metric
    >>> round(float(relative_delta(parse_metric("R@1"), 10.1, 22.6)), 2)
    -76.45
    """
    first, second = np.asarray(real, np.float64), np.asarray(generated, np.float64)
    total, sign = first + second, 1 if metric.higher_is_better else -1
    share = np.divide(first - second, total, out=np.zeros_like(total), where=total != 0)
    delta: Figures = 200 * sign * share + 0.0  # no minus zero
    return delta if delta.ndim else float(delta)


@overload
def location_figure(metric: Metric, figures: Mapping[str, float]) -> float: ...
@overload
def location_figure(metric: Metric, figures: Mapping[str, Figures]) -> Figures: ...
def location_figure(metric: Metric, figures: Mapping[str, float] | Mapping[str, Figures]) -> float | Figures:
    """Compute a metric in an ideal mixed gallery in which each clip is next to its mirror, either first as often.

    A clip of rank r in a gallery of its own kind then has the rank 2r or 2r - 1: R@k becomes the mean of R@floor(k/2)
    and R@floor((k+1)/2), a rank m becomes 2m - 1/2. The tables of the paper are reproduced by this mean of both orders.
    It is exact for ties as well, where R@k is the chance of a hit.

    Args:
        metric: R@k, MedR or MeanR.
        figures: figures in the gallery of one kind, by the metric's name; for R@5 those of R@2 and R@3.

    Raises:
        UsageError: the metric has no such form, or a figure that it needs is missing.

    >>> from evenreel.evaluation import parse_metric
    >>> location_figure(parse_metric("R@5"), {"R@2": 40.0, "R@3": 50.0})
    45.0
    """
    if metric.name in ("MedR", "MeanR"):
        return 2 * _figure(str(metric), figures) - 0.5
    if metric.name != "R" or not isinstance(metric.cutoff, int):
        raise UsageError(f"{metric} has no Location form; R@k, MedR and MeanR have one.")
    lower, upper = metric.cutoff // 2, (metric.cutoff + 1) // 2
    before = _figure(f"R@{lower}", figures) if lower else 0.0
    return (before + _figure(f"R@{upper}", figures)) / 2


@overload
def mix_r(deltas: Mapping[str, float]) -> float: ...
@overload
def mix_r(deltas: Mapping[str, Figures]) -> Figures: ...
def mix_r(deltas: Mapping[str, float] | Mapping[str, Figures]) -> float | Figures:
    """Compute MixR, the mean of the deltas of R@1, MedR and MeanR.

    Raises:
        UsageError: one of them is missing.

    >>> round(mix_r({"R@1": -53.01, "MedR": 14.67, "MeanR": 41.02}), 2)
    0.89
    """
    first, second, third = (_figure(word, deltas) for word in MIXED_METRICS)
    return (first + second + third) / 3


def _figure(word: str, figures: Mapping[str, float] | Mapping[str, Figures]) -> float | Figures:
    if word not in figures:
        raise UsageError(f"{word} is missing; there are: {', '.join(figures) or 'none'}.")
    return figures[word]
