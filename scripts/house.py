"""Measures of a checkout as a house: its files, families, names, parameters, import circles, and what a command runs.

python scripts/house.py [CHECKOUT] [--json]
CHECKOUT/.venv/bin/python scripts/house.py CHECKOUT --trace train,search,score,evaluate,index [--json]
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = "evenreel"
MOST_PARAMETERS = 6
FAMILY = 3
TRACED = ("train", "search", "score", "evaluate", "index")

NOTES = re.compile(r"getattr\(\s*[\w.]+,\s*\"(?:uses|notices|texts|names|complete)\"")
"""What travels beside scores, read without a type."""

DATA_KEYS = {f"{PACKAGE}.clips_sha256"}
"""What reads like a dotted path and is the key of data."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Graph = dict[str, set[str]]


class House:
    """The modules of a checkout by their dotted names, parsed."""

    def __init__(self, checkout: Path) -> None:
        self.root = checkout / "src"
        self.paths = {self._name(path): path for path in sorted((self.root / PACKAGE).rglob("*.py"))}
        self.texts = {name: path.read_text(encoding="utf-8") for name, path in self.paths.items()}
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}
        stubs = {self._name(path): path.read_text("utf-8") for path in (self.root / PACKAGE).rglob("__init__.pyi")}
        self.stub_lines = sum(text.count("\n") for text in stubs.values())
        self.homes = {  # the module behind each name that a package offers by its stub
            f"{package}.{one.name}": f"{package}.{node.module}"
            for package, text in stubs.items()
            for node in ast.parse(text).body
            if isinstance(node, ast.ImportFrom)
            for one in node.names
        }

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def is_package(self, name: str) -> bool:
        """Whether a dotted name is a folder with an `__init__`."""
        return name in self.paths and self.paths[name].name == "__init__.py"

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Every function and method, with its module."""
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, Function):
                    yield name, node


def line_counts(house: House) -> dict[str, int]:
    """Lines of code, docstrings, comments and blank ones."""
    found: Counter[str] = Counter()
    for name, tree in house.trees.items():
        lines = house.texts[name].splitlines()
        said: set[int] = set()
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                said |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for number, line in enumerate(lines, start=1):
            bare = line.strip()
            kind = "docstring" if number in said else "blank" if not bare else "comment" if bare[0] == "#" else "code"
            found[kind] += 1
    return {"all": sum(found.values()), **found, "stubs, beside all": house.stub_lines}


def families(house: House) -> dict[str, list[str]]:
    """Files in one folder that share the first word before `_`, three or more."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in house.paths.values():
        word = path.stem.lstrip("_").partition("_")[0]
        if word:
            found[f"{path.parent.relative_to(house.root / PACKAGE).as_posix()}/{word}"].append(path.name)
    return {place: names for place, names in sorted(found.items()) if len(names) >= FAMILY}


def shared_classes(house: House) -> dict[str, list[str]]:
    """Names of classes that stand in more than one place, private ones too."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, tree in house.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    return {name: places for name, places in sorted(found.items()) if len(places) > 1}


def arguments_of(function: Function) -> list[ast.arg]:
    """Parameters but for `self` and `cls`."""
    asked = function.args
    names = [*asked.posonlyargs, *asked.args, *asked.kwonlyargs]
    return names[1:] if names and names[0].arg in ("self", "cls") else names


def is_command(module: str, function: Function) -> bool:
    """Whether its parameters are options that typer reads."""
    return module.startswith(f"{PACKAGE}.cli") and any(
        "typer" in ast.dump(one.annotation) or "Option" in ast.dump(one.annotation)
        for one in arguments_of(function)
        if one.annotation is not None
    )


def many_parameters(house: House) -> dict[str, list[str]]:
    """Functions with more than six: of the command line, and all others."""
    found: dict[str, list[str]] = {"commands": [], "others": []}
    for module, function in house.functions():
        count = len(arguments_of(function))
        if count > MOST_PARAMETERS:
            found["commands" if is_command(module, function) else "others"].append(f"{module}.{function.name} {count}")
    return found


def mixed_tuples(house: House) -> list[str]:
    """Parameters that are a tuple of several types: parameters in disguise."""
    found = []
    for module, function in house.functions():
        for argument in arguments_of(function):
            for node in ast.walk(argument.annotation) if argument.annotation else ():
                if _is_mixed_tuple(node) and not _inside_collection(argument.annotation, node):
                    found.append(f"{module}.{function.name}({argument.arg}: {ast.unparse(node)})")
    return found


def _is_mixed_tuple(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("tuple", "Tuple")):
        return False
    parts = [ast.unparse(one) for one in node.slice.elts] if isinstance(node.slice, ast.Tuple) else []
    return len({one for one in parts if one != "..."}) > 1


def _inside_collection(annotation: ast.expr | None, node: ast.AST) -> bool:
    """Whether the tuple is what a collection holds or a callable takes, and no parameter by itself."""
    for outer in ast.walk(annotation) if annotation else ():
        if isinstance(outer, ast.Subscript) and outer is not node and any(one is node for one in ast.walk(outer.slice)):
            return True
    return False


def import_graphs(house: House) -> dict[str, Graph]:
    """Who imports whom: at run time, with `TYPE_CHECKING` and deferred imports, and with packages' `__init__`."""
    at_once: Graph = {name: set() for name in house.paths}
    ever: Graph = {name: set() for name in house.paths}
    for name, tree in house.trees.items():
        for node, later in _imports(tree):
            for target in _targets(house, name, node):
                ever[name].add(target)
                if not later:
                    at_once[name].add(target)
    return {
        "run time": at_once,
        "run time and __init__ of others": with_packages(house, at_once, own=False),
        "run time and every __init__": with_packages(house, at_once, own=True),
        "TYPE_CHECKING and deferred": ever,
    }


