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
Marks = NDArray[np.bool_]

_EQUAL = 1e-5
"""Preferences that differ by less, in standard deviations of scores, differ by the rounding of float32 alone."""


@dataclass(frozen=True)
class Flatness:
    """How much flatter the scores of edited captions are than those of true ones, 1 where they are not.

    Scores of the true captions are brought down by it before they are compared: a clip that a caption fits best would
    lose most by flatter scores, whatever they read.

    Attributes:
        spread: ratio of the standard deviations of other clips' scores, the median over captions, at most 1.
        slope: slope of the line through the other clips from true to edited scores, likewise.
    """

    spread: float = 1.0
    slope: float = 1.0


@dataclass(frozen=True, eq=False)
class Choices:
    """What the own clips of Q captions prefer of a true caption and an edited one; NaN where a score is minus infinity.

    Attributes:
        chosen: (Q,) 100 where the clip scores the true caption higher, 50 where both alike, else 0.
        beyond: (Q,) share of the other clips that prefer the true caption less than the own clip does, ties half, in
            percent; 50 on average where the ranking does not read what was edited.
        margin: (Q,) preference of the own clip less the mean of the other clips', in standard deviations of the scores
            of the true caption; NaN also where these are all equal.
        blurred: (Q,) as `beyond`, if the edited caption is taken to say less of everything (`Flatness.slope`); below 50
            where the ranking does not read what was edited and scores are noisy.
    """

    chosen: Column
    beyond: Column
    margin: Column
    blurred: Column

    @classmethod
    def of(cls, true: Block, edited: Block, own: NDArray[np.int64], flat: Flatness) -> Choices:
        """Compute the choices of b own clips.

        Args:
            true: (b, V) scores of the true captions.
            edited: (b, V) scores of the edited ones.
            own: (b,) column of the clip of each.
            flat: how much flatter the scores of edited captions are.

        >>> found = Choices.of(np.array([[3.0, 1.0, 2.0]]), np.array([[1.0, 1.0, 1.0]]), np.array([0]), Flatness())
        >>> found.chosen.tolist(), found.beyond.tolist(), found.margin.tolist()
        ([100.0], [100.0], [3.0])
        """
        rows, others = np.arange(len(own)), _others(true, edited, own)
        spread = _spread(true, others)
        asked = np.where(np.isfinite(true[rows, own] + edited[rows, own]) & others.any(axis=1), 1.0, np.nan)
        with np.errstate(invalid="ignore", divide="ignore"):  # minus infinity less itself; no spread
            chosen = 50 * (1 + np.sign(true[rows, own] - edited[rows, own]))
            apart, lined = (_apart(weight * true - edited, rows, own) for weight in (flat.spread, flat.slope))
            margin = _mean(apart, others) / np.where(spread > 0, spread, np.nan)
        shares = (_share(one, others, _EQUAL * spread) for one in (apart, lined))
        beyond, in_line = (share * asked for share in shares)
        return cls(chosen * asked, beyond, margin * asked, in_line)


FIGURES = tuple(field.name for field in fields(Choices))


def measured_choices(perturbed: Perturbed, edit: str, band_bytes: int) -> Choices:
    """Compute the choices of all captions between what they say as they are and after an edit.

    Args:
        perturbed: scores of captions as they are, and after edits.
        edit: name of the edit.
        band_bytes: about how many bytes of scores are read at once; the scores are read twice.

    Raises:
        ScoresError: a score is NaN.
    """
    flat = _flatness(perturbed, edit, band_bytes)
    parts = [
        Choices.of(*_blocks(perturbed, edit, held), perturbed.own[held], flat) for held in perturbed.bands(band_bytes)
    ]
    return Choices(*(np.concatenate([getattr(part, name) for part in parts]) for name in FIGURES))


def _flatness(perturbed: Perturbed, edit: str, band_bytes: int) -> Flatness:
    parts = []
    for held in perturbed.bands(band_bytes):
        true, edited = _blocks(perturbed, edit, held)
        others = _others(true, edited, perturbed.own[held])
        spread, after = _spread(true, others), _spread(edited, others)
        centred = [np.where(others, one - _mean(one, others)[:, None], 0.0) for one in (true, edited)]
        with np.errstate(invalid="ignore", divide="ignore"):  # all other clips score the same
            parts.append([after / spread, _mean(centred[0] * centred[1], others) / spread**2])
    ratio, slope = (one[np.isfinite(one)] for one in np.concatenate(parts, axis=1))
    return Flatness(*(min(1.0, float(np.median(one))) if len(one) else 1.0 for one in (ratio, slope)))


def _blocks(perturbed: Perturbed, edit: str, held: slice) -> tuple[Block, Block]:
    true, edited = (perturbed.versions[name].block(held).astype(np.float64) for name in (AS_IS, edit))
    return true, edited


def _others(true: Block, edited: Block, own: NDArray[np.int64]) -> Marks:
    """(b, V) which clips are not the own one and have both scores."""
    known = np.isfinite(true) & np.isfinite(edited)
    known[np.arange(len(own)), own] = False
    return known


def _apart(preferred: Block, rows: NDArray[np.intp], own: NDArray[np.int64]) -> Block:
    """(b, V) preference of the own clip less that of each."""
    return np.asarray(preferred[rows, own][:, None] - preferred)


def _share(apart: Block, others: Marks, equal: Column) -> Column:
    """(b,) percent of the other clips that something is above 0 for, as good as 0 half."""
    counts = np.where(np.abs(apart) <= equal[:, None], 0.5, apart > 0)
    return 100 * _mean(counts, others)


def _mean(values: Block, others: Marks) -> Column:
    """(b,) mean over the other clips."""
    return np.asarray(np.where(others, values, 0.0).sum(axis=1) / np.maximum(others.sum(axis=1), 1))


def _spread(scores: Block, others: Marks) -> Column:
    """(b,) standard deviation of the scores of the other clips."""
    centred = np.where(others, scores - _mean(scores, others)[:, None], 0.0)
    return np.asarray(np.sqrt(_mean(centred**2, others)))
