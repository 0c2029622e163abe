"""Counts of how often each clip is among the first k of a ranking, and measures of their unevenness.

Radovanović, Nanopoulos and Ivanović 2010 ('Hubs in space', JMLR 11): N_k is the number of queries that have a clip
among their k nearest, and its skewness tells how far a few hubs are the neighbours of most. Scores are read twice in
bands, once for the counts and once for what each query adds to the figures; nothing of the size Q x V is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import stdtrit
from scipy.stats import rankdata

from evenreel.arrays import CACHED_BYTES, Column, Indices, row_bands
from evenreel.audits.given import as_inputs
from evenreel.audits.hubness.chance import Chance, EntryCounts, Figure
from evenreel.audits.ordered_rows import OrderedRows, candidates
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.folder import CorpusLike
from evenreel.errors import CorpusError
from evenreel.evaluation.concentration import gini, skewness
from evenreel.evaluation.intervals import Interval, around, clusters_of, numbered
from evenreel.evaluation.ranking import CheckedScores
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import ENOUGH, Effect
from evenreel.types import Corpus, Shown

First = list[tuple[NDArray[np.intp], Column]]
"""For each depth, (b, W) columns of clips and the chance of each to be among the first."""

DEPTHS = (1, 5, 10)
MAIN = 10
"""Depth of the effect, as in the paper on hubs."""

_HUB_DEVIATIONS = 2.0
LEAST = 1e-9
"""An expected count below this is rounding."""

_WIDE = 64
"""A caption whose first places more clips than that share alike shows all of them as often as none in particular."""

_DIGITS = 6
"""Decimals of an expected count: clips that differ by rounding have one rank."""


@dataclass(frozen=True, eq=False)
class Occurrence:
    """Counts of how often each of V clips is among the first k of Q rankings.

    Attributes:
        depth: number k of first clips.
        queries: number Q of rankings.
        counts: (V,) number N_k of rankings with the clip among the first k; an expected number where scores are equal.
        own: (V,) the part of these whose queries the clip answers.
        skewness, gini: skewness and Gini coefficient of the counts; NaN where all are equal or 0.
        chance_skewness, chance_gini: their means over random rankings in which captions of one clip agree.
        chance_never: percentage of the clips that are among the first k of no such random ranking.
    """

    depth: int
    queries: int
    counts: Column
    own: Column
    skewness: Interval
    gini: Interval
    chance_skewness: float
    chance_gini: float
    chance_never: float

    @property
    def chance(self) -> float:
        """Probability that a clip is among the first k of a ranking, if all clips are equally likely."""
        return float(self.counts.sum() / (self.queries * len(self.counts)))

    @property
    def expected(self) -> float:
        """Number of rankings that a clip is among the first k of if all clips are equally likely: the mean of N_k."""
        return float(self.counts.mean())

    @property
    def never(self) -> float:
        """Share of the clips, in percent, that are among the first k of no ranking."""
        return float(100 * (self.counts <= LEAST).mean())


@dataclass(frozen=True, eq=False)
class HubnessMeasures(Shown):
    """Measures of an audit of hubs.

    Attributes:
        clip_ids: V ids of clips.
        names: (V,) names of clips in a report: files for a library's clips, else ids.
        clusters: (Q,) cluster of each query: captions of one clip are no independent evidence.
        occurrences: counts at each of `DEPTHS` below the gallery's size.
        asked: (V,) number of queries that each clip answers; None where no answers are known.
        hubs: (H,) clips whose N_k is more than two standard deviations above the mean, the most shown first.
        hub_places: (Q,) number of hubs among the first k of each query.
    """

    clip_ids: Sequence[str]
    names: Sequence[str]
    clusters: Indices
    occurrences: tuple[Occurrence, ...]
    asked: Indices | None
    hubs: NDArray[np.intp]
    hub_places: Column

    @property
    def main(self) -> Occurrence:
        """Counts at the depth `MAIN`, or at the largest depth below it that the gallery has."""
        return self.occurrences[-1]

    @property
    def effect(self) -> Effect:
        """Skewness of the counts at the main depth, as the effect; its neutral value is that of random rankings."""
        main = self.main
        enough = min(len(self.clip_ids), int(self.clusters.max()) + 1) >= ENOUGH
        found, neutral = main.skewness, round(main.chance_skewness, 3)
        name = f"skewness of how often a clip is among the first {main.depth}"
        return Effect(name, found.value, found.low, found.high, neutral, enough=enough, over="captions")


def measure_hubness(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None = None) -> HubnessMeasures:
    """Measure how often clips are among the first of rankings, and which of them are hubs.

    Args:
        scores: scores of Q captions and V clips; their notes may have `names` of clips, by clip id.
        corpus: corpus that names each caption's own clip; other captions have none.
        settings: confidence, and how much is read at once.

    Raises:
        CorpusError: there is one clip only.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    checked = CheckedScores(scores)
    videos = len(checked.video_ids)
    if videos < 2:
        raise CorpusError("The scores are of one clip; which clips crowd a ranking needs two or more.")
    rankings = _Rankings(checked, tuple(depth for depth in DEPTHS if depth < videos), settings.band_bytes)
    own, clusters = _answers(checked, corpus, settings.cluster)
    counts, owned, shown = _counts(rankings, own, clusters)
    hubs = _hubs(counts[-1])
    influences, hub_places = _influences(rankings, counts, hubs)
    occurrences = []
    for number, depth in enumerate(rankings.depths):
        chance = shown[number].chance({name: of for name, (of, _) in _FIGURES.items()}, settings.seed)
        skew, uneven = (
            _interval(of(counts[number]), influence[number], clusters, chance[name], settings.confidence, _ENDS[name])
            for (name, (of, _)), influence in zip(_FIGURES.items(), influences, strict=True)
        )
        means = chance["skewness"].mean, chance["gini"].mean
        occurrences.append(
            Occurrence(depth, len(own), counts[number], owned[number], skew, uneven, *means, shown[number].never)
        )
    asked = np.bincount(own[own >= 0], minlength=videos) if (own >= 0).any() else None
    names = [scores.about.names.get(clip, clip) for clip in checked.video_ids]
    return HubnessMeasures(checked.video_ids, names, clusters, tuple(occurrences), asked, hubs, hub_places)