def _imports(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Import statements, and whether they wait for a call or for a type checker."""

    def walk(node: ast.AST, later: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import | ast.ImportFrom):
                yield child, later
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                yield from ((each, True) for part in child.body for each, _ in walk(ast.Module([part], []), True))
            else:
                yield from walk(child, later or isinstance(child, Function | ast.Lambda))

    yield from walk(tree, False)


def _targets(house: House, name: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Modules of the package that a statement names; `from a import b` is of `a.b` where that is a module."""
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names if one.name in house.paths and one.name != name)
        return
    base = node.module or ""
    if node.level:
        parts = name.split(".") if house.is_package(name) else name.split(".")[:-1]
        base = ".".join([*parts[: len(parts) - node.level + 1], *([base] if base else [])])
    for one in node.names:
        named = f"{base}.{one.name}"
        target = house.homes.get(named, named if named in house.paths else base)
        if target in house.paths and target != name:
            yield target


def with_packages(house: House, graph: Graph, own: bool) -> Graph:
    """Adds the packages that imported modules lie in, whose `__init__` runs first.

    With `own` also those that the importing module lies in itself, which are being imported already.
    """
    found = {}
    for name, targets in graph.items():
        parents = {
            ".".join(parts[:count]) for parts in (one.split(".") for one in targets) for count in range(len(parts))
        }
        around = {one for one in parents if name.startswith(f"{one}.")}
        found[name] = targets | {
            one for one in parents - (set() if own else around) if one in house.paths and one != name
        }
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan), the largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def dead_paths(house: House, checkout: Path) -> list[str]:
    """Dotted paths of the package in docs, docstrings and strings that name no module, nor anything in one."""
    pages = [checkout / "README.md", checkout / "CONTRIBUTING.md"]  # the change log tells of what there was
    pages += [*(checkout / "docs").rglob("*.md"), *(path for path in house.paths.values())]
    pages += [path for folder in ("tests", "benchmarks", "scripts") for path in (checkout / folder).rglob("*.py")]
    found = []
    for path in pages:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), start=1):
            for dotted in re.findall(rf"(?<![\w./-]){PACKAGE}(?:\.[A-Za-z_]\w*)+", line):
                if (
                    not line.lstrip().startswith(("import ", "from "))
                    and "__" not in dotted
                    and dotted not in DATA_KEYS
                    and not _is_there(house, dotted)
                ):
                    found.append(f"{path.relative_to(checkout)}:{number} {dotted}")
    return found


def _is_there(house: House, dotted: str) -> bool:
    parts = dotted.split(".")
    if any(".".join(parts[:count]) in house.homes for count in range(1, len(parts) + 1)):
        return True
    known = next(count for count in range(len(parts), 0, -1) if ".".join(parts[:count]) in house.paths)
    module, rest = ".".join(parts[:known]), parts[known:]
    return not rest or re.search(rf"\b{re.escape(rest[0])}\b", house.texts[module]) is not None


def measures(checkout: Path) -> dict[str, Any]:
    """All measures of a checkout that need no run of it."""
    house = House(checkout)
    lines = {name: text.count("\n") for name, text in house.texts.items()}
    shared, tuples, many, groups = shared_classes(house), mixed_tuples(house), many_parameters(house), families(house)
    public = {name: places for name, places in shared.items() if not name.startswith("_")}
    found_circles = {kind: circles(graph) for kind, graph in import_graphs(house).items()}
    dead = dead_paths(house, checkout)
    reads = {name: len(NOTES.findall(text)) for name, text in house.texts.items() if NOTES.search(text)}
    return {
        "files": len(house.paths),
        "lines": line_counts(house),
        "functions": sum(1 for _ in house.functions()),
        "families": {"families": len(groups), "files": sum(map(len, groups.values())), "list": groups},
        "classes": {
            "all": sum(isinstance(node, ast.ClassDef) for tree in house.trees.values() for node in ast.walk(tree)),
            "that share a name": sum(map(len, shared.values())),
            "public that share a name": sum(map(len, public.values())),
            "public names": len(public),
            "list": public,
        },
        "over six parameters": {kind: len(names) for kind, names in many.items()} | {"list": many},
        "mixed tuple parameters": {"count": len(tuples), "list": tuples},
        "circles": {kind: {"count": len(found), "list": found} for kind, found in found_circles.items()},
        "longest files": dict(sorted(lines.items(), key=lambda one: -one[1])[:10]),
        "getattr(scores, note)": {
            "count": sum(reads.values()),
            "list": [f"{name} {count}" for name, count in reads.items()],
        },
        "dead paths": {"count": len(dead), "list": dead},
    }


