"""Sentences of an audit of length bias, and on how everything in them is computed."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

import numpy as np

from evenreel.audits.inputs import paragraph
from evenreel.audits.length.data import LengthData
from evenreel.audits.length.first_clips import MAIN
from evenreel.audits.length.measures import FAILED, LengthMeasures, tertiles
from evenreel.audits.length.trims import USES_TEST
from evenreel.report.result import Effect, by_certainty, figure_words


def length_sentence(measured: LengthMeasures, confidence: float) -> str:
    """Return a sentence on the effect of the audit, which begins with a warning where there is too little data."""
    return (
        _length_bias_sentence(measured, confidence)
        if measured.has_length_bias
        else _ratio_sentence(measured, confidence)
    )


def length_notices(measured: LengthMeasures, *, trained: bool) -> Iterator[str]:
    """Yield notices on the data of an audit of length bias.

    Args:
        measured: measures of one system.
        trained: whether the training clips are known.
    """
    data = measured.data
    if not trained:
        advice = "" if data.relevance is None else "; to ask that, name the training part (--train-split)"
        yield (
            "Nothing says what the system learned from, so this compares the lengths of the first clips with those of "
            f"others, and does not ask whether they follow the lengths of training{advice}."
        )
    elif data.classes is None:
        yield "The clips have no verb classes, so lengths in training and in test cannot be compared by class."
    elif not measured.has_length_bias:
        yield "No caption is of a class that training has, so nothing can be said of the lengths of training."
    if unknown := int(np.isnan(data.whole).sum()):
        yield f"Of {unknown:,} of {len(data.whole):,} clips the length is not known; they are in no mean."
    if measured.has_length_bias and (lost := int(np.isnan(measured.train_mean).sum())):
        yield f"Captions whose class training does not have, or that have none: {lost:,} take no part in the lean."
    if data.shared:
        yield f"Clips in the scores that are training clips too: {data.shared:,}; a ranking of them proves little."


def length_method(measured: LengthMeasures) -> Iterator[str]:
    """Yield paragraphs on how the audit of length bias was computed, with the sources."""
    yield paragraph("length", "Excess", main=MAIN)
    if measured.has_length_bias:
        yield paragraph("length", "Length bias", main=MAIN)
        yield paragraph("length", "Suspected failures", main=MAIN, failed=FAILED)
        yield paragraph("length", "Trimming and strata", uses_test=USES_TEST)
    what = "the lengths of clips are permuted, within their class where there are classes"
    yield paragraph("length", "Ratio", permuted=paragraph("shared", "Permuted clips", what=what))
    yield paragraph("length", "Equal scores")


def unit_of(data: LengthData) -> str:
    """Return the unit to write after a length, frames or seconds."""
    return "frames" if data.unit == "frames" else "s"


def _length_bias_sentence(measured: LengthMeasures, confidence: float) -> str:
    effect = measured.effect
    if isnan(effect.value):
        return "The captions are of too few classes, or of classes too alike in length, for a lean to be measured."
    few = "" if effect.enough else f"Too few classes to conclude: {len(np.unique(measured.data.groups)):,}. "
    return (
        f"{few}{_length_bias_lead(effect)}: rank correlation {figure_words(effect, confidence, digits=2)}, "
        f"where 0 is no lean.{_tertiles_words(measured)}{_failure_words(measured)}"
    )


def _length_bias_lead(effect: Effect) -> str:
    side = "towards" if effect.value > 0 else "away from"
    return by_certainty(
        effect,
        f"What was seen leans {side} the lengths that classes had in training",
        "Without an interval no lean towards the lengths of training can be told",
        "No lean towards the lengths that classes had in training can be told",
        f"The ranking leans {side} the lengths that classes had in training",
    )


def _tertiles_words(measured: LengthMeasures) -> str:
    found = tertiles(measured)
    if len(found) < 2:
        return ""
    return (
        f" Where the class was short in training (the shortest third), the first {MAIN} clips are {found[0].ratio:.2f} "
        f"times as long as {measured.data.others}; where it was long, {found[-1].ratio:.2f} times."
    )


def _failure_words(measured: LengthMeasures) -> str:
    if measured.failures is None or not measured.failures.captions:
        return ""
    one = measured.failures
    some = "" if measured.effect.is_significant and measured.effect.value > 0 else ", as some do in any ranking"
    return f" {len(one.suspected):,} of {one.captions:,} captions may be missed for their length{some}."


def _ratio_sentence(measured: LengthMeasures, confidence: float) -> str:
    effect, captions = measured.ratio, int((~np.isnan(measured.first.excess[measured.first.main])).sum())
    if isnan(effect.value):
        return "No query is shown a clip of known length, so no length can be compared."
    depth = measured.first.depths[measured.first.main]
    clips = int((~np.isnan(measured.data.lengths)).sum())
    drawn = len(np.unique(measured.data.cluster[~np.isnan(measured.data.lengths)]))
    apart = "" if drawn == clips else f", of which {drawn:,} are drawn apart"
    few = "" if effect.enough else f"Too few to conclude: {captions:,} queries and {clips:,} clips{apart}. "
    return (
        f"{few}{_ratio_lead(effect)}: the first {depth} are {figure_words(effect, confidence, digits=2)} times as long "
        f"as {measured.data.others}, as geometric means, where 1 is no preference ({captions:,} queries, {clips:,} "
        "clips)."
    )


def _ratio_lead(effect: Effect) -> str:
    side = "long" if effect.value > 1 else "short"
    return by_certainty(
        effect,
        f"What was seen leans towards {side} clips",
        "Without an interval no preference for a length can be told",
        "No preference for long or short clips can be told",
        f"The ranking returns {side} clips first",
    )
