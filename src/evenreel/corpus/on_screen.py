"""Words on screen that a benchmark ships, kept beside a corpus as `texts.parquet`.

A row is one sign (words at one place on screen): read once and followed over frames (TextVR), or read in a single
frame (M4-ViteVQA).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import polars as pl

from evenreel.config import as_path, check_kind
from evenreel.corpus.imported import table
from evenreel.errors import CorpusError
from evenreel.files import replacing
from evenreel.parquet_files import read_table

TEXTS = "texts.parquet"

TEXT_COLUMNS: dict[str, pl.DataType] = {
    "clip_id": pl.String(),
    "text": pl.String(),
    "confidence": pl.Float64(),
    "start_frame": pl.Int64(),
    "end_frame": pl.Int64(),
    "box": pl.List(pl.Float64()),
}
"""Columns of the table.

`confidence` is the reader's own, empty where it gave none. `start_frame` and `end_frame` are the first and last frame
with the sign, as the benchmark counts them. `box` is x0, y0, x1, y1 in pixels, the mean over those frames.
"""


def make_texts(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Make a table of words on screen from rows, with the standard columns and types."""
    return table(rows, TEXT_COLUMNS).select(*TEXT_COLUMNS)


def save_texts(texts: pl.DataFrame | None, folder: str | Path) -> None:
    """Write the table of words on screen to a corpus folder; None deletes the table of an earlier corpus.

    Raises:
        CorpusError: the folder cannot be written.
    """
    folder = as_path(folder, "folder")
    check_kind(texts, (pl.DataFrame, NoneType), "texts", "give what make_texts(rows) or load_texts(folder) returns")
    try:
        if texts is None:
            (folder / TEXTS).unlink(missing_ok=True)
            return
        with replacing(folder / TEXTS) as part:
            texts.write_parquet(part)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The words on screen cannot be written to {folder} ({error}).") from error


def load_texts(folder: str | Path) -> pl.DataFrame | None:
    """Load the table of words on screen from a corpus folder; None where it has none.

    Raises:
        CorpusError: the table cannot be read or lacks a column.
    """
    path = as_path(folder, "folder") / TEXTS
    if not path.is_file():
        return None
    try:
        return read_table(path).select(pl.col(name).cast(kind) for name, kind in TEXT_COLUMNS.items())
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"{path} cannot be read as words on screen ({error}); import the corpus again.") from error


def bounds(points: Sequence[float]) -> list[float]:
    """Return the upright box [left, top, right, bottom] around a polygon given as x, y, x, y, ..., in the same unit.

    >>> bounds([3, 1, 9, 2, 8, 5, 2, 4])
    [2.0, 1.0, 9.0, 5.0]
    """
    across, down = points[0::2], points[1::2]
    return [float(min(across)), float(min(down)), float(max(across)), float(max(down))]