QUICK = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
PREPARED = (
    "planted source --strength 0 --mirrors --clips 24 --workers 1 --out corpus",
    "features corpus --model builtin --rule 2_midpoints --no-ocr --workers 1 --device cpu --out corpus/features",
    "score mean_pool corpus --features corpus/features --split test --device cpu --out zero.npz",
    "index corpus/clips --library library --model builtin --no-ocr --sample 2_midpoints --workers 1 --device cpu",
)
COMMANDS = {
    "train": "train recipe.yaml --out run",
    "search": "search a_red_star --library library --device cpu",
    "score": "score mean_pool corpus --features corpus/features --split test --device cpu --out scores.npz",
    "evaluate": "evaluate zero.npz --corpus corpus --split test --resamples 20",
    "index": "index corpus/clips --library new --model builtin --sample 2_midpoints --workers 1 --device cpu",
}
RECIPE = {
    "name": "traced",
    "data": {"corpus": "corpus", "features": "corpus/features", "validation": "val"},
    "matcher": {"name": "wti"},
    "loop": {"steps": 2, "epochs": None, "batch_size": 4, "device": "cpu"},
    "records": {"tensorboard": False},
}
"""Commands to trace, and what makes their inputs; `_` stands for a blank inside a word of `midpoints` and queries."""


def typed(line: str) -> list[str]:
    """The words of a command."""
    return [word.replace("_", " ") if word.startswith(("2_", "a_")) else word for word in line.split()]


def traced(checkout: Path, names: list[str]) -> dict[str, Any]:
    """Files and functions of the package that each command runs through in its own process, and modules it loads."""
    environment = {**os.environ, **QUICK, "PYTHONPATH": str(checkout / "src")}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "recipe.yaml").write_text(json.dumps(RECIPE))
        for line in PREPARED:
            command = [sys.executable, "-m", PACKAGE, *typed(line)]
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
        for name in names:
            command = [sys.executable, __file__, "--run", "trace.json", *typed(COMMANDS[name])]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{name} failed: {done.stderr}")
            found[name] = json.loads(Path(folder, "trace.json").read_text())
    return found


def trace(place: Path, words: list[str]) -> None:
    """Run a command and write what was called of the package."""
    import threading

    calls: set[tuple[str, str, int]] = set()
    spec = importlib.util.find_spec(PACKAGE)
    home = str(Path(str(spec and spec.origin)).parent)

    def called(frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(home):
            calls.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        from evenreel.cli import main as run

        sys.argv = [PACKAGE, *words]
        run()
    finally:
        sys.setprofile(None)
        # bodies of modules and classes run at import; a comprehension is a part of the function around it
        inside = {(file, name) for file, name, _ in calls if not name.rpartition(".")[2].startswith("<")}
        bodies = {(file, name) for file, name in inside if _is_class(file, name)}
        functions = inside - bodies
        loaded = sorted(name for name in sys.modules if name.startswith(f"{PACKAGE}."))
        counts = {"files": len({file for file, _ in functions}), "functions": len(functions), "modules": len(loaded)}
        place.write_text(json.dumps(counts | {"loaded": loaded}))


def _is_class(file: str, name: str) -> bool:
    return re.search(rf"^\s*class {re.escape(name.rpartition('.')[2])}\b", Path(file).read_text(), re.M) is not None


def show(found: dict[str, Any], indent: str = "") -> None:
    """Print measures, and lists of what they count; a circle on one line."""
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"{indent}{name}:")
            show(value, f"{indent}  ")
        elif not isinstance(value, list):
            print(f"{indent}{name}: {value}")
        elif name != "loaded":
            lines = [" ".join(each) if isinstance(each, list) else str(each) for each in value]
            print("\n".join([f"{indent}{name}:", *(f"{indent}  - {line}" for line in lines)]))


def main() -> None:
    """Measure, or trace."""
    if sys.argv[1:2] == ["--run"]:
        trace(Path(sys.argv[2]), sys.argv[3:])
        return
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("checkout", type=Path, nargs="?", default=Path(__file__).resolve().parents[1])
    words.add_argument("--trace", help=f"commands, by commas: {','.join(TRACED)}")
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    checkout = asked.checkout.resolve()
    found = traced(checkout, asked.trace.split(",")) if asked.trace else measures(checkout)
    if asked.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
