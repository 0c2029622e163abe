"""Tables and figures of an audit of order: shares of pairs beside chance, kinds of action, and recall with twins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from evenreel.audits.order.kinds import ActionKinds, KindOrder
from evenreel.audits.order.measures import CHANCE, DEPTHS, OrderMeasures
from evenreel.audits.order.preference import CHANCES, LIKED
from evenreel.report.figures import effect_intervals
from evenreel.report.result import AuditFigure, AuditTable, Effect, interval_cells, interval_columns, verdict

BEYOND = "own order preferred beyond the control"
SHARE = "share of pairs, %"

DRAWN = 15
"""Kinds that are drawn at most, those of the most pairs."""

BINARY = 50.0
"""Chance of the shares that the first figure shows beside the effect."""

_OF_CLIPS = 3
"""Rows where captions of clips alone are there."""

_NAMES = (
    " Text to video and video to text are RTime-Binary; the three rows below are Winoground's image, text and group "
    "score, in which a tie is wrong."
)


def order_tables(measured: OrderMeasures, kinds: ActionKinds) -> Iterator[AuditTable]:
    """Yield the tables of an audit of order in reading order."""
    rows = [(BEYOND, len(measured.further), *interval_cells(measured.preferred), CHANCE)]
    for name, share in measured.shares.items():
        rows.append((name, len(measured.further), *interval_cells(share), CHANCES[name]))
    yield AuditTable(
        "The own order against the other",
        ("share", "pairs", *interval_columns("of pairs, %"), "at random, %"),
        tuple(rows),
        "What captions of the clip alone, or of the twin alone, choose has in it how much twins are liked by any "
        f"caption ({LIKED}); the first row has not.{_NAMES if len(rows) > _OF_CLIPS else ''}",
    )
    if kinds.found:
        yield _kinds_table(kinds)
    if measured.recalls:
        yield AuditTable(
            "Recall with twins in the gallery",
            ("who looks", "among", *interval_columns(*(f"R@{k}, %" for k in DEPTHS))),
            tuple(
                (*key, *interval_cells(*(recalls[f"R@{k}"] for k in DEPTHS)))
                for key, recalls in measured.recalls.items()
            ),
            "The first row is RTime-Origin and the last RTime-Hard where both orders have captions. A ranking that "
            "does not see order loses half of R@1 to twins.",
        )


def order_figures(measured: OrderMeasures, kinds: ActionKinds) -> Iterator[AuditFigure]:
    """Yield the figures of an audit of order: shares beside chance, and kinds of action."""
    effects = {"beyond the control": replace(measured.effect, name=SHARE)} | {
        name: Effect(SHARE, one.value, one.low, one.high, BINARY)
        for name, one in measured.shares.items()
        if CHANCES[name] == BINARY
    }
    yield AuditFigure(
        "The own order against the other",
        partial(effect_intervals, effects),
        "The dotted line is chance. The first share is the effect; how much any caption likes twins is not in it.",
    )
    if kinds.found:
        yield AuditFigure(
            "By kind of action",
            partial(effect_intervals, {f"{one.name} ({one.pairs:,})": _effect(one) for one in kinds.found[:DRAWN]}),
            "Behind each kind the number of its pairs; fewer than 30 are too few to conclude anything.",
        )


def _kinds_table(kinds: ActionKinds) -> AuditTable:
    rarer = f" {kinds.rarer:,} rarer kinds are not listed." if kinds.rarer else ""
    return AuditTable(
        "By kind of action",
        ("kind", "pairs", *interval_columns("own order preferred, %"), "verdict"),
        tuple((one.name, one.pairs, *interval_cells(one.preferred), verdict(_effect(one))) for one in kinds.found),
        f"By {kinds.told_by}; a pair of several kinds counts in each. Every interval is of its kind alone, so of "
        f"twenty kinds one is told by chance.{rarer}",
    )


def _effect(one: KindOrder) -> Effect:
    share = one.preferred
    return Effect(f"{BEYOND}, %", share.value, share.low, share.high, CHANCE, enough=one.enough)
