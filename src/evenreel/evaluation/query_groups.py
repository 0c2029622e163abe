"""Groups of queries by a column of clips or captions, such as source, domain, language, split or bands of length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus.summary import lengths_s
from evenreel.errors import CorpusError
from evenreel.types import Corpus

SECONDS, WORDS = "seconds", "words"  # of a clip, and of a caption: columns that every corpus has
BANDS = 4  # of about equal size, at the quartiles of the queries' numbers
MOST_VALUES = 8  # most different numbers that are groups by themselves; more are cut into bands
MOST_GROUPS = 50


@dataclass(frozen=True, eq=False)
class QueryGroups:
    """Groups of n queries by a column.

    Attributes:
        names: name of each of k groups: sorted values, or bands in ascending order.
        number: (n,) number of the group of each query, -1 where the column says nothing of it.
        against: name of the group that others are compared with; empty for none.
    """

    names: tuple[str, ...]
    number: NDArray[np.int64]
    against: str = ""


def column_values(corpus: Corpus, column: str) -> tuple[pl.DataFrame, bool]:
    """Return a table of `id` and `value` of COLUMN or COLUMN=GROUP, and whether it is of captions and not of clips."""
    clips, captions = corpus.clips, corpus.captions
    column = column if column in {*clips.columns, *captions.columns} else column.partition("=")[0]
    if column in clips.columns:
        found, key = clips, "clip_id"
    elif column in captions.columns:
        found, key = captions, "caption_id"
    elif column == SECONDS:
        found, key = clips.with_columns(lengths_s(clips).alias(SECONDS)), "clip_id"
    elif column == WORDS:
        found, key = captions.with_columns(pl.col("text").str.count_matches(r"\S+").alias(WORDS)), "caption_id"
    else:
        names = dict.fromkeys((*clips.columns, *captions.columns, SECONDS, WORDS))
        raise CorpusError(
            f"Neither clips nor captions have a column {column!r} to group by; there are: {', '.join(names)}."
        )
    if found[column].dtype.is_nested():
        raise CorpusError(
            f"The column {column!r} holds lists, which name no group; group by a column of single values."
        )
    return found.select(pl.col(key).alias("id"), pl.col(column).alias("value")), key == "caption_id"


def query_groups(corpus: Corpus, column: str, query_ids: Sequence[str], *, of_captions: bool) -> QueryGroups:
    """Group queries by COLUMN, or COLUMN=GROUP, of the corpus; many numbers are cut into bands."""
    table, by_caption = column_values(corpus, column)
    if by_caption and not of_captions:
        table = _of_clips(corpus, table, column)
    if of_captions and not by_caption:
        own = corpus.captions.select(pl.col("caption_id"), pl.col("clip_id").alias("id"))
        table = own.join(table, on="id", how="left").select(pl.col("caption_id").alias("id"), "value")
    asked = pl.DataFrame({"id": list(query_ids)}, schema={"id": pl.String})
    values = asked.join(table, on="id", how="left", maintain_order="left")["value"]
    if values.dtype.is_numeric():
        values = values.cast(pl.Float64).fill_nan(None) if values.dtype.is_float() else values
        if values.drop_nulls().n_unique() > MOST_VALUES:
            return _bands(values)
    return replace(_values(values, column), against=column.partition("=")[2])


def _of_clips(corpus: Corpus, table: pl.DataFrame, column: str) -> pl.DataFrame:
    own = corpus.captions.select(pl.col("caption_id").alias("id"), "clip_id").join(table, on="id", how="left")
    per_clip = own.group_by("clip_id").agg(pl.col("value").drop_nulls().unique())
    if (mixed := per_clip.filter(pl.col("value").list.len() > 1)).height:
        raise CorpusError(
            f"Captions of a clip differ in {column!r} ({mixed.height:,} such clips), so clips are of no group; group "
            "captions by it (--direction t2v, with the protocol caption)."
        )
    return per_clip.select(pl.col("clip_id").alias("id"), pl.col("value").list.first())


def _values(values: pl.Series, column: str) -> QueryGroups:
    """Each value is a group; empty text is none."""
    known = values.drop_nulls().unique().sort().to_list()
    words = {value: str(value) for value in known if str(value).strip()}
    if len(words) > MOST_GROUPS:
        raise CorpusError(
            f"The column {column!r} has {len(words):,} values among these queries; group by one with at most "
            f"{MOST_GROUPS}."
        )
    place = {value: number for number, value in enumerate(words)}
    number = np.array([place.get(value, -1) for value in values.to_list()], dtype=np.int64)
    return QueryGroups(tuple(words.values()), number)


def _bands(values: pl.Series) -> QueryGroups:
    """Bands of about equal size; equal numbers are in one band, so fewer are possible."""
    numbers = values.cast(pl.Float64).to_numpy()
    known = ~np.isnan(numbers)
    inner = np.quantile(numbers[known], np.arange(1, BANDS) / BANDS, method="lower")
    band = np.searchsorted(np.unique(inner), numbers[known], side="left")
    _, band = np.unique(band, return_inverse=True)
    number = np.full(len(numbers), -1, dtype=np.int64)
    number[known] = band
    held = [numbers[number == one] for one in range(int(band.max()) + 1)]
    return QueryGroups(tuple(f"{_short(one.min())} to {_short(one.max())}" for one in held), number)


def _short(value: float) -> str:
    """Three digits, and all before the point.

    >>> _short(0.012345), _short(2024.0)
    ('0.0123', '2024')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
