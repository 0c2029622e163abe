"""Sentences of an audit of sources, and how everything in them is computed."""

from __future__ import annotations

from math import isnan

from evenreel.audits.source.paired import SourceMeasures
from evenreel.audits.source.unpaired import NEUTRAL, Exposure, Preference
from evenreel.audits.statistics.deltas import MIX_R
from evenreel.audits.statistics.permuted import BOTH, PERMUTED_METHOD
from evenreel.report.result.record import ENOUGH, Effect
from evenreel.report.result.words import figure_words


def paired_effect(measured: SourceMeasures) -> Effect:
    """Return the Normalized delta MixR of a group, as an effect."""
    delta = measured.deltas["normalized"][MIX_R]
    name, enough = f"Normalized Δ MixR ({measured.group})", measured.drawn >= ENOUGH
    return Effect(name, delta.value, delta.low, delta.high, p_value=measured.p_value, enough=enough, over=BOTH)


def unpaired_effect(preference: Preference) -> Effect:
    """Return the rate at which a real clip beats a generated one where neither answers, as an effect."""
    share, enough = preference.share, min(preference.real, preference.generated, preference.drawn) >= ENOUGH
    name = "real clip above a generated one, neither known to answer, %"
    return Effect(name, share.value, share.low, share.high, NEUTRAL, preference.p_value, enough, BOTH)


def paired_sentence(measured: SourceMeasures, confidence: float) -> str:
    """Return a sentence on the effect in pairs and the win rate; where there are too few pairs, that comes first."""
    effect = paired_effect(measured)
    said = figure_words(measured.deltas["normalized"][MIX_R], confidence)
    rate = figure_words(measured.win_rate, confidence, "%")
    return (
        f"{'' if effect.enough else _few_pairs(measured)}{_direction(effect)}: Normalized Δ MixR is {said}, where 0 is "
        f"no preference and less than 0 favours generated clips. For {rate} of {measured.captions:,} captions the real "
        f"clip stands above its mirror ({measured.group}, {measured.pairs:,} pairs)."
    )


def unpaired_sentence(preference: Preference, exposure: Exposure, confidence: float) -> str:
    """Return a sentence on the effect without pairs and on first places.

    Where there are too few clips, that comes first.
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
    if not effect.enough:
        return "What was seen" if effect.value == effect.neutral else f"What was seen leans towards {side} clips"
    if effect.low is None:
        return "Without an interval no preference can be told"
    if not effect.is_significant:
        return "No preference between real and generated clips can be told"
    return f"The ranking favours {side} clips"


PAIRED_METHOD = (
    "A real clip and the generated clip that mirrors it answer the same captions. Each caption looks for the one among "
    "the n real clips, for the other among the n mirrors, and for each among all 2n, where the other is a competitor. "
    "(Generative Ghost, section 2.4.)",
    "Relative Δ = 200 (real - generated) / (real + generated) of a figure in the mixed gallery, with the opposite sign "
    "for MedR and MeanR, 0 where both are 0: above 0 favours real clips. Location Δ is what it would be if every clip "
    "stood next to its mirror, either one first as often: a rank r alone becomes 2r or 2r - 1. Normalized Δ = Relative "
    "Δ - Location Δ is what the separate galleries do not explain. MixR is the mean of the deltas of R@1, MedR and "
    "MeanR. (Generative Ghost, section 2.4.)",
    "Win rate: captions whose real clip scores higher than its mirror, ties half. The sign test (Dixon and Mood 1946) "
    "counts a pair for the side that most of its captions put first; it is exact and two-sided. At equal standing: the "
    "same over captions for which both clips have the same rank alone, so that one being the easier to find does not "
    "explain it. AUC (Hanley and McNeil 1982): the chance that the score of a caption with its real clip is above that "
    "of any caption with its mirror.",
    "From video to text, each clip looks among all captions of the pairs for the best-placed one of its own.",
    "Intervals of deltas and of the AUC, and p, are over captions and clips, by exchange (Fisher 1935): without a "
    "preference it means nothing which clip of a pair is called the real one, so the two change places in half of the "
    "pairs, for all captions at once, and everything is measured anew; the interval is the measured figure less the "
    "quantiles of these samples. A few clips that crowd the rankings, whatever their source, are in it. Intervals of "
    "win rates are over captions, by the score method of Wilson (1927) or the transformation of Hall (1992). All "
    "captions of a pair count together, and all pairs of a video where clips share one.",
)

UNPAIRED_METHOD = (
    "Preference without pairs: for each caption, every real clip that does not answer it meets every generated clip "
    "that does not; the share that real clips win, ties half (Mann and Whitney 1947), is averaged over captions. The "
    "clip of a caption, the mirrors of that and the real clip of a mirror answer it.",
    "Exposure: which share of the first k clips is generated, on average over captions, beside their share of the "
    "gallery; clips that answer are among them.",
    PERMUTED_METHOD.format(what="which clips are real is permuted, within pairs where there are any"),
    "That of the exposure is Wilson's (1927) of as many independent places as would vary by all this: one clip that "
    "takes all places counts as one.",
)

TIES_METHOD = (
    "Clips with equal scores are in random order, and each figure is its mean over all orders. What scores minus "
    "infinity is not retrieved: it is no hit, and its rank is behind all others."
)
