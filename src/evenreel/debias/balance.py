"""Weights of training clips under which a clip's class says nothing of its length stratum.

Not from the paper: the backdoor adjustment (frame-length bias, equation 5) with one model and all clips, by inverse
propensity (Rosenbaum and Rubin 1983). Where the paper trains a model for each stratum and adds them with the shares
P(L) of the strata, a clip of class c in stratum L weighs P(L) / P(L | c) here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices


def balanced_weights(strata: Indices, classes: Indices, most: float) -> NDArray[np.float64]:
    """Weight clips so that within each class the strata have the shares that they have among all clips.

    Where a class has no clip in a stratum, its other strata share that weight. The weights of a class sum to its number
    of clips, so that no class becomes more frequent.

    Args:
        strata: (N,) stratum of each clip, from 0.
        classes: (N,) class of each clip, from 0; -1 for none, with a weight of 1.
        most: largest weight of a clip, at least 1, before the weights of its class are scaled to their sum. It keeps a
            clip that is alone in its stratum from standing for too many.

    Returns:
        (N,) weights with a mean of 1.

    >>> balanced_weights(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]), 9).tolist()
    [1.0, 1.0, 1.0, 1.0]
    >>> balanced_weights(np.array([0, 0, 0, 1, 0, 1, 1, 1]), np.array([0, 0, 0, 0, 1, 1, 1, 1]), 9).round(2).tolist()
    [0.67, 0.67, 0.67, 2.0, 2.0, 0.67, 0.67, 0.67]
    """
    weights = np.ones(len(strata))
    known = classes >= 0
    stratum, of_class = strata[known], classes[known]
    if not len(stratum):
        return weights
    counts = np.zeros((of_class.max() + 1, stratum.max() + 1))
    np.add.at(counts, (of_class, stratum), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = counts.sum(0) / counts.sum() / (counts / counts.sum(1, keepdims=True))
    own = np.minimum(wanted[of_class, stratum], most)
    totals = np.bincount(of_class, own)
    weights[known] = own * (counts.sum(1) / np.where(totals == 0, 1, totals))[of_class]
    return weights


def shared_information(strata: Indices, classes: Indices, weights: NDArray[np.float64]) -> float:
    """Compute how much classes tell of strata: their mutual information over the entropy of the strata, 0 to 1.

    Args:
        strata: (N,) stratum of each clip.
        classes: (N,) class of each clip; clips of class -1 are left out.
        weights: (N,) weight of each clip.

    >>> strata, classes = np.array([0, 0, 0, 1, 0, 1, 1, 1]), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    >>> round(shared_information(strata, classes, np.ones(8)), 3)
    0.189
    >>> round(shared_information(strata, classes, balanced_weights(strata, classes, 9)), 3)
    0.0
    """
    known = classes >= 0
    joint = np.zeros((classes.max() + 1, strata.max() + 1))
    np.add.at(joint, (classes[known], strata[known]), weights[known])
    joint /= joint.sum()
    entropy = _entropy(joint.sum(0))
    return float((entropy + _entropy(joint.sum(1)) - _entropy(joint)) / entropy) if entropy else 0.0


def _entropy(shares: NDArray[np.float64]) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log(some)).sum())
