"""Audit of confounds: does a ranking follow the source, or codec, frame rate, picture size or duration?

The paper on source bias leaves these differences in its benchmark (Generative Ghost, Table 1): every generator has a
rate, size and length of its own. Where the two clips of a pair are alike in a property, the property cannot explain a
preference.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median_low
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.stats import spearmanr

from evenreel.arrays import Column, Flags
from evenreel.audits.exchange import groups_won, share_interval, sign_test
from evenreel.audits.inputs import Audited, as_inputs, pair_scores, paired_groups, paragraph, score_notices
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.folder import CorpusLike
from evenreel.corpus.summary import lengths_s
from evenreel.errors import CorpusError
from evenreel.evaluation.intervals import Interval, holm
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.figures import effect_intervals
from evenreel.report.result import DASH, ENOUGH, AuditFigure, AuditResult, AuditTable, Effect, Named, figure_words
from evenreel.types import Corpus

NEUTRAL = 50.0
EVERY_PAIR, ALL_OF_THEM = "all pairs", "all of these"
MOST_NAMES = 20  # a property with more names than that is none of a few kinds: hardly two clips would share one


class PairProperty(NamedTuple):
    """Property in which the two clips of a pair can be alike, such as the codec."""

    name: str
    columns: tuple[str, ...]  # of `outward_table`: numbers whose product is its size, or one column of names
    # greatest share by which the larger number exceeds the other in clips that are alike; None for names, which are
    # alike where they are equal
    tolerance: float | None = None
    unit: str = ""

    @property
    def alike(self) -> str:
        """Words on when two clips count as alike in the property."""
        return f"{self.name} {'the same' if self.tolerance is None else f'within {self.tolerance:.0%}'}"


PROPERTIES = (
    PairProperty("codec", ("codec",)),
    PairProperty("frame rate", ("fps",), 0.01, " fps"),
    PairProperty("picture size", ("width", "height"), 0.01),
    PairProperty("duration", ("duration_s",), 0.1, " s"),
)


class PropertyComparison(NamedTuple):
    """Comparison of the two clips of n pairs in one outward property."""

    known: Flags  # (n,) whether the property is known of both clips
    alike: Flags  # (n,) whether it is known and the clips are alike in it
    # (n,) difference of the generated clip from the real one: the logarithm of the ratio of their sizes, or for names 1
    # where they differ; NaN where it is not known
    difference: Column
    real: str  # typical values of real clips and of mirrors, in words
    generated: str
    names: int = 0  # number of different names; 0 for numbers


def outward_table(corpus: Corpus) -> pl.DataFrame:
    """Tabulate `clip_id, codec, fps, width, height, duration_s` of every clip, null where it is not known.

    Raises:
        CorpusError: a column of one of these names holds something else.
    """
    clips = corpus.clips
    kinds = {"codec": pl.String(), "fps": pl.Float64(), "width": pl.Float64(), "height": pl.Float64()}
    own = {name: pl.col(name) if name in clips.columns else pl.lit(None) for name in kinds}
    try:
        table = clips.select("clip_id", **{name: own[name].cast(kind) for name, kind in kinds.items()})
    except pl.exceptions.PolarsError as error:
        raise CorpusError(
            f"The clips have a column codec, width or height that holds something else ({error}); write "
            "what their videos say with `evenreel corpus overview --keep-facts`."
        ) from error
    table = table.with_columns(duration_s=lengths_s(clips))
    numbers = pl.col("fps", "width", "height", "duration_s")
    return table.with_columns(pl.when(numbers > 0).then(numbers))  # 0 x 0 is what some tools write of what is unknown


def compare(
    table: pl.DataFrame, one: PairProperty, real: Sequence[str], generated: Sequence[str]
) -> PropertyComparison:
    """Compare the two clips of n pairs, given by the ids of real clips and of their mirrors, in an outward property."""
    row = {clip: place for place, clip in enumerate(table["clip_id"])}
    sides = [table.select(one.columns)[[row[clip] for clip in side]] for side in (real, generated)]
    if one.tolerance is None:
        names, others = (side.to_series().to_list() for side in sides)
        known = np.array([a is not None and b is not None for a, b in zip(names, others, strict=True)], np.bool_)
        alike = np.array([a == b for a, b in zip(names, others, strict=True)], np.bool_) & known
        different = len({*names, *others} - {None})
        difference = np.where(known, 1.0 - alike, np.nan)
        return PropertyComparison(known, alike, difference, _usual(names), _usual(others), different)
    first, second = (side.to_numpy().astype(np.float64) for side in sides)
    ratios = np.log(second / first)
    known = np.asarray(~np.isnan(ratios).any(axis=1))
    alike = known & (np.abs(ratios) <= math.log1p(one.tolerance) + 1e-9).all(axis=1)
    return PropertyComparison(known, alike, ratios.sum(axis=1), _middle(first, one.unit), _middle(second, one.unit))


def _usual(names: list[Any]) -> str:
    """The most frequent name, and how frequent it is where there are others."""
    counts = Counter(name for name in names if name is not None)
    if not counts:
        return ""
    name, count = counts.most_common(1)[0]
    return str(name) if len(counts) == 1 else f"{name} ({count / counts.total():.0%})"


def _middle(values: Column, unit: str) -> str:
    """The median of each number; of two in the middle the lower, so that it is one that a clip has."""
    known = values[~np.isnan(values).any(axis=1)]
    return " x ".join(f"{median_low(column):.4g}" for column in known.T) + unit if len(known) else ""


# The audit -----------------------------------------------------------------------------------------------------------


def audit_confounds(scores: ScoresLike, corpus: CorpusLike, settings: AuditSettings | None = None) -> AuditResult:
    """Test whether a preference for a source remains among pairs alike in codec, frame rate, size and duration.

    The effect is the win rate of real clips over their mirrors among pairs of the largest group that are alike in all
    properties that are known.

    Args:
        scores: scores of captions and clips.
        corpus: corpus of the pairs, with the columns `codec, fps, width, height, duration_s` of clips.
        settings: samples, seed, confidence, and how much is read at once.

    Raises:
        CorpusError: there are no pairs, or no property is known.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    given = as_inputs(scores, corpus, settings)
    scores, corpus, settings = given
    groups = paired_groups(scores, corpus)
    if not groups:
        raise CorpusError(
            "No clip with a caption has a generated counterpart in the scores, so no pair can be compared; add "
            "counterparts to a corpus with `evenreel corpus pair`. The clips of a library have no captions."
        )
    measured = [_measured(given, group) for group in groups]
    told = [one for one in measured if one.alike]
    if not told:
        raise CorpusError(
            "The corpus says nothing of its clips' codec, frame rate, picture size or duration; write what their "
            "videos say into it with `evenreel corpus overview CORPUS --keep-facts`."
        )
    main = max(told, key=lambda one: one.pairs)
    associations = [row for one in measured for row in one.associations]
    adjusted = iter(holm([p for row in associations if isinstance(p := row["p"], float)]))
    alike = "; ".join(one.alike.replace(one.name, f"{one.name}:") for one in PROPERTIES)
    return AuditResult(
        name="confounds",
        title="Do outward differences explain a preference?",
        sentence=_sentence(main, settings.confidence),
        effect=main.effect,
        tables=(
            AuditTable.of(
                "Win rate of real clips among pairs that are alike",
                (row for one in measured for row in one.rows()),
                f"Medians, or the most frequent name. Alike is {alike}. A win rate of 50 is no preference.",
                digits=1,
            ),
            AuditTable.of(
                "Score gap against difference, over pairs",
                ({**row, "p (Holm)": None if row["p"] is None else next(adjusted)} for row in associations),
                "Above 0: the more the mirror exceeds the real clip in the property, the more the real clip's score "
                "exceeds its mirror's. A dash stands where the property, or the gap, is the same in every pair.",
                digits=3,
            ),
        ),
        figures=tuple(one.figure() for one in told),
        notices=(
            *score_notices(scores, corpus, settings.cluster),
            *dict.fromkeys(notice for one in measured for notice in one.notices),
        ),
        method=(
            paragraph("confounds", "Pairs that are alike"),
            paragraph("confounds", "Properties", properties=", ".join(one.alike for one in PROPERTIES)),
            paragraph("confounds", "Associations"),
        ),
        confidence=settings.confidence,
    )


