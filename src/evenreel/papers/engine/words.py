"""The words of studies, which are no code: what they ask and reproduce, and what their readers have to know.

`papers/words` has a Markdown file for each paper: a table of its studies, and a paragraph below each heading.
"""

from __future__ import annotations

from evenreel.report.paragraphs import page_paragraph, page_text

PACKAGE = "evenreel.papers"


def paragraph(paper: str, heading: str, **values: object) -> str:
    """Read a paragraph that the reader of a study has to know.

    >>> paragraph("rerank", "Times", timed=20)[:42]
    'Time is the median over 20 captions, one a'
    """
    return page_paragraph(PACKAGE, paper, heading, **values)


def paragraphs(paper: str, *headings: str) -> tuple[str, ...]:
    """Read several paragraphs of one paper, without any braces, by their headings."""
    return tuple(paragraph(paper, heading) for heading in headings)


def study_words(name: str) -> tuple[str, str]:
    """Read what a study asks, and what it reproduces, by its name.

    >>> study_words("ghost/f2")
    ('How near are mirrors to real clips?', 'Figure 2: similarity of pairs')
    """
    rows = page_text(PACKAGE, name.partition("/")[0]).splitlines()
    asks, reproduces = next(row for row in rows if row.startswith(f"| {name} |")).strip("| ").split(" | ")[1:]
    return asks, reproduces
