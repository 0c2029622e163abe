"""Does a ranking follow misleading words on screen? The audit of the typographic attack.

Words in a picture mislead models, also those that were never trained to read: CLIP takes an apple for an iPod once the
word is stuck to it (Goh et al. 2021, Multimodal neurons in artificial neural networks). Here each clip carries words of
another clip, and two clips are measured for each caption: the wrong clip that carries words of the right one, and the
right clip that carries other words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import isnan

from evenreel.audits.edits.overlay_measures import OWN, UNITS, WRONG, OverlayMeasures, measure_overlay
from evenreel.audits.edits.perturbed import AS_IS
from evenreel.audits.edits.tables import standing_table
from evenreel.audits.edits.words import edit_lead, edited_notices, perturbed_notices
from evenreel.audits.method import paragraphs
from evenreel.audits.settings import NO_EDITS, AuditSettings, checked_settings
from evenreel.evaluation.results import Interval
from evenreel.report.result.figures import deltas_by_group
from evenreel.report.result.record import AuditFigure, AuditResult, AuditTable, Cell, interval_cells, interval_columns
from evenreel.report.result.words import interval_words
from evenreel.types import Corpus, ScoreBlocks

NO_CONTROL = (
    "Score the clips also with as many letters that say nothing, as `evenreel corpus edit --edit overlay-control` and "
    "`evenreel planted scene_text --edit overlay-control` make them, and name it control."
)

UNMOVED = "So do all in a ranking that does not read, and in one that reads those that name no word on any screen."

RISES, FALLS = "A wrong clip that carries words of the caption's clip", "The caption's clip with words of another"


def audit_overlay(
    scores: ScoreBlocks,
    corpus: Corpus,
    settings: AuditSettings | None = None,
    *,
    edited: Mapping[str, ScoreBlocks] = NO_EDITS,
) -> AuditResult:
    """Test whether clips rise in rankings when they carry the words of the clip that is searched for, beyond a control.

    Args:
        scores: scores of captions and clips as they are.
        corpus: corpus of the clips with misleading words; its column `overlay_of` names the clip whose words each
            carries.
        settings: samples, seed, confidence, and how much is read at once.
        edited: scores of the same captions with the clips that carry words, and with those of the control, of the same
            ids.

    Raises:
        CorpusError: the corpus does not say whose words clips carry, or the scores have no such pair of clips.
        ScoresError: a score is NaN, or scores are no table of captions and videos.
        UsageError: there are no edited scores, or only those of a control.
    """
    settings = checked_settings(scores, corpus, settings)
    measured = measure_overlay(scores, corpus, edited, settings)
    return AuditResult(
        name="overlay",
        title="Does the ranking follow misleading words on screen?",
        sentence=overlay_sentence(measured, settings.confidence),
        effect=measured.effect,
        tables=(
            _shift_table(measured, WRONG, RISES, "rises by"),
            _first_table(measured),
            _shift_table(measured, OWN, FALLS, "falls by"),
            standing_table(measured.own),
        ),
        figures=tuple(_figures(measured)),
        notices=(
            *edited_notices(scores, corpus, settings, edited),
            *_silent(measured),
            *perturbed_notices(measured.own, NO_CONTROL, UNMOVED),
        ),
        method=paragraphs(
            "edits", "Wrong clips", "Distance and places", "Effect of misleading words", "Percentile and recall"
        ),
        confidence=settings.confidence,
    )


def overlay_sentence(measured: OverlayMeasures, confidence: float) -> str:
    """Return sentences on the effect, on how often the wrong clip is first, and on captions' own clips."""
    effect, edit = measured.effect, measured.edit
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
        f"{few}{_lead(measured)}: a wrong clip that carries words of the caption's clip rises by {rises}. It is first "
        f"for {measured.first[edit]:.1f}% of captions, without the words for {measured.first[AS_IS]:.1f}%. The clip of "
        f"a caption falls by {falls} when it carries another's words."
    )


def _silent(measured: OverlayMeasures) -> Iterator[str]:
    """Yield a notice where pairs have no distance, and say what the effect is in for that."""
    if count := measured.unknown[WRONG]:
        yield (
            f"Of {len(measured.pairs.own):,} pairs of a caption and a wrong clip, {count:,} have no distance before or "
            "after an edit: the other clips all score the same, as they do where words alone count and no screen shows "
            "them, or the wrong clip scores minus infinity. The effect is in places, which all pairs have."
        )


def _lead(measured: OverlayMeasures) -> str:
    does = "shuns" if measured.effect.value < 0 else "follows"
    chance = "That the ranking follows misleading words cannot be told"
    return edit_lead(measured.effect, measured.edit, chance, f"The ranking {does} misleading words")


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
    edits = measured.pairs.edits
    series = {"a wrong clip rises": WRONG, "the caption's clip falls": OWN}
    moved = {"sd": "standard deviations of the other clips' scores", "places": "places gained, or lost"}
    for unit, title, axis in (
        (measured.unit, "How far clips move by words on screen", moved[measured.unit]),
        ("first", "Who is first by words on screen", "points of the first place gained, or lost"),
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
