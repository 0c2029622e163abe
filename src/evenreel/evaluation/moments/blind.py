"""Baselines of moment retrieval that look at no video, to be printed beside every result."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenreel.evaluation.moments.predictions import MomentPredictions
from evenreel.evaluation.moments.truth import MomentTruth
from evenreel.evaluation.moments.windows import overlaps

STEPS = 20
"""Shares of a clip at which windows of the position prior begin and end: every twentieth."""
FEW = 100
"""Different windows, at most, that annotators chose among."""
WHOLE, PRIOR, FIXED = "the whole clip", "the best position", "the first half"


def whole_clips(truth: MomentTruth) -> MomentPredictions:
    """Predict the whole clip for every query, up to its last true second where its length is not known."""
    ends = _ends(truth)
    return MomentPredictions({name: np.array([[0.0, end]]) for name, end in zip(truth.query_ids, ends, strict=True)})


def best_positions(truth: MomentTruth, learned: MomentTruth | None) -> MomentPredictions:
    """Predict, for every query, the positions in a clip that true windows have most often.

    Where annotators chose among few windows (the 21 of DiDeMo), these are predicted in the order of how often they were
    chosen. Else windows between twentieths of a clip are, in the order of how many queries they answer with an overlap
    of a half (after Otani et al. 2020).

    Args:
        truth: queries to answer.
        learned: annotations of the training split to learn from; None predicts the first half of a clip.
    """
    if learned is not None:
        chosen, counts = np.unique(np.concatenate(learned.windows), axis=0, return_counts=True)
        if len(chosen) <= FEW:
            ranked = chosen[np.argsort(-counts, kind="stable")]
            return MomentPredictions(dict.fromkeys(truth.query_ids, ranked))
    shares = np.array([[0.0, 0.5]]) if learned is None else _ranked_shares(learned)
    ends = _ends(truth)
    return MomentPredictions({name: shares * end for name, end in zip(truth.query_ids, ends, strict=True)})


def blind_predictions(truth: MomentTruth, learned: MomentTruth | None = None) -> dict[str, MomentPredictions]:
    """Return the predictions of both baselines that look at no video, by name: whole clip, and best position.

    Args:
        truth: queries to answer.
        learned: annotations of training for the best position; None for the first half of a clip.
    """
    position = f"{PRIOR} of the training annotations" if learned else f"{FIXED} of the clip"
    return {WHOLE: whole_clips(truth), position: best_positions(truth, learned)}


def clips_alone(predictions: MomentPredictions, truth: MomentTruth) -> MomentPredictions:
    """Replace predicted windows by the whole of their clips, in the same order: what a system finds without moments.

    Args:
        predictions: windows in all clips.
        truth: queries; a clip that none of them is about, of unknown length, ends where the last window predicted in it
            ends.
    """
    ends = dict(zip(truth.clip_ids, _ends(truth), strict=True))
    windows, clips = {}, {}
    for query, named in predictions.clips.items():
        last = dict(zip(named[::-1], predictions.windows[query][::-1, 1], strict=True))
        clips[query] = tuple(dict.fromkeys(named))
        windows[query] = np.array([[0.0, ends.get(clip, last[clip])] for clip in clips[query]])
    return MomentPredictions(dict.fromkeys(predictions.windows, np.empty((0, 2))) | windows, clips=clips)


def _ranked_shares(learned: MomentTruth, most: int = 10) -> NDArray[np.float64]:
    """(M, 2) windows as shares of a clip, those that answer the most queries first."""
    edges = np.arange(STEPS + 1) / STEPS
    candidates = np.array([[start, end] for start in edges for end in edges if end > start])
    answered = np.zeros(len(candidates))
    for windows, end in zip(learned.windows, _ends(learned), strict=True):
        shared = overlaps(candidates, windows / end).max(1)
        answered += (shared >= 0.5) + shared / (1 + len(learned.windows))  # of those that answer as many, the closer
    return candidates[np.argsort(-answered, kind="stable")[:most]]


def _ends(truth: MomentTruth) -> NDArray[np.float64]:
    """(Q,) seconds of each query's clip, or of its last true window."""
    last = np.array([windows[:, 1].max() for windows in truth.windows])
    return np.where(np.isnan(truth.durations), last, np.maximum(truth.durations, last))
