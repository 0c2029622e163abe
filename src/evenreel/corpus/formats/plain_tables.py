"""A user's own csv, tsv, json, jsonl or parquet: one row a caption, or two tables `clips.*` and `captions.*`.

In a single table the clip is the first of these columns that is there: `clip_id`, `video_id`, `videoID`, `clip_name`,
`video`, `video_path`, `path`, `file_name`; the words are `text`, `caption`, `sentence`, `description`, `captions`,
`sentences`, `enCap`. A list of texts is one caption each. Standard columns of clips go to the clips, and so do others
of one value in all rows of each clip, where a clip has several, and those of `CLIP_FACTS`; the rest stays with the
captions. Classes stay too, and a clip has those of all its captions. Without a column `split`, a file that is called
after one (`train.csv`, `test-00000-of-00002.parquet`) gives its name. A json file is a list of objects, one a row; in a
folder with other tables it is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from evenreel.corpus.dataframes import as_ids
from evenreel.corpus.given_files import ReleaseFiles, csv_rows, parse_json, read_json, read_text, stem, typed
from evenreel.corpus.imported import Imported, Notice, repeated, some, table
from evenreel.corpus.tables import CAPTION_COLUMNS, CLASSES, CLIP_COLUMNS, CLIP_FACTS, make_corpus
from evenreel.errors import CorpusError
from evenreel.parquet_files import scan_table

CLIP_NAMES = ("clip_id", "video_id", "videoID", "clip_name", "video", "video_path", "path", "file_name")
_FORM = "; a row is a caption of a clip, or clips.csv and captions.csv are in one FOLDER: corpus import table FOLDER"
TEXT_NAMES = ("text", "caption", "sentence", "description", "captions", "sentences", "enCap")
CLASS_NAMES = ("verb_classes", "noun_classes")
SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
"""What is a table by its name alone."""

_FILE = "(file of the clip)"
"""Column of the clip's name while the rows of files with other columns are put together."""

_SPLIT = re.compile(r"(train|training|val|validation|valid|dev|test)(?![a-z])", re.IGNORECASE)
_SPLIT_NAMES = {"training": "train", "validation": "val", "valid": "val", "dev": "val"}


def read_tables(paths: Sequence[Path]) -> Imported:
    """Read a user's own tables of clips and captions."""
    given = ReleaseFiles("A corpus from tables", paths)
    in_folders = tables_among([path for path in given.files if path not in given.paths])
    named = [path for path in given.all("*.json", *(f"*{suffix}" for suffix in SUFFIXES)) if path in given.paths]
    files = [path for path in given.files if path in {*in_folders, *named}]
    if not files:
        raise CorpusError(given.lacks(f"a table ({', '.join(SUFFIXES)}, or .json with a list)"))
    pair = {name: [path for path in files if path.stem.lower() == name] for name in ("clips", "captions")}
    done = _read_pair(given, pair, files) if all(pair.values()) else from_captions(with_splits(given, files))
    return Imported(done.corpus, (*done.notices, *given.unread()))


def tables_among(files: Iterable[Path]) -> list[Path]:
    """Select the files that are tables by their suffix; lists in json only where there is no other table."""
    files = list(files)
    return [path for path in files if path.suffix.lower() in SUFFIXES] or [
        path for path in files if path.suffix.lower() == ".json" and isinstance(read_json(path), list)
    ]


def with_splits(given: ReleaseFiles, files: Sequence[Path]) -> dict[str, pl.DataFrame]:
    """Read tables, by file name, and give each the split that its file is named after."""
    first: dict[str, Path] = {}
    for path in files:
        if first.setdefault(str(path.with_suffix("")), path) != path:
            raise CorpusError(given.ambiguous(f"table {path.stem}", [first[str(path.with_suffix(""))], path]))
    return {str(path): with_split(read_table(path), split_of(path.name)) for path in files}


