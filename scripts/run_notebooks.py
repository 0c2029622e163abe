"""Run the notebooks of docs/notebooks, each in an empty folder of its own, and store what their cells give.

    python -m scripts.run_notebooks            # all of them
    python -m scripts.run_notebooks evaluate   # one

What is stored is small and reads well in a diff: text, tables with a row a line, and the data of Plotly's figures, with
numbers of five digits. Counters, times, places of the machine and bars of progress (standard error) are left out. For
each, the seconds of processor time that it took are printed.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
FIGURE, TABLE, TEXT = "application/vnd.plotly.v1+json", "text/html", "text/plain"
PICTURES = ("image/png", "image/jpeg")
LONGEST_CELL_S = 240
NO_WIDGETS = "ignore:IProgress not found"
"""What tqdm says where Jupyter has no widgets, as here."""
NUMBERS = re.compile(r"\[\n\s*(?:(?:-?[0-9][^\s,\]]*|null|true|false)(?:,\s*|\s*(?=\])))+\]")
TABLES = re.compile(r"\[\n\s*(?:\[[^][{}\"]*\],?\s*)+\]")
"""In JSON with a value a line: lists of numbers, and lists of such lists once these are in one line each."""


def main(names: list[str]) -> None:
    """Run notebooks by name, or all of them, and write them back."""
    for path in [NOTEBOOKS / f"{name}.ipynb" for name in names] or sorted(NOTEBOOKS.glob("*.ipynb")):
        before = os.times()
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(written(run(path, Path(folder))), encoding="utf-8")
        spent = sum(os.times()[2:4]) - sum(before[2:4])
        print(f"{path.name}: {spent:.1f} s of processor time")


def run(path: Path, folder: Path) -> Any:
    """Run a notebook in a folder, and return it with what its cells give.

    Raises:
        CellExecutionError: a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(folder)}}
    with tempfile.TemporaryDirectory() as settings:
        client = NotebookClient(notebook, kernel_name="python3", timeout=LONGEST_CELL_S, resources=place)
        kernel = client.create_kernel_manager()
        kernel.transport, kernel.ip = "ipc", f"{settings}/kernel"  # no port that others of this machine could reach
        paths = (str(NOTEBOOKS.parents[1]), os.environ.get("PYTHONPATH", ""))  # drawn worlds are in `benchmarks`
        own = {"PLOTLY_RENDERER": "plotly_mimetype", "IPYTHONDIR": settings, "PYTHONWARNINGS": NO_WIDGETS}
        own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        client.execute(env={**os.environ, **own})
    return cleaned(notebook)


def written(notebook: Any) -> str:
    """Write a notebook as JSON, with lists of numbers in one line each."""
    text = nbformat.writes(notebook)
    for listed in (NUMBERS, TABLES):
        text = listed.sub(lambda found: re.sub(r",\s*", ", ", re.sub(r"\s*\n\s*", "", found[0])), text)
    return text + "\n"


def cleaned(notebook: Any) -> Any:
    """Keep of a notebook that was run what its reader needs."""
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = [_cleaned_output(one) for one in cell.outputs if one.get("name") != "stderr"]
    return notebook


def _cleaned_output(output: Any) -> Any:
    if output.output_type == "stream":
        return nbformat.v4.new_output("stream", name=output.name, text=output.text)
    data = output.data
    if FIGURE in data:
        data = {FIGURE: _figure(data[FIGURE])}
    elif TABLE in data:
        data = {TABLE: _table(data[TABLE])}
    else:
        kind = next((one for one in PICTURES if one in data), TEXT)
        data = {kind: data[kind]}
    return nbformat.v4.new_output("display_data", data=data)


def _table(html: str) -> str:
    """The table alone, a row a line: without the styles that Polars puts around it."""
    (table,) = re.findall(r"<table.*?</table>", html, re.DOTALL)
    plain = re.sub(r"<table[^>]*>", "<table>", table.replace("&quot;", ""))
    return re.sub(r"(?<=</tr>)|(?<=<thead>)|(?<=<tbody>)", "\n", plain)


def _figure(figure: Any) -> dict[str, Any]:
    layout = {name: value for name, value in figure["layout"].items() if name != "template"}
    return {"data": _plain(figure["data"]), "layout": _plain(layout)}


def _plain(value: Any) -> Any:
    """Arrays as lists instead of bytes in base64, and numbers with five digits."""
    if isinstance(value, dict) and "bdata" in value:
        flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
        shape = [int(one) for one in str(value.get("shape", len(flat))).split(",")]
        return _plain(flat.reshape(shape).tolist())
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if np.isfinite(value) else None
    return value


if __name__ == "__main__":
    main(sys.argv[1:])
