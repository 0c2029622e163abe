"""The words of audits in `audits/words`: none is missing, and none is left over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from evenreel.audits.inputs import paragraph, paragraphs

AUDITS = Path(str(files("evenreel.audits")))
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (AUDITS / "words").iterdir()}


def paragraphs_read() -> Iterator[tuple[str, str, set[str]]]:
    """Page and heading of each paragraph that the sources of audits read, and the values they give it."""
    for path in AUDITS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("paragraph", "paragraphs"):
                words = [one.value for one in node.args if isinstance(one, ast.Constant)]
                values = {one.arg for one in node.keywords if one.arg is not None}
                yield from ((str(words[0]), str(heading), values) for heading in words[1:])


def test_every_paragraph_that_is_read_is_there_with_its_values_and_no_other_is() -> None:
    there = {}
    for page, text in PAGES.items():
        for heading, body in re.findall(r"^## (.*)\n\n((?:.+\n)+)", text, re.M):
            there[page, heading] = set(re.findall(r"{(\w+)[^}]*}", body))
    assert there == {(page, heading): values for page, heading, values in paragraphs_read()}


def test_a_paragraph_is_one_line_with_its_values() -> None:
    found = paragraph("hubness", "By chance", draws=7)
    assert (
        "the mean over 7 such rankings." in found and found.startswith("By chance: what captions") and "\n" not in found
    )
    assert paragraphs("source", "Pairs", "Equal scores")[1].startswith("Clips with equal scores are in random order")
