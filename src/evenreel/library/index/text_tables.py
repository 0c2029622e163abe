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
_LONGEST = 64 * 2**20
"""Characters that one value of a csv table may have."""

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(
    r"[-+]?(([0-9]+\.[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,4})?|[0-9]+e[-+]?[0-9]{1,4}|nan|inf)", re.IGNORECASE
)
"""A number that is written with a point or an exponent; a whole one beyond 64 bits is text."""

_TRUTH = {"true": True, "false": False}


def read_json_lines(table: Path) -> list[Row]:
    """Read a table with a JSON object in each line; empty lines are passed over, values stay as they are written."""
    rows = []
    for number, line in enumerate(_text_lines(table), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if "\\u" in line:  # half of a character, which no file can hold, becomes a question mark
                row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise _unreadable(table, f"line {number} is no JSON ({error})") from error
        if not isinstance(row, dict):
            raise _unreadable(table, f'line {number} is no JSON object, such as {{"path": "clip.mp4"}}')
        rows.append(row)
    return rows


def read_separated(table: Path, separator: str) -> list[Row]:
    """Read a table with names of columns in its first line.

    A column holds whole numbers (of 64 bits), numbers or truth values (true, false) where each of its values is one,
    else text. An empty value is None, and so is what a short row lacks. Empty lines are passed over, and columns with
    neither a name nor a value are left out.
    """
    limit = csv.field_size_limit(_LONGEST)
    try:
        lines = [line for line in csv.reader(_text_lines(table), delimiter=separator, strict=True) if line]
    except csv.Error as error:
        raise _unreadable(table, str(error)) from error
    finally:
        csv.field_size_limit(limit)
    if not lines:
        raise UsageError(f"The metadata table {table} is empty; its first line names its columns.")
    names, *rows = lines
    for number, row in enumerate(rows, start=1):
        if len(row) > len(names):
            raise _unreadable(table, f"row {number} has {len(row)} values for {len(names)} columns")
    columns = [(name, values) for name, *values in zip_longest(*lines, fillvalue="") if name or any(values)]
    kept = [name for name, _ in columns]
    if len(set(kept)) < len(kept):
        twice = next(name for name in kept if kept.count(name) > 1)
        raise _unreadable(table, f"two of its columns are named {twice!r}; rename one")
    typed = [_typed(values) for _, values in columns]
    return [dict(zip(kept, values, strict=True)) for values in zip(*typed, strict=True)]


def _text_lines(table: Path) -> Iterator[str]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise _unreadable(table, f"it is no UTF-8 text ({error.reason} at byte {error.start:,})") from error
    except OSError as error:
        raise _unreadable(table, (error.strerror or str(error)).lower()) from error


def _is_whole(value: str) -> bool:
    return _WHOLE.fullmatch(value) is not None and -(2**63) <= int(value) < 2**63


def _typed(values: Sequence[str]) -> list[object]:
    given = [value for value in values if value]
    for form, convert in _FORMS:
        if given and all(form(value) for value in given):
            return [convert(value) if value else None for value in values]
    return [value or None for value in values]


_FORMS: tuple[tuple[Callable[[str], object], Callable[[str], object]], ...] = (
    (_is_whole, int),
    (lambda value: _is_whole(value) or _NUMBER.fullmatch(value), float),
    (lambda value: value.lower() in _TRUTH, lambda value: _TRUTH[value.lower()]),
)


def _unreadable(table: Path, why: str) -> UsageError:
    return UsageError(f"The metadata table {table} cannot be read: {why}.")
