"""Does a ranking follow misleading words, on screen or spoken? The audit of the typographic attack, and of voice-overs.

Words in a picture mislead models, also those that were never trained to read: CLIP takes an apple for an iPod once the
word is stuck to it (Goh et al. 2021, Multimodal neurons in artificial neural networks). Here each clip carries words of
another clip, on a sign or in a voice, and two clips are measured for each caption: the wrong clip that carries words of
the right one, and the right clip that carries other words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import isnan
from typing import NamedTuple

from evenreel.audits.edits.overlay_measures import OWN, UNITS, WRONG, OverlayMeasures, WordChannel, measure_overlay
from evenreel.audits.edits.perturbed import AS_IS
from evenreel.audits.edits.tables import standing_table
from evenreel.audits.edits.words import edit_lead, edited_notices, perturbed_notices
from evenreel.audits.inputs import as_edited, as_inputs, paragraphs
from evenreel.audits.settings import NO_EDITS, AuditSettings
from evenreel.corpus.accepted import CorpusLike
from evenreel.evaluation.intervals import Interval
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import (
    AuditFigure,
    AuditResult,
    AuditTable,
    Cell,
    interval_cells,
    interval_columns,
    interval_words,
)


class ChannelWords(NamedTuple):
    """Words of the audit for one way in which clips carry misleading words.

    Attributes:
        title: question of the audit.
        rises: title of the table on wrong clips.
        falls: title of the table on captions' own clips.
        carries: what a wrong clip does with the words.
        where: where the words are.
        no_control: advice on how to make a control, where there is none.
        unmoved: words on captions whose clip did not move.
    """

    title: str
    rises: str
    falls: str
    carries: str
    where: str
    no_control: str
    unmoved: str


WORDS: dict[WordChannel, ChannelWords] = {
    "written": ChannelWords(
        "Does the ranking follow misleading words on screen?",
        "A wrong clip that carries written words of the caption's clip",
        "The caption's clip with written words of another",
        "carries",
        "on screen",
        "Score the clips also with as many letters that say nothing, as `evenreel corpus edit --edit overlay-control` "
        "and `evenreel planted scene_text --edit overlay-control` make them, and name it control.",
        "So do all in a ranking that does not read, and in one that reads those that name no word on any screen.",
    ),
    "spoken": ChannelWords(
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
"""By the channel of the words."""


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
    words = WORDS[measured.channel]
    return AuditResult(
        name="overlay",
        title=words.title,
        sentence=overlay_sentence(measured, settings.confidence),
        effect=measured.effect,
        tables=(
            _shift_table(measured, WRONG, words.rises, "rises by"),
            _first_table(measured),
            _shift_table(measured, OWN, words.falls, "falls by"),
            standing_table(measured.own),
        ),
        figures=tuple(_figures(measured)),
        notices=(
            *edited_notices(scores, corpus, settings, edited),
            *_silent(measured),
            *perturbed_notices(measured.own, words.no_control, words.unmoved),
        ),
        method=paragraphs(
            "edits", "Wrong clips", "Distance and places", "Effect of misleading words", "Percentile and recall"
        ),
        confidence=settings.confidence,
    )


def overlay_sentence(measured: OverlayMeasures, confidence: float) -> str:
    """Return sentences on the effect, on how often the wrong clip is first, and on captions' own clips."""
    effect, edit, carries = measured.effect, measured.edit, WORDS[measured.channel].carries
    few = "" if effect.enough else f"Too few clips to conclude: {measured.clips:,}. "
    wrong, own = measured.shifts[WRONG, edit], measured.shifts[OWN, edit]
    beyond = f", {effect.value:.2f} beyond the control" if measured.own.controlled else ""
    beyond += interval_words(effect, confidence)
    rises, falls = f"{wrong.places.value:.2f} places{beyond}", f"{own.places.value:.1f} places"
    if measured.unit == "sd":
        rises = f"{wrong.sd.value:.2f} standard deviations of the other clips' scores{beyond}, and by "
        rises += f"{wrong.places.value:.1f} places"
        falls = falls if isnan(own.sd.value) else f"{own.sd.value:.2f} standard deviations and {falls}"
    return (
        f"{few}{_lead(measured)}: a wrong clip that {carries} words of the caption's clip rises by {rises}. It is "
        f"first for {measured.first[edit]:.1f}% of captions, without the words for {measured.first[AS_IS]:.1f}%. The "
        f"clip of a caption falls by {falls} when it {carries} another's words."
    )


