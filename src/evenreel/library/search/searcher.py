"""Search of a library by what is seen, written, said and heard, with a line before weaker matches.

Five channels score clips: `seen` (the query's vector against the clips' frames), `on_screen` (recognised words), `said`
(subtitles, recognised speech), `about` (file names and given captions) and `sounds` (the query's vector against windows
of sound, where the library has a model of sounds). `query` says which of them a query asks, `rank` in which order clips
stand and which are weaker matches; `show` says what is shown of them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from evenreel.arrays import Column, Flags
from evenreel.errors import LibraryError, UsageError
from evenreel.files import first_there
from evenreel.library.contents import no_clip
from evenreel.library.search import filters, rank, seen, sounds, words
from evenreel.library.search.filters import Filter
from evenreel.library.search.hits import Channel, Hit, MomentHit, SearchResult, TextHit
from evenreel.library.search.moments import best_moments, shown, spoken, whole
from evenreel.library.search.query import EncodedQuery, Query, encode_text, readable, unit
from evenreel.library.search.rank import Ranked
from evenreel.library.search.seen import ClipTimes
from evenreel.library.search.snapshot import Snapshot, SnapshotReader
from evenreel.library.search.sounds import Heard, SoundModel
from evenreel.library.search.words import SOURCES, WordMatches, read_texts
from evenreel.library.store.catalog import load_metadata, loaded_path
from evenreel.library.store.confidence import FITS, as_one_of
from evenreel.library.store.vectors import SOUNDS, ExactVectors
from evenreel.types import Encoder, FloatArray, Metadata

EMPTY = "The library is empty: none of its files is there; `evenreel info` says what was set aside or is missing."
NOTHING_SAID = (
    "The library knows of nothing that is said: its videos have no subtitles, and none were heard (`evenreel index "
    "--speech MODEL` hears them)."
)
NOTHING_ON_SCREEN = "The library knows of no words on screen: none were read, or there are none."
NOTHING_SEEN = "The library is searched without vision, so nothing is found by what is seen; leave `seen:` out."
WORDS_ARE_NOT_RERANKED = "Nothing seen was asked for, so that a matcher ranks nothing anew."


@dataclass(frozen=True, eq=False)
class Asked:
    """What the channels say of a library's clips under one query."""

    encoded: EncodedQuery  # the query
    allowed: Flags  # (C,) clips that may be found
    texts: Mapping[Channel, WordMatches]  # what each channel of words says
    vector: FloatArray | None  # (D,) what frames were compared with; None where they were not
    # (C,) similarity of each clip's best frame, -inf of those that were left out; None likewise
    scores: FloatArray | None
    # (C,) share of nonsense that each clip's frames beat; None likewise, and where that was not measured
    above: Column | None
    heard: Heard | None  # what the model of sounds hears; None for nothing
    ranked: Ranked  # all of it together
    notices: list[str]  # sentences for a person

    @property
    def query(self) -> Query:
        """The query."""
        return self.encoded.query

    @property
    def measured(self) -> bool:
        """Whether it is told of clips that they are weaker matches."""
        return self.scores is None or self.above is not None


Judged = tuple[float, dict[str, float]]
"""Score of a clip by a matcher, and its parts."""


@dataclass(frozen=True)
class ClipFacts:
    """What the catalog says of a clip, whatever was asked for."""

    clip_id: str  # its id
    path: str  # the file that is shown
    duration_s: float | None  # length of the clip in seconds; None where it is not known
    metadata: Metadata  # metadata of the file
    other_paths: tuple[str, ...]  # the clip's other files
    times: ClipTimes  # times of its frames and shots
    has_tracks: bool  # whether anything was read on it


def facts_of(s: Snapshot, clip_ids: Sequence[str], where: str | None) -> list[ClipFacts]:
    """Read what is shown of clips, with the first file of each that passes a filter and is there now."""
    wanted = json.dumps(list(clip_ids))
    about = s.connection.execute(
        "SELECT clips.clip_id, duration_s, EXISTS (SELECT 1 FROM tracks WHERE tracks.clip_id = clips.clip_id)"
        " FROM json_each(?) AS wanted CROSS JOIN clips ON clips.clip_id = wanted.value",
        (wanted,),
    )
    known = {clip_id: facts for clip_id, *facts in about}
    files: dict[str, dict[str, str]] = {clip_id: {} for clip_id in clip_ids}
    for clip_id, path, metadata in s.connection.execute(
        "SELECT clip_id, files.path, metadata FROM json_each(?) AS wanted"
        " CROSS JOIN files ON files.clip_id = wanted.value"
        " WHERE state = 'indexed' ORDER BY files.path",
        (wanted,),
    ):
        files[clip_id][loaded_path(path)] = metadata
    if where is None:
        paths = {clip_id: first_there([*its]) if len(its) > 1 else min(its) for clip_id, its in files.items()}
    else:
        paths = filters.first_paths(s.connection, s.read_filter(where), clip_ids, there=True)
    times = seen.times_of(s, clip_ids)
    return [
        ClipFacts(
            clip_id=clip_id,
            path=paths[clip_id],
            duration_s=known[clip_id][0],
            metadata=load_metadata(files[clip_id][paths[clip_id]]),
            other_paths=tuple(other for other in files[clip_id] if other != paths[clip_id]),
            times=times[clip_id],
            has_tracks=bool(known[clip_id][1]),
        )
        for clip_id in clip_ids
    ]


