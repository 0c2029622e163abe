"""Audit of hubs: do a few clips dominate the rankings of a system or library?

In a space of many dimensions some points are near to very many others. A clip that is such a hub is shown for queries
that it does not answer, and other clips never are. Radovanović, Nanopoulos and Ivanović 2010 ('Hubs in space', JMLR
11): N_k is the number of queries that have a clip among their k nearest, and its skewness tells how far a few hubs are
the neighbours of most. As in TITAN, the words that bring hubs are reported.

Scores are read twice in bands, once for the counts and once for what each query adds to the figures; nothing of the
size Q x V is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri, stdtrit
from scipy.stats import binom, rankdata

from evenreel.arrays import CACHED_BYTES, Column, Indices, row_bands
from evenreel.audits.inputs import OrderedRows, as_inputs, candidates, paragraph, score_notices
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.folder import CorpusLike
from evenreel.errors import CorpusError
from evenreel.evaluation.concentration import gini, skewness
from evenreel.evaluation.intervals import Interval, around, clusters_of, numbered
from evenreel.evaluation.ranking import CheckedScores
from evenreel.evaluation.scores import ScoresLike
from evenreel.language import Tagged, load_tagger, unknown_share
from evenreel.report.figures import COLOURS, EDGES, axes, bin_names, empty, lorenz
from evenreel.report.result import (
    ENOUGH,
    AuditFigure,
    AuditResult,
    AuditTable,
    Cell,
    Effect,
    Named,
    by_certainty,
    interval_words,
)
from evenreel.report.words import percent
from evenreel.types import Corpus, ScoreBlocks, Shown

if TYPE_CHECKING:
    import plotly.graph_objects as go

DEPTHS = (1, 5, 10)  # depths k; the last is that of the effect, as in the paper on hubs
DRAWS = 100  # random rankings that are made
LISTED = 20  # clips in the table of those that are shown the most
PARTS = ("noun", "verb", "adjective")  # parts of speech whose words are examined: those that TITAN counts
MOST_TAGGED = 5_000  # queries whose words are examined, drawn at random where there are more

FEWEST = 5
"""A word of fewer clusters of captions is not examined."""

CONFIDENCE = 0.95  # that none of all words is listed by chance (Bonferroni)
_LEAST = 1e-9  # an expected count below this is rounding

_WIDE = 64
"""A caption whose first places more clips than that share alike shows all of them as often as none in particular."""

First = list[tuple[NDArray[np.intp], Column]]
"""For each depth, (b, W) columns of clips and the chance of each to be among the first."""


@dataclass(frozen=True, eq=False)
class Occurrence:
    """Counts of how often each of V clips is among the first k of Q rankings."""

    depth: int  # number k of first clips
    queries: int  # number Q of rankings
    counts: Column  # (V,) number N_k of rankings with the clip among the first k; expected where scores are equal
    own: Column  # (V,) the part of these whose queries the clip answers
    skewness: Interval  # of the counts; NaN where all are equal or 0
    gini: Interval  # likewise
    chance_skewness: float  # mean over random rankings in which captions of one clip agree
    chance_gini: float
    chance_never: float  # percentage of the clips that are among the first k of no such random ranking

    @property
    def expected(self) -> float:
        """Number of rankings that a clip is among the first k of if all clips are equally likely: the mean of N_k."""
        return float(self.counts.mean())

    @property
    def never(self) -> float:
        """Share of the clips, in percent, that are among the first k of no ranking."""
        return float(100 * (self.counts <= _LEAST).mean())


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
        """Counts at the largest depth."""
        return self.occurrences[-1]

    @property
    def effect(self) -> Effect:
        """Skewness of the counts at the main depth, as the effect; its neutral value is that of random rankings."""
        main = self.main
        enough = min(len(self.clip_ids), int(self.clusters.max()) + 1) >= ENOUGH
        found, neutral = main.skewness, round(main.chance_skewness, 3)
        name = f"skewness of how often a clip is among the first {main.depth}"
        return Effect(name, found.value, found.low, found.high, neutral, enough=enough, over="captions")


def audit_hubness(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None = None) -> AuditResult:
    """Test whether a few clips are among the first for many queries, more than in random rankings.

    The effect is the skewness of how often each clip is among the first 10 (of fewer in a small gallery).

    Args:
        scores: scores of captions and clips; their notes may have `texts` of queries that the corpus lacks, by caption
            id, and `names` of clips, by clip id.
        corpus: corpus with the captions' words and own clips; it may have no caption.
        settings: confidence, how much is read at once, and the seed of the sample of queries whose words are examined.

    Raises:
        CorpusError: there is one clip only.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    measured = measure_hubness(scores, corpus, settings)
    main, texts = measured.main, texts_of(scores, corpus)
    asked = [texts.get(caption) for caption in scores.caption_ids]
    words = query_words(asked, measured.hub_places, measured.clusters, main.depth, settings.seed)
    return AuditResult(
        name="hubness",
        title="Do a few clips crowd the rankings?",
        sentence=_sentence(measured, words, settings.confidence),
        effect=measured.effect,
        tables=tuple(_tables(measured, words)),
        figures=(
            AuditFigure(
                "How often clips are shown",
                partial(occurrence_bars, main.counts, main.queries, main.depth),
                "Logarithmic upwards: each line is ten times as many clips. Bars far to the right of the dotted line "
                "are hubs.",
            ),
            AuditFigure(
                "Who holds the places",
                partial(place_curves, {one.depth: one.counts for one in measured.occurrences}, main.queries),
                "The nearer a line is to the upper left corner, the fewer clips are shown.",
            ),
        ),
        notices=(*score_notices(scores, corpus, settings.cluster), *_notices(measured), *words.notices),
        method=(
            paragraph("hubness", "Counts"),
            paragraph("hubness", "By chance", draws=DRAWS),
            paragraph("hubness", "Intervals"),
            *([paragraph("hubness", "Words", most=MOST_TAGGED, tagger=words.tagger)] if words.tested else []),
        ),
        confidence=settings.confidence,
    )


