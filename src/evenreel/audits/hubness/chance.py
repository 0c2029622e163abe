"""Figures of unevenness in random rankings, in which captions of one clip still agree.

Twenty captions of a clip find much the same, so a clip that one of them ranks high by chance is ranked high by the
others as well: random rankings are then more uneven than as many independent ones. So the clips found by captions of
one cluster are replaced by other clips as a set, each set separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column

Figure = Callable[[Column], float]

DRAWS = 100
"""Random rankings that are made."""

_NEAR = 3.0


@dataclass(frozen=True)
class Chance:
    """Mean and variance of a figure, such as the skewness of counts, over random rankings.

    Attributes:
        mean: mean over the rankings; NaN where the figure is not defined.
        variance: variance of the figure.
    """

    mean: float
    variance: float

    def corrected(self, value: float, variance: float) -> float:
        """Return the variance of a measured figure: near chance that of random rankings, further away the jackknife's.

        Near chance the jackknife overestimates the variance, as it includes the noise of single queries. Beyond `_NEAR`
        standard deviations from chance this matters less and less.
        """
        apart = abs(value - self.mean) / self.variance**0.5 if self.variance else np.inf
        share = min(1.0, (_NEAR / apart) ** 2) if apart else 1.0
        return (1 - share) * variance + share * self.variance


@dataclass(frozen=True, eq=False)
class EntryCounts:
    """Counts of how often each of G sets of captions has each of V clips among its first clips.

    Attributes:
        starts: (G + 1,) index at which the entries of each set begin, and at last where they end.
        entries: number of times that a set has a clip, ascending in each set; which clip it is does not matter.
        clips: number V of clips.
        spread: entries that every clip has in addition, from rankings whose first places many clips share.
    """

    starts: NDArray[np.intp]
    entries: Column
    clips: int
    spread: float = 0.0

    def chance(self, figures: Mapping[str, Figure], seed: int) -> dict[str, Chance]:
        """Compute the mean and variance of figures of counts (V,) over random rankings, by the figures' names."""
        drawn = [[figure(counts) for figure in figures.values()] for counts in self._random(seed)]
        return {name: _chance(np.array(column)) for name, column in zip(figures, zip(*drawn, strict=True), strict=True)}

    @property
    def never(self) -> float:
        """Percentage of the clips that are among the first of no set of captions, in random rankings."""
        return float(100 * np.prod(1 - np.diff(self.starts) / self.clips))

    def _random(self, seed: int) -> Iterator[Column]:
        """(V,) counts, each set's clips drawn without replacement."""
        generator, widths = np.random.default_rng(seed), np.diff(self.starts)
        for _ in range(DRAWS):
            columns = _distinct(widths, self.clips, generator)
            yield np.asarray(self.spread + np.bincount(columns, self.entries, self.clips), np.float64)


def _chance(found: Column) -> Chance:
    known = found[~np.isnan(found)]
    return Chance(float(known.mean()), float(known.var(ddof=1))) if len(known) > 1 else Chance(float("nan"), 0.0)


def _distinct(widths: NDArray[np.int64], clips: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Columns of sets one after the other, none twice in a set.

    Sets that repeat a column are drawn again, all at once, while that is likely to end; wide ones are drawn singly.
    """
    owner = np.repeat(np.arange(len(widths)), widths)
    columns = generator.integers(0, clips, len(owner))
    starts = np.cumsum(widths) - widths
    again = np.flatnonzero(widths**2 > 4 * clips)
    for number in again.tolist():
        own = slice(starts[number], starts[number] + widths[number])
        columns[own] = generator.choice(clips, widths[number], replace=False)
    while len(again := _repeating(owner, columns, clips)):
        mine = np.isin(owner, again)
        columns[mine] = generator.integers(0, clips, int(mine.sum()))
    return columns


def _repeating(owner: NDArray[np.intp], columns: NDArray[np.intp], clips: int) -> NDArray[np.intp]:
    """Sets that have a column twice."""
    cells = np.sort(owner * clips + columns)
    return np.unique(cells[1:][np.diff(cells) == 0] // clips)
