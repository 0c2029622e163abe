"""Texts in csv files, escaped so that a spreadsheet does not run them as formulas."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARK = "'"


def as_cell(text: str) -> str:
    """Escape a text for a csv: put an apostrophe before what a spreadsheet would run as a formula.

    >>> as_cell("=1+1"), as_cell("a dog"), from_cell(as_cell("'tis")), from_cell("'tis")
    ("'=1+1", 'a dog', "'tis", "'tis")
    """
    return _MARK + text if text.startswith((*_FORMULA, _MARK)) else text


def from_cell(cell: str) -> str:
    """Remove the apostrophe that `as_cell` put before a text; return other texts as they are."""
    return cell[1:] if cell.startswith(_MARK) and cell[1:].startswith((*_FORMULA, _MARK)) else cell
