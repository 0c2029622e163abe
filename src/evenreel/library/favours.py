"""Bias of a search result: the shown clips compared with all clips that could have been shown.

Without any preference, the n clips shown would be a draw of n of the C clips without replacement. The p value of a
difference as large as the one seen is computed for

- the share of a source, and of clips with words on screen: the two-sided exact test of the hypergeometric distribution,
  summing the probabilities of all counts that are no likelier than the one seen (Fisher 1935);
- the lengths: the mean rank of the shown clips' ranges of length, against seeded random draws, the one that was seen
  counted too (Phipson and Smyth 2010). Mann and Whitney's normal approximation is wrong where most have one length.

Differences are significant after Holm's correction over all comparisons: without any preference, at most 1 result in 20
has one. Ranges and sources are chosen by the library alone, never by what is shown, and so the tests hold.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices
from evenreel.files import printable
from evenreel.library.search.filters import Filter, passing
from evenreel.types import Shown

MAX_SOURCES = 20  # sources that are compared one by one, the most frequent of the library; the rest count as one
RANGES = 6
"""Ranges of length with about as many clips in each; the mean rank of six keeps 97 % of what single ranks tell."""
UNKNOWN, OTHERS = "unknown", "other sources"
SOURCE, ON_SCREEN = "source", "on-screen text"
SIGNIFICANT = 0.05
DRAWS, SEED = 9_999, 0
_OF_LENGTH = re.compile(
    r"\b(short|shorter|shortest|brief|long|longer|longest|length|duration|seconds?|minutes?|hours?)\b", re.IGNORECASE
)
_READABLE = np.array([1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10])

Share = Annotated[float, Interval(ge=0.0, le=1.0)]


# Clips that could have been shown ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Population:
    """C clips with a file that is there, by their ids, rising; arrays are (C,)."""

    clip_ids: NDArray[np.bytes_]  # their ids
    source_names: tuple[str, ...]  # names of the sources, most frequent first
    sources: Indices  # index into `source_names` of each clip's source
    lengths_s: Column  # length in seconds; NaN where it is unknown
    text_read: Flags  # True where on-screen text was read
    has_words: Flags  # True where on-screen text was found

    def places(self, clip_ids: Iterable[str]) -> Indices:
        """Find the places of N clips, (N,); -1 for one that is not among these."""
        wanted = as_bytes(clip_ids)
        if not len(self.clip_ids) or not len(wanted):
            return np.full(len(wanted), -1)
        at = np.minimum(np.searchsorted(self.clip_ids, wanted), len(self.clip_ids) - 1)
        return np.where(self.clip_ids[at] == wanted, at, -1)

    @cached_property
    def length_ranges(self) -> tuple[list[float], NDArray[np.int64], float]:
        """Lower edges of the ranges of length, number of clips in each, and the median length; none where unknown."""
        known_s = self.lengths_s[~np.isnan(self.lengths_s)]
        edges = length_edges(known_s) if len(known_s) else []
        if len(edges) < 2:
            return [], np.empty(0, np.int64), math.nan
        return edges, np.histogram(known_s, [*edges, np.inf])[0], float(np.median(known_s))

    @cached_property
    def counts(self) -> tuple[list[int], int, int]:
        """Numbers of clips by source, of clips on which text was read, and of those on which some was found."""
        by_source = np.bincount(self.sources, minlength=len(self.source_names)).tolist()
        return by_source, int(self.text_read.sum()), int((self.has_words & self.text_read).sum())

    def without(self, clip_id: str) -> Population:
        kept = self.clip_ids != as_bytes([clip_id])
        columns = ("clip_ids", "sources", "lengths_s", "text_read", "has_words")
        some: dict[str, Any] = {name: getattr(self, name)[kept] for name in columns}
        return replace(self, **some)


def as_bytes(clip_ids: Iterable[str]) -> NDArray[np.bytes_]:
    """Return ids side by side in UTF-8, (N,), which take a quarter of what texts take."""
    return np.array([clip_id.encode("utf-8", "surrogateescape") for clip_id in clip_ids], np.bytes_)


def read_clips(connection: sqlite3.Connection, where: Filter) -> Population:
    """Read the clips that a search with a filter could find, each with the source of its first file that passes."""
    columns = (
        "files.clip_id, json_extract(files.metadata, '$.source'), duration_s, has_text,"
        " EXISTS (SELECT 1 FROM tracks WHERE tracks.clip_id = clips.clip_id)"
    )
    rows = passing(connection, columns, where, " ORDER BY files.path DESC")
    found = {clip_id.encode("utf-8", "surrogateescape"): about for clip_id, *about in rows}  # the first comes last
    clip_ids = sorted(found)
    named, lengths_s, text_read, has_words = zip(*map(found.__getitem__, clip_ids), strict=True) if found else ((),) * 4
    sources = [UNKNOWN if source in {None, ""} else printable(str(source)) for source in named]
    counts = Counter(sources)
    names = sorted(counts, key=lambda name: (-counts[name], name))
    place = {name: min(number, MAX_SOURCES) for number, name in enumerate(names)}
    return Population(
        clip_ids=np.array(clip_ids, np.bytes_),
        source_names=(*names[:MAX_SOURCES], *([OTHERS] if len(names) > MAX_SOURCES else [])),
        sources=np.array([place[source] for source in sources], np.int64),
        lengths_s=np.array(lengths_s, np.float64),
        text_read=np.array(text_read, np.bool_),
        has_words=np.array(has_words, np.bool_),
    )


def length_edges(lengths_s: NDArray[np.float64]) -> list[float]:
    """Return the lower edges of length ranges with about as many clips in each: readable numbers, none empty.

    Where nearly all clips have one length, the ranges have about as many different lengths in each.
    """
    edges = [0.0]
    for divided_s in (lengths_s, np.unique(lengths_s)):
        for edge in sorted(map(_round_readably, np.quantile(divided_s, np.arange(1, RANGES) / RANGES))):
            if np.any((lengths_s >= edges[-1]) & (lengths_s < edge)) and lengths_s.max() >= edge:
                edges.append(edge)
        if len(edges) > 1:
            break
    return edges


def _round_readably(seconds: float) -> float:
    """The nearest number of seconds, minutes or hours that a person would choose."""
    unit = 1 if seconds < 60 else 60 if seconds < 3600 else 3600
    scale = unit * 10.0 ** np.floor(np.log10(max(seconds, 0.1) / unit))
    return float(np.round(scale * _READABLE[np.abs(np.log(_READABLE * scale / max(seconds, 0.1))).argmin()], 6))


# The comparison ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GroupShare:
    """Share of a group among the shown clips and among all, with the p value of this comparison alone."""

    measure: str
    label: str
    shown: int
    shown_of: int
    share_shown: Share
    all: int
    all_of: int
    share_all: Share
    p_value: Share


@dataclass(frozen=True)
class LengthBin:
    """Number of clips from `start_s` up to but not including `end_s` seconds; the last range has no end."""

    start_s: float
    end_s: float | None
    shown: int
    all: int


@dataclass(frozen=True)
class Lengths:
    """Lengths of the shown clips beside those of all; clips of unknown length are left out."""

    bins: tuple[LengthBin, ...]
    median_shown_s: float
    median_all_s: float
    p_value: Share


@dataclass(frozen=True)
class Favours(Shown):
    """Comparison of the shown clips with all clips that pass the filter.

    Attributes:
        shown: number of clips shown.
        all: number of clips they are compared with, themselves included.
        groups: shares of each source, and of clips with words on screen.
        lengths: comparison of lengths; None with fewer than two ranges of length.
        sentences: one for each difference that is significant after Holm's correction over all comparisons.
        note: sentence on what was compared, and what a difference does not mean.
    """

    shown: int
    all: int
    groups: tuple[GroupShare, ...]
    lengths: Lengths | None
    sentences: tuple[str, ...]
    note: str


def selects_length(query: str, where: str | None) -> bool:
    """Whether a search chooses clips by their length itself, so that the lengths found say nothing of the ranking."""
    in_filter = re.sub("'[^']*'", "", where or "")
    return _OF_LENGTH.search(query) is not None or re.search(r"\bduration_s\b", in_filter, re.IGNORECASE) is not None


def favours(population: Population, shown: Sequence[str], *, lengths_too: bool = True) -> Favours:
    """Compare shown clips with all clips; ids that are not among those are skipped.

    Nothing is said of a difference that rounds to none.
    """
    places = population.places(shown)
    rows = np.unique(places[places >= 0])
    if not len(rows):
        return Favours(0, len(population.clip_ids), (), None, (), "No clip is shown, so nothing was compared.")
    groups = _groups(population, rows)
    lengths, longer = _lengths(population, rows) if lengths_too else (None, False)
    sources = [group for group in groups if group.measure == SOURCE]
    # Of two sources what the one has too much of, the other has too little of: that is said once.
    said_already = [min(sources, key=lambda one: one.share_shown - one.share_all)] if len(sources) == 2 else []
    tested = [(_sentence(group), group.p_value) for group in groups if group not in said_already]
    if lengths is not None:
        tested.append((_length_sentence(lengths, longer), lengths.p_value))
    # Holm: of m comparisons the i-th least p value is held against 1 / (m + 1 - i) of the level, until one fails.
    ordered = sorted(p_value for _, p_value in tested)
    failed = (p for place, p in enumerate(ordered) if p * (len(ordered) - place) >= SIGNIFICANT)
    least = next(failed, math.inf)
    sentences = tuple(sentence for sentence, p_value in tested if sentence and p_value < least)
    note = (
        f"The {len(rows):,} clips shown are compared with all {len(population.clip_ids):,} that could be shown. A "
        "query may rightly favour such clips. One search is a hint; an audit over many queries tells more."
    )
    if len(rows) == len(population.clip_ids):
        note = "All clips that pass the filters are shown, so there is nothing to favour."
    return Favours(len(rows), len(population.clip_ids), groups, lengths, sentences, note)


@lru_cache(maxsize=4096)
def share_p_value(shown: int, shown_of: int, all_: int, all_of: int) -> float:
    """Compute the two-sided exact p value of the number of clips of a kind among those that are shown.

    Example:
        >>> round(share_p_value(3, 3, 3, 6), 3)  # all three of a kind, or none: 2 of the 20 possible draws
        0.1
    """
    fewest, most = max(0, shown_of + all_ - all_of), min(shown_of, all_)
    counts = np.arange(fewest, most + 1)
    logarithms = _log_choose(all_, counts) + _log_choose(all_of - all_, shown_of - counts)
    chances = np.exp(logarithms - _log_choose(all_of, np.array(shown_of)))
    return float(min(1.0, chances[chances <= chances[shown - fewest] * (1 + 1e-7)].sum()))


def length_p_value(shown: NDArray[np.int64], all_: NDArray[np.int64]) -> float:
    """Compute the p value of the shown clips' mean rank of length by counts in each range, (ranges,) both."""
    drawn = _drawn_excess(tuple(all_.tolist()), int(shown.sum()))
    found = len(drawn) - np.searchsorted(drawn, abs(_rank_excess(shown, all_)), "left")
    return float((1 + found) / (1 + len(drawn)))


