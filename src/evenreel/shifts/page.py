"""The page of shifts: what each corruption costs, as a sentence, a chart and a table a direction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from evenreel.evaluation import Interval, parse_metric
from evenreel.report import Chart, Page, Section, Table, Text
from evenreel.report.evaluation import TITLES
from evenreel.report.figures import COLOURS, axes
from evenreel.report.words import interval, number, p_value, percent, signed
from evenreel.shifts.figures import METRIC, ShiftReport, ShiftRow

COLUMNS = ("corruption", "strength", METRIC, "interval", "lost", "interval", "p", "hub skewness", "hub memory adds")
NARROW = ("corruption", METRIC, "lost", "hubs", "memory")
CAPTION = (
    "lost: points of R@1 below clips that are only encoded the same way, with a paired test, Holm-adjusted. hub "
    "skewness: of how often each item is among the first 10. hub memory adds: points of R@1 by that correction of "
    "scores, with queries in the corpus's order, in brackets its interval."
)
NARROW_CAPTION = (
    "In brackets {sure} intervals. lost: points of R@1 below clips that are only encoded the same way; a star: not by "
    "chance (paired test, Holm). hubs: skewness of how often each item is among the first 10. memory: points of R@1 "
    "that the hub memory adds, with queries in the corpus's order."
)
METHOD = (
    "The clips of the split are decoded once, scaled down, corrupted as in MLVP (Zhang et al. 2026, arXiv 2604.20851), "
    "and encoded; features of every version are computed anew. Where the subject is, is guessed from what moves; style "
    "and inserted events are another clip's of the split."
)
_METRIC = parse_metric(METRIC)


def shifts_page(report: ShiftReport) -> Page:
    """Make the page of what a model finds among corrupted clips."""
    notices = [Text(sentence, "notice") for sentence in report.notices]
    aside = [Text(f"{one.clip_id}: {one.sentence}", "note") for one in report.set_aside]
    sections = [Section("What to know first", [*notices, *aside])] if notices or aside else []
    for direction in dict.fromkeys(row.direction for row in report.rows):
        rows = [row for row in report.rows if row.direction == direction]
        table = Table(COLUMNS, [list(cells_of(row)) for row in rows], CAPTION)
        sections.append(Section(TITLES[direction], [Chart(_losses(rows), "What is found"), table]))
    sections.append(Section("How it was calculated", [Text(METHOD)]))
    return Page(f"Shifts of {report.model}", worst_sentence(report), sections)


def worst_sentence(report: ShiftReport) -> str:
    """Return a sentence on the corruption that costs captions' searches the most."""
    rows = [row for row in report.rows if row.direction == report.rows[0].direction]
    clean, worst = rows[0], max(rows[1:], key=lambda row: 0.0 if row.lost is None else row.lost.value)
    ends = interval(worst.found, _METRIC)
    sure = f" ({percent(report.confidence)} interval {ends})" if ends else ""
    return (
        f"{number(clean.found.value, _METRIC)}% of {report.captions:,} captions find their clip first among "
        f"{report.clips:,} clips as they are; {number(worst.found.value, _METRIC)}%{sure} after {worst.kind} of "
        f"strength {worst.strength}, which costs the most."
    )


def cells_of(row: ShiftRow) -> Iterator[str]:
    """Format the cells of a row, in the order of `COLUMNS`."""
    yield from (row.kind, str(row.strength or ""), number(row.found.value, _METRIC), interval(row.found, _METRIC))
    yield from ("", "") if row.lost is None else (number(row.lost.value, _METRIC), interval(row.lost, _METRIC))
    yield "" if row.p is None else p_value(row.p)
    yield "" if row.skewness is None else f"{row.skewness:.1f}"
    yield "" if row.regained is None else f"{signed(row.regained.value, _METRIC)} [{interval(row.regained, _METRIC)}]"


def narrow_cells(row: ShiftRow, confidence: float) -> Iterator[str]:
    """Format the cells of a row for a terminal, in the order of `NARROW`."""
    yield f"{row.kind} {row.strength or ''}".rstrip()
    yield _in_brackets(row.found)
    star = "*" if row.p is not None and row.p <= 1 - confidence else ""
    yield "" if row.lost is None else _in_brackets(row.lost, star)
    yield "" if row.skewness is None else f"{row.skewness:.1f}"
    yield "" if row.regained is None else f"{row.regained.value:+.1f}"


def _in_brackets(figure: Interval, mark: str = "") -> str:
    ends = "" if figure.low is None or figure.high is None else f" [{figure.low:.1f}, {figure.high:.1f}]"
    return f"{figure.value + 0.0:.1f}{mark}{ends}"


def _losses(rows: Sequence[ShiftRow]) -> go.Figure:
    """Draw what is found at each strength, a line a corruption that begins at clips as they are."""
    figure, clean = go.Figure(layout=axes("strength", f"{METRIC}, %")), rows[0]
    for place, kind in enumerate(dict.fromkeys(row.kind for row in rows[1:])):
        line = [clean, *sorted((row for row in rows if row.kind == kind), key=lambda row: row.strength)]
        figure.add_scatter(
            x=[row.strength for row in line], y=[row.found.value for row in line], mode="lines+markers", name=kind,
            line={"color": COLOURS[place % len(COLOURS)], "dash": "solid" if place < len(COLOURS) else "dot"},
            customdata=[interval(row.found, _METRIC) for row in line], hovertemplate="%{y:.1f}<br>%{customdata}",
        )  # fmt: skip
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 101])
    return figure
