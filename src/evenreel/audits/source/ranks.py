"""Ranks of real clips and their mirrors, each in a gallery of its own kind, and both in the mixed gallery.

Both directions are read in bands, each score once a direction: nothing of the size Q x V is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.audits.inputs import PairedScores
from evenreel.evaluation.first_hit import Hits

Block = NDArray[Any]

ROWS = ("real", "generated", "mixed real", "mixed generated")
"""Who is looked for, and in which gallery: n clips of its own kind, or all 2n."""


@dataclass(frozen=True, eq=False)
class CaptionRanks:
    """Ranks, in each gallery, of the real clip and of the mirror that answer each of Q captions.

    Attributes:
        hits: first hits by row of `ROWS`, one a caption, of the one clip that counts as relevant; in the mixed gallery
            its counterpart does not.
        real, generated: (Q,) scores of the real clip and of its mirror.
    """

    hits: dict[str, Hits]
    real: Block
    generated: Block

    @property
    def wins(self) -> NDArray[np.float64]:
        """Wins of the real clip over its mirror (Q,): 1 where it scores higher, 1/2 where scores are equal, else 0."""
        return np.asarray((self.real > self.generated) + 0.5 * (self.real == self.generated), dtype=np.float64)


def rank_captions(paired: PairedScores, band_bytes: int) -> CaptionRanks:
    """Compute the ranks of the real clip and its mirror for each caption, in every gallery.

    Raises:
        ScoresError: a score is NaN; the sentence names caption and clip.
    """
    own: list[tuple[Block, Block]] = []
    counts: list[list[Indices]] = []
    for held, real, generated in paired.bands(band_bytes):
        each = np.arange(len(real)), paired.pair[held]
        own.append((real[each], generated[each]))
        counts.append(_standings(real, generated, *own[-1]))
    real_scores, generated_scores = (np.concatenate(side) for side in zip(*own, strict=True))
    hits = {}
    for row, parts in zip(ROWS, zip(*counts, strict=True), strict=True):
        above, equal = np.concatenate(parts, axis=1)
        scores = generated_scores if row.endswith("generated") else real_scores
        hits[row] = _hits(above, equal - 1, np.ones_like(above), scores)
    return CaptionRanks(hits, real_scores, generated_scores)


def rank_videos(paired: PairedScores, captions: CaptionRanks, band_bytes: int) -> dict[str, Hits]:
    """Compute, for each clip as a query, the rank of the best-ranked caption of its pair among all Q captions.

    Returns:
        First hits of `real` clips and of `generated` ones, one a pair that has a caption, in the order of the pairs.

    Raises:
        ScoresError: a score is NaN.
    """
    asked = np.unique(paired.pair)
    number = np.searchsorted(asked, paired.pair)
    own = {"real": captions.real, "generated": captions.generated}
    best = {name: _best(scores, number) for name, scores in own.items()}
    counts = {name: np.zeros((2, len(asked)), np.int64) for name in own}
    for _, *blocks in paired.bands(band_bytes):
        for name, block in zip(own, blocks, strict=True):
            counts[name] += _standing(block[:, asked].T, best[name])
    hits = {}
    for name, (above, equal) in counts.items():
        relevant = np.bincount(number[own[name] == best[name][number]], minlength=len(asked))
        hits[name] = _hits(above, equal - relevant, relevant, best[name])
    return hits


def _standings(real: Block, generated: Block, own: Block, mirror: Block) -> list[Indices]:
    """(2, b) for each of `ROWS`, see `_standing`."""
    alone = [_standing(real, own), _standing(generated, mirror)]
    return alone + [alone[0] + _standing(generated, own), alone[1] + _standing(real, mirror)]


def _standing(block: Block, own: Block) -> Indices:
    """(b, n) scores and (b,) own ones -> (2, b), how many of each row are above, and how many equal."""
    column = own[:, None]
    return np.stack([np.count_nonzero(block > column, axis=1), np.count_nonzero(block == column, axis=1)])


def _best(scores: Block, number: Indices) -> Block:
    """(Q,) scores and the pair of each -> the best of each pair."""
    order = np.argsort(number, kind="stable")
    return np.asarray(np.maximum.reduceat(scores[order], np.flatnonzero(np.diff(number[order], prepend=-1))))


def _hits(above: Indices, others: Indices, relevant: Indices, scores: Block) -> Hits:
    return Hits(np.arange(len(above)), above, others, relevant, np.asarray(scores > -np.inf))