class AlikePairs(NamedTuple):
    """Win rate of real clips over their mirrors, among pairs that are alike in an outward property."""

    known: int  # number of pairs of which the property is known
    alike: int  # number of pairs that are alike in it
    drawn: int  # number of these that are independent: pairs of one video count once
    win_rate: Interval  # share of their captions that rank the real clip above its mirror, ties half, in percent
    p_value: float | None  # two-sided, of the sign test over these pairs; None without any
    real: str = ""  # typical values of real clips and of mirrors, in words
    generated: str = ""


@dataclass(frozen=True, eq=False)
class _Group:
    """One group of generated clips: its pairs with a caption, alike ones by property, all properties together last."""

    group: str
    pairs: int
    win_rate: Interval
    alike: dict[str, AlikePairs]
    associations: Sequence[Named]
    notices: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Properties that are known of any pair."""
        return [name for name in self.alike if name != ALL_OF_THEM]

    @property
    def effect(self) -> Effect:
        """Win rate among pairs that are alike in all of them; NaN where none are."""
        name, together = f"win rate of real clips among alike pairs ({self.group}), %", self.alike[ALL_OF_THEM]
        if not together.alike:
            return Effect(name, math.nan, neutral=NEUTRAL)
        rate, enough = together.win_rate, together.drawn >= ENOUGH
        return Effect(name, rate.value, rate.low, rate.high, NEUTRAL, together.p_value, enough, "captions")

    @property
    def told(self) -> dict[str, AlikePairs]:
        """By property; all together say no more where there is one only."""
        return {name: one for name, one in self.alike.items() if name != ALL_OF_THEM or len(self.names) > 1}

    def rows(self) -> Iterator[Named]:
        yield {
            "group": self.group, "property": EVERY_PAIR, "real": DASH, "generated": DASH, "pairs": self.pairs,
            "alike": None, "alike, %": None, "win rate, %": self.win_rate,
        }  # fmt: skip
        for name, one in self.told.items():
            yield {
                "group": self.group, "property": name, "real": one.real or DASH, "generated": one.generated or DASH,
                "pairs": one.known, "alike": one.alike, "alike, %": 100 * one.alike / one.known if one.known else None,
                "win rate, %": one.win_rate,
            }  # fmt: skip

    def figure(self) -> AuditFigure:
        rates = {EVERY_PAIR: self.win_rate} | {
            "alike in all" if name == ALL_OF_THEM else f"alike in {name}": one.win_rate
            for name, one in self.told.items()
            if one.alike
        }
        unit = "win rate of real clips, %"
        effects = {name: Effect(unit, rate.value, rate.low, rate.high, NEUTRAL) for name, rate in rates.items()}
        return AuditFigure(f"All pairs and alike ones: {self.group}", partial(effect_intervals, effects))


def _measured(given: Audited, group: str) -> _Group:
    """Compare the pairs of one group that are alike in codec, rate, size or duration with all pairs of the group."""
    scores, corpus, settings = given
    paired = pair_scores(scores, corpus, group, settings.cluster)
    own = [
        [block[np.arange(len(block)), paired.pair[held]].astype(np.float64) for block in blocks]
        for held, *blocks in paired.bands(settings.band_bytes)
    ]
    real, made = (np.concatenate(side) for side in zip(*own, strict=True))
    wins = (real > made) + 0.5 * (real == made)
    numbers, pair = np.unique(paired.pair, return_inverse=True)
    with np.errstate(invalid="ignore"):  # two that are never retrieved have no gap
        gaps = np.bincount(pair, real - made) / np.bincount(pair)
    gaps[~np.isfinite(gaps)] = np.nan

    def among(alike: Flags, known: int, real: str = "", generated: str = "") -> AlikePairs:
        kept = alike[pair]
        if not kept.any():
            return AlikePairs(known, 0, 0, Interval(math.nan), None, real, generated)
        won, drawn = wins[kept], paired.drawn_with[kept]
        rate, p_value = share_interval(100 * won, drawn, settings), sign_test(*groups_won(won, drawn))
        return AlikePairs(known, int(alike.sum()), len(np.unique(drawn)), rate, p_value, real, generated)

    table, ids = outward_table(corpus), paired.scores.video_ids
    sides = [[ids[column] for column in side[numbers].tolist()] for side in (paired.real, paired.generated)]
    every = {one.name: compare(table, one, *sides) for one in PROPERTIES}
    used = {name: one for name, one in every.items() if one.known.any() and one.names <= MOST_NAMES}
    alike = {name: among(one.alike, int(one.known.sum()), one.real, one.generated) for name, one in used.items()}
    if used:
        known = int(np.all([one.known for one in used.values()], axis=0).sum())
        alike[ALL_OF_THEM] = among(np.all([one.alike for one in used.values()], axis=0), known)
    associations = [
        {"group": group, "property": name, **_association(gaps, one.difference)} for name, one in used.items()
    ]
    everyone = share_interval(100 * wins, paired.drawn_with, settings)
    notices = (*paired.notices, *_missing(group, every, len(gaps)))
    return _Group(group, len(gaps), everyone, alike, associations, notices)


def _association(gaps: Column, difference: Column) -> Named:
    """Rank correlation (Spearman), over pairs, of the real clip's score less its mirror's with the difference."""
    known = ~np.isnan(gaps) & ~np.isnan(difference)
    rho = p_value = None
    if known.sum() >= 3 and np.ptp(gaps[known]) and np.ptp(difference[known]) >= 1e-9:
        tested = spearmanr(gaps[known], difference[known])
        rho, p_value = float(tested.statistic), float(tested.pvalue)
    return {
        "pairs": int(known.sum()), "rank correlation": rho,
        "p": p_value if p_value is not None and math.isfinite(p_value) else None,
    }  # fmt: skip


def _missing(group: str, every: dict[str, PropertyComparison], pairs: int) -> Iterator[str]:
    for name, one in every.items():
        known = int(one.known.sum())
        if not known:
            yield f"The {name} of no pair of {group} is known, so it is not compared."
        elif one.names > MOST_NAMES:
            yield (
                f"The {name} of {group} has {one.names:,} different names, more than {MOST_NAMES}: that is no property "
                "that clips share, so it is not compared."
            )
        elif known < pairs:
            yield f"The {name} is known of {known:,} of {pairs:,} pairs of {group}; no other pair counts as alike."


def _sentence(main: _Group, confidence: float) -> str:
    effect, together = main.effect, main.alike[ALL_OF_THEM]
    rate = figure_words(main.win_rate, confidence, "%")
    raw = f"Over all pairs the real clip stands above its mirror for {rate} of the captions"
    if not together.alike:
        different = [name for name in main.names if not main.alike[name].alike] or main.names
        return (
            f"The comparison cannot tell the source from {_listed(different)}: none of {main.pairs:,} pairs "
            f"({main.group}) is alike in {'it' if len(different) == 1 else 'them'}. {raw}; 50% is no preference."
        )
    apart = "" if together.drawn == together.alike else f", of which {together.drawn:,} are drawn apart"
    few = "" if effect.enough else f"Too few pairs to conclude: {together.alike:,} alike{apart}. "
    which = f"all {main.pairs:,}" if together.alike == main.pairs else f"the {together.alike:,} of {main.pairs:,}"
    verdict = ""
    if effect.is_significant:
        preferred = "real" if effect.value > NEUTRAL else "generated"
        verdict = f": these properties do not explain the preference for {preferred} clips"
    elif effect.enough and effect.low is not None:
        verdict = ", which cannot be told from no preference"
    return (
        f"{few}Among {which} pairs ({main.group}) that are alike in {_listed(main.names)}, the real clip stands above "
        f"its mirror for {figure_words(together.win_rate, confidence, '%')} of the captions{verdict}. {raw}; 50% is no "
        "preference."
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
