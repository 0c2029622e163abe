"""Metadata of videos from the user: a csv, Parquet or JSON-lines table beside them.

A table is read in a process that can be killed, as a video is: one that is broken, endless or made to fill the memory
costs itself and nothing else.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evenreel.config import MediaLimits
from evenreel.errors import MediaError, UsageError
from evenreel.extras import needed_extra
from evenreel.features.progress import SetAside
from evenreel.files import FileNames
from evenreel.library.index.text_tables import read_json_lines, read_separated
from evenreel.media.workers import Message, Worker
from evenreel.types import Metadata
from evenreel.wording import count, other_separator, printable

log = logging.getLogger("evenreel")

TABLE_NAMES = tuple(
    f"{stem}.{suffix}" for stem in ("metadata", "manifest") for suffix in ("csv", "parquet", "jsonl", "tsv")
)
PATH_COLUMNS = ("path", "file_name", "filename", "file", "video")
BAD_TABLE = "bad_table"
"""Reason with which a metadata table is set aside."""

READER = "evenreel.library.index.metadata:TableReader"
_ROWS_AT_ONCE = 100


@dataclass
class KnownMetadata:
    """Metadata about the videos, from the user's tables.

    Attributes:
        rows: metadata by absolute path of a video.
        set_aside: tables found beside the videos that cannot be used, and why.
    """

    rows: dict[str, Metadata] = field(default_factory=dict)
    set_aside: list[SetAside] = field(default_factory=list)


class NoPathsError(UsageError):
    """Raised where a table has no column with the videos' paths: it may be about something else."""


def tables_beside(roots: Sequence[str]) -> list[Path]:
    """Find the metadata tables at the top of the indexed folders: `metadata.csv`, `manifest.parquet`, ..."""
    return [Path(root, name) for root in roots for name in TABLE_NAMES if os.path.isfile(os.path.join(root, name))]


def read_tables(beside: Sequence[Path], named: Sequence[Path], limits: MediaLimits) -> KnownMetadata:
    """Read metadata tables; a later one adds to an earlier one."""
    known = KnownMetadata()
    with closing(Worker(READER, {}, limits)) as worker:
        for table in [*beside, *named]:
            try:
                rows = _read(worker, table)
            except UsageError as error:
                if table in named:
                    raise
                _pass_over(table, error, known)
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


def _pass_over(table: Path, error: UsageError, known: KnownMetadata) -> None:
    if isinstance(error, NoPathsError):
        log.warning("%s has no column with the videos' paths and is passed over", table)
    else:
        known.set_aside.append(SetAside("", printable(str(table)), BAD_TABLE, str(error)))


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
    rows = _rows(table)
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


def _rows(table: Path) -> list[dict[str, object]]:
    if table.suffix == ".parquet":
        rows = _parquet_rows(table)
    elif table.suffix in {".jsonl", ".ndjson"}:
        rows = read_json_lines(table)
    else:
        separator = "\t" if table.suffix == ".tsv" else ","
        _check_separator(table, separator)
        rows = read_separated(table, separator)
    if not rows:
        raise UsageError(f"The metadata table {table} has no rows.")
    return rows


def _parquet_rows(table: Path) -> list[dict[str, object]]:
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
        raise UsageError(f"The metadata table {table} cannot be read: {str(error).splitlines()[0]}.") from error


def _check_separator(table: Path, separator: str) -> None:
    """Refuse a csv whose values stand apart by something else, which is no table about other things."""
    with table.open(encoding="utf-8-sig", errors="replace") as file:
        names = file.readline(10_000).strip().split(separator)
    if other := other_separator(names):
        raise UsageError(f"The metadata table {table} has one column, {names[0]!r}: {other}.")


def _plain(value: object) -> str | int | float | bool | None:
    """A value as filters compare it: numbers and truth stay, lists, dates and the rest become text."""
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
