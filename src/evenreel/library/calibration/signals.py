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
"""Number of nearest clips from which it is judged whether anything in the library answers."""

MOST_WORDS = 6
"""Most words of a query that are encoded one by one."""

MANY_WORDS = 3
"""Number of words from which a query counts as one of many words."""

QUERY_ROW, CLIP_ROW = 23, 15
"""Lengths of the rows of signals that the rules for a query and for a clip weigh."""


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

        Returns:
            (23,): the five signals; the logarithm and its products with them; 1 and the five signals where the query
            has one word, else zeros; 1 and the five where it has `MANY_WORDS` or more, else zeros.
        """
        margins = self.margins[:FIRST]
        top = float(self.z[0])
        signals = np.array([top, margins.max(), (margins > 0).mean(), self.words, top - self.median])
        row: Column = crossed(signals[None], *self._by())[0]
        return row

    def clip_rows(self, log_odds: float) -> NDArray[np.float64]:
        """Return the signals of each clip, crossed as those of the query are: (H, 15).

        They are the log odds that any clip answers, z on the nearest clip less z here, and the margin here.

        Args:
            log_odds: log odds that any clip answers.
        """
        anything = np.full(len(self.z), log_odds)
        return crossed(np.stack([anything, self.z[0] - self.z, self.margins], axis=1), *self._by())

    @property
    def words_asked(self) -> int:
        """Place among queries of one word (0), of two (1), and of `MANY_WORDS` or more (2)."""
        return min(self.asked, MANY_WORDS) - 1

    def _by(self) -> tuple[float, float, float]:
        return math.log(self.clips), float(self.asked == 1), float(self.asked >= MANY_WORDS)


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
    """Return the first content words of a query, to be encoded one by one; its whole text where it has none."""
    return content_words(text)[:MOST_WORDS] or [text]


def rivals(text: str, told: Sequence[Set[str]]) -> Flags:
    """Mark the phrases that say something else than a query, (N,): False where one has all words of the other.

    Where no phrase says something else, all are marked.

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
