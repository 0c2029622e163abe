"""Does a ranking follow misleading words, on screen or spoken? The audit of the typographic attack, and of voice-overs.

Words in a picture mislead models, also those that were never trained to read: CLIP takes an apple for an iPod once the
word is stuck to it (Goh et al. 2021, Multimodal neurons in artificial neural networks). Here each clip carries words of
another clip, on a sign or in a voice, and two clips are measured for each caption: the wrong clip that carries words of
the right one, and the right clip that carries other words. The control are clips that carry as many letters or
syllables that say nothing. Source of the test: Wilcoxon 1945 (signed ranks).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import isnan
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from evenreel.arrays import Column, Indices
from evenreel.audits.edits import (
    AS_IS,
    CONTROL,
    Perturbed,
    PerturbedMeasures,
    Standings,
    clip_effect,
    edit_lead,
    edited_notices,
    measure_perturbed,
    perturbed_notices,
    standing_table,
)
from evenreel.audits.exchange import hits_interval, mean_interval
from evenreel.audits.inputs import as_edited, as_inputs, paragraphs
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.counterparts import OVERLAY_OF, VOICEOVER_OF
from evenreel.corpus.folder import CorpusLike
from evenreel.errors import CorpusError
from evenreel.evaluation.intervals import Interval
from evenreel.evaluation.ranking import expected_rank
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import AuditFigure, AuditResult, AuditTable, Cell, Effect, Named, interval_words
from evenreel.types import Corpus, Shown

WRONG, OWN = "the wrong clip", "its clip"
"""Whose change it is: of a clip that carries words of the caption's clip; of that clip, which carries another's."""

_WORSE = {WRONG: -1.0, OWN: 1.0}
"""Which way it is to the worse: a wrong clip gets nearer to the first place, the own clip further away."""

WordChannel = Literal["written", "spoken"]
LENDERS: dict[WordChannel, str] = {"written": OVERLAY_OF, "spoken": VOICEOVER_OF}
"""Column of the clips that names the clip whose words each carries, by where these are."""

Unit = Literal["sd", "places"]
UNITS: dict[Unit, str] = {"sd": "SD", "places": "places"}  # what the effect may be in, as a table's head has it


class _Words(NamedTuple):
    title: str
    rises: str
    falls: str
    carries: str
    where: str
    no_control: str
    unmoved: str


_WORDS: dict[WordChannel, _Words] = {
    "written": _Words(
        "Does the ranking follow misleading words on screen?",
        "A wrong clip that carries written words of the caption's clip",
        "The caption's clip with written words of another",
        "carries",
        "on screen",
        "Score the clips also with as many letters that say nothing, as `evenreel corpus edit --edit overlay-control` "
        "and `evenreel planted scene_text --edit overlay-control` make them, and name it control.",
        "So do all in a ranking that does not read, and in one that reads those that name no word on any screen.",
    ),
    "spoken": _Words(
        "Does the ranking follow misleading spoken words?",
        "A wrong clip in which spoken words of the caption's clip are heard",
        "The caption's clip with spoken words of another",
        "says",
        "in a voice",
        "Score the clips also with as many syllables that say nothing, as `evenreel corpus edit --edit "
        "voiceover-control` and `evenreel planted BIAS --edit voiceover-control` make them, and name it control.",
        "So do all in a ranking that does not hear, and in one that hears those that name no word that is said.",
    ),
}


@dataclass(frozen=True)
class OverlayShift:
    """Mean shift of clips in rankings, over captions; each figure also beyond that of the control."""

    sd: Interval  # shift of the distance from the mean of the other clips, in standard deviations of their scores
    places: Interval  # shift of the place in the ranking; equal scores share their mean place
    first: Interval  # shift of the share of captions that rank the clip first, in percentage points
    # for `sd`, `places` and `first`, the shift beyond that of the control; NaN where there is none
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
        unit: unit of the effect: `sd`, unless a wrong clip has no distance: where the others score alike, just what
            words lift furthest may have none, and it is `places`, which all pairs have.
        effect: rise of wrong clips under the first edit, beyond the control where there is one.
        clips: number of clips whose words some wrong clip carries.
        channel: where the words are.
    """

    own: PerturbedMeasures
    pairs: Perturbed
    first: dict[str, float]
    shifts: dict[tuple[str, str], OverlayShift]
    unknown: dict[str, int]
    unit: Unit
    effect: Effect
    clips: int
    channel: WordChannel


