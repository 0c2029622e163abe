"""Sentences of audits of edits, and on how everything in them is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isnan

from evenreel.audits.edits.measures import CONTROL, PerturbedMeasures, means
from evenreel.audits.edits.perturbed import AS_IS
from evenreel.audits.inputs import score_notices
from evenreel.audits.settings import AuditSettings
from evenreel.report.result import Effect, by_certainty, interval_words
from evenreel.types import Corpus, ScoreBlocks

_MOST_BESIDE = 3
"""Other edits that a sentence names."""


def perturbed_sentence(measured: PerturbedMeasures, confidence: float, when: str) -> str:
    """Return a sentence on the effect of an edit, which begins with a warning where there is too little data.

    Args:
        measured: measures of one system.
        confidence: confidence of its intervals.
        when: words on the condition, such as `when it alone is edited`.
    """
    if isnan(measured.effect.value):
        return "The own clip of no caption has a score among others that differ, so nothing can be measured."
    few = "" if measured.effect.enough else f"Too few clips to conclude: {measured.clips:,}. "
    main = _beyond_words if measured.controlled else _fall_words
    return f"{few}{main(measured, confidence, when)}{_recall_words(measured, when)}"


UNCHANGED = "Leave those in which nothing was changed out of its scores: they count as not moved."


def perturbed_notices(measured: PerturbedMeasures, no_control: str, unmoved: str = UNCHANGED) -> Iterator[str]:
    """Yield notices on the data of an audit of edits.

    Args:
        measured: measures of one system.
        no_control: words on what to do where there is no control.
        unmoved: words on captions whose clip did not move.
    """
    yield from measured.perturbed.notices
    if not measured.controlled:
        yield f"There are no scores of a control, so nothing says how far clips move in any edit. {no_control}"
    if measured.unknown:
        yield (
            f"Captions whose own clip scores minus infinity, or whose other clips all score the same, before or after "
            f"an edit: {measured.unknown:,} take no part in the distances."
        )
    for edit in measured.perturbed.edits:
        if edit != CONTROL and (still := measured.still(edit)):
            yield (
                f"With {edit!r}, {still:,} of {len(measured.perturbed.own):,} captions find their clip exactly where "
                f"it was. {unmoved}"
            )


def edited_notices(
    scores: ScoreBlocks, corpus: Corpus, settings: AuditSettings, edited: Mapping[str, ScoreBlocks]
) -> Iterator[str]:
    """Yield notices on the scores, and on what the scores after each edit use beside captions and clips."""
    yield from score_notices(scores, corpus, settings.cluster)
    for edit, one in edited.items():
        if one.about.uses:
            yield f"The scores of {edit!r} use {' and '.join(one.about.uses)}."


def _beyond_words(measured: PerturbedMeasures, confidence: float, when: str) -> str:
    effect, change = measured.effect, measured.changes[measured.main]
    return (
        f"{_beyond_lead(effect, change.edit)}: with it the clip of a caption moves by {change.moved.value:.2f} "
        f"standard deviations of the other clips' scores {when}, which is {effect.value:.2f} beyond the control"
        f"{interval_words(effect, confidence)}.{_beside_words(measured)}"
    )


def _beyond_lead(effect: Effect, edit: str) -> str:
    hangs = f"The ranking hangs on what {edit!r} changes"
    less = f"The ranking hangs less on what {edit!r} changes than on what the control does"
    chance = f"That the ranking hangs on what {edit!r} changes cannot be told"
    return edit_lead(effect, edit, chance, less if effect.value < 0 else hangs)


def edit_lead(effect: Effect, edit: str, chance: str, found: str) -> str:
    """Begin the sentence on the effect of an edit, with `chance` or `found` where an interval says which."""
    few, unsure = f"What was seen of {edit!r}", f"Without an interval nothing can be told of {edit!r}"
    return by_certainty(effect, few, unsure, chance, found)


def _beside_words(measured: PerturbedMeasures) -> str:
    edit, placing = measured.main
    others = [name for name in measured.perturbed.edits if name not in (edit, CONTROL)][:_MOST_BESIDE]
    if not others:
        return ""
    said = ", ".join(f"{measured.changes[name, placing].moved.value:.2f} with {name!r}" for name in others)
    return f" Beside it: {said}."


def _fall_words(measured: PerturbedMeasures, confidence: float, when: str) -> str:
    effect, (edit, _) = measured.effect, measured.main
    does, fall = ("rises", _turned(effect)) if effect.value < 0 else ("falls", effect)
    lead = "What was seen: the" if not effect.enough else "The"
    if effect.enough and not effect.is_significant:
        lead = f"That {edit!r} makes clips fall or rise cannot be told: the"
    return (
        f"{lead} clip of a caption {does} by {fall.value:.2f} standard deviations of the other clips' scores "
        f"with {edit!r} {when}{interval_words(fall, confidence)}."
    )


def _turned(effect: Effect) -> Effect:
    """Return the effect with the opposite sign."""
    low, high = (None if end is None else -end for end in (effect.high, effect.low))
    return replace(effect, value=-effect.value, low=low, high=high)


def _recall_words(measured: PerturbedMeasures, when: str) -> str:
    before, after = ([*means(measured.standings[key])][1] for key in ((AS_IS, AS_IS), measured.main))
    return f" R@1 goes from {before:.1f} to {after:.1f}% {when}."
