"""Contents of a library: the details of one clip, all its files, clips without a query, and what they are filtered by.

Functions read the catalog through the caller's connection. Names and folders are for people (see
`evenreel.files.printable`), and folders are relative to the indexed folder, so that no answer shows how a disk is
laid out.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from evenreel.errors import LibraryError, MediaError, UsageError
from evenreel.features.pool import SetAside
from evenreel.features.shards import read_shard, shard_path
from evenreel.files import file_at, is_printable, name_key, printable
from evenreel.library.index.scan import kept_patterns
from evenreel.library.search import filters
from evenreel.library.search.filters import COLUMNS, PEOPLE, Filter, FilterColumn, columns_of
from evenreel.library.search.result import SearchResult, TextHit
from evenreel.library.store.catalog import (
    CATALOG,
    MODELS,
    SHARDS,
    STILLS,
    folder_of,
    load_metadata,
    loaded_path,
    making_of,
    metadata_keys,
    no_clip,
    root_of,
    roots,
    stored_path,
    unknown_to_builtin,
)
from evenreel.library.store.meanings import without_meaning
from evenreel.library.store.user_tables import COPY
from evenreel.library.store.vectors import MEANINGS, SOUNDS
from evenreel.media.workers import FileStamp, watched_digest
from evenreel.types import Metadata, Shown

STATES = ("indexed", "set_aside", "missing")

MAX_SIGNS = 500  # most on-screen texts that are listed of one clip; a ticker has thousands


@dataclass(frozen=True)
class ClipFile:
    """A file with the content of a clip."""

    name: str  # name of the file
    folder: str  # its folder, relative to the indexed one; '' at the top of that
    state: str  # `indexed`, `set_aside` or `missing`


@dataclass(frozen=True)
class ClipDetail(Shown):
    clip_id: str
    name: str  # name of its first file, indexed ones before others
    files: tuple[ClipFile, ...]
    duration_s: float | None
    container: str
    codec: str
    width: int
    height: int
    fps: float | None
    moments: int  # number of frames that were encoded or read
    signs: tuple[TextHit, ...]  # on-screen texts in order of time, at most `MAX_SIGNS`, as they were read
    notes: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)  # metadata of its first indexed file
    starts_s: float = 0.0  # what the file's own clock shows at our time 0, in seconds
    # start and end of each shot in seconds; empty where they were not looked for
    shots: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class ListedFile:
    """A file of a library; `reason` (of `evenreel.errors.Reason`) and `sentence` say why one was skipped."""

    name: str
    folder: str
    state: str
    clip_id: str | None
    reason: str | None
    sentence: str | None
    duration_s: float | None
    size_bytes: int
    day: str | None  # when it was recorded or, where it does not say, last changed, such as `2024-05-31`


FileOrder = Literal["path", "name", "-name", "length", "-length", "size", "-size", "date", "-date"]
"""What files are sorted by; a minus before it turns the order."""


@dataclass(frozen=True)
class FilePage(Shown):
    total: int
    files: tuple[ListedFile, ...]


class Located(NamedTuple):
    """A file, and the indexed folder that holds it; `stamp` has size and times of when its content was last read."""

    path: str
    root: str
    stamp: FileStamp


@dataclass(frozen=True)
class ClipMedia(Shown):
    container: str
    codec: str
    duration_s: float | None
    files: tuple[Located, ...]


def clip_detail(connection: sqlite3.Connection, clip_id: str, shards: Path | None = None) -> ClipDetail:
    columns = ("duration_s", "container", "codec", "width", "height", "fps", "notes", "moments")
    clip = connection.execute(
        f"SELECT {', '.join(columns[:-1])}, (SELECT count(*) FROM moments WHERE moments.clip_id = clips.clip_id)"
        " FROM clips WHERE clip_id = ?",
        (clip_id,),
    ).fetchone()
    if clip is None:
        raise no_clip(clip_id)
    files = connection.execute(
        "SELECT path, name, state, metadata FROM files WHERE clip_id = ? ORDER BY state != 'indexed', path", (clip_id,)
    ).fetchall()
    signs = connection.execute(
        "SELECT text, start_s, end_s FROM tracks WHERE clip_id = ? ORDER BY start_s, number LIMIT ?",
        (clip_id, MAX_SIGNS),
    )
    shots = connection.execute("SELECT start_s, end_s FROM shots WHERE clip_id = ? ORDER BY number", (clip_id,))
    starts_s = 0.0
    with suppress(LibraryError):  # nothing of the clip depends on it but how it is played
        starts_s = read_shard(shard_path(shards, clip_id)).info.starts_s if shards else 0.0
    known, about = roots(connection), dict[str, Any](zip(columns, clip, strict=True))
    return ClipDetail(
        clip_id=clip_id,
        name=files[0][1] if files else clip_id,
        files=tuple(ClipFile(name, folder_of(loaded_path(path), known), state) for path, name, state, _ in files),
        signs=tuple(TextHit(text, (), start, end, 1.0) for text, start, end in signs if any(map(str.isalnum, text))),
        metadata=load_metadata(files[0][3]) if files and files[0][2] == "indexed" else {},
        starts_s=starts_s,
        shots=tuple(shots),
        **about | {"notes": tuple(json.loads(about["notes"]))},
    )


def list_files(
    connection: sqlite3.Connection,
    state: str | None = None,
    text: str = "",
    limit: int = 50,
    offset: int = 0,
    order: FileOrder = "path",
) -> FilePage:
    """List a page of the files in a state whose folder or name has a text in it, in any case."""
    if state is not None and state not in STATES:
        raise UsageError(f"There is no state {state!r} of a file; there are: {', '.join(STATES)}.")
    if order not in get_args(FileOrder):
        raise UsageError(f"Files cannot be sorted by {order!r}; choose of: {', '.join(get_args(FileOrder))}.")
    _check_page(limit, offset, "files")
    known, wanted, day = roots(connection), name_key(text), columns_of(connection)["date"].sql

    def shown(path: str) -> str:
        return os.path.join(folder_of(path, known), printable(os.path.basename(path)))

    files = "FROM files LEFT JOIN clips USING (clip_id) WHERE"
    columns = {"path": "path", "name": "files.name COLLATE NOCASE", "length": "duration_s", "size": "size", "date": day}
    by, down = columns[order.lstrip("-")], "DESC" if order.startswith("-") else ""
    sort = f"{by} IS NULL, {by} {down}, path"  # what is not known comes last
    rows = connection.execute(f"SELECT path {files} ?1 IS NULL OR state = ?1 ORDER BY {sort}", (state,))
    found = [stored for (stored,) in rows if not wanted or wanted in name_key(shown(loaded_path(stored)))]
    page = []
    for stored in found[offset : offset + limit]:
        name, is_in, clip_id, reason, sentence, *rest = connection.execute(
            f"SELECT name, state, files.clip_id, reason, sentence, duration_s, size, {day} {files} path = ?", (stored,)
        ).fetchone()
        path = loaded_path(stored)
        if sentence is not None:  # a decoder may name the file that it failed on
            sentence = sentence.replace(os.path.dirname(path) + os.sep, "")
        page.append(ListedFile(name, folder_of(path, known), is_in, clip_id, reason, sentence, *rest))
    return FilePage(len(found), tuple(page))


def _check_page(limit: int, offset: int, what: str) -> None:
    if limit < 1 or offset < 0:
        raise UsageError(f"{limit} {what} from number {offset} on cannot be listed; ask for 1 or more, from 0 on.")


def locate(connection: sqlite3.Connection, clip_id: str) -> ClipMedia:
    about = "SELECT container, codec, duration_s FROM clips WHERE clip_id = ?"
    for container, codec, duration_s in connection.execute(about, (clip_id,)).fetchall():
        known = roots(connection)
        rows = connection.execute(
            "SELECT path, size, mtime_ns, ctime_ns FROM files WHERE clip_id = ? AND state = 'indexed' ORDER BY path",
            (clip_id,),
        )
        found = ((loaded_path(stored), FileStamp(*stamp)) for stored, *stamp in rows)
        files = tuple(Located(path, root_of(path, known), stamp) for path, stamp in found)
        return ClipMedia(container, codec, duration_s, files)
    raise no_clip(clip_id)


def single_files(connection: sqlite3.Connection) -> list[str]:
    known = roots(connection)
    paths = (loaded_path(stored) for (stored,) in connection.execute("SELECT path FROM files ORDER BY path"))
    return [path for path in paths if root_of(path, known) not in known]


def clip_named(connection: sqlite3.Connection, name: str) -> str:
    rows = connection.execute(
        "SELECT clip_id FROM clips WHERE clip_id = ?1 UNION ALL"
        " SELECT clip_id FROM files WHERE path IN (?1, ?2) AND clip_id IS NOT NULL",
        (stored_path(name), stored_path(str(file_at(os.curdir, os.path.abspath(name))))),
    )
    for (clip_id,) in rows:
        return str(clip_id)
    end, named = "/" + name_key(name).lstrip("/"), dict[str, str]()
    if end != "/" and not re.fullmatch("[0-9a-f]{32}", name):
        for stored, clip_id in connection.execute("SELECT path, clip_id FROM files WHERE state = 'indexed'"):
            key = name_key(path := loaded_path(stored))
            if key.endswith(end) or os.path.splitext(key)[0].endswith(end):
                named.setdefault(clip_id, printable(path))
    if len(named) > 1:
        paths = ", ".join(sorted(named.values())[:MOST_NAMED]) + (", …" if len(named) > MOST_NAMED else "")
        raise UsageError(f"{len(named)} videos are named {printable(name[-80:])!r}; give the path of one: {paths}.")
    for clip_id in named:
        return clip_id
    raise no_clip(name)


MOST_NAMED = 5  # videos of one name that an error lists


# Whether a file is still the one that was indexed --------------------------------------------------------------------


REMEMBERED = 10_000  # digests


class SameContent:
    """Checks files for changed content, by size and times: no program can set a change time.

    Where these differ, a file of the same size is read and digested, as the id of a clip is the digest of its content.
    """

    def __init__(self, timeout_s: float, stopped: Callable[[], bool] = lambda: False) -> None:
        self._timeout_s, self._stopped = timeout_s, stopped
        self._digest = lru_cache(REMEMBERED)(self._read)

    def check(self, clip_id: str, file: Located, found: os.stat_result) -> Located:
        """Check that a file still has the content that was indexed, and return it with its present size and times."""
        now = FileStamp.of(found)
        if now == file.stamp:
            return file
        if now.size != file.stamp.size or self._digest(file.path, found.st_dev, found.st_ino, now) != clip_id:
            raise changed()
        return file._replace(stamp=now)

    def _read(self, path: str, device: int, inode: int, stamp: FileStamp) -> str:
        digest = watched_digest(path, self._timeout_s, self._stopped)
        after = os.stat(path, follow_symlinks=False)
        if (after.st_dev, after.st_ino, FileStamp.of(after)) != (device, inode, stamp):
            raise changed()
        return digest


def check_unchanged(path: str, stamp: FileStamp | None) -> None:
    """Refuse a file whose size or times are not those of a stamp; None fits any."""
    with suppress(OSError):
        if stamp in (None, FileStamp.of(os.stat(path, follow_symlinks=False))):
            return
    raise changed()


def changed() -> MediaError:
    return MediaError("changed_while_reading", "the file has changed since it was indexed")


# Counts and sizes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LibraryStats(Shown):
    """Counts of what a library holds, and the files that were set aside."""

    library: str
    files: int
    clips: int
    moments: int
    tracks: int
    missing: int
    hours: float
    model: str | None
    rule: str | None
    metadata: tuple[str, ...]
    set_aside: tuple[SetAside, ...]
    making: str | None = None  # the model whose vectors are made to take the place of the library's own
    sounds: str | None = None  # the model of what its clips sound like
    meaning: str | None = None  # the model of what their texts mean
    ignored: tuple[str, ...] = ()  # patterns of what the library passes over
    snapshot: str | None = None  # the published snapshot that is read; None for a library of its own

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain data, the form that `--json` prints."""
        found = asdict(self) | {"set_aside": [one.to_json() for one in self.set_aside]}
        return found if self.snapshot else {key: value for key, value in found.items() if key != "snapshot"}


