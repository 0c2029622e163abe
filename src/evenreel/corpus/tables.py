"""The two tables of a corpus, clips and captions: their columns, the rules that they must keep, and parts of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import polars as pl

from evenreel.config import check_corpus, check_kind
from evenreel.corpus.dataframes import TableLike, as_dataframe, as_ids
from evenreel.errors import CorpusError
from evenreel.types import Corpus

CLASSES = pl.List(pl.Int32)

CLIP_COLUMNS: dict[str, pl.DataType] = {
    "clip_id": pl.String(),
    "path": pl.String(),
    "start_s": pl.Float64(),
    "end_s": pl.Float64(),
    "frame_count": pl.Int64(),
    "fps": pl.Float64(),
    "split": pl.String(),
    "domain": pl.String(),
    "source": pl.String(),
    "pair_id": pl.String(),
    "verb_classes": CLASSES,
    "noun_classes": CLASSES,
}
"""Columns of `Corpus.clips`; only `clip_id` must be filled.

`path` is the video, relative to the folder that the user keeps it in; `start_s` and `end_s` are the clip's part of it.
`source` is `camera` or the name of a generator; `pair_id` is the real clip that a generated one mirrors, which need not
be in the corpus: a part of a corpus may hold the generated clips alone.
"""

CLIP_FACTS = ("video_id", "duration_s", "width", "height", "codec")
"""Further columns of clips that are read where they are there."""

CAPTION_COLUMNS: dict[str, pl.DataType] = {
    "caption_id": pl.String(),
    "clip_id": pl.String(),
    "text": pl.String(),
    "verb_classes": CLASSES,
    "noun_classes": CLASSES,
}
"""Columns of `Corpus.captions`; the first three must be filled."""

_SHOWN = 20


def make_corpus(clips: TableLike, captions: TableLike) -> Corpus:
    """Make a corpus from a table of clips and a table of captions, and check both.

    Standard columns that are missing are added, empty; columns of the caller's own are kept after them. Tables may be
    of polars, pandas or any library that knows Arrow, columns by name, or lists of rows; see `TableLike`.

    Args:
        clips: one row a clip, at least `clip_id`.
        captions: one row a caption, at least `caption_id`, `clip_id` and `text`.

    Raises:
        CorpusError: a rule is broken; the message has a sentence for each of the first violations.
        UsageError: a table is none, or cannot be read.

    >>> corpus = make_corpus(
    ...     pl.DataFrame({"clip_id": ["a", "b"]}),
    ...     pl.DataFrame({"caption_id": ["0"], "clip_id": ["b"], "text": ["a ball rolls"]}),
    ... )
    >>> corpus.clips.columns[:3], corpus.captions.height
    (['clip_id', 'path', 'start_s'], 1)
    """
    of_clips, of_captions = (
        as_dataframe(
            table, name, "give a table, such as a DataFrame of polars or pandas; load_corpus(path) reads files"
        )
        for name, table in (("clips", clips), ("captions", captions))
    )
    of_clips = _in_form(of_clips, CLIP_COLUMNS, ("clip_id",), "clips")
    of_captions = _in_form(of_captions, CAPTION_COLUMNS, ("caption_id", "clip_id", "text"), "captions")
    found = violations(of_clips, of_captions)
    if shown := list(islice(found, _SHOWN)):
        more = sum(1 for _ in found)
        raise CorpusError(*shown, *([f"... and {more:,} more."] if more else []))
    return Corpus(of_clips, of_captions)


def select(corpus: Corpus, *, split: str | None = None, where: pl.Expr | None = None) -> Corpus:
    """Select the clips of a split, or those for which a condition holds, with their captions.

    Args:
        corpus: corpus to select from; it is not changed.
        split: value of the column `split`.
        where: condition on the columns of `clips`, such as `pl.col("source") == "camera"`.

    Raises:
        CorpusError: no clip is left, or the condition names a column that is not there.
        UsageError: an argument is of the wrong kind.
    """
    check_corpus(corpus)
    check_kind(split, (str, type(None)), "split", "give its name, one text")
    remedy = 'give a polars expression, such as pl.col("source") == "camera"'
    check_kind(where, (pl.Expr, type(None)), "where", remedy)
    clips = corpus.clips
    try:
        if split is not None:
            clips = clips.filter(pl.col("split") == split)
        if where is not None:
            clips = clips.filter(where)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"The clips cannot be selected by {where} ({error}).") from error
    if clips.height == 0:
        there = ", ".join(sorted(corpus.clips["split"].drop_nulls().unique())) or "none"
        by = [] if split is None else [f"split {split!r}"]
        by += [] if where is None else [f"condition {where}"]
        raise CorpusError(f"No clip is left ({', '.join(by)}); the splits are: {there}.")
    return Corpus(clips, corpus.captions.filter(pl.col("clip_id").is_in(clips["clip_id"].implode())))


def splits_of(corpus: Corpus, clip_ids: Sequence[str]) -> list[str]:
    """Return the names of the splits that some clips are in, sorted; clips without a split are ignored."""
    named = pl.col("clip_id").is_in(pl.Series(clip_ids, dtype=pl.String).implode())
    return corpus.clips.filter(named)["split"].drop_nulls().unique().sort().to_list()


def violations(clips: pl.DataFrame, captions: pl.DataFrame) -> Iterator[str]:
    """Iterate over the rules that a corpus's tables break: a sentence each, with table, row (from 1) and column."""
    if clips.height == 0:
        yield "The table clips has no row; a corpus needs at least one clip."
    for table, name, required in ((clips, "clips", ("clip_id",)), (captions, "captions", tuple(captions.columns[:3]))):
        for column in required:
            for row in _rows(table[column].is_null() | (table[column].str.strip_chars() == "")):
                yield f"Row {row + 1} of {name}, column {column}, is empty; give it a value or drop the row."
    yield from _repeated(clips, "clips", "clip_id")
    yield from _repeated(captions, "captions", "caption_id")
    strangers = captions["clip_id"].is_not_null() & ~captions["clip_id"].is_in(clips["clip_id"].implode())
    for row in _rows(strangers):
        yield (
            f"Row {row + 1} of captions, column clip_id, names {captions['clip_id'][row]!r}, which is no clip; add "
            "the clip or drop the caption."
        )
    yield from _bad_numbers(clips)
    yield from _bad_classes(clips, "clips")
    yield from _bad_classes(captions, "captions")


