"""What `evenreel audit` prints: for each result its sentence, the effect, what must be known, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from evenreel.cli.show_library import console, print_json, safe, table_of
from evenreel.provenance import Provenance
from evenreel.report.page import notices_of, words_columns
from evenreel.report.result import AuditResult, AuditTable, Cell, cells, effect_words

MANY_ROWS = 40
"""Rows of a table in a terminal; the page and JSON have more."""

FEW_ROWS = 10
"""Rows of a table where the terminal is so narrow that every number takes a line."""

WIDEST = 10_000
"""Letters in a line, to find out how wide a table would like to be."""


def show_audits(
    results: Sequence[AuditResult],
    report: Path | None,
    as_json: bool,
    not_made: Sequence[str] = (),
    made: Provenance | None = None,
) -> None:
    """Print the results of all systems, which audits could not be made and why, and where the page is."""
    if as_json:
        found = {"audits": [result.to_json() for result in results], "not_made": list(not_made)}
        print_json(found | {"report": report, "provenance": made.to_json() if made else None})
        return
    out = console()
    for sentence in not_made:
        out.print(f"[yellow]{safe(sentence)}[/]")
    if len(results) > 1:
        _show_notices(out, results)
    for result in results:
        _show(out, result, alone=len(results) == 1)
    if report:
        out.print(f"The page with figures and how it was calculated: {safe(report)}")


def _show_notices(out: Console, results: Sequence[AuditResult]) -> None:
    """What must be known of the results, each sentence once."""
    for notice in notices_of(results):
        out.print(f"[yellow]{safe(notice)}[/]")


def _show(out: Console, result: AuditResult, *, alone: bool) -> None:
    out.print(f"[bold]{safe(f'{result.system}: ' if result.system else '')}{safe(result.title)}[/]")
    out.print(safe(result.sentence))
    out.print(f"[dim]{safe(effect_words(result))}[/]")
    if alone:
        _show_notices(out, [result])
    for table in result.tables:
        _show_table(out, table)
    out.print()


def _show_table(out: Console, table: AuditTable) -> None:
    out.print(f"\n[bold]{safe(table.title)}[/]")
    shown = replace(table, rows=table.rows[: _most_rows(out, table)])
    _show_rows(out, shown)
    if more := len(table.rows) - len(shown.rows):
        out.print(f"  and {more:,} more rows (--json lists them all)")
    if table.note:
        out.print(f"[dim]{safe(table.note)}[/]")


def _show_rows(out: Console, table: AuditTable) -> None:
    """One table where the terminal is wide enough; else one for each word of the first column, or lines."""
    if _fits(out, table):
        out.print(_drawn(table))
    elif words_columns(table) > 1:
        for word, rows in groupby(table.rows, itemgetter(0)):
            out.print(f"[bold dim]{safe(word)}[/]")
            _show_rows(out, _without_first(table, rows))
    else:
        _show_lines(out, table)


def _most_rows(out: Console, table: AuditTable) -> int:
    if _fits(out, table):
        return MANY_ROWS
    return _most_rows(out, _without_first(table, table.rows)) if words_columns(table) > 1 else FEW_ROWS


def _without_first(table: AuditTable, rows: Iterable[tuple[Cell, ...]]) -> AuditTable:
    """Some rows without the first column."""
    return replace(table, columns=table.columns[1:], rows=tuple(row[1:] for row in rows))


def _fits(out: Console, table: AuditTable) -> bool:
    return Measurement.get(out, out.options.update(max_width=WIDEST), _drawn(table)).maximum <= out.width


def _drawn(table: AuditTable) -> Table:
    drawn = table_of(table.columns, words=words_columns(table))
    for row in cells(table):
        drawn.add_row(*map(safe, row))
    return drawn


def _show_lines(out: Console, table: AuditTable) -> None:
    """The word of each row, and a line for each number."""
    widest = max(len(column) for column in table.columns)
    for word, *numbers in cells(table):
        out.print(f"  {safe(word)}")
        for column, value in zip(table.columns[1:], numbers, strict=True):
            out.print(f"    {safe(f'{column:<{widest}}')}  {safe(value)}")
