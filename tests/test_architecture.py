"""The layer order of the design, no import cycle, budgets that only go down, names that lead somewhere, cheap
imports."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import evenreel
from scripts import budget
from tests.each import check_each

PACKAGE = Path(evenreel.__file__).parent

LAYERS: list[set[str]] = [
    {"errors", "types", "version"},
    {"arrays", "extras", "files", "documents", "progress"},
    {"config", "parquet_files", "provenance", "wording"},
    {"media", "language", "corpus"},
    {"faces", "onscreen", "speech"},
    {"encoders", "features"},
    {"edits", "meaning", "sound"},
    {"losses", "similarity"},
    {"matchers"},
    {"debias"},
    {"evaluation"},
    {"report"},
    {"checkpoint"},
    {"integrations"},
    {"training"},
    {"adaptation"},
    {"audits", "shifts"},
    {"planted"},
    {"library"},
    {"handover"},
    {"server"},
    {"papers"},
    {"demo"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
REPOSITORY = Path(__file__).resolve().parents[1]
DATA_KEYS = {"evenreel.clips_sha256"}
"""What reads like the name of a module and is none."""


def modules() -> list[str]:
    return [
        info.name for info in pkgutil.walk_packages([str(PACKAGE)], "evenreel.") if not info.name.endswith("__main__")
    ]


@cache
def module_names() -> frozenset[str]:
    return frozenset(map(name_of, source_files()))


def imports_of(path: Path, *, deferred: bool = True, typed: bool = True) -> Iterator[str]:
    """Names of modules, and of what is in them, that a file imports.

    Args:
        path: the file.
        deferred: whether with the imports of its functions.
        typed: whether with those that only type checkers see.
    """
    for names, module, in_function, for_types in _imports(path):
        if (in_function and not deferred) or (for_types and not typed):
            continue
        yield from names
        yield from (homes()[name] for name in names if name in homes())
        if module and not set(names) <= module_names():  # of modules only, a package is named for where they are
            yield module


@cache
def _imports(path: Path) -> list[tuple[tuple[str, ...], str | None, bool, bool]]:
    """What each import of a file names, the module it is from, and whether it is in a function, and for types only."""
    found: list[tuple[tuple[str, ...], str | None, bool, bool]] = []

    def look(node: ast.AST, in_function: bool, for_types: bool) -> None:
        if isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"line {node.lineno}: an import names its module in full"
            names = tuple(f"{node.module}.{alias.name}" for alias in node.names)
            found.append((names, node.module, in_function, for_types))
        elif isinstance(node, ast.Import):
            found.append((tuple(alias.name for alias in node.names), None, in_function, for_types))
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case | ast.Module):
            in_function = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for_types = for_types or _is_type_checking(node)
            for inner in ast.iter_child_nodes(node):
                look(inner, in_function, for_types)

    look(ast.parse(path.read_text(encoding="utf-8")), False, False)
    return found


@cache
def homes() -> dict[str, str]:
    """The module behind each name that a package offers, as its stub says."""
    found = {}
    for stub in PACKAGE.rglob("__init__.pyi"):
        package = name_of(stub)
        for node in ast.parse(stub.read_text(encoding="utf-8")).body:
            assert isinstance(node, ast.ImportFrom) and node.level == 1, f"{stub}: a stub imports from its own modules"
            found |= {f"{package}.{alias.name}": f"{package}.{node.module}" for alias in node.names}
    return found


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def part_of(module: str) -> str | None:
    """`evenreel.media.video` -> `media`; None for the package itself and for strangers."""
    pieces = module.split(".")
    return pieces[1] if pieces[0] == "evenreel" and len(pieces) > 1 else None


def source_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    pieces = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(pieces[:-1] if pieces[-1] == "__init__" else pieces)


def packages_around(module: str) -> set[str]:
    """`evenreel.media.video` -> `evenreel`, `evenreel.media`."""
    pieces = module.split(".")
    return {".".join(pieces[:end]) for end in range(1, len(pieces))}


def graph(*, deferred: bool, typed: bool) -> dict[str, set[str]]:
    """The modules that each module imports; the `__init__` of every package around these runs too.

    The packages around the module itself count too, but not with the imports of its functions: by then they have run.
    """
    known = {name_of(path): path for path in source_files()}
    found = {}
    for name, path in known.items():
        named = known.keys() & set(imports_of(path, deferred=deferred, typed=typed))
        around, own = set().union(*map(packages_around, named)), packages_around(name)
        found[name] = (named | (around - own if deferred else around | own)) - {name}
    return found


def circles(graph: dict[str, set[str]]) -> dict[str, str]:
    """By the first module of each knot of modules that import one another: a shortest way from it to itself."""
    found: dict[str, str] = {}
    reached = {module: _reached(graph, module) for module in graph}
    knotted: set[str] = set()
    for start in sorted(graph):
        if start in knotted or start not in reached[start]:
            continue
        knotted |= {other for other in reached[start] if start in reached[other]}
        found[start] = " -> ".join([*_way_back(graph, start), start])
    return found


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left.extend(new)
    return found


def _way_back(graph: dict[str, set[str]], start: str) -> tuple[str, ...]:
    ways: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    for way in ways:  # grows meanwhile
        if start in graph[way[-1]]:
            break
        ways.extend((*way, name) for name in sorted(graph[way[-1]] - seen))
        seen |= graph[way[-1]]
    return way


def test_a_layer_imports_only_layers_before_it() -> None:
    def check(path: Path) -> None:
        own = part_of(name_of(path))
        if own is None or own == "__main__":
            return
        assert own in LEVEL, f"{own} has no place in the layer order"
        levels = {name: LEVEL[other] for name in imports_of(path) if (other := part_of(name)) in LEVEL and other != own}
        wrong = sorted(name for name, level in levels.items() if level >= LEVEL[own])
        assert not wrong, f"imports {', '.join(wrong)}, of a layer not before its own"

    check_each(source_files(), check, name_of)


def test_the_store_of_a_library_knows_neither_indexing_nor_search() -> None:
    """A video goes through `index` to `store`, a query through `search` to `store`; neither room needs the other."""
    rooms = {"store": ("index", "search"), "search": ("index",), "index": ("search",)}

    def check(path: Path) -> None:
        others = rooms.get(path.parent.name, ())
        wrong = [name for name in imports_of(path) for other in others if name.startswith(f"evenreel.library.{other}")]
        assert not wrong, f"imports {', '.join(sorted(wrong))}"

    check_each((PACKAGE / "library").glob("*/*.py"), check, name_of)


@pytest.mark.parametrize(
    ("deferred", "typed"),
    [(False, False), (False, True), (True, True)],
    ids=["when run", "for type checkers", "in functions too"],
)
def test_no_import_cycle(deferred: bool, typed: bool) -> None:
    found = circles(graph(deferred=deferred, typed=typed))
    assert not found, "\n".join(found.values())


def test_no_package_offers_a_name_that_one_of_its_modules_has() -> None:
    assert not homes().keys() & module_names()


def offered() -> list[Any]:
    """The classes and functions that packages offer by their stubs."""
    split = [name.rpartition(".") for name in homes()]
    found = [getattr(importlib.import_module(package), name) for package, _, name in split]
    return [thing for thing in found if isinstance(thing, (type, FunctionType))]


def test_the_name_of_a_class_that_is_offered_stands_for_one_thing() -> None:
    found: dict[str, set[type]] = {}
    for thing in offered():
        if isinstance(thing, type):
            found.setdefault(thing.__name__, set()).add(thing)
    assert not {name: kinds for name, kinds in found.items() if len(kinds) > 1}


def test_what_is_offered_says_what_it_is() -> None:
    def check(thing: Any) -> None:
        said = thing.__doc__ or ""
        assert said and not said.startswith(f"{thing.__name__}("), "no docstring"  # dataclasses make such a one

    check_each(offered(), check, lambda thing: f"{thing.__module__}.{thing.__name__}")


def test_nothing_exceeds_its_budget() -> None:
    over = budget.exceeded(budget.counted())
    assert not over, over


@pytest.mark.slow
def test_what_is_done_most_leads_through_no_more_files() -> None:
    command = [sys.executable, str(REPOSITORY / "scripts" / "budget.py"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {name: row["now"] for name, row in json.loads(done.stdout).items() if name.startswith("files entered")}
    over = budget.exceeded(found, slack=2)
    assert not over, over


def test_the_layers_are_those_that_the_page_for_contributors_lists() -> None:
    page = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = [set(re.findall(r"`(\w+)`", line)) for line in re.findall(r"^\d+\. (.*)$", page, re.MULTILINE)]
    assert listed == LAYERS


def test_every_module_imports() -> None:
    check_each(modules(), importlib.import_module)


def written_names() -> dict[str, list[str]]:
    """Dotted names of the package, `:` before a class included, with the files that each is written in."""
    folders = [REPOSITORY / name for name in ("src", "tests", "benchmarks", "scripts", "docs")]
    found: dict[str, list[str]] = {}
    for path in [*(path for folder in folders for path in folder.rglob("*")), *REPOSITORY.glob("*.md")]:
        if path.suffix in (".py", ".yaml", ".md") and path.name != "CHANGELOG.md":  # which tells of what there was
            text = path.read_text(encoding="utf-8")
            for name in set(re.findall(r"(?<![\w./@-])evenreel(?:[.:][A-Za-z_]\w*)+", text)) - DATA_KEYS:
                found.setdefault(name, []).append(str(path.relative_to(REPOSITORY)))
    return found


def resolve(name: str) -> None:
    """Find what a dotted name stands for: a module, and what is in it, fields of records included."""
    module, *inner = name.split(":")
    pieces = module.split(".")
    known = module_names()
    split = max(end for end in range(1, len(pieces) + 1) if ".".join(pieces[:end]) in known)
    rest = pieces[split:] + inner
    found = importlib.import_module(".".join(pieces[:split])) if rest else None
    for attribute in rest:
        if attribute in getattr(found, "__dataclass_fields__", {}):  # has no value without an object
            return
        found = getattr(found, attribute)


def test_every_name_that_is_written_leads_somewhere() -> None:
    names = written_names()
    check_each(names, resolve, lambda name: f"{name} (in {', '.join(names[name])})")


def test_the_command_line_imports_nothing_heavy() -> None:
    """No torch, polars, av or onnxruntime behind `import evenreel.cli`, and nothing is printed."""
    code = (
        "import sys, evenreel.cli\n"
        "heavy = {'torch', 'polars', 'av', 'onnxruntime', 'rapidocr', 'transformers', 'numpy'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""