def measure_hubness(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None = None) -> HubnessMeasures:
    """Measure how often clips are among the first of rankings, and which of them are hubs.

    Arguments and errors are those of `audit_hubness`.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    checked = CheckedScores(scores)
    videos = len(checked.video_ids)
    if videos < 2:
        raise CorpusError("The scores are of one clip; which clips crowd a ranking needs two or more.")
    depths = tuple(depth for depth in DEPTHS if depth < videos)
    own, clusters = _answers(checked, corpus, settings.cluster)
    counts, owned = np.zeros((2, len(depths), videos))  # how often clips are shown, and for queries of their own
    shown = [ShownSets(videos) for _ in depths]
    for rows, first in _first(checked, depths, settings.band_bytes):
        for number, (columns, shares) in enumerate(first):
            answers = shares * (columns == own[rows, None])
            counts[number] += np.bincount(columns.ravel(), shares.ravel(), videos)
            owned[number] += np.bincount(columns.ravel(), answers.ravel(), videos)
            shown[number].add(clusters[rows], columns, shares)
    order, last = np.argsort(-counts[-1], kind="stable"), counts[-1]
    hubs = order[last[order] > last.mean() + 2 * last.std() + _LEAST]
    influences, hub_places = _influences(_first(checked, depths, settings.band_bytes), counts, hubs, len(own))
    occurrences = []
    for number, depth in enumerate(depths):
        figures = [of for of, _, _ in _FIGURES]
        by_chance, never = shown[number].chance(int(clusters.max()) + 1, figures, settings.seed)
        skew, uneven = (
            _interval(of(counts[number]), influence[number], clusters, chance, settings.confidence, ends)
            for (of, _, ends), influence, chance in zip(_FIGURES, influences, by_chance, strict=True)
        )
        means = float(by_chance[0].mean), float(by_chance[1].mean)
        occurrences.append(Occurrence(depth, len(own), counts[number], owned[number], skew, uneven, *means, never))
    asked = np.bincount(own[own >= 0], minlength=videos) if (own >= 0).any() else None
    names = [scores.about.names.get(clip, clip) for clip in checked.video_ids]
    return HubnessMeasures(checked.video_ids, names, clusters, tuple(occurrences), asked, hubs, hub_places)


# Counts --------------------------------------------------------------------------------------------------------------


def _first(scores: CheckedScores, depths: Sequence[int], band_bytes: int) -> Iterator[tuple[slice, First]]:
    """Some captions at a time, with the clips that they are shown first at each depth."""
    for rows, block in row_bands(scores, min(band_bytes, CACHED_BYTES)):
        nearest = candidates(block, depths[-1])
        ordered = OrderedRows.of(np.take_along_axis(block, nearest, axis=1))
        found = (ordered.first(depth) for depth in depths)
        yield rows, [(np.take_along_axis(nearest, places, axis=1), shares) for places, shares in found]


def _answers(scores: CheckedScores, corpus: Corpus, cluster: str) -> tuple[Indices, Indices]:
    """(Q,) column of the clip that each caption describes, -1 where it is unknown or not ranked; and (Q,) clusters."""
    clip_of = dict(corpus.captions.select("caption_id", "clip_id").iter_rows())
    column = {clip: place for place, clip in enumerate(scores.video_ids)}
    clips = [clip_of.get(caption) for caption in scores.caption_ids]
    known = sorted({clip for clip in clips if clip is not None})
    number = dict(zip(known, clusters_of(corpus, cluster).of(known).tolist(), strict=True))
    # A caption without a clip, such as a library's query, is a cluster by itself.
    together = [
        ("alone", caption) if clip is None else ("clip", number[clip])
        for caption, clip in zip(scores.caption_ids, clips, strict=True)
    ]
    order = {one: place for place, one in enumerate(sorted(set(together)))}
    own = [-1 if clip is None else column.get(clip, -1) for clip in clips]
    return np.array(own, dtype=np.int64), np.array([order[one] for one in together], dtype=np.int64)


# Chance --------------------------------------------------------------------------------------------------------------
#
# Twenty captions of a clip find much the same, so a clip that one of them ranks high by chance is ranked high by the
# others as well: random rankings are then more uneven than as many independent ones. So the clips found by captions of
# one cluster are replaced by other clips as a set, each set separately.

Figure = Callable[[Column], float]


class Chance(NamedTuple):
    """Mean and variance of a figure, such as the skewness of counts, over random rankings; NaN where it has none."""

    mean: float
    variance: float

    def corrected(self, value: float, variance: float) -> float:
        """Return the variance of a measured figure: near chance that of random rankings, further away the jackknife's.

        Near chance the jackknife overestimates the variance, as it includes the noise of single queries. Beyond three
        standard deviations from chance this matters less and less.
        """
        apart = abs(value - self.mean) / self.variance**0.5 if self.variance else np.inf
        share = min(1.0, (3 / apart) ** 2) if apart else 1.0
        return (1 - share) * variance + share * self.variance


class ShownSets:
    """How often each of G clusters of captions has each of V clips among its first clips."""

    def __init__(self, videos: int) -> None:
        self._videos = videos
        self._spread = 0.0  # what every clip has in addition, from rankings whose first places many clips share
        self._parts: list[tuple[Indices, NDArray[np.intp], Column]] = []

    def add(self, clusters: Indices, columns: NDArray[np.intp], shares: Column) -> None:
        """(b,) clusters of some captions, (b, W) clips, and the chance of each to be among the first."""
        held = shares > 0
        wide = held.sum(axis=1) > _WIDE
        self._spread += float(shares[wide].sum()) / self._videos
        rows, places = np.nonzero(held & ~wide[:, None])
        self._parts.append((clusters[rows], columns[rows, places], shares[rows, places]))

    def chance(self, clusters: int, figures: Sequence[Figure], seed: int) -> tuple[list[Chance], float]:
        """Compute figures of counts (V,) over random rankings, in which each cluster has other clips just as often.

        The percentage of clips that are among the first of no cluster is returned too.
        """
        rows, columns, shares = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        table = sparse.coo_array((shares, (rows, columns)), shape=(clusters, self._videos)).tocsr()
        table.sum_duplicates()
        widths = np.diff(table.indptr)
        entries = table.data[np.lexsort((table.data, np.repeat(np.arange(clusters), widths)))]
        generator, drawn = np.random.default_rng(seed), np.empty((DRAWS, len(figures)))
        for row in drawn:
            places = _distinct(widths, self._videos, generator)
            counts = np.asarray(self._spread + np.bincount(places, entries, self._videos), np.float64)
            row[:] = [figure(counts) for figure in figures]
        known = [column[~np.isnan(column)] for column in drawn.T]
        found = [Chance(one.mean(), one.var(ddof=1)) if len(one) > 1 else Chance(np.nan, 0.0) for one in known]
        return found, float(100 * np.prod(1 - widths / self._videos))


def _distinct(widths: Indices, clips: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Columns of sets one after the other, none twice in a set.

    Sets that repeat a column are drawn again, all at once, while that is likely to end; wide ones are drawn singly.
    """
    owner = np.repeat(np.arange(len(widths)), widths)
    columns = generator.integers(0, clips, len(owner))
    starts = np.cumsum(widths) - widths
    for number in np.flatnonzero(widths**2 > 4 * clips).tolist():
        own = slice(starts[number], starts[number] + widths[number])
        columns[own] = generator.choice(clips, widths[number], replace=False)
    while True:
        cells = np.sort(owner * clips + columns)
        again = np.unique(cells[1:][np.diff(cells) == 0] // clips)
        if not len(again):
            return columns
        mine = np.isin(owner, again)
        columns[mine] = generator.integers(0, clips, int(mine.sum()))


# Intervals -----------------------------------------------------------------------------------------------------------


def _skewness_slope(counts: Column) -> Column:
    """(V,) derivative of the skewness by each count."""
    apart = counts - counts.mean()
    second, third = (apart**2).mean(), (apart**3).mean()
    return np.asarray(3 / len(counts) * ((apart**2 - second) / second**1.5 - third * apart / second**2.5))


def _gini_slope(counts: Column) -> Column:
    """(V,) derivative of the Gini coefficient by each count; clips that differ by rounding have one rank."""
    ranks, total = rankdata(counts.round(6)), counts.sum()
    return np.asarray(2 / (len(counts) * total) * (ranks - (ranks * counts).sum() / total))


_FIGURES: tuple[tuple[Figure, Callable[[Column], Column], tuple[float, float]], ...] = (
    (skewness, _skewness_slope, (-np.inf, np.inf)),
    (gini, _gini_slope, (0.0, 1.0)),
)
"""Of (V,) counts, each with its derivative and the values between which it lies whatever is counted."""


def _influences(
    rankings: Iterator[tuple[slice, First]], counts: Column, hubs: NDArray[np.intp], queries: int
) -> tuple[Column, Column]:
    """(2, K, Q) what each query adds to skewness and Gini at the margin, and (Q,) hubs among its first.

    Where all counts are equal the figures have no derivative, and nothing is added.
    """
    slopes = np.array(
        [[np.zeros(len(one)) if isnan(skewness(one)) else slope(one) for one in counts] for _, slope, _ in _FIGURES]
    )
    influences, hub_places = np.zeros((*slopes.shape[:2], queries)), np.zeros(queries)
    is_hub = np.isin(np.arange(counts.shape[1]), hubs)
    for rows, first in rankings:
        for number, (columns, shares) in enumerate(first):
            influences[:, number, rows] = (slopes[:, number][:, columns] * shares).sum(axis=-1)
            hub_places[rows] = (is_hub[columns] * shares).sum(axis=1)  # the last depth is the one that stays
    return influences, hub_places


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


# Words that bring hubs -----------------------------------------------------------------------------------------------
#
# TITAN (section 3.2.2) says that a matcher which attends too much to some words returns one video for all queries that
# have them, and masks these words. Here they are found in any ranking: the effect of a word is a difference of means,
# and its test that of a correlation under permutations of the clusters of captions (Pitman 1937).


class QueryWords(NamedTuple):
    """Rows of a table of words that bring hubs, how many words of how many queries were tested, tagger and notices."""

    found: tuple[Named, ...] = ()
    tested: int = 0
    tagged: int = 0
    tagger: str = ""
    notices: tuple[str, ...] = ()


def texts_of(scores: ScoreBlocks, corpus: Corpus) -> Mapping[str, str]:
    """Return the texts of queries by id, from the notes of scores (as for a library's queries) or from the corpus."""
    known = dict(corpus.captions.select("caption_id", "text").iter_rows())
    return known | dict(scores.about.texts)


def query_words(
    texts: Sequence[str | None], hub_places: Column, clusters: Indices, depth: int, seed: int = 0
) -> QueryWords:
    """Find the words whose queries have more hubs among their first clips than other queries (Q texts, or None)."""
    rows = np.array([row for row, text in enumerate(texts) if text], dtype=np.int64)
    of = len(rows)
    if not of:
        return QueryWords(notices=("The words of the queries are not known, so none can be said to bring hubs.",))
    if not hub_places[rows].any():
        return QueryWords()
    if of > MOST_TAGGED:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MOST_TAGGED, replace=False))
    tagger = load_tagger()
    tagged = tagger.tag([texts[row] or "" for row in rows.tolist()])
    if unknown_share(tagged) > 0.5:
        unknown = "Most words of the queries are unknown to the English dictionary, so none can be said to bring hubs."
        return QueryWords((), 0, len(rows), tagger.name, (unknown,))
    found, tested = hub_words(tagged, hub_places[rows], clusters[rows], depth)
    some = (f"Words were looked at in {len(rows):,} of {of:,} queries, drawn at random.",) if len(rows) < of else ()
    return QueryWords(found, tested, len(rows), tagger.name, some)


