"""Text search: clips by their on-screen text, file names and given captions.

`evenreel.library.search.spellings` says under which spellings a word of a query is found, with which similarity.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evenreel.library.search.hits import TextHit
from evenreel.library.search.spellings import IN_NAMES, ON_SIGNS, lookups, words_of
from evenreel.library.store.fulltext import phrase

MAX_ANCHORS = 32
MAX_SHOWN = 5
MAX_ABOUT = 1000
"""Most clips that are found by their names and captions; one behind them would gain less than 1 / 1060 in fusion."""

FAR_S = 30.0


@dataclass(frozen=True)
class TextMatch:
    """One clip whose text matches words of the query.

    `coverage` is the share of the query's weight that was found, 1 when every content word is there exactly;
    `score` orders the clips of a channel; `hits` are the on-screen tracks, the best first.
    """

    clip_id: str
    score: float
    coverage: float
    hits: tuple[TextHit, ...] = ()


@dataclass(frozen=True)
class _Track:
    text: str
    confidence: float
    start_s: float
    end_s: float
    spelt: dict[str, Mapping[int, float]]  # word or pair on it -> number of the query word -> similarity
    found: dict[int, float]  # the best of them for each


def on_screen_hits(
    connection: sqlite3.Connection, query: str, allowed: Container[str], *, typing: bool = False
) -> list[TextMatch]:
    """Find clips with words of the query on screen, best first.

    A clip's score is the share of the query's weight (rare words weigh more, by BM25's inverse document
    frequency) that it covers, each word by its best track: similarity x recognition confidence x closeness in
    time to the track that the others are measured from. Words of one query may be spread over tracks.

    Args:
        connection: the catalog.
        query: free text; nothing in it is syntax.
        allowed: ids of the clips that may be returned.
        typing: whether the last word may be the beginning of one.
    """
    wanted = words_of(query, typing=typing)
    weights = _weights(_track_counts(connection, wanted.terms), _count(connection, "tracks"))
    clips: dict[str, list[_Track]] = defaultdict(list)
    for clip_id, track in _tracks(connection, _found_tracks(connection, lookups(connection, wanted, ON_SIGNS))):
        if clip_id in allowed:
            clips[clip_id].append(track)
    scored = [_score_clip(clip_id, tracks, wanted.terms, weights) for clip_id, tracks in clips.items()]
    return sorted(scored, key=lambda written: (-written.score, written.clip_id))


def about_hits(
    connection: sqlite3.Connection, query: str, allowed: Container[str], *, typing: bool = False
) -> list[TextMatch]:
    """Find clips whose file name or given caption has words of the query, best first.

    A clip's score is the share of the query's weight that its name and caption cover; of a clip with several files, the
    best of theirs. At most 1,000 clips: those whose names and captions have most of the words, by BM25.

    Args:
        connection: the catalog.
        query: free text; nothing in it is syntax.
        allowed: ids of the clips that may be returned.
        typing: whether the last word may be the beginning of one.
    """
    wanted = words_of(query, typing=typing)
    if not wanted.terms:
        return []
    counts = [_count(connection, "about WHERE about MATCH ?", phrase(word)) for word in wanted.terms]
    weights = _weights(counts, _count(connection, "about"))
    looked_for = lookups(connection, wanted, IN_NAMES)
    rows = connection.execute(
        "SELECT files.clip_id, about.name, about.caption FROM about"
        " JOIN files ON files.path = about.path WHERE about MATCH ? AND files.state = 'indexed'"
        " ORDER BY about.rank, about.path",
        (" OR ".join(map(phrase, looked_for)),),
    )
    shares: dict[str, float] = {}
    for clip_id, name, caption in rows:
        if clip_id in shares or (len(shares) < MAX_ABOUT and clip_id in allowed):
            there = f" {name} \n {caption} "
            spelt = [places for words, places in looked_for.items() if f" {words} " in there]
            shares[clip_id] = max(_share(weights, _best_similarities(spelt, len(weights))), shares.get(clip_id, 0.0))
    found = [TextMatch(clip_id, share, share) for clip_id, share in shares.items()]
    return sorted(found, key=lambda written: -written.score)


def _found_tracks(
    connection: sqlite3.Connection, looked_for: Mapping[str, Mapping[int, float]]
) -> dict[int, dict[str, Mapping[int, float]]]:
    """Track ids with the words and pairs on them that stand for words of the query."""
    found: dict[int, dict[str, Mapping[int, float]]] = defaultdict(dict)
    for spelt, places in looked_for.items():
        for (track_id,) in connection.execute(
            "SELECT rowid FROM track_words WHERE track_words MATCH ?", (phrase(spelt),)
        ):
            found[track_id][spelt] = places
    return found


def _tracks(
    connection: sqlite3.Connection, found: dict[int, dict[str, Mapping[int, float]]]
) -> Iterator[tuple[str, _Track]]:
    rows = connection.execute(
        "SELECT track_id, clip_id, text, confidence, start_s, end_s FROM tracks"
        " WHERE track_id IN (SELECT value FROM json_each(?)) ORDER BY clip_id, number",
        (json.dumps(list(found)),),
    )
    for track_id, clip_id, text, confidence, start_s, end_s in rows:
        spelt = found[track_id]
        places = {place for places in spelt.values() for place in places}
        alike = {place: max(one.get(place, 0.0) for one in spelt.values()) for place in places}
        yield clip_id, _Track(text, confidence, start_s, end_s, spelt, alike)


def _best_similarities(spelt: Iterable[Mapping[int, float]], terms: int) -> list[float]:
    """How alike the best spelling of each query word is, 0 where there is none."""
    found = list(spelt)
    return [max((places.get(place, 0.0) for places in found), default=0.0) for place in range(terms)]


def _score_clip(clip_id: str, tracks: list[_Track], terms: Sequence[str], weights: Sequence[float]) -> TextMatch:
    """Try the tracks as the one that the others are measured from, and keep the best."""

    def own(track: _Track) -> float:
        return track.confidence * sum(weights[place] * alike for place, alike in track.found.items())

    tracks = sorted(tracks, key=lambda track: (-own(track), track.start_s))
    # A ticker may repeat a word thousands of times; the tracks with most of the query are tried.
    scores = [_score_from(anchor, tracks, weights) for anchor in tracks[:MAX_ANCHORS]]
    centre = tracks[scores.index(max(scores))]
    shown = sorted(tracks, key=lambda track: -own(track) * _closeness(centre, track))[:MAX_SHOWN]
    alike = [max(track.found.get(place, 0.0) for track in tracks) for place in range(len(terms))]
    hits = tuple(_text_hit(track, terms) for track in shown)
    return TextMatch(clip_id, max(scores), _share(weights, alike), hits)


def _score_from(anchor: _Track, tracks: list[_Track], weights: Sequence[float]) -> float:
    """The share of the query found, each word by its best track as seen from the anchor."""
    best = [0.0] * len(weights)
    for track in tracks:
        factor = track.confidence * _closeness(anchor, track)
        for place, similarity in track.found.items():
            best[place] = max(best[place], similarity * factor)
    return _share(weights, best)


def _closeness(one: _Track, other: _Track) -> float:
    """1 for tracks shown together, 3/4 at half a minute, 1/2 however far: it is still the same clip."""
    gap_s = max(0.0, one.start_s - other.end_s, other.start_s - one.end_s)
    return 0.5 + 0.5 / (1 + gap_s / FAR_S)


def _text_hit(track: _Track, terms: Sequence[str]) -> TextHit:
    matched = tuple(terms[place] for place in sorted(track.found))
    return TextHit(
        track.text, matched, track.start_s, track.end_s, min(track.found.values()), tuple(sorted(track.spelt))
    )


def _weights(counts: Iterable[int], total: int) -> list[float]:
    """BM25's inverse document frequency, always positive (Robertson and Zaragoza 2009, equation 3.15)."""
    return [math.log(1 + (total - count + 0.5) / (count + 0.5)) for count in counts]


def _share(weights: Sequence[float], found: Sequence[float]) -> float:
    """The weighted mean of what was found of each word; exactly 1 when all of all was."""
    return math.fsum(map(math.prod, zip(weights, found, strict=True))) / math.fsum(weights)


def _track_counts(connection: sqlite3.Connection, terms: Sequence[str]) -> list[int]:
    known = dict(
        connection.execute(
            "SELECT word, tracks FROM vocabulary WHERE word IN (SELECT value FROM json_each(?))",
            (json.dumps(terms),),
        ).fetchall()
    )
    return [known.get(word, 0) for word in terms]


def _count(connection: sqlite3.Connection, source: str, *parameters: str) -> int:
    """Rows of a source that this module names itself."""
    count: int = connection.execute(f"SELECT count(*) FROM {source}", parameters).fetchone()[0]
    return count
