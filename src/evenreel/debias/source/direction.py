"""Removal of the source direction at search time: nothing is trained, and only the query changes.

For each generator g, d_g is the mean vector of its clips less that of real ones, where the vector of a clip is the mean
of its frames. With U an orthonormal basis of all d_g, a query q becomes

    q' = q - U U^T q,   so that   q'.f = q.f - (U^T q).(U^T f)   for every frame f,

and the stored vectors stay as they are. Under every query the mean score of a generator's clips then equals that of the
real ones they were compared with, if clips are scored by the mean of their frames: q'.d_g = 0. Search scores a clip by
its best frame, for which this need not hold, so measure what is left (`evenreel audit source --library`).

This is linear removal of a concept: Bolukbasi et al., 'Man is to Computer Programmer as Woman is to Homemaker?
Debiasing Word Embeddings', NeurIPS 2016, take out one direction; Haghighatkhah et al., 'Better Hit the Nail on the Head
than Beat around the Bush: Removing Protected Attributes with a Single Projection', EMNLP 2022, the difference of two
means; Belrose et al., 'LEACE: Perfect linear concept erasure in closed form', NeurIPS 2023, prove that no linear
classifier then tells the classes apart. Content that goes with the source is in d_g too, and removed with it (if
generated clips are of dragons, dragons are). Pairs of clips that show the same avoid that, and are used where they are
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.types import CAMERA, FloatArray

MIN_CLIPS = 20
"""Fewest clips of a side: the means of two times 20 stray, by chance, by a third of what single clips do."""

DEPENDENT = 1e-4
"""A direction, of unit length, that has less than this outside the others adds none; vectors are float16."""


@dataclass(frozen=True, eq=False)
class Contrast:
    """Comparison of a generator's clips with real ones, which gives the direction d_g of the generator.

    Attributes:
        source: name of the generator.
        generated: number of generated clips that are compared; with pairs, the number of pairs.
        real: number of different real clips among those compared with.
        paired: whether each generated clip is compared with the real one that it mirrors.
        weights: (C,) weights of all clips; the weighted sum of their vectors is d_g.
    """

    source: str
    generated: int
    real: int
    paired: bool
    weights: FloatArray


def contrasts(sources: Sequence[str | None], mirrored: Indices) -> tuple[Contrast, ...]:
    """Return a comparison with real clips for each generator: by pairs where there are enough, else of all clips.

    Args:
        sources: sources of the C clips: `camera`, a generator, or None where not known.
        mirrored: (C,) row of the real clip that each clip mirrors, -1 where none is known.

    Returns:
        A comparison for each generator with at least `MIN_CLIPS` clips, ordered by name.

    Raises:
        UsageError: there is no comparison, with the reason.

    >>> [one.generated for one in contrasts(["camera"] * 30 + ["sora"] * 25, np.full(55, -1))]
    [25]
    """
    counts = Counter(source for source in sources if source is not None)
    _refuse(counts)
    named = np.array([source or "" for source in sources])
    generators = sorted(set(counts) - {CAMERA})
    made = [_by_pairs(source, named, mirrored) or _by_all(source, named) for source in generators]
    found = tuple(contrast for contrast in made if contrast is not None)
    if not found:
        told = ", ".join(f"{counts[source]:,} of {source}" for source in generators)
        raise UsageError(
            f"Too few clips to tell what sets sources apart: {counts[CAMERA]:,} of a {CAMERA}, {told}; there must be "
            f"{MIN_CLIPS} of a {CAMERA} and {MIN_CLIPS} of one generator."
        )
    return found


def source_basis(directions: FloatArray) -> FloatArray:
    """Compute an orthonormal basis (D, R) of source directions (G, D); R < G where some are dependent or zero."""
    lengths = np.linalg.norm(directions.astype(np.float64), axis=1, keepdims=True)
    longer = lengths[:, 0] > DEPENDENT
    _, sizes, rows = np.linalg.svd(directions[longer] / lengths[longer], full_matrices=False)
    return np.ascontiguousarray(rows[sizes > DEPENDENT].T, np.float32)


def without_source(queries: FloatArray, basis: FloatArray) -> FloatArray:
    """Remove source directions, given by a basis (D, R), from queries (Q, D); these lose their unit length.

    >>> without_source(np.array([[0.6, 0.8]]), np.array([[1.0], [0.0]])).tolist()
    [[0.0, 0.8]]
    """
    return np.asarray(queries - (queries @ basis) @ basis.T, queries.dtype)


def _refuse(counts: Counter[str]) -> None:
    wanted = (
        f"say in a column 'source' of the metadata table: '{CAMERA}' for real clips, the generator's name for others"
    )
    if not counts:
        raise UsageError(f"No clip has a source, so no source can be favoured less; {wanted}.")
    if CAMERA not in counts:
        raise UsageError(f"No clip has the source '{CAMERA}', so there is nothing to compare others with; {wanted}.")
    if len(counts) == 1:
        raise UsageError(f"All clips with a source are of a {CAMERA}, so none can be favoured over another; {wanted}.")


def _by_pairs(source: str, named: NDArray[np.str_], mirrored: Indices) -> Contrast | None:
    generated = np.flatnonzero((named == source) & (mirrored >= 0))
    real = mirrored[generated]
    different = len(np.unique(real))
    if different < MIN_CLIPS:
        return None
    weights = np.zeros(len(named), np.float32)
    weights[generated] = 1 / len(generated)
    np.subtract.at(weights, real, np.float32(1 / len(generated)))
    return Contrast(source, len(generated), different, True, weights)


def _by_all(source: str, named: NDArray[np.str_]) -> Contrast | None:
    generated, real = named == source, named == CAMERA
    if min(generated.sum(), real.sum()) < MIN_CLIPS:
        return None
    weights = (generated / generated.sum() - real / real.sum()).astype(np.float32)
    return Contrast(source, int(generated.sum()), int(real.sum()), False, weights)