def hub_words(
    tagged: Sequence[Tagged], hub_places: Column, clusters: Indices, depth: int
) -> tuple[tuple[Named, ...], int]:
    """Find the words whose queries have more hubs among their first clips; also return how many words were tested.

    Args:
        tagged: tokens of Q queries.
        hub_places: (Q,) number of hubs among the first `depth` clips.
        clusters: (Q,) cluster of each query, such as the clip of a caption; those of one are no independent evidence.
        depth: number of first clips.
    """
    has, words = _bag(tagged)
    member, count = numbered(clusters)
    sizes = np.bincount(member, minlength=count)
    # A cluster counts once, with the share of its captions that have a word and with their mean number of hubs.
    means = sparse.csr_array((1 / sizes[member], (member, np.arange(len(member)))), shape=(count, len(member)))
    shares = sparse.csr_array(means @ has)
    kept = np.flatnonzero(np.bincount(shares.indices, minlength=len(words)) >= FEWEST)
    z = _correlations(shares[:, kept], means @ hub_places) * (count - 1) ** 0.5
    told = kept[z > ndtri(1 - (1 - CONFIDENCE) / max(len(kept), 1))]
    queries = np.asarray(has.sum(axis=0)).ravel()[told]
    held = (has.T @ hub_places)[told]
    others = (hub_places.sum() - held) / np.maximum(len(tagged) - queries, 1)
    listed: list[Named] = []
    for at in np.argsort(queries * hub_places.mean() - held, kind="stable").tolist():
        mean, other = float(held[at] / queries[at]), float(others[at])
        word, part = words[told[at]]
        listed.append(
            {
                "word": word, "part": part, "queries with it": int(queries[at]), f"hubs in their first {depth}": mean,
                "of queries without it": other, "times": mean / other if other else None,
            }
        )  # fmt: skip
    return tuple(listed), len(kept)


