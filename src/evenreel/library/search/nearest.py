"""Scores of clips under one query: by codes, and exactly for every clip where the difference could be seen.

A score by codes is within a known error of the exact one. A clip is scored exactly unless, whatever its error is, it
is not among the nearest by similarity, not among the nearest by z, and on the same side of every bar between the states
of an answer. So the nearest clips, their ranks and z, and the numbers of clips that fit are as if all were exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np

from evenreel.arrays import Flags, Indices
from evenreel.library.search.compact_ids import Encoded, encoded_ids
from evenreel.library.store.confidence import FITS, MAY_FIT
from evenreel.library.store.vectors import VectorIndex
from evenreel.types import FloatArray

EXACT_ROWS = 10_000
"""Number of moments up to which all are scored exactly: it takes some 2 ms."""

NEAREST = 256
"""Number of nearest clips whose scores and ranks are exact."""

ROUNDING = 1e-5
"""Added to the error of a scan, for scores that are rounded before they are compared."""


@dataclass(frozen=True)
class ComparedClips:
    """Clips that a query is compared with, and the scores of nonsense on them.

    Attributes:
        first_rows: (C,) first row of each in the vectors.
        counts: (C,) rows of each.
        means: (C,) mean score of nonsense queries.
        deviations: (C,) their standard deviation.
        null_best: (N,) best z of each nonsense query, sorted; empty where it was not measured.
    """

    first_rows: Indices
    counts: Indices
    means: FloatArray
    deviations: FloatArray
    null_best: FloatArray


@dataclass(frozen=True, eq=False)
class ExactlyScored:
    """Clips whose scores have to be exact.

    Attributes:
        nearest: number of nearest clips whose scores and ranks are exact.
        also: ids in UTF-8 of further clips whose scores are exact, such as those that words have found, (N,).
        models: most models that say whether a clip fits; each has to say it so many times as surely.
    """

    nearest: int = NEAREST
    also: Encoded = field(default_factory=lambda: encoded_ids(()))
    models: int = 1

    @property
    def bars(self) -> list[float]:
        """Shares of nonsense that a clip has to beat, for each number of models that may be left in the end."""
        return [1 - (1 - share) / models for share in (FITS, MAY_FIT) for models in range(1, self.models + 1)]


@dataclass(frozen=True, eq=False)
class ScannedScores:
    """Scores of C clips under one query.

    Attributes:
        scores: (C,) similarity of each one's best frame.
        exact: (C,) which of these are exact; the others are by codes.
    """

    scores: FloatArray
    exact: Flags


def clip_scores(
    clips: ComparedClips,
    vectors: VectorIndex,
    query: FloatArray,
    wanted: ExactlyScored,
    also: Indices | None = None,
) -> ScannedScores:
    """Score clips by their best frame under one query (D,), exactly where it matters (see the module)."""
    queries = query[None]
    if clips.counts.sum() <= EXACT_ROWS:
        exact: FloatArray = vectors.best_per_clip(queries, clips.first_rows, clips.counts)[0]
        return ScannedScores(exact, np.ones(len(exact), np.bool_))
    found: FloatArray = vectors.scan(queries, clips.first_rows, clips.counts)[0]
    unsure = undecided(found, float(vectors.scan_error(queries)[0]) + ROUNDING, clips, wanted)
    if also is not None:
        unsure[also] = True
    again = np.flatnonzero(unsure)
    found[again] = vectors.best_per_clip(queries, clips.first_rows[again], clips.counts[again])[0]
    return ScannedScores(found, unsure)


def undecided(found: FloatArray, error: float, clips: ComparedClips, wanted: ExactlyScored) -> Flags:
    """Tell which scores (C,), each known to within `error`, have to be exact: (C,) of true and false."""
    z, wide = (found - clips.means) / clips.deviations, error / clips.deviations
    again = found >= _nth_largest(found, wanted.nearest) - 2 * error
    again |= z + wide >= _nth_largest(z - wide, wanted.nearest)
    for share in wanted.bars:
        again |= np.abs(z - _bar(clips.null_best, share)) <= wide
    return again


def _bar(null_best: FloatArray, share: float) -> float:
    """The z above which a clip beats a share of nonsense; infinite where nonsense was not measured."""
    return float(null_best[ceil(share * len(null_best) - 1e-9) - 1]) if len(null_best) else np.inf


def _nth_largest(values: FloatArray, n: int) -> float:
    return float(np.partition(values, -n)[-n]) if n < len(values) else -np.inf
