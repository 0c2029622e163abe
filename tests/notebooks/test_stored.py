"""What is stored of a notebook is small, is of no machine, and has its place on the site."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import plotly.graph_objects as go

from scripts.run_notebooks import FIGURE, NOTEBOOKS, TABLE, cleaned, written
from tests.conftest import REPOSITORY
from tests.each import check_each

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
INDEX = REPOSITORY / "docs" / "notebooks.md"
MOST_BYTES = 100_000


def words_of(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]


def test_there_are_ten() -> None:
    assert len(PATHS) == 10


def test_each_has_its_row_and_its_place_in_the_navigation() -> None:
    rows = re.findall(r"^\| \[[^\]]+\]\(notebooks/(\w+)\.ipynb\) \|", INDEX.read_text(encoding="utf-8"), re.MULTILINE)
    listed = re.findall(r"notebooks/(\w+)\.md", (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(rows) == sorted(listed) == [path.stem for path in PATHS]
    assert rows == listed


def test_each_says_for_whom_it_is_what_not_to_conclude_and_where_to_go_on() -> None:
    def check(path: Path) -> None:
        first, *rest = words_of(path)
        title, opening, head = first.split("\n\n")
        assert title.startswith("# ")
        assert 2 <= len(re.findall(r"[.?](?:\s|$)", opening)) <= 3
        assert re.fullmatch(r"\*\*For\*\* .+ · \*\*Command\*\* `[^`]+`.*", head)
        assert sum("**What not to conclude.**" in one for one in rest) >= 1
        assert re.search(r"(^|\n)## Where to go on\n\n(- .+(\n  ?\S.*)*\n?)+$", rest[-1])

    check_each(PATHS, check)


def test_links_of_notebooks_lead_somewhere() -> None:
    def check(path: Path) -> None:
        targets = [one for words in words_of(path) for one in re.findall(r"\]\((?!https?:)([^)#]+)", words)]
        assert targets
        assert not [one for one in targets if not (path.parent / one).exists()]

    check_each(PATHS, check)


def test_what_is_stored_is_small_and_names_no_machine() -> None:
    def check(path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        assert len(text.encode()) < MOST_BYTES
        assert not re.search(r"\"/(?:home|tmp|root|work|usr|var)/|site-packages|\"execution_count\": \d", text)
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert [cell.outputs for cell in notebook.cells if cell.cell_type == "code" and cell.outputs]
        assert written(notebook) == text

    check_each(PATHS, check)


def notebook_with(data: dict[str, Any]) -> Any:
    outputs = [
        nbformat.v4.new_output("execute_result", data=data, execution_count=3),
        nbformat.v4.new_output("stream", name="stderr", text="50 %"),
    ]
    cell = nbformat.v4.new_code_cell("figure", outputs=outputs, execution_count=3, metadata={"trusted": True})
    return nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {}})


def test_a_figure_is_stored_as_lists_of_short_numbers_a_line_each() -> None:
    figure = go.Figure(layout={"template": "plotly_dark", "title": {"text": "a title"}})
    figure.add_heatmap(z=np.array([[1 / 3, 2.0], [3.0, np.nan]]), name="heat")
    figure.add_scatter(x=np.arange(3), y=[1e-9 / 3, None, 123456.7], name="points")
    sent = json.loads(figure.to_json())
    assert "bdata" in str(sent)
    (cell,) = cleaned(notebook_with({FIGURE: sent, "text/plain": "Figure()"})).cells
    (output,) = cell.outputs
    heat, points = output.data[FIGURE]["data"]
    assert heat["z"] == [[0.33333, 2.0], [3.0, None]]
    assert points["x"] == [0, 1, 2]
    assert points["y"] == [3.3333e-10, None, 123460.0]
    assert output.data[FIGURE]["layout"] == {"title": {"text": "a title"}}
    assert (cell.execution_count, cell.metadata) == (None, {})
    text = written(cleaned(notebook_with({FIGURE: sent})))
    assert '"z": [[0.33333, 2.0], [3.0, null]]' in text
    assert json.loads(text)["cells"][0]["outputs"][0]["data"][FIGURE]["data"][0]["z"] == heat["z"]


def test_words_that_look_like_lists_stay_as_they_are() -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('x = [1,\n     2]\ny = "[3,  4]"')])
    assert json.loads(written(notebook))["cells"][0]["source"] == ["x = [1,\n", "     2]\n", 'y = "[3,  4]"']


def test_a_table_is_stored_a_row_a_line() -> None:
    import polars as pl

    html = pl.DataFrame({"name": ["a <b>", "c"], "count": [1, 2]})._repr_html_()
    (cell,) = cleaned(notebook_with({TABLE: html, "text/plain": "shape"})).cells
    table = cell.outputs[0].data[TABLE]
    assert table.startswith("<table><thead>\n<tr><th>name</th><th>count</th></tr>\n")
    assert "<tr><td>a &lt;b&gt;</td><td>1</td></tr>\n<tr><td>c</td><td>2</td></tr>\n" in table