def read_stats(connection: sqlite3.Connection, library: Path, meta: Mapping[str, str]) -> LibraryStats:
    counts = {
        "files": "count(*) FROM files WHERE state = 'indexed'",
        "missing": "count(*) FROM files WHERE state = 'missing'",
        "clips": "count(*) FROM clips",
        "hours": "coalesce(sum(duration_s), 0) / 3600.0 FROM clips",
        "moments": "count(*) FROM moments",
        "tracks": "count(*) FROM tracks",
    }
    found: dict[str, Any] = {name: connection.execute(f"SELECT {sql}").fetchone()[0] for name, sql in counts.items()}
    aside = connection.execute(
        "SELECT path, reason, sentence FROM files WHERE state = 'set_aside' ORDER BY path"
    ).fetchall()
    making = making_of(meta)
    return LibraryStats(
        library=str(library),
        model=meta.get("model") or None,
        rule=meta.get("rule"),
        metadata=tuple(sorted(metadata_keys(connection))),
        set_aside=tuple(SetAside("", printable(loaded_path(path)), why, told) for path, why, told in aside),
        making=making and making.name,
        ignored=kept_patterns(meta),
        sounds=SOUNDS.own(meta).get("encoder_id"),
        meaning=MEANINGS.own(meta).get("encoder_id") or None,
        **found,
    )


