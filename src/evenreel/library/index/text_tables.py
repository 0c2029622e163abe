"""Tables as text (csv, tsv, JSON lines), read by Python's own modules: an index needs no table library."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from evenreel.errors import UsageError

Row = dict[str, object]
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(
    r"[-+]?([0-9]{1,18}|[0-9]+\.[0-9]*|[0-9]*\.[0-9]+)(e[-+]?[0-9]{1,4})?|[-+]?(nan|inf)", re.IGNORECASE
)
_TRUTH = {"true": True, "false": False}


def read_json_lines(table: Path) -> list[Row]:
    """Read a table with a JSON object in each line; empty lines are passed over, values stay as they are written.

    Raises:
        UsageError: it cannot be read, or a line is no JSON object.
    """
    rows = []
    for number, line in enumerate(_text_lines(table), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _unreadable(table, f"line {number} is no JSON ({error})") from error
        if not isinstance(row, dict):
            raise _unreadable(table, f'line {number} is no JSON object, such as {{"path": "clip.mp4"}}')
        rows.append(row)
    return rows


def read_separated(table: Path, separator: str) -> list[Row]:
    """Read a table with names of columns in its first line.

    A column is of whole numbers (of at most 18 digits), of numbers or of truth values (true, false) where each of its
    values is one, else of text. An empty value without quotes in a column of these is None; so is what a short row
    lacks.

    Raises:
        UsageError: it cannot be read, is empty, has two columns of one name, or a row with more values than columns.
    """
    try:
        lines = [line for line in csv.reader(_text_lines(table), delimiter=separator, strict=True) if line]
    except csv.Error as error:
        raise _unreadable(table, str(error)) from error
    if not lines:
        raise UsageError(f"The metadata table {table} is empty; its first line names its columns.")
    names, *rows = lines
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise _unreadable(table, f"two of its columns are named {twice!r}; rename one")
    for number, row in enumerate(rows, start=1):
        if len(row) > len(names):
            raise _unreadable(table, f"row {number} has {len(row)} values for {len(names)} columns")
    columns = [_typed(values) for _, *values in zip_longest(*lines, fillvalue="")]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _text_lines(table: Path) -> Iterator[str]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise _unreadable(table, f"it is no UTF-8 text ({error.reason} at byte {error.start:,})") from error
    except OSError as error:
        raise _unreadable(table, (error.strerror or str(error)).lower()) from error


def _typed(values: Sequence[str]) -> list[object]:
    given = [value for value in values if value]
    for form, convert in _FORMS:
        if given and all(form(value) for value in given):
            return [convert(value) if value else None for value in values]
    return [value or None for value in values]


_FORMS: tuple[tuple[Callable[[str], object], Callable[[str], object]], ...] = (
    (_WHOLE.fullmatch, int),
    (_NUMBER.fullmatch, float),
    (lambda value: value.lower() in _TRUTH, lambda value: _TRUTH[value.lower()]),
)


def _unreadable(table: Path, why: str) -> UsageError:
    return UsageError(f"The metadata table {table} cannot be read: {why}.")
