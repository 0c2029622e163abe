"""Measures of order: how often a caption prefers its clip to the same frames in another order, beyond a control.

Sources: Du et al. 2024, Reversed in Time (the tasks Origin, Hard and Binary); Thrush et al. 2022, Winoground (text,
image and group score); Hoeffding 1948 (the variance of a mean over pairs of units); Schuirmann 1987 (two one-sided
tests, by which a ranking is order-blind for sure).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isnan
from typing import Literal

import numpy as np

from evenreel.arrays import Column, Flags, Indices
from evenreel.audits.exchange import groups_won, share_interval, sign_test
from evenreel.audits.inputs import as_edited, as_inputs
from evenreel.audits.order.pairs import OrderPairs, order_pairs
from evenreel.audits.order.preference import CHANCES, LIKED, TEXT_OF_CLIP, beside_others, own_scores, within_pairs
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.evaluation.intervals import Interval, around, t_interval
from evenreel.evaluation.ranking import Hits
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import ENOUGH, Effect
from evenreel.types import Shown

CHANCE = 50.0
"""How often, in percent, a ranking that does not see order prefers the own order beyond the control."""

MARGIN = 10.0
"""A ranking is order-blind where it is sure to be less than so many points from chance."""

DEPTHS = (1, 5, 10)

_LEAST = 1e-6
"""Confidence of the interval of the two one-sided tests where each is asked for no more than even odds."""

Control = Literal["twins", "others"]
"""Whose captions those of a clip are held against: its twin's, or other clips'."""

Verdict = Literal["sees", "hardly", "blind", "turned", "open", "few", "none"]
"""Whether a ranking sees order: it does; it does, by less than the margin; it does not; it prefers the wrong order; it
cannot be told; there are too few pairs; nothing is known."""


@dataclass(frozen=True, eq=False)
class OrderMeasures(Shown):
    """Measures of how the captions of n pairs of a clip and its twin see their order.

    Attributes:
        pairs: scores of captions with clips and twins.
        control: whose captions those of a clip are held against.
        further: (n,) chance, in percent, that a caption of the clip prefers the clip to its twin more than one of the
            control does; ties count half.
        preferred: mean of these; 50 is chance.
        bound: the same mean with the interval of the two one-sided tests against the margin.
        p_value: two-sided p value of the sign test over pairs; None where captions of other clips are the control.
        shares: further shares of pairs in percent by name, see `evenreel.audits.order.preference.CHANCES`.
        recalls: R@1, R@5 and R@10 by whose captions look for what they describe, and among which clips.
        drawn: number of independent pairs: those of one video count once.
        same: whether the scores are the same whatever the order, but for rounding.
    """

    pairs: OrderPairs
    control: Control
    further: Column
    preferred: Interval
    bound: Interval
    p_value: float | None
    shares: Mapping[str, Interval]
    recalls: Mapping[tuple[str, str], Mapping[str, Interval]]
    drawn: int
    same: bool

    @property
    def effect(self) -> Effect:
        """The share of pairs whose own order is preferred beyond the control."""
        one, enough = self.preferred, self.same or self.drawn >= ENOUGH
        name, over = "own order preferred beyond the control, %", "pairs of a clip and its twin"
        return Effect(name, one.value, one.low, one.high, CHANCE, self.p_value, enough, over)

    @property
    def is_within(self) -> bool:
        """Whether the ranking is sure to be less than the margin from chance: it is order-blind, or hardly sees it.

        It is not where the scores chose the pairs: a wrong choice hides order.
        """
        if self.pairs.chosen:
            return False
        low, high = self.bound.low, self.bound.high
        return low is not None and high is not None and low > CHANCE - MARGIN and high < CHANCE + MARGIN

    @property
    def verdict(self) -> Verdict:
        """Whether the ranking sees order, as far as that can be told."""
        effect = self.effect
        if self.same:
            return "blind"
        if isnan(effect.value):
            return "none"
        if not effect.enough:
            return "few"
        if effect.is_significant:
            return "turned" if effect.value < CHANCE else "hardly" if self.is_within else "sees"
        return "blind" if self.is_within else "open"


def measure_order(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
) -> OrderMeasures:
    """Measure whether captions prefer their clips to the same frames in another order.

    Args:
        scores: scores of captions with clips, and with their twins where these are clips of the corpus.
        corpus: corpus, whose column `order_of` says which clip is the twin of which.
        settings: confidence, what is resampled together, and how much is read at once; 0 resamples for no interval.
        edited: scores of the same captions and clips with their frames in another order, by the name of that order.

    Raises:
        CorpusError: no pair can be measured.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
        UsageError: there are scores of several other orders.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    pairs = order_pairs(scores, corpus, as_edited(edited, corpus), settings)
    own = own_scores(pairs, settings.band_bytes)
    sides = replace(settings, confidence=max(2 * settings.confidence - 1, _LEAST)) if settings.resamples else settings
    if pairs.by_both:
        further, shares = within_pairs(pairs, own)
        preferred, bound = (share_interval(further, pairs.cluster, one) for one in (settings, sides))
        p_value = sign_test(*groups_won(further / 100, pairs.cluster))
    else:
        beside = beside_others(pairs, own, settings.band_bytes)
        further, p_value = beside.further, None
        preferred, bound = (_beyond_interval(further, beside.lent, pairs.cluster, one) for one in (settings, sides))
        shares = {TEXT_OF_CLIP: _of_clips(pairs, own.lead), LIKED: beside.liked}
    return OrderMeasures(
        pairs,
        "twins" if pairs.by_both else "others",
        further,
        preferred,
        bound,
        p_value,
        {name: share_interval(shares[name], pairs.cluster, settings) for name in CHANCES if _is_known(shares, name)},
        {} if pairs.chosen else _recalls(pairs, own.alone, own.together, settings),
        len(np.unique(pairs.cluster)),
        own.same,
    )


