"""Tables of other libraries, as polars reads them.

pandas, pyarrow, DuckDB and their like are never imported: their tables hand themselves over by Arrow's PyCapsule
interface, `__arrow_c_stream__`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import polars as pl
from polars import selectors

from evenreel.config import described
from evenreel.errors import UsageError

INDEX = "__index_level_"
"""First letters of the columns that an index of pandas without a name becomes."""


@runtime_checkable
class ArrowTable(Protocol):
    """Table that hands itself over by Arrow: a DataFrame of pandas (2.2 or later), a table of pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as a capsule of an Arrow stream."""


TableLike: TypeAlias = (
    "pl.DataFrame | pl.LazyFrame | ArrowTable | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]"
)
"""What is taken as a table: a DataFrame or LazyFrame of polars, a DataFrame of pandas or another `ArrowTable`, columns
by name, or a list of rows that are dictionaries."""


class _ArrowStream:
    """A table's Arrow stream alone: of a DataFrame of pandas as such, polars leaves the index out."""

    def __init__(self, table: ArrowTable) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def is_dataframe(given: object) -> bool:
    """Return whether something is a table with columns by name, of polars or of another library; a Series is none.

    >>> is_dataframe(pl.DataFrame({"a": [1]})), is_dataframe(pl.Series([1])), is_dataframe([[1.0]])
    (True, False, False)
    """
    if isinstance(given, (pl.DataFrame, pl.LazyFrame)):
        return True
    by_arrow = hasattr(given, "__arrow_c_stream__") or hasattr(given, "__dataframe__")
    return by_arrow and hasattr(given, "columns") and not isinstance(given, type)


def as_dataframe(given: object, name: str, remedy: str, *, keep_index: bool = False) -> pl.DataFrame:
    """Convert a table of any kind (`TableLike`) to a DataFrame of polars; classes of text become text.

    Args:
        given: the table.
        name: name of the argument, for the sentence.
        remedy: what to give instead of something that is no table, the end of the sentence.
        keep_index: whether an index of pandas without a name is kept, as a column that begins with `INDEX`; one with a
            name always is, and the numbers that pandas counts rows by never are.

    Raises:
        UsageError: it is no table, or one that cannot be read.

    >>> as_dataframe([{"clip_id": "a"}, {"clip_id": "b", "split": "test"}], "clips", "give a table").rows()
    [('a', None), ('b', 'test')]
    """
    try:
        table = _converted(given)
    except ImportError as error:
        raise UsageError(
            f"{name} is {described(given)}, whose library needs {error.name or 'another one'} to hand it over; install "
            "that, or give a polars DataFrame."
        ) from error
    except Exception as error:  # whatever a library raises for a table that it cannot hand over
        raise UsageError(
            f"{name} is {described(given)} that cannot be read ({_first_words(error)}); {remedy}."
        ) from error
    if table is None:
        raise UsageError(f"{name} is {described(given)}; {remedy}.")
    if not keep_index:
        table = table.select(name for name in table.columns if not name.startswith(INDEX))
    return table.with_columns((selectors.categorical() | selectors.enum()).cast(pl.String))


def as_ids(values: pl.Series) -> pl.Series:
    """Convert a column of ids to text; whole numbers that are held as 12.0, as where one is missing, are 12.

    >>> as_ids(pl.Series([12.0, None, float("nan")])).to_list(), as_ids(pl.Series([12.0, 0.5])).to_list()
    (['12', None, None], ['12.0', '0.5'])
    """
    if values.dtype.is_float():
        values = values.fill_nan(None)
        whole = values.cast(pl.Int64, strict=False)
        values = whole if whole.eq_missing(values).all() else values
    return values.cast(pl.String)


def _converted(given: object) -> pl.DataFrame | None:
    """The table in polars; None where it is none."""
    if isinstance(given, pl.DataFrame):
        return given
    if isinstance(given, pl.LazyFrame):
        return given.collect()
    if is_dataframe(given):
        if not isinstance(given, ArrowTable):
            raise ValueError("its library is too old to hand it over by Arrow; pandas does so from 2.2 on")
        return pl.DataFrame(_ArrowStream(given))
    if isinstance(given, Mapping) and given and all(map(_is_column, given.values())):
        return pl.DataFrame({str(name): column for name, column in given.items()})
    rows = isinstance(given, (list, tuple)) and given and all(isinstance(row, Mapping) for row in given)
    return pl.DataFrame(given, infer_schema_length=None) if rows else None  # type: ignore[arg-type]


def _is_column(given: object) -> bool:
    return hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, (str, bytes, Mapping))


def _first_words(error: Exception) -> str:
    """What an error of another library says first, as a part of a sentence."""
    words = str(error.args[0] if error.args else type(error).__name__)
    return words.strip().splitlines()[0].partition(". ")[0].rstrip(".") if words.strip() else type(error).__name__
