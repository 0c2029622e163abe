"""A user's own csv, tsv, jsonl or parquet: one row a caption, or two tables `clips.*` and `captions.*`.

In a single table the clip is the first of these columns that is there: `clip_id`, `video_id`, `videoID`, `clip_name`,
`video`, `video_path`, `path`, `file_name`; the words are `text`, `caption`, `sentence`, `description`, `captions`,
`sentences`, `enCap`. A list of texts is one caption each. Standard columns of clips go to the clips, others stay with
the captions. Without a column `split`, a file that is called after one (`train.csv`, `test-00000-of-00002.parquet`)
gives its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from evenreel.corpus.given import Given, csv_rows, parse_json, read_text, stem, typed
from evenreel.corpus.imported import Imported, Notice, some, table
from evenreel.corpus.tables import CLASSES, CLIP_COLUMNS, make_corpus
from evenreel.errors import CorpusError

CLIP_NAMES = ("clip_id", "video_id", "videoID", "clip_name", "video", "video_path", "path", "file_name")
TEXT_NAMES = ("text", "caption", "sentence", "description", "captions", "sentences", "enCap")
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")

_SPLIT = re.compile(r"(train|training|val|validation|valid|dev|test)(?![a-z])", re.IGNORECASE)
_SPLIT_NAMES = {"training": "train", "validation": "val", "valid": "val", "dev": "val"}


def read_tables(paths: Sequence[Path]) -> Imported:
    """Read a user's own tables.

    Raises:
        CorpusError: no table is there, a column is missing, or a file is malformed.
    """
    given = Given("A corpus from tables", paths)
    files = given.all(*(f"*{suffix}" for suffix in SUFFIXES))
    if not files:
        raise CorpusError(given.lacks(f"a table ({', '.join(SUFFIXES)})"))
    named = {path.stem.lower(): path for path in files}
    if set(named) == {"clips", "captions"}:
        clips, captions = (_with_classes(read_table(named[name])) for name in ("clips", "captions"))
        return Imported(make_corpus(clips, captions), tuple(given.unread()))
    done = from_captions({str(path): with_split(read_table(path), split_of(path.name)) for path in files})
    return Imported(done.corpus, (*done.notices, *given.unread()))


def from_captions(frames: Mapping[str, pl.DataFrame]) -> Imported:
    """Make a corpus of tables, by their file names, with a row a caption.

    Raises:
        CorpusError: the columns of clip or text are missing, a row has no clip, the words are no text, or rows of one
            clip differ in a column of clips.
    """
    where = some(list(frames))
    for name, frame in frames.items():
        _each_row_has_a_clip(frame, name)
    rows = pl.concat(frames.values(), how="diagonal_relaxed")
    clip, text = (_first(rows, names, where) for names in (CLIP_NAMES, TEXT_NAMES))
    rows = _with_texts(_named_clips(_with_classes(rows), clip), text, where)
    clips = _one_row_a_clip(rows.select(name for name in rows.columns if name in CLIP_COLUMNS), where)
    own = [name for name in rows.columns if name not in CLIP_COLUMNS and name not in (clip, text, "text", "caption_id")]
    captions = rows.select("caption_id", "clip_id", "text", *own)
    empty = captions["text"].is_null() | (captions["text"].str.strip_chars() == "")
    notices = []
    if empty.any():
        notices.append(Notice(f"{empty.sum():,} rows of {where} have no text and give no caption.", left_out=True))
    return Imported(make_corpus(clips, captions.filter(~empty)), tuple(notices))


def read_table(path: Path) -> pl.DataFrame:
    """One table, whatever its kind; values of csv and tsv are text.

    Raises:
        CorpusError: it cannot be read, or a row is malformed.
    """
    frame = _READERS[path.suffix.lower()](path)
    if frame.height == 0:
        raise CorpusError(f"{path} has no row.")
    return frame


def _read_csv(path: Path) -> pl.DataFrame:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    rows = [{k: v or None for k, v in row.items()} for _, row in csv_rows(path, (), separator=separator)]
    names = dict.fromkeys(name for row in rows for name in row)
    return table(rows, {name: pl.String() for name in names})


def _read_jsonl(path: Path) -> pl.DataFrame:
    lines = [
        (f"{path}, line {n},", line) for n, line in enumerate(read_text(path).split("\n"), start=1) if line.strip()
    ]
    rows = [typed(parse_json(line, where), dict, where) for where, line in lines]
    kinds: dict[str, str] = {}
    for (where, _), row in zip(lines, rows, strict=True):
        for name, value in row.items():
            kind = _kind(value)
            if kind and kinds.setdefault(name, kind) != kind:
                raise CorpusError(
                    f"{where} field {name}, is {kind}, and in a line before {kinds[name]}; make them alike."
                )
    return table(rows, {})


def _kind(value: object) -> str | None:
    """What a JSON value is, None for null."""
    if isinstance(value, bool):
        return "true or false"
    names = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value))


def _read_parquet(path: Path) -> pl.DataFrame:
    """Every column but stored videos, which are large and not needed."""
    try:
        scan = pl.scan_parquet(path)
        return select_light(scan).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"{path} cannot be read as parquet ({error}).") from error


_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
}


def select_light(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Columns without binary ones; of a stored video {bytes, path} its path."""
    kept = []
    for name, kind in frame.collect_schema().items():
        if isinstance(kind, pl.Struct) and "path" in [one.name for one in kind.fields]:
            kept.append(pl.col(name).struct.field("path").alias(name))
        elif not isinstance(kind, pl.Binary):
            kept.append(pl.col(name))
    return frame.select(kept)


