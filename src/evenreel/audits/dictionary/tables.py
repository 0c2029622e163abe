"""Tables of an audit of a scene dictionary: coverage, a summary, hubs, and the gain of each phrase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.audits.dictionary.measures import Gains, Kind, KindMeasures, gain_of_named
from evenreel.audits.exchange import FIRST, first_share, share
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.concentration import gini, skewness
from evenreel.report.result import AuditTable, Cell, Row, figure_words

NAMES: dict[Kind, str] = {"entity": "entities", "activity": "activities"}
LISTED = 10
"""Phrases of a kind in a table of the most and the least."""

_PHRASE_COLUMNS = (
    "kind", "phrase", "named clips", "got it, %", "others, %", "gain", "from", "to", "precision, %", "chance, %"
)  # fmt: skip
_PHRASE_NOTE = (
    "Of the clips that a phrase is named by, and of the others, how many got it; the gain in points with its interval; "
    "average precision, and what a random order reaches."
)


class HubPhrase(NamedTuple):
    """Phrase of a scene dictionary with how often clips are given it, as one of those most similar to their frames.

    Attributes:
        place: index of the phrase in the dictionary's phrases of its kind.
        got: share of clips that are given it, in percent.
        named: share of clips whose captions name it, in percent; None without captions.
        gain: gain of the phrase, in percentage points; None without captions.
    """

    place: int
    got: float
    named: float | None
    gain: float | None


def dictionary_tables(found: Sequence[KindMeasures], settings: AuditSettings) -> Iterator[AuditTable]:
    """Yield the tables of an audit of a scene dictionary, in reading order."""
    if any(one.coverage for one in found):
        yield _coverage_table(found)
    yield _short_table(found, settings)
    if any(one.chosen is not None for one in found):
        yield _hub_table(found)
    measured = [(one, one.gains) for one in found if one.gains is not None]
    if measured:
        yield _extreme_table("Phrases that gain the most", measured, best=True)
        yield _extreme_table("Phrases that gain the least", measured, best=False)
        rows = [row for one, gains in measured for row in _phrase_rows(one, gains, range(len(one.phrases)))]
        note = "In the order of the dictionary. A phrase that names no clip, or every one, has no gain."
        yield AuditTable("Every phrase", _PHRASE_COLUMNS, tuple(rows), f"{_PHRASE_NOTE} {note}", digits=1)


def coverage_of(one: KindMeasures) -> float:
    """Compute the percentage of all captions that name a phrase of one kind."""
    captions = sum(part.captions for part in one.coverage)
    return 100 * sum(part.covered for part in one.coverage) / max(captions, 1)


def hubs_of(one: KindMeasures) -> Iterator[HubPhrase]:
    """Yield all phrases of one kind with the share of clips they are given to as nearest, the most frequent first.

    Ties are in the dictionary's order. Nothing is yielded where no phrases were chosen for clips.
    """
    if one.chosen is None or not one.clips:
        return
    for place in np.argsort(-one.chosen, kind="stable").tolist():
        named = gain = None
        if one.gains is not None:
            named, gain = float(one.gains.chance[place]), float(one.gains.gain[place])
        yield HubPhrase(place, float(100 * one.chosen[place] / one.clips), named, gain)


def named_share(some: Sequence[Gains], *, named: bool) -> float:
    """Compute the percentage of pairs of a clip and a phrase named for it in which the clip got the phrase.

    Args:
        some: gains of each kind.
        named: True for the share of the named clips, False for that of the other clips and the same phrases.
    """
    total = pairs = 0.0
    for one in some:
        known = ~np.isnan(one.gain)
        got = share(one.hits, one.named) if named else share(one.other_hits, one.clips - one.named)
        total += float((got * one.named)[known].sum())
        pairs += float(one.named[known].sum())
    return 100 * total / pairs


def _coverage_table(found: Sequence[KindMeasures]) -> AuditTable:
    rows: list[Row] = []
    for one in found:
        for part in one.coverage:
            shares = (
                _percent(part.covered, part.captions),
                part.phrases,
                _percent(part.held, part.phrases),
                _percent(part.held_mentions, part.mentions),
            )
            rows.append((NAMES[one.kind], part.split or "no split", part.captions, *shares))
    columns = ("kind", "captions of", "captions", "naming some, %", "phrases", "held, %", "of mentions, %")
    note = (
        "Captions that name a phrase of the dictionary; how many phrases they name, how many of these it holds, and "
        "of how many of the mentions. Most phrases are named once or twice, so that few may be most mentions."
    )
    return AuditTable("What captions name, and the dictionary has", columns, tuple(rows), note, digits=1)


def _short_table(found: Sequence[KindMeasures], settings: AuditSettings) -> AuditTable:
    """A column a kind."""
    figures: dict[str, Callable[[KindMeasures], Cell]] = {"phrases": lambda one: len(one.phrases)}
    if any(one.mentions is not None for one in found):
        figures["named by no caption, %"] = lambda one: _never(one.mentions)
        figures["Gini of mentions"] = lambda one: _of(gini, one.mentions)
        figures[f"mentions of the {FIRST} most frequent, %"] = lambda one: _of(first_share, one.mentions)
    if any(one.chosen is not None for one in found):
        figures["got by no clip, %"] = lambda one: _never(one.chosen)
        figures["Gini of what clips get"] = lambda one: _of(gini, one.chosen)
        figures["skewness of it"] = lambda one: _of(skewness, one.chosen)
    if any(one.gains is not None for one in found):
        figures["phrases with a gain"] = _phrases_with_gain
        figures["gain of named phrases, points"] = lambda one: _gain(one, settings)
        figures["gain, mean over phrases, points"] = lambda one: _mean(one, lambda gains: gains.gain)
        figures["interval above 0, % of phrases"] = _significant_share
        figures["average precision, mean, %"] = lambda one: _mean(one, lambda gains: gains.precision)
        figures["chance, mean, %"] = lambda one: _mean(one, lambda gains: gains.chance)
    rows = [(what, *(figure(one) for one in found)) for what, figure in figures.items()]
    return AuditTable("In short", ("what", *(NAMES[one.kind] for one in found)), tuple(rows))


def _hub_table(found: Sequence[KindMeasures]) -> AuditTable:
    rows: list[Row] = []
    for one in found:
        for _, hub in zip(range(LISTED), hubs_of(one), strict=False):
            rows.append((NAMES[one.kind], one.phrases[hub.place], hub.got, hub.named, hub.gain))
    columns = ("kind", "phrase", "clips that get it, %", "clips it names, %", "gain, points")
    note = "A phrase that many clips get and that names few (of those with captions) tells little of any of them."
    return AuditTable("Phrases that clips get the most", columns, tuple(rows), note, digits=1)


def _extreme_table(title: str, measured: Sequence[tuple[KindMeasures, Gains]], *, best: bool) -> AuditTable:
    """Order by the interval's end that is nearer to 0, so that phrases of few clips do not lead by luck."""
    rows: list[Row] = []
    for one, gains in measured:
        sure = -gains.low if best else gains.high
        order = np.argsort(np.where(np.isnan(sure), np.inf, sure), kind="stable")[:LISTED]
        rows += _phrase_rows(one, gains, [int(place) for place in order if not np.isnan(sure[place])])
    note = f"{_PHRASE_NOTE} Sorted by the end of the interval that is least in favour of the title."
    return AuditTable(title, _PHRASE_COLUMNS, tuple(rows), note, digits=1)