@dataclass(frozen=True, eq=False)
class _Rankings:
    """Scores with the depths that are looked at; they are read anew each time."""

    scores: CheckedScores
    depths: tuple[int, ...]
    band_bytes: int

    def __iter__(self) -> Iterator[tuple[slice, First]]:
        """Some captions at a time, with the clips that they are shown first at each depth."""
        for rows, block in row_bands(self.scores, min(self.band_bytes, CACHED_BYTES)):
            nearest = candidates(block, self.depths[-1])
            ordered = OrderedRows.of(np.take_along_axis(block, nearest, axis=1))
            found = []
            for depth in self.depths:
                places, shares = ordered.first(depth)
                found.append((np.take_along_axis(nearest, places, axis=1), shares))
            yield rows, found


def _counts(rankings: _Rankings, own: Indices, clusters: Indices) -> tuple[Column, Column, list[EntryCounts]]:
    """(K, V) how often each clip is shown at each depth, for how many of its own queries, and by which captions."""
    videos = len(rankings.scores.video_ids)
    counts, owned = np.zeros((2, len(rankings.depths), videos))
    entries = [_Entries(videos) for _ in rankings.depths]
    for rows, first in rankings:
        for number, (columns, shares) in enumerate(first):
            answers = shares * (columns == own[rows, None])
            counts[number] += np.bincount(columns.ravel(), shares.ravel(), videos)
            owned[number] += np.bincount(columns.ravel(), answers.ravel(), videos)
            entries[number].add(clusters[rows], columns, shares)
    return counts, owned, [one.shown(int(clusters.max()) + 1) for one in entries]


class _Entries:
    """Which captions show which clips, a few for each caption."""

    def __init__(self, videos: int) -> None:
        self._videos = videos
        self._spread = 0.0
        self._parts: list[tuple[Indices, NDArray[np.intp], Column]] = []

    def add(self, clusters: Indices, columns: NDArray[np.intp], shares: Column) -> None:
        """(b,) clusters of some captions, (b, W) clips, and the chance of each to be among the first."""
        held = shares > 0
        wide = held.sum(axis=1) > _WIDE
        self._spread += float(shares[wide].sum()) / self._videos
        rows, places = np.nonzero(held & ~wide[:, None])
        self._parts.append((clusters[rows], columns[rows, places], shares[rows, places]))

    def shown(self, clusters: int) -> EntryCounts:
        """All of it, what captions of one cluster show as one."""
        rows, columns, shares = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        table = sparse.coo_array((shares, (rows, columns)), shape=(clusters, self._videos)).tocsr()
        table.sum_duplicates()
        order = np.lexsort((table.data, np.repeat(np.arange(clusters), np.diff(table.indptr))))
        return EntryCounts(table.indptr, table.data[order], self._videos, self._spread)


