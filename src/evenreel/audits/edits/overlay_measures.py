"""Measures of misleading words, written or spoken: how far wrong clips rise by them, and how far own clips fall.

Scores are of clips as they are, of clips that each carry words of another clip, and of clips that carry as many letters
or syllables that say nothing, the control. Source of the test: Wilcoxon 1945 (signed ranks).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from evenreel.arrays import Column, Indices
from evenreel.audits.edits.measures import CONTROL, PerturbedMeasures, measure_perturbed
from evenreel.audits.edits.perturbed import AS_IS, Perturbed, Standings
from evenreel.audits.exchange import hits_interval, mean_interval
from evenreel.audits.inputs import as_edited, as_inputs
from evenreel.audits.settings import AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.corpus.distractors import OVERLAY_OF, VOICEOVER_OF
from evenreel.errors import CorpusError
from evenreel.evaluation.intervals import Interval, wilcoxon_test
from evenreel.evaluation.ranking import expected_rank
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import ENOUGH, Effect
from evenreel.types import Corpus, Shown

WRONG, OWN = "the wrong clip", "its clip"
"""Whose change it is: of a clip that carries words of the caption's clip; of that clip, which carries another's."""

_WORSE = {WRONG: -1.0, OWN: 1.0}
"""Which way it is to the worse: a wrong clip gets nearer to the first place, the own clip further away."""

WordChannel = Literal["written", "spoken"]
LENDERS: dict[WordChannel, str] = {"written": OVERLAY_OF, "spoken": VOICEOVER_OF}
"""Column of the clips that names the clip whose words each carries, by where these are."""

Unit = Literal["sd", "places"]
UNITS: dict[Unit, str] = {"sd": "SD", "places": "places"}
"""What the effect may be in, as a table's head has it."""

_UNITS = (*UNITS, "first")


@dataclass(frozen=True)
class OverlayShift:
    """Mean shift of clips in rankings, over captions; each figure also beyond that of the control.

    Attributes:
        sd: shift of the distance from the mean of the other clips, in standard deviations of their scores.
        places: shift of the place in the ranking; equal scores share their mean place.
        first: shift of the share of captions that rank the clip first, in percentage points.
        beyond: for `sd`, `places` and `first`, the shift beyond that of the control; NaN where there is none.
    """

    sd: Interval
    places: Interval
    first: Interval
    beyond: Mapping[str, Interval]


@dataclass(frozen=True, eq=False)
class OverlayMeasures(Shown):
    """Measures of what overlays do to a ranking.

    Attributes:
        own: measures of captions' own clips that carry another clip's words.
        pairs: scores of captions, each with a wrong clip that carries its own clip's words as `Perturbed.own`.
        first: share of `pairs` in which the wrong clip is first, in percent, by the edit; `AS_IS` without one.
        shifts: shifts by clip (`WRONG`, `OWN`) and edit.
        unknown: number of captions without a distance in some version, by clip (`WRONG`, `OWN`); they count in no
            figure of distances.
        effect: rise of wrong clips under the first edit, beyond the control where there is one, in the unit `unit`.
        clips: number of clips whose words some wrong clip carries.
        channel: where the words are.
    """

    own: PerturbedMeasures
    pairs: Perturbed
    first: dict[str, float]
    shifts: dict[tuple[str, str], OverlayShift]
    unknown: dict[str, int]
    effect: Effect
    clips: int
    channel: WordChannel

    @property
    def edit(self) -> str:
        """Name of the edit that the effect is of."""
        return self.own.main[0]

    @property
    def unit(self) -> Unit:
        """Unit of the effect: `sd`, standard deviations of scores, or `places` in the ranking."""
        return _unit(self.unknown)


