"""Record of the result of an audit: one effect with its interval, a sentence, tables, figures and method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from evenreel.types import SHOWN_WIDTH, Shown

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

    from evenreel.evaluation.results import Interval


Cell = str | int | float | None
"""One field of a table: None is shown as a dash."""

Row = tuple[Cell, ...]
"""Cells of one row of a table, a cell for each column."""

ENOUGH = 30
"""Fewer clips of a kind, or pairs, than this are too few to conclude anything about a ranking."""


def interval_columns(*names: str) -> tuple[str, ...]:
    """Return the column heads of figures with intervals: for each figure its name, `low` and `high`.

    >>> interval_columns("R@1, %")
    ('R@1, %', 'low', 'high')
    """
    return tuple(head for name in names for head in (name, "low", "high"))


def interval_cells(*figures: Interval | None) -> tuple[float | None, ...]:
    """Return three table cells for each figure: its value and the ends of its interval; three None for no figure.

    >>> from evenreel.evaluation.results import Interval
    >>> interval_cells(Interval(2.0, 1.0, 3.0), None)
    (2.0, 1.0, 3.0, None, None, None)
    """
    ends = ((None, None, None) if one is None else (one.value, one.low, one.high) for one in figures)
    return tuple(cell for cells in ends for cell in cells)


@dataclass(frozen=True)
class Effect:
    """The main figure of an audit, with its interval, its test and its neutral value.

    Attributes:
        name: name of the figure, with its unit where it has one.
        value: measured value; NaN where it could not be measured.
        low, high: ends of its interval; None where there is none.
        neutral: value that a ranking without preference has.
        p_value: two-sided p value of a test against the neutral value; None without a test.
        over: units that interval and test sample: `captions` (of this very gallery), `captions and clips`, either with
            videos in place of clips where videos are drawn, or `classes of captions`.
        enough: whether there are enough of these units to conclude anything (`ENOUGH`).
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    neutral: float = 0.0
    p_value: float | None = None
    enough: bool = True
    over: str = ""

    @property
    def is_significant(self) -> bool:
        """Whether there is enough data and the interval excludes the neutral value."""
        if not self.enough or self.low is None or self.high is None:
            return False
        return not self.low <= self.neutral <= self.high


@dataclass(frozen=True)
class AuditTable(Shown):
    """Table of an audit's result: rows of words and numbers, with a cell for each column.

    Attributes:
        title: what the table shows.
        columns: heads of columns, with units; a column of p values is `p`, or `p (...)`.
        rows: rows with numbers that are not rounded; a page and a terminal show `digits` decimals.
        note: explanation for readers of the table.
        digits: number of decimals that are shown of numbers that are not whole.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    digits: int = 2

    def _shown(self) -> Iterable[Sequence[object]]:
        rows = ([f"{one:.{self.digits}f}" if isinstance(one, float) else one for one in row] for row in self.rows)
        return [(self.title,), self.columns, *rows]

    def to_frame(self) -> pl.DataFrame:
        """Return the rows as a table for a notebook; a head that is there before gets that of the figure before it.

        >>> table = AuditTable("recall", ("group", *interval_columns("R@1", "R@5")), (("a", 2, 1, 3, 5, 4, 6),))
        >>> table.to_frame().columns
        ['group', 'R@1', 'low', 'high', 'R@5', 'low (R@5)', 'high (R@5)']
        """
        import polars as pl

        names: list[str] = []
        for name in self.columns:
            figure, own = next((one for one in reversed(names) if not one.startswith(("low", "high"))), ""), name
            while own in names:
                own = f"{own} ({figure})"
            names.append(own)
        return pl.DataFrame(self.rows, names, orient="row", strict=False, infer_schema_length=None)


@dataclass(frozen=True, eq=False)
class AuditFigure(Shown):
    """Chart of an audit's result, which is drawn when a page needs it.

    Attributes:
        title: what the figure shows.
        draw: function that draws it; untrusted words in it are escaped (`evenreel.report.figures.plain`).
        note: explanation for readers of the chart.
    """

    title: str
    draw: Callable[[], go.Figure]
    note: str = ""


@dataclass(frozen=True, eq=False)
class AuditResult(Shown):
    """Result of an audit of one system's scores.

    Attributes:
        name: name of the audit, a key of `evenreel.audits.AUDITS`.
        title: question of the audit, for a heading.
        sentence: the effect and its interval in words; where there is too little data, that comes first.
        effect: the main effect.
        tables: tables by group, setting or metric.
        figures: figures in reading order.
        notices: sentences on the data that the reader must know, such as clips left out.
        method: paragraphs on how everything was computed, with sources.
        confidence: confidence of every interval.
        system: name of the system; empty where there is only one.
    """

    name: str
    title: str
    sentence: str
    effect: Effect
    tables: tuple[AuditTable, ...] = ()
    figures: tuple[AuditFigure, ...] = ()
    notices: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    confidence: float = 0.95
    system: str = ""

    def _shown(self) -> Iterable[Sequence[object]]:
        yield from ((line,) for line in wrap(f"{self.name}: {self.sentence}", SHOWN_WIDTH, max_lines=5))
        yield from ((f"table: {table.title} ({len(table.rows):,} rows)",) for table in self.tables)
        yield from ((notice,) for notice in self.notices)

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dictionary that JSON can hold; numbers that are not finite become null."""
        return {
            "name": self.name,
            "system": self.system,
            "sentence": self.sentence,
            "effect": {name: _json(value) for name, value in asdict(self.effect).items()},
            "confidence": self.confidence,
            "notices": list(self.notices),
            "tables": [
                {
                    "title": table.title,
                    "columns": list(table.columns),
                    "rows": [[*map(_json, row)] for row in table.rows],
                    "note": table.note,
                }
                for table in self.tables
            ],
            "method": list(self.method),
        }


def _json(value: Cell) -> Cell:
    return None if isinstance(value, float) and not isfinite(value) else value
