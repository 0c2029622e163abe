"""Sentences of errors: what is wrong, with which thing, and the limit or what to do about it."""

from __future__ import annotations

import ast
import re
from functools import cache

from evenreel import errors
from evenreel.errors import EvenreelError
from tests.test_architecture import name_of, source_files

CLASSES = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, EvenreelError)}
CLASSES -= {"MediaError"}  # a code, and what goes on behind the name of the file
SAYS_NOTHING = re.compile(r"\b(invalid|illegal|incorrect|unexpected|bad|error occurred)\b", re.IGNORECASE)
REMEDY = re.compile(r"; |: |[.?] \S|\b(must|needs?|between|at least|at most|there (is|are)|choose|give|lies? in|so)\b")
LACKING = 128
"""Sentences with neither a limit, nor what there is, nor what to do: this number only ever gets smaller."""


def literal(node: ast.AST) -> str | None:
    """A text as it stands in the code, with `{}` for what is put in; None where it is made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or "{}" for part in node.values)
    return None


@cache
def sentences() -> dict[str, str]:
    """Sentences by where they are made."""
    calls = (
        (path, node)
        for path in source_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    )
    found = {
        f"{name_of(path)}:{node.lineno}": literal(node.args[0])
        for path, node in calls
        if isinstance(node.func, ast.Name) and node.func.id in CLASSES and node.args
    }
    return {place: text for place, text in found.items() if text is not None}


def test_each_is_a_sentence_or_goes_on_behind_a_name_and_names_what_is_wrong() -> None:
    assert len(sentences()) > 1000
    broken = [
        f"{place}: {text}"
        for place, text in sentences().items()
        if (text[0].isupper() and not re.search(r"[.?:}]\)?$", text)) or SAYS_NOTHING.search(text)
    ]
    assert not broken, "\n".join(broken)


def test_most_say_the_limit_or_what_to_do() -> None:
    lacking = [f"{place}: {text}" for place, text in sentences().items() if not REMEDY.search(text)]
    assert len(lacking) <= LACKING, "\n".join(lacking)