def notices(connection: sqlite3.Connection, meta: Mapping[str, str]) -> tuple[str, ...]:
    """What is true of every search of a library: what it cannot look at, a sentence each."""

    def none(table: str) -> bool:
        return connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is None

    if none("clips"):
        return ()
    found = (
        unknown_to_builtin(connection, meta),
        None
        if meta.get("model")
        else "Pictures are not searched: the library has no model. Add one: evenreel index FOLDER --model default.",
        "Words on screen are not searched: none were read." if none("clips WHERE has_text") else None,
        "Speech is not searched: there are no subtitles, and no speech was recognised." if none("utterances") else None,
        without_meaning(connection, meta),
    )
    return tuple(filter(None, found))


PARTS = {
    "catalog": "the catalog with its full text, and the copy of a person's own",
    "vectors": "the vectors that are searched",
    "shards": "features of each clip, from which all else can be made anew",
    "stills": "small pictures of moments",
    "models": "vectors of a model in the making",
    "others": "everything else",
}
"""Name of each part, and what it holds."""


def sizes_on_disk(library: Path) -> dict[str, int]:
    parts = {CATALOG: "catalog", COPY: "catalog", "vectors.": "vectors", "sounds.": "vectors", "meanings.": "vectors"}
    parts |= {f"{folder}{os.sep}": folder for folder in (SHARDS, STILLS, MODELS)}
    found = dict.fromkeys(PARTS, 0)
    with suppress(OSError):  # files that go meanwhile count nothing
        for path in filter(Path.is_file, library.rglob("*")):
            name = str(path.relative_to(library))
            part = next((part for start, part in parts.items() if name.startswith(start)), "others")
            with suppress(OSError):
                found[part] += path.stat().st_size
    return found