def _phrase_rows(one: KindMeasures, gains: Gains, places: Sequence[int]) -> list[Row]:
    with_it, without = 100 * share(gains.hits, gains.named), 100 * share(gains.other_hits, gains.clips - gains.named)
    columns = (with_it, without, gains.gain, gains.low, gains.high, gains.precision, gains.chance)
    return [
        (NAMES[one.kind], one.phrases[place], int(gains.named[place]), *(float(column[place]) for column in columns))
        for place in places
    ]


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


def _never(counts: Indices | None) -> float | None:
    return None if counts is None else float(100 * (counts == 0).mean())


def _of(figure: Callable[[Indices], float], counts: Indices | None) -> float | None:
    return None if counts is None else figure(counts)


def _phrases_with_gain(one: KindMeasures) -> int | None:
    return None if one.gains is None else int((~np.isnan(one.gains.gain)).sum())


def _gain(one: KindMeasures, settings: AuditSettings) -> str | None:
    if one.gains is None or not _phrases_with_gain(one):
        return None
    return figure_words(gain_of_named([one.gains], settings.confidence), settings.confidence)


def _significant_share(one: KindMeasures) -> float | None:
    if one.gains is None or not _phrases_with_gain(one):
        return None
    return float(100 * (one.gains.low[~np.isnan(one.gains.gain)] > 0).mean())


def _mean(one: KindMeasures, of: Callable[[Gains], Column]) -> float | None:
    """Average a figure over the phrases that have a gain."""
    if one.gains is None or not _phrases_with_gain(one):
        return None
    return float(of(one.gains)[~np.isnan(one.gains.gain)].mean())
