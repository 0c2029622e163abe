"""Notebooks become pages of the site: words, code, tables and figures that are drawn in the browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat

from scripts.site_hooks import DRAWING, FIGURE, STYLE, linked, notebook_page, to_pages


def written(folder: Path, *outputs: dict[str, Any]) -> Path:
    path = folder / "clips.ipynb"
    cells = [
        nbformat.v4.new_markdown_cell("# A title\n\nTwo sentences. About it.\n\n**For** anyone"),
        nbformat.v4.new_code_cell("x = 1\nx", outputs=[nbformat.v4.new_output(**one) for one in outputs]),
        nbformat.v4.new_markdown_cell("## An end"),
    ]
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    return path


def shown(**data: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data}


def test_words_and_code_come_in_their_order_with_the_notebook_to_take(tmp_path: Path) -> None:
    page = notebook_page(written(tmp_path, {"output_type": "stream", "name": "stdout", "text": "one\ntwo\n"}))
    parts = page.split("\n\n")
    assert parts[:3] == ["# A title", "Two sentences. About it.", "**For** anyone"]
    assert "[clips.ipynb](clips.ipynb){download}" in parts[3]
    assert parts[4] == STYLE
    assert parts[5:] == ["```python\nx = 1\nx\n```", "``` { .text .given }\none\ntwo\n```", "## An end\n"]


def test_a_figure_is_drawn_by_scripts_at_the_end_and_none_are_loaded_without_one(tmp_path: Path) -> None:
    figure = {"data": [{"name": "</script>"}], "layout": {}}
    page = notebook_page(written(tmp_path, shown(**{FIGURE: figure})))
    assert '<div class="chart" id="chart-0"></div>' in page
    start = page.index('id="chart-0-data">') + len('id="chart-0-data">')
    assert json.loads(page[start : page.index("</script>", start)]) == figure
    assert page.endswith(f"</script>\n\n{DRAWING}\n")
    assert "<script" not in notebook_page(written(tmp_path))


def test_tables_and_pictures_stand_as_they_are(tmp_path: Path) -> None:
    page = notebook_page(
        written(tmp_path, shown(**{"text/html": "<table>\n<tr></tr></table>"}), shown(**{"image/png": "AA"}))
    )
    assert "\n\n<table>\n<tr></tr></table>\n\n" in page
    assert 'src="data:image/png;base64,AA"' in page


def test_no_word_of_a_table_or_a_figure_becomes_a_link() -> None:
    text = '<table>\n<tr><td>clip</td></tr></table>\n\n<script type="application/json">["a clip"]</script>\n'
    assert linked(text, "glossary.md") == text


def test_links_to_notebooks_lead_to_their_pages_but_for_the_notebook_itself() -> None:
    text = "[one](notebooks/a.ipynb), [two](b.ipynb#part), [take](c.ipynb){download}"
    assert to_pages(text) == "[one](notebooks/a.md), [two](b.md#part), [take](c.ipynb){download}"