def _bag(tagged: Sequence[Tagged]) -> tuple[sparse.csr_array, list[tuple[str, str]]]:
    """(Q, W) which query has which word, and the words with their parts of speech."""
    number: dict[tuple[str, str], int] = {}
    rows, columns = [], []
    for row, tokens in enumerate(tagged):
        for lemma, part in dict.fromkeys((token.lemma, token.part) for token in tokens if token.part in PARTS):
            rows.append(row)
            columns.append(number.setdefault((lemma, str(part)), len(number)))
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(tagged), len(number))), list(number)


def _correlations(shares: sparse.csr_array, places: Column) -> Column:
    """(W,) of (G, W) columns with a (G,) column; 0 where one of them is constant."""
    count = len(places)
    apart = places - places.mean()
    means = np.asarray(shares.sum(axis=0)).ravel() / count
    squares = np.asarray(shares.multiply(shares).sum(axis=0)).ravel() / count - means**2
    below = np.sqrt(np.maximum(squares, 0.0) * (apart**2).mean()) * count
    above = shares.T @ apart
    return np.asarray(np.divide(above, below, out=np.zeros(len(above)), where=below > 1e-12))


# Tables --------------------------------------------------------------------------------------------------------------


def _tables(measured: HubnessMeasures, words: QueryWords) -> Iterator[AuditTable]:
    rows: list[Named] = [
        {
            "among": f"first {one.depth}", "skewness": one.skewness, "chance": one.chance_skewness,
            "Gini": one.gini, "by chance": one.chance_gini, "never, %": one.never,
            "chance, %": one.chance_never,
            "most": float(one.counts.max() / one.expected) if one.expected else None,
        }
        for one in measured.occurrences
    ]  # fmt: skip
    note = (
        "Chance: what rankings at random give with as many queries. Never: clips that no query has among the first "
        "k; one that equal scores may bring there is not counted. Most: what the clip has that is shown the most, in "
        "times what chance gives."
    )
    if (asked := measured.asked) is not None:
        never, most = float(100 * (asked == 0).mean()), float(asked.max() / asked.mean())
        perfect = {"skewness": skewness(asked), "Gini": gini(asked), "never, %": never, "most": most}
        rows.append({"among": "all that ask for it", **perfect})
        note += " The last row is of how many of the queries each clip answers: what a perfect first place would have."
    yield AuditTable.of("How unevenly clips are shown", rows, note)
    main, first, rows = measured.main, measured.occurrences[0], []
    for clip in np.argsort(-main.counts, kind="stable")[:LISTED].tolist():
        if main.counts[clip] <= _LEAST:
            break
        row: dict[str, Cell | Interval] = {
            "clip": measured.names[clip],
            f"among the first {main.depth}": _whole(main.counts[clip]),
            "times chance": float(main.counts[clip] / main.expected),
        }
        if asked is not None:
            row["of these, its own"] = _whole(main.own[clip])
        if main.depth != first.depth:
            row["stands first"] = _whole(first.counts[clip])
            if asked is not None:
                row["first, its own"] = _whole(first.own[clip])
        if asked is not None:
            row["ask for it"] = int(asked[clip])
        rows.append(row)
    note = f"Numbers of the {main.queries:,} queries; chance gives {main.expected:.1f} among the first {main.depth}."
    if asked is not None:
        note += " Its own: queries that the clip answers. A hub is shown to many others."
    yield AuditTable.of("Clips that are shown the most", rows, note, digits=1)
    note = (
        f"Of {words.tested:,} nouns, verbs and adjectives in {words.tagged:,} queries (those in queries of {FEWEST} "
        f"clips or more) the ones whose queries have more hubs than chance gives any of them ({percent(CONFIDENCE)}). "
        "Those that add the most hubs stand first."
    )
    if words.found:
        yield AuditTable.of("Words that bring hubs", words.found, note)


