"""Moments of a clip that answer a query: stretches of frames with high scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evenreel.library.search.hits import MomentHit, TextHit
from evenreel.library.search.stretches import stretches_of
from evenreel.types import FloatArray

MAX_MOMENTS = 3


def high_stretches(scores: FloatArray, spans_s: NDArray[np.float64]) -> list[MomentHit]:
    """Find the stretches of a clip whose frames answer best, the likeliest first (`evenreel.library.search.stretches`).

    Args:
        scores: (T,) scores of the clip's frames in order of time.
        spans_s: (T, 3) each frame's time, and start and end of the stretch it stands for.

    Example:
        >>> spans = np.array([[0.5, 0, 1], [1.5, 1, 2], [2.5, 2, 3], [3.5, 3, 4]])
        >>> [(m.start_s, m.end_s, m.time_s) for m in high_stretches(np.array([0.1, 0.4, 0.5, 0.1]), spans)]
        [(1.0, 3.0, 2.5)]
    """
    return [
        MomentHit(
            float(spans_s[one.best, 0]),
            float(spans_s[one.start, 1]),
            float(spans_s[one.stop - 1, 2]),
            float(scores[one.start : one.stop].max()),
        )
        for one in stretches_of(scores.astype(np.float64))
    ]


def best_moments(found: Sequence[MomentHit], others: Sequence[MomentHit] = ()) -> tuple[MomentHit, ...]:
    """Choose at most three moments, no two of which overlap, first of the channel that found the clip.

    Args:
        found: moments of the channel that found the clip, best first.
        others: moments of another channel that found the clip too.
    """
    chosen: list[MomentHit] = []
    for moment in (*found, *others):
        if not any(_overlap(moment, other) for other in chosen):
            chosen.append(moment)
    return tuple(chosen[:MAX_MOMENTS])


def _overlap(one: MomentHit, other: MomentHit) -> bool:
    """Whether two stretches share a time; one that is read in a single frame may have no length."""
    begins, ends = max(one.start_s, other.start_s), min(one.end_s, other.end_s)
    has_point = one.start_s == one.end_s or other.start_s == other.end_s
    return begins < ends or (begins == ends and has_point)


def shown(sign: TextHit) -> MomentHit:
    """Return the stretch in which a sign's words are on screen as a moment, at its middle."""
    return MomentHit((sign.start_s + sign.end_s) / 2, sign.start_s, sign.end_s, sign.similarity)


def whole(seen: Sequence[MomentHit], duration_s: float | None, score: float) -> list[MomentHit]:
    """Return a whole clip, found by its name or caption, as one moment at the frame that best matches the query.

    Args:
        seen: stretches of its frames, best first; without any there is no moment to look at.
        duration_s: length of the clip in seconds.
        score: share of the query that the name or caption has.
    """
    end_s = max((moment.end_s for moment in seen), default=0.0) if duration_s is None else duration_s
    return [MomentHit(moment.time_s, 0.0, max(end_s, moment.end_s), score) for moment in seen[:1]]
