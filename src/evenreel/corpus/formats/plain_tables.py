"""Readers of tables of clips and captions: csv, parquet and others, data sets of Hugging Face, paraphrases."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from evenreel.corpus.imported import (
    Imported,
    Notice,
    ReleaseFiles,
    csv_rows,
    json_field,
    optional,
    parse_json,
    read_json,
    read_text,
    repeated,
    some,
    stem,
    table,
    typed,
)
from evenreel.corpus.tables import CAPTION_COLUMNS, CLASSES, CLIP_COLUMNS, CLIP_FACTS, as_ids, make_corpus
from evenreel.documents import brief
from evenreel.errors import CorpusError
from evenreel.parquet_files import scan_table
from evenreel.types import Corpus

# A user's own csv, tsv, json, jsonl or parquet: one row a caption, or two tables `clips.*` and `captions.*`.
#
# In a single table the clip is the first of these columns that is there: `clip_id`, `video_id`, `videoID`, `clip_name`,
# `video`, `video_path`, `path`, `file_name`; the words are `text`, `caption`, `sentence`, `description`, `captions`,
# `sentences`, `enCap`. A list of texts is one caption each. Standard columns of clips go to the clips, and so do others
# of one value in all rows of each clip, where a clip has several, and those of `CLIP_FACTS`; the rest stays with the
# captions. Classes stay too, and a clip has those of all its captions. Without a column `split`, a file that is called
# after one (`train.csv`, `test-00000-of-00002.parquet`) gives its name. A json file is a list of objects, one a row;
# in a folder with other tables it is passed over.

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


# Data sets of the Hugging Face hub: by id, as a downloaded snapshot, or as a folder of `save_to_disk`.
#
# Only tables are read (parquet, arrow, csv, jsonl, json), never a loading script. Columns are those of `plain_tables`.
# The package `datasets` is not needed. Of a data set with several configurations one is read, since the same captions
# may be in several.

CONVERTED = "refs/convert/parquet"
"""Branch where the hub keeps every public data set as parquet."""

_CONFIGURATION = re.compile(r"""\bconfig_name:[ ]*["']?([^\s"']+)""")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read_hugging_face(paths: Sequence[Path]) -> Imported:
    """Read one data set of the Hugging Face hub."""
    if len(paths) != 1:
        raise CorpusError(f"A Hugging Face data set is one folder or one id; {len(paths)} were given.")
    source = paths[0] if paths[0].exists() else _download(paths[0].as_posix())
    tables = [source] if source.is_file() else _tables(source)
    if not tables:
        raise CorpusError(f"{source} holds no table ({', '.join((*SUFFIXES, '.json', '.arrow'))}).")
    if len(several := _configurations(source, tables)) > 1:
        raise CorpusError(
            f"{source} has several configurations: {', '.join(several)}; give one of them by its folder or file there, "
            "since the captions of one may be in another too."
        )
    return from_captions({str(path): with_split(_read(path), _split(path, source)) for path in tables})


def _tables(folder: Path) -> list[Path]:
    """Tables of a snapshot or of `save_to_disk`, which names its own."""
    arrow = [path for state in sorted(folder.rglob("state.json")) for path in _saved(state)]
    return arrow or tables_among(path for path in sorted(folder.rglob("*")) if path.is_file())


def _saved(state: Path) -> list[Path]:
    """The files that a `state.json` names beside it; none where it is that of another program."""
    files = []
    for n, entry in enumerate(optional(read_json(state), "_data_files", list, str(state)) or [], start=1):
        where = f"{state}, _data_files entry {n},"
        name = json_field(entry, "filename", str, where)
        if name in ("", ".", "..") or Path(name).name != name:
            raise CorpusError(f"{where} names {brief(name)}, which is no file of its folder.")
        files.append(state.parent / name)
    return files


def _configurations(source: Path, tables: Sequence[Path]) -> list[str]:
    """Configurations that the data set's card names, or else the folders that tables of several are in."""
    card = source / "README.md"
    if source.is_dir() and card.is_file():
        header = read_text(card).partition("---")[2].partition("\n---")[0]
        if named := set(_CONFIGURATION.findall(header)):
            return sorted(named)
    shared = len(Path(os.path.commonpath([path.parent for path in tables])).parts)
    below = [path.parts[shared:] for path in tables]
    found = set()
    for folder, *inside in below:  # not that of a split: `train_9k/train/0000.parquet`, and not `train_9k/0000.parquet`
        of_split = _SPLIT.fullmatch(folder) if any(map(split_of, inside)) else split_of(folder)
        if inside and not of_split:
            found.add(folder)
    return sorted(found)


def _split(path: Path, root: Path) -> str | None:
    """The split that the file, or else a folder between it and the root, is called after."""
    names = [path.name] if path == root else [path.name, *reversed(path.relative_to(root).parts[:-1])]
    return next((split for name in names if (split := split_of(name))), None)


def _read(path: Path) -> pl.DataFrame:
    if path.suffix != ".arrow":
        return read_table(path)
    try:
        return select_light(pl.read_ipc_stream(path).lazy()).collect()
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise CorpusError(f"{path} cannot be read as an arrow stream ({error}).") from error


def _download(hub_id: str) -> Path:
    if not _HUB_ID.fullmatch(hub_id):
        raise CorpusError(f"{hub_id} is neither a folder or table that exists nor a hub id such as owner/name.")
    folder = _snapshot(hub_id, "main")
    return folder if _tables(folder) else _snapshot(hub_id, CONVERTED)


def _snapshot(hub_id: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = ["README.md", "*.json", *(f"*{suffix}" for suffix in SUFFIXES)]
    try:
        return Path(snapshot_download(hub_id, repo_type="dataset", revision=revision, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CorpusError(
            f"The data set {hub_id} cannot be downloaded ({first}); check its id and the network."
        ) from error


# The user's own paraphrases of captions, read from a table with a row for each caption.

ID, TEXT = "caption_id", "paraphrase"


def read_paraphrases(path: Path, corpus: Corpus) -> dict[str, str]:
    """Read a table of paraphrases by caption id; captions that it does not name have none."""
    table = read_table(path)
    if missing := [name for name in (ID, TEXT) if name not in table.columns]:
        raise CorpusError(f"{path} has no column {missing[0]!r}; it needs {ID} and {TEXT}, a row a caption.")
    rows = pl.DataFrame([as_ids(table[ID]), table[TEXT].cast(pl.String)])
    empty = rows.select(pl.any_horizontal(pl.all().fill_null("").str.strip_chars() == "").alias("empty"))["empty"]
    if empty.any():
        raise CorpusError(f"Row {empty.arg_true()[0] + 1} of {path} lacks {ID} or {TEXT}; fill both, or drop the row.")
    twice = rows.filter(rows[ID].is_duplicated())[ID].unique(maintain_order=True).to_list()
    if twice:
        raise CorpusError(f"{path} names captions twice ({some(twice)}); give each one row.")
    strangers = rows.filter(~pl.col(ID).is_in(corpus.captions[ID].implode()))[ID].to_list()
    if strangers:
        raise CorpusError(
            f"{path} names captions that are not in the corpus ({some(strangers)}); their ids are those of its column "
            f"{ID}."
        )
    return dict(rows.iter_rows())