def _read_pair(given: ReleaseFiles, pair: Mapping[str, Sequence[Path]], files: Sequence[Path]) -> Imported:
    """A corpus of its two tables; what else `evenreel` writes beside them is no table to import."""
    for name, found in pair.items():
        if len(found) > 1:
            raise CorpusError(given.ambiguous(f"table {name}", found))
    clips, captions = (_with_classes(_flat(read_table(path), str(path)), str(path)) for (path,) in pair.values())
    corpus = make_corpus(clips, captions)
    own = {path for (path,) in pair.values()}
    others = [path for path in files if path not in own and path.name not in ("texts.parquet", "classes.parquet")]
    notices = repeated(corpus)
    if others:
        sentence = f"{some([path.name for path in others])}: not read, because the two tables of a corpus are there."
        notices.append(Notice(sentence, left_out=not set(given.paths).isdisjoint(others)))
    return Imported(corpus, tuple(notices))


def from_captions(frames: Mapping[str, pl.DataFrame]) -> Imported:
    """Make a corpus from tables with a row a caption."""
    where = some(list(frames))
    rows = _numbered(_with_ids(_together([_in_form(frame, name) for name, frame in frames.items()], where)))
    of_clips = [name for name in rows.columns if name in CLIP_COLUMNS and name not in CLASS_NAMES] + _constant(rows)
    clips = _with_all_classes(_one_row_a_clip(rows.select(of_clips), where), rows)
    ids = ("caption_id", "clip_id", "text")
    captions = rows.select(*ids, *(name for name in rows.columns if name not in (*ids, *of_clips)))
    empty = captions["text"].is_null() | (captions["text"].str.strip_chars() == "")
    notices = []
    if empty.any():
        notices.append(Notice(f"{empty.sum():,} rows of {where} have no text and give no caption.", left_out=True))
    try:
        corpus = make_corpus(clips, captions.filter(~empty))
    except CorpusError as error:  # its rows are not those of the files
        raise CorpusError(f"{where} make no sound corpus, with a row for each clip and caption: {error}") from error
    return Imported(corpus, (*notices, *repeated(corpus)))


def read_table(path: Path) -> pl.DataFrame:
    """Read one csv, tsv, json, jsonl or parquet table; values of csv and tsv stay text."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise CorpusError(f"{path} is no table; one ends in {', '.join(_READERS)}.")
    frame = reader(path)
    if frame.height == 0:
        raise CorpusError(f"{path} has no row.")
    return frame


def _read_csv(path: Path) -> pl.DataFrame:
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    names: list[str] = []
    rows = []
    for _, row in csv_rows(path, (), separator=separator):
        names = names or list(row)
        rows.append(tuple(row.values()))
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String()), orient="row")
    return frame.with_columns(pl.all().replace("", None))


def _read_jsonl(path: Path) -> pl.DataFrame:
    lines = [
        (f"{path}, line {n},", line) for n, line in enumerate(read_text(path).split("\n"), start=1) if line.strip()
    ]
    return _from_objects([(where, parse_json(line, where)) for where, line in lines])


def _read_json_list(path: Path) -> pl.DataFrame:
    rows = typed(read_json(path), list, str(path))
    return _from_objects([(f"{path}, entry {n},", row) for n, row in enumerate(rows, start=1)])


def _from_objects(given: Sequence[tuple[str, object]]) -> pl.DataFrame:
    """A table of JSON objects, each with its place for a message; a field is of one kind in all of them."""
    rows = [typed(row, dict, where) for where, row in given]
    kinds: dict[str, str] = {}
    for (where, _), row in zip(given, rows, strict=True):
        for name, value in row.items():
            kind = _kind(value)
            if kind and kinds.setdefault(name, kind) != kind:
                raise CorpusError(f"{where} field {name}, is {kind}, and before it {kinds[name]}; make them alike.")
    try:
        return table(rows, {})
    except (OverflowError, TypeError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"{given[0][0]} and what follows make no table ({error}).") from error


def _kind(value: object) -> str | None:
    """What a JSON value is, None for null."""
    if isinstance(value, bool):
        return "true or false"
    names = {str: "text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value))


def _read_parquet(path: Path) -> pl.DataFrame:
    """Every column but stored videos, which are large and not needed."""
    try:
        return select_light(scan_table(path)).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"{path} cannot be read as parquet ({error}).") from error


_READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json_list,
    ".parquet": _read_parquet,
}


def select_light(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Drop the binary columns of a table; a column of stored videos {bytes, path} is reduced to its paths."""
    kept = []
    for name, kind in frame.collect_schema().items():
        if isinstance(kind, pl.Struct) and "path" in [one.name for one in kind.fields]:
            kept.append(pl.col(name).struct.field("path").alias(name))
        elif not isinstance(kind, pl.Binary):
            kept.append(pl.col(name))
    return frame.select(kept)


