"""Pairs of a real clip and its mirror that are alike in codec, rate, size or duration, compared with all pairs.

Generated clips of one generator have a rate, size and length of their own (Generative Ghost, Table 1), so that a
ranking may go by these instead of by the source. Where a pair is alike in a property, that cannot explain it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags
from evenreel.audits.exchange import groups_won, share_interval, sign_test
from evenreel.audits.inputs import PairedScores, as_inputs, pair_scores
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source.outward import (
    MOST_NAMES,
    PROPERTIES,
    PairProperty,
    PropertyComparison,
    compare,
    outward_table,
)
from evenreel.config import check_kind
from evenreel.corpus.accepted import CorpusLike
from evenreel.evaluation.accepted import ScoresLike
from evenreel.evaluation.results import Interval
from evenreel.types import Corpus


@dataclass(frozen=True)
class Association:
    """Rank correlation, over pairs, of the score gap with the difference in an outward property.

    Attributes:
        pairs: number of pairs of which gap and difference are known.
        rho: Spearman's correlation of the real clip's score less its mirror's with how much larger the mirror's
            property is; None where either does not vary.
        p_value: two-sided p value of a correlation of 0.
        p_holm: p value adjusted for all associations of the audit (Holm 1979).
    """

    pairs: int
    rho: float | None = None
    p_value: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True)
class AlikePairs:
    """Win rate of real clips over their mirrors, among pairs that are alike in an outward property.

    Attributes:
        known: number of pairs of which the property is known.
        alike: number of pairs that are alike in it.
        drawn: number of these that are independent: pairs of one video count once.
        win_rate: share of their captions that rank the real clip above its mirror, ties half, in percent; None without
            any.
        p_value: two-sided p value of the sign test over these pairs; None without any.
        real, generated: typical values of real clips and of mirrors, in words.
        association: correlation of score gap and difference in the property; None for several properties together.
    """

    known: int
    alike: int
    drawn: int
    win_rate: Interval | None
    p_value: float | None
    real: str = ""
    generated: str = ""
    association: Association | None = None


@dataclass(frozen=True, eq=False)
class ConfoundMeasures:
    """Outward differences of one group of generated clips from the real clips that they mirror.

    Attributes:
        group: name of the generator and its setting.
        pairs: number of pairs that have a caption.
        win_rate: win rate over all pairs.
        properties: ranking of alike pairs by the name of the property, for properties known of any pair.
        together: ranking of pairs that are alike in all of these; None where nothing is known.
        notices: sentences on what was left out.
    """

    group: str
    pairs: int
    win_rate: Interval
    properties: dict[str, AlikePairs]
    together: AlikePairs | None
    notices: tuple[str, ...] = ()


def measure_confounds(
    scores: ScoresLike, corpus: CorpusLike, group: str, settings: AuditSettings | None = None
) -> ConfoundMeasures:
    """Compare the pairs of one group that are alike in codec, rate, size or duration with all pairs of the group.

    Args:
        scores: scores of captions and clips.
        corpus: corpus of the pairs, with the columns `codec, fps, width, height, duration_s` of clips
            (`evenreel.features.facts.with_facts`).
        group: group of mirrors: generator and setting.
        settings: samples, seed, confidence, and how much is read at once.

    Raises:
        CorpusError: no pair of the group can be measured.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    check_kind(group, str, "group", "give the name of one, one text")
    paired = pair_scores(scores, corpus, group, settings.cluster)
    found = _Pairs.of(paired, settings)
    every = _all_compared(paired, found, corpus)
    used = {one.name: compared for one, compared in every if compared.known.any() and compared.names <= MOST_NAMES}
    notices = (*paired.notices, *_missing(group, every, len(found.gaps)))
    properties = {
        name: replace(
            found.among(one.alike, int(one.known.sum())),
            real=one.real,
            generated=one.generated,
            association=_associated(found.gaps, one.difference),
        )
        for name, one in used.items()
    }
    together = None
    if used:
        known, alike = (np.all([getattr(one, name) for one in used.values()], axis=0) for name in ("known", "alike"))
        together = found.among(alike, int(known.sum()))
    everyone = found.win_rate(np.ones(len(found.gaps), np.bool_))
    return ConfoundMeasures(group, len(found.gaps), everyone, properties, together, notices)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """What captions say of n pairs that have one.

    Attributes:
        wins: (Q,) 1 where the real clip of a caption stands above its mirror, 1/2 at a tie, else 0.
        pair: (Q,) place of each caption's pair among the n.
        drawn: (Q,) number of what each caption is resampled together with.
        held: (n,) numbers of the pairs in the scores.
        gaps: (n,) mean score of the real clip less that of its mirror; NaN where one is never retrieved.
        settings: of the intervals.
    """

    wins: Column
    pair: NDArray[np.int64]
    drawn: NDArray[np.int64]
    held: NDArray[np.int64]
    gaps: Column
    settings: AuditSettings

    @classmethod
    def of(cls, paired: PairedScores, settings: AuditSettings) -> _Pairs:
        own: list[tuple[Column, Column]] = []
        for held, real_block, made_block in paired.bands(settings.band_bytes):
            each = np.arange(len(real_block)), paired.pair[held]
            own.append((real_block[each].astype(np.float64), made_block[each].astype(np.float64)))
        real, made = (np.concatenate(side) for side in zip(*own, strict=True))
        wins = (real > made) + 0.5 * (real == made)
        numbers, pair = np.unique(paired.pair, return_inverse=True)
        with np.errstate(invalid="ignore"):  # two that are never retrieved have no gap
            gaps = np.bincount(pair, real - made) / np.bincount(pair)
        return cls(
            wins, pair.astype(np.int64), paired.drawn_with, numbers, np.where(np.isfinite(gaps), gaps, np.nan), settings
        )

    def win_rate(self, chosen: Flags) -> Interval:
        """Compute the win rate over the captions of the chosen of n pairs, in percent."""
        kept = chosen[self.pair]
        return share_interval(100 * self.wins[kept], self.drawn[kept], self.settings)

    def among(self, alike: Flags, known: int) -> AlikePairs:
        """How the pairs that are alike are ranked."""
        count = int(alike.sum())
        if not count:
            return AlikePairs(known, 0, 0, None, None)
        kept = alike[self.pair]
        p_value = sign_test(*groups_won(self.wins[kept], self.drawn[kept]))
        return AlikePairs(known, count, len(np.unique(self.drawn[kept])), self.win_rate(alike), p_value)