def _groups(population: Population, rows: Indices) -> tuple[GroupShare, ...]:
    by_source, all_read, all_found = population.counts
    names, counted = population.source_names, list[tuple[str, str, int, int, int, int]]()
    if len(names) > 1:
        shown = np.bincount(population.sources[rows], minlength=len(names)).tolist()
        of = len(rows), len(population.sources)
        counted = [(SOURCE, name, *pair, *of) for name, *pair in zip(names, shown, by_source, strict=True)]
    read = population.text_read[rows]
    if read.any():
        found = int((population.has_words[rows] & read).sum())
        counted.append((ON_SCREEN, "words on screen", found, all_found, int(read.sum()), all_read))
    return tuple(
        GroupShare(what, name, one, of, one / of, all_, all_of, all_ / all_of, share_p_value(one, of, all_, all_of))
        for what, name, one, all_, of, all_of in counted
    )


def _lengths(population: Population, rows: NDArray[np.int64]) -> tuple[Lengths | None, bool]:
    shown_s = population.lengths_s[rows]
    shown_s = shown_s[~np.isnan(shown_s)]
    edges, all_, median_s = population.length_ranges
    if len(edges) < 2 or not len(shown_s):
        return None, False
    shown = np.histogram(shown_s, [*edges, np.inf])[0]
    bins = tuple(map(LengthBin, edges, [*edges[1:], None], shown.tolist(), all_.tolist()))
    medians = float(np.median(shown_s)), median_s
    return Lengths(bins, *medians, length_p_value(shown, all_)), bool(_rank_excess(shown, all_) > 0)


