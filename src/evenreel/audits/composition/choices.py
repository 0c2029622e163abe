"""Which of two captions a clip prefers, the true one or one that says another thing, beyond what other clips prefer.

An edited caption may be longer, odder or worded more rarely than the true one, and a ranking that is deaf to what was
edited may still prefer the true one, for every clip. So the preference of a caption's own clip is held against that of
every other clip for the same two captions: what all clips prefer says nothing of the clip.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column
from evenreel.audits.edits.perturbed import AS_IS, Perturbed

Block = NDArray[Any]

FEW_CLIPS = 10
"""With fewer other clips than this their spread is too uncertain to bring scores of two captions to one scale."""

_EQUAL = 1e-5
"""Preferences that differ by less, in standard deviations of scores, differ by the rounding of float32 alone."""


@dataclass(frozen=True, eq=False)
class Choices:
    """What the own clips of Q captions prefer of a true caption and an edited one; NaN where a score is minus infinity.

    Attributes:
        chosen: (Q,) 100 where the clip scores the true caption higher, 50 where both alike, else 0.
        beyond: (Q,) share of the other clips that prefer the true caption less than the own clip does, ties half, in
            percent; 50 on average where the ranking does not read what was edited.
        margin: (Q,) preference of the own clip less the mean of the other clips', in standard deviations of scores.
        blurred: (Q,) as `beyond`, if the edited caption is taken to say less of everything: its scores are held against
            those that the true ones let expect on the line through the other clips (least squares). Below 50 where the
            ranking does not read what was edited and scores are noisy.
    """

    chosen: Column
    beyond: Column
    margin: Column
    blurred: Column

    @classmethod
    def of(cls, true: Block, edited: Block, own: NDArray[np.int64]) -> Choices:
        """Compute the choices of b own clips.

        Args:
            true: (b, V) scores of the true captions.
            edited: (b, V) scores of the edited ones.
            own: (b,) column of the clip of each.

        >>> found = Choices.of(np.array([[3.0, 1.0, 2.0]]), np.array([[1.0, 1.0, 1.0]]), np.array([0]))
        >>> found.chosen.tolist(), found.beyond.tolist(), found.margin.tolist()
        ([100.0], [100.0], [3.0])
        """
        rows = np.arange(len(own))
        known = np.isfinite(true) & np.isfinite(edited)
        known[rows, own] &= known.sum(axis=1) > 1
        others = known.copy()
        others[rows, own] = False
        asked = np.where(known[rows, own], 1.0, np.nan)
        preferred, in_line = _preferences(true, edited, others)
        apart = preferred[rows, own][:, None] - preferred
        number = np.maximum(others.sum(axis=1), 1)
        with np.errstate(invalid="ignore"):  # minus infinity less itself
            chosen = 50 * (1 + np.sign(true[rows, own] - edited[rows, own]))
        margin = np.where(others, apart, 0.0).sum(axis=1) / number
        lined = in_line[rows, own][:, None] - in_line
        return cls(*(one * asked for one in (chosen, _share(apart, others), margin, _share(lined, others))))


FIGURES = tuple(field.name for field in fields(Choices))


def measured_choices(perturbed: Perturbed, edit: str, band_bytes: int) -> Choices:
    """Compute the choices of all captions between what they say as they are and after an edit.

    Args:
        perturbed: scores of captions as they are, and after edits.
        edit: name of the edit.
        band_bytes: about how many bytes of scores are read at once.

    Raises:
        ScoresError: a score is NaN.
    """
    parts = []
    for held in perturbed.bands(band_bytes):
        true, edited = (perturbed.versions[name].block(held).astype(np.float64) for name in (AS_IS, edit))
        parts.append(Choices.of(true, edited, perturbed.own[held]))
    return Choices(*(np.concatenate([getattr(part, name) for part in parts]) for name in FIGURES))


def _share(apart: Block, others: NDArray[np.bool_]) -> Column:
    """(b,) percent of the other clips that something is above 0 for, as good as 0 half."""
    counts = np.where(np.abs(apart) <= _EQUAL, 0.5, apart > 0)
    return np.asarray(100 * np.where(others, counts, 0.0).sum(axis=1) / np.maximum(others.sum(axis=1), 1))


def _preferences(true: Block, edited: Block, others: NDArray[np.bool_]) -> tuple[Block, Block]:
    """(b, V) score of the true caption less that of the edited one, each in its own scale, and off the others' line."""
    one, other = (_scaled(scores, others) for scores in (true, edited))
    number = np.maximum(others.sum(axis=1), 1)
    slope = np.where(others, one * other, 0.0).sum(axis=1) / number
    few = number < FEW_CLIPS
    spread = _spread(true, others)
    with np.errstate(invalid="ignore"):  # minus infinity less itself, of clips that are left out
        plain = (true - edited) / np.where(spread > 0, spread, 1.0)[:, None]
        return np.where(few[:, None], plain, one - other), np.where(few[:, None], plain, slope[:, None] * one - other)


def _scaled(scores: Block, others: NDArray[np.bool_]) -> Block:
    """Scores less the mean of the other clips', in their standard deviations; only less the mean where these are 0."""
    number = np.maximum(others.sum(axis=1), 1)
    mean = np.where(others, scores, 0.0).sum(axis=1) / number
    spread = _spread(scores, others)
    with np.errstate(invalid="ignore"):
        return np.asarray((scores - mean[:, None]) / np.where(spread > 0, spread, 1.0)[:, None])


def _spread(scores: Block, others: NDArray[np.bool_]) -> Column:
    """(b,) standard deviation of the scores of the other clips."""
    number = np.maximum(others.sum(axis=1), 1)
    filled = np.where(others, scores, 0.0)
    mean = filled.sum(axis=1) / number
    return np.asarray(np.sqrt((np.where(others, scores - mean[:, None], 0.0) ** 2).sum(axis=1) / number))
