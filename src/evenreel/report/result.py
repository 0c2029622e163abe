"""One result: an effect with its interval, a sentence, tables, figures and method, and how they read in words.

A terminal and a page show the same words; only JSON has the numbers unrounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from math import isfinite
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from evenreel.evaluation.intervals import Interval
from evenreel.report.words import p_value, percent
from evenreel.types import SHOWN_WIDTH, Shown

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

Cell = str | int | float | None  # one field of a table: None is shown as a dash

Row = tuple[Cell, ...]  # cells of one row of a table, a cell for each column

Named = Mapping[str, Cell | Interval]
"""Cells of one row of a table by the head of their column; an interval takes three columns."""

ENOUGH = 30  # fewer clips of a kind, or pairs, than this are too few to conclude anything about a ranking


def interval_columns(*names: str) -> tuple[str, ...]:
    """Return the column heads of figures with intervals: for each figure its name, `low` and `high`.

    >>> interval_columns("R@1, %")
    ('R@1, %', 'low', 'high')
    """
    return tuple(head for name in names for head in (name, "low", "high"))


def interval_cells(*figures: Interval | None) -> tuple[float | None, ...]:
    """Return three table cells for each figure: its value and the ends of its interval; three None for no figure.

    >>> from evenreel.evaluation.intervals import Interval
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

    @property
    def words(self) -> int:
        """Number of leftmost columns that hold words; at least 1."""
        columns = ([row[place] for row in self.rows] for place in range(len(self.columns)))
        words = takewhile(lambda column: all(isinstance(value, str) for value in column), columns)
        return max(1, len(list(words)))

    def texts(self) -> list[list[str]]:
        """Format every cell as text.

        >>> AuditTable("t", ("group", "ratio", "p (Holm)"), (("a", 1.5, 0.00002), ("b", 2.0, None))).texts()
        [['a', '1.50', '<0.001'], ['b', '2.00', '–']]
        """
        of_p = [column.split(" (")[0] == "p" for column in self.columns]
        return [
            [
                p_value(value) if p and isinstance(value, float) and isfinite(value) else cell(value, self.digits)
                for value, p in zip(row, of_p, strict=True)
            ]
            for row in self.rows
        ]

    @classmethod
    def of(cls, title: str, rows: Iterable[Named], note: str = "", digits: int = 2) -> AuditTable:
        """Make a table of rows that give each figure by its head; a figure with an interval takes three columns.

        >>> AuditTable.of("Recall", [{"group": "a", "R@1": Interval(2.0, 1.0, 3.0)}, {"group": "b", "n": 3}])
        AuditTable
        Recall
        group  R@1   low   high  n
        a      2.00  1.00  3.00  -
        b      -     -     -     3
        """
        given = list(rows)
        wide = {head for row in given for head, one in row.items() if isinstance(one, Interval)}
        heads = list(dict.fromkeys(head for row in given for head in row))
        columns = [name for head in heads for name in (interval_columns(head) if head in wide else (head,))]
        cells_of = [tuple(cell for head in heads for cell in _cells(row.get(head), wide=head in wide)) for row in given]
        return cls(title, tuple(columns), tuple(cells_of), note, digits)

    def column(self, head: str) -> list[Cell]:
        """Return the cells below a head."""
        place = self.columns.index(head)
        return [row[place] for row in self.rows]

    def intervals(self, head: str) -> list[Interval]:
        """Return the figures below a head with their intervals; NaN for a dash."""
        place = self.columns.index(head)
        wide = self.columns[place + 1 : place + 3] == ("low", "high")
        return [_interval(row[place : place + (3 if wide else 1)]) for row in self.rows]

    def long(self) -> pl.DataFrame:
        """Return a row for each figure: the words of its row in `group`, `figure`, `value`, `low`, `high` and `p`.

        >>> AuditTable.of("Recall", [{"group": "a", "R@1": Interval(2.0, 1.0, 3.0), "p": 0.5}]).long().rows()
        [('a', 'R@1', 2.0, 1.0, 3.0, 0.5)]
        """
        import polars as pl

        heads = [(place, head) for place, head in enumerate(self.columns) if head not in ("low", "high")]
        found: list[tuple[str, str, float, float | None, float | None, float | None]] = []
        for number, row in enumerate(self.rows):
            group = ", ".join(one for one in row if isinstance(one, str))
            for place, head in heads:
                value = row[place]
                if isinstance(value, str) or value is None:
                    continue
                if head.split(" (")[0] == "p" and found and found[-1][0] == group:
                    found[-1] = (*found[-1][:5], float(value))
                    continue
                figure = self.intervals(head)[number]
                found.append((group, head, figure.value, figure.low, figure.high, None))
        kinds = dict.fromkeys(("value", "low", "high", "p"), pl.Float64)
        return pl.DataFrame(found, {"group": pl.String, "figure": pl.String, **kinds}, orient="row")

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