def _beyond_interval(further: Column, lent: Column, cluster: Indices, settings: AuditSettings) -> Interval:
    """Mean over pairs of captions that are held against each other: what a pair adds to it, it adds in both places."""
    value = float(further.mean())
    if isnan(value) or not settings.resamples:
        return Interval(value)
    sizes = np.bincount(cluster).astype(np.float64)
    parts = np.bincount(cluster, further + lent - 2 * value) / len(further)
    found = t_interval(value, parts, sizes, settings.confidence)
    return around(value, found.low, found.high, (0.0, 100.0))


def _of_clips(pairs: OrderPairs, lead: Column) -> Column:
    """(n,) percent of the captions of each clip that score it above its twin, ties half."""
    wins = 100 * ((lead > 0) + 0.5 * (lead == 0))
    count = len(pairs.clip_ids)
    return np.asarray(np.bincount(pairs.pair, wins, count) / np.bincount(pairs.pair, minlength=count))


def _is_known(shares: Mapping[str, Column], name: str) -> bool:
    return name in shares and not np.isnan(shares[name]).all()


def _recalls(
    pairs: OrderPairs, alone: Hits, together: Hits, settings: AuditSettings
) -> dict[tuple[str, str], dict[str, Interval]]:
    """R@k of captions by whose they are and in which gallery."""
    every, of_clips = np.ones(len(pairs.pair), np.bool_), pairs.tells_clip
    clips, both = f"{len(pairs.clips.columns):,} clips", "clips and twins"
    asked: dict[tuple[str, str], tuple[Hits, Flags]] = {
        ("captions of clips", clips): (alone, of_clips),
        ("captions of clips", both): (together, of_clips),
    }
    if pairs.by_both:
        asked["captions of twins", both] = together, ~of_clips
        asked["all captions", both] = together, every
    return {
        key: {f"R@{k}": share_interval(100 * hits.chance(k)[who], pairs.drawn_with[who], settings) for k in DEPTHS}
        for key, (hits, who) in asked.items()
    }
