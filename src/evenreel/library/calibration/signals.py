"""Signals of an answer: what a search measures to say how likely it is that a clip shows what was asked for.

All are in standard deviations of the scores of nonsense on a clip (z, see `evenreel.library.store.confidence`). Of a
query there are five, which the number of clips modifies, and whether one word is asked for, two, or more:

- `above`: z on the nearest clip;
- `margin`: by how much the query describes one of the first clips better than every plausible phrase does, at its best;
- `first`: share of the first clips that the query describes better than every plausible phrase;
- `words`: the lowest z of a word of the query on the nearest clip;
- `spread`: z on the nearest clip less the median over all clips.

Plausible phrases that say as much as the query, more or less are left out: their words are all among its own, or its
own among theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags
from evenreel.language.folding import content_words

FIRST = 10
"""Nearest clips that tell whether the library has anything that answers."""

MOST_WORDS = 6
"""Words of a query that are encoded by themselves."""

MANY_WORDS = 3
"""Words of a query from which there are many."""

QUERY_ROW, CLIP_ROW = 23, 7
"""Numbers that the rules for a query and for a clip weigh."""


@dataclass(frozen=True, eq=False)
class NearestClips:
    """The clips nearest to a query, in descending z.

    Attributes:
        clips: number of clips searched.
        median: median z over these clips.
        z: (H,) z of the nearest clips, at least one.
        margins: (H,) z less the highest z of a plausible phrase on the same clip.
        words: the lowest z of a word of the query on the first of them.
        asked: number of words of the query, at least one.
    """

    clips: int
    median: float
    z: Column
    margins: Column
    words: float
    asked: int

    def query_row(self) -> Column:
        """Return the signals of the query, crossed with the logarithm of the number of clips and the number of words.

        They are the five signals; the logarithm and its products with them; and twice 1 and the five, which are 0
        unless one word is asked for, or `MANY_WORDS` at least: (23,).
        """
        margins = self.margins[:FIRST]
        top = float(self.z[0])
        signals = np.array([top, margins.max(), (margins > 0).mean(), self.words, top - self.median])
        by = (math.log(self.clips), float(self.asked == 1), float(self.asked >= MANY_WORDS))
        row: Column = crossed(signals[None], *by)[0]
        return row

    def clip_rows(self, log_odds: float) -> NDArray[np.float64]:
        """Return the signals of each clip, crossed with the logarithm of the number of clips: (H, 7).

        They are the log odds that any clip answers, z on the nearest clip less z here, and the margin here.

        Args:
            log_odds: log odds that any clip answers.
        """
        anything = np.full(len(self.z), log_odds)
        return crossed(np.stack([anything, self.z[0] - self.z, self.margins], axis=1), math.log(self.clips))


def crossed(signals: NDArray[np.float64], *by: float) -> NDArray[np.float64]:
    """Append each of some numbers, and its product with each signal.

    Args:
        signals: (N, F).
        by: K numbers.

    Returns:
        (N, F + K (F + 1)).

    Example:
        >>> crossed(np.array([[2.0, 3.0]]), 1.0, 0.5).tolist()
        [[2.0, 3.0, 1.0, 2.0, 3.0, 0.5, 1.0, 1.5]]
    """
    ones = np.ones((len(signals), 1))
    return np.hstack([signals, *(number * np.hstack([ones, signals]) for number in by)])


def asked_words(text: str) -> list[str]:
    """Return the first content words of a query, which are encoded by themselves; the text where it has none."""
    return content_words(text)[:MOST_WORDS] or [text]


def rivals(text: str, told: Sequence[Set[str]]) -> Flags:
    """Return which phrases (N,) say something else than a query: True unless its words are theirs, or theirs its own.

    Where none says something else, all are returned.

    Args:
        text: the query.
        told: content words of each phrase.

    Example:
        >>> rivals("a red star", [{"red", "star"}, {"star"}, {"red", "star", "sky"}, {"red", "circle"}]).tolist()
        [False, False, False, True]
    """
    asked = set(content_words(text))
    others = np.array([not (words <= asked or asked <= words) for words in told], np.bool_)
    return others if others.any() else np.ones_like(others)
