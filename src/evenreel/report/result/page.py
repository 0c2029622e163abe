"""The page of `evenreel audit`: the results in sentences, then figures, tables, and how everything was computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from evenreel.errors import UsageError
from evenreel.report.page import Chart, Page, Section, Table, Text
from evenreel.report.result.record import AuditResult, AuditTable
from evenreel.report.result.words import DASH, cell, cells, effect_interval, verdict
from evenreel.report.words import merge_sentences, p_value, percent

if TYPE_CHECKING:
    from evenreel.report.result.record import Effect

MOST_ROWS = 200
"""Rows of a table on the page: it is read by people, and JSON has them all."""


def audit_page(results: Sequence[AuditResult], notices: Sequence[str] = ()) -> Page:
    """Make one page of the results of one or several audits of one or several systems."""
    if not results:
        raise UsageError("There is no audit to write a page of; give at least one result.")
    titles = list(dict.fromkeys(one.title for one in results))
    sections = [*_notices(results, notices), *(_comparison(results) if len(results) > 1 else ())]
    sections += [_section(one, alone=len(results) == 1) for one in results]
    sections.append(Section("How it was calculated", list(_method(results))))
    return Page(titles[0] if len(titles) == 1 else f"{len(titles)} audits", "\n".join(lead_lines(results)), sections)


def lead_lines(results: Sequence[AuditResult]) -> list[str]:
    """Return the main sentence of each result, after the system's name where there are several systems."""
    return [f"{_whose(one, results)}{one.sentence}" for one in results]


def _whose(result: AuditResult, results: Sequence[AuditResult]) -> str:
    several = len({one.system for one in results}) > 1
    return f"{result.system}: " if several and result.system else ""


def notices_of(results: Sequence[AuditResult]) -> list[str]:
    """Return the notices of several results, each sentence once with the names of the systems that it holds for."""
    by_system: dict[str, list[str]] = {}
    for result in results:
        by_system.setdefault(result.system, []).extend(result.notices)
    return merge_sentences(by_system)


def _notices(results: Sequence[AuditResult], of_all: Sequence[str]) -> Iterator[Section]:
    if said := [*of_all, *notices_of(results)]:
        yield Section("What to know first", [Text(sentence, "notice") for sentence in dict.fromkeys(said)])


def _comparison(results: Sequence[AuditResult]) -> Iterator[Section]:
    """The effects beside each other: the systems in a figure and a table for each effect, what is alone in one table.

    The effect's name is a title, or wraps in the one column of words, since a column for it leaves no room for numbers.
    """
    from evenreel.report.result.figures import effect_intervals

    parts: list[Text | Table | Chart] = []
    alone: list[AuditResult] = []
    for name in dict.fromkeys((one.name, one.effect.name) for one in results):
        own = [one for one in results if (one.name, one.effect.name) == name]
        if len({one.system for one in own}) < len(own) or len(own) == 1:
            alone += own
            continue
        parts.append(Chart(effect_intervals({one.system: one.effect for one in own}), f"{name[1]}, by system"))
        parts.append(_effects({one.system: one for one in own}, "system"))
    if alone:
        named = {f"{_whose(one, results)}{one.name}: {one.effect.name}": one for one in alone}
        parts.append(_effects(named, "effect"))
    yield Section("In short", parts)


def _effects(results: Mapping[str, AuditResult], what: str) -> Table:
    """An effect a row, by its name or its system's."""
    sure = {f"{percent(one.confidence)} " for one in results.values()}
    columns = [what, "value", f"{sure.pop() if len(sure) == 1 else ''}interval", "p", "verdict"]
    return Table(columns, [[name or DASH, *_effect_row(one.effect)] for name, one in results.items()])


def _effect_row(effect: Effect) -> list[str]:
    return [cell(effect.value, 2), effect_interval(effect) or DASH, _p(effect), verdict(effect)]


def _p(effect: Effect) -> str:
    return DASH if effect.p_value is None else p_value(effect.p_value)


def _section(result: AuditResult, *, alone: bool) -> Section:
    parts: list[Text | Table | Chart] = [] if alone else [Text(result.sentence)]
    for figure in result.figures:
        parts.append(Chart(figure.draw(), figure.title))
        parts += [Text(figure.note, "note")] if figure.note else []
    for table in result.tables:
        parts.append(_table(table))
        parts += [Text(note, "note") for note in (table.note, _left_out(table)) if note]
    title = f"{result.system}: {result.title}" if result.system else result.title
    return Section("What was found" if alone else title, parts)


def _table(table: AuditTable) -> Table:
    rows = cells(replace(table, rows=table.rows[:MOST_ROWS]))
    return Table(table.columns, rows, title=table.title, left=words_columns(table))


def words_columns(table: AuditTable) -> int:
    """Return the number of leftmost columns of a table that hold words; at least 1."""
    columns = [[row[place] for row in table.rows] for place in range(len(table.columns))]
    words = takewhile(lambda column: all(isinstance(value, str) for value in column), columns)
    return max(1, len(list(words)))


def _left_out(table: AuditTable) -> str:
    more = len(table.rows) - MOST_ROWS
    return f"The first {MOST_ROWS:,} of {len(table.rows):,} rows; --json has them all." if more > 0 else ""


def _method(results: Sequence[AuditResult]) -> Iterator[Text]:
    """A paragraph that several audits share is said once, and each audit's own behind its title."""
    several = len({one.name for one in results}) > 1
    said: set[str] = set()
    for result in results:
        new = [words for words in result.method if words not in said]
        if new and several:
            yield Text(f"{result.title}:", "note")
        yield from (Text(words) for words in new)
        said.update(new)