def _whole(count: float) -> int | float:
    """An expected count is a whole number where no scores are equal."""
    return round(count) if abs(count - round(count)) < _LEAST else float(count)


# Charts --------------------------------------------------------------------------------------------------------------


def occurrence_bars(counts: Column, queries: int, depth: int) -> go.Figure:
    """Draw the share of clips by how many queries have them among the first k, beside that of random rankings."""
    labels, shares, chance = occurrence_shares(counts, queries)
    figure = empty(axes(f"queries that have the clip among their first {depth}", "share of the clips, %"))
    figure.add_bar(
        x=labels, y=[one or None for one in shares.tolist()], name="this ranking", marker_color=COLOURS[0],
        hovertemplate="%{x} queries: %{y:.3g} % of the clips<extra></extra>",
    )  # fmt: skip
    least = 50 / len(counts)  # half a clip: what chance gives below that is nobody
    figure.add_scatter(
        x=labels, y=[one if one >= least else None for one in chance.tolist()], name="at random", mode="lines+markers",
        line={"color": COLOURS[1], "dash": "dot"}, marker={"size": 9},
        hovertemplate="%{x} queries: %{y:.3g} % of the clips at random<extra></extra>",
    )  # fmt: skip
    figure.update_layout(bargap=0.12)
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=labels, showgrid=False)
    figure.update_yaxes(type="log", dtick=1, exponentformat="none", range=[float(np.log10(least)), 2.02])
    return figure


