"""What `evenreel evaluate` prints: a sentence, tables and whatever has to be said of the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from evenreel.cli.show_library import console, print_json, safe
from evenreel.evaluation import Evaluation, parse_metric
from evenreel.evaluation.comparison import Comparison, Difference
from evenreel.provenance import Provenance
from evenreel.report.words import (
    PROTOCOLS,
    RELEVANCES,
    TIES,
    difference_sentence,
    evaluation_notices,
    interval,
    intervals_sentence,
    main_sentence,
    number,
    p_value,
    percent,
    said_once,
    signed,
)

_NARROWEST = 100


def show_evaluation(
    evaluations: Mapping[str, Evaluation],
    comparison: Comparison | None,
    as_json: bool,
    made: Provenance | None = None,
) -> None:
    """Figures of every system, the first of which is the baseline, and the differences from it.

    Args:
        evaluations: by the systems' names.
        comparison: of the others with the first.
        as_json: print JSON.
        made: what the figures are made of, for JSON.
    """
    if as_json:
        found = {"systems": [{"name": name} | one.to_json() for name, one in evaluations.items()]}
        differences = {"comparison": comparison.to_json() if comparison else None}
        print_json(found | differences | {"provenance": made.to_json() if made else None})
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
    if comparison:
        _show_comparison(out, next(iter(evaluations)), comparison)
    _show_rules(out, next(iter(evaluations.values())))


def _show_notices(out: Console, evaluations: Mapping[str, Evaluation]) -> None:
    for notice in said_once({name: evaluation_notices(one) for name, one in evaluations.items()}):
        out.print(f"[yellow]{safe(notice)}[/]")


def _figures(evaluation: Evaluation) -> Table:
    """A metric a row, a figure and its interval for each direction."""
    table = _table("metric")
    for direction in evaluation.directions:
        table.add_column(direction, justify="right", style="bold")
        table.add_column(f"{percent(evaluation.confidence)} interval", justify="right", style="dim")
    for metric in evaluation.metrics:
        figures = [result.summary[str(metric)] for result in evaluation.directions.values()]
        words = ((number(one.value, metric), interval(one, metric)) for one in figures)
        table.add_row(str(metric), *(word for pair in words for word in pair))
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
    table = _table(direction)
    table.add_column("system", overflow="fold")
    for name in ("difference", f"{percent(confidence)} interval", "p", "p (Holm)", "Wilcoxon", "better/alike/worse"):
        table.add_column(name, justify="right")
    for row in rows:
        metric = parse_metric(row.metric)
        difference, sure = signed(row.difference.value, metric), row.p_holm <= 1 - confidence
        table.add_row(
            row.metric,
            safe(row.system),
            f"[bold]{difference}[/]" if sure else difference,
            interval(row.difference, metric),
            *(p_value(p) for p in (row.p_randomisation, row.p_holm, row.p_wilcoxon)),
            f"{row.wins:,}/{row.ties:,}/{row.losses:,}",
        )
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
    out.print(f"[dim]ties {evaluation.ties}: {TIES[evaluation.ties]}. Shares in percent.[/]")


def _table(first: str) -> Table:
    from rich.box import SIMPLE_HEAD

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(first)
    return table
