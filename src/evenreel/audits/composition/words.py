"""Sentences of the audit of composition."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

from evenreel.audits.composition.edit_choice import AFFIRMED, CHANCE, EditChoice
from evenreel.audits.composition.measures import CompositionMeasures
from evenreel.audits.composition.negation import NEGATED, NegationMeasures
from evenreel.audits.composition.questions import FOUR, NAMING, AnswerShares, Kind, MultipleChoice
from evenreel.audits.edits.measures import CONTROL
from evenreel.report.result import ENOUGH, Effect, by_certainty, figure_words

WHAT = {
    "role-swapped": "who does what to whom",
    "attribute-swapped": "which thing has which attribute",
    "relation-swapped": "where and when",
    AFFIRMED: "whether a thing is there or denied",
}
"""By the name of an edit, what a ranking reads that tells its captions from the true ones."""

ALONE = (
    "There are no scores of a control, so nothing says what a change does that leaves the sense. Score the captions "
    "also with such a one, of `evenreel perturb --edit control` or paraphrases, and name it control."
)


UNNAMED = (
    "Other clips may show the things that the questions name, for their captions are not given; name the folder with "
    f"--edited-corpus {NAMING}=DIR (AuditInputs.edited_texts) to leave such clips out."
)

ASKED = {
    "affirmation": "that a thing is there",
    "negation": "that a thing is absent",
    "hybrid": "which of two things is there and which is absent",
}
"""By the kind of a question, what is read by a ranking that answers it."""


def composition_sentence(measured: CompositionMeasures, confidence: float) -> str:
    """Say of each edit whether it is read, and of captions that deny a thing what they find."""
    said = [_choice_words(one, confidence) for one in measured.choices.values()]
    if measured.negation:
        said.append(_negation_words(measured.negation, confidence))
    if measured.questions:
        said.append(_question_words(measured.questions, confidence))
    return " ".join(said)


def composition_notices(measured: CompositionMeasures) -> Iterator[str]:
    """Yield what must be known of the measured captions."""
    yield from measured.notices
    if measured.questions and not measured.questions.excluded:
        yield UNNAMED
    plain = [one for one in measured.choices.values() if one.edit != AFFIRMED]
    if plain and not measured.control:
        yield ALONE
    for one in plain:
        if one.verdict == "reads it" and (one.blurred.low is None or one.blurred.low <= CHANCE):
            yield (
                f"{one.edit}: its captions may also say less of everything to this system, which would favour the true "
                f"ones too ('if blurred'); a {CONTROL} that changes as much rules that out, paraphrases for example."
            )


def what_is_read(edit: str) -> str:
    """Name what a ranking reads that tells the captions of an edit from the true ones."""
    return WHAT.get(edit, f"what {edit!r} changes")


def _choice_words(one: EditChoice, confidence: float) -> str:
    if isnan(one.beyond.value):
        return f"Of {one.edit!r} nothing can be measured: the own clip of no caption has a score."
    lead = {
        "too few to conclude": f"Too few clips to conclude: {one.clips:,}. What was seen of {one.edit!r}",
        "no interval": f"Without an interval nothing can be told of {one.edit!r}",
        "reads it": f"The ranking reads {what_is_read(one.edit)}",
        "does not read it": f"The ranking does not read {what_is_read(one.edit)}, or hardly ever",
        "cannot be told": f"Whether the ranking reads {what_is_read(one.edit)} cannot be told",
    }[one.verdict]
    over = f", {one.net.value:.1f} points above the control" if one.control else ""
    return (
        f"{lead}: clips prefer the true caption to the edited one in {one.chosen.value:.1f}% of cases, and more than "
        f"{figure_words(one.beyond, confidence, '%')} of the other clips do, where 50 is chance{over}."
    )


def _negation_words(negation: NegationMeasures, confidence: float) -> str:
    (name, first), effect = next(iter(negation.recalls.items())), negation.effect
    lead = by_certainty(
        effect,
        f"Too few clips to conclude: {negation.clips:,}. What was seen of {NEGATED!r}",
        f"Without an interval nothing can be told of {NEGATED!r}",
        "That captions find less, or more, when they deny a thing cannot be told",
        f"Captions find {'less' if effect.value > 0 else 'more'} when they deny a thing that is absent",
    )
    said = f"{lead}: {name} goes from {first.plain:.1f} to {first.negated:.1f}%."
    return said if negation.things is None else f"{said} {_things_words(negation, confidence)}"


def _things_words(negation: NegationMeasures, confidence: float) -> str:
    things = negation.things
    assert things is not None  # the caller has looked
    rise = things.rise
    effect = Effect("", rise.value, rise.low, rise.high, enough=things.things >= ENOUGH)
    lead = by_certainty(
        effect,
        "What was seen of clips that show it",
        "Of clips that show it nothing can be told",
        "Whether clips that show it rise or fall by that cannot be told",
        "What is denied is looked for: clips that show it rise"
        if rise.value > 0
        else "Clips that show it fall by that",
    )
    moved = figure_words(rise, confidence, " points")
    return f"{lead}: the share of other clips that they stand above changes by {moved}."


def _question_words(asked: MultipleChoice, confidence: float) -> str:
    if isnan(asked.all.accuracy.value):
        return "Of multiple-choice questions nothing can be measured: the own clip of no caption has a score."
    said = " ".join(f"{_kind_lead(asked, kind)} {_kind_shares(one)}." for kind, one in asked.kinds.items())
    return (
        f"Of four captions clips choose the true one in {figure_words(asked.all.accuracy, confidence, '%')} of "
        f"{asked.all.questions:,} questions, where {FOUR:g} is chance. {said}"
    )


def _kind_lead(asked: MultipleChoice, kind: Kind) -> str:
    what = ASKED[kind]
    return {
        "too few to conclude": f"Too few clips to conclude whether it reads {what}:",
        "no interval": f"Without an interval nothing can be told of {kind}:",
        "reads it": f"The ranking reads {what}:",
        "does not read it": f"It does not read {what}, or hardly ever:",
        "cannot be told": f"Whether it reads {what} cannot be told:",
    }[asked.verdict(kind)]


def _kind_shares(one: AnswerShares) -> str:
    beside = "" if one.others is None else f", and other clips choose it in {one.others:.1f}%"
    return f"{one.accuracy.value:.1f}% are right{beside}"