# Examples ------------------------------------------------------------------------------------------------------------

ExampleKind = Literal["read", "said", "caption"]

LONGEST_EXAMPLE, MOST_EXAMPLES, TRIED = 60, 3, 6  # characters; examples; candidates of each kind

_LETTERS = "text GLOB '*[^0-9 .,:/-]*' AND text NOT GLOB '*[\"“”:]*'"  # words, and no sign of the query language
_CANDIDATES: Mapping[ExampleKind, str] = {
    "read": f"SELECT text FROM tracks WHERE confidence > 0.9 AND length(text) BETWEEN 4 AND ?1 AND {_LETTERS}"
    " GROUP BY text ORDER BY count(DISTINCT clip_id) DESC, text LIMIT ?2",
    "said": f"SELECT text FROM utterances WHERE length(text) BETWEEN 8 AND ?1 AND {_LETTERS}"
    " ORDER BY length(text) - length(replace(text, ' ', '')) < 2, utterance_id LIMIT ?2",
    "caption": "SELECT json_extract(metadata, '$.caption') AS text FROM files WHERE state = 'indexed'"
    f" AND length(text) BETWEEN 8 AND ?1 AND {_LETTERS} ORDER BY path LIMIT ?2",
}


@dataclass(frozen=True)
class Examples:
    """Example searches that find something in a library."""

    seen: str | None  # caption of a clip, to be found in its frames; None where no clip has one
    read: str | None  # words that are on screen; None where none were read


