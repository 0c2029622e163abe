"""Clips by what is written: words on the screen, and words of file names and given captions.

On-screen words come from a recogniser that misreads letters and drops spaces, so a query word is looked for

- exactly: similarity 1;
- as two neighbours or the whole query without spaces ('japan netherlands' in JAPANNETHERLANDS): 1;
- inside a longer word, from four letters on: 1 - 1 / (2 n), as a chance hit is likelier for a short word;
- with at most (n - 1) // 4 wrong letters: 1 - errors / n. HYUNDRI is hyundai with 1 of 7 letters wrong and is
  accepted; HYUNG has 3 and is not. The bound keeps chance low: among the 4,784 words of the TextVR test
  captions, a word of 4 letters has 3.8 others one letter away (so four letters must be right), of 5 letters
  1.4, of 7 letters 0.23; a word of 9 letters has 0.36 within two. With 3 errors, 7 letters would have 23.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evenreel.language.folding import words
from evenreel.library.fulltext import content_words, padded, phrase
from evenreel.types import TextHit

MIN_INSIDE = 4
MAX_JOINED = 8
MAX_SIMILAR_WORDS = 64
MAX_ANCHORS = 32
MAX_SHOWN = 5
MAX_ABOUT = 1000
"""Names and captions beyond this rank add less than 1 / 1060 to a fused score."""

FAR_S = 30.0


@dataclass(frozen=True)
class Written:
    """One clip that words were found in.

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
    found: dict[int, float]  # number of the query word -> similarity


def on_screen_hits(connection: sqlite3.Connection, query: str, allowed: Container[str]) -> list[Written]:
    """Clips with words of the query on screen, best first.

    A clip's score is the share of the query's weight (rare words weigh more, by BM25's inverse document
    frequency) that it covers, each word by its best track: similarity x recognition confidence x closeness in
    time to the track that the others are measured from. Words of one query may be spread over tracks.

    Args:
        connection: the catalog.
        query: free text; nothing in it is syntax.
        allowed: ids of the clips that may be returned.
    """
    asked = content_words(query)
    weights = _weights(_track_counts(connection, asked), _count(connection, "tracks"))
    clips: dict[str, list[_Track]] = defaultdict(list)
    for clip_id, track in _tracks(connection, _found_tracks(connection, asked, words(query))):
        if clip_id in allowed:
            clips[clip_id].append(track)
    scored = [_score_clip(clip_id, tracks, asked, weights) for clip_id, tracks in clips.items()]
    return sorted(scored, key=lambda written: (-written.score, written.clip_id))


def about_hits(connection: sqlite3.Connection, query: str, allowed: Container[str]) -> list[Written]:
    """Clips whose file name or given caption has words of the query, best first by BM25 (at most 1,000).

    Args:
        connection: the catalog.
        query: free text; nothing in it is syntax.
        allowed: ids of the clips that may be returned.
    """
    asked = content_words(query)
    if not asked:
        return []
    counts = [_count(connection, "about WHERE about MATCH ?", phrase(word)) for word in asked]
    weights = _weights(counts, _count(connection, "about"))
    rows = connection.execute(
        "SELECT files.clip_id, about.name || ' ' || about.caption, about.rank FROM about"
        " JOIN files ON files.path = about.path WHERE about MATCH ? AND files.state = 'indexed'"
        " ORDER BY about.rank, about.path",
        (" OR ".join(map(phrase, asked)),),
    )
    found: dict[str, Written] = {}
    for clip_id, text, rank in rows:
        if clip_id in allowed and clip_id not in found:
            there = set(text.split())
            found[clip_id] = Written(clip_id, -rank, _share(weights, [float(word in there) for word in asked]))
            if len(found) == MAX_ABOUT:
                break
    return list(found.values())


