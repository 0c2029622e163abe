"""What `evenreel evaluate` prints: a sentence, tables, whatever has to be said of the figures; systems side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

from evenreel.cli.show_library import console, print_json, safe, table_of
from evenreel.corpus.tables import as_cell
from evenreel.evaluation import Evaluation
from evenreel.evaluation.comparison import Comparison, Difference, SideBySide
from evenreel.evaluation.intervals import Interval
from evenreel.evaluation.moments import MomentDifference, MomentEvaluation
from evenreel.files import output_file
from evenreel.provenance import Provenance
from evenreel.report.evaluation import (
    as_latex,
    as_markdown,
    cells_of,
    difference_cells,
    figures_table,
    gaps_table,
    group_sentences,
    groups_table,
    note,
)
from evenreel.report.page import Table as PageTable
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
    if as_json:
        found = {"systems": [{"name": name} | one.to_json() for name, one in evaluations.items()]}
        differences = {"comparison": comparison.to_json() if comparison else None}
        table = {"side_by_side": together.to_json()} if together else {}
        print_json(found | differences | table | {"provenance": made.to_json() if made else None})
        return
    out, several = _wide_console(), len(evaluations) > 1
    if several:
        _show_notices(out, evaluations)
    for name, evaluation in evaluations.items():
        out.print(f"[bold]{safe(name)}[/]")
        out.print(safe(main_sentence(evaluation)))
        if not several:
            _show_notices(out, evaluations)
        figures = _plain(figures_table(evaluation.directions, evaluation))
        for place, column in enumerate(figures.columns[1:]):
            column.style = "dim" if place % 2 else "bold"
        out.print(figures)
        _show_groups(out, evaluation)
    if together:
        out.print("[bold]Side by side[/]")
        cells = {name: cells_of(together, name, _cell) for name in together.figures}
        for direction in dict.fromkeys(column.direction for column in together.columns):
            shown = table_of((direction, *together.figures))
            for place, one in enumerate(together.columns):
                if one.direction == direction:
                    shown.add_row(one.metric, *(cells[name][place] for name in together.figures))
            out.print(shown)
        out.print(f"[dim]{safe(note(together, 'bold'))}[/]")
    if comparison:
        _show_comparison(out, next(iter(evaluations)), comparison)
    _show_rules(out, next(iter(evaluations.values())))


def _wide_console() -> Console:
    out = console()
    return out if out.is_terminal else Console(highlight=False, soft_wrap=True, width=max(out.width, _NARROWEST))


def _show_notices(out: Console, evaluations: Mapping[str, Evaluation]) -> None:
    for notice in merge_sentences({name: evaluation_notices(one) for name, one in evaluations.items()}):
        out.print(f"[yellow]{safe(notice)}[/]")


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


def _cell(value: str, ends: str, best: bool) -> str:
    return f"{f'[bold]{value}[/]' if best else value} [dim]{safe(ends)}[/]".rstrip()


def show_moments(
    found: Mapping[str, MomentEvaluation], compared: Sequence[MomentDifference], made: Provenance | None
) -> None:
    first = next(iter(found.values()))
    if made is not None:
        differences = [
            {"system": one.system, "metric": one.metric, **asdict(one.interval)}
            | {"p_wilcoxon": one.p_wilcoxon, "p_holm": one.p_holm}
            for one in compared
        ]
        systems = [{"name": name} | one.to_json() for name, one in found.items()]
        print_json({"systems": systems, "differences": differences, "provenance": made.to_json()})
        return
    out = _wide_console()
    for notice in dict.fromkeys(notice for one in found.values() for notice in one.notices):
        out.print(f"[yellow]{safe(notice)}[/]")
    table = table_of(("metric", *map(safe, found)))
    for word in first.summary:
        cells = (_words(one.summary[word]) if word in one.summary else "" for one in found.values())
        table.add_row(word, *cells)
    out.print(table)
    if compared:
        names = [name for name in found if any(one.system == name for one in compared)]
        gains = table_of(("less the first", *map(safe, names)))
        for word in first.summary:
            own = {one.system: f"{_words(one.interval)} p {one.p_holm:.2g}" for one in compared if one.metric == word}
            gains.add_row(word, *(own.get(name, "") for name in names))
        out.print(gains)
    clips = len(set(first.clip_ids))
    searched = "all clips searched" if first.all_clips else "each searched in its own clip"
    tests = ", p of signed ranks over clips, adjusted by Holm" if compared else ""
    out.print(
        f"[dim]{len(first.query_ids):,} queries about {clips:,} clips, {searched}. Intervals of "
        f"{percent(first.confidence)} over clips{tests}. Shares in percent.[/]"
    )


def write_side_by_side(found: SideBySide, latex: Path | None, markdown: Path | None, csv: Path | None) -> None:
    for path, text in ((latex, as_latex), (markdown, as_markdown)):
        if path:
            with output_file(path) as part:
                part.write_text(text(found), encoding="utf-8")
    if csv:
        write_rows(csv, pl.DataFrame(found.to_json(), infer_schema_length=None), ("system",))


def write_per_query(path: Path, evaluations: Mapping[str, Evaluation]) -> None:
    """Write a table with a row for each system, direction and query: the columns that figures are calculated from."""
    tables = [
        pl.DataFrame({"query_id": list(result.query_ids), **result.per_query}).select(
            pl.lit(system).alias("system"), pl.lit(direction).alias("direction"), pl.all()
        )
        for system, evaluation in evaluations.items()
        for direction, result in evaluation.directions.items()
    ]
    write_rows(path, pl.concat(tables), ("system", "query_id"))


def write_rows(path: Path, table: pl.DataFrame, names: Sequence[str]) -> None:
    with output_file(path) as part:
        if path.suffix.lower() == ".csv":
            table.with_columns(pl.col(*names).map_elements(as_cell, pl.String)).write_csv(part)
        else:
            table.write_parquet(part)


def write_moments(path: Path, found: Mapping[str, MomentEvaluation]) -> None:
    """Write a table with a row for each system and query, as csv or parquet, with a column for each metric."""
    tables = [
        pl.DataFrame(
            {"system": [name] * len(one.query_ids), "query_id": one.query_ids, "clip_id": one.clip_ids}
        ).with_columns(pl.Series(word, values) for word, values in one.per_query.items())
        for name, one in found.items()
    ]
    write_rows(path, pl.concat(tables, how="diagonal"), ("system", "query_id", "clip_id"))


def _words(one: Interval) -> str:
    if one.low is None or one.high is None:
        return f"{one.value:.2f}"
    return f"{one.value:.2f} [{one.low:.1f}, {one.high:.1f}]"
