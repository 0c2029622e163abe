"""Pages of sentences, charts and tables as one HTML file, which loads nothing and in which all text is escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Literal

from evenreel.errors import UsageError
from evenreel.evaluation.intervals import Interval
from evenreel.evaluation.metrics import parse_metric
from evenreel.files import output_file, printable
from evenreel.provenance import Provenance, provenance_of
from evenreel.report.result import DASH, AuditResult, AuditTable, cell, effect_interval, verdict
from evenreel.report.words import merge_sentences, p_value, percent
from evenreel.types import Shown

if TYPE_CHECKING:
    import plotly.graph_objects as go


MOST_ROWS = 200  # rows of a result's table on the page: it is read by people, and JSON has them all


@dataclass(frozen=True)
class Text:
    """A paragraph of a page.

    Attributes:
        words: text of the paragraph.
        kind: style: a `notice` stands out, a `note` is set back, `code` keeps every space and line.
    """

    words: str
    kind: Literal["plain", "notice", "note", "code"] = "plain"


@dataclass(frozen=True)
class Picture:
    """A small picture in a cell of a table, with words below it; the page contains its bytes."""

    jpeg: bytes
    words: str


@dataclass(frozen=True)
class Table(Shown):
    """A table on a page: rows of words and small pictures, with a cell for each column.

    Attributes:
        columns: heads of the columns.
        rows: cells of each row.
        caption: text that scrolls with the table on a narrow screen.
        title: text above the table, which stays in place.
        left: number of first columns that hold words and are set left; the others hold numbers.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Picture]]
    caption: str = ""
    title: str = ""
    left: int = 1


@dataclass(frozen=True, eq=False)
class Chart(Shown):
    """A figure of Plotly on a page, with a plain-text title.

    Untrusted words in the figure must be escaped, since its labels interpret some tags. A figure of several panels has
    their number, and the number in a row, in `layout.meta` (`evenreel.report.figures.panels`).
    """

    figure: go.Figure
    title: str = ""


Part = Text | Table | AuditTable | Chart
"""What stands in a section; of a long table of a result the first `MOST_ROWS` rows."""


@dataclass(frozen=True, eq=False)
class Section(Shown):
    """Section of a page: a heading with the parts below it."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, eq=False)
class Page(Shown):
    """A page: a title, the main result in one or several lines (`lead`), and sections."""

    title: str
    lead: str
    sections: Sequence[Section] = field(default=())


def write_page(page: Page, path: Path, made: Provenance | None = None) -> None:
    """Write a page as HTML; an existing file is replaced whole.

    Args:
        page: page to write.
        path: path of the file.
        made: provenance that is stated at the end; None for the present command and time, without inputs.

    Raises:
        OutputError: the file cannot be written.
    """
    with output_file(path) as part:
        part.write_text(render(page, made), encoding="utf-8", errors="backslashreplace")


def render(page: Page, made: Provenance | None = None) -> str:
    """Render a page as HTML text."""
    charts: list[str] = []
    body = "\n".join(
        f"<section>\n<h2>{escape(section.title)}</h2>\n"
        + "\n".join(_part(part, charts) for part in section.parts)
        + "\n</section>"
        for section in page.sections
    )
    return Template(_file("page.html")).substitute(
        title=escape(page.title),
        lead="\n".join(f'<p class="lead">{escape(line)}</p>' for line in page.lead.splitlines()),
        style=_file("page.css"),
        body=body,
        footer=_origin(made or provenance_of()),
        scripts=_scripts(charts),
    )


def _origin(made: Provenance) -> str:
    """The foot of the page: when it was made, by which version and command, and of what."""
    parts: list[Text | Table] = [Text(f"{made.made}, by evenreel {made.version}.")]
    if made.command:
        parts.append(Text(printable(made.command), "code"))
    if made.inputs:
        rows = [[one.what, printable(one.place), one.digest or "\N{EN DASH}"] for one in made.inputs]
        parts.append(Table(("made of", "place", "SHA-256 begins with"), rows, left=3))
    return "\n".join(["<footer>", "<h2>Where this is from</h2>", *(_part(part, []) for part in parts), "</footer>"])


def _part(part: Part, charts: list[str]) -> str:
    """One part as HTML; a chart's data go to `charts`, to be drawn at the end."""
    if isinstance(part, Text):
        tag = "pre" if part.kind == "code" else "p"
        return f'<{tag} class="{part.kind}">{escape(part.words)}</{tag}>'
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, AuditTable):
        rows = replace(part, rows=part.rows[:MOST_ROWS]).texts()
        more = f"The first {MOST_ROWS:,} of {len(part.rows):,} rows; --json has them all."
        notes = (part.note, more if len(part.rows) > MOST_ROWS else "")
        shown = _table(Table(part.columns, rows, "", part.title, part.words))
        return "\n".join([shown, *(_part(Text(note, "note"), charts) for note in notes if note)])
    name = f"chart-{len(charts)}"
    # Plotly writes "<" as \u003c in its JSON, so that no word in it can end the element.
    data = part.figure.to_json()
    charts.append(f'<script type="application/json" id="{name}-data">{data}</script>')
    label = f' role="img" aria-label="{escape(part.title)}"' if part.title else ""
    return f'{_heading(part.title)}<div class="chart" id="{name}"{label}></div>'


def _heading(title: str) -> str:
    return f"<h3>{escape(title)}</h3>\n" if title else ""