def allowed_errors(letters: int) -> int:
    """How many letters of a word may have been misread; see the top of this file."""
    return max(0, (letters - 1) // 4)


def may_be_inside(word: str) -> bool:
    """Whether a folded word is also looked for inside longer ones; in scripts without spaces two characters are one."""
    return len(word) >= MIN_INSIDE or (len(word) > 1 and word >= "\u2e80")


def similar_words(connection: sqlite3.Connection, word: str) -> dict[str, float]:
    """Words of the library's vocabulary that may be readings of a folded word, with their similarity.

    At most 64, the most similar.
    """
    found = dict(_misread(connection, word))
    found.update(_inside(connection, word))  # the better of the two where both hold
    if connection.execute("SELECT 1 FROM vocabulary WHERE word = ?", (word,)).fetchone():
        found[word] = 1.0
    best = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return dict(best[:MAX_SIMILAR_WORDS])


def _inside(connection: sqlite3.Connection, word: str) -> Iterator[tuple[str, float]]:
    """Longer words that contain this one."""
    if not may_be_inside(word):
        return
    if len(word) >= MIN_INSIDE:
        rows = connection.execute(
            "SELECT word FROM vocabulary_trigrams WHERE vocabulary_trigrams MATCH ?", (phrase(word),)
        )
    else:  # too short for trigrams
        rows = connection.execute("SELECT word FROM vocabulary WHERE instr(word, ?)", (word,))
    for (longer,) in rows:
        yield longer.strip(), 1 - 1 / (2 * len(word))


def _misread(connection: sqlite3.Connection, word: str) -> Iterator[tuple[str, float]]:
    """Words that differ from this one in a few letters."""
    from rapidfuzz.distance import Levenshtein

    errors = allowed_errors(len(word))
    if not errors:
        return
    edged = padded(word)
    trigrams = dict.fromkeys(edged[start : start + 3] for start in range(len(edged) - 2))
    rows = connection.execute(
        "SELECT word FROM vocabulary_trigrams WHERE vocabulary_trigrams MATCH ? AND length(word) BETWEEN ? AND ?",
        (" OR ".join(map(phrase, trigrams)), len(edged) - errors, len(edged) + errors),
    )
    for (other,) in rows:
        distance = Levenshtein.distance(word, other.strip(), score_cutoff=errors)
        if distance <= errors:
            yield other.strip(), 1 - distance / len(word)


def terms(asked: Sequence[str], in_order: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """What is looked up, with the numbers of the query words that it stands for.

    Args:
        asked: the words of the query that are looked for.
        in_order: all its words, as they were written.
    """
    number = {word: place for place, word in enumerate(asked)}
    runs: list[tuple[str, ...]] = []
    runs += [pair for pair in pairwise(in_order) if pair[0] in number and pair[1] in number]
    if 1 < len(in_order) <= MAX_JOINED:
        runs.append(tuple(in_order))
    terms = {"".join(run): tuple(number[word] for word in run if word in number) for run in runs}
    terms.update({word: (place,) for word, place in number.items()})
    return terms


def _found_tracks(
    connection: sqlite3.Connection, asked: Sequence[str], in_order: Sequence[str]
) -> dict[int, dict[int, float]]:
    """Track ids with the query words on them and how alike they are."""
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for term, meant in terms(asked, in_order).items():
        for word, similarity in similar_words(connection, term).items():
            for (track_id,) in connection.execute(
                "SELECT rowid FROM track_words WHERE track_words MATCH ?", (phrase(word),)
            ):
                track = found[track_id]
                track.update({place: max(similarity, track.get(place, 0.0)) for place in meant})
    return found


def _tracks(connection: sqlite3.Connection, found: dict[int, dict[int, float]]) -> Iterator[tuple[str, _Track]]:
    rows = connection.execute(
        "SELECT track_id, clip_id, text, confidence, start_s, end_s FROM tracks"
        " WHERE track_id IN (SELECT value FROM json_each(?)) ORDER BY clip_id, number",
        (json.dumps(list(found)),),
    )
    for track_id, clip_id, text, confidence, start_s, end_s in rows:
        yield clip_id, _Track(text, confidence, start_s, end_s, found[track_id])


def _score_clip(clip_id: str, tracks: list[_Track], asked: Sequence[str], weights: Sequence[float]) -> Written:
    """Try the tracks as the one that the others are measured from, and keep the best."""

    def own(track: _Track) -> float:
        return track.confidence * sum(weights[place] * alike for place, alike in track.found.items())

    tracks = sorted(tracks, key=lambda track: (-own(track), track.start_s))
    # A ticker may repeat a word thousands of times; the tracks with most of the query are tried.
    scores = [_score_from(anchor, tracks, weights) for anchor in tracks[:MAX_ANCHORS]]
    centre = tracks[scores.index(max(scores))]
    shown = sorted(tracks, key=lambda track: -own(track) * _closeness(centre, track))[:MAX_SHOWN]
    alike = [max(track.found.get(place, 0.0) for track in tracks) for place in range(len(asked))]
    hits = tuple(_text_hit(track, asked) for track in shown)
    return Written(clip_id, max(scores), _share(weights, alike), hits)


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


def _text_hit(track: _Track, asked: Sequence[str]) -> TextHit:
    matched = tuple(asked[place] for place in sorted(track.found))
    return TextHit(track.text, matched, track.start_s, track.end_s, min(track.found.values()))


def _weights(counts: Iterable[int], total: int) -> list[float]:
    """BM25's inverse document frequency, always positive (Robertson and Zaragoza 2009, equation 3.15)."""
    return [math.log(1 + (total - count + 0.5) / (count + 0.5)) for count in counts]


def _share(weights: Sequence[float], found: Sequence[float]) -> float:
    """The weighted mean of what was found of each word; exactly 1 when all of all was."""
    return math.fsum(map(math.prod, zip(weights, found, strict=True))) / math.fsum(weights)


def _track_counts(connection: sqlite3.Connection, asked: Sequence[str]) -> list[int]:
    known = dict(
        connection.execute(
            "SELECT word, tracks FROM vocabulary WHERE word IN (SELECT value FROM json_each(?))",
            (json.dumps(asked),),
        ).fetchall()
    )
    return [known.get(word, 0) for word in asked]


def _count(connection: sqlite3.Connection, source: str, *parameters: str) -> int:
    """Rows of a source that this module names itself."""
    count: int = connection.execute(f"SELECT count(*) FROM {source}", parameters).fetchone()[0]
    return count
