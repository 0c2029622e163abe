"""Sentences of an audit of source bias, and on how everything in them is computed."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from evenreel.audits.exchange import BOTH, MIX_R
from evenreel.audits.inputs import paragraph, paragraphs
from evenreel.audits.source.paired import SourceMeasures
from evenreel.audits.source.unpaired import NEUTRAL, Exposure, Preference
from evenreel.report.result import ENOUGH, Effect, by_certainty, figure_words


def paired_effect(measured: SourceMeasures) -> Effect:
    """Return the Normalized delta MixR of a group of generated clips as an effect."""
    delta = measured.deltas["normalized"][MIX_R]
    name, enough = f"Normalized Δ MixR ({measured.group})", measured.drawn >= ENOUGH
    return Effect(name, delta.value, delta.low, delta.high, p_value=measured.p_value, enough=enough, over=BOTH)


def unpaired_effect(preference: Preference) -> Effect:
    """Return the rate at which real clips are ranked above generated ones, where neither answers, as an effect."""
    share, enough = preference.share, min(preference.real, preference.generated, preference.drawn) >= ENOUGH
    name = "real clip above a generated one, neither known to answer, %"
    return Effect(name, share.value, share.low, share.high, NEUTRAL, preference.p_value, enough, BOTH)


def paired_sentence(measured: SourceMeasures, confidence: float) -> str:
    """Return a sentence on the effect in pairs and the win rate; it begins with a warning where pairs are too few."""
    effect = paired_effect(measured)
    said = figure_words(measured.deltas["normalized"][MIX_R], confidence)
    rate = figure_words(measured.win_rate, confidence, "%")
    return (
        f"{'' if effect.enough else _few_pairs(measured)}{_direction(effect)}: Normalized Δ MixR is {said}, where 0 is "
        f"no preference and less than 0 favours generated clips. For {rate} of {measured.captions:,} captions the real "
        f"clip stands above its mirror ({measured.group}, {measured.pairs:,} pairs)."
    )


def unpaired_sentence(preference: Preference, exposure: Exposure, confidence: float) -> str:
    """Return a sentence on the effect without pairs, and on the share of generated clips among the first.

    It begins with a warning where clips are too few.
    """
    effect = unpaired_effect(preference)
    lead = "" if effect.enough else _few(preference.real, preference.generated, preference.drawn)
    if isnan(preference.share.value):
        return f"{lead}No caption has both a real and a generated clip that do not answer it, so none can be compared."
    return (
        f"{lead}{_direction(effect)}: of a real and a generated clip that are not known to answer the query, the real "
        f"one scores higher {figure_words(preference.share, confidence, '%')} of the time, where 50% is no preference "
        f"({preference.captions:,} queries, {preference.real:,} real and {preference.generated:,} generated clips)."
        f"{_shown_first(exposure, confidence, enough=effect.enough)}"
    )


def _shown_first(exposure: Exposure, confidence: float, *, enough: bool) -> str:
    """Word who takes the first places, and whether that is more or less than the share of the gallery."""
    first = exposure.shown.get(1)
    if first is None:
        return ""
    said = f" Generated clips take {figure_words(first, confidence, '%')} of the first places"
    gallery = f"their {exposure.gallery:.1f}% of the gallery"
    if not enough or first.low is None or first.high is None:
        return f"{said}, beside {gallery}."
    if first.low <= exposure.gallery <= first.high:
        return f"{said}, which cannot be told from {gallery}."
    if first.value > exposure.gallery:
        return f"{said}, more than {gallery}: they answer more of these queries, or are favoured."
    return f"{said}, less than {gallery}: they answer fewer of these queries, or real clips are favoured."


def _few(real: int, generated: int, drawn: int) -> str:
    together = "" if drawn >= min(real, generated) else f", of which {drawn:,} are drawn apart"
    return f"Too few clips to conclude: {real:,} real and {generated:,} generated{together}. "


def _few_pairs(measured: SourceMeasures) -> str:
    if measured.asked_for < measured.pairs:
        return f"Too few clips to conclude: {measured.asked_for:,} of {measured.pairs:,} pairs have a caption. "
    return _few(measured.pairs, measured.pairs, measured.drawn)


def _direction(effect: Effect) -> str:
    """Word who is favoured, as far as that is significant."""
    side = "real" if effect.value > effect.neutral else "generated"
    return by_certainty(
        effect,
        "What was seen" if effect.value == effect.neutral else f"What was seen leans towards {side} clips",
        "Without an interval no preference can be told",
        "No preference between real and generated clips can be told",
        f"The ranking favours {side} clips",
    )


def source_method(*, paired: bool) -> Iterator[str]:
    """Yield paragraphs on how it was computed, with the sources; those of pairs where there are some."""
    if paired:
        yield from paragraphs("source", "Pairs", "Deltas", "Win rate", "From video to text", "Intervals of pairs")
    yield from paragraphs("source", "Preference without pairs", "Exposure")
    yield paragraph(
        "shared", "Permuted clips", what="which clips are real is permuted, within pairs where there are any"
    )
    yield from paragraphs("source", "Interval of the exposure", "Equal scores")
