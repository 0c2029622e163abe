"""Text search: clips by their on-screen text, what is said in them, file names and given captions.

`evenreel.library.search.spellings` says under which spellings a word of a query is found, with which similarity;
`sign_tracks` reads the tracks with these, `sign_scores` scores the clips. What leaves SQLite for each track, file or
clip is a number or an id in a column; texts are read of what is shown.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices
from evenreel.library.search.allowed import AllowedClips
from evenreel.library.search.compact_ids import Encoded, encoded_ids
from evenreel.library.search.hits import TextHit
from evenreel.library.search.lookups import SpeltWords, lookups
from evenreel.library.search.sign_scores import ClipScores, closeness, gap_between, rows_of, score_clips
from evenreel.library.search.sign_tracks import (
    BETWEEN,
    ClipTracks,
    SignReader,
    by_word,
    ids_of,
    numbers_of,
    unique_tracks,
)
from evenreel.library.search.spellings import (
    IN_NAMES,
    IN_SPEECH,
    ON_SIGNS,
    Spellings,
    Words,
    WordSource,
    text_counts,
    words_of,
)
from evenreel.library.store.fulltext import about_row, phrase

MAX_SHOWN = 5
MAX_ABOUT = 1000
"""Most clips that are found by their names and captions; one behind them would gain less than 1 / 1060 in fusion."""

_CLIPS_OF_FILES = (
    f"SELECT CAST(group_concat(coalesce(files.clip_id, ''), '{BETWEEN}') AS BLOB) FROM json_each(?) AS wanted"
    " LEFT JOIN about ON about.rowid = wanted.value"
    " LEFT JOIN files ON files.path = about.path AND files.state = 'indexed'"
)


@dataclass(frozen=True)
class TextMatch:
    """One clip whose text matches words of the query.

    `coverage` is the share of the query's weight that was found, 1 when every content word is there exactly;
    `score` orders the clips of a channel; `hits` are the tracks on screen or the utterances, the best first.
    """

    clip_id: str
    score: float
    coverage: float
    hits: tuple[TextHit, ...] = ()


@dataclass(frozen=True, eq=False)
class _Found:
    """Tracks that have words of a query, and with which spellings."""

    reader: SignReader
    terms: Sequence[str]
    looked_for: Spellings
    spelt: Mapping[str, Indices]
    tracks: ClipTracks

    def hits(self, rows: Indices) -> tuple[TextHit, ...]:
        """Read some of the tracks."""
        wanted, kind = self.tracks.tracks[rows].tolist(), self.reader.kind
        read = self.reader.connection.execute(
            f"SELECT text, start_s, end_s, {kind.key} FROM json_each(?) AS wanted"
            f" CROSS JOIN {kind.table} ON {kind.table}.{kind.key} = wanted.value ORDER BY wanted.key",
            (json.dumps(wanted),),
        )
        return tuple(self._hit(*track) for track in read)

    def _hit(self, text: str, start_s: float, end_s: float, track: int) -> TextHit:
        there = [spelt for spelt, tracks in self.spelt.items() if _is_among(track, tracks)]
        alike = _best_similarities([self.looked_for[spelt] for spelt in there], len(self.terms))
        matched = tuple(term for term, similarity in zip(self.terms, alike, strict=True) if similarity)
        return TextHit(text, matched, start_s, end_s, min(filter(None, alike)), tuple(sorted(there)))


@dataclass(frozen=True, eq=False)
class MatchedTracks:
    """N tracks of a clip that match words of a query.

    Attributes:
        rows: (N,) numbers to read them by.
        starts_s: (N,) when each begins.
        ends_s: (N,) when it ends.
        shares: (N,) share of the query's weight: the clip's for its best track, less for the others.
    """

    rows: Indices
    starts_s: Column
    ends_s: Column
    shares: Column


class SignMatches(Sequence[TextMatch]):
    """Clips with words of a query on screen, or said, best first: columns of scores, and what to show of a clip.

    Attributes:
        clip_ids: (C,) ids of the clips in UTF-8; of equal scores in rising order.
        scores: (C,) falling.
        coverage: (C,) shares of the query's weight.
    """

    def __init__(self, found: _Found, scored: ClipScores) -> None:
        self._found, self._scored = found, scored
        self._order = np.argsort(-scored.scores, kind="stable")
        self.clip_ids = found.tracks.clip_ids[self._order]
        self.scores, self.coverage = scored.scores[self._order], scored.coverage[self._order]

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, place: int) -> TextMatch: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TextMatch]: ...
    def __getitem__(self, place: int | slice) -> TextMatch | Sequence[TextMatch]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        score, coverage = float(self.scores[place]), float(self.coverage[place])
        return TextMatch(self.clip_ids[place].decode(), score, coverage, self.hits(place))

    def places(self, clip_ids: Encoded) -> Indices:
        """Find the places of N clips among these, (N,); -1 for one that is not."""
        ids = self._found.tracks.clip_ids
        if not len(ids) or not len(clip_ids):
            return np.full(len(clip_ids), -1)
        clips = np.minimum(np.searchsorted(ids, clip_ids), len(ids) - 1)
        return np.where(ids[clips] == clip_ids, self._place[clips], -1)

    @cached_property
    def _place(self) -> Indices:
        """The place of each clip of the tracks."""
        place = np.empty(len(self), np.int64)
        place[self._order] = np.arange(len(self))
        return place

    def hits_of(self, clip_ids: Sequence[str]) -> list[tuple[TextHit, ...]]:
        """Read the tracks of some clips that matched, the best first; none of a clip that is not among these."""
        return [self.hits(place) if place >= 0 else () for place in self.places(encoded_ids(clip_ids)).tolist()]

    def timed(self, clip_id: str) -> MatchedTracks | None:
        """Return when all tracks of a clip that matched are there; None of a clip that is not among these."""
        (place,) = self.places(encoded_ids([clip_id])).tolist()
        if place < 0:
            return None
        rows = np.flatnonzero(self._found.tracks.clips == self._order[place])
        starts_s, ends_s = (self._found.tracks.read(rows, column) for column in ("start_s", "end_s"))
        own = self._scored.own[rows]
        shares = float(self.coverage[place]) * own / max(float(own.max()), 1e-12)
        return MatchedTracks(rows, starts_s, ends_s, shares)

    def read(self, rows: Indices) -> tuple[TextHit, ...]:
        """Read tracks that `timed` has named."""
        return self._found.hits(rows)

    def hits(self, place: int) -> tuple[TextHit, ...]:
        """Read the tracks of the clip at a place that matched, the best first."""
        clip = self._order[place]
        rows = np.flatnonzero(self._found.tracks.clips == clip)
        own = self._scored.own[rows]
        times = np.stack([self._found.tracks.read(rows, column) for column in ("start_s", "end_s")])
        first = np.lexsort((times[0], -own))
        centre = int(self._scored.centre[clip])
        at = first[0] if centre < 0 else np.searchsorted(rows, centre)
        gap_s = gap_between(times[:, [at]], times)
        shown = first[np.argsort(-(own * closeness(gap_s))[first], kind="stable")][:MAX_SHOWN]
        return self._found.hits(rows[shown])


def on_screen_hits(
    signs: sqlite3.Connection | SignReader,
    query: str,
    allowed: Container[str],
    *,
    typing: bool = False,
    exact: bool = False,
) -> SignMatches:
    """Find clips with words of the query on screen, best first.

    A clip's score is the share of the query's weight (rare words weigh more, by BM25's inverse document
    frequency) that it covers, each word by its best track: similarity x recognition confidence x closeness in
    time to the track that the others are measured from. Words of one query may be spread over tracks.
    """
    signs = SignReader(signs) if isinstance(signs, sqlite3.Connection) else signs
    return _timed_hits(signs, ON_SIGNS, words_of(query, typing=typing, exact=exact), allowed)


def said_hits(
    speech: SignReader, query: str, allowed: Container[str], *, typing: bool = False, exact: bool = False
) -> SignMatches:
    """Find clips in which words of the query are said, best first.

    A clip's score is as `on_screen_hits` has it, with utterances for tracks: the words of a sentence that goes on over
    several subtitles count nearly as much as those of one.
    """
    return _timed_hits(speech, IN_SPEECH, words_of(query, typing=typing, exact=exact), allowed)


def no_hits(reader: SignReader) -> SignMatches:
    """Return no clips, of a channel that is not asked."""
    tracks = reader.of_clips(np.empty(0, np.int64))
    return SignMatches(
        _Found(reader, (), {}, {}, tracks), score_clips(tracks, rows_of(by_word({}, {}, 1), tracks.tracks), (1.0,))
    )


def _timed_hits(signs: SignReader, source: WordSource, wanted: Words, allowed: Container[str]) -> SignMatches:
    connection = signs.connection
    weights = _weights(text_counts(connection, wanted.terms, source), signs.count)
    looked_for = lookups(signs.words, wanted, source)
    spelt = signs.with_phrase(looked_for) if wanted.exact else signs.with_words(looked_for)
    words = by_word(spelt, looked_for, len(wanted.terms))
    tracks = signs.of_clips(unique_tracks(words))
    tracks = tracks.only(_which(allowed, tracks.clip_ids))
    scored = score_clips(tracks, rows_of(words, tracks.tracks), weights)
    return SignMatches(_Found(signs, wanted.terms, looked_for, spelt, tracks), scored)


def about_hits(
    known: sqlite3.Connection | SpeltWords,
    query: str,
    allowed: Container[str],
    *,
    typing: bool = False,
    exact: bool = False,
) -> list[TextMatch]:
    """Find clips whose file name or given caption has words of the query, best first.

    A clip's score is the share of the query's weight that its name and caption cover; of a clip with several files, the
    best of theirs. At most 1,000 clips: those whose names and captions have most of the words, by BM25.
    """
    known = SpeltWords(known) if isinstance(known, sqlite3.Connection) else known
    connection, wanted = known.connection, words_of(query, typing=typing, exact=exact)
    if not wanted.terms:
        return []
    weights = _weights(text_counts(connection, wanted.terms, IN_NAMES), _count(connection, "about_docsize"))
    looked_for = lookups(known, wanted, IN_NAMES)
    shares: dict[str, float] = {}
    for clip_id, name, caption in _named(connection, looked_for, allowed):
        there = f" {name} \n {caption} "
        spelt = [places for words, places in looked_for.items() if f" {words} " in there]
        shares[clip_id] = max(_share(weights, _best_similarities(spelt, len(weights))), shares.get(clip_id, 0.0))
    found = [TextMatch(clip_id, share, share) for clip_id, share in shares.items()]
    return sorted(found, key=lambda written: -written.score)


def _named(
    connection: sqlite3.Connection, looked_for: Iterable[str], allowed: Container[str]
) -> Iterator[tuple[str, str, str]]:
    """Clip, name and caption of the matching files of the first clips, in the clips' order."""
    (found,) = connection.execute(
        "SELECT group_concat(rowid) FROM (SELECT rowid FROM about WHERE about MATCH ? ORDER BY rank, path)",
        (" OR ".join(map(phrase, looked_for)),),
    ).fetchone()
    rows = numbers_of(found)
    chosen = _first_clips(connection, rows, allowed)
    for clip_id, path in connection.execute(
        "SELECT clip_id, path FROM files WHERE state = 'indexed' AND clip_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(chosen)),),
    ):
        row = about_row(path)
        if row not in chosen[clip_id] and row in rows:  # of a clip with several files, a later one
            chosen[clip_id].append(row)
    texts = connection.execute(
        "SELECT rowid, name, caption FROM about WHERE rowid IN (SELECT value FROM json_each(?))",
        (json.dumps([row for found in chosen.values() for row in found]),),
    )
    text = {row: words for row, *words in texts}
    for clip_id, of_clip in chosen.items():
        for row in of_clip:
            name, caption = text[row]
            yield clip_id, name, caption


