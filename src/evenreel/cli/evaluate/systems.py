"""Systems side by side, printed by `evenreel evaluate` and written as LaTeX, Markdown and csv."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from evenreel.cli.evaluate.files import EvaluationFiles, write_rows
from evenreel.cli.show_library import safe, table_of
from evenreel.evaluation.side_by_side import SideBySide
from evenreel.report.side_by_side import as_latex, as_markdown, cells_of, note


def side_by_side_tables(found: SideBySide) -> Iterator[Table]:
    """Make a table for a terminal of each direction: a metric a row, a system a column, the best in bold."""
    cells = {name: cells_of(found, name, _cell) for name in found.figures}
    for direction in dict.fromkeys(column.direction for column in found.columns):
        table = table_of((direction, *found.figures))
        for place, column in enumerate(found.columns):
            if column.direction == direction:
                table.add_row(column.metric, *(cells[name][place] for name in found.figures))
        yield table


def side_by_side_note(found: SideBySide) -> str:
    """Return what a reader of the tables has to know."""
    return f"[dim]{safe(note(found, 'bold'))}[/]"


def write_side_by_side(files: EvaluationFiles, found: SideBySide) -> None:
    """Write systems side by side as LaTeX, Markdown and csv, each where `files` says so."""
    import polars as pl

    from evenreel.files import output_file

    for path, text in ((files.latex, as_latex), (files.markdown, as_markdown)):
        if path:
            with output_file(path) as part:
                part.write_text(text(found), encoding="utf-8")
    if files.csv:
        write_rows(files.csv, pl.DataFrame(found.to_json(), infer_schema_length=None), ("system",))


def _cell(value: str, ends: str, best: bool) -> str:
    return f"{f'[bold]{value}[/]' if best else value} [dim]{safe(ends)}[/]".rstrip()
