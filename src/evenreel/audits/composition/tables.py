"""Tables and charts of what own clips prefer, of the kinds of edits, and of captions that deny a thing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from evenreel.audits.composition.edit_choice import EditChoice
from evenreel.audits.composition.measures import CompositionMeasures
from evenreel.audits.composition.negation import NegationMeasures
from evenreel.audits.composition.questions import ALL, FALSE, FOUR, AnswerShares, MultipleChoice
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import ENOUGH, AuditFigure, AuditTable, Cell, interval_cells, interval_columns


def choice_tables(measured: CompositionMeasures) -> Iterator[AuditTable]:
    """Yield tables of what own clips prefer: by edit, and by kind where the texts are known."""
    rows = [*measured.choices.values(), *([measured.control] if measured.control else [])]
    if rows:
        yield AuditTable(
            "Which caption its clip prefers, the true one or the edited one",
            ("edit", "verdict", "captions", "clips", "true one, %", *interval_columns("beyond other clips, %"),
             "above control", "margin, SD", "if blurred, %"),
            tuple(map(_choice_row, rows)),
            "Beyond other clips: the share of the other clips that prefer the true caption less; 50 is chance.",
        )  # fmt: skip
    if measured.kinds:
        yield AuditTable(
            "By what was exchanged",
            ("edit", "exchanged", "captions", "clips", *interval_columns("beyond other clips, %")),
            tuple((one.edit, one.kind, one.captions, one.clips, *interval_cells(one.beyond)) for one in measured.kinds),
            f"Fewer than {ENOUGH} clips say little. The intervals are not corrected for how many kinds are looked at.",
        )
    if measured.negation:
        yield from _negation_tables(measured.negation)
    if measured.questions:
        yield from _question_tables(measured.questions)


def choice_figures(measured: CompositionMeasures) -> tuple[AuditFigure, ...]:
    """Return a chart of what own clips prefer beyond other clips, by edit."""
    rows = {**measured.choices, **({measured.control.edit: measured.control} if measured.control else {})}
    if not rows:
        return ()
    shares = {"beyond other clips": {edit: one.beyond for edit, one in rows.items()}}
    draw = partial(deltas_by_group, shares, "share of other clips that prefer the true caption less, %")
    return (AuditFigure("What own clips prefer beyond other clips", draw, "50 is chance."),)


def _choice_row(one: EditChoice) -> tuple[Cell, ...]:
    above = one.net.value if one.control else None
    return (
        one.edit, one.verdict, len(one.perturbed.own), one.clips, one.chosen.value, *interval_cells(one.beyond), above,
        one.margin.value, one.blurred.value,
    )  # fmt: skip


def _negation_tables(negation: NegationMeasures) -> Iterator[AuditTable]:
    yield AuditTable(
        "What captions find that deny a thing",
        ("", "plain, %", "negated, %", *interval_columns("lost, points")),
        tuple((name, one.plain, one.negated, *interval_cells(one.lost)) for name, one in negation.recalls.items()),
        f"{negation.captions:,} captions of {negation.clips:,} clips, as they are and with an absent thing denied.",
    )
    if things := negation.things:
        yield AuditTable(
            "Clips that show the denied thing",
            ("", "plain, %", "negated, %", *interval_columns("change, points")),
            (
                ("above other clips", things.before, things.after, *interval_cells(things.rise)),
                ("one ahead of the own", things.ahead_before, things.ahead_after, *interval_cells(things.ahead)),
            ),
            f"{things.captions:,} captions, {things.things:,} denied things. Above 0, what is denied is looked for.",
        )


def _question_tables(asked: MultipleChoice) -> Iterator[AuditTable]:
    left = "that show neither thing, as far as captions say" if asked.excluded else "whatever they show"
    rows = [(kind, asked.verdict(kind), one) for kind, one in asked.kinds.items()]
    yield AuditTable(
        "Which of four captions a clip chooses",
        ("the true one is", "verdict", "questions", "clips", *interval_columns("accuracy, %"),
         "other clips choose it, %", *interval_columns("beyond other clips, points")),
        tuple(_question_row(*row) for row in [*rows, (ALL, None, asked.all)]),
        f"{FOUR:g} is chance. Other clips: those {left}. Of the hybrid one a bag of words gets half at most.",
    )  # fmt: skip
    yield AuditTable(
        "What is chosen instead",
        ("the true one is", "the true one, %", *(f"{name}, %" for name in FALSE)),
        tuple((kind, *map(float, one.chosen)) for kind, one in [*asked.kinds.items(), (ALL, asked.all)]),
        "By the own clip; of captions that it likes best alike, each gets its share.",
    )


def _question_row(kind: str, verdict: str | None, one: AnswerShares) -> tuple[Cell, ...]:
    return (
        kind, verdict, one.questions, one.clips, *interval_cells(one.accuracy), one.others, *interval_cells(one.net)
    )  # fmt: skip
