"""Which order captions prefer: of one caption, of the two captions of a pair, and beside captions of other clips.

A caption leads to its clip by the score of the clip less that of the twin. Twins may be liked less whatever a caption
says, as where a decoder sees them otherwise, so what counts is whether a caption leads further to the clip than
another caption does that says nothing of this order, or the opposite.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Indices
from evenreel.audits.order.pairs import OrderPairs
from evenreel.evaluation.ranking import Hits

SAME = 1e-5
"""Scores that differ by less than this share of the spread of a caption's scores are the same but for rounding."""

TEXT_OF_CLIP = "captions of the clip choose it"
TEXT_OF_TWIN = "captions of the twin choose it"
TEXT = "text to video, both captions"
VIDEO = "video to text, clip and twin"
CAPTIONS_RIGHT = "both captions choose right"
VIDEOS_RIGHT = "clip and twin choose right"
ALL_RIGHT = "all four choose right"
LIKED = "clip above twin, any caption"

CHANCES = {
    TEXT_OF_CLIP: 50.0, TEXT_OF_TWIN: 50.0, TEXT: 50.0, VIDEO: 50.0,
    CAPTIONS_RIGHT: 25.0, VIDEOS_RIGHT: 25.0, ALL_RIGHT: 100 / 6, LIKED: 50.0,
}  # fmt: skip
"""What each share is, in percent, of scores at random: of four such scores the two right ones are the highest two in
one of six cases."""


@dataclass(frozen=True, eq=False)
class OwnScores:
    """Scores of Q captions with the clip and the twin of their pair, and the ranks of what each describes.

    Attributes:
        clip: (Q,) score with the clip of the pair.
        twin: (Q,) score with its twin.
        alone: ranks of clips among the V clips; of captions of clips alone.
        together: ranks of clips, or twins, among the V clips and the T twins.
        same: whether no caption's scores of any clip and its twin differ, but for rounding.
    """

    clip: Column
    twin: Column
    alone: Hits
    together: Hits
    same: bool

    @property
    def lead(self) -> Column:
        """Score (Q,) of the clip less that of its twin; 0 where neither is ever retrieved."""
        return _lead(self.clip, self.twin)


def own_scores(pairs: OrderPairs, band_bytes: int) -> OwnScores:
    """Read the scores of captions with their pairs, and rank what each describes.

    Args:
        pairs: captions, clips and twins.
        band_bytes: about how many bytes of scores are read at once.

    Raises:
        ScoresError: a score is NaN.
    """
    clip, twin = np.empty(len(pairs.pair)), np.empty(len(pairs.pair))
    alone, together, furthest, spreads = [], [], 0.0, 0.0
    for held, clips, twins in pairs.bands(band_bytes):
        own, rows = pairs.pair[held], np.arange(held.stop - held.start)
        clip[held], twin[held] = clips[rows, own], twins[rows, own]
        described = np.where(pairs.tells_clip[held], clip[held], twin[held])
        counts = [_above_and_equal(block, described) for block in (clips, twins)]
        of_clip = pairs.tells_clip[held].astype(np.int64)
        alone.append(_hits(held, described, *counts[0], of_clip))
        together.append(_hits(held, described, counts[0][0] + counts[1][0], counts[0][1] + counts[1][1], 1))
        furthest = max(furthest, float(np.abs(_lead(clips[:, : twins.shape[1]], twins)).max()))
        spreads += float(_spreads(clips).sum())
    same = furthest <= SAME * spreads / len(pairs.pair)
    return OwnScores(clip, clip.copy() if same else twin, Hits.joined(alone), Hits.joined(together), same)


def within_pairs(pairs: OrderPairs, own: OwnScores) -> tuple[Column, dict[str, Column]]:
    """Compare the captions of both orders of each pair.

    Returns:
        (n,) chance that a caption of the clip leads further to the clip than one of the twin does, ties half; and
        shares (n,) of each pair in percent, by their names in `CHANCES`.
    """
    said, said_of_twin, pair = _both_captions(pairs)
    one, other = own.clip[said], own.twin[said]
    of_clip, of_twin = own.clip[said_of_twin], own.twin[said_of_twin]
    text, text_of_twin = _beats(one, other), _beats(of_twin, of_clip)
    video, video_of_twin = _beats(one, of_clip), _beats(of_twin, other)
    captions, videos = (text == 1) & (text_of_twin == 1), (video == 1) & (video_of_twin == 1)
    shares = {
        TEXT_OF_CLIP: text, TEXT_OF_TWIN: text_of_twin, TEXT: (text + text_of_twin) / 2,
        VIDEO: (video + video_of_twin) / 2, CAPTIONS_RIGHT: captions, VIDEOS_RIGHT: videos,
        ALL_RIGHT: captions & videos, LIKED: (text + 1 - text_of_twin) / 2,
    }  # fmt: skip
    further = _beats(own.lead[said], own.lead[said_of_twin])
    means = {name: 100 * _means(values, pair, pairs) for name, values in shares.items()}
    return 100 * _means(further, pair, pairs), means


