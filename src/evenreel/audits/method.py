"""Paragraphs on how audits compute their figures, from `audits/words`, which has a page for each kind of audit."""

from __future__ import annotations

from evenreel.report.paragraphs import page_paragraph


def paragraph(page: str, heading: str, **values: object) -> str:
    """Read a paragraph on how an audit computes its figures.

    Args:
        page: name of a file in `audits/words`, without its ending.
        heading: heading of the paragraph there.
        values: values that replace the names in its braces.

    >>> paragraph("shared", "Permuted clips", what="lengths are permuted")[:70]
    'Interval and p are over captions and clips: lengths are permuted, whil'
    """
    return page_paragraph("evenreel.audits", page, heading, **values)


def paragraphs(page: str, *headings: str) -> tuple[str, ...]:
    """Read several paragraphs of one page, without any braces, by their headings."""
    return tuple(paragraph(page, heading) for heading in headings)
