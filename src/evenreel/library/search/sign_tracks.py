"""Tracks with words of a query and the clips that they are of, as columns: nothing here loops over tracks in Python.

The row numbers of a word's tracks leave SQLite as one text, in one step. A few tracks are then read one by one; many
are read from the blocks of `evenreel.library.store.track_blocks`, and their clips found by where the tracks of each
clip begin.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices
from evenreel.language.folding import words
from evenreel.library.search.lookups import SpeltWords
from evenreel.library.search.spellings import Spellings
from evenreel.library.store.fulltext import MAX_CONTENT_WORDS, phrase
from evenreel.library.store.timed_texts import ON_SCREEN, TimedTexts
from evenreel.library.store.track_blocks import COLUMNS, facts_of, read_facts

FEW = 5_000
"""Most tracks that are read one by one, which needs nothing that is read once for each state of the catalog."""

BETWEEN = "\x1f"


@dataclass(frozen=True, eq=False)
class WordTracks:
    """Tracks on which one word of a query stands: ids (N,), rising, and how alike its best spelling there is (N,)."""

    tracks: Indices
    alike: Column


@dataclass(frozen=True, eq=False)
class ClipTracks:
    """N tracks of C clips.

    Attributes:
        tracks: (N,) their ids, rising.
        clips: (N,) place of each one's clip in `clip_ids`.
        clip_ids: (C,) ids of the clips in UTF-8, rising.
        read: function from numbers of tracks (n,), places in `tracks`, and a column of `track_blocks.COLUMNS` to
            values (n,).
    """

    tracks: Indices
    clips: Indices
    clip_ids: NDArray[np.bytes_]
    read: Callable[[Indices, str], Column]

    def only(self, kept: Flags) -> ClipTracks:
        """Return the tracks of some clips, (C,) True for those."""
        if kept.all():
            return self
        rows = np.flatnonzero(kept[self.clips])
        clips = (np.cumsum(kept) - 1)[self.clips[rows]]
        return ClipTracks(
            self.tracks[rows], clips, self.clip_ids[kept], lambda some, column: self.read(rows[some], column)
        )


class SignReader:
    """Reader of the tracks of one state of a catalog, or of its utterances as if they were tracks.

    Attributes:
        words: reader of how words are spelt there.
    """

    def __init__(self, connection: sqlite3.Connection, kind: TimedTexts = ON_SCREEN) -> None:
        self.connection, self.kind = connection, kind
        self.words = SpeltWords(connection)

    def with_words(self, looked_for: Spellings) -> dict[str, Indices]:
        """Find the ids of the tracks with each word or pair of words, rising; without those that no track has."""
        found = {spelt: self._with_word(spelt) for spelt in looked_for}
        return {spelt: tracks for spelt, tracks in found.items() if len(tracks)}

    def with_phrase(self, looked_for: Spellings) -> dict[str, Indices]:
        """Find the ids of the tracks with a phrase as it is, rising.

        The index of signs has each word of a sign once: signs that have all of several words are read.
        """
        if self.kind is not ON_SCREEN or not any(" " in spelt for spelt in looked_for):
            return self.with_words(looked_for)
        (whole,) = looked_for
        together = " ".join(phrase(word) for word in list(dict.fromkeys(whole.split()))[:MAX_CONTENT_WORDS])
        rows = self.connection.execute(
            f"SELECT {self.kind.key}, text, readings FROM {self.kind.table} WHERE {self.kind.key} IN"
            f" (SELECT rowid FROM {self.kind.words} WHERE {self.kind.words} MATCH ?) ORDER BY {self.kind.key}",
            (together,),
        )
        tracks = [key for key, text, readings in rows if _has_phrase([text, *json.loads(readings)], whole)]
        return {whole: np.array(tracks, np.int64)} if tracks else {}

    def of_clips(self, tracks: Indices) -> ClipTracks:
        """Read the clips of tracks."""
        if len(tracks) > FEW:
            return self._many(tracks)
        return self._few(tracks)

    def _with_word(self, spelt: str) -> Indices:
        (found,) = self.connection.execute(
            f"SELECT group_concat(rowid) FROM {self.kind.words} WHERE {self.kind.words} MATCH ?", (phrase(spelt),)
        ).fetchone()
        return numbers_of(found)

    def _few(self, tracks: Indices) -> ClipTracks:
        rows = self.connection.execute(
            f"SELECT clip_id, {facts_of(self.kind)} FROM {self.kind.table}"
            f" WHERE {self.kind.key} IN (SELECT value FROM json_each(?)) ORDER BY {self.kind.key}",
            (json.dumps(tracks.tolist()),),
        ).fetchall()
        ids, found, *facts = zip(*rows, strict=True) if rows else ((),) * (2 + len(COLUMNS))
        clip_ids = sorted(set(ids))
        place = {clip_id: number for number, clip_id in enumerate(clip_ids)}
        columns = dict(zip(COLUMNS, (np.array(fact, np.float64) for fact in facts), strict=True))
        clips = np.array([place[clip_id] for clip_id in ids], np.int64)
        encoded = ids_of(BETWEEN.join(clip_ids).encode() if clip_ids else None)
        return ClipTracks(np.array(found, np.int64), clips, encoded, lambda some, column: columns[column][some])

    def _many(self, tracks: Indices) -> ClipTracks:
        clips, clip_ids = self._owners.of(tracks), self._owners.clip_ids
        has = np.zeros(len(clip_ids), np.bool_)
        has[clips] = True
        return ClipTracks(
            tracks,
            (np.cumsum(has) - 1)[clips],
            clip_ids[has],
            lambda rows, column: read_facts(self.connection, self.kind, tracks[rows], column),
        )

    @cached_property
    def count(self) -> int:
        """Number of tracks of the catalog."""
        found: int = self.connection.execute(f"SELECT count(*) FROM {self.kind.table}").fetchone()[0]
        return found

    @cached_property
    def _owners(self) -> Owners:
        return _load_owners(self.connection, self.kind)


def _has_phrase(texts: Iterable[str], whole: str) -> bool:
    return any(f" {whole} " in f" {' '.join(words(text))} " for text in texts)


@dataclass(frozen=True, eq=False)
class Owners:
    """Clips of all tracks of a catalog: the ids of a clip's tracks are one stretch, or in odd cases several.

    Attributes:
        clip_ids: (C,) ids of the clips with tracks in UTF-8, rising.
        first: (S,) first track id of each stretch, rising.
        clips: (S,) place of its clip in `clip_ids`.
    """

    clip_ids: NDArray[np.bytes_]
    first: Indices
    clips: Indices

    def of(self, tracks: Indices) -> Indices:
        """Find the places of the clips of tracks (N,), ids that the catalog has."""
        return self.clips[np.searchsorted(self.first, tracks, "right") - 1]


def _load_owners(connection: sqlite3.Connection, kind: TimedTexts) -> Owners:
    """Read where each clip's tracks begin: one stretch a clip, or each track by itself where others lie between."""
    ids, first, lacking = connection.execute(
        f"SELECT CAST(group_concat(clip_id, '{BETWEEN}') AS BLOB), group_concat(first), group_concat(lacking) FROM"
        f" (SELECT clip_id, min({kind.key}) AS first, max({kind.key}) - min({kind.key}) + 1 - count(*) AS lacking"
        f" FROM {kind.table} GROUP BY clip_id)"
    ).fetchone()
    clip_ids = ids_of(ids)
    starts, clips = [numbers_of(first)], [np.arange(len(clip_ids))]
    for clip in np.flatnonzero(numbers_of(lacking)).tolist():
        clip_id = clip_ids[clip].decode()
        rows = connection.execute(f"SELECT {kind.key} FROM {kind.table} WHERE clip_id = ?", (clip_id,)).fetchall()
        starts.append(np.array(rows, np.int64)[:, 0])
        clips.append(np.full(len(rows), clip))
    stretches, place = np.unique(np.concatenate(starts), return_index=True)
    return Owners(clip_ids, stretches, np.concatenate(clips)[place])