def _cells(value: Cell | Interval, *, wide: bool) -> tuple[Cell, ...]:
    if isinstance(value, Interval):
        return interval_cells(value)
    return (value, None, None) if wide else (value,)


def _interval(found: Sequence[Cell]) -> Interval:
    value, low, high = (*found, None, None, None)[:3]
    ends = [float(end) if isinstance(end, (int, float)) else None for end in (low, high)]
    return Interval(float(value) if isinstance(value, (int, float)) else float("nan"), *ends)


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


DASH = "–"


def cell(value: Cell, digits: int) -> str:
    """Format one cell of a table, a number with so many decimals.

    >>> [cell(one, 2) for one in ("a", 1234, 1234.567, -0.001, None, float("nan"))]
    ['a', '1,234', '1,234.57', '0.00', '–', '–']
    """
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return DASH
    if isinstance(value, float):
        return f"{round(value, digits) + 0.0:,.{digits}f}"
    return value if isinstance(value, str) else f"{value:,}"


def figure_words(figure: Interval | Effect, confidence: float, unit: str = "", digits: int = 1) -> str:
    """Format a figure with its interval for a sentence.

    >>> figure_words(Interval(61.04, 55.0, 67.0), 0.95, "%")
    '61.0% (95% interval 55.0 to 67.0)'
    """
    return f"{figure.value:.{digits}f}{unit}{interval_words(figure, confidence, digits)}"


def interval_words(figure: Interval | Effect, confidence: float, digits: int = 2) -> str:
    """Format the interval of a figure in brackets, after a space; empty where there is none."""
    if figure.low is None or figure.high is None:
        return ""
    return f" ({percent(confidence)} interval {figure.low:.{digits}f} to {figure.high:.{digits}f})"


def effect_interval(effect: Effect) -> str:
    """Format the ends of an effect's interval; empty where there is none.

    >>> effect_interval(Effect("R", 1.0, 0.5, 1.5)), effect_interval(Effect("R", 1.0))
    ('0.50 to 1.50', '')
    """
    if effect.low is None or effect.high is None:
        return ""
    return f"{cell(effect.low, 2)} to {cell(effect.high, 2)}"


def by_certainty(effect: Effect, few: str, unsure: str, chance: str, found: str) -> str:
    """Choose the words for an effect by how much can be concluded of it.

    >>> by_certainty(Effect("R", 1.0, -0.5, 1.5), "too few", "no interval", "may be chance", "above 0")
    'may be chance'
    """
    if not effect.enough:
        return few
    if effect.low is None or effect.high is None:
        return unsure
    return found if effect.is_significant else chance


def verdict(effect: Effect) -> str:
    """Return the verdict on an effect in words: whether it differs significantly from the neutral value.

    >>> verdict(Effect("R", 1.0, 0.5, 1.5)), verdict(Effect("R", 1.0, -0.5, 1.5)), verdict(Effect("R", 60.0))
    ('above 0', 'cannot be told from 0', 'no interval')
    >>> verdict(Effect("R", 1.0, 0.5, 1.5, enough=False))
    'too few to conclude'
    """
    if not isfinite(effect.value):
        return "not measured"
    side = f"{'above' if effect.value > effect.neutral else 'below'} {effect.neutral:g}"
    return by_certainty(effect, "too few to conclude", "no interval", f"cannot be told from {effect.neutral:g}", side)


def effect_words(result: AuditResult) -> str:
    """Describe the effect of a result in one line: its name, value, interval, test and verdict.

    >>> effect_words(AuditResult("a", "", "", Effect("win rate, %", 61.0, 55.0, 67.0, 50.0, 0.0002)))
    'win rate, %: 61.00 (95% interval 55.00 to 67.00, p < 0.001): above 50'
    """
    effect = result.effect
    ends = effect_interval(effect)
    over = f" over {effect.over}" if effect.over else ""
    sure = [f"{percent(result.confidence)} interval {ends}{over}"] if ends else []
    if effect.p_value is not None and isfinite(effect.p_value):
        sure.append(f"p = {p_value(effect.p_value)}".replace("p = <", "p < "))
    inside = f" ({', '.join(sure)})" if sure else ""
    return f"{effect.name}: {cell(effect.value, 2)}{inside}: {verdict(effect)}"