def _silent(measured: OverlayMeasures) -> Iterator[str]:
    """Yield a notice where pairs have no distance, and say what the effect is in for that."""
    if count := measured.unknown[WRONG]:
        yield (
            f"Of {len(measured.pairs.own):,} pairs of a caption and a wrong clip, {count:,} have no distance before or "
            "after an edit: the other clips all score the same, as they do where words alone count and no clip shows "
            "or says them, or the wrong clip scores minus infinity. The effect is in places, which all pairs have."
        )


def _lead(measured: OverlayMeasures) -> str:
    does = "shuns" if measured.effect.value < 0 else "follows"
    words = f"misleading {measured.channel} words"
    chance = f"That the ranking follows {words} cannot be told"
    return edit_lead(measured.effect, measured.edit, chance, f"The ranking {does} {words}")


def _shift_table(measured: OverlayMeasures, whose: str, title: str, does: str) -> AuditTable:
    controlled = measured.own.controlled
    heads: list[str] = []
    for unit in UNITS.values():
        heads += [f"{does}, {unit}", *([f"beyond the control, {unit}"] if controlled else [])]
    rows = []
    for edit in measured.pairs.edits:
        shift = measured.shifts[whose, edit]
        figures: list[Interval] = []
        for unit in UNITS:
            figures += [getattr(shift, unit), *([shift.beyond[unit]] if controlled else [])]
        rows.append((edit, *interval_cells(*figures)))
    gallery = f"in a gallery of {len(measured.pairs.clip_ids):,}"
    counted = f"{len(measured.pairs.own):,} pairs of a caption and a wrong clip, words of {measured.clips:,} clips"
    if whose == OWN:
        counted = f"{len(measured.own.perturbed.own):,} captions of {measured.own.clips:,} clips"
    note = f"SD: standard deviations of the scores of the other clips. {counted}, {gallery}."
    if unknown := measured.unknown[whose]:
        note += f" {unknown:,} of them have no distance, so they count in none of the columns SD."
    return AuditTable(title, ("edit", *interval_columns(*heads)), tuple(rows), note)


def _first_table(measured: OverlayMeasures) -> AuditTable:
    """How often the wrong clip is first, as it is and under each edit."""
    controlled = measured.own.controlled
    heads = ["gained, points", *(["beyond the control"] if controlled else [])]
    rows: list[tuple[Cell, ...]] = [("none", measured.first[AS_IS], *interval_cells(*[None] * len(heads)))]
    for edit in measured.pairs.edits:
        shift = measured.shifts[WRONG, edit]
        figures = (shift.first, *([shift.beyond["first"]] if controlled else []))
        rows.append((edit, measured.first[edit], *interval_cells(*figures)))
    return AuditTable(
        "How often the wrong clip becomes the first", ("edit", "first, %", *interval_columns(*heads)), tuple(rows),
        "Share of the pairs of a caption and a wrong clip in which it stands above all others, ties by their chance.",
    )  # fmt: skip


def _figures(measured: OverlayMeasures) -> Iterator[AuditFigure]:
    edits, where = measured.pairs.edits, WORDS[measured.channel].where
    series = {"a wrong clip rises": WRONG, "the caption's clip falls": OWN}
    moved = {"sd": "standard deviations of the other clips' scores", "places": "places gained, or lost"}
    for unit, title, axis in (
        (measured.unit, f"How far clips move by words {where}", moved[measured.unit]),
        ("first", f"Who is first by words {where}", "points of the first place gained, or lost"),
    ):
        drawn = {
            name: {edit: getattr(measured.shifts[whose, edit], unit) for edit in edits}
            for name, whose in series.items()
        }
        yield AuditFigure(
            title,
            partial(deltas_by_group, drawn, axis),
            "What the words do beyond the control is due to what they say.",
        )
