"""Every notebook runs from the first cell to the last, and gives what is stored in it, but for numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from scripts.run_notebooks import FIGURE, NOTEBOOKS, PICTURES, TABLE, run, written

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))


def kinds(notebook: Any) -> list[list[str]]:
    """Of each cell of code what it gave: words that were printed, the heads of tables, figures, pictures."""
    return [[kind(one) for one in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def kind(output: Any) -> str:
    if output.output_type == "stream":
        return "words"
    if TABLE in output.data:
        return " | ".join(re.findall(r"<th>(.*?)</th>", output.data[TABLE]))
    return next((name for name in (FIGURE, *PICTURES) if name in output.data), "value")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem == "audit" else pytest.mark.slow) for path in PATHS],
)
@pytest.mark.timeout(900)
def test_a_notebook_runs_and_gives_what_is_stored(path: Path, tmp_path: Path) -> None:
    found = run(path, tmp_path)
    stored = nbformat.read(path, as_version=4)
    assert kinds(found) == kinds(stored)
    assert [cell.source for cell in found.cells] == [cell.source for cell in stored.cells]
    assert any(FIGURE in kinds_of_cell or set(PICTURES) & set(kinds_of_cell) for kinds_of_cell in kinds(found))
    assert not re.search(f"{re.escape(str(tmp_path))}|/site-packages/", written(found))


def test_a_cell_that_fails_ends_the_run(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell("assert 1 + 1 == 3")]
    path = tmp_path / "wrong.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))
    with pytest.raises(CellExecutionError, match="AssertionError"):
        run(path, tmp_path)
