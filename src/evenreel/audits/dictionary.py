"""Audit of a scene dictionary: which of its phrases captions name, and which phrases clips get.

BiMa's authors name the bias of their own dictionary as its limit, and publish nothing about it. This audit asks four
things of any dictionary: whether captions name what it has, how unequally, whether some phrases are given to clips
whatever these show, and whether clips get a phrase more often when people say that they show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from evenreel.arrays import Column, Indices
from evenreel.audits.exchange import FIRST, difference_ends, first_share, share
from evenreel.audits.inputs import paragraphs
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.relevance import RelevantPairs
from evenreel.errors import UsageError
from evenreel.evaluation import EvaluationSettings, evaluate
from evenreel.evaluation.concentration import gini, skewness
from evenreel.evaluation.intervals import Interval, percentile_ends, resampled_weights
from evenreel.evaluation.metrics import parse_metrics
from evenreel.features.scene_elements import EmbeddedDictionary, TopElements
from evenreel.language.scene_elements import Elements, SceneDictionary, plain_activity, plain_entity
from evenreel.progress import Progress
from evenreel.report.figures import COLOURS, MOST_POINTS, empty, lorenz, panel_axes, panels, wrapped
from evenreel.report.result import ENOUGH, AuditFigure, AuditResult, AuditTable, Cell, Effect, Row, figure_words
from evenreel.similarity.vectors import EmbeddingTable, VectorScores
from evenreel.types import Corpus, FloatArray

if TYPE_CHECKING:
    import plotly.graph_objects as go

Kind = Literal["entity", "activity"]

NAMES: dict[Kind, str] = {"entity": "entities", "activity": "activities"}
LISTED = 10  # phrases of a kind in a table of the most and the least


@dataclass(frozen=True, eq=False)
class NamedCaptions:
    """Entities and activities that Q captions name."""

    named: Sequence[Elements]  # (Q,) entities and activities of each caption, in base forms (`read_elements`)
    clip_ids: Sequence[str]  # (Q,) id of the clip of each caption
    splits: Sequence[str]  # (Q,) split of the corpus of each caption; empty where it has none


@dataclass(frozen=True, eq=False)
class ChosenElements:
    """Phrases of a dictionary that V clips got, as the most similar to their frames."""

    means: FloatArray  # (V, D) mean frame of each clip
    embedded: EmbeddedDictionary  # the dictionary with vectors of its phrases, by the clips' encoder
    top: TopElements  # the nearest phrases of each clip


def audit_dictionary(
    dictionary: SceneDictionary,
    captions: NamedCaptions | None = None,
    chosen: ChosenElements | None = None,
    settings: AuditSettings | None = None,
    *,
    progress: Progress = lambda share: None,
) -> AuditResult:
    """Audit a scene dictionary; the effect is the mean gain of phrases that captions name, in percentage points.

    Without `captions` there are no coverage, frequencies and gains; without `chosen`, the phrases that clips got, no
    hubs and gains.
    """
    if captions is None and chosen is None:
        raise UsageError("A scene dictionary is audited by captions, by clips or by both; give some of them.")
    settings = settings or AuditSettings()
    found = measure(dictionary, captions, chosen, settings, progress)
    gains = [one.gains for one in found if one.gains]
    gain, described = gain_of_named(gains, settings.confidence), max((one.clips for one in gains), default=0)
    name = "gain of the phrases that captions name, points"
    return AuditResult(
        name="scene_dictionary",
        title="Can the scene dictionary be relied on?",
        sentence=" ".join(_sentences(found, gain, settings)),
        effect=Effect(name, gain.value, gain.low, gain.high, enough=described >= ENOUGH),
        tables=tuple(_tables(found, settings)),
        figures=tuple(_figures(found)),
        notices=(*dictionary.notices, *_notices(found)),
        method=paragraphs("dictionary", "Phrases of captions and clips", "Gain", "Average precision", "Hubs"),
        confidence=settings.confidence,
    )


# What is measured: coverage, skewness, the phrases that clips get, and the gain of each phrase.


class Coverage(NamedTuple):
    """Counts of one split's captions, of the different phrases that they name, and of those that a dictionary has.

    `covered` captions name a phrase of the dictionary; a mention is a phrase in a caption, each once for a caption.
    """

    split: str
    captions: int
    covered: int
    phrases: int
    held: int
    mentions: int
    held_mentions: int


@dataclass(frozen=True, eq=False)
class Gains:
    """Counts of how often P phrases are given to clips whose captions name them, and to other clips with captions."""

    clips: int  # number of clips that have captions
    named: Indices  # (P,) number of clips with a caption that names the phrase
    hits: Indices  # (P,) number of these clips that got the phrase
    other_hits: Indices  # (P,) number of other clips that got the phrase
    low: Column  # (P,) ends of the interval of `gain`, in percentage points; NaN where the gain is NaN
    high: Column
    precision: Column  # (P,) average precision of all clips ranked by the phrase, in percent; NaN where none is named
    # (2, B) for B samples of clips: sum of gains weighted by named clips, and number of these clips
    drawn: NDArray[np.float64]

    @property
    def got(self) -> Column:
        """Percent of the clips that name a phrase, and of the others, which got it (2, P)."""
        others = share(self.other_hits, self.clips - self.named)
        return 100 * np.stack([share(self.hits, self.named), others])

    @property
    def gain(self) -> Column:
        """Share of the named clips that got a phrase less that of others (P,), in points; NaN where either has none."""
        return 100 * (share(self.hits, self.named) - share(self.other_hits, self.clips - self.named))

    @property
    def chance(self) -> Column:
        """Share of the clips that a phrase is named for (P,), in percent: about the average precision by chance."""
        return 100 * self.named / max(self.clips, 1)


@dataclass(frozen=True, eq=False)
class KindMeasures:
    """Measures of the P entities, or the P activities, of a dictionary."""

    kind: Kind  # `entity` or `activity`
    phrases: tuple[str, ...]  # the P phrases
    coverage: tuple[Coverage, ...]  # by split, in the order of their first caption; empty without captions
    mentions: Indices | None  # (P,) number of captions that name each phrase; None without captions
    clips: int  # number V of clips that phrases were chosen for; 0 for none
    chosen: Indices | None  # (P,) number of clips that got each phrase; None where none were chosen
    gains: Gains | None  # gain of each phrase; None without captions or without clips


def measure(
    dictionary: SceneDictionary,
    captions: NamedCaptions | None,
    chosen: ChosenElements | None,
    settings: AuditSettings,
    progress: Progress = lambda share: None,
) -> tuple[KindMeasures, ...]:
    """Measure each kind of phrase that a dictionary has, entities first: coverage, counts and gains."""
    found: list[KindMeasures] = []
    kinds = [kind for kind, name in NAMES.items() if getattr(dictionary, name)]
    for kind in kinds:
        phrases: tuple[str, ...] = getattr(dictionary, NAMES[kind])
        coverage: tuple[Coverage, ...] = ()
        pairs = mentions = of_clips = gains = None
        if captions is not None:
            named = [getattr(one, NAMES[kind]) for one in captions.named]
            place = _spellings(kind, phrases)
            coverage = tuple(_coverages(captions.splits, named, place.keys()))
            # (Q, P), 1 where a caption names a phrase of the dictionary.
            held = {(row, place[phrase]) for row, some in enumerate(named) for phrase in some if phrase in place}
            pairs = _ones(sorted(held), (len(named), len(phrases)))
            mentions = _sums(pairs)
        if chosen is not None:
            places = getattr(chosen.top, NAMES[kind])
            numbers = np.stack([np.repeat(np.arange(len(places)), places.shape[1]), places.ravel()], axis=1)
            got = _ones(numbers, (len(places), len(phrases)))  # (V, P), 1 where a clip got a phrase
            of_clips = _sums(got)
            if captions is not None and pairs is not None:
                said = _said_of_clips(pairs, captions.clip_ids, chosen.top.clip_ids)
                gains = _gains(said, got, chosen.means, getattr(chosen.embedded, NAMES[kind]), settings)
        clips = 0 if chosen is None else len(chosen.means)
        found.append(KindMeasures(kind, phrases, coverage, mentions, clips, of_clips, gains))
        progress(len(found) / len(kinds))
    return tuple(found)


def _spellings(kind: Kind, phrases: Sequence[str]) -> dict[str, int]:
    """Places in the dictionary by what captions may call its phrases: `Red Balls` of a list is their `red ball`.

    A phrase that is there in these very letters comes before one in other letters, else the first one counts.
    """
    plain = plain_entity if kind == "entity" else plain_activity
    places = {phrase: place for place, phrase in enumerate(phrases)}
    return {plain(phrase): place for phrase, place in reversed(places.items())} | places


def _coverages(splits: Sequence[str], named: Sequence[Sequence[str]], held: Set[str]) -> Iterator[Coverage]:
    for split in dict.fromkeys(splits):
        own = [phrases for phrases, of in zip(named, splits, strict=True) if of == split]
        counts = Counter(phrase for phrases in own for phrase in phrases)
        there = [count for phrase, count in counts.items() if phrase in held]
        covered = sum(not held.isdisjoint(phrases) for phrases in own)
        yield Coverage(split, len(own), covered, len(counts), len(there), counts.total(), sum(there))


def _said_of_clips(pairs: sparse.csr_array, of: Sequence[str], clip_ids: Sequence[str]) -> sparse.csr_array:
    """(V, P + 1), 1 where some caption of a clip names a phrase; in the last column where it has any caption."""
    row_of = {clip_id: row for row, clip_id in enumerate(clip_ids)}
    known = [(row_of[clip_id], caption) for caption, clip_id in enumerate(of) if clip_id in row_of]
    belongs = _ones(known, (len(clip_ids), len(of)))
    said = belongs @ sparse.hstack([pairs, sparse.csr_array(np.ones((len(of), 1)))], format="csr")
    said.data[:] = 1.0
    return said


def _ones(places: ArrayLike, shape: tuple[int, int]) -> sparse.csr_array:
    rows, columns = np.array(places, np.int64).reshape(-1, 2).T
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def _sums(matrix: sparse.csr_array) -> Indices:
    return np.asarray(matrix.sum(axis=0)).ravel().astype(np.int64)


def _gains(
    said: sparse.csr_array, got: sparse.csr_array, means: FloatArray, vectors: FloatArray, settings: AuditSettings
) -> Gains | None:
    """Compute gains over the clips that have captions, which alone say what they show; None where no clip has one."""
    described = np.flatnonzero(said[:, [-1]].toarray()[:, 0])
    if not len(described):
        return None
    named, got = said[described][:, :-1].tocsr(), got[described]
    both = named.multiply(got).tocsr()
    counts, hits = _sums(named), _sums(both)
    other_hits = _sums(got) - hits
    low, high = difference_ends(hits, counts, other_hits, len(described) - counts, settings.confidence)
    parts = [np.empty((2, 0))]
    for times in resampled_weights(np.arange(len(described)), settings.resamples, settings.seed):
        drawn, drawn_hits = times @ named, times @ both
        others = times.sum(axis=1, keepdims=True) - drawn
        gain = 100 * (share(drawn_hits, drawn) - share(times @ got - drawn_hits, others))
        parts.append(np.stack([np.nansum(gain * drawn, axis=1), (drawn * ~np.isnan(gain)).sum(axis=1)]))
    precision = _average_precision(named, means[described], vectors)
    return Gains(
        len(described), counts, hits, other_hits, 100 * low, 100 * high, precision, np.concatenate(parts, axis=1)
    )


def gain_of_named(some: Sequence[Gains], confidence: float) -> Interval:
    """Compute the mean gain, in percentage points, over all pairs of a clip and a phrase that its captions name.

    A phrase is weighted by the number of clips that it is named for. The interval is of percentiles over samples of
    clips.
    """
    known = [~np.isnan(one.gain) for one in some]
    total = sum(float((one.gain * one.named)[there].sum()) for one, there in zip(some, known, strict=True))
    pairs = sum(int(one.named[there].sum()) for one, there in zip(some, known, strict=True))
    value = total / pairs if pairs else float("nan")
    if not pairs or not some[0].drawn.shape[1]:
        return Interval(value)
    sums, numbers = np.sum([one.drawn for one in some], axis=0)
    return Interval(value, *percentile_ends(share(sums, numbers), confidence))


def _average_precision(named: sparse.csr_array, means: FloatArray, vectors: FloatArray) -> Column:
    """(P,) of all clips ranked by each phrase, percent, equal scores in expectation; NaN where no clip is named."""
    found = np.full(len(vectors), np.nan)
    if not named.nnz:
        return found
    phrases, clips = [str(place) for place in range(len(vectors))], [str(row) for row in range(len(means))]
    asked = pl.DataFrame({"caption_id": phrases, "clip_id": [clips[0]] * len(phrases), "text": phrases})
    corpus = Corpus(pl.DataFrame({"clip_id": clips}), asked)
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    scores = VectorScores(EmbeddingTable(phrases, vectors), EmbeddingTable(clips, unit))
    settings = EvaluationSettings(metrics=parse_metrics(("mAP",)), directions=("t2v",), resamples=0)
    ranked = evaluate(scores, corpus, settings, relevance=RelevantPairs(named.T.tocsr().astype(np.bool_)))
    result = ranked.directions["t2v"]
    found[[int(place) for place in result.query_ids]] = result.per_query["mAP"]
    return found


# Tables.

_PHRASE_COLUMNS = (
    "kind", "phrase", "named clips", "got it, %", "others, %", "gain", "from", "to", "precision, %", "chance, %"
)  # fmt: skip
_PHRASE_NOTE = (
    "Of the clips that a phrase is named by, and of the others, how many got it; the gain in points with its interval; "
    "average precision, and what a random order reaches."
)


def _tables(found: Sequence[KindMeasures], settings: AuditSettings) -> Iterator[AuditTable]:
    if any(one.coverage for one in found):
        yield _coverage_table(found)
    yield _short_table(found, settings)
    if any(one.chosen is not None for one in found):
        rows = [row for one in found for row in _hub_rows(one)]
        columns = ("kind", "phrase", "clips that get it, %", "clips it names, %", "gain, points")
        note = "A phrase that many clips get and that names few (of those with captions) tells little of any of them."
        yield AuditTable("Phrases that clips get the most", columns, tuple(rows), note, digits=1)
    measured = [(one, one.gains) for one in found if one.gains is not None]
    if not measured:
        return
    # By the interval's end that is nearer to 0, so that phrases of few clips do not lead by luck.
    note = f"{_PHRASE_NOTE} Sorted by the end of the interval that is least in favour of the title."
    for title, best in (("Phrases that gain the most", True), ("Phrases that gain the least", False)):
        rows = []
        for one, gains in measured:
            sure = -gains.low if best else gains.high
            order = np.argsort(np.where(np.isnan(sure), np.inf, sure), kind="stable")[:LISTED]
            rows += _phrase_rows(one, gains, order[~np.isnan(sure[order])].tolist())
        yield AuditTable(title, _PHRASE_COLUMNS, tuple(rows), note, digits=1)
    rows = [row for one, gains in measured for row in _phrase_rows(one, gains, range(len(one.phrases)))]
    note = f"{_PHRASE_NOTE} In the order of the dictionary. A phrase that names no clip, or every one, has no gain."
    yield AuditTable("Every phrase", _PHRASE_COLUMNS, tuple(rows), note, digits=1)


def _coverage_table(found: Sequence[KindMeasures]) -> AuditTable:
    def percent(part: int, whole: int) -> float | None:
        return 100 * part / whole if whole else None

    rows = [
        (
            NAMES[one.kind], part.split or "no split", part.captions, percent(part.covered, part.captions),
            part.phrases, percent(part.held, part.phrases), percent(part.held_mentions, part.mentions),
        )
        for one in found
        for part in one.coverage
    ]  # fmt: skip
    columns = ("kind", "captions of", "captions", "naming some, %", "phrases", "held, %", "of mentions, %")
    note = (
        "Captions that name a phrase of the dictionary; how many phrases they name, how many of these it holds, and "
        "of how many of the mentions. Most phrases are named once or twice, so that few may be most mentions."
    )
    return AuditTable("What captions name, and the dictionary has", columns, tuple(rows), note, digits=1)


def _short_table(found: Sequence[KindMeasures], settings: AuditSettings) -> AuditTable:
    rows: list[Row] = [("phrases", *(len(one.phrases) for one in found))]

    def add(what: str, figure: Callable[[Any], Cell], values: Sequence[object]) -> None:
        rows.append((what, *(None if one is None else figure(one) for one in values)))

    mentions, chosen, gains = zip(*((one.mentions, one.chosen, one.gains) for one in found), strict=True)
    if any(one is not None for one in mentions):
        add("named by no caption, %", _never, mentions)
        add("Gini of mentions", gini, mentions)
        add(f"mentions of the {FIRST} most frequent, %", first_share, mentions)
    if any(one is not None for one in chosen):
        add("got by no clip, %", _never, chosen)
        add("Gini of what clips get", gini, chosen)
        add("skewness of it", skewness, chosen)
    if any(one is not None for one in gains):
        known = [None if one is None else ~np.isnan(one.gain) for one in gains]
        add("phrases with a gain", lambda there: int(there.sum()), known)
        both = zip(gains, known, strict=True)
        of_known = [(one, there) if there is not None and there.any() else None for one, there in both]
        sure = settings.confidence
        add("gain of named phrases, points", lambda one: figure_words(gain_of_named(one[:1], sure), sure), of_known)
        add("gain, mean over phrases, points", lambda one: _mean(one[0].gain, one[1]), of_known)
        add("interval above 0, % of phrases", lambda one: _mean(100.0 * (one[0].low > 0), one[1]), of_known)
        add("average precision, mean, %", lambda one: _mean(one[0].precision, one[1]), of_known)
        add("chance, mean, %", lambda one: _mean(one[0].chance, one[1]), of_known)
    return AuditTable("In short", ("what", *(NAMES[one.kind] for one in found)), tuple(rows))


def _never(counts: Indices) -> float:
    return float(100 * (counts == 0).mean())


def _mean(values: Column, there: NDArray[np.bool_]) -> float:
    return float(values[there].mean())


def _hub_rows(one: KindMeasures) -> Iterator[Row]:
    """Phrases with the share of clips that get them, of those that name them, and their gain, the most frequent first.

    Ties are in the dictionary's order. There are none where no phrases were chosen for clips.
    """
    if one.chosen is None or not one.clips:
        return
    for place in np.argsort(-one.chosen, kind="stable")[:LISTED].tolist():
        named = gain = None
        if one.gains is not None:
            named, gain = float(one.gains.chance[place]), float(one.gains.gain[place])
        yield NAMES[one.kind], one.phrases[place], float(100 * one.chosen[place] / one.clips), named, gain


def _phrase_rows(one: KindMeasures, gains: Gains, places: Sequence[int]) -> list[Row]:
    columns = (*gains.got, gains.gain, gains.low, gains.high, gains.precision, gains.chance)
    return [
        (NAMES[one.kind], one.phrases[place], int(gains.named[place]), *(float(column[place]) for column in columns))
        for place in places
    ]


# Words.


def _sentences(found: Sequence[KindMeasures], gain: Interval, settings: AuditSettings) -> Iterator[str]:
    measured = [one.gains for one in found if one.gains]
    if measured and (described := max(one.clips for one in measured)) < ENOUGH:
        yield f"Too few clips have captions ({described}) to conclude anything from gains."
    if measured and gain.value == gain.value:  # not NaN
        totals, pairs = np.zeros(2), 0.0
        for one in measured:
            known = ~np.isnan(one.gain)
            totals += (one.got * one.named)[:, known].sum(axis=1)
            pairs += float(one.named[known].sum())
        with_it, without = totals / pairs
        yield (
            f"Clips get {with_it:.1f}% of the phrases that their captions name, and other clips {without:.1f}% of the "
            f"same: a gain of {figure_words(gain, settings.confidence, ' points')}."
        )
    covered = []
    for kind in (one for one in found if one.coverage):
        captions = max(sum(part.captions for part in kind.coverage), 1)
        percent = 100 * sum(part.covered for part in kind.coverage) / captions
        covered.append(f"{percent:.1f}% of captions name one of its {NAMES[kind.kind]}")
    if covered:
        yield f"{' and '.join(covered)}."
    for kind in found:
        for _, phrase, got, *_ in [*_hub_rows(kind)][:1]:
            yield f"The commonest {kind.kind} of clips is {phrase!r}: {got:.1f}% of them get it."


def _notices(found: Sequence[KindMeasures]) -> Iterator[str]:
    for one in found:
        each = int(one.chosen.sum()) // one.clips if one.chosen is not None and one.clips else 0
        if 2 * each > len(one.phrases):
            yield (
                f"Every clip gets {each:,} of the {len(one.phrases):,} {NAMES[one.kind]}, so gains are small whatever "
                "the encoder knows; look at average precision, or give clips fewer."
            )
    for one in found:
        if one.gains and (silent := one.clips - one.gains.clips):
            yield f"{silent:,} of {one.clips:,} clips have no caption and are in no gain."
            return


# Figures, in which all phrases are escaped: a panel for each kind.


def _figures(found: Sequence[KindMeasures]) -> Iterator[AuditFigure]:
    yield AuditFigure(
        "How unequally phrases count",
        partial(_count_curves, found),
        "The share of all mentions, and of all phrases that clips got, that the most frequent phrases hold. The "
        "straight line is that of phrases which all count alike.",
    )
    gains = [(one, one.gains) for one in found if one.gains]
    if gains:
        yield AuditFigure(
            "What captions name and what clips get",
            partial(_named_and_got, gains),
            "A point a phrase, named by a clip or more. High up on the left are hubs: clips get them whatever their "
            "captions say. Low on the right are phrases that people see and the encoder does not.",
        )
        yield AuditFigure(
            "How well a phrase finds the clips that it names",
            partial(_precision_and_chance, gains),
            "A point a phrase. On the line it finds them no better than a random order.",
        )


def _count_curves(found: Sequence[KindMeasures]) -> go.Figure:
    """Which share of all mentions the most frequent phrases have (a Lorenz curve)."""
    figure = _panels_of(found, "phrases, the most frequent first, %", "share of all, %")
    told: set[str] = set()
    for number, one in enumerate(found, start=1):
        _diagonal(figure, number, 0, 100)
        for name, counts, colour in (
            ("named by captions", one.mentions, COLOURS[0]),
            ("got by clips", one.chosen, COLOURS[1]),
        ):
            if counts is None or not counts.sum():
                continue
            x, y = lorenz(counts)
            figure.add_scatter(
                x=x, y=y, mode="lines", line_color=colour, name=name, legendgroup=name, showlegend=name not in told,
                hovertemplate="the first %{x:.1f} % of phrases: %{y:.1f} %<extra></extra>", **panel_axes(number),
            )  # fmt: skip
            told.add(name)
    return figure.update_yaxes(range=[0, 101]).update_xaxes(range=[0, 101])


def _named_and_got(found: Sequence[tuple[KindMeasures, Gains]]) -> go.Figure:
    figure = _panels_of([one for one, _ in found], "clips that it names, %", "clips that get it, %")
    for number, (one, gains) in enumerate(found, start=1):
        got = 100 * (gains.hits + gains.other_hits) / gains.clips
        _points(figure, number, one, gains.chance, got, "names %{x:.2f} % of clips, %{y:.2f} % get it")
    return figure.update_xaxes(type="log", dtick=1)


def _precision_and_chance(found: Sequence[tuple[KindMeasures, Gains]]) -> go.Figure:
    figure = _panels_of([one for one, _ in found], "clips that it names, %", "average precision, %")
    for number, (one, gains) in enumerate(found, start=1):
        chance = gains.chance
        _diagonal(figure, number, float(chance[chance > 0].min(initial=100.0)), 100)
        _points(figure, number, one, chance, gains.precision, "names %{x:.2f} % of clips, precision %{y:.1f} %")
    return figure.update_xaxes(type="log", dtick=1).update_yaxes(type="log", dtick=1, exponentformat="none")


def _points(figure: go.Figure, number: int, one: KindMeasures, x: Column, y: Column, said: str) -> None:
    """A point a phrase, of those that a clip is named by; of very many the most frequent ones of the dictionary."""
    kept = np.flatnonzero((x > 0) & ~np.isnan(y))[:MOST_POINTS]
    figure.add_scatter(
        x=x[kept].round(4), y=y[kept].round(4), mode="markers", showlegend=False,
        marker={"color": COLOURS[number - 1], "size": 7, "opacity": 0.45},
        customdata=[wrapped(one.phrases[place]) for place in kept],
        hovertemplate=f"%{{customdata}}<br>{said}<extra></extra>", **panel_axes(number),
    )  # fmt: skip


def _diagonal(figure: go.Figure, number: int, low: float, high: float) -> None:
    figure.add_scatter(
        x=[low, high], y=[low, high], mode="lines", line={"dash": "dot", "color": COLOURS[-1]}, hoverinfo="skip",
        showlegend=False, **panel_axes(number),
    )  # fmt: skip


def _panels_of(found: Sequence[KindMeasures], x: str, y: str) -> go.Figure:
    return empty(panels([NAMES[one.kind] for one in found], x, [y] * len(found), columns=2))
