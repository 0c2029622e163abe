"""Figures of pairs in samples with the two clips of some pairs exchanged, which show how far they vary by chance.

Without a preference for a source it does not matter which clip of a pair is called the real one, so exchanging the two,
for all captions at once, makes another sample of the same kind (Fisher 1935). That accounts for hubs: a generated clip
that happens to be a hub is a real one in half of the samples. Samples of captions all contain the hub; where there are
hubs they report a preference in galleries that have none.

The samples are symmetric around the neutral value, so an interval that is made by inversion
(`evenreel.audits.statistics.inversion`) leaves that out as often as the test by the same samples rejects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.pairs import PairedScores
from evenreel.audits.settings import AuditSettings
from evenreel.audits.statistics.deltas import LOCATION_METRICS, Figures
from evenreel.evaluation.intervals import GroupedColumns
from evenreel.evaluation.metrics import PerQuery

Drawn = dict[str, Figures]
"""(1 + B,) figures by their words: as measured first, then of each of B samples."""

Flips = NDArray[np.bool_]
Block = NDArray[Any]

_RANKS_BYTES = 32 * 2**20
"""Of the ranks that are kept for medians; with more captions fewer samples are taken at a time."""

_DEPTHS = {str(one): one.cutoff for one in LOCATION_METRICS if isinstance(one.cutoff, int)}


def drawn_flips(clusters: int, settings: AuditSettings) -> Flips:
    """Draw which of G clusters of pairs are exchanged in each sample, (1 + B, G): none in the first row.

    In the other rows each is with probability 1/2. With one cluster B is 0.
    """
    samples = settings.resamples if clusters > 1 else 0
    flips = np.random.default_rng(settings.seed).random((1 + samples, clusters)) < 0.5
    flips[0] = False
    return flips


def swapped_figures(first: PerQuery, second: PerQuery, cluster: NDArray[np.int64], flips: Flips) -> tuple[Drawn, Drawn]:
    """Compute figures of real clips and mirrors in each sample of exchanged pairs, from columns that stay the same.

    Args:
        first: (Q,) columns of real clips, see `evenreel.evaluation.ranking.hit_columns`.
        second: (Q,) columns of mirrors.
        cluster: (Q,) cluster of each caption, a column of `flips`.
        flips: (1 + B, G) whether a sample exchanges the clips of a cluster.
    """
    every = flips.shape[1]
    both = GroupedColumns(
        {name: np.concatenate([first[name], second[name]]) for name in first},
        np.concatenate([cluster, cluster + every]),
    )
    there = np.unique(cluster)  # only clusters with a query make a column
    kept, left = 1.0 - flips[:, there], flips[:, there] * 1.0
    times = np.hstack([kept, left]), np.hstack([left, kept])
    one, other = ({str(metric): both.figure(metric, side) for metric in LOCATION_METRICS} for side in times)
    return one, other


def swapped_alone(
    paired: PairedScores, flips: Flips, band_bytes: int, ahead: NDArray[np.int64] | None = None
) -> tuple[Drawn, Drawn]:
    """Compute figures in galleries of one kind of clip (real, or mirrors) in each sample of exchanged pairs.

    Args:
        paired: scores of Q captions and n pairs.
        flips: (1 + B, G) whether a sample exchanges the clips of a cluster of pairs.
        band_bytes: about how many bytes of scores are read at once.
        ahead: (Q,) whether each caption's real clip (1) or its mirror (0) is put first in the mixed gallery; the
            figures are then those of the clips' places there, 2r - 1 for the one put first and 2r for the other.

    Returns:
        Figures of the real clips, and of their mirrors.

    Raises:
        ScoresError: a score is NaN.
    """
    captions = len(paired.pair)
    step = max(1, _RANKS_BYTES // (2 * 4 * captions))
    parts = [_alone(paired, flips[at : at + step], band_bytes, ahead) for at in range(0, len(flips), step)]
    real, generated = (
        {word: np.concatenate([part[side][word] for part in parts]) for word in parts[0][side]} for side in (0, 1)
    )
    return real, generated


class _SwapTally:
    """Figures of one kind of clip in B samples: sums of hits, and the ranks that medians need."""

    def __init__(self, captions: int, samples: int) -> None:
        self._ranks = np.empty((captions, samples), dtype=np.float32)
        self._sums = {word: np.zeros(samples) for word in _DEPTHS}

    def add(self, held: slice, above: Block, others: Block, found: Flips, ahead: NDArray[np.int64] | None) -> None:
        """(b, B) clips above and equals of some captions, (b, B) whether the clip is retrieved at all."""
        above, others = above.astype(np.float64), others.astype(np.float64)
        rank = above + 1 + others / 2
        self._ranks[held] = rank if ahead is None else 2 * rank - ahead[:, None]
        for word, cutoff in _DEPTHS.items():
            depth = cutoff if ahead is None else (cutoff + ahead[:, None]) // 2
            self._sums[word] += (found * np.clip((depth - above) / (others + 1.0), 0, 1)).sum(axis=0)

    def result(self) -> Drawn:
        """(B,) figures by their words; shares in percent."""
        means = {word: 100 * sums / len(self._ranks) for word, sums in self._sums.items()}
        return means | {
            "MedR": np.median(self._ranks, axis=0).astype(np.float64),
            "MeanR": self._ranks.mean(axis=0, dtype=np.float64),
        }


def _alone(paired: PairedScores, flips: Flips, band_bytes: int, ahead: NDArray[np.int64] | None) -> tuple[Drawn, Drawn]:
    tallies = [_SwapTally(len(paired.pair), len(flips)) for _ in range(2)]
    swapped = np.ascontiguousarray(flips[:, paired.cluster].T, dtype=np.float32)  # (n, B)
    for held, real, generated in paired.bands(band_bytes):
        pair = paired.pair[held]
        own = [side[np.arange(len(pair)), pair] for side in (real, generated)]
        # (2, b, B): above and equal to the real clip, then to its mirror, among clips called real and called mirrors.
        standing = [counted(real, generated, score, swapped) for score in own]
        flipped = swapped[pair] > 0
        for number, (tally, put) in enumerate(zip(tallies, _ahead(ahead, held), strict=True)):
            above, equal = (
                np.where(flipped, standing[1 - number][number][kind], standing[number][number][kind]) for kind in (0, 1)
            )
            found = np.where(flipped, (own[1 - number] > -np.inf)[:, None], (own[number] > -np.inf)[:, None])
            tally.add(held, above, equal - 1, found, put)
    first, second = (tally.result() for tally in tallies)
    return first, second


def _ahead(ahead: NDArray[np.int64] | None, held: slice) -> Iterator[NDArray[np.int64] | None]:
    """Yield `ahead` for the real clips of some captions, then for their mirrors."""
    yield None if ahead is None else ahead[held]
    yield None if ahead is None else 1 - ahead[held]


def counted(first: Block, second: Block, own: Block, swapped: Block) -> list[tuple[Block, Block]]:
    """Count the clips that score above, and equal to, one score of each caption, in samples of exchanged clips.

    Args:
        first: (b, n) scores of clips.
        second: (b, n) scores of the clips that they are exchanged with.
        own: (b,) scores to compare with.
        swapped: (n, B), 1 where a sample exchanges a clip.

    Returns:
        Counts above (b, B) and equal (b, B), of the clips that are then in place of the first ones, and of the second.
    """
    column = own[:, None]
    counts: list[list[Block]] = [[], []]
    for test in (np.greater, np.equal):
        kept, other = test(first, column), test(second, column)
        change = (other.astype(np.float32) - kept) @ swapped
        for side, start, sign in zip(counts, (kept, other), (1, -1), strict=True):
            side.append(start.sum(axis=1, dtype=np.float32)[:, None] + sign * change)
    return [(above, equal) for above, equal in counts]