def split_of(name: str) -> str | None:
    """The split that a file or folder is called after.

    >>> split_of("test-00000-of-00002.parquet"), split_of("msvd_validation.csv"), split_of("captions.csv")
    ('test', 'val', None)
    """
    found = next((one for one in _SPLIT.finditer(name) if not name[: one.start()][-1:].isalpha()), None)
    return _SPLIT_NAMES.get(found[1].lower(), found[1].lower()) if found else None


def with_split(frame: pl.DataFrame, split: str | None) -> pl.DataFrame:
    """The table with a split in every row, unless it has its own."""
    return frame if split is None or "split" in frame.columns else frame.with_columns(pl.lit(split).alias("split"))


def _each_row_has_a_clip(frame: pl.DataFrame, where: str) -> None:
    clip = _first(frame, CLIP_NAMES, where)
    names = frame[clip].cast(pl.String, strict=False)
    for row in (names.is_null() | (names.str.strip_chars() == "")).arg_true():
        raise CorpusError(f"{where}, row {row + 1} after the header, names no clip in {clip}; name it or drop the row.")


def _first(rows: pl.DataFrame, names: Sequence[str], where: str) -> str:
    for name in names:
        if name in rows.columns:
            return name
    raise CorpusError(f"{where} has none of the columns {', '.join(names)}; it has: {', '.join(rows.columns)}.")


def _named_clips(rows: pl.DataFrame, clip: str) -> pl.DataFrame:
    """Rows with `clip_id`; a column of file names gives `path` too."""
    names = rows[clip].cast(pl.String)
    if clip == "clip_id":
        return rows.with_columns(names)
    bare = [None if name is None else stem(name) for name in names]
    files = pl.Series([one for one in names if one is not None])
    unique = files.n_unique() == len(set(bare) - {None})
    ids = pl.Series("clip_id", bare if unique else names, dtype=pl.String)
    added = [ids] if "path" in rows.columns or not _are_files(names, bare) else [ids, names.alias("path")]
    return rows.with_columns(added)


def _are_files(names: pl.Series, bare: Sequence[str | None]) -> bool:
    return any(name != short for name, short in zip(names, bare, strict=True))


def _one_row_a_clip(clips: pl.DataFrame, where: str) -> pl.DataFrame:
    distinct = clips.unique(maintain_order=True)
    if distinct["clip_id"].is_duplicated().any():
        twice = distinct.filter(pl.col("clip_id").is_duplicated() & (pl.col("clip_id") == _first_twice(distinct)))
        differing = next(name for name in twice.columns if twice[name].n_unique() > 1)
        raise CorpusError(
            f"{where} gives the clip {twice['clip_id'][0]!r} two values of {differing} "
            f"({twice[differing][0]!r} and {twice[differing][1]!r}); a clip has one."
        )
    return distinct


def _first_twice(distinct: pl.DataFrame) -> str:
    return str(distinct.filter(pl.col("clip_id").is_duplicated())["clip_id"][0])


def _with_texts(rows: pl.DataFrame, text: str, where: str) -> pl.DataFrame:
    """Rows with `text`, one caption each, and `caption_id`: the table's own, or else `CLIP#N`."""
    kind = rows.schema[text]
    if kind not in (pl.String, pl.List(pl.String), pl.Null):
        raise CorpusError(f"The column {text} of {where} holds {kind}; it must hold text, or lists of texts.")
    rows = rows.with_columns(pl.col(text).alias("text"))
    several = isinstance(kind, pl.List)
    rows = (rows.explode("text") if several else rows).with_columns(pl.col("text").cast(pl.String))
    if "caption_id" in rows.columns and not several:
        return rows.with_columns(pl.col("caption_id").cast(pl.String))
    number = pl.int_range(pl.len()).over("clip_id").cast(pl.String)
    return rows.with_columns((pl.col("clip_id") + "#" + number).alias("caption_id"))


def _with_classes(rows: pl.DataFrame) -> pl.DataFrame:
    """Lists of classes that a csv has as text, such as `[3, 12]`, as lists."""
    for name in ("verb_classes", "noun_classes"):
        if name in rows.columns and rows.schema[name] == pl.String:
            values = [None if one is None else _numbers(one, f"Row {n}, column {name},")
                      for n, one in enumerate(rows[name], start=1)]  # fmt: skip
            rows = rows.with_columns(pl.Series(name, values, dtype=CLASSES))
    return rows


def _numbers(written: str, where: str) -> list[int]:
    return [typed(one, int, where) for one in typed(parse_json(written, where), list, where)]
