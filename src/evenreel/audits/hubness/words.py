"""Sentences of an audit of hubs, and on how everything in them is computed."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from evenreel.audits.hubness.captions import MOST_TAGGED, QueryWords
from evenreel.audits.hubness.chance import DRAWS
from evenreel.audits.hubness.measures import HubnessMeasures
from evenreel.audits.method import paragraph
from evenreel.report.result import by_certainty, interval_words

_FEW_WORDS = 3
"""Words that the sentence names."""


def hubness_sentence(measured: HubnessMeasures, words: QueryWords, confidence: float) -> str:
    """Return sentences on the effect, on clips that are most often and never among the first, and on what to do."""
    effect, main = measured.effect, measured.main
    if isnan(effect.value):
        return f"Every clip is among the first {main.depth} as often as any other, or none is ever: there is no hub."
    few = "" if effect.enough else f"Too few to conclude: {main.queries:,} queries and {len(main.counts):,} clips. "
    top = int(main.counts.argmax())
    return (
        f"{few}{_lead(measured)}: the skewness of how often a clip is among the first {main.depth} is "
        f"{effect.value:.2f}{interval_words(effect, confidence)}, where rankings at random give {effect.neutral:.2f}. "
        f"{measured.names[top]!r} is there for {main.counts[top]:,.0f} of {main.queries:,} queries, by chance for "
        f"{main.expected:,.1f}; {main.never:.1f}% of the clips never are, by chance {main.chance_never:.1f}%."
        f"{_hub_words(measured)}{_word_words(words)}{_advice(measured)}"
    )


def _lead(measured: HubnessMeasures) -> str:
    effect = measured.effect
    even = "No clip crowds the rankings; they are shared out more evenly than by chance"
    return by_certainty(
        effect,
        "What was seen",
        "Without an interval no crowding can be told",
        "That a few clips crowd the rankings cannot be told",
        even if effect.value < effect.neutral else "A few clips crowd the rankings",
    )


def _hub_words(measured: HubnessMeasures) -> str:
    main, hubs = measured.main, measured.hubs
    if not len(hubs):
        return ""
    share = 100 * main.counts[hubs].sum() / main.counts.sum()
    are = "1 hub is" if len(hubs) == 1 else f"{len(hubs):,} hubs are"
    take = "takes" if len(hubs) == 1 else "take"
    return f" {are} {100 * len(hubs) / len(main.counts):.1f}% of the clips and {take} {share:.1f}% of these places."


def _word_words(words: QueryWords) -> str:
    named = ", ".join(repr(one.word) for one in words.found[:_FEW_WORDS])
    return f" Queries with {named} have more hubs among their first clips than others." if named else ""


def _advice(measured: HubnessMeasures) -> str:
    if not measured.effect.is_significant or measured.effect.value < measured.effect.neutral:
        return ""
    how = "`evenreel evaluate --rescore csls`, or qb-norm and nnn with a bank"
    if measured.asked is None:
        how = "`csls` and others of `evenreel.evaluation.rescoring`"
    return (
        f" A correction by other queries spreads them out without training ({how}), and `evenreel adapt` trains a "
        "model on such queries without labels."
    )


def hubness_notices(measured: HubnessMeasures, words: QueryWords) -> Iterator[str]:
    """Yield notices on the data of an audit of hubs."""
    main = measured.main
    if main.counts.sum() < main.queries * main.depth - 1e-6 * main.queries:
        shown = main.counts.sum() / main.queries
        yield f"Some rankings have fewer than {main.depth} clips: {shown:.1f} on average; chance is given as many."
    if measured.asked is None:
        yield "Nobody says which clip answers which query, so a clip that is shown often may be what people look for."
    if not words.of:
        yield "The words of the queries are not known, so none can be said to bring hubs."
    elif not words.english:
        yield "Most words of the queries are unknown to the English dictionary, so none can be said to bring hubs."
    elif words.queries and words.queries < words.of:
        yield f"Words were looked at in {words.queries:,} of {words.of:,} queries, drawn at random."


def hubness_method(words: QueryWords) -> Iterator[str]:
    """Yield paragraphs on how the audit of hubs was computed, with the sources."""
    yield paragraph("hubness", "Counts")
    yield paragraph("hubness", "By chance", draws=DRAWS)
    yield paragraph("hubness", "Intervals")
    if words.looked_at:
        yield paragraph("hubness", "Words", most=MOST_TAGGED, tagger=words.tagger)
