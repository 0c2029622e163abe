"""Rule that turns the signals of an answer into probabilities; it holds for the model that it was fitted for.

Two logistic regressions: how likely anything in the library shows what was asked for, and how likely one clip does.
'Fits' and 'may fit' follow from the first: an answer is given where the probability is one that `ANSWERED` of the
plausible queries of the fitted set of as many words reached that nothing answers, in libraries of as many clips.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column
from evenreel.language.folding import content_words
from evenreel.library.calibration.signals import NearestClips
from evenreel.library.search.hits import STATES, State
from evenreel.types import FloatArray

ANSWERED, PERHAPS = 0.05, 0.15
"""Shares of plausible queries without an answer for which clips are said to fit, or at least that they may fit."""

LIKELY, POSSIBLE = 0.5, 0.1
"""Probabilities from which a clip fits, or may fit, where the library has an answer."""

BEYOND = 1.3
"""Largest library that gets probabilities, in multiples of the largest one that the rule was fitted on."""


@dataclass(frozen=True)
class LogisticRule:
    """Logistic regression of an answer on its signals.

    Attributes:
        intercept: log odds where all signals are 0.
        weights: one of each signal.
    """

    intercept: float
    weights: tuple[float, ...]

    def log_odds(self, rows: NDArray[np.float64]) -> Column:
        """Return the log odds of each row of signals: (N, F) to (N,)."""
        odds: Column = self.intercept + rows @ np.array(self.weights)
        return odds


@dataclass(frozen=True)
class Thresholds:
    """Probabilities from which an answer fits or may fit, by the size of the library; between sizes on a log scale.

    Attributes:
        sizes: numbers of clips, rising.
        fits: for each size, the probability from which an answer fits.
        may_fit: for each size, the probability from which an answer may fit.
    """

    sizes: tuple[int, ...]
    fits: tuple[float, ...]
    may_fit: tuple[float, ...]

    def state(self, probability: float, clips: int) -> State:
        """Return whether an answer with a probability fits, may fit or is nothing, in a library of `clips` clips."""
        at, sizes = np.log(clips), np.log(self.sizes)
        if probability >= np.interp(at, sizes, self.fits):
            return "fits"
        return "may_fit" if probability >= np.interp(at, sizes, self.may_fit) else "nothing"


@dataclass(frozen=True, eq=False)
class AnswerProbabilities:
    """Probabilities for one query.

    Attributes:
        anything: probability that any clip of the library shows what the query describes.
        clips: (H,) probability that each of the nearest clips shows it.
        states: (H,) place in `STATES` of the state of each of these clips.
    """

    anything: float
    clips: Column
    states: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class AnswerCalibration:
    """Rule fitted for one model, with the set that it was fitted on.

    Attributes:
        encoder_id: name of the model.
        weights_hash: hash of its weights.
        fitted_on: sentence about the clips and queries.
        date: date of the fit, as in 2026-11-23.
        phrases: N plausible phrases that a query is compared with.
        vectors: (N, D) their vectors, of unit length.
        anything: rule for the signals of a query.
        clip: rule for the signals of a clip.
        thresholds: what 'fits' and 'may fit' mean for a query of one word, of two, and of more; of the same sizes.
    """

    encoder_id: str
    weights_hash: str
    fitted_on: str
    date: str
    phrases: tuple[str, ...]
    vectors: FloatArray
    anything: LogisticRule
    clip: LogisticRule
    thresholds: tuple[Thresholds, Thresholds, Thresholds]

    @cached_property
    def phrase_words(self) -> tuple[frozenset[str], ...]:
        """The content words of each phrase."""
        return tuple(frozenset(content_words(phrase)) for phrase in self.phrases)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of clips of the libraries that the rule was fitted on, in ascending order."""
        return self.thresholds[0].sizes

    @property
    def most_clips(self) -> int:
        """Number of clips of the largest library that the rule holds for."""
        return int(BEYOND * self.sizes[-1])

    def covers(self, clips: int) -> bool:
        """Return whether the rule holds for a search among so many clips."""
        return self.sizes[0] <= clips <= self.most_clips

    def probabilities(self, nearest: NearestClips) -> AnswerProbabilities:
        """Compute the probability that the library answers, and those of its nearest clips, none of which is larger.

        The nearest clip fits where the library answers, and so do others that are as likely as not.
        """
        odds = float(self.anything.log_odds(nearest.query_row()[None])[0])
        anything = float(logistic(np.array(odds)))
        clips = np.minimum(logistic(self.clip.log_odds(nearest.clip_rows(odds))), anything)
        said = self.thresholds[nearest.words_asked].state(anything, nearest.clips)
        return AnswerProbabilities(anything, clips, _states(said, clips))


def logistic(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert log odds, of any shape, to probabilities.

    Example:
        >>> logistic(np.array([-800.0, 0.0, 800.0])).tolist()
        [0.0, 0.5, 1.0]
    """
    small = np.exp(-np.abs(odds))
    return np.where(odds >= 0, 1.0, small) / (1.0 + small)


def _states(library: State, probabilities: Column) -> NDArray[np.int8]:
    """What is said of clips (H,), the nearest first, where something is said of the library: places in `STATES`."""
    nearest = np.arange(len(probabilities)) == 0
    least: State = "may_fit" if library != "nothing" else "nothing"
    states = np.full(len(probabilities), STATES.index("nothing"), np.int8)
    states[nearest | (probabilities >= POSSIBLE)] = STATES.index(least)
    states[nearest | (probabilities >= LIKELY)] = STATES.index(library)
    return states
