"""Clips that a result could have shown, in columns: their sources, lengths and whether words are on screen."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices
from evenreel.files import FileState
from evenreel.library.search.filters import Filter, passing
from evenreel.wording import printable

MAX_SOURCES = 20
"""Sources that are compared one by one, the most frequent of the library; the rest count as one."""

RANGES = 6
"""Ranges of length with about as many clips in each; the mean rank of six keeps 97 % of what single ranks tell."""

UNKNOWN = "unknown"
OTHERS = "other sources"

_READABLE = np.array([1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9, 10])


@dataclass(frozen=True, eq=False)
class LibraryClips:
    """All C clips of a library with a file that is there, by their ids; arrays are (C,)."""

    clip_ids: NDArray[np.bytes_]  # their ids
    source_names: tuple[str, ...]  # names of the sources, in any order
    sources: Indices  # index into `source_names` of the source of each clip's first file
    lengths_s: Column  # length in seconds; NaN where it is unknown
    text_read: Flags  # True where on-screen text was read
    has_words: Flags  # True where on-screen text was found
    several: tuple[str, ...]  # ids of the clips of several files, of which a filter may leave out the first


@dataclass(frozen=True, eq=False)
class Population:
    """All C clips that pass a filter, by their ids, rising; arrays are (C,)."""

    clip_ids: NDArray[np.bytes_]  # their ids
    source_names: tuple[str, ...]  # names of the sources, most frequent first
    sources: Indices  # index into `source_names` of each clip's source
    lengths_s: Column  # length in seconds; NaN where it is unknown
    text_read: Flags  # True where on-screen text was read
    has_words: Flags  # True where on-screen text was found

    def places(self, clip_ids: Iterable[str]) -> Indices:
        """Find the places of N clips, (N,); -1 for one that is not among these."""
        return places_of(self.clip_ids, as_bytes(clip_ids))

    @cached_property
    def length_ranges(self) -> tuple[list[float], NDArray[np.int64], float]:
        """Lower edges of the ranges of length, number of clips in each, and the median length; none where unknown."""
        known_s = self.lengths_s[~np.isnan(self.lengths_s)]
        edges = length_edges(known_s) if len(known_s) else []
        if len(edges) < 2:
            return [], np.empty(0, np.int64), math.nan
        return edges, np.histogram(known_s, [*edges, np.inf])[0], float(np.median(known_s))

    @cached_property
    def counts(self) -> tuple[list[int], int, int]:
        """Numbers of clips by source, of clips on which text was read, and of those on which some was found."""
        by_source = np.bincount(self.sources, minlength=len(self.source_names)).tolist()
        return by_source, int(self.text_read.sum()), int((self.has_words & self.text_read).sum())

    def without(self, clip_id: str) -> Population:
        """Return the population without one clip; unchanged where it has no such clip."""
        (gone,) = self.places([clip_id]).tolist()
        if gone < 0:
            return self
        return Population(
            clip_ids=np.delete(self.clip_ids, gone),
            source_names=self.source_names,
            sources=np.delete(self.sources, gone),
            lengths_s=np.delete(self.lengths_s, gone),
            text_read=np.delete(self.text_read, gone),
            has_words=np.delete(self.has_words, gone),
        )


def as_bytes(clip_ids: Iterable[str]) -> NDArray[np.bytes_]:
    """Return ids side by side in UTF-8, (N,), which take a quarter of what texts take."""
    return np.array([clip_id.encode("utf-8", "surrogateescape") for clip_id in clip_ids], np.bytes_)


def places_of(known: NDArray[np.bytes_], wanted: NDArray[np.bytes_]) -> Indices:
    """Find the places of N ids among known ones, rising: (N,); -1 for one that is not there."""
    if not len(known) or not len(wanted):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, at, -1)


def read_clips(connection: sqlite3.Connection) -> LibraryClips:
    """Read all clips that a search could find, each with its first file's source."""
    rows = connection.execute(
        "SELECT files.clip_id, json_extract(files.metadata, '$.source'), clips.duration_s, clips.has_text"
        " FROM files JOIN clips ON clips.clip_id = files.clip_id WHERE files.state = 'indexed' ORDER BY files.path DESC"
    )
    clips: dict[str, tuple[object, ...]] = {}
    several: set[str] = set()
    for clip_id, *about in rows:  # of a clip's files the first one comes last
        if clip_id in clips:
            several.add(clip_id)
        clips[clip_id] = tuple(about)
    clips = dict(sorted(clips.items(), key=lambda one: one[0].encode("utf-8", "surrogateescape")))
    sources, lengths_s, text_read = zip(*clips.values(), strict=True) if clips else ((),) * 3
    number: dict[str, int] = {}
    coded = [number.setdefault(_source_name(source), len(number)) for source in sources]
    clip_ids = as_bytes(clips)
    written = as_bytes(clip_id for (clip_id,) in connection.execute("SELECT DISTINCT clip_id FROM tracks"))
    return LibraryClips(
        clip_ids=clip_ids,
        source_names=tuple(number),
        sources=np.array(coded, np.int64),
        lengths_s=np.array(lengths_s, np.float64),
        text_read=np.array(text_read, np.bool_),
        has_words=np.isin(np.arange(len(clips)), places_of(clip_ids, written)),
        several=tuple(several),
    )