def _all_compared(paired: PairedScores, found: _Pairs, corpus: Corpus) -> list[tuple[PairProperty, PropertyComparison]]:
    ids = paired.scores.video_ids
    real, generated = (
        [ids[column] for column in side[found.held].tolist()] for side in (paired.real, paired.generated)
    )
    table = outward_table(corpus)
    return [(one, compare(table, one, real, generated)) for one in PROPERTIES]


def _missing(group: str, every: Sequence[tuple[PairProperty, PropertyComparison]], pairs: int) -> Iterator[str]:
    for one, compared in every:
        known = int(compared.known.sum())
        if not known:
            yield f"The {one.name} of no pair of {group} is known, so it is not compared."
        elif compared.names > MOST_NAMES:
            yield (
                f"The {one.name} of {group} has {compared.names:,} different names, more than {MOST_NAMES}: that is "
                "no property that clips share, so it is not compared."
            )
        elif known < pairs:
            yield f"The {one.name} is known of {known:,} of {pairs:,} pairs of {group}; no other pair counts as alike."


def _associated(gaps: Column, difference: Column) -> Association:
    from scipy.stats import spearmanr

    known = ~np.isnan(gaps) & ~np.isnan(difference)
    count = int(known.sum())
    if count < 3 or np.ptp(gaps[known]) == 0 or np.ptp(difference[known]) < 1e-9:
        return Association(count)
    tested = spearmanr(gaps[known], difference[known])
    p_value = float(tested.pvalue)
    return Association(count, float(tested.statistic), p_value if math.isfinite(p_value) else None)
