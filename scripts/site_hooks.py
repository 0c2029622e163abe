"""Make the pages of the documents' site that are written from the code, and link the words of the glossary.

MkDocs calls the functions by their names (mkdocs.yml, hooks): `reference/command-line.md` has each command with every
option, `reference/python.md` each public name of each package, as their `__init__.pyi` lists them. On every other page
a word of docs/glossary.md leads there where it first stands; a word that also has its everyday sense ('pass (of an
index run)') does only where a page links it. A picture leads to itself in full size. A notebook becomes a page beside
itself, and links to it lead there.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify
from mkdocs.structure.files import File
from plotly.offline import get_plotlyjs

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "evenreel"
GLOSSARY = REPOSITORY / "docs" / "glossary.md"
NOTEBOOKS = REPOSITORY / "docs" / "notebooks"
FIGURE, TABLE, TEXT = "application/vnd.plotly.v1+json", "text/html", "text/plain"
PICTURES = ("image/png", "image/jpeg")
"""What cells of notebooks give."""
STYLE = """<style>
  :root { --ink: #1c2024; --paper: #fff; --line: #e3e6ea; --faint: #9aa2ab }
  :root:has(body[data-md-color-scheme="slate"]) { --ink: #e3e6ea; --paper: #1e2129; --line: #3a3f4b; --faint: #7a8290 }
  .chart { width: 100%; height: 24rem }
  .given { border-left: 3px solid var(--faint) }
  .given code { white-space: pre-wrap; overflow-wrap: anywhere }
</style>"""
"""How figures and printed words look on the page of a notebook; figures have the colours of the page."""
DRAWING = """<script src="plotly.min.js"></script>
<script src="figures.js"></script>
<script>
  new MutationObserver(() => dispatchEvent(new Event("scheme")))
    .observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
</script>"""
"""What draws the figures of a page; `on_files` puts the first two scripts there."""
UNLINKED = re.compile(
    r"```.*?```|<table.*?</table>|<script.*?</script>|"
    r"`[^`]*`|\[!\[[^\]]*\]\([^)]*\)\]\([^)]*\)|!?\[[^\]]*\]\([^)]*\)|^#.*?$|^\|.*?$|<[^>]*>",
    re.DOTALL | re.MULTILINE,
)
"""What no link is put into: code, links and pictures, headings, tables, tags."""
PICTURE = re.compile(r"^!\[[^\]]*\]\(([^)]+)\)$", re.MULTILINE)
"""A picture in a line of its own, and its address."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are written from the code."""
    for name, text in (("command-line", command_line()), ("python", python())):
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path)))
    files.append(File.generated(config, "notebooks/plotly.min.js", content=get_plotlyjs()))
    files.append(File.generated(config, "notebooks/figures.js", abs_src_path=str(PACKAGE / "report" / "page.js")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link words of the glossary and pictures, and take links to files outside of docs as their names."""
    markdown = re.sub(r"\[([^\]]+)\]\(\.\./(?:src|tests|benchmarks)/[^)]*\)", r"\1", markdown)
    markdown = to_pages(PICTURE.sub(r"[\g<0>](\g<1>)", markdown))
    place = page.file.src_uri
    if place == "glossary.md" or place.startswith("reference/"):
        return markdown
    return linked(markdown, "../" * place.count("/") + "glossary.md")


def to_pages(markdown: str) -> str:
    """Turn links to notebooks into links to their pages, but for those that offer the notebook itself."""
    return re.sub(r"(\]\([\w./-]+)\.ipynb((?:#[\w-]+)?\))(?!\{download)", r"\1.md\2", markdown)


def linked(markdown: str, glossary: str) -> str:
    """Make the first mention of each word of the glossary a link, outside of code, links, headings and tables."""
    for word in glossary_words():
        pattern = re.compile(rf"\b{re.escape(word)}s?\b")
        kept = [found.span() for found in UNLINKED.finditer(markdown)]
        for found in pattern.finditer(markdown):
            if not any(start <= found.start() < end for start, end in kept):
                link = f"[{found.group()}]({glossary}#{slugify(word, '-')})"
                markdown = markdown[: found.start()] + link + markdown[found.end() :]
                break
    return markdown


def glossary_words() -> list[str]:
    """Return the words that have a heading in the glossary and one sense only, longest first."""
    headings = re.findall(r"^### ([^(\n]+)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return sorted(headings, key=len, reverse=True)


def command_line() -> str:
    """Write the page of every command with all its options, from the commands themselves."""
    from evenreel.cli.app import COMMANDS

    lines = [
        "# Command line",
        "Every command of `evenreel` and every option, written from the commands themselves. `evenreel COMMAND --help`"
        " says the same in a terminal.",
        "**For** whoever looks an option up · **Command** `evenreel --help`",
        "![The commands by what they are for](../pictures/commands.svg)",
    ]
    for name, listed in COMMANDS.items():
        lines += _described(f"evenreel {name}", listed.make(name), "##")
    return "\n\n".join(lines) + "\n"


def _described(name: str, command: Any, heading: str) -> Iterator[str]:
    yield f"{heading} {name}"
    yield _plain(command.help or "")
    options = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if options:
        yield "\n".join(["| option | what |", "|---|---|", *(_row(parameter) for parameter in options)])
    for word in getattr(command, "commands", ()):
        yield from _described(f"{name} {word}", command.commands[word], heading + "#")


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = "`" + (parameter.metavar or parameter.name.upper()).strip("[]") + "`"
    else:
        names = ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    shown = "" if default in (None, False, (), []) or callable(default) else f" Default: `{default}`."
    return f"| {names} | {_plain(getattr(parameter, 'help', None) or '').replace('|', chr(92) + '|')}{shown} |"


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\[/?(?:bold|dim|italic)\]", "", text)).replace("<", "&lt;").strip()


def python() -> str:
    """Write the page of every public name, each by its docstring."""
    lines = [
        "# Python",
        "Every public name of the package with its docstring: shapes, units, what it raises and where its formula is"
        " from. `import evenreel` loads nothing of it before it is asked for.",
        "**For** whoever calls evenreel from a program · **Command** `python -c 'import evenreel'`",
    ]
    for stub in sorted(PACKAGE.rglob("__init__.pyi")):
        package = ".".join(("evenreel", *stub.parent.relative_to(PACKAGE).parts))
        names = list(public_names(stub, package))
        lines += [f"## {package}", *(f"::: {name}" for name in names)] if names else []
    return "\n\n".join(lines) + "\n"


def public_names(stub: Path, package: str) -> Iterator[str]:
    """Give the place at which each name that a package offers is defined."""
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join((*parents, node.module or ""))
            if package != "evenreel":  # what is offered at the front door stands below its own package
                yield from (f"{module}.{one.name}" for one in node.names)


def notebook_page(path: Path) -> str:
    """Write a notebook as a page in Markdown, with a link to the notebook itself below its title."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    title, _, rest = _joined(cells[0]["source"]).partition("\n")
    parts = [title, rest.strip(), _offer(path.name), STYLE]
    figures: list[str] = []
    for cell in cells[1:]:
        source = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *_outputs(cell["outputs"], figures)]
    return "\n\n".join(parts + figures + [DRAWING] * bool(figures)) + "\n"


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
            yield _joined(data[TABLE])
        elif picture := next((kind for kind in PICTURES if kind in data), None):
            yield f'<img alt="What the cell above shows" src="data:{picture};base64,{_joined(data[picture]).strip()}">'
        else:
            yield f"``` {{ .text .given }}\n{_joined(data[TEXT]).strip(chr(10))}\n```"


def _joined(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
