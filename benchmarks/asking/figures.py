"""Means with intervals, as the scripts beside this one print them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DRAWS = 2_000


def interval(values: Sequence[float], seed: int = 0) -> str:
    """Write the mean of values with its 95 % interval, by drawing the values anew."""
    found = np.asarray(values, float)
    draws = np.random.default_rng(seed).integers(len(found), size=(DRAWS, len(found)))
    low, high = np.quantile(found[draws].mean(axis=1), (0.025, 0.975))
    return f"{found.mean():.3f} ({low:.3f} to {high:.3f})"


def average_precision(scores: np.ndarray, right: np.ndarray) -> float:
    """Average precision of clips (C,) ranked by falling scores."""
    ranked = right[np.argsort(-scores, kind="stable")]
    return float((ranked.cumsum() / np.arange(1, len(ranked) + 1))[ranked].mean())
