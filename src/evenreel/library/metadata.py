"""What the user knows about the videos: a csv, Parquet or JSON-lines table beside them."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from pathlib import Path

from evenreel.errors import UsageError
from evenreel.types import Metadata

log = logging.getLogger("evenreel")

TABLE_NAMES = tuple(
    f"{stem}.{suffix}" for stem in ("metadata", "manifest") for suffix in ("csv", "parquet", "jsonl", "tsv")
)
PATH_COLUMNS = ("path", "file_name", "filename", "file", "video")


def tables_beside(roots: Sequence[str]) -> list[Path]:
    """The metadata tables that lie at the top of the indexed folders: `metadata.csv`, `manifest.parquet`, ..."""
    return [Path(root, name) for root in roots for name in TABLE_NAMES if Path(root, name).is_file()]


def read_tables(beside: Sequence[Path], named: Sequence[Path]) -> dict[str, Metadata]:
    """Rows of metadata tables by the absolute path of their video; a later table adds to an earlier one.

    Args:
        beside: tables that merely lie there; one without a column of paths is about something else, and passed over.
        named: tables that the user named.

    Raises:
        UsageError: a table cannot be read, has no column with the videos' paths, or names one twice.
    """
    known: dict[str, Metadata] = {}
    for table in [*beside, *named]:
        if table not in named and not _path_column(_rows(table)):
            log.warning("%s has no column with the videos' paths and is passed over", table)
            continue
        rows = read_table(table)
        if not any(os.path.lexists(path) for path in rows):
            log.warning("none of the files that %s names is there; are its paths relative to its folder?", table)
        for path, metadata in rows.items():
            known[path] = {**known.get(path, {}), **metadata}
    return known


def read_table(table: Path) -> dict[str, Metadata]:
    """One table: `path` (or `file_name`) relative to the table's folder, every other column kept as it is.

    Raises:
        UsageError: see `read_tables`.
    """
    rows = _rows(table)
    column = _path_column(rows)
    if column is None:
        raise UsageError(
            f"The metadata table {table} has no column with the videos' paths; name it one of: "
            f"{', '.join(PATH_COLUMNS)}."
        )
    folder = os.path.abspath(table.parent)
    known: dict[str, Metadata] = {}
    for number, row in enumerate(rows, start=1):
        name = row[column]
        if not name:
            raise UsageError(
                f"Row {number} of the metadata table {table} has no {column}; give it one or drop the row."
            )
        path = os.path.normpath(os.path.join(folder, str(name)))
        if path in known:
            raise UsageError(f"Row {number} of the metadata table {table} names {name} a second time; keep one row.")
        known[path] = {key: _plain(value) for key, value in row.items() if key != column and value is not None}
    return known


def _path_column(rows: list[dict[str, object]]) -> str | None:
    return next((name for name in PATH_COLUMNS if name in rows[0]), None)


def _rows(table: Path) -> list[dict[str, object]]:
    import polars as pl

    try:
        if table.suffix == ".parquet":
            frame = pl.read_parquet(table)
        elif table.suffix in {".jsonl", ".ndjson"}:
            frame = pl.read_ndjson(table)
        else:
            separator = "\t" if table.suffix == ".tsv" else ","
            frame = pl.read_csv(table, separator=separator, infer_schema_length=None)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"The metadata table {table} cannot be read: {str(error).splitlines()[0]}.") from error
    if frame.is_empty():
        raise UsageError(f"The metadata table {table} has no rows.")
    return frame.to_dicts()


def _plain(value: object) -> str | int | float | bool | None:
    """A value as filters compare it: numbers and truth stay, lists, dates and the rest become text."""
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