@dataclass(frozen=True)
class TriedExample:
    """A search that finds more than weaker matches: for words on screen (`read`), words `said`, or a `caption`."""

    kind: ExampleKind
    query: str


def example_candidates(connection: sqlite3.Connection) -> dict[ExampleKind, list[str]]:
    found: dict[ExampleKind, list[str]] = {}
    for kind, sql in _CANDIDATES.items():
        texts = (str(text).strip() for (text,) in connection.execute(sql, (LONGEST_EXAMPLE, TRIED)))
        # With three different letters: what is read as PPPPRR or ★★★★ is a pattern.
        worded = (text for text in dict.fromkeys(texts) if len(set(filter(str.isalpha, text.casefold()))) > 2)
        found[kind] = [text for text in worded if all(map(is_printable, text))]
    return found


def examples(connection: sqlite3.Connection) -> Examples:
    found = example_candidates(connection)
    return Examples(next(iter(found["caption"]), None), next(iter(found["read"]), None))


def tried_examples(
    candidates: Mapping[ExampleKind, list[str]], search: Callable[[str], SearchResult]
) -> list[TriedExample]:
    """Try candidates until three are found that some clip fits: of each kind the first, then the second of each."""

    def fitting(kind: ExampleKind, texts: list[str]) -> Iterator[TriedExample]:
        for text in texts:
            with suppress(UsageError):  # words that the language of queries reads in another way
                if search(text).answering:
                    yield TriedExample(kind, text)

    in_turn = zip_longest(*(fitting(kind, texts) for kind, texts in candidates.items()))
    chosen: dict[str, TriedExample] = {}
    for example in (one for several in in_turn for one in several if one is not None):
        chosen.setdefault(example.query.casefold(), example)
        if len(chosen) == MOST_EXAMPLES:
            break
    return list(chosen.values())


# Clips without a query -----------------------------------------------------------------------------------------------

BrowseOrder = Literal["latest", "earliest", "path"]
_ORDERS: dict[BrowseOrder, str] = {
    "latest": "day IS NULL, day DESC, files.mtime_ns DESC, files.path",
    "earliest": "day IS NULL, day, files.mtime_ns, files.path",
    "path": "files.path",
}


@dataclass(frozen=True)
class BrowsedClip:
    clip_id: str
    path: str  # its first file by path, among those that pass the filter
    day: str | None  # when it was recorded or, where its file does not say, last changed, such as `2024-05-31`
    duration_s: float | None  # None where it is not known
    metadata: Metadata  # of that file


@dataclass(frozen=True)
class BrowsedPage(Shown):
    total: int
    clips: tuple[BrowsedClip, ...]


def browse(
    connection: sqlite3.Connection, where: Filter, order: BrowseOrder = "latest", limit: int = 50, offset: int = 0
) -> BrowsedPage:
    if order not in _ORDERS:
        raise UsageError(f"Clips cannot be browsed by {order!r}; there are: {', '.join(_ORDERS)}.")
    _check_page(limit, offset, "clips")
    there = f"FROM files JOIN clips USING (clip_id) WHERE state = 'indexed' AND {where.sql}"
    with filters.limited(connection, where):
        (total,) = connection.execute(f"SELECT count(DISTINCT clip_id) {there}", where.parameters).fetchone()
        rows = connection.execute(
            f"SELECT clips.clip_id, files.path, metadata, {columns_of(connection)['date'].sql} AS day, duration_s"
            f" FROM (SELECT min(files.path) AS path {there} GROUP BY clip_id) AS first"
            f" JOIN files ON files.path = first.path JOIN clips USING (clip_id)"
            f" ORDER BY {_ORDERS[order]} LIMIT ? OFFSET ?",
            (*where.parameters, limit, offset),
        ).fetchall()
    return BrowsedPage(
        total,
        tuple(
            BrowsedClip(clip_id, loaded_path(path), day, duration_s, load_metadata(metadata))
            for clip_id, path, metadata, day, duration_s in rows
        ),
    )