def show(
    s: Snapshot, asked: Asked, ranked: Ranked, places: Sequence[int], judged: Mapping[int, Judged]
) -> tuple[Hit, ...]:
    """Make the hits of clips, given by their places in order, with the moments that answer."""
    hits, vector, heard = [], asked.vector, asked.heard
    for place, about in zip(places, facts_of(s, s.ids(places), asked.query.where), strict=True):
        found = {channel: texts_of(s, asked.texts.get(channel), place) for channel in ("on_screen", "said")}
        moments: dict[Channel, list[MomentHit]] = {
            "seen": [] if vector is None else seen.stretches(s, vector, place, about.times),
            "on_screen": [shown(sign) for sign in found["on_screen"]],
            "said": [spoken(utterance) for utterance in found["said"]],
            "sounds": [],
        }
        by = ranked.found_by(place)
        if heard is not None and (by == "sounds" or ranked.answers_by("sounds", place)):
            moments["sounds"] = heard.stretches(about.clip_id, place, asked.notices)
        if by == "about":
            best = best_moments(whole(moments["seen"], about.duration_s, float(ranked.written[place])))
        else:
            also = [name for name in moments if name != by and ranked.answers_by(name, place)]
            best = best_moments(moments[by], [one for name in also for one in moments[name]])
        reranked, parts = judged.get(place, (None, {}))
        hits.append(
            Hit(
                clip_id=about.clip_id,
                path=about.path,
                score=float(ranked.fused[place]),
                weaker=ranked.weaker(place),
                above_nonsense=ranked.beats(place),
                written=float(ranked.written[place]),
                scores=ranked.scores(place) | ({} if reranked is None else {"reranked": reranked}),
                moments=best,
                on_screen=found["on_screen"],
                said=found["said"],
                sounds=ranked.sounds_of(place),
                duration_s=about.duration_s,
                metadata=about.metadata,
                other_paths=about.other_paths,
                parts=parts,
                none_read="on_screen" in parts and not about.has_tracks,
            )
        )
    return tuple(hits)


def texts_of(s: Snapshot, matches: WordMatches | None, place: int) -> tuple[TextHit, ...]:
    """Read the texts of a clip that matched, the best first."""
    if matches is None or not matches.coverage[place]:
        return ()
    return tuple(read_texts(s, matches, matches.best_texts(place)))


class Searcher:
    """Searches one library; keeps what it read of the catalog until that changes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        open_vectors: Callable[[Mapping[str, str]], ExactVectors | None],
        encoder: Callable[[], Encoder | None] | None,
        folder: Path | None = None,
        read_filter: Callable[[str | None], Filter] | None = None,
        sound_model: SoundModel | None = None,
    ) -> None:
        self._encoder, self._sounds = encoder, sound_model
        self._hears: Mapping[str, str] = {}  # entries of the catalog that name the model of sounds
        self._reader = SnapshotReader(
            connection,
            open_vectors,
            folder,
            read_filter=read_filter or partial(filters.read_filter, connection),
            keeps_model=encoder is not None,
        )

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Read the library at one moment, see `SnapshotReader`."""
        return self._reader.snapshot()

    def search(self, query: Query) -> SearchResult:
        """Search for the clips that answer a query, best first; equal ones go by path."""
        if self.is_empty():  # no model is loaded for that
            return SearchResult(query.text or "", (), notices=(EMPTY,))
        encoded = self.encode(query)
        with self.snapshot() as s:
            return self._answer(s, self.ask(s, encoded))

    def is_empty(self) -> bool:
        """Return whether no file is there, so that nothing can be found."""
        with self.snapshot() as s:
            self._hears = SOUNDS.own(s.meta)
            return not s.allowed(None).any()

    def encode(self, query: Query) -> EncodedQuery:
        """Encode a query by the models that it asks, which are loaded for that."""
        notices, embedding, vector = query.notices(), None, query.moved
        encoder = (
            self._encoder() if self._encoder is not None and query.asked is not None and query.asked.sees else None
        )
        if query.asked is None:
            vector = unit(query.image)
        elif encoder is not None:
            embedding = encode_text(encoder, query.asked.text, notices)
            vector = unit(embedding.sentence[0]) if query.moved is None else query.moved
        to_hear = None
        if self._sounds is not None:
            to_hear, left_out = sounds.encode(self._sounds, query, self._hears)
            notices += left_out
        return EncodedQuery(query, embedding, vector, to_hear, tuple(notices))

    def ask(self, s: Snapshot, encoded: EncodedQuery) -> Asked:
        """Ask the channels of a query."""
        query, notices = encoded.query, list(encoded.notices)
        vector = _fitting(s, query, encoded.vector)
        allowed = s.allowed(query.where)
        texts = {channel: words.score(s, channel, query, allowed) for channel in SOURCES if channel in query.channels}
        notices += _nothing_known(s, query)
        heard = sounds.score(s, encoded, allowed, notices)
        scores = above = None
        if vector is not None:
            scores = seen.score(s, vector, allowed)
            if query.asked is not None and query.moved is None:
                above = seen.above(s, scores)
            if above is None:
                notices.append(_not_measured(query))
            elif heard is not None and heard.s.measured:
                above = as_one_of(above, 2)
        of_sounds = None if heard is None else (heard.columns, heard.shares)
        ranked = rank.fuse(texts, of_sounds, scores, above, len(s.there))
        return Asked(encoded, allowed, texts, vector, scores, above, heard, ranked, notices)

    def clip_vector(self, clip_id: str, time_s: float | None = None) -> FloatArray:
        """Return the vector of a clip, (D,) of unit length, for a search of similar clips."""
        with self.snapshot() as s:
            found = seen.clip_vector(s, clip_id, time_s)
            if found is not None:
                return unit(found)
            if s.connection.execute("SELECT 1 FROM clips WHERE clip_id = ?", (clip_id,)).fetchone() is None:
                raise no_clip(clip_id)
            raise UsageError("The frames of this clip were not encoded, so nothing can be found that looks like it.")

    def _answer(self, s: Snapshot, asked: Asked) -> SearchResult:
        query, ranked = asked.query, asked.ranked
        places, judged = ranked.best(s, query.enough, query.where), dict[int, Judged]()
        if query.reranker is not None and query.asked is not None and not query.asked.sees:
            asked.notices.append(WORDS_ARE_NOT_RERANKED)
        elif query.reranker is not None:
            ranked, places = _reranked(s, asked, places, judged)
        hits = show(s, asked, ranked, places[: query.k], judged)
        return SearchResult(readable(query.text or ""), hits, ranked.matches(), tuple(asked.notices))


