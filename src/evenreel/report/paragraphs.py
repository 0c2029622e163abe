"""Prose for readers, which is no code: Markdown pages in the folder `words` of a package.

A page has a paragraph below each of its headings, which may have values in braces.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def page_text(package: str, page: str) -> str:
    """Read a page of a package's folder `words`, by its name without the ending."""
    return (files(package) / "words" / f"{page}.md").read_text(encoding="utf-8")


@cache
def _sections(package: str, page: str) -> dict[str, str]:
    sections = (section.partition("\n") for section in page_text(package, page).split("\n## ")[1:])
    return {heading: " ".join(body.split()) for heading, _, body in sections}


def page_paragraph(package: str, page: str, heading: str, **values: object) -> str:
    """Read the paragraph below a heading, as one line.

    >>> page_paragraph("evenreel.audits", "hubness", "By chance", draws=100)[82:141]
    'shown of clips at random; the mean over 100 such rankings. '
    """
    return _sections(package, page)[heading].format(**values)
