"""Bias of a search result: the shown clips compared with all clips that could have been shown.

Without any preference, the n clips shown would be a draw of n of the C clips without replacement. The p value of a
difference as large as the one seen is computed for

- the share of a source, and of clips with words on screen: the two-sided exact test of the hypergeometric distribution,
  summing the probabilities of all counts that are no likelier than the one seen (Fisher 1935);
- the lengths: the mean rank of the shown clips' ranges of length, against seeded random draws. Mann and Whitney's test
  asks the same, but its normal approximation is wrong where most clips have one length, as generated ones do; the p
  value counts the draw that was seen, too (Phipson and Smyth 2010).

Differences are significant after Holm's correction over all comparisons: without any preference, at most 1 result in 20
has one. The ranges of length and the sources are chosen by the library alone, never by what is shown, and so the tests
hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from evenreel.library.population import UNKNOWN, Population

SIGNIFICANT = 0.05
DRAWS = 9_999
SEED = 0

SOURCE = "source"
ON_SCREEN = "on-screen text"

Share = Annotated[float, Interval(ge=0.0, le=1.0)]


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
class Favours:
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


def favours(population: Population, shown: Sequence[str]) -> Favours:
    """Compare shown clips with all clips; ids that are not among those are passed over."""
    places = population.places(shown)
    rows = np.unique(places[places >= 0])
    if not len(rows):
        return Favours(0, len(population.clip_ids), (), None, (), "No clip is shown, so nothing was compared.")
    groups = (*_by_source(population, rows), *_with_words(population, rows))
    lengths, longer = _lengths(population, rows)
    p_values = {_sentence(group): group.p_value for group in groups if group is not _redundant_group(groups)}
    if lengths is not None:
        p_values[_length_sentence(lengths, longer)] = lengths.p_value
    return Favours(
        len(rows), len(population.clip_ids), groups, lengths, _significant_sentences(p_values), _note(population, rows)
    )


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
    """Compute the p value of the shown clips' mean rank of length, against draws without replacement.

    Both arguments are (ranges,), the numbers of clips in each range of length.
    """
    drawn = _drawn_excess(tuple(all_.tolist()), int(shown.sum()))
    found = len(drawn) - np.searchsorted(drawn, abs(_rank_excess(shown, all_)), "left")
    return float((1 + found) / (1 + len(drawn)))


def _by_source(population: Population, rows: NDArray[np.int64]) -> Iterator[GroupShare]:
    names = population.source_names
    if len(names) < 2:
        return
    counts = np.bincount(population.sources[rows], minlength=len(names)).tolist()
    for name, shown, all_ in zip(names, counts, population.counts[0], strict=True):
        yield _share(SOURCE, name, (shown, len(rows)), (all_, len(population.sources)))


def _with_words(population: Population, rows: NDArray[np.int64]) -> Iterator[GroupShare]:
    read = population.text_read[rows]
    if read.any():
        found = int((population.has_words[rows] & read).sum())
        _, all_read, all_found = population.counts
        yield _share(ON_SCREEN, "words on screen", (found, int(read.sum())), (all_found, all_read))


def _share(measure: str, label: str, shown: tuple[int, int], all_: tuple[int, int]) -> GroupShare:
    p_value = share_p_value(*shown, *all_)
    return GroupShare(measure, label, *shown, shown[0] / shown[1], *all_, all_[0] / all_[1], p_value)


def _lengths(population: Population, rows: NDArray[np.int64]) -> tuple[Lengths | None, bool]:
    """The lengths, and whether the shown ones are the longer ones."""
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


def _redundant_group(groups: Sequence[GroupShare]) -> GroupShare | None:
    """Of two sources the one that is shown less: what the other has too much of, it has too little of."""
    sources = [group for group in groups if group.measure == SOURCE]
    return min(sources, key=lambda group: group.share_shown - group.share_all) if len(sources) == 2 else None


def _significant_sentences(p_values: Mapping[str, float]) -> tuple[str, ...]:
    """Sentences whose p value is small after Holm's correction."""
    from evenreel.evaluation.stats import holm

    adjusted = holm(list(p_values.values()))
    return tuple(sentence for sentence, p_value in zip(p_values, adjusted, strict=True) if p_value < SIGNIFICANT)


def _sentence(group: GroupShare) -> str:
    shown, all_ = f"{group.shown} of {group.shown_of} results", f"of all {group.all_of:,} clips"
    if group.measure == ON_SCREEN:
        return f"{shown} have words on screen; {all_} {group.all:,} have ({_chance(group.p_value)})."
    by = "of unknown source" if group.label == UNKNOWN else f"by {group.label}"
    return f"{shown} are {by}; {all_} {group.all:,} are ({_chance(group.p_value)})."


def _length_sentence(lengths: Lengths, longer: bool) -> str:
    return (
        f"The results are {'longer' if longer else 'shorter'} on the whole: their median is "
        f"{_duration(lengths.median_shown_s)}, that of all {sum(found.all for found in lengths.bins):,} clips "
        f"{_duration(lengths.median_all_s)} ({_chance(lengths.p_value)})."
    )


def _chance(p_value: float) -> str:
    if p_value < 1e-6:
        return "a difference this large comes by chance in fewer than 1 of 1,000,000 draws"
    return f"a difference this large comes by chance in 1 of {float(f'{1 / p_value:.2g}'):,.0f} draws"


def _duration(seconds: float) -> str:
    size, unit = (1, "s") if seconds < 60 else (60, "min") if seconds < 3600 else (3600, "h")
    return f"{seconds / size:.3g} {unit}"


def _note(population: Population, rows: NDArray[np.int64]) -> str:
    if len(rows) == len(population.clip_ids):
        return "All clips that the filter lets through are shown, so there is nothing to favour."
    return (
        f"The {len(rows):,} clips shown are compared with all {len(population.clip_ids):,} that could have been. A "
        "query can rightly favour such clips, so one result is a hint; audits over many queries tell."
    )
