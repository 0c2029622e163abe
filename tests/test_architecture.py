"""The layer order of the design, no import cycle, no overlong file, cheap imports."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import evenreel

PACKAGE = Path(evenreel.__file__).parent

LAYERS: list[set[str]] = [
    {"errors", "types", "config", "files", "documents"},
    {"arguments", "array_files", "parquet_files", "provenance", "settings_checks", "wording"},
    {"media", "language", "corpus"},
    {"onscreen", "encoders", "features"},
    {"edits"},
    {"losses", "similarity"},
    {"matchers"},
    {"debias"},
    {"evaluation"},
    {"report"},
    {"checkpoint"},
    {"training"},
    {"adaptation"},
    {"audits"},
    {"planted"},
    {"library"},
    {"server"},
    {"papers"},
    {"demo"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MAX_LINES = 400


def modules() -> list[str]:
    return [
        info.name for info in pkgutil.walk_packages([str(PACKAGE)], "evenreel.") if not info.name.endswith("__main__")
    ]


def imports_of(path: Path, *, at_import_only: bool = False) -> Iterator[str]:
    """Names of evenreel modules that a file imports, anywhere or only when it is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    deferred = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or _is_type_checking(node)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if at_import_only and id(node) in deferred:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def part_of(module: str) -> str | None:
    """`evenreel.media.decode` -> `media`; None for the package itself and for strangers."""
    pieces = module.split(".")
    return pieces[1] if pieces[0] == "evenreel" and len(pieces) > 1 else None


def source_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    pieces = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(pieces[:-1] if pieces[-1] == "__init__" else pieces)


@pytest.mark.parametrize("path", source_files(), ids=name_of)
def test_a_layer_imports_only_layers_before_it(path: Path) -> None:
    own = part_of(name_of(path))
    if own is None or own == "__main__":
        return
    assert own in LEVEL, f"{own} has no place in the layer order"
    for imported in imports_of(path):
        other = part_of(imported)
        if other in LEVEL and other != own:
            assert LEVEL[other] < LEVEL[own], f"{name_of(path)} imports {imported}, of a layer not before its own"


def test_no_import_cycle() -> None:
    known = {name_of(path) for path in source_files()}
    graph = {
        name_of(path): {name for name in imports_of(path, at_import_only=True) if name in known}
        for path in source_files()
    }
    done: set[str] = set()

    def visit(module: str, chain: tuple[str, ...]) -> None:
        assert module not in chain, f"import cycle: {' -> '.join((*chain, module))}"
        if module in done:
            return
        for imported in graph[module] - {module}:
            if not (module.startswith(f"{imported}.")):  # a module may name its own package
                visit(imported, (*chain, module))
        done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", source_files(), ids=name_of)
def test_no_file_is_overlong(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{lines} lines"


@pytest.mark.parametrize("module", modules())
def test_every_module_imports(module: str) -> None:
    importlib.import_module(module)


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
