"""Fusion of the scores of several systems: a sum of standardised or of plain scores, or of reciprocal ranks.

Standardised scores have the mean over all pairs subtracted and are divided by the deviation, so that systems of
different scales count alike (`evenreel.debias.frame_length` computes these). By ranks, a pair earns 1 / (60 + its rank
in the system's list of its query), added up over systems (Cormack, Clarke and Büttcher 2009, reciprocal rank fusion):
no scale is needed, and lists may leave pairs out.

Blocks are computed when they are read; only ranks for videos' searches are computed at once, and kept.

In two stages a cheap score chooses a shortlist and an expensive one orders it, so that what is found after re-ranking K
clips can be measured as any system is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from evenreel.config import check_kind, check_named, check_scores, check_word
from evenreel.corpus.relevance import RelevantPairs
from evenreel.errors import ScoresError, UsageError
from evenreel.evaluation.metrics import Direction
from evenreel.evaluation.ranking import CheckedScores, aligned
from evenreel.evaluation.saving import query_bands
from evenreel.evaluation.scores import ScoresLike, as_scores
from evenreel.types import NO_NOTES, ScoreBlocks, ScoreNotes, Shown

if TYPE_CHECKING:
    from evenreel.debias.frame_length import Fusion


Way = Literal["standard", "sum", "rank"]

TEST_SPREAD = "mean and spread of the scores to be ranked"
RANKS: dict[Direction, str] = {
    "t2v": "ranks among all clips, for captions' searches alone",
    "v2t": "ranks among all captions, for videos' searches alone",
}
"""What sums of ranks use: they say nothing about the other direction, whose figures they must not be taken for."""

RANK_CONSTANT = 60  # what is added to a rank, as in the paper: the larger, the less the first places stand out


@dataclass(frozen=True, eq=False)
class Validation(Shown):
    """Scores of the systems to be fused on other captions, from which weights and scales are learned.

    Attributes:
        systems: scores of each system with their ids, see `ScoresLike`, in the order of those that are fused.
        answers: which clips answer which captions; None where no weight is learned.
    """

    systems: Sequence[ScoresLike]
    answers: RelevantPairs | None = None


@dataclass(frozen=True, eq=False)
class FusedScores(Shown):
    """Weighted sum of the scores of several systems; implements `ScoreBlocks`."""

    systems: Sequence[ScoreBlocks]  # scores of the same Q captions and V clips in the same order
    fusion: Fusion  # weights, means and scales of the systems
    about: ScoreNotes = NO_NOTES  # notes of all systems, and what the fusion uses

    @property
    def caption_ids(self) -> Sequence[str]:
        """Ids of the rows (captions)."""
        return self.systems[0].caption_ids

    @property
    def video_ids(self) -> Sequence[str]:
        """Ids of the columns (videos)."""
        return self.systems[0].video_ids

    def block(self, captions: slice, videos: slice) -> NDArray[np.float32]:
        """Return the fused scores (q, v), float32, of some captions and videos."""
        total = np.zeros((captions.stop - captions.start, videos.stop - videos.start))
        for system, (factor, constant) in zip(self.systems, self.fusion.terms(), strict=True):
            total += factor * system.block(captions, videos).astype(np.float64) - constant
        return total.astype(np.float32)


@dataclass(frozen=True, eq=False)
class FusedRanks(FusedScores):
    """Fusion by reciprocal ranks of clips for each caption, a weighted sum over systems."""

    def block(self, captions: slice, videos: slice) -> NDArray[np.float32]:
        """Return the fused reciprocal ranks (q, v), float32, of some captions and videos."""
        whole = slice(0, len(self.video_ids))
        total = np.zeros((captions.stop - captions.start, len(self.video_ids)))
        for system, weight in zip(self.systems, self.fusion.weights, strict=True):
            total += weight * reciprocal_ranks(system.block(captions, whole))
        return _listed(total[:, videos])


@dataclass(frozen=True, eq=False)
class FusedVideoRanks(FusedScores):
    """Fusion by reciprocal ranks of captions for each video, a weighted sum over systems, held in memory."""

    def block(self, captions: slice, videos: slice) -> NDArray[np.float32]:
        """Return the fused reciprocal ranks (q, v), float32, of some captions and videos."""
        return self._table[captions, videos]

    @cached_property
    def _table(self) -> NDArray[np.float32]:
        """(Q, V): a rank needs a whole column, which each band of rows would work out again."""
        shape = (len(self.video_ids), len(self.caption_ids))
        table = np.empty(shape[::-1], np.float32)
        for bands in zip(*(query_bands(system.block, shape, "v2t") for system in self.systems), strict=True):
            start, total = bands[0][0], np.zeros(bands[0][1].shape)
            for (_, band), weight in zip(bands, self.fusion.weights, strict=True):
                total += weight * reciprocal_ranks(band)
            table[:, start : start + len(total)] = _listed(total).T
        return table


def fuse(
    systems: Mapping[str, ScoresLike],
    way: Way = "standard",
    *,
    weights: Sequence[float] = (),
    validation: Validation | None = None,
    direction: Direction = "t2v",
) -> FusedScores:
    """Fuse the scores of several systems into one; its notes say what all of them use.

    Args:
        systems: two or more by name, with scores of the same captions and clips, and with their ids, see `ScoresLike`;
            the result has the order of the first.
        way: `standard`, sum of standardised scores; `sum`, of plain scores; `rank`, of reciprocal ranks.
        weights: weight of each system, at least 0, summing to 1; empty to learn them where a validation has answers,
            and else for equal ones.
        validation: scores that means, scales and weights are computed from. Without it, means and scales are those of
            the fused scores, and the notes of the result say so.
        direction: for `rank`, whether clips are ranked for captions (`t2v`) or captions for videos (`v2t`).

    Raises:
        ScoresError: systems differ in captions or clips; a score is NaN or, but for ranks, infinite; all scores of a
            system are the same.
        UsageError: there are fewer than two systems, the weights are wrong, or the validation has captions in common
            with what is fused, or nothing that is taken from it.
    """
    named = _with_ids(systems)
    _check(named, way, weights, validation, direction)
    weights = tuple(float(weight) for weight in weights)
    from evenreel.debias.frame_length import Fusion, learned_weights, standardisation, uniform_weights

    given = _alike(named, finite=way != "rank")
    held_out = None
    if validation is not None:
        names = [f"the validation scores of {name}" for name in named]
        held_out = _alike(_with_ids(dict(zip(names, validation.systems, strict=True))), finite=True)
        if common := sorted(set(given[0].caption_ids) & set(held_out[0].caption_ids)):
            raise UsageError(
                f"{len(common):,} captions are in the validation scores and among those to be ranked, {common[0]!r} "
                "for example; weights and scales are taken from other captions."
            )
    about = ScoreNotes.joined([one.about for one in given])
    about = about.using(*(use for one in held_out or () for use in one.about.uses))
    if way == "rank":
        ranks = FusedRanks if direction == "t2v" else FusedVideoRanks
        return ranks(given, Fusion(weights or uniform_weights(len(given))), about.using(RANKS[direction]))
    looked = held_out or given
    means, scales = standardisation(looked, [one.name for one in looked]) if way == "standard" else ((), ())
    if way == "standard" and held_out is None:
        about = about.using(TEST_SPREAD)
    if not weights and held_out and validation and validation.answers is not None:
        weights = learned_weights(held_out, validation.answers, scales)
    return FusedScores(given, Fusion(weights or uniform_weights(len(given)), means, scales), about)


def _listed(total: NDArray[np.float64]) -> NDArray[np.float32]:
    """Sums of reciprocal ranks; minus infinity where no system lists the pair, which earned nothing."""
    return np.where(total > 0, total, -np.inf).astype(np.float32)


def reciprocal_ranks(values: NDArray[Any], constant: float = RANK_CONSTANT) -> NDArray[np.float64]:
    """Convert scores (q, V) to 1 / (constant + rank) within each row; equal scores share their mean rank.

    Minus infinity, which is never retrieved, earns 0.

    >>> reciprocal_ranks(np.array([[0.3, 0.9, 0.3, -np.inf]]), constant=1.0).tolist()
    [[0.2857142857142857, 0.5, 0.2857142857142857, 0.0]]
    """
    from scipy.stats import rankdata

    ranks = rankdata(-values.astype(np.float64), method="average", axis=1)
    return np.where(np.isneginf(values), 0.0, 1 / (constant + ranks))


class _System:
    """Scores in the order of those of another system, held to being numbers; it is a `ScoreBlocks`."""

    def __init__(self, name: str, scores: ScoreBlocks, like: ScoreBlocks, *, finite: bool) -> None:
        self.name, self._finite = name, finite
        self.caption_ids: Sequence[str] = like.caption_ids
        self.video_ids: Sequence[str] = like.video_ids
        self.about: ScoreNotes = scores.about
        self._scores = CheckedScores(aligned(scores, like))

    def block(self, captions: slice, videos: slice) -> NDArray[Any]:
        try:
            values = self._scores.block(captions, videos)
        except ScoresError as error:
            raise ScoresError(f"{self.name}: {error}") from error
        wrong = np.argwhere(~np.isfinite(values) if self._finite else np.isposinf(values))
        if len(wrong):
            row, column = (int(place) for place in wrong[0])
            caption, video = self.caption_ids[captions.start + row], self.video_ids[videos.start + column]
            raise ScoresError(
                f"{self.name}: the score of {caption!r} and {video!r} is {values[row, column]}, which cannot be added "
                "to another system's; lists that leave pairs out are fused by rank."
            )
        return values


def _with_ids(systems: Mapping[str, ScoresLike]) -> dict[str, ScoreBlocks]:
    check_named(systems, "systems", "scores by the names of their systems", "scores")
    return {name: as_scores(scores, name=f"systems[{name!r}]") for name, scores in systems.items()}


def _check(
    systems: Mapping[str, ScoreBlocks],
    way: str,
    weights: Sequence[float],
    validation: Validation | None,
    direction: str,
) -> None:
    remedy = "give a number for each system, or none"
    check_kind(weights, Collection, "weights", remedy)
    for weight in weights:
        check_kind(weight, Real, "one of the weights", remedy)
    weights = tuple(map(float, weights))  # an array has no truth value
    check_word(way, get_args(Way), "way to fuse")
    check_word(direction, RANKS, "direction")
    if validation is not None:
        check_kind(validation, Validation, "validation", "give Validation(systems, answers), or None")
    if len(systems) < 2:
        raise UsageError(f"A fusion needs the scores of two systems or more; {len(systems)} is given.")
    if weights and len(weights) != len(systems):
        raise UsageError(f"There are {len(weights)} weights for {len(systems)} systems; give one each, or none.")
    if weights and not (min(weights) >= 0 and math.isclose(sum(weights), 1, abs_tol=1e-6)):
        raise UsageError(
            f"The weights are {', '.join(f'{weight:g}' for weight in weights)}, which add up to {sum(weights):g}; they "
            "must be at least 0 and add up to 1."
        )
    if validation is None:
        return
    if way == "rank":
        raise UsageError("Ranks need no scale, and their weights are not learned; leave the validation scores out.")
    if way == "sum" and (weights or validation.answers is None):
        raise UsageError(
            "Sums need no scale, so nothing but weights is taken from validation scores; let these be learned from "
            "answers, or leave the validation scores out."
        )
    if len(validation.systems) != len(systems):
        raise UsageError(
            f"There are validation scores of {len(validation.systems)} systems, and {len(systems)} are fused; give "
            "those of each, in the same order."
        )


def _alike(systems: Mapping[str, ScoreBlocks], *, finite: bool) -> list[_System]:
    """The systems in the order of the first."""
    (first, like), *_ = systems.items()
    for name, scores in systems.items():
        for what, ids, wanted in (
            ("caption", scores.caption_ids, like.caption_ids),
            ("clip", scores.video_ids, like.video_ids),
        ):
            if len(set(ids)) < len(ids):
                raise ScoresError(f"{name} names a {what} twice; every id is there once.")
            if differ := sorted(set(ids) ^ set(wanted)):
                raise ScoresError(
                    f"{first} and {name} are not of the same {what}s: {len(differ):,} are in one alone, {differ[0]!r} "
                    "for example; fuse scores of one part of a corpus."
                )
    return [_System(name, scores, like, finite=finite) for name, scores in systems.items()]


Matrix = NDArray[Any]


class TwoStage:
    """Scores of a search in two stages: a cheap score chooses a shortlist, an expensive one orders it.

    It implements `ScoreBlocks`. The first `depth` videos of the cheap score stand above all others, in the order of the
    expensive one; equal scores stay equal. Where several videos tie for the last places of a shortlist, those that get
    one are drawn at random, so a shortlist never holds more than `depth`. A video whose cheap score is minus infinity
    is on none, and one whose expensive score is that is never retrieved. With a depth of all videos the rankings are
    those of the expensive score.

    The values are places, not similarities, to be compared within a caption's ranking only. `about` has the notes of
    both scores.

    Args:
        cheap: cheap scores of Q captions and V videos.
        expensive: expensive scores of the same captions and videos; the result has its order. Whole rows are read at a
            time.
        depth: number of videos of a shortlist; None for all.
        seed: seed of the draw among ties.

    Raises:
        UsageError: the depth is below 1.
        ScoresError: the cheap score lacks a caption or a video of the expensive one; a score is NaN.
    """

    def __init__(self, cheap: ScoreBlocks, expensive: ScoreBlocks, depth: int | None, seed: int = 0) -> None:
        check_scores(cheap, "cheap")
        check_scores(expensive, "expensive")
        if depth is not None and depth < 1:
            raise UsageError(f"The depth of a shortlist is {depth}; it must be 1 or more.")
        self.caption_ids: Sequence[str] = expensive.caption_ids
        self.video_ids: Sequence[str] = expensive.video_ids
        self._cheap, self._expensive = CheckedScores(aligned(cheap, expensive)), CheckedScores(expensive)
        self._seed = seed
        self._depth = len(expensive.video_ids) if depth is None else min(depth, len(expensive.video_ids))
        self._whole = self._depth == len(expensive.video_ids)
        stages = (expensive,) if self._whole else (cheap, expensive)
        self.about = ScoreNotes.joined([stage.about for stage in stages])

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        """Return the places, as scores (q, v), of some videos in the rankings of some captions; higher is better."""
        start, stop, _ = captions.indices(len(self.caption_ids))
        rows, everything = slice(start, stop), slice(0, len(self.video_ids))
        expensive = np.array(self._expensive.block(rows, everything), np.float64)
        if self._whole:
            return expensive[:, videos]
        cheap = np.array(self._cheap.block(rows, everything), np.float64)
        chosen = np.zeros(cheap.shape, np.bool_)
        np.put_along_axis(chosen, shortlists(cheap, self._depth, self._seed, start), True, axis=1)
        chosen &= cheap > -np.inf
        found = np.where(chosen, len(self.video_ids) + places(expensive), places(cheap))
        found[np.where(chosen, expensive, cheap) == -np.inf] = -np.inf
        return found[:, videos]


def shortlists(cheap: Matrix, depth: int, seed: int = 0, first: int = 0) -> NDArray[np.int64]:
    """Select the columns (q, K) of each caption's best videos, the best first; of ties for the last places some.

    >>> shortlists(np.array([[0.1, 0.9, 0.5]]), 2).tolist()
    [[1, 2]]
    """
    order = np.argsort(-cheap, axis=1, kind="stable")
    if depth < cheap.shape[1]:
        ordered = np.take_along_axis(cheap, order, axis=1)
        for row in np.flatnonzero(ordered[:, depth - 1] == ordered[:, depth]):
            drawn = np.random.default_rng((seed, first + int(row))).permutation(cheap.shape[1])
            order[row] = drawn[np.argsort(-cheap[row, drawn], kind="stable")]
    return order[:, :depth]


def places(scores: Matrix) -> NDArray[np.float64]:
    """Count, for each score, the different scores below it in its row: (q, V); equal scores stay equal.

    >>> places(np.array([[0.5, -1.0, 0.5, 2.0]])).tolist()
    [[1.0, 0.0, 1.0, 2.0]]
    """
    order = np.argsort(scores, axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    steps = np.zeros(scores.shape)
    steps[:, 1:] = np.cumsum(ordered[:, 1:] > ordered[:, :-1], axis=1)
    found = np.empty(scores.shape)
    np.put_along_axis(found, order, steps, axis=1)
    return found