def audit_overlay(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoresLike] = NO_EDITS,
) -> AuditResult:
    """Test whether clips rise in rankings when they carry the words of the clip that is searched for, beyond a control.

    Args:
        scores: scores of captions and clips as they are.
        corpus: corpus of the clips with misleading words; its column `overlay_of` (or `voiceover_of`) names the clip
            whose words each carries on its screen (or in a voice).
        settings: samples, seed, confidence, and how much is read at once.
        edited: scores of the same captions with the clips that carry words, and with those of the control, of the same
            ids.

    Raises:
        CorpusError: the corpus does not say whose words clips carry and where, or the scores have no such pair of
            clips.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or only those of a control.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    edited = as_edited(edited, corpus)
    measured = measure_overlay(scores, corpus, edited, settings)
    words = _WORDS[measured.channel]
    return AuditResult(
        name="overlay",
        title=words.title,
        sentence=_sentence(measured, settings.confidence),
        effect=measured.effect,
        tables=(
            _shift_table(measured, WRONG, words.rises, "rises by"),
            _first_table(measured),
            _shift_table(measured, OWN, words.falls, "falls by"),
            standing_table(measured.own),
        ),
        figures=tuple(_figures(measured)),
        notices=(*edited_notices(scores, corpus, settings, edited), *_notices(measured)),
        method=paragraphs(
            "edits", "Wrong clips", "Distance and places", "Effect of misleading words", "Percentile and recall"
        ),
        confidence=settings.confidence,
    )


def measure_overlay(
    scores: ScoresLike, corpus: CorpusLike, edited: Mapping[str, ScoresLike], settings: AuditSettings
) -> OverlayMeasures:
    """Measure what misleading words change in a ranking; intervals are over clips, with all their captions.

    Arguments and errors are those of `audit_overlay`.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    edited = as_edited(edited, corpus)
    channel = _channel(corpus)
    rows = corpus.clips.select("clip_id", pl.col(LENDERS[channel]).cast(pl.String)).drop_nulls().iter_rows()
    carried = {clip: distractor for clip, distractor in rows if clip != distractor}
    marked = corpus.captions.filter(pl.col("clip_id").is_in([*carried]))
    own = measure_perturbed(scores, Corpus(corpus.clips, marked), edited, settings)
    every = Perturbed.of(scores, corpus, edited, settings.cluster)
    captions, wrong = _pairs(every, carried, LENDERS[channel])
    pairs, distractors = every.aimed(captions, wrong), every.drawn_with[captions]
    standings = {edit: one for (edit, _), one in pairs.standings({WRONG: (True, False)}, settings.band_bytes).items()}
    of_own = {edit: one for (edit, placing), one in own.standings.items() if placing in (AS_IS, OWN)}
    shifts: dict[tuple[str, str], OverlayShift] = {}
    unknown: dict[str, int] = {}
    for whose, some, groups in ((OWN, of_own, own.perturbed.drawn_with), (WRONG, standings, distractors)):
        columns = _columns(some, _WORSE[whose])
        for edit, one in columns.items():
            shifts[whose, edit] = _shift(one, columns.get(CONTROL) if edit != CONTROL else None, groups, settings)
        unknown[whose] = int(np.isnan([one.distance for one in some.values()]).any(axis=0).sum())
    unit: Unit = "places" if unknown[WRONG] else "sd"
    edit = own.main[0]
    shift, column, beyond = shifts[WRONG, edit], columns[edit][unit], ""
    figure = shift.sd if unit == "sd" else shift.places
    if CONTROL in columns:
        figure, column, beyond = shift.beyond[unit], column - columns[CONTROL][unit], " beyond the control"
    effect = clip_effect(
        f"rise of a wrong clip by {channel} words{beyond} ({edit}), {UNITS[unit]}", figure, column, distractors
    )
    first = {edit: float((100 * one.hits.chance(1)).mean()) for edit, one in standings.items()}
    return OverlayMeasures(own, pairs, first, shifts, unknown, unit, effect, len(np.unique(distractors)), channel)


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


def _standing_columns(one: Standings) -> dict[str, Column]:
    """Distance, place and chance of the first place in percent."""
    place = expected_rank(one.hits.above, one.hits.others, one.hits.relevant)
    return {"sd": one.distance, "places": place, "first": 100 * one.hits.chance(1)}


def _columns(standings: Mapping[str, Standings], worse: float) -> dict[str, dict[str, Column]]:
    """(P,) changes to the worse, by edit and unit."""
    before, signs = _standing_columns(standings[AS_IS]), {"sd": -worse, "places": worse, "first": -worse}
    return {
        edit: {unit: signs[unit] * (after - before[unit]) for unit, after in _standing_columns(one).items()}
        for edit, one in standings.items()
        if edit != AS_IS
    }


def _shift(
    columns: Mapping[str, Column], control: Mapping[str, Column] | None, groups: Indices, settings: AuditSettings
) -> OverlayShift:
    """Means of the changes under an edit, and of what is beyond the control."""

    def mean(unit: str, values: Column) -> Interval:
        return (hits_interval if unit == "first" else mean_interval)(values, groups, settings)

    unknown = np.full(len(groups), np.nan)
    beyond = {unit: unknown if control is None else values - control[unit] for unit, values in columns.items()}
    sd, places, first = (mean(unit, values) for unit, values in columns.items())
    return OverlayShift(sd, places, first, {unit: mean(unit, values) for unit, values in beyond.items()})


