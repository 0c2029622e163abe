"""How likely the clips of a library show what was asked for, where there is a calibration for its model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices, slices
from evenreel.library.calibration.rule import AnswerCalibration
from evenreel.library.calibration.signals import NearestClips, rivals
from evenreel.library.search.gallery import FrameGallery
from evenreel.library.search.hits import STATES
from evenreel.library.search.nearest import NEAREST
from evenreel.library.store.confidence import CLIPS_AT_ONCE
from evenreel.library.store.vectors import VectorIndex
from evenreel.types import FloatArray

LOOKED_AT = NEAREST
"""Number of nearest clips that get a probability, and more where more are shown; those behind them answer nothing."""

NO_CALIBRATION = (
    "There is no calibration for this model, so nothing is said about how likely a clip is right; 'fits' is a rank "
    "among queries of nonsense (`evenreel calibrate` makes one)."
)


@dataclass(frozen=True, eq=False)
class TextVectors:
    """A query as a calibration reads it: its text, and the vectors of its words by themselves (W, D)."""

    text: str
    words: FloatArray


@dataclass(frozen=True, eq=False)
class JudgedClips:
    """Probability that anything answers, and what is told of H clips.

    Attributes:
        anything: probability that anything in the library shows what the query describes.
        places: (H,) places of the clips in the gallery, rising.
        states: (H,) places of their states in `STATES`.
        probability: (H,) how likely each shows it.
    """

    anything: float
    places: Indices
    states: NDArray[np.int8]
    probability: Column

    def of(self, places: Indices) -> tuple[NDArray[np.int8], Column]:
        """Return state and probability of N clips, (N,) each; those that were not judged are nothing, and NaN."""
        at = np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)
        there = self.places[at] == places
        states = np.where(there, self.states[at], STATES.index("nothing")).astype(np.int8)
        return states, np.where(there, self.probability[at], np.nan)


def uncalibrated(calibration: AnswerCalibration | None, clips: int) -> str | None:
    """Return a sentence on why a search among `clips` clips has no probabilities; None where it has some."""
    if calibration is None:
        return NO_CALIBRATION
    if calibration.covers(clips):
        return None
    return (
        f"The calibration holds for {calibration.sizes[0]:,} to {calibration.most_clips:,} clips, and "
        f"{clips:,} were searched, so nothing is said about how likely a clip is right."
    )


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges the clips of a gallery by a calibration.

    Attributes:
        calibration: rule for the library's model.
        gallery: clips, with the scores of nonsense on them.
        vectors: store of their frames.
    """

    calibration: AnswerCalibration
    gallery: FrameGallery
    vectors: VectorIndex

    def judge(self, query: TextVectors, scores: FloatArray, wanted: Indices) -> JudgedClips:
        """Judge the clips that are nearest to a query.

        Args:
            query: text of the query, and the vectors of its words.
            scores: (C,) its similarity to each clip, -inf for one that is not searched.
            wanted: places of clips that are judged beside the `LOOKED_AT` nearest.

        Raises:
            LibraryError: the vectors cannot be read.
        """
        z = (scores.astype(np.float64) - self.gallery.means) / self.gallery.deviations
        searched = np.flatnonzero(np.isfinite(z))
        first = _nearest(z, searched)
        rest = np.setdiff1d(wanted, first)
        rest = rest[np.isfinite(z[rest])]
        places = np.concatenate([first, rest[np.argsort(-z[rest], kind="stable")]])
        others = rivals(query.text, self.calibration.phrase_words)
        nearest = NearestClips(
            clips=len(searched),
            median=float(np.median(z[searched])),
            z=z[places],
            margins=z[places] - self._highest(others, places),
            words=float(self._z(query.words, places[:1]).min()),
            asked=len(query.words),
        )
        found = self.calibration.probabilities(nearest)
        order = np.argsort(places)
        return JudgedClips(found.anything, places[order], found.states[order], found.clips[order])

    def _highest(self, others: Flags, places: Indices) -> Column:
        """The highest z of any of some of the calibration's phrases (N,) on clips, (H,)."""
        gallery, ascending = self.gallery, np.argsort(places)
        highest = np.empty(len(places), np.float64)
        for part in slices(len(places), CLIPS_AT_ONCE):
            rows = places[ascending[part]]
            # Of all phrases, always the same: their scores on a clip may be kept. z rises with the score.
            found = self.vectors.best_per_clip(self.calibration.vectors, gallery.first_rows[rows], gallery.counts[rows])
            highest[ascending[part]] = np.compress(others, found, axis=0).max(axis=0)
        return (highest - gallery.means[places]) / gallery.deviations[places]

    def _z(self, texts: FloatArray, places: Indices) -> NDArray[np.float64]:
        """How far some texts (N, D) are above nonsense on clips, (N, H)."""
        gallery = self.gallery
        ascending = np.argsort(places)
        rows = gallery.first_rows[places[ascending]], gallery.counts[places[ascending]]
        found = np.empty((len(texts), len(places)), np.float64)
        found[:, ascending] = self.vectors.best_per_clip(texts, *rows)
        return (found - gallery.means[places]) / gallery.deviations[places]


def _nearest(z: Column, searched: Indices) -> Indices:
    """The places of the `LOOKED_AT` nearest clips, in descending z, equal ones in their order."""
    above = z[searched]
    if len(searched) > LOOKED_AT:
        least = len(searched) - LOOKED_AT
        searched = searched[above >= np.partition(above, least)[least]]
    return searched[np.argsort(-z[searched], kind="stable")][:LOOKED_AT]
