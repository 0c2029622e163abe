"""Parquet tables from outside: the number of rows is compared with the file's size before memory is taken for them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

ALWAYS_READ = 30_000_000
"""Rows that a file of any size may have; with more, at most one for each of its bytes, as tables of data have."""


def read_table(path: Path) -> pl.DataFrame:
    """Read a Parquet file."""
    return scan_table(path).collect()


def scan_table(path: Path) -> pl.LazyFrame:
    """Open a Parquet file lazily, so that only columns that are used are read."""
    table = pl.scan_parquet(path, glob=False)
    rows, size_bytes = table.select(pl.len()).collect().item(), path.stat().st_size
    if rows > max(ALWAYS_READ, size_bytes):
        raise pl.exceptions.ComputeError(
            f"it has {rows:,} rows in {size_bytes:,} bytes, and at most {ALWAYS_READ:,} or a row for each byte are "
            "read; write it without compression and dictionaries if it is meant"
        )
    return table