def measure_overlay(
    scores: ScoresLike, corpus: CorpusLike, edited: Mapping[str, ScoresLike], settings: AuditSettings
) -> OverlayMeasures:
    """Measure what misleading words change in a ranking; intervals are over clips, with all their captions.

    Args:
        scores: scores of captions and clips as they are.
        corpus: corpus that names each caption's own clip, and in a column of `LENDERS` whose words each clip carries.
        edited: scores of the same captions with clips that carry other words, by the name of the edit.
        settings: samples, seed, confidence, and how much is read at once.

    Raises:
        CorpusError: the corpus does not say whose words clips carry or whether these are written or spoken, or the
            scores have no such clip with a caption of the clip whose words they are.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or only those of a control.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    edited = as_edited(edited, corpus)
    channel = _channel(corpus)
    carried = _carried(corpus, LENDERS[channel])
    marked = corpus.captions.filter(pl.col("clip_id").is_in([*carried]))
    own = measure_perturbed(scores, Corpus(corpus.clips, marked), edited, settings)
    every = Perturbed.of(scores, corpus, edited, settings.cluster)
    captions, wrong = _pairs(every, carried, LENDERS[channel])
    pairs, distractors = every.aimed(captions, wrong), every.drawn_with[captions]
    standings = {edit: one for (edit, _), one in pairs.standings({WRONG: (True, False)}, settings.band_bytes).items()}
    of_own = {edit: one for (edit, placing), one in own.standings.items() if placing in (AS_IS, OWN)}
    shifts: dict[tuple[str, str], OverlayShift] = {}
    unknown: dict[str, int] = {}
    for whose, some, groups in ((WRONG, standings, distractors), (OWN, of_own, own.perturbed.drawn_with)):
        found = _shifts(_columns(some, _WORSE[whose]), groups, settings)
        shifts |= {(whose, edit): shift for edit, shift in found.items()}
        unknown[whose] = int(np.isnan([one.distance for one in some.values()]).any(axis=0).sum())
    return OverlayMeasures(
        own, pairs, {edit: float(_figures(one)["first"].mean()) for edit, one in standings.items()}, shifts, unknown,
        _effect(channel, own.main[0], _unit(unknown), shifts, standings, distractors),
        len(np.unique(distractors)), channel,
    )  # fmt: skip


def _unit(unknown: Mapping[str, int]) -> Unit:
    """Distances, unless a pair has none: where the others score alike, just what words lift furthest may have none."""
    return "places" if unknown[WRONG] else "sd"


def _channel(corpus: Corpus) -> WordChannel:
    """Where the misleading words of the clips are, by the column that names whose they are."""
    found = [channel for channel, column in LENDERS.items() if column in corpus.clips.columns]
    if not found:
        raise CorpusError(
            f"The clips of the corpus have no column {OVERLAY_OF!r} or {VOICEOVER_OF!r}, which names the clip whose "
            "words each carries; give the corpus of the clips with misleading words, as `evenreel corpus edit --edit "
            "overlay` (or voiceover) and `evenreel planted scene_text --edit overlay` write it, or add the column to "
            "its table."
        )
    if len(found) > 1:
        raise CorpusError(
            f"The clips of the corpus have both columns {OVERLAY_OF!r} and {VOICEOVER_OF!r}, and one edit writes words "
            "or says them; take the column out that the scores are not of."
        )
    return found[0]


def _carried(corpus: Corpus, column: str) -> dict[str, str]:
    """Map each clip to the other clip whose words it carries."""
    rows = corpus.clips.select("clip_id", pl.col(column).cast(pl.String)).drop_nulls().iter_rows()
    return {clip: distractor for clip, distractor in rows if clip != distractor}


def _pairs(every: Perturbed, carried: Mapping[str, str], column: str) -> tuple[Indices, Indices]:
    """(P,) places of captions and of the wrong clips that carry the words of their clips."""
    place = {clip: number for number, clip in enumerate(every.clip_ids)}
    carriers: dict[int, list[int]] = defaultdict(list)
    for clip, distractor in carried.items():
        if clip in place and distractor in place:
            carriers[place[distractor]].append(place[clip])
    found = [(caption, wrong) for caption, own in enumerate(every.own) for wrong in carriers[int(own)]]
    if not found:
        raise CorpusError(
            f"Of {len(every.clip_ids):,} clips in the scores none carries words of another one with a caption there, "
            f"as the column {column!r} has it; score the clips and captions of that corpus."
        )
    captions, wrong = np.array(found, dtype=np.int64).T
    return captions, wrong


def _columns(standings: Mapping[str, Standings], worse: float) -> dict[str, dict[str, Column]]:
    """(P,) changes to the worse, by edit and unit."""
    before = _figures(standings[AS_IS])
    signs = {"sd": -worse, "places": worse, "first": -worse}
    return {
        edit: {unit: signs[unit] * (after - before[unit]) for unit, after in _figures(one).items()}
        for edit, one in standings.items()
        if edit != AS_IS
    }


def _figures(one: Standings) -> dict[str, Column]:
    """Distance, place and chance of the first place in percent."""
    hits = one.hits
    place = expected_rank(hits.above, hits.others, hits.relevant)
    return dict(zip(_UNITS, (one.distance, place, 100 * hits.chance(1)), strict=True))


def _shifts(
    columns: Mapping[str, Mapping[str, Column]], groups: Indices, settings: AuditSettings
) -> dict[str, OverlayShift]:
    """Means of changes and of what is beyond the control, by edit, all on the same samples."""
    unknown = np.full(len(groups), np.nan)

    def mean(unit: str, values: Column) -> Interval:
        return (hits_interval if unit == "first" else mean_interval)(values, groups, settings)

    shifts = {}
    for edit, one in columns.items():
        control = columns.get(CONTROL) if edit != CONTROL else None
        beyond = {unit: unknown if control is None else one[unit] - control[unit] for unit in _UNITS}
        sd, places, first = (mean(unit, one[unit]) for unit in _UNITS)
        shifts[edit] = OverlayShift(sd, places, first, {unit: mean(unit, values) for unit, values in beyond.items()})
    return shifts


def _effect(
    channel: WordChannel,
    edit: str,
    unit: Unit,
    shifts: Mapping[tuple[str, str], OverlayShift],
    standings: Mapping[str, Standings],
    groups: Indices,
) -> Effect:
    values = _columns(standings, _WORSE[WRONG])
    shift, column, beyond = shifts[WRONG, edit], values[edit][unit], ""
    figure: Interval = getattr(shift, unit)
    if CONTROL in values:
        figure, column, beyond = shift.beyond[unit], column - values[CONTROL][unit], " beyond the control"
    name = f"rise of a wrong clip by {channel} words{beyond} ({edit}), {UNITS[unit]}"
    p = wilcoxon_test(column, groups)
    enough = len(np.unique(groups)) >= ENOUGH
    return Effect(name, figure.value, figure.low, figure.high, p_value=p, enough=enough, over="captions")