def _reranked(s: Snapshot, asked: Asked, places: list[int], judged: dict[int, Judged]) -> tuple[Ranked, list[int]]:
    """The clips in the matcher's order, see `evenreel.library.search.rerank`; fills in what it says of each."""
    from evenreel.library.search.rerank import ranks, stored_clip, unread_notice

    query, embedding, ranked = asked.query, asked.encoded.embedding, asked.ranked
    reranker = query.reranker
    if query.asked is None or embedding is None or asked.vector is None or reranker is None:
        raise UsageError("The library is searched without vision, so a matcher has nothing to re-rank by.")
    framed = [place for place in places if s.counts[place]]
    if framed:
        clip_ids = s.ids(framed)
        read = partial(stored_clip, s, text=reranker.reads_text)
        found = reranker.judge(query.asked.text, embedding, clip_ids, read, s)
        ranked = ranked.with_seen_ranks(np.array(framed), np.array(ranks(found.scores)))
        judged.update((place, (float(found.scores[at]), found.of(at))) for at, place in enumerate(framed))
        if reranker.reads_text:
            asked.notices.extend(unread_notice(s.connection, clip_ids))
    asked.notices.extend(reranker.notices)
    ids = dict(zip(places, s.ids(places), strict=True))
    paths = filters.first_paths(s.connection, s.read_filter(query.where), list(ids.values()))
    first = sorted(places, key=lambda one: (ranked.written[one] < FITS, -ranked.fused[one], paths[ids[one]]))
    return ranked, first


def _fitting(s: Snapshot, query: Query, vector: FloatArray | None) -> FloatArray | None:
    """The vector of a query; None where the library has no vectors. One that does not fit them is refused."""
    if s.vectors is None and query.image is not None:
        raise UsageError("The library has no vision, so a picture cannot be searched for.")
    if s.vectors is None or vector is None:
        if query.asked is not None and query.channels == {"seen"}:
            raise UsageError(NOTHING_SEEN)
        return None
    if vector.shape != (s.vectors.dimension,):
        raise LibraryError(
            f"The query's vector has shape {vector.shape}, the library's have dimension "
            f"{s.vectors.dimension}; search with the encoder that the library was made with."
        )
    return vector


def _nothing_known(s: Snapshot, query: Query) -> list[str]:
    """What a query asks for that the library knows nothing of."""
    told: dict[Channel, str] = {"said": NOTHING_SAID, "on_screen": NOTHING_ON_SCREEN}
    return [
        sentence
        for channel, sentence in told.items()
        if query.channels == {channel} and not words.vocabulary(s, channel).count
    ]


def _not_measured(query: Query) -> str:
    if query.asked is None:
        return "Which matches are weaker is measured for texts; results for a picture are ranked only."
    if query.moved is not None:
        return "Which matches are weaker is measured for words alone; results for words and examples are ranked only."
    return (
        "Which matches are weaker was not measured in this library yet, or what was measured is damaged; run "
        "`evenreel index` once more."
    )