def _rank_excess(counts: NDArray[np.int64], all_: NDArray[np.int64]) -> NDArray[np.int64]:
    """How far the ranks of drawn clips are above the middle, doubled and summed: (..., ranges) -> (...)."""
    doubled_ranks = 2 * np.cumsum(all_) - all_
    excess: NDArray[np.int64] = counts @ doubled_ranks - counts.sum(axis=-1) * all_.sum()
    return excess


@lru_cache(maxsize=64)
def _drawn_excess(all_: tuple[int, ...], shown: int) -> NDArray[np.int64]:
    """How far ranks are from the middle in `DRAWS` draws of `shown` clips, see `_rank_excess`: (DRAWS,), rising."""
    drawn: NDArray[np.int64] = np.random.default_rng(SEED).multivariate_hypergeometric(all_, shown, DRAWS)
    return np.sort(np.abs(_rank_excess(drawn, np.array(all_, np.int64))))


def _log_choose(total: int, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the logarithms of how many ways there are to choose so many, (n,), of a total."""
    log_factorial = np.vectorize(lambda count: math.lgamma(count + 1), otypes=[np.float64])
    logarithm: NDArray[np.float64] = math.lgamma(total + 1) - log_factorial(chosen) - log_factorial(total - chosen)
    return logarithm


def _sentence(group: GroupShare) -> str:
    """What is said of a share where it is a difference; nothing where the two shares are the same in percent."""
    if round(100 * group.share_shown) == round(100 * group.share_all):
        return ""
    come = "have words on screen" if group.measure == ON_SCREEN else f"come from {group.label}"
    come = "have no known source" if group.label == UNKNOWN else come
    chance = _chance(group.p_value)
    return (
        f"{group.shown} of {group.shown_of} results {come}; of all {group.all_of:,} clips, {group.all:,} do {chance}."
    )


def _length_sentence(lengths: Lengths, longer: bool) -> str:
    shown, all_ = _duration(lengths.median_shown_s), _duration(lengths.median_all_s)
    if shown == all_:
        return ""
    return (
        f"The results are {'longer' if longer else 'shorter'}: their median length is {shown}, that of all "
        f"{sum(found.all for found in lengths.bins):,} clips {all_} {_chance(lengths.p_value)}."
    )


def _chance(p_value: float) -> str:
    if p_value < 1e-6:
        return "(by chance: fewer than 1 in 1,000,000)"
    return f"(by chance: 1 in {float(f'{1 / p_value:.2g}'):,.0f})"


def _duration(seconds: float) -> str:
    size, unit = (1, "s") if seconds < 60 else (60, "min") if seconds < 3600 else (3600, "h")
    return f"{seconds / size:.3g} {unit}"
