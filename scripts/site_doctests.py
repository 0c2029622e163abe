"""Show the examples of docstrings as code: Griffe, which reads them for the site, takes them for text."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^(?P<space> *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


class FencedDoctests(griffe.Extension):
    """Puts each example of a docstring, which begins with >>> and ends with an empty line, between fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Put the examples of a text between fences."""
    return EXAMPLE.sub(lambda found: f"{found['space']}```pycon\n{found.group()}\n{found['space']}```", text)