def split_of(name: str) -> str | None:
    """Return the split that a file or folder is named after; None where there is none.

    >>> split_of("test-00000-of-00002.parquet"), split_of("msvd_validation.csv"), split_of("captions.csv")
    ('test', 'val', None)
    """
    found = next((one for one in _SPLIT.finditer(name) if not name[: one.start()][-1:].isalpha()), None)
    return _SPLIT_NAMES.get(found[1].lower(), found[1].lower()) if found else None


def is_split(name: str) -> bool:
    """Return whether a folder's name is exactly that of a split, such as `train`, and not `train_9k`."""
    return _SPLIT.fullmatch(name) is not None


def with_split(frame: pl.DataFrame, split: str | None) -> pl.DataFrame:
    """Add a column `split` with one value to a table that has no such column; None adds nothing."""
    return frame if split is None or "split" in frame.columns else frame.with_columns(pl.lit(split).alias("split"))


def _in_form(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """A file's rows with `text`, one caption each, and the clip as `clip_id`, or as `_FILE` under another name."""
    clip, text = (_first(frame, names, where) for names in (CLIP_NAMES, TEXT_NAMES))
    frame = _flat(frame, where, clip)
    names = as_ids(frame[clip])
    for row in (names.is_null() | (names.str.strip_chars() == "")).arg_true():
        raise CorpusError(f"{where}, row {row + 1} after the header, names no clip in {clip}; name it or drop the row.")
    if clip == "clip_id":
        frame = frame.with_columns(names)
    else:
        frame = frame.drop(clip).with_columns(names.alias(_FILE))
        if any(stem(name) != name for name in names.unique()) and "path" not in frame.columns:
            frame = frame.with_columns(names.alias("path"))
    return _with_texts(_with_classes(frame, where), text, where)


def _first(rows: pl.DataFrame, names: Sequence[str], where: str) -> str:
    for name in names:
        if name in rows.columns:
            return name
    raise CorpusError(f"{where} has none of the columns {', '.join(names)}; it has: {', '.join(rows.columns)}{_FORM}.")


def _flat(frame: pl.DataFrame, where: str, *more: str) -> pl.DataFrame:
    """The table, whose standard columns hold one value a row, but for classes and texts."""
    for name in {*CLIP_COLUMNS, *CAPTION_COLUMNS, *more} - {"text"}:
        kind = frame.schema.get(name, pl.Null())
        one = kind.inner if name in CLASS_NAMES and isinstance(kind, pl.List) else kind
        if one.is_nested():
            wanted = "lists of whole numbers" if name in CLASS_NAMES else "one value a row"
            raise CorpusError(f"The column {name} of {where} holds {kind}; it must hold {wanted}.")
    return frame


def _with_texts(frame: pl.DataFrame, text: str, where: str) -> pl.DataFrame:
    kind = frame.schema[text]
    if kind not in (pl.String, pl.List(pl.String), pl.List(pl.Null), pl.Null):
        raise CorpusError(f"The column {text} of {where} holds {kind}; it must hold text, or lists of texts.")
    frame = frame.rename({text: "text"})
    if isinstance(kind, pl.List):  # an id of the row cannot be that of several captions
        some_text = pl.when(pl.col("text").list.len() > 0).then("text")  # what explode makes of none differs
        frame = frame.drop("caption_id", strict=False).with_columns(some_text).explode("text")
    return frame.with_columns(pl.col("text").cast(pl.String))


def _together(frames: Sequence[pl.DataFrame], where: str) -> pl.DataFrame:
    try:
        return pl.concat(frames, how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"{where} hold a column in two kinds ({error}); make them alike.") from error


def _with_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with `clip_id`: its own, or the file without folder and extension where that tells all files apart."""
    if _FILE not in rows.columns:
        return rows
    files = rows[_FILE].drop_nulls().unique(maintain_order=True)
    bare = pl.Series([stem(name) for name in files], dtype=pl.String)
    ids = pl.col(_FILE).replace_strict(files, bare) if bare.n_unique() == len(files) else pl.col(_FILE)
    own = [pl.col("clip_id")] if "clip_id" in rows.columns else []
    return rows.with_columns(clip_id=pl.coalesce(*own, ids)).drop(_FILE)


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with `caption_id`: the table's own, or else `CLIP#N`."""
    number = pl.int_range(pl.len()).over("clip_id").cast(pl.String)
    own = [as_ids(rows["caption_id"])] if "caption_id" in rows.columns else []
    return rows.with_columns(caption_id=pl.coalesce(*own, pl.col("clip_id") + "#" + number))


def _constant(rows: pl.DataFrame) -> list[str]:
    """Columns of no standard name that say something of clips: in each clip all captions have one value."""
    several = rows.filter(pl.col("clip_id").is_duplicated())
    own = [
        name
        for name, kind in rows.schema.items()
        if name not in {*CLIP_COLUMNS, *CAPTION_COLUMNS}
        and not kind.is_nested()
        and (name in CLIP_FACTS or several[name].null_count() < several.height)
    ]
    most = rows.group_by("clip_id").agg(pl.col(own).n_unique()).select(pl.col(own).max())
    return [name for name in own if most[name].item() == 1]


def _one_row_a_clip(clips: pl.DataFrame, where: str) -> pl.DataFrame:
    distinct = clips.unique(maintain_order=True)
    twice = distinct.filter(pl.col("clip_id").is_duplicated())
    if twice.height:
        twice = twice.filter(pl.col("clip_id") == twice["clip_id"][0])
        differing = next(name for name in twice.columns if twice[name].n_unique() > 1)
        first, second = twice[differing].unique(maintain_order=True)[:2]
        raise CorpusError(
            f"{where} gives the clip {twice['clip_id'][0]!r} two values of {differing} "
            f"({first!r} and {second!r}); a clip has one."
        )
    return distinct


def _with_all_classes(clips: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Clips with the classes that any of their rows has."""
    for name in CLASS_NAMES:
        if name in rows.columns:
            known = rows.select("clip_id", name).drop_nulls()
            all_of_clip = known.group_by("clip_id").agg(pl.col(name).list.explode().unique().drop_nulls().sort())
            clips = clips.join(all_of_clip, on="clip_id", how="left", maintain_order="left")
    return clips


def _with_classes(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """Lists of classes as such, also where a csv has them as text, such as `[3, 12]`."""
    for name in set(CLASS_NAMES).intersection(frame.columns):
        if frame.schema[name] == pl.String:
            values = [None if one is None else _numbers(one, f"Row {n}, column {name},")
                      for n, one in enumerate(frame[name], start=1)]  # fmt: skip
            frame = frame.with_columns(pl.Series(name, values, dtype=CLASSES))
        try:
            frame = frame.with_columns(pl.col(name).cast(CLASSES))
        except pl.exceptions.PolarsError as error:
            raise CorpusError(
                f"The column {name} of {where} holds {frame.schema[name]}; it must hold lists of whole numbers."
            ) from error
    return frame


def _numbers(written: str, where: str) -> list[int]:
    return [typed(one, int, where) for one in typed(parse_json(written, where), list, where)]
