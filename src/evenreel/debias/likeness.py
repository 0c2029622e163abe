"""Weights of training clips by their likeness to the clips that will be searched.

Not from a paper on retrieval: importance weighting under covariate shift (Shimodaira 2000) with a ratio of
densities relative to their mean (Yamada et al. 2011), which is bounded. Where a few training clips are from where the
searched ones are, and most from elsewhere, a model learns the look and the wording of most. With the densities p of
training clips and g of searched ones the weight of a clip is

    w = g / ((p + g) / 2),

twice the probability that it is one of the searched clips where either is as likely, which a logistic regression on
mean frames estimates. Only frames are compared; no queries are needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError

STRENGTH = 0.1
"""Inverse of the ridge penalty of the regression, on features with a variance of 1, for a loss summed over clips."""


def likeness_weights(learned: NDArray[np.floating], searched: NDArray[np.floating]) -> NDArray[np.float64]:
    """Weight training clips by how much denser clips like them are among those that will be searched.

    Args:
        learned: (N, D) mean frames of training clips.
        searched: (V, D) mean frames of clips that will be searched.

    Returns:
        (N,) weights with a mean of 1; where both are alike, all are near 1.

    Raises:
        UsageError: there are no clips of either, or features that are not finite.

    >>> home, away = np.zeros((50, 1)), np.ones((150, 1))
    >>> found = likeness_weights(np.concatenate([home, away]), home)
    >>> bool(found[0] > found[-1]), round(float(found.mean()), 6)
    (True, 1.0)
    """
    from sklearn.linear_model import LogisticRegression

    both = np.concatenate([learned, searched]).astype(np.float64)
    if not (len(learned) and len(searched) and np.isfinite(both).all()):
        raise UsageError(
            f"Likeness compares the frames of {len(learned):,} training clips and {len(searched):,} that are searched; "
            "it needs some of either, and finite features."
        )
    spread = both.std(0)
    scaled = (both - both.mean(0)) / np.where(spread > 0, spread, 1)
    model = LogisticRegression(C=STRENGTH, max_iter=1_000, class_weight="balanced")
    model.fit(scaled, np.arange(len(both)) >= len(learned))
    weights = model.predict_proba(scaled[: len(learned)])[:, 1]
    found: NDArray[np.float64] = weights / weights.mean()
    return found
