"""The words of studies in `papers/words`: none is missing, and none is left over."""

from __future__ import annotations

import ast
import re
from importlib.resources import files
from pathlib import Path
from typing import get_type_hints

from evenreel.papers import STUDIES
from evenreel.papers.engine.words import paragraph, study_words

PAPERS = Path(str(files("evenreel.papers")))
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (PAPERS / "words").iterdir()}


def literals() -> set[str]:
    """Every string of the studies' sources."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PAPERS.rglob("*.py")]
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {node.value for node in nodes if isinstance(node.value, str)}


def test_every_study_has_its_words_and_each_row_is_of_a_study() -> None:
    rows = [row.split("|")[1].strip() for page in PAGES.values() for row in re.findall(r"^\| \w+/.*$", page, re.M)]
    assert sorted(rows) == sorted(STUDIES)
    assert all(all(study_words(name)) for name in STUDIES)


def test_every_paragraph_is_read_somewhere() -> None:
    headings = {heading for page in PAGES.values() for heading in re.findall(r"^## (.*)$", page, re.M)}
    assert headings <= literals()


def test_every_paragraph_that_is_read_is_there() -> None:
    for path in PAPERS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("paragraph", "paragraphs"):
                page, *headings = node.args
                named = [one.value for one in headings if isinstance(one, ast.Constant)]
                if isinstance(page, ast.Constant):
                    assert all(f"\n## {one}\n" in PAGES[str(page.value)] for one in named), ast.unparse(node)


def test_notes_of_tables_are_there() -> None:
    for study in STUDIES.values():
        (comparison, *_) = getattr(study.function, "args", (None,))
        page = study.name.partition("/")[0]
        assert all(paragraph(page, heading) for heading in getattr(comparison, "notes", ()))


def test_every_study_names_a_function_and_a_reader_of_its_inputs() -> None:
    for study in STUDIES.values():
        assert callable(study.function)
        returned = get_type_hints(study.needs.read)["return"]
        assert issubclass(returned, study.needs.inputs), study.name