@dataclass(frozen=True, eq=False)
class BesideOthers:
    """How captions of n pairs stand beside those of other pairs, in percent; NaN for a pair without others.

    Attributes:
        further: (n,) chance that a caption of the pair leads further to its clip than a caption of another pair does.
        lent: (n,) contribution of each pair's captions to the mean of `further`, as those that others are held against;
            it has the same mean.
        liked: (n,) share of the other captions that score the clip above its twin.
    """

    further: Column
    lent: Column
    liked: Column


def beside_others(pairs: OrderPairs, own: OwnScores, band_bytes: int) -> BesideOthers:
    """Compare the captions of clips with those of all other pairs (of other clusters), pairs counting alike.

    Args:
        pairs: captions of clips alone.
        own: their scores.
        band_bytes: about how many bytes of scores are read at once.
    """
    count, drawn, lead = len(pairs.clip_ids), pairs.drawn_with, own.lead
    weight = 1 / np.bincount(pairs.pair, minlength=count)[pairs.pair]
    others = count - np.bincount(pairs.cluster)[pairs.cluster].astype(np.float64)
    shares = np.divide(weight, others[pairs.pair], out=np.zeros(len(weight)), where=others[pairs.pair] > 0)
    further, lent, liked = np.zeros(len(lead)), np.zeros(len(lead)), np.zeros(count)
    for held, clips, twins in pairs.bands(band_bytes):
        leads = np.zeros((len(clips), count)) if own.same else _lead(clips[:, :count], twins[:, :count])
        apart = (drawn[held, None] != pairs.cluster).astype(np.float64)
        wins = _beats(lead, leads[:, pairs.pair]) * apart[:, pairs.pair]
        further += weight[held] @ wins
        lent[held] = wins @ shares
        liked += weight[held] @ (_beats(leads, np.zeros(1)) * apart)
    with np.errstate(invalid="ignore", divide="ignore"):  # all pairs are of one cluster
        return BesideOthers(
            100 * np.bincount(pairs.pair, weight * further, count) / others,
            np.asarray(100 * np.bincount(pairs.pair, weight * lent, count), np.float64),
            100 * liked / others,
        )


def _lead(clips: NDArray[Any], twins: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.subtract(clips, twins, out=np.zeros(clips.shape), where=clips != twins, dtype=np.float64))


def _beats(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.float64]:
    """1 where the one is greater, 1/2 where they are equal."""
    return np.asarray((one > other) + 0.5 * (one == other), dtype=np.float64)


def _both_captions(pairs: OrderPairs) -> tuple[Indices, Indices, Indices]:
    """Every caption of a clip with every caption of its twin: indices of both, and of the pair."""
    sides: list[tuple[list[int], list[int]]] = [([], []) for _ in pairs.clip_ids]
    for caption, (pair, tells_clip) in enumerate(zip(pairs.pair.tolist(), pairs.tells_clip.tolist(), strict=True)):
        sides[pair][0 if tells_clip else 1].append(caption)
    every = [(one, other, pair) for pair, (ones, others) in enumerate(sides) for one in ones for other in others]
    said, said_of_twin, pair = np.array(every, dtype=np.int64).T
    return said, said_of_twin, pair


def _means(values: NDArray[Any], pair: Indices, pairs: OrderPairs) -> Column:
    count = len(pairs.clip_ids)
    return np.asarray(np.bincount(pair, values.astype(np.float64), count) / np.bincount(pair, minlength=count))


def _above_and_equal(block: NDArray[Any], own: Column) -> tuple[Indices, Indices]:
    return (block > own[:, None]).sum(axis=1), (block == own[:, None]).sum(axis=1)


def _hits(held: slice, own: Column, above: Indices, equal: Indices, itself: Indices | int) -> Hits:
    """Hits of what captions describe; `itself` is 1 where that is among the equals that were counted."""
    numbers = np.arange(held.start, held.stop)
    return Hits(numbers, above, equal - itself, np.ones_like(above), np.asarray(own > -np.inf))


def _spreads(block: NDArray[Any]) -> Column:
    """Standard deviation of the finite scores of each row; 0 where there is none."""
    known = np.isfinite(block)
    count = np.maximum(known.sum(axis=1), 1)
    values = np.where(known, block, 0).astype(np.float64)
    middle = values.sum(axis=1) / count
    return np.asarray(np.sqrt((known * (values - middle[:, None]) ** 2).sum(axis=1) / count))