def _influences(rankings: _Rankings, counts: Column, hubs: NDArray[np.intp]) -> tuple[Column, Column]:
    """(2, K, Q) what each query adds to skewness and Gini at the margin, and (Q,) hubs among its first."""
    slopes = np.array([[_slope(of, one) for one in counts] for _, of in _FIGURES.values()])
    influences = np.zeros((*slopes.shape[:2], len(rankings.scores.caption_ids)))
    hub_places = np.zeros(influences.shape[-1])
    is_hub = np.isin(np.arange(counts.shape[1]), hubs)
    for rows, first in rankings:
        for number, (columns, shares) in enumerate(first):
            influences[:, number, rows] = (slopes[:, number][:, columns] * shares).sum(axis=-1)
            hub_places[rows] = (is_hub[columns] * shares).sum(axis=1)  # the last depth is the one that stays
    return influences, hub_places


def _answers(scores: CheckedScores, corpus: Corpus, cluster: str) -> tuple[Indices, Indices]:
    """(Q,) column of the clip that each caption describes, -1 where it is unknown or not ranked; and (Q,) clusters."""
    clip_of = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
    column = {clip: place for place, clip in enumerate(scores.video_ids)}
    clips = [clip_of.get(caption) for caption in scores.caption_ids]
    known = sorted({clip for clip in clips if clip is not None})
    number = dict(zip(known, clusters_of(corpus, cluster).of(known).tolist(), strict=True))
    together = [
        ("alone", caption) if clip is None else ("clip", number[clip])
        for caption, clip in zip(scores.caption_ids, clips, strict=True)
    ]
    order = {one: place for place, one in enumerate(sorted(set(together)))}
    own = [-1 if clip is None else column.get(clip, -1) for clip in clips]
    return np.array(own, dtype=np.int64), np.array([order[one] for one in together], dtype=np.int64)


def _hubs(counts: Column) -> NDArray[np.intp]:
    order = np.argsort(-counts, kind="stable")
    return np.asarray(order[counts[order] > counts.mean() + _HUB_DEVIATIONS * counts.std() + LEAST])


def _slope(of: Callable[[Column], Column], counts: Column) -> Column:
    """(V,) derivative of a figure by each count; 0 where all counts are equal and it has none."""
    return np.zeros(len(counts)) if np.isnan(skewness(counts)) else of(counts)


def _skewness_slope(counts: Column) -> Column:
    apart = counts - counts.mean()
    second, third = (apart**2).mean(), (apart**3).mean()
    return np.asarray(3 / len(counts) * ((apart**2 - second) / second**1.5 - third * apart / second**2.5))


def _gini_slope(counts: Column) -> Column:
    ranks, total = rankdata(counts.round(_DIGITS)), counts.sum()
    return np.asarray(2 / (len(counts) * total) * (ranks - (ranks * counts).sum() / total))


_FIGURES: dict[str, tuple[Figure, Callable[[Column], Column]]] = {
    "skewness": (skewness, _skewness_slope),
    "gini": (gini, _gini_slope),
}
"""Of (V,) counts, each with its derivative."""

_ENDS = {"skewness": (-np.inf, np.inf), "gini": (0.0, 1.0)}
"""Between which values each lies whatever is counted."""


def _interval(
    value: float, influence: Column, clusters: Indices, chance: Chance, confidence: float, ends: tuple[float, float]
) -> Interval:
    """A figure that does not depend on the scale of the counts, from (Q,) what each query adds to it at the margin.

    Both figures are of that kind, so the influences of all queries sum to 0, and their squares, summed over clusters
    of captions, are the variance (infinitesimal jackknife); near chance it is that of random rankings. Student's t has
    a degree of freedom less than clusters.
    """
    member, count = numbered(clusters)
    if np.isnan(value) or count < 2:
        return Interval(value)
    together = np.bincount(member, influence, count)
    variance = chance.corrected(value, float((together**2).sum() * count / (count - 1)))
    half = float(stdtrit(count - 1, (1 + confidence) / 2)) * variance**0.5
    return around(value, value - half, value + half, ends)
