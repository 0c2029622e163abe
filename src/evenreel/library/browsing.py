"""Clips of a library without a query, and the columns that they can be filtered by, with values or a range."""

from __future__ import annotations

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from evenreel.errors import UsageError
from evenreel.library.search.filters import (
    COLUMNS,
    PEOPLE,
    WORDS,
    Filter,
    FilterColumn,
    columns_of,
    limited,
    parse_filter,
)
from evenreel.library.store.catalog import load_metadata, loaded_path
from evenreel.types import Metadata
from evenreel.wording import printable

BrowseOrder = Literal["latest", "earliest", "path"]

_ORDERS: dict[BrowseOrder, str] = {
    "latest": "day IS NULL, day DESC, files.mtime_ns DESC, files.path",
    "earliest": "day IS NULL, day, files.mtime_ns, files.path",
    "path": "files.path",
}


@dataclass(frozen=True)
class BrowsedClip:
    """A clip that is there."""

    clip_id: str
    path: str  # its first file by path, among those that pass the filter
    day: str | None  # when it was recorded or, where its file does not say, last changed, such as `2024-05-31`
    duration_s: float | None  # None where it is not known
    metadata: Metadata  # of that file


@dataclass(frozen=True)
class BrowsedPage:
    """A page of clips; `total` counts those of all pages."""

    total: int
    clips: tuple[BrowsedClip, ...]


def browse(
    connection: sqlite3.Connection, where: Filter, order: BrowseOrder = "latest", limit: int = 50, offset: int = 0
) -> BrowsedPage:
    """List a page of the clips that pass a filter."""
    if order not in _ORDERS:
        raise UsageError(f"Clips cannot be browsed by {order!r}; there are: {', '.join(_ORDERS)}.")
    if limit < 1 or offset < 0:
        raise UsageError(f"{limit} clips from number {offset} on cannot be listed; ask for 1 or more, from 0 on.")
    there = f"FROM files JOIN clips USING (clip_id) WHERE state = 'indexed' AND {where.sql}"
    with limited(connection, where):
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

MAX_VALUES = 30
"""A column with more distinct values is given by its range, or left out where it is text."""

NO_CHOICE = frozenset({"caption", "pair_id"})
"""Columns to leave out: `caption` is searched as text, and `pair_id` names one clip."""

DAYS = {"date": "date", "created": "recorded", "modified": "changed"}
FEW_VALUES = {
    "favourite": "favourite",
    "codec": "codec",
    "orientation": "orientation",
    "has_words": "has words on screen",
    "has_speech": "has speech",
    "has_text": "on-screen text was read",
}
"""Columns of days, and of few values, as people read them."""

_MOST_LEVELS = 50  # of folders within each other in which nothing lies beside the next
_THERE = "EXISTS (SELECT 1 FROM files WHERE files.clip_id = clips.clip_id AND files.state = 'indexed')"

Scalar = str | int | float | bool


@dataclass(frozen=True)
class FacetValue:
    """A value of a metadata column and how many clips have it."""

    value: Scalar
    clips: int


FacetKind = Literal["values", "range", "days", "folders"]


@dataclass(frozen=True)
class Facet:
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
    """List the facets: what every library has, people with names, and every metadata column usable in a filter.

    Left out are text columns of more than `MAX_VALUES` values, those of `NO_CHOICE`, and columns whose name no
    filter can write. Counts are of clips with a file that is there.
    """
    columns = columns_of(connection)
    found = [*_length(connection), *_folders(connection, columns)]
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
    """Return a metadata key as a filter spells it, in the shortest form that parses; None where none does.

    Example:
        >>> keys = {"source", "two words", "Name"}
        >>> [written_column(key, keys) for key in ("source", "two words", "Name")]
        ['source', '"two words"', 'metadata.Name']
    """
    quoted = '"' + key.replace('"', '""') + '"'
    plain = [key] if re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) and key.lower() not in WORDS else []
    ways = [*plain, quoted, *(f"metadata.{way}" for way in (*plain, quoted))]
    return next((way for way in ways if _names(way, key, keys, columns)), None)


def _names(written: str, key: str, keys: Collection[str], columns: Mapping[str, FilterColumn]) -> bool:
    """Whether a filter understands this to be the key, for other columns come first."""
    try:
        return parse_filter(f"{written} = ''", keys, columns).parameters == (f'$."{key}"', "")
    except UsageError:
        return False


def _length(connection: sqlite3.Connection) -> Iterator[Facet]:
    low, high = connection.execute(f"SELECT min(duration_s), max(duration_s) FROM clips WHERE {_THERE}").fetchone()
    if low is not None:
        yield Facet("duration_s", "length in seconds", low=low, high=high, kind="range")


def _counts(connection: sqlite3.Connection, sql: str) -> Counter[Scalar]:
    """Value of an expression -> number of clips with a file of it, but for no value."""
    rows = connection.execute(
        f"SELECT {sql} AS value, count(DISTINCT clip_id) FROM files JOIN clips USING (clip_id)"
        " WHERE state = 'indexed' GROUP BY value"
    )
    return Counter({value: clips for value, clips in rows if value is not None})


def _few(connection: sqlite3.Connection, name: str, label: str, columns: Mapping[str, FilterColumn]) -> Iterator[Facet]:
    """A column of few values; one of yes and no has these."""
    if name in columns:
        counts = _counts(connection, columns[name].sql)
        is_flag = columns[name].kind == "number"
        if name == "favourite" and not counts[1]:  # which says nothing, and most libraries have none
            return
        yield from _facet(name, label, Counter({bool(v) if is_flag else v: n for v, n in counts.items()}))


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
    for depth in range(1, _MOST_LEVELS):
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
    if len(counts) <= MAX_VALUES:
        values = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
        if values:
            yield Facet(column, label, tuple(FacetValue(value, clips) for value, clips in values))
        return
    numbers = [value for value in counts if not isinstance(value, str)]
    if len(numbers) == len(counts):
        yield Facet(column, label, low=float(min(numbers)), high=float(max(numbers)), kind="range")