# What can be filtered by ---------------------------------------------------------------------------------------------

MAX_VALUES = 30  # a column with more distinct values is given by its range, or left out where it is text

NO_CHOICE = frozenset({"caption", "pair_id"})
"""Columns to leave out: `caption` is searched as text, and `pair_id` names one clip."""
DAYS = {"date": "date", "created": "recorded", "modified": "changed"}
FEW_VALUES = {
    "favourite": "favourite",
    "codec": "codec",
    "orientation": "orientation",
    "has_words": "words on screen",
    "has_speech": "speech",
}
"""Columns of days, and of few values, as people read them."""

_THERE = "EXISTS (SELECT 1 FROM files WHERE files.clip_id = clips.clip_id AND files.state = 'indexed')"

Scalar = str | int | float | bool


@dataclass(frozen=True)
class FacetValue:
    """A value of a metadata column and how many clips have it."""

    value: Scalar
    clips: int


FacetKind = Literal["values", "range", "days", "folders"]


@dataclass(frozen=True)
class Facet(Shown):
    """A column that can be filtered by, with its values where they are few, or its range where they are numbers."""

    column: str  # name as a filter writes it, in double quotes or with `metadata.` before it where it must be
    label: str  # name as people read it
    # values, most frequent first; empty past `MAX_VALUES`, except that people list their first ones
    values: tuple[FacetValue, ...] = ()
    low: float | None = None  # smallest number where a range is given; None where values are listed
    high: float | None = None  # largest number where a range is given; None where values are listed
    # `days`: values are months (`2024-05`) or years (`2024`), the latest first, for `date like '2024-05%'`;
    # `folders`: values are folders with all that is below them, for `folder = 'x' or folder like 'x/%'`
    kind: FacetKind = "values"


def facets(connection: sqlite3.Connection) -> list[Facet]:
    """List what can be filtered by, with counts of clips that have a file; what no filter can write is left out."""
    columns = columns_of(connection)
    shortest, longest = connection.execute(
        f"SELECT min(duration_s), max(duration_s) FROM clips WHERE {_THERE}"
    ).fetchone()
    length = Facet("duration_s", "length in seconds", low=shortest, high=longest, kind="range")
    found = [*([] if shortest is None else [length]), *_folders(connection, columns)]
    days = {name: list(_days(connection, name, label, columns)) for name, label in DAYS.items()}
    for name in DAYS if days["created"] else ["date"]:  # else it is the day of the last change
        found += days[name]
    for name, label in FEW_VALUES.items():
        found += _few(connection, name, label, columns)
    found += _people(connection) if PEOPLE in columns else ()
    counts = _metadata_counts(connection)
    for key in sorted(counts.keys() - NO_CHOICE):
        if column := written_column(key, counts, columns):
            found += _facet(column, printable(key), counts[key])
    return found


def written_column(key: str, keys: Collection[str], columns: Mapping[str, FilterColumn] = COLUMNS) -> str | None:
    """Return a metadata key as a filter spells it, in the shortest form that parses; None where none does."""
    quoted = '"' + key.replace('"', '""') + '"'
    plain = [key] if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) and key.lower() not in filters.WORDS else []
    ways = [*plain, quoted, *(f"metadata.{way}" for way in (*plain, quoted))]
    for way in ways:
        with suppress(UsageError):  # other columns come first
            if filters.parse_filter(f"{way} = ''", keys, columns).parameters == (f'$."{key}"', ""):
                return way
    return None


