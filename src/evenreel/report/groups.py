"""Tables and sentences of groups of queries, the same on a page and in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenreel.evaluation.measure import ColumnFigures, DirectionResult
from evenreel.evaluation.metrics import Metric
from evenreel.report.page import Section, Table, Text
from evenreel.report.words import GAP_METHOD, gap_sentence, interval, number, p_value, percent


def groups_table(result: DirectionResult, column: str, metrics: Sequence[Metric], confidence: float) -> Table:
    heads = [column, "queries", result.drawn_by]
    for metric in metrics:
        heads += [str(metric), f"{percent(confidence)} interval"]
    rows = []
    for group in result.by[column].groups:
        row = [group.name, f"{group.queries:,}", f"{group.drawn:,}"]
        for metric in metrics:
            figure = group.summary.get(str(metric))
            row += [number(figure.value, metric), interval(figure, metric)] if figure else ["", ""]
        rows.append(row)
    return Table(heads, rows, f"{result.direction} by {column}; every query is asked of the whole gallery.")


def gaps_table(found: ColumnFigures, metrics: Sequence[Metric], confidence: float) -> Table:
    rows = []
    for metric in metrics:
        if (gap := found.gaps.get(str(metric))) is None:
            continue
        sure = ["" if gap.chance is None else number(gap.chance, metric), "" if gap.p is None else p_value(gap.p)]
        ends = interval(gap.gap, metric)
        rows.append([str(metric), gap.worst, gap.best, number(gap.gap.value, metric), ends, *sure])
        for name, apart in gap.against.items():
            rows.append([str(metric), name, "", number(apart.value, metric), interval(apart, metric), "", ""])
    heads = ["metric", "worst", "best", "gap", f"{percent(confidence)} interval", "by chance", "p"]
    return Table(heads, rows, "Gap between the best and the worst group.", left=3)


def group_sentences(result: DirectionResult, column: str, metrics: Sequence[Metric], confidence: float) -> list[str]:
    gaps = result.by[column].gaps
    known = [metric for metric in metrics if str(metric) in gaps]
    return [gap_sentence(gaps[str(metric)], metric, column, confidence) for metric in known[:1]]


def group_section(name: str, result: DirectionResult, metrics: Sequence[Metric], confidence: float) -> Section | None:
    if not result.by:
        return None
    parts = [part for column in result.by for part in _column(result, column, metrics, confidence)]
    return Section(f"{name}: groups, {result.direction}", [*parts, Text(GAP_METHOD, "note")])


def _column(
    result: DirectionResult, column: str, metrics: Sequence[Metric], confidence: float
) -> Iterator[Text | Table]:
    found = result.by[column]
    yield from (Text(sentence, "notice") for sentence in found.notices)
    yield from (Text(sentence) for sentence in group_sentences(result, column, metrics, confidence))
    if found.groups:
        yield groups_table(result, column, metrics, confidence)
    if found.gaps:
        yield gaps_table(found, metrics, confidence)
