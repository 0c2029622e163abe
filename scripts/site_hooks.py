"""Make the pages of the documents' site that are written from the code, and link the words of the glossary.

MkDocs calls the functions by their names (mkdocs.yml, hooks): `reference/command-line.md` has each command with every
option, `reference/python.md` each public name of each package, as their `__init__.pyi` lists them. On every other page
a word of docs/glossary.md leads there where it first stands; a word that also has its everyday sense ('pass (of an
index run)') does only where a page links it. A picture leads to itself in full size.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify
from mkdocs.structure.files import File

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "evenreel"
GLOSSARY = REPOSITORY / "docs" / "glossary.md"
UNLINKED = re.compile(
    r"```.*?```|`[^`]*`|\[!\[[^\]]*\]\([^)]*\)\]\([^)]*\)|!?\[[^\]]*\]\([^)]*\)|^#.*?$|^\|.*?$|<[^>]*>",
    re.DOTALL | re.MULTILINE,
)
"""What no link is put into: code, links and pictures, headings, tables, tags."""
PICTURE = re.compile(r"^!\[[^\]]*\]\(([^)]+)\)$", re.MULTILINE)
"""A picture in a line of its own, and its address."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are written from the code."""
    for name, text in (("command-line", command_line()), ("python", python())):
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Link words of the glossary and pictures, and take links to files outside of docs as their names."""
    markdown = re.sub(r"\[([^\]]+)\]\(\.\./(?:src|tests|benchmarks)/[^)]*\)", r"\1", markdown)
    markdown = PICTURE.sub(r"[\g<0>](\g<1>)", markdown)
    place = page.file.src_uri
    if place == "glossary.md" or place.startswith("reference/"):
        return markdown
    return linked(markdown, "../" * place.count("/") + "glossary.md")


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