def occurrence_shares(counts: Column, queries: int) -> tuple[list[str], Column, Column]:
    """Return names of bins of counts, and the percentage of clips in each bin: as counted, and by chance.

    Fractions of counts, which equal scores give, are rounded up.

    >>> labels, shares, chance = occurrence_shares(np.array([0.0, 0.5, 1.0, 4.0]), 4)
    >>> labels, shares.tolist(), chance.round(1).tolist()
    (['0', '1', '2', '3–4'], [25.0, 50.0, 0.0, 25.0], [18.5, 38.9, 30.5, 12.1])
    """
    edges = [0, *(edge for edge in EDGES if edge <= queries), queries + 1]
    shown = np.ceil(counts - _LEAST)
    edges = edges[: 1 + next(place for place, edge in enumerate(edges) if edge > shown.max())]
    shares = 100 * np.histogram(shown, edges)[0] / len(counts)
    below = binom.cdf(np.array(edges) - 1, queries, float(counts.mean() / queries))
    return bin_names(edges), np.asarray(shares, np.float64), 100 * np.diff(below)


def place_curves(counts: Mapping[int, Column], queries: int) -> go.Figure:
    """Draw which share of the first k places the most frequent clips hold, for each k, and by chance for the last."""
    figure = empty(axes("clips, those that are shown the most first, %", "share of the places, %"))
    depth, last = list(counts.items())[-1]
    quantiles = (np.arange(len(last)) + 0.5) / len(last)
    lines = {f"first {k}": one for k, one in counts.items()}
    lines[f"first {depth}, at random"] = np.asarray(binom.ppf(quantiles, queries, float(last.mean() / queries)))
    for number, (name, one) in enumerate(lines.items()):
        if not one.sum():
            continue
        across, held = lorenz(one)
        random = number == len(lines) - 1
        figure.add_scatter(
            x=across, y=held, mode="lines", name=name,
            line={"color": COLOURS[-1] if random else COLOURS[number], "dash": "dot" if random else "solid"},
            hovertemplate=f"{name}: %{{x:.1f}} % of the clips hold %{{y:.1f}} %<extra></extra>",
        )  # fmt: skip
    return figure.update_yaxes(range=[0, 101]).update_xaxes(range=[0, 101])


