"""A moment of one query before one of another, in one clip."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.library.search.hits import STATES

MOST_MOMENTS = 2_000
"""Most moments of a query in a clip that are compared with those of another: the best ones."""

NOTHING = STATES.index("nothing")


@dataclass(frozen=True, eq=False)
class TimedEvidence:
    """N moments of a clip at which a query may be answered, in any order.

    Attributes:
        starts_s: (N,) when each begins.
        ends_s: (N,) when it ends; of a single frame, its time.
        values: (N,) how far each is above nonsense, in standard deviations.
        states: (N,) places in `STATES`.
    """

    starts_s: Column
    ends_s: Column
    values: Column
    states: Indices

    def best(self) -> Indices:
        """Return the places of the best, `MOST_MOMENTS` at most: (M,)."""
        order = np.lexsort((self.starts_s, -self.values, self.states))
        return order[:MOST_MOMENTS]


@dataclass(frozen=True)
class OrderedPair:
    """A moment of a query and a later one of another.

    Attributes:
        first: place of the first.
        second: place of the second.
        state: place in `STATES` of the one that answers less well.
        value: sum of how far both are above nonsense.
    """

    first: int
    second: int
    state: int
    value: float


def best_pair(first: TimedEvidence, second: TimedEvidence, within_s: float) -> OrderedPair | None:
    """Find the best two moments of which one begins before the other, which begins soon after it.

    The second begins later than the first, and at most `within_s` seconds after the first has ended. A pair is as good
    as the state of its worse half, then as the sum of both values.

    Example:
        >>> def at(*times_s):
        ...     times = np.array(times_s, float)
        ...     return TimedEvidence(times, times, np.ones(len(times)), np.zeros(len(times), int))
        >>> best_pair(at(3, 9), at(1, 5), 10)
        OrderedPair(first=0, second=1, state=0, value=2.0)
    """
    ours, theirs = first.best(), second.best()
    ours, theirs = ours[np.argsort(first.starts_s[ours])], theirs[np.argsort(second.starts_s[theirs])]
    starts_s = second.starts_s[theirs]
    fits = (first.starts_s[ours, None] < starts_s) & (starts_s - first.ends_s[ours, None] <= within_s)
    if not fits.any():
        return None
    states = np.maximum(first.states[ours, None], second.states[theirs])
    fits &= states == states[fits].min()
    values = np.where(fits, first.values[ours, None] + second.values[theirs], -np.inf)
    row, column = np.unravel_index(int(values.argmax()), values.shape)
    return OrderedPair(int(ours[row]), int(theirs[column]), int(states[row, column]), float(values[row, column]))


def highest_in_order(first: Column, second: Column, counts: Indices) -> Column:
    """Compute for C clips the highest sum of a frame's value and a later frame's other value, whatever the gap.

    Example:
        >>> highest_in_order(np.array([5.0, 1, 1, 5]), np.array([1.0, 5, 5, 1]), np.array([2, 2])).tolist()
        [10.0, 2.0]
    """
    starts = np.cumsum(counts) - counts
    clip = np.repeat(np.arange(len(counts)), counts)
    apart = float(first.max() - first.min()) + 1.0
    before = np.maximum.accumulate(first + apart * clip) - apart * clip  # no clip reaches what is added to the next one
    sums = np.full(len(first), -np.inf)
    sums[1:] = before[:-1] + second[1:]
    sums[starts] = -np.inf
    return np.asarray(np.maximum.reduceat(sums, starts))