def _bad_numbers(clips: pl.DataFrame) -> Iterator[str]:
    """Times in order and finite; counts and rates positive."""
    start, end = clips["start_s"], clips["end_s"]
    for column in {"start_s", "end_s", "duration_s"}.intersection(clips.columns):
        for row in _rows(~clips[column].is_finite() | (clips[column] < 0)):
            yield f"Row {row + 1} of clips, column {column}, is {clips[column][row]}; a time is 0 or more seconds."
    for row in _rows(end <= start):
        yield (
            f"Row {row + 1} of clips, column end_s, is {end[row]}, not after its start_s of {start[row]}; a clip "
            "ends after it starts."
        )
    for column in ("frame_count", "fps"):
        wrong = clips[column] <= 0
        if column == "fps":
            wrong = wrong | ~clips[column].is_finite()
        for row in _rows(wrong):
            yield f"Row {row + 1} of clips, column {column}, is {clips[column][row]}; it must be more than 0."


def _bad_classes(table: pl.DataFrame, name: str) -> Iterator[str]:
    wrong = pl.element().is_null() | (pl.element() < 0)
    for column in ("verb_classes", "noun_classes"):
        for row in _rows(table[column].list.eval(wrong).list.any()):
            yield (
                f"Row {row + 1} of {name}, column {column}, is {table[column][row].to_list()}; a class is a whole "
                "number of 0 or more."
            )


def _in_form(
    table: pl.DataFrame, columns: dict[str, pl.DataType], required: tuple[str, ...], name: str
) -> pl.DataFrame:
    """The standard columns first, in their types."""
    if missing := [column for column in required if column not in table.columns]:
        raise CorpusError(f"The table {name} has no column {missing[0]}; it has: {', '.join(table.columns) or 'none'}.")
    filled = table.with_columns(
        pl.lit(None, dtype=kind).alias(column) for column, kind in columns.items() if column not in table.columns
    )
    own = {
        column: pl.Float64() if column == "duration_s" else None for column in table.columns if column not in columns
    }
    return pl.DataFrame(
        [
            filled[column] if kind is None else _cast(filled[column], kind, name)
            for column, kind in (columns | own).items()
        ]
    )


def _cast(values: pl.Series, kind: pl.DataType, name: str) -> pl.Series:
    """A column in its type; what a cast would change on the way is refused."""
    held = values.dtype
    inner = held.inner if isinstance(held, pl.List) else None
    whole = inner is not None and (inner.is_integer() or inner in (pl.Null, pl.String))
    if held.is_nested() and not (kind == CLASSES and whole):
        raise CorpusError(_no_cast(values, kind, name))
    try:
        done = as_ids(values) if kind == pl.String else values.cast(kind)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(_no_cast(values, kind, name)) from error
    if kind.is_integer() and held.is_float():
        for row in _rows(done != values):
            raise CorpusError(
                f"Row {row + 1} of {name}, column {values.name}, is {values[row]}; it must be a whole number."
            )
    return done


def _no_cast(values: pl.Series, kind: pl.DataType, name: str) -> str:
    """Which row keeps a column from having its type."""
    number = "a whole number" if kind.is_integer() else "a number"
    what = "a list of whole numbers" if kind == CLASSES else number if kind.is_numeric() else "text"
    try:
        failed = values.is_not_null() & values.cast(kind, strict=False).is_null()
        row = next(_rows(failed))
    except (pl.exceptions.PolarsError, StopIteration):
        return f"Column {values.name} of {name} holds {values.dtype}; it must be {what}."
    return f"Row {row + 1} of {name}, column {values.name}, is {values[row]!r}; it must be {what}."


def _repeated(table: pl.DataFrame, name: str, column: str) -> Iterator[str]:
    first: dict[str, int] = {}
    for row in _rows(table[column].is_not_null() & table[column].is_duplicated()):
        value = table[column][row]
        if value in first:
            yield (
                f"Row {row + 1} of {name}, column {column}, is {value!r} as in row {first[value] + 1}; every "
                f"{column} is unique."
            )
        first.setdefault(value, row)


def _rows(mask: pl.Series) -> Iterator[int]:
    """Numbers of the rows that are True."""
    yield from mask.fill_null(False).arg_true()
