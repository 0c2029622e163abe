"""What `evenreel evaluate` prints: a sentence, tables, whatever has to be said of the figures; systems side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from evenreel.cli.evaluate.files import EvaluationFiles, write_rows
from evenreel.cli.show_library import console, print_json, safe, table_of
from evenreel.evaluation import Evaluation
from evenreel.evaluation.comparison import Comparison, Difference, SideBySide
from evenreel.provenance import Provenance
from evenreel.report.evaluation import difference_cells, figures_table
from evenreel.report.groups import gaps_table, group_sentences, groups_table
from evenreel.report.page import Table as PageTable
from evenreel.report.side_by_side import as_latex, as_markdown, cells_of, note
from evenreel.report.words import (
    GAP_METHOD,
    PROTOCOLS,
    RELEVANCES,
    TIES,
    difference_sentence,
    evaluation_notices,
    intervals_sentence,
    main_sentence,
    merge_sentences,
    percent,
)

_NARROWEST = 100
_METRICS_A_LINE = 2


def show_evaluation(
    evaluations: Mapping[str, Evaluation],
    comparison: Comparison | None,
    as_json: bool,
    made: Provenance | None = None,
    together: SideBySide | None = None,
) -> None:
    """Print the figures of every system, the first of which is the baseline, and the differences from it."""
    if as_json:
        found = {"systems": [{"name": name} | one.to_json() for name, one in evaluations.items()]}
        differences = {"comparison": comparison.to_json() if comparison else None}
        table = {"side_by_side": together.to_json()} if together else {}
        print_json(found | differences | table | {"provenance": made.to_json() if made else None})
        return
    out = console()
    if not out.is_terminal:
        out = Console(highlight=False, soft_wrap=True, width=max(out.width, _NARROWEST))
    several = len(evaluations) > 1
    if several:
        _show_notices(out, evaluations)
    for name, evaluation in evaluations.items():
        out.print(f"[bold]{safe(name)}[/]")
        out.print(safe(main_sentence(evaluation)))
        if not several:
            _show_notices(out, evaluations)
        out.print(_figures(evaluation))
        _show_groups(out, evaluation)
    if together:
        out.print("[bold]Side by side[/]")
        for each in _side_by_side(together):
            out.print(each)
        out.print(f"[dim]{safe(note(together, 'bold'))}[/]")
    if comparison:
        _show_comparison(out, next(iter(evaluations)), comparison)
    _show_rules(out, next(iter(evaluations.values())))


def _show_notices(out: Console, evaluations: Mapping[str, Evaluation]) -> None:
    for notice in merge_sentences({name: evaluation_notices(one) for name, one in evaluations.items()}):
        out.print(f"[yellow]{safe(notice)}[/]")


def _figures(evaluation: Evaluation) -> Table:
    """A metric a row, a figure and its interval for each direction."""
    figures = figures_table(evaluation.directions, evaluation)
    table = table_of(figures.columns)
    for place, column in enumerate(table.columns[1:]):
        column.style = "dim" if place % 2 else "bold"
    for row in figures.rows:
        table.add_row(*map(str, row))
    return table


def _show_groups(out: Console, evaluation: Evaluation) -> None:
    """Groups with the first metrics, whose intervals fit a line, and the gaps of all."""
    metrics, confidence = evaluation.metrics, evaluation.confidence
    for result in evaluation.directions.values():
        for column, found in result.by.items():
            out.print(f"[bold]{result.direction} by {safe(column)}[/]")
            for notice in found.notices:
                out.print(f"[yellow]{safe(notice)}[/]")
            for sentence in group_sentences(result, column, metrics, confidence):
                out.print(safe(sentence))
            if found.groups:
                out.print(_plain(groups_table(result, column, metrics[:_METRICS_A_LINE], confidence)))
            if found.gaps:
                out.print(_plain(gaps_table(found, metrics, confidence)))


def _plain(found: PageTable) -> Table:
    table = table_of(found.columns, words=found.left)
    for row in found.rows:
        table.add_row(*(safe(str(cell)) for cell in row))
    return table


def _show_comparison(out: Console, baseline: str, comparison: Comparison) -> None:
    out.print(f"[bold]Differences from {safe(baseline)}[/], query by query")
    for notice in comparison.notices:
        out.print(f"[yellow]{safe(notice)}[/]")
    for direction in dict.fromkeys(row.direction for row in comparison.rows):
        rows = [row for row in comparison.rows if row.direction == direction]
        out.print(_differences(direction, rows, comparison.confidence))
        for row in rows:
            if row.metric == rows[0].metric:
                out.print(safe(difference_sentence(row, comparison.confidence)))


def _differences(direction: str, rows: Sequence[Difference], confidence: float) -> Table:
    named = ["system"] if len({row.system for row in rows}) > 1 else []  # the sentence below names one alone
    names = ("difference", f"{percent(confidence)} interval", "p", "p (Holm)", "Wilcoxon", "better/ alike/ worse")
    table = table_of((direction, *named, *names), words=1 + len(named))
    table.columns[len(named)].overflow = "fold"
    for column in table.columns[len(named) + 1 :][:2]:
        column.no_wrap = True
    for row in rows:
        metric, system, difference, *sure, wins, ties, losses = difference_cells(row)
        shown = f"[bold]{difference}[/]" if row.p_holm <= 1 - confidence else difference
        table.add_row(metric, *[safe(system)][: len(named)], shown, *sure, f"{wins}/{ties}/{losses}")
    return table


def _show_rules(out: Console, evaluation: Evaluation) -> None:
    """What the figures mean, in a few lines."""
    for direction, result in evaluation.directions.items():
        out.print(
            f"[dim]{direction} {result.protocol}: {PROTOCOLS[result.protocol]}; {len(result.query_ids):,} queries "
            f"among {result.gallery_size:,}.[/]"
        )
    out.print(f"[dim]relevance {evaluation.relevance}: {RELEVANCES[evaluation.relevance]}.[/]")
    if any(one.low is not None for result in evaluation.directions.values() for one in result.summary.values()):
        out.print(f"[dim]{intervals_sentence(evaluation)}[/]")
    if any(found.gaps for result in evaluation.directions.values() for found in result.by.values()):
        out.print(f"[dim]{GAP_METHOD}[/]")
    out.print(f"[dim]ties {evaluation.ties}: {TIES[evaluation.ties]}. Shares in percent.[/]")


def _side_by_side(found: SideBySide) -> Iterator[Table]:
    """A table of each direction: a metric a row, a system a column, the best in bold."""
    cells = {name: cells_of(found, name, _cell) for name in found.figures}
    for direction in dict.fromkeys(column.direction for column in found.columns):
        table = table_of((direction, *found.figures))
        for place, column in enumerate(found.columns):
            if column.direction == direction:
                table.add_row(column.metric, *(cells[name][place] for name in found.figures))
        yield table


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