def by_word(found: Mapping[str, Indices], looked_for: Spellings, terms: int) -> list[WordTracks]:
    """Put the tracks of all spellings of each query word together."""
    spelt: list[list[tuple[Indices, float]]] = [[] for _ in range(terms)]
    for spelling, tracks in found.items():
        for place, similarity in looked_for[spelling].items():
            spelt[place].append((tracks, similarity))
    return [_best(one) for one in spelt]


def _best(spelt: Sequence[tuple[Indices, float]]) -> WordTracks:
    """The tracks of all spellings of a word, each once with the most similar."""
    if not spelt:
        return WordTracks(np.empty(0, np.int64), np.empty(0))
    tracks = np.concatenate([tracks for tracks, _ in spelt])
    alike = np.repeat([similarity for _, similarity in spelt], [len(tracks) for tracks, _ in spelt])
    if len(spelt) == 1:
        return WordTracks(tracks, alike)
    order = np.argsort(tracks, kind="stable")  # merges runs that rise
    tracks, alike = tracks[order], alike[order]
    first = np.flatnonzero(np.diff(tracks, prepend=-1))
    return WordTracks(tracks[first], np.maximum.reduceat(alike, first))


def unique_tracks(words: Sequence[WordTracks]) -> Indices:
    """Return the ids of all tracks with any of the words, (N,), rising."""
    some = [word.tracks for word in words if len(word.tracks)]
    if len(some) < 2:
        return some[0] if some else np.empty(0, np.int64)
    tracks = np.sort(np.concatenate(some), kind="stable")  # merges runs that rise
    return tracks[np.flatnonzero(np.diff(tracks, prepend=-1))]


def ids_of(text: bytes | None) -> NDArray[np.bytes_]:
    """Split ids in UTF-8 with `BETWEEN` between them, (C,)."""
    return np.array(text.split(BETWEEN.encode()), np.bytes_) if text is not None else np.empty(0, "S1")


def numbers_of(text: str | None) -> Indices:
    """Read whole numbers of a text with commas between them, (N,)."""
    return np.fromstring(text, np.int64, sep=",") if text else np.empty(0, np.int64)