def _table(table: Table) -> str:
    kinds = [' class="words"' if place < table.left else "" for place in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{kind}>{escape(word)}</th>' for kind, word in zip(kinds, table.columns, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    return (
        f'{_heading(table.title)}<div class="scroll" tabindex="0"><table>{caption}\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _cell(cell: str | Picture) -> str:
    if isinstance(cell, str):
        return escape(cell)
    data = base64.b64encode(cell.jpeg).decode()
    image = f'<img src="data:image/jpeg;base64,{data}" alt="">'
    return f"<figure>{image}<figcaption>{escape(cell.words)}</figcaption></figure>"


def _scripts(charts: Sequence[str]) -> str:
    """Plotly itself, once, the data of the charts, and what draws them; nothing where there is no chart."""
    if not charts:
        return ""
    from plotly.offline import get_plotlyjs

    return "\n".join((f"<script>{get_plotlyjs()}</script>", *charts, f"<script>{_file('page.js')}</script>"))


def _file(name: str) -> str:
    return files("evenreel.report").joinpath(name).read_text(encoding="utf-8")


def audit_page(results: Sequence[AuditResult], notices: Sequence[str] = ()) -> Page:
    """Make one page of the results of one or several audits of one or several systems."""
    if not results:
        raise UsageError("There is no audit to write a page of; give at least one result.")
    titles, alone = list(dict.fromkeys(one.title for one in results)), len(results) == 1
    several = len({one.system for one in results}) > 1
    whose = {id(one): f"{one.system}: " if several and one.system else "" for one in results}
    said = dict.fromkeys([*notices, *notices_of(results)])
    sections = [Section("What to know first", [Text(sentence, "notice") for sentence in said])] if said else []
    if not alone:
        sections.append(Section("In short", [*_comparison(results, whose)]))
    for one in results:
        parts: list[Part] = [] if alone else [Text(one.sentence)]
        for figure in one.figures:
            parts.append(Chart(figure.draw(), figure.title))
            parts += [Text(figure.note, "note")] if figure.note else []
        title = f"{one.system}: {one.title}" if one.system else one.title
        sections.append(Section("What was found" if alone else title, [*parts, *one.tables]))
    sections.append(Section("How it was calculated", [*_method(results)]))
    lead = "\n".join(f"{whose[id(one)]}{one.sentence}" for one in results)
    return Page(titles[0] if len(titles) == 1 else f"{len(titles)} audits", lead, sections)


def notices_of(results: Sequence[AuditResult]) -> list[str]:
    """Return the notices of several results, each sentence once with the names of the systems that it holds for."""
    by_system: dict[str, list[str]] = {}
    for result in results:
        by_system.setdefault(result.system, []).extend(result.notices)
    return merge_sentences(by_system)


def _comparison(results: Sequence[AuditResult], whose: Mapping[int, str]) -> Iterator[Part]:
    """The effects beside each other: the systems in a figure and a table for each effect, what is alone in one table.

    The effect's name is a title, or wraps in the one column of words, since a column for it leaves no room for numbers.
    """
    from evenreel.report.figures import effect_intervals

    def table(effects: Mapping[str, AuditResult], what: str) -> Table:
        sure = {f"{percent(one.confidence)} " for one in effects.values()}
        columns = [what, "value", f"{sure.pop() if len(sure) == 1 else ''}interval", "p", "verdict"]
        rows = []
        for name, effect in ((name, one.effect) for name, one in effects.items()):
            p = DASH if effect.p_value is None else p_value(effect.p_value)
            ends = effect_interval(effect) or DASH
            rows.append([name or DASH, cell(effect.value, 2), ends, p, verdict(effect)])
        return Table(columns, rows)

    alone: list[AuditResult] = []
    for name in dict.fromkeys((one.name, one.effect.name) for one in results):
        own = [one for one in results if (one.name, one.effect.name) == name]
        if len({one.system for one in own}) < len(own) or len(own) == 1:
            alone += own
            continue
        yield Chart(effect_intervals({one.system: one.effect for one in own}), f"{name[1]}, by system")
        yield table({one.system: one for one in own}, "system")
    if alone:
        yield table({f"{whose[id(one)]}{one.name}: {one.effect.name}": one for one in alone}, "effect")


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


# Training ------------------------------------------------------------------------------------------------------------

_CURVES = (
    ("loss/", "Loss of the latest batch, by its terms", "loss"),
    ("bias/kl", "Divergence of a word's bias from the prior", "nats"),
    ("bias/active_units", "Numbers of the bias that vary over words", "numbers"),
    ("bias/sigma", "Deviation of the bias, 1 in the prior", "deviation"),
    ("rate/", "Rates by group of parameters", "rate"),
    ("logit_scale", "Factor on the similarities in the loss", "factor"),
)


def training_page(name: str, lead: str, curves: Mapping[str, Sequence[tuple[float, float]]], recipe: str) -> Page:
    """Make the page of a training run: curves over steps by their names, recalls and ranks apart, and its recipe."""
    from evenreel.report.figures import Line, Panel, sweep

    def lines(prefix: str) -> dict[str, Line]:
        return {
            key.removeprefix(prefix) or key: [(step, Interval(value)) for step, value in curve]
            for key, curve in curves.items()
            if key.startswith(prefix)
        }

    scales: dict[str, dict[str, Line]] = {}
    for figure, line in lines("validation/").items():
        metric = parse_metric(figure.split()[0])
        scale = (
            "sum of three, %" if metric.name == "Rsum" else "%" if metric.higher_is_better else "rank, less is better"
        )
        scales.setdefault(scale, {})[figure] = line
    panels = [Panel(", ".join(dict.fromkeys(one.split()[0] for one in own)), unit, own) for unit, own in scales.items()]
    charts = [("On the validation split", panels)] if panels else []
    charts += [(title, [Panel("", unit, chosen)]) for prefix, title, unit in _CURVES if (chosen := lines(prefix))]
    sections = [Section(title, [Chart(sweep(parts, "step"))]) for title, parts in charts]
    return Page(f"Training of {name}", lead, [*sections, Section("Recipe", [Text(recipe, "code")])])
