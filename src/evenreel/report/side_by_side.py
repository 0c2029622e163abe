"""A table of several systems as LaTeX, Markdown, a table of a page, or rows of a csv."""

from __future__ import annotations

import re
from collections.abc import Callable

from evenreel.evaluation.comparison import FigureColumn, SideBySide
from evenreel.evaluation.intervals import Interval
from evenreel.report.page import Table
from evenreel.report.words import number, percent

Cell = Callable[[str, str, bool], str]
"""Writes a cell from a figure, the ends of its interval (empty for none) and whether it is the best."""

_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~])")


def ends_in_brackets(figure: Interval, column: FigureColumn) -> str:
    """Format an interval as `[24.05, 29.53]`, as narrow tables have it; empty where there is none."""
    if figure.low is None or figure.high is None:
        return ""
    low, high = (number(end, column.measured) for end in (figure.low, figure.high))
    return f"[{low}, {high}]"


def cells_of(found: SideBySide, name: str, cell: Cell) -> list[str]:
    """Format the figures of one system, a cell a column."""
    return [
        cell(number(figure.value, column.measured), ends_in_brackets(figure, column), found.best[column] == name)
        for column, figure in zip(found.columns, found.figures[name], strict=True)
    ]


def as_markdown(found: SideBySide) -> str:
    """Format systems side by side as a table of GitHub's Markdown, a system a row."""
    heads = ["system", *(_MARKDOWN.sub(r"\\\1", str(column)) for column in found.columns)]
    rows = [
        [_MARKDOWN.sub(r"\\\1", " ".join(name.split())), *cells_of(found, name, _markdown_cell)]
        for name in found.figures
    ]
    lines = [heads, ["---", *["---:"] * len(found.columns)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{note(found, 'bold')}\n"


def as_latex(found: SideBySide) -> str:
    r"""Format systems side by side as a `tabular` of LaTeX with the package booktabs, a system a row."""
    heads = ["system", *(_escaped(str(column)) for column in found.columns)]
    # A name that begins with [ would be taken for a length after the end of a row.
    rows = [["{}" + _escaped(name), *cells_of(found, name, _latex_cell)] for name in found.figures]
    written = [" & ".join(line) + r" \\" for line in (heads, *rows)]
    body = [r"\toprule", written[0], r"\midrule", *written[1:], r"\bottomrule"]
    begin = rf"\begin{{tabular}}{{l{'r' * len(found.columns)}}}"
    said = f"% {note(found, 'bold')} Needs the package booktabs."
    return "\n".join([said, begin, *body, r"\end{tabular}", ""])


def page_table(found: SideBySide) -> Table:
    """Make the table of a page: a metric and direction a row, a system a column, the best with a star."""
    columns = [cells_of(found, name, _plain_cell) for name in found.figures]
    rows = [[str(column), *cells] for column, *cells in zip(found.columns, *columns, strict=True)]
    return Table(["metric", *found.figures], rows, note(found, "a star"))


def note(found: SideBySide, mark: str) -> str:
    """Return what a reader of the table has to know, as one sentence or two."""
    sure = percent(found.confidence)
    tested = (
        f"{mark[0].upper()}{mark[1:]} is significantly better than every other system (paired randomisation, Holm)."
    )
    if not any(figure.low is not None for row in found.figures.values() for figure in row):
        return "Nothing was tested."
    return " ".join([f"In brackets: {sure} intervals.", *([tested] if len(found.figures) > 1 else [])])


def _markdown_cell(value: str, ends: str, best: bool) -> str:
    return f"{f'**{value}**' if best else value} {ends}".rstrip()


def _latex_cell(value: str, ends: str, best: bool) -> str:
    shown = rf"\textbf{{{value}}}" if best else value
    return rf"{shown} {{\scriptsize {ends}}}" if ends else shown


def _plain_cell(value: str, ends: str, best: bool) -> str:
    return f"{value}{'*' if best else ''} {ends}".rstrip()


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))
