"""What `evenreel evaluate --moments` prints and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console

from evenreel.cli.evaluate.files import write_rows
from evenreel.cli.show_library import console, print_json, safe, table_of
from evenreel.evaluation.intervals import Interval
from evenreel.evaluation.moments import MomentDifference, MomentEvaluation
from evenreel.provenance import Provenance
from evenreel.report.words import percent

_NARROWEST = 100


def show_moments(
    found: Mapping[str, MomentEvaluation], compared: Sequence[MomentDifference], made: Provenance | None
) -> None:
    """Print figures of predicted windows, of systems and of guesses, and differences of systems from the first."""
    first = next(iter(found.values()))
    if made is not None:
        differences = [_difference(one) for one in compared]
        systems = [{"name": name} | one.to_json() for name, one in found.items()]
        print_json({"systems": systems, "differences": differences, "provenance": made.to_json()})
        return
    out = console()
    if not out.is_terminal:
        out = Console(highlight=False, soft_wrap=True, width=max(out.width, _NARROWEST))
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


def _difference(one: MomentDifference) -> dict[str, Any]:
    interval = {"value": one.interval.value, "low": one.interval.low, "high": one.interval.high}
    tests = {"p_wilcoxon": one.p_wilcoxon, "p_holm": one.p_holm}
    return {"system": one.system, "metric": one.metric} | interval | tests
