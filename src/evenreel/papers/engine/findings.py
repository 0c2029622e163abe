"""What a study found, before its name and title are added, and the words and limits that studies share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from evenreel.corpus.counterparts import counterparts
from evenreel.evaluation import Interval
from evenreel.report.figures import deltas_by_group
from evenreel.report.result import (
    ENOUGH,
    AuditFigure,
    AuditTable,
    Cell,
    Effect,
    interval_cells,
    interval_columns,
)
from evenreel.types import Corpus, Shown

if TYPE_CHECKING:
    import plotly.graph_objects as go

Key = TypeVar("Key")

PREFERENCE = "Normalized Δ MixR"
"""The figure that most studies are about."""

UNIT = "Normalized Δ, % (above 0: real clips first)"


@dataclass(frozen=True, eq=False)
class Findings(Shown):
    """What a study found: a result (`AuditResult`) but for its name, its title and its inputs' notices.

    Attributes:
        sentence: what was found, in words.
        effect: the figure that the study is about.
        tables: tables in reading order.
        figures: figures in reading order.
        notices: what readers must know of the data.
        method: paragraphs on how everything was computed.
        few: sentence, shown first, that there are too few pairs or clips to conclude; empty where there are enough.
    """

    sentence: str
    effect: Effect
    tables: tuple[AuditTable, ...]
    figures: tuple[AuditFigure, ...] = ()
    notices: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    few: str = ""


def few_pairs(corpus: Corpus, groups: Iterable[str]) -> str:
    """Return the sentence that groups have too few pairs of real clip and mirror to conclude; empty where none has."""
    sizes = {group: counterparts(corpus, group)["clip_id"].n_unique() for group in groups}
    few = {group: size for group, size in sizes.items() if size < ENOUGH}
    if not few:
        return ""
    named = ", ".join(f"{size} of {group}" for group, size in few.items())
    return f"Too few pairs of a real clip and its mirror to conclude: {named}."


def effect_of(figure: Interval, name: str = PREFERENCE) -> Effect:
    """Return a figure with its interval as the effect of a study, whose neutral value is 0."""
    return Effect(name, figure.value, figure.low, figure.high)


def few_clips(count: int) -> str:
    """Return the sentence that a number of clips with captions is too small to conclude; empty where it suffices."""
    return f"Too few clips with captions to conclude: {count}." if count < ENOUGH else ""


def furthest(figures: Mapping[Key, Interval]) -> Key:
    """Return the key of the figure that is furthest from 0; the first of several.

    >>> furthest({"a": Interval(2.0), "b": Interval(-3.0)})
    'b'
    """
    return max(figures, key=lambda key: abs(figures[key].value))


def verdict(figure: Interval) -> str:
    """Say which clips a Normalized Δ favours.

    >>> verdict(Interval(-12.0, -20.0, -4.0)), verdict(Interval(3.0, -1.0, 7.0)), verdict(Interval(3.0))
    ('favours generated clips', 'favours neither, as far as can be told,', 'seems to favour real clips')
    """
    return _told(figure, ("favours generated clips", "favours neither, as far as can be told,", "favours real clips"))


def direction(change: Interval) -> str:
    """Say which clips a change of the Normalized Δ favours more.

    >>> direction(Interval(-12.0, -20.0, -4.0)), direction(Interval(3.0))
    ('favours generated clips more', 'seems to favour real clips more')
    """
    return _told(
        change,
        ("favours generated clips more", "favours neither more, as far as can be told,", "favours real clips more"),
    )


def _told(figure: Interval, words: tuple[str, str, str]) -> str:
    side = words[2] if figure.value > 0 else words[0]
    if figure.low is None or figure.high is None:
        return side.replace("favours", "seems to favour")
    return words[1] if figure.low <= 0 <= figure.high else side


def shown(figure: Interval) -> str:
    """Format a difference with its interval.

    >>> shown(Interval(-12.0, -20.0, -4.0)), shown(Interval(3.0))
    ('-12.0 (-20.0 to -4.0)', '+3.0')
    """
    value = f"{figure.value:+.1f}"
    return value if figure.low is None or figure.high is None else f"{value} ({figure.low:+.1f} to {figure.high:+.1f})"


def beside(change: Interval, other: str) -> str:
    """Format a change with its interval, what it is a change from, and whether it may be chance.

    >>> beside(Interval(2.0, -1.0, 5.0), "baseline"), beside(Interval(2.0, 1.0, 3.0), "baseline")
    ('+2.0 (-1.0 to +5.0) beside baseline, which may be chance', '+2.0 (+1.0 to +3.0) beside baseline')
    """
    return f"{shown(change)} beside {other}{', which may be chance' if may_be_chance(change) else ''}"


def may_be_chance(change: Interval) -> bool:
    """Check whether the interval of a change contains 0."""
    return change.low is not None and change.high is not None and change.low <= 0 <= change.high


FigureRows = Iterable[tuple[Sequence[Cell], Mapping[str, Interval]]]
"""Cells that say whose figures they are, and the figures by their names."""


def figure_table(title: str, labels: Sequence[str], rows: FigureRows, value: str, note: str = "") -> AuditTable:
    """Make a table with a row for each figure and its interval.

    >>> figure_table("Changes", ["row", "less"], [(("tcd", "baseline"), {"R@1": Interval(2.0, 1.0, 3.0)})], "change")
    AuditTable
    Changes
    row  less      figure  change  low   high
    tcd  baseline  R@1     2.00    1.00  3.00
    """
    cells = ((*own, name, *interval_cells(figure)) for own, figures in rows for name, figure in figures.items())
    return AuditTable(title, (*labels, "figure", *interval_columns(value)), tuple(cells), note)


def change_bars(changes: Mapping[str, Mapping[str, Interval]], metric: str) -> go.Figure:
    """Draw a bar for each row of a table: how much one metric changes."""
    return deltas_by_group({metric: {row: own[metric] for row, own in changes.items()}}, f"change of {metric}, points")