def _first_clips(connection: sqlite3.Connection, rows: Indices, allowed: Container[str]) -> dict[str, list[int]]:
    """The first allowed clips of the files in some rows of the index, each with a row."""
    chosen: dict[str, list[int]] = {}
    for part in (slice(0, 2 * MAX_ABOUT), slice(2 * MAX_ABOUT, None)):  # where most are allowed, the rest is not read
        if not len(rows[part]):
            break
        (ids,) = connection.execute(_CLIPS_OF_FILES, (json.dumps(rows[part].tolist()),)).fetchone()
        clip_ids = ids_of(ids)
        there = np.flatnonzero(clip_ids != b"")
        there = there[_which(allowed, clip_ids[there])]
        for row, clip_id in zip(rows[part][there].tolist(), clip_ids[there].tolist(), strict=True):
            if len(chosen) == MAX_ABOUT:
                return chosen
            chosen.setdefault(clip_id.decode(), [row])
    return chosen


def _best_similarities(spelt: Iterable[Mapping[int, float]], terms: int) -> list[float]:
    """How alike the best spelling of each query word is, 0 where there is none."""
    found = list(spelt)
    return [max((places.get(place, 0.0) for places in found), default=0.0) for place in range(terms)]


def _is_among(track: int, tracks: Indices) -> bool:
    place = int(np.searchsorted(tracks, track))
    return place < len(tracks) and int(tracks[place]) == track


def _which(allowed: Container[str], clip_ids: NDArray[np.bytes_]) -> Flags:
    """Which of some clips are allowed, (C,)."""
    if isinstance(allowed, AllowedClips):
        return allowed.among(clip_ids)
    return np.array([clip_id.decode() in allowed for clip_id in clip_ids.tolist()], np.bool_)


def _weights(counts: Iterable[int], total: int) -> list[float]:
    """BM25's inverse document frequency, always positive (Robertson and Zaragoza 2009, equation 3.15)."""
    return [math.log(1 + (total - count + 0.5) / (count + 0.5)) for count in counts]


def _share(weights: Sequence[float], found: Sequence[float]) -> float:
    """The weighted mean of what was found of each word; exactly 1 when all of all was."""
    return math.fsum(map(math.prod, zip(weights, found, strict=True))) / math.fsum(weights)


def _count(connection: sqlite3.Connection, table: str) -> int:
    """Rows of a table that this module names itself."""
    count: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return count
