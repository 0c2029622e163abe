"""The page of audits: sentences first, words are text, and it fits a desktop and a phone."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from playwright.sync_api import TimeoutError, sync_playwright

from evenreel.errors import UsageError
from evenreel.evaluation.intervals import Interval
from evenreel.report.figures import Panel, deltas_by_group, share_sweep
from evenreel.report.page import MOST_ROWS, Chart, Page, Table, Text, audit_page, render, write_page
from evenreel.report.result import AuditFigure, AuditResult, AuditTable, Effect, interval_cells, interval_columns
from tests.report.test_page import Elements, chart_data

PATIENCE_MS = 60_000  # a busy machine is no failure
ATTACK = "</script><img src=x onerror=alert(1)> <b>bold</b>"
EFFECT = "how often a real clip stands above a generated one, neither relevant, %"
METRICS = ("R@1", "R@5", "R@10", "MedR", "MeanR", "MixR")
GROUPS = ("cogvideox text", "opensora text", "opensora image", ATTACK)


def bars() -> go.Figure:
    by_group = {group: Interval(-20.0, -28.0, -9.0) for group in GROUPS}
    return deltas_by_group({"Relative": by_group, "Normalized": by_group}, "MixR, above 0: real clips are favoured")


def sweep() -> go.Figure:
    line = [(share, Interval(30.0 + share, 25.0 + share, 35.0 + share)) for share in (0.0, 40.0, 80.0)]
    parts = [Panel(f"panel {number}", "R@1, %", {"text": line}) for number in range(6)]
    return share_sweep(parts, "share of generated clips in training")


SOURCE = AuditResult(
    name="source",
    title="Does the ranking favour generated clips?",
    sentence="Generated clips are favoured: MixR is -23.4.",
    effect=Effect(EFFECT, -23.4, -30.1, -17.2, p_value=0.0004),
    tables=(
        AuditTable(
            "Differences by group",
            ("group", "row", *METRICS),
            tuple((group, kind, *([-1234.567] * 6)) for group in GROUPS for kind in ("Relative", "Normalized")),
            note="Above 0: real clips.",
        ),
    ),
    figures=(AuditFigure("By group", bars, "Lines are intervals."), AuditFigure("Sweep", sweep)),
    notices=("12 captions are left out.",),
    method=("Relative is explained here.", "Intervals: 1,000 samples."),
)
OTHER = replace(
    SOURCE,
    name="unpaired",
    title="Of clips that answer nothing, which stand higher?",
    sentence="Nothing can be told.",
    effect=Effect("win rate, %", 51.0, 45.0, 57.0, neutral=50.0),
    tables=(),
    figures=(),
    notices=(),
    method=("Unpaired is explained here.", "Intervals: 1,000 samples."),
)
SEVERAL = [
    *(replace(SOURCE, system=name, notices=("The same of all.", f"Of {name}.")) for name in ("old.npz", ATTACK)),
    *(replace(OTHER, system=name, notices=("The same of all.",)) for name in ("old.npz", ATTACK)),
]


def in_order(words: str, parts: list[str]) -> None:
    places = [words.find(one) for one in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


def test_one_result_is_read_from_its_sentence_to_how_it_was_calculated() -> None:
    words = Elements(render(audit_page([SOURCE]))).words
    parts = "Does the ranking favour|Generated clips are favoured: MixR is -23.4.|12 captions are left out.|By group|"
    parts += "Lines are intervals.|Sweep|Differences by group|-1,234.57|Above 0: real clips.|How it was calculated|"
    in_order(words, (parts + "Relative is explained here.").split("|"))
    assert "In short" not in words


def test_several_results_are_compared_before_each_has_its_section() -> None:
    page = audit_page(SEVERAL)
    words = Elements(render(page)).words
    parts = "2 audits|old.npz: Generated clips are favoured|ATTACK: Nothing can be told.|Both systems: The same of|"
    parts += "old.npz: Of old.npz.|In short|old.npz: Does the ranking favour|ATTACK: Of clips that answer nothing|"
    in_order(words, [one.replace("ATTACK", ATTACK) for one in (parts + "Relative is|Unpaired is expl").split("|")])
    assert words.count("The same of all.") == words.count("Intervals: 1,000 samples.") == 1
    first, second = (part for part in in_short(page) if isinstance(part, Table))
    assert list(first.columns) == list(second.columns) == ["system", "value", "95% interval", "p", "verdict"]
    assert first.rows[0] == ["old.npz", "-23.40", "-30.10 to -17.20", "<0.001", "below 0"]
    assert second.rows[1] == [ATTACK, "51.00", "45.00 to 57.00", "–", "cannot be told from 50"]
    titles = [part.title for part in in_short(page) if isinstance(part, Chart)]
    assert titles == [f"{EFFECT}, by system", "win rate, %, by system"]


def in_short(page: Page) -> Sequence[Text | Table | Chart]:
    (section,) = [one for one in page.sections if one.title == "In short"]
    return section.parts


def test_effects_of_one_system_are_named_in_the_first_column() -> None:
    (table,) = in_short(audit_page([SOURCE, OTHER]))
    assert isinstance(table, Table)
    assert list(table.columns) == ["effect", "value", "95% interval", "p", "verdict"]
    assert [row[0] for row in table.rows] == [f"source: {EFFECT}", "unpaired: win rate, %"]


def test_words_from_outside_are_text_and_nothing_is_fetched() -> None:
    page = render(audit_page(SEVERAL))
    elements = Elements(page)
    tags = [tag for tag, _ in elements.found]
    assert not {"img", "b", "iframe", "link"} & set(tags)
    assert tags.count("script") == len(chart_data(page)) + 2
    assert not any({"src", "href"} & set(attributes) for _, attributes in elements.found)


def test_a_long_table_is_cut_and_says_so() -> None:
    table = AuditTable("Long", ("clip", "n"), tuple((f"v{number}", number) for number in range(MOST_ROWS + 50)))
    page = render(audit_page([replace(SOURCE, tables=(table,), figures=())]))
    assert f"v{MOST_ROWS - 1}<" in page and f"v{MOST_ROWS}<" not in page
    assert "The first 200 of 250 rows; --json has them all." in page


def test_a_figure_is_drawn_only_for_the_page() -> None:
    page = audit_page([SOURCE])
    assert sum(isinstance(part, Chart) for section in page.sections for part in section.parts) == 2
    with pytest.raises(UsageError, match="no audit"):
        audit_page([])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "report.html"
    write_page(audit_page([SEVERAL[0], replace(SEVERAL[1], figures=())]), path)
    return path


OUTSIDE = """() => [...document.querySelectorAll('.main-svg text, .chart')].filter((one) => {
    const chart = one.closest('.chart').getBoundingClientRect(), own = one.getBoundingClientRect();
    return own.left < chart.left - 1 || own.right > chart.right + 1
        || own.top < chart.top - 1 || own.bottom > chart.bottom + 1;
}).map((one) => one.textContent)"""
COLUMNS = "() => [...document.querySelectorAll('.chart')].find((one) => one.layout.meta).layout.grid.columns"
OVERLAPS = """() => {
    const found = [];
    for (const chart of document.querySelectorAll('.chart')) {
        const kinds = '.xtitle, .ytitle, .x2title, .legendtext, .annotation-text, .xtick text, .ytick text';
        const boxes = [...chart.querySelectorAll(kinds)].map((one) => [one.textContent, one.getBoundingClientRect()]);
        boxes.forEach(([first, a], place) => boxes.slice(place + 1).forEach(([second, b]) => {
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const along = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across > 2 && along > 2) found.push([first, second]);
        }));
    }
    return found;
}"""


@pytest.fixture
def opened(file: Path) -> Iterator[Any]:
    """The page in a Chromium without network, that has drawn its figures without an error."""
    if shutil.which("chromium") is None:
        pytest.skip("Chromium is not installed")
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"], timeout=PATIENCE_MS
        )
        page = browser.new_page(viewport={"width": 1280, "height": 844}, offline=True)
        page.set_default_timeout(PATIENCE_MS)
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn]")
        yield page
        assert errors == []
        browser.close()


def test_nothing_is_clipped_or_overlaps_on_a_desktop_and_then_on_a_phone(opened: Any) -> None:
    for width, columns, scheme in ((1280, 3, "light"), (390, 1, "dark")):
        opened.emulate_media(color_scheme=scheme)
        opened.set_viewport_size({"width": width, "height": 844})
        opened.wait_for_function(f"() => ({COLUMNS})() === {columns}")  # a page's rules allow no text to be run
        opened.wait_for_timeout(300)  # Plotly draws a while after a change of size, on a busy machine a long while
        with contextlib.suppress(TimeoutError):
            opened.wait_for_function(f"() => ({OUTSIDE})().length + ({OVERLAPS})().length === 0", timeout=10_000)
        assert opened.evaluate("document.documentElement.scrollWidth") == width
        assert opened.evaluate(OUTSIDE) == []
        assert opened.evaluate(OVERLAPS) == []


IN_SHORT = """(column) => [...document.querySelectorAll('section')]
    .filter((one) => one.querySelector('h2').textContent === 'In short')
    .flatMap((one) => [...one.querySelectorAll('.scroll')])
    .map((one) => one.querySelectorAll('th')[column].getBoundingClientRect().right
        <= one.getBoundingClientRect().right)"""


@pytest.mark.parametrize("of_one", [False, True])
def test_the_numbers_in_short_are_seen_without_scrolling(opened: Any, tmp_path: Path, of_one: bool) -> None:
    results = [replace(SOURCE, figures=()), OTHER] if of_one else SEVERAL
    write_page(audit_page([replace(one, figures=()) for one in results]), tmp_path / "short.html")
    opened.goto((tmp_path / "short.html").as_uri())
    interval, verdict = 2, 4
    opened.set_viewport_size({"width": 390, "height": 844})
    assert set(opened.evaluate(IN_SHORT, interval)) == {True}
    opened.set_viewport_size({"width": 1280, "height": 844})
    assert set(opened.evaluate(IN_SHORT, verdict)) == {True}


def test_heads_that_are_there_before_say_of_what_they_are() -> None:
    columns = ("group", *interval_columns("R@1", "R@5"), "chance", "never", "chance", "chance")
    row = ("a", *interval_cells(None, None), 1, 2, 3, 4)
    made = AuditTable("of figures", columns, (row,)).to_frame()
    assert len(set(made.columns)) == len(columns)
    assert made.columns[4:9] == ["R@5", "low (R@5)", "high (R@5)", "chance", "never"]
    assert made.columns[9] == "chance (never)"
    assert made.rows() == [row]
    bare = AuditTable("of groups", ("group", "share, %"), (("a", 50.5), ("b", None), ("c", 7)))
    assert bare.to_frame().rows() == [("a", 50.5), ("b", None), ("c", 7.0)]
    assert AuditTable("of nothing", ("a", "b"), ()).to_frame().columns == ["a", "b"]