def _shift_table(measured: OverlayMeasures, whose: str, title: str, does: str) -> AuditTable:
    rows: list[Named] = []
    for edit in measured.pairs.edits:
        shift, row = measured.shifts[whose, edit], dict[str, Cell | Interval](edit=edit)
        for unit, head in UNITS.items():
            row[f"{does}, {head}"] = getattr(shift, unit)
            if measured.own.controlled:
                row[f"beyond the control, {head}"] = shift.beyond[unit]
        rows.append(row)
    counted = f"{len(measured.pairs.own):,} pairs of a caption and a wrong clip, words of {measured.clips:,} clips"
    if whose == OWN:
        counted = f"{len(measured.own.perturbed.own):,} captions of {measured.own.clips:,} clips"
    note = (
        f"SD: standard deviations of the scores of the other clips. {counted}, in a gallery of "
        f"{len(measured.pairs.clip_ids):,}."
    )
    if unknown := measured.unknown[whose]:
        note += f" {unknown:,} of them have no distance, so they count in none of the columns SD."
    return AuditTable.of(title, rows, note)


def _first_table(measured: OverlayMeasures) -> AuditTable:
    rows: list[Named] = [{"edit": "none", "first, %": measured.first[AS_IS]}]
    for edit in measured.pairs.edits:
        shift = measured.shifts[WRONG, edit]
        beyond = {"beyond the control": shift.beyond["first"]} if measured.own.controlled else {}
        rows.append({"edit": edit, "first, %": measured.first[edit], "gained, points": shift.first, **beyond})
    return AuditTable.of(
        "How often the wrong clip becomes the first",
        rows,
        "Share of the pairs of a caption and a wrong clip in which it stands above all others, ties by their chance.",
    )


def _figures(measured: OverlayMeasures) -> Iterator[AuditFigure]:
    where = _WORDS[measured.channel].where
    moved = {"sd": "standard deviations of the other clips' scores", "places": "places gained, or lost"}
    for unit, title, axis in (
        (measured.unit, f"How far clips move by words {where}", moved[measured.unit]),
        ("first", f"Who is first by words {where}", "points of the first place gained, or lost"),
    ):
        drawn = {
            name: {edit: getattr(measured.shifts[whose, edit], unit) for edit in measured.pairs.edits}
            for name, whose in (("a wrong clip rises", WRONG), ("the caption's clip falls", OWN))
        }
        note = "What the words do beyond the control is due to what they say."
        yield AuditFigure(title, partial(deltas_by_group, drawn, axis), note)


def _notices(measured: OverlayMeasures) -> Iterator[str]:
    words = _WORDS[measured.channel]
    if count := measured.unknown[WRONG]:
        yield (
            f"Of {len(measured.pairs.own):,} pairs of a caption and a wrong clip, {count:,} have no distance before or "
            "after an edit: the other clips all score the same, as they do where words alone count and no clip shows "
            "or says them, or the wrong clip scores minus infinity. The effect is in places, which all pairs have."
        )
    yield from perturbed_notices(measured.own, words.no_control, words.unmoved)


def _sentence(measured: OverlayMeasures, confidence: float) -> str:
    effect, edit, carries = measured.effect, measured.own.main[0], _WORDS[measured.channel].carries
    few = "" if effect.enough else f"Too few clips to conclude: {measured.clips:,}. "
    words = f"misleading {measured.channel} words"
    found = f"The ranking {'shuns' if effect.value < 0 else 'follows'} {words}"
    lead = edit_lead(effect, edit, f"That the ranking follows {words} cannot be told", found)
    wrong, own = measured.shifts[WRONG, edit], measured.shifts[OWN, edit]
    beyond = f", {effect.value:.2f} beyond the control" if measured.own.controlled else ""
    beyond += interval_words(effect, confidence)
    rises, falls = f"{wrong.places.value:.2f} places{beyond}", f"{own.places.value:.1f} places"
    if measured.unit == "sd":
        rises = f"{wrong.sd.value:.2f} standard deviations of the other clips' scores{beyond}, and by "
        rises += f"{wrong.places.value:.1f} places"
        falls = falls if isnan(own.sd.value) else f"{own.sd.value:.2f} standard deviations and {falls}"
    return (
        f"{few}{lead}: a wrong clip that {carries} words of the caption's clip rises by {rises}. It is first for "
        f"{measured.first[edit]:.1f}% of captions, without the words for {measured.first[AS_IS]:.1f}%. The clip of a "
        f"caption falls by {falls} when it {carries} another's words."
    )
