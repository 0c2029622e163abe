"""Columns that a library can be filtered by, with their values or their range."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby

from evenreel.errors import UsageError
from evenreel.library.search.filters import ELEMENT, parse_filter
from evenreel.library.store.catalog import has_elements, load_metadata
from evenreel.wording import printable

MAX_VALUES = 30
"""A column with more distinct values is given by its range, or left out where it is text."""

NO_CHOICE = frozenset({"caption", "pair_id"})
"""Columns to leave out: `caption` is searched as text, and `pair_id` names one clip (`evenreel.library.sources`)."""

_THERE = "EXISTS (SELECT 1 FROM files WHERE files.clip_id = clips.clip_id AND files.state = 'indexed')"

Scalar = str | int | float | bool


@dataclass(frozen=True)
class FacetValue:
    """A value of a metadata column and how many clips have it."""

    value: Scalar
    clips: int


@dataclass(frozen=True)
class Facet:
    """A column that can be filtered by, with its values where they are few, or its range where they are numbers.

    Attributes:
        column: name as a filter writes it, in double quotes or with `metadata.` before it where it must be.
        label: name as people read it.
        values: values, most frequent first; empty past `MAX_VALUES`, except that scene elements list their first ones.
        low: smallest number where a range is given; None where values are listed.
        high: largest number where a range is given; None where values are listed.
    """

    column: str
    label: str
    values: tuple[FacetValue, ...] = ()
    low: float | None = None
    high: float | None = None


def facets(connection: sqlite3.Connection) -> list[Facet]:
    """List the facets: length, whether text was read, scene elements, and every metadata column usable in a filter.

    Left out are text columns of more than `MAX_VALUES` values, those of `NO_CHOICE`, and columns whose name no
    filter can write. Counts are of clips with a file that is there.
    """
    counts, elements = _metadata_counts(connection), has_elements(connection)
    found = [*_length(connection), *_text_read(connection), *(_elements(connection) if elements else ())]
    for key in sorted(counts.keys() - NO_CHOICE):
        if column := written_column(key, counts, elements=elements):
            found += _facet(column, printable(key), counts[key])
    return found


def written_column(key: str, keys: Collection[str], *, elements: bool = False) -> str | None:
    """Return a metadata key as a filter spells it, in the shortest form that parses; None where none does.

    Example:
        >>> keys = {"source", "two words", "Name"}
        >>> [written_column(key, keys) for key in ("source", "two words", "Name")]
        ['source', '"two words"', 'metadata.Name']
    """
    quoted = '"' + key.replace('"', '""') + '"'
    plain = [key] if _is_plain(key) else []
    ways = [*plain, quoted, *(f"metadata.{way}" for way in (*plain, quoted))]
    return next((way for way in ways if _names(way, key, keys, elements)), None)


def _is_plain(key: str) -> bool:
    """Whether a key is a name without quotes, and no word of SQL."""
    import sqlglot
    from sqlglot.tokens import TokenType

    if not re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII):
        return False
    return [token.token_type for token in sqlglot.tokenize(key, read="sqlite")] == [TokenType.VAR]


def _names(written: str, key: str, keys: Collection[str], elements: bool) -> bool:
    """Whether a filter understands this to be the key, for other columns come first."""
    try:
        return parse_filter(f"{written} = ''", keys, elements=elements).parameters == (f'$."{key}"', "")
    except UsageError:
        return False


def _length(connection: sqlite3.Connection) -> Iterator[Facet]:
    low, high = connection.execute(f"SELECT min(duration_s), max(duration_s) FROM clips WHERE {_THERE}").fetchone()
    if low is not None:
        yield Facet("duration_s", "length in seconds", low=low, high=high)


def _text_read(connection: sqlite3.Connection) -> Iterator[Facet]:
    rows = connection.execute(f"SELECT has_text, count(*) FROM clips WHERE {_THERE} GROUP BY has_text")
    yield from _facet("has_text", "on-screen text was read", Counter({bool(read): clips for read, clips in rows}))


def _elements(connection: sqlite3.Connection) -> Iterator[Facet]:
    rows = connection.execute(
        "SELECT phrase, count(DISTINCT clip_id) AS clips FROM clip_elements JOIN clips USING (clip_id)"
        f" WHERE {_THERE} GROUP BY phrase ORDER BY clips DESC, phrase LIMIT ?",
        (MAX_VALUES,),
    )
    yield from _facet(ELEMENT, "scene element", Counter(dict(rows)))


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
        yield Facet(column, label, low=float(min(numbers)), high=float(max(numbers)))