def filtered(connection: sqlite3.Connection, clips: LibraryClips, where: Filter) -> Population:
    """Return those of all clips that a search with a filter could find, each with the first file that passes it."""
    passed = {clip_id for (clip_id,) in passing(connection, "DISTINCT files.clip_id", where)}
    rows = np.sort(places_of(clips.clip_ids, as_bytes(passed)))
    rows = rows[rows >= 0]
    names, sources = clips.source_names, clips.sources
    if clips.several:
        names, sources = _sources_of_several(connection, clips, where)
    names, coded = _most_frequent_first(names, sources[rows])
    return Population(
        clip_ids=clips.clip_ids[rows],
        source_names=names,
        sources=coded,
        lengths_s=clips.lengths_s[rows],
        text_read=clips.text_read[rows],
        has_words=clips.has_words[rows],
    )


def _sources_of_several(
    connection: sqlite3.Connection, clips: LibraryClips, where: Filter
) -> tuple[tuple[str, ...], Indices]:
    """Names of the sources and the source of each clip, for clips of several files by those that pass a filter."""
    number, sources = {name: place for place, name in enumerate(clips.source_names)}, clips.sources.copy()
    rows = connection.execute(
        "SELECT files.clip_id, json_extract(files.metadata, '$.source') FROM json_each(?) AS wanted"
        " CROSS JOIN files ON files.clip_id = wanted.value CROSS JOIN clips ON clips.clip_id = files.clip_id"
        f" WHERE files.state = 'indexed' AND {where.sql} ORDER BY files.path DESC",
        (json.dumps(clips.several), *where.parameters),
    )
    for clip_id, source in rows:  # of a clip's files the first one comes last
        sources[places_of(clips.clip_ids, as_bytes([clip_id]))] = number.setdefault(_source_name(source), len(number))
    return tuple(number), sources


def _source_name(source: object) -> str:
    return UNKNOWN if source in {None, ""} else printable(str(source))


def _most_frequent_first(names: Sequence[str], sources: Indices) -> tuple[tuple[str, ...], Indices]:
    """Names of the sources, the most frequent first and those that are too many as one, and which each clip has."""
    counts = np.bincount(sources, minlength=len(names)).tolist()
    there = [source for source in range(len(names)) if counts[source]]
    ordered = sorted(there, key=lambda source: (-counts[source], names[source]))
    place = np.zeros(len(names), np.int64)
    place[ordered] = np.minimum(np.arange(len(ordered)), MAX_SOURCES)
    others = [OTHERS] if len(ordered) > MAX_SOURCES else []
    return (*(names[source] for source in ordered[:MAX_SOURCES]), *others), place[sources]


class Populations:
    """Populations of a library by filter, kept in one state of its catalog."""

    def __init__(self, connection: sqlite3.Connection, read_filter: Callable[[str | None], Filter]) -> None:
        self._connection, self._read_filter = connection, read_filter
        self._clips = lru_cache(maxsize=1)(lambda _: read_clips(connection))
        self.passing = lru_cache(maxsize=2)(self._passing)

    def _passing(self, version: int, where: str | None, personal: FileState | None) -> Population:
        """What passes in one state of the catalog and of a person's own records, of which filters choose too."""
        return filtered(self._connection, self._clips(version), self._read_filter(where))


def length_edges(lengths_s: NDArray[np.float64]) -> list[float]:
    """Return the lower edges of length ranges with about as many clips in each: readable numbers, none empty.

    Where nearly all clips have one length, the ranges have about as many different lengths in each.

    Example:
        >>> length_edges(np.arange(1.0, 61.0))
        [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    """
    edges = _edges(lengths_s, lengths_s)
    return edges if len(edges) > 1 else _edges(np.unique(lengths_s), lengths_s)


def _edges(divided_s: NDArray[np.float64], lengths_s: NDArray[np.float64]) -> list[float]:
    """Where readable ranges begin that divide some lengths evenly, without those that would be empty."""
    edges = [0.0]
    for edge in sorted(map(_round_readably, np.quantile(divided_s, np.arange(1, RANGES) / RANGES))):
        if np.any((lengths_s >= edges[-1]) & (lengths_s < edge)) and lengths_s.max() >= edge:
            edges.append(edge)
    return edges


def _round_readably(seconds: float) -> float:
    """The nearest number of seconds, minutes or hours that a person would choose."""
    unit = 1 if seconds < 60 else 60 if seconds < 3600 else 3600
    scale = unit * 10.0 ** np.floor(np.log10(max(seconds, 0.1) / unit))
    return float(np.round(scale * _READABLE[np.abs(np.log(_READABLE * scale / max(seconds, 0.1))).argmin()], 6))
