"""Tables of a corpus: clips and captions, their columns, what is taken for a table, classes, splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import selectors
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from evenreel.config import check_corpus, check_kind, described
from evenreel.errors import CorpusError, UsageError
from evenreel.files import replacing, write_durably
from evenreel.types import Corpus

# Texts in csv files, escaped so that a spreadsheet does not run them as formulas.

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARK = "'"


def as_cell(text: str) -> str:
    """Escape a text for a csv: put an apostrophe before what a spreadsheet would run as a formula.

    >>> as_cell("=1+1"), as_cell("a dog"), from_cell(as_cell("'tis")), from_cell("'tis")
    ("'=1+1", 'a dog', "'tis", "'tis")
    """
    return _MARK + text if text.startswith((*_FORMULA, _MARK)) else text


def from_cell(cell: str) -> str:
    """Remove the apostrophe that `as_cell` put before a text; return other texts as they are."""
    return cell[1:] if cell.startswith(_MARK) and cell[1:].startswith((*_FORMULA, _MARK)) else cell


# Tables of other libraries, as polars reads them.
#
# pandas, pyarrow, DuckDB and their like are never imported: their tables hand themselves over by Arrow's PyCapsule
# interface, `__arrow_c_stream__`.

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
        words = str(error.args[0] if error.args else "").strip() or type(error).__name__
        said = words.splitlines()[0].partition(". ")[0].rstrip(".")
        raise UsageError(f"{name} is {described(given)} that cannot be read ({said}); {remedy}.") from error
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


# The two tables of a corpus, clips and captions: their columns, the rules that they must keep, and parts of them.

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


# Verb and noun classes found in the words of captions: put into a corpus's tables, named in `classes.parquet`.

CLASS_NAMES = "classes.parquet"

Sets = Sequence[Sequence[int]]


def with_classes(
    corpus: Corpus, captions: tuple[Sets, Sets], clips: Mapping[str, tuple[Sequence[int], Sequence[int]]]
) -> Corpus:
    """Return a copy of a corpus with other verb and noun classes."""
    of_clips = [clips.get(clip, ([], [])) for clip in corpus.clips["clip_id"]]
    names = ("verb_classes", "noun_classes")
    sides = [[list(classes[side]) for classes in of_clips] for side in range(2)]
    told = [[list(one) for one in side] for side in captions]
    return make_corpus(
        corpus.clips.with_columns(pl.Series(*one, dtype=CLASSES) for one in zip(names, sides, strict=True)),
        corpus.captions.with_columns(pl.Series(*one, dtype=CLASSES) for one in zip(names, told, strict=True)),
    )


def has_classes(corpus: Corpus) -> bool:
    """Return whether any clip or caption of a corpus has a verb or noun class."""
    tables = (corpus.clips, corpus.captions)
    return any(table[kind].list.len().sum() for table in tables for kind in ("verb_classes", "noun_classes"))


def drop_class_names(folder: Path) -> None:
    """Delete `classes.parquet`, the names of verb and noun classes, from a corpus folder if it is there."""
    try:
        (folder / CLASS_NAMES).unlink(missing_ok=True)
    except OSError as error:
        raise CorpusError(f"{folder / CLASS_NAMES} of an earlier corpus cannot be removed ({error}).") from error


def copy_class_names(origin: Path, folder: Path) -> None:
    """Copy the names of verb and noun classes (`classes.parquet`) from one corpus folder to another.

    Where `origin` has none, those in `folder` are deleted.
    """
    if not (origin / CLASS_NAMES).is_file():
        drop_class_names(folder)
        return
    try:
        write_durably(folder / CLASS_NAMES, (origin / CLASS_NAMES).read_bytes())
    except OSError as error:
        raise CorpusError(f"The names of the classes cannot be written to {folder} ({error}).") from error


def save_class_names(folder: Path, verbs: Sequence[str], nouns: Sequence[str], tagger: str) -> None:
    """Write `classes.parquet`: the name of each verb and noun class and the tagger that found it."""
    named = (("verb", verbs), ("noun", nouns))
    rows = [(kind, number, name, tagger) for kind, names in named for number, name in enumerate(names)]
    table = pl.DataFrame(rows, schema=["kind", "number", "name", "tagger"], orient="row")
    try:
        with replacing(folder / CLASS_NAMES) as part:
            table.write_parquet(part)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"The names of the classes cannot be written to {folder} ({error}).") from error


# New splits of a corpus, drawn at random, which keep a video in one part.

_MARKS = (("clip ", "clip_id"), ("clip ", "pair_id"), ("path ", "path"))
"""Columns by which clips belong together; ids and paths are different names."""


def split_corpus(corpus: Corpus, shares: Mapping[str, float], seed: int) -> Corpus:
    """Assign the clips of a corpus to new splits at random.

    Clips of one video (equal `path`) stay together, and so do a real clip and those generated after it (`pair_id`), as
    a model that was trained on one of them has seen the others.

    Args:
        corpus: corpus to copy; splits that it has are replaced.
        shares: share of the videos by split, which sum to 1, such as `{"train": 0.8, "test": 0.2}`.
        seed: seed of the random order.

    Raises:
        CorpusError: the shares are not above 0, or do not sum to 1.
        UsageError: an argument is of the wrong kind.
    """
    check_corpus(corpus)
    remedy = "give a share for each split, {'train': 0.8, 'test': 0.2}"
    check_kind(shares, Mapping, "shares", remedy)
    for name, share in shares.items():
        check_kind(share, Real, f"shares[{name!r}]", remedy)
    check_kind(seed, Integral, "seed", "give a whole number")
    if not (shares and min(shares.values()) >= 0 and abs(sum(shares.values()) - 1) <= 1e-9):  # so that NaN fails
        raise CorpusError(f"The shares of the splits are {dict(shares)}; they must not be negative and sum to 1.")
    group = _groups(corpus.clips)
    count = group.max() + 1
    order = np.random.default_rng(seed).permutation(count)
    edges = np.round(np.cumsum([0.0, *shares.values()]) * count).astype(int)
    names = np.empty(count, dtype=object)
    for name, start, stop in zip(shares, edges, edges[1:], strict=False):
        names[order[start:stop]] = name
    column = pl.Series("split", names[group], dtype=pl.String)
    return make_corpus(corpus.clips.with_columns(column), corpus.captions)


def _groups(clips: pl.DataFrame) -> NDArray[np.int64]:
    """A number for each of H clips, equal for those that share a video or a real clip, directly or through others."""
    marks = pl.concat([prefix + clips[column] for prefix, column in _MARKS])
    kept = marks.is_not_null().to_numpy()
    mark = marks.drop_nulls().rank("dense").to_numpy().astype(np.int64) - 1
    clip = np.tile(np.arange(clips.height), len(_MARKS))[kept]
    size = clips.height + int(mark.max()) + 1
    graph = sparse.coo_array((np.ones(len(mark)), (clip, clips.height + mark)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1][: clips.height]
    return np.unique(labels, return_inverse=True)[1]
