"""Metadata of videos from the user: a csv, Parquet or JSON-lines table beside them.

A table is read in a process that can be killed, as a video is: one that is broken, endless or made to fill the memory
costs itself and nothing else. Text tables are read by Python's own modules, so that an index needs no table library.
"""

from __future__ import annotations

import csv
import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from evenreel.config import MediaLimits
from evenreel.errors import MediaError, UsageError
from evenreel.extras import needed_extra
from evenreel.features.progress import SetAside
from evenreel.files import FileNames
from evenreel.media.workers import Message, Worker
from evenreel.types import Metadata
from evenreel.wording import count, other_separator, printable

PATH_COLUMNS = ("path", "file_name", "filename", "file", "video")
BAD_TABLE = "bad_table"
"""Reason with which a metadata table is set aside."""

READER = "evenreel.library.index.metadata:TableReader"
_ROWS_AT_ONCE = 100
_LONGEST = 64 * 2**20  # characters that one value of a csv table may have

Row = dict[str, object]

log = logging.getLogger("evenreel")


@dataclass
class KnownMetadata:
    """Metadata by absolute path of a video, and the tables beside the videos that cannot be used."""

    rows: dict[str, Metadata] = field(default_factory=dict)
    set_aside: list[SetAside] = field(default_factory=list)


class NoPathsError(UsageError):
    """Raised where a table has no column with the videos' paths: it may be about something else."""


def read_tables(beside: Sequence[Path], named: Sequence[Path], limits: MediaLimits) -> KnownMetadata:
    """Read metadata tables; a later one adds to an earlier one. Of those beside the videos a bad one is set aside."""
    known = KnownMetadata()
    with closing(Worker(READER, {}, limits)) as worker:
        for table in [*beside, *named]:
            try:
                rows = _read(worker, table)
            except UsageError as error:
                if table in named:
                    raise
                if isinstance(error, NoPathsError):
                    log.warning("%s has no column with the videos' paths and is passed over", table)
                else:
                    known.set_aside.append(SetAside("", printable(str(table)), BAD_TABLE, str(error)))
                continue
            for path, metadata in rows.items():
                known.rows[path] = {**known.rows.get(path, {}), **metadata}
    return known


def rows_of_files(rows: Mapping[str, Metadata], paths: Iterable[str]) -> tuple[dict[str, Metadata], str | None]:
    """Return the rows of tables by the paths of files as they are, however the tables spell them."""
    there = set(paths)
    if rows.keys() <= there:
        return dict(rows), None
    files = FileNames(there)
    spelt = {path: files.find(path) for path in rows}
    lost = [path for path, found in spelt.items() if found is None and not os.path.lexists(path)]
    known = {path: rows[other] for other, path in spelt.items() if path is not None}
    known |= {path: row for path, row in rows.items() if path in known}  # that spelt the same
    if not lost:
        return known, None
    return known, (
        f"{len(lost):,} of {count(len(rows), 'row')} of the metadata tables {'name' if len(lost) > 1 else 'names'} no "
        f"file of the library, such as {printable(lost[0])}; are the paths relative to the table's folder?"
    )


def _read(worker: Worker, table: Path) -> dict[str, Metadata]:
    rows: dict[str, Metadata] = {}
    try:
        for message, _ in worker.run({"path": str(table)}):
            if "refused" in message:
                raise (NoPathsError if message["no_paths"] else UsageError)(message["refused"])
            rows.update(message["rows"])
    except MediaError as error:
        raise UsageError(f"The metadata table {table} cannot be read: {error}.") from error
    return rows


class TableReader:
    """Worker that answers `{"path"}` with the rows of a metadata table, some a message, or with why it is `refused`."""

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        """Read one table."""
        try:
            rows = list(read_table(Path(task["path"])).items())
        except UsageError as error:
            yield {"refused": str(error), "no_paths": isinstance(error, NoPathsError)}, None
            return
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            yield {"rows": rows[first : first + _ROWS_AT_ONCE]}, None


def read_table(table: Path) -> dict[str, Metadata]:
    """Read one table: `path` (or `file_name`) relative to the table's folder, every other column kept as it is."""
    if table.suffix == ".parquet":
        rows = _parquet_rows(table)
    elif table.suffix in {".jsonl", ".ndjson"}:
        rows = read_json_lines(table)
    else:
        rows = read_separated(table, "\t" if table.suffix == ".tsv" else ",")
    if not rows:
        raise UsageError(f"The metadata table {table} has no rows.")
    column = next((name for name in PATH_COLUMNS if any(name in row for row in rows)), None)
    if column is None:
        raise NoPathsError(
            f"The metadata table {table} has no column with the videos' paths; name it one of: "
            f"{', '.join(PATH_COLUMNS)}."
        )
    folder = os.path.abspath(table.parent)
    known: dict[str, Metadata] = {}
    for number, row in enumerate(rows, start=1):
        name = row.get(column)
        if not name:
            raise UsageError(
                f"Row {number} of the metadata table {table} has no {column}; give it one or drop the row."
            )
        path = os.path.normpath(os.path.join(folder, str(name)))
        if path in known:
            raise UsageError(f"Row {number} of the metadata table {table} names {name} a second time; keep one row.")
        known[path] = {key: _plain(value) for key, value in row.items() if key != column and value is not None}
    return known


def _parquet_rows(table: Path) -> list[Row]:
    try:
        import polars as pl

        from evenreel.parquet_files import read_table
    except ModuleNotFoundError as error:
        if (sentence := needed_extra(error, f"The metadata table {table}")) is None:
            raise
        raise UsageError(sentence) from error
    try:
        return read_table(table).to_dicts()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _unreadable(table, str(error).splitlines()[0]) from error


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
    if other := other_separator(names):  # which is no table about other things
        raise UsageError(f"The metadata table {table} has one column, {names[0]!r}: {other}.")
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


_WHOLE = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(  # with a point or an exponent; a whole one beyond 64 bits is text
    r"[-+]?(([0-9]+\.[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,4})?|[0-9]+e[-+]?[0-9]{1,4}|nan|inf)", re.IGNORECASE
)
_TRUTH = {"true": True, "false": False}


def _is_whole(value: str) -> bool:
    return _WHOLE.fullmatch(value) is not None and -(2**63) <= int(value) < 2**63


_FORMS: tuple[tuple[Callable[[str], object], Callable[[str], object]], ...] = (
    (_is_whole, int),
    (lambda value: _is_whole(value) or _NUMBER.fullmatch(value), float),
    (lambda value: value.lower() in _TRUTH, lambda value: _TRUTH[value.lower()]),
)


def _typed(values: Sequence[str]) -> list[object]:
    given = [value for value in values if value]
    for form, convert in _FORMS:
        if given and all(form(value) for value in given):
            return [convert(value) if value else None for value in values]
    return [value or None for value in values]


def _unreadable(table: Path, why: str) -> UsageError:
    return UsageError(f"The metadata table {table} cannot be read: {why}.")


def _plain(value: object) -> str | int | float | bool | None:
    """A value as filters compare it: numbers and truth stay, lists, dates and the rest become text."""
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