# Sentences -----------------------------------------------------------------------------------------------------------


def _sentence(measured: HubnessMeasures, words: QueryWords, confidence: float) -> str:
    effect, main, hubs = measured.effect, measured.main, measured.hubs
    if isnan(effect.value):
        return f"Every clip is among the first {main.depth} as often as any other, or none is ever: there is no hub."
    even = "No clip crowds the rankings; they are shared out more evenly than by chance"
    lead = by_certainty(
        effect,
        f"Too few to conclude: {main.queries:,} queries and {len(main.counts):,} clips. What was seen",
        "Without an interval no crowding can be told",
        "That a few clips crowd the rankings cannot be told",
        even if effect.value < effect.neutral else "A few clips crowd the rankings",
    )
    top = int(main.counts.argmax())
    said = (
        f"{lead}: the skewness of how often a clip is among the first {main.depth} is "
        f"{effect.value:.2f}{interval_words(effect, confidence)}, where rankings at random give {effect.neutral:.2f}. "
        f"{measured.names[top]!r} is there for {main.counts[top]:,.0f} of {main.queries:,} queries, by chance for "
        f"{main.expected:,.1f}; {main.never:.1f}% of the clips never are, by chance {main.chance_never:.1f}%."
    )
    if len(hubs):
        share = 100 * main.counts[hubs].sum() / main.counts.sum()
        are, take = ("1 hub is", "takes") if len(hubs) == 1 else (f"{len(hubs):,} hubs are", "take")
        of = 100 * len(hubs) / len(main.counts)
        said += f" {are} {of:.1f}% of the clips and {take} {share:.1f}% of these places."
    if named := ", ".join(repr(one["word"]) for one in words.found[:3]):
        said += f" Queries with {named} have more hubs among their first clips than others."
    if effect.is_significant and effect.value > effect.neutral:
        how = "`evenreel evaluate --rescore csls`, or qb-norm and nnn with a bank"
        if measured.asked is None:
            how = "`csls` and others of `evenreel.evaluation.rescoring`"
        said += (
            f" A correction by other queries spreads them out without training ({how}), and `evenreel adapt` trains a "
            "model on such queries without labels."
        )
    return said


def _notices(measured: HubnessMeasures) -> Iterator[str]:
    main = measured.main
    if main.counts.sum() < main.queries * main.depth - 1e-6 * main.queries:
        shown = main.counts.sum() / main.queries
        yield f"Some rankings have fewer than {main.depth} clips: {shown:.1f} on average; chance is given as many."
    if measured.asked is None:
        yield "Nobody says which clip answers which query, so a clip that is shown often may be what people look for."
