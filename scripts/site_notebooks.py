"""Pages of the documents' site that are made from notebooks: words, code and what the cells gave, figures drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FIGURE, TABLE, TEXT = "application/vnd.plotly.v1+json", "text/html", "text/plain"
PICTURES = ("image/png", "image/jpeg")
DRAWN_BY = ("plotly.min.js", "figures.js")
"""What draws figures, beside the pages; `scripts/site_hooks.py` puts both there."""


def page_of(path: Path) -> str:
    """Write a notebook as a page in Markdown, with a link to the notebook itself below its title."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title, _, rest = _text(cells[0]["source"]).partition("\n")
    parts = [title, rest.strip(), _offer(path.name)]
    figures: list[str] = []
    for cell in cells[1:]:
        source = _text(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *_outputs(cell["outputs"], figures)]
    scripts = [f'<script src="{name}"></script>' for name in DRAWN_BY] if figures else []
    return "\n\n".join(parts + figures + scripts) + "\n"


def _offer(name: str) -> str:
    return (
        f"This page is a notebook that was run. Take [{name}]({name}){{download}} to Jupyter and change it;"
        " [all notebooks](../notebooks.md) says what it needs."
    )


def _outputs(outputs: list[dict[str, Any]], figures: list[str]) -> Iterator[str]:
    """What the cell gave; the data of figures go to `figures`, for the end of the page."""
    for output in outputs:
        data = output.get("data", {TEXT: output.get("text", "")})
        if FIGURE in data:
            name = f"chart-{len(figures)}"
            written = json.dumps(data[FIGURE]).replace("<", "\\u003c")
            figures.append(f'<script type="application/json" id="{name}-data">{written}</script>')
            yield f'<div class="chart" id="{name}"></div>'
        elif TABLE in data:
            yield _text(data[TABLE])
        elif picture := next((kind for kind in PICTURES if kind in data), None):
            yield f'<img alt="What the cell above shows" src="data:{picture};base64,{_text(data[picture]).strip()}">'
        else:
            yield f"```text\n{_text(data[TEXT]).strip(chr(10))}\n```"


def _text(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