def _counts(connection: sqlite3.Connection, sql: str) -> Counter[Scalar]:
    rows = connection.execute(
        f"SELECT {sql} AS value, count(DISTINCT clip_id) FROM files JOIN clips USING (clip_id)"
        " WHERE state = 'indexed' GROUP BY value"
    )
    return Counter({value: clips for value, clips in rows if value is not None})


def _few(connection: sqlite3.Connection, name: str, label: str, columns: Mapping[str, FilterColumn]) -> Iterator[Facet]:
    """A column of a few values; one of yes and no offers yes alone, as no is only the absence."""
    if name in columns:
        counts = _counts(connection, columns[name].sql)
        yield from _facet(name, label, Counter({True: counts[1]}) if columns[name].kind == "number" else counts)


def _days(
    connection: sqlite3.Connection, name: str, label: str, columns: Mapping[str, FilterColumn]
) -> Iterator[Facet]:
    """Months of a date, or its years where these are too many, the latest first."""
    if name not in columns:
        return
    for letters in (7, 4):
        counts = _counts(connection, f"substr({columns[name].sql}, 1, {letters})")
        if 0 < len(counts) <= MAX_VALUES or (counts and letters == 4):
            latest = sorted(map(str, counts), reverse=True)[:MAX_VALUES]
            yield Facet(name, label, tuple(FacetValue(value, counts[value]) for value in latest), kind="days")
            return


def _folders(connection: sqlite3.Connection, columns: Mapping[str, FilterColumn]) -> Iterator[Facet]:
    """The folders of the first level on which files lie apart, each with the clips below it, those with most first."""
    rows = connection.execute(
        f"SELECT DISTINCT {columns['folder'].sql}, clip_id FROM files JOIN clips USING (clip_id)"
        " WHERE state = 'indexed'"
    ).fetchall()
    parted = [(folder.split(os.sep) if folder else [], clip_id) for folder, clip_id in rows]
    below: dict[str, set[str]] = {}
    for depth in range(1, 50):  # folders within each other in which nothing lies beside the next
        below = {}
        for parts, clip_id in parted:
            if len(parts) >= depth:
                below.setdefault(os.sep.join(parts[:depth]), set()).add(clip_id)
        if len(below) != 1 or any(len(parts) < depth for parts, _ in parted):
            break
    most = sorted(((folder, len(clips)) for folder, clips in below.items()), key=lambda one: (-one[1], one[0]))
    if most:
        yield Facet("folder", "folder", tuple(FacetValue(*one) for one in most[:MAX_VALUES]), kind="folders")


def _people(connection: sqlite3.Connection) -> Iterator[Facet]:
    rows = connection.execute(
        "SELECT name, count(DISTINCT clip_id) AS clips"
        " FROM people JOIN faces USING (person_id) JOIN clips USING (clip_id)"
        f" WHERE {_THERE} GROUP BY name ORDER BY clips DESC, name LIMIT ?",
        (MAX_VALUES,),
    )
    yield from _facet(PEOPLE, "people", Counter(dict(rows)))


def _metadata_counts(connection: sqlite3.Connection) -> dict[str, Counter[Scalar]]:
    """Key -> value -> how many clips have it, a clip of several files once for each value."""
    counts: dict[str, Counter[Scalar]] = {}
    rows = connection.execute(
        "SELECT clip_id, metadata FROM files WHERE state = 'indexed' AND metadata != '{}' ORDER BY clip_id"
    )
    for _, files in groupby(rows, key=lambda row: row[0]):
        entries = {entry for _, stored in files for entry in load_metadata(stored).items()}
        for key, value in entries:
            if value is not None:
                counts.setdefault(key, Counter())[value] += 1
    return counts


def _facet(column: str, label: str, counts: Counter[Scalar]) -> Iterator[Facet]:
    counts = Counter({value: clips for value, clips in counts.items() if clips and str(value).strip()})
    if len(counts) <= MAX_VALUES:
        values = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        if values:
            yield Facet(column, label, tuple(FacetValue(value, clips) for value, clips in values))
        return
    numbers = [value for value in counts if not isinstance(value, str)]
    if len(numbers) == len(counts):
        yield Facet(column, label, low=float(min(numbers)), high=float(max(numbers)), kind="range")
