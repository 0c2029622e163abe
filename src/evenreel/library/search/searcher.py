"""Search of a library by what is seen, written, said, meant and heard: the channels, one order, the hits.

Six channels score clips: `seen` (the query's vector against the clips' frames), `on_screen` (recognised words), `said`
(subtitles, recognised speech), `about` (file names and given captions), `meaning` (the query's vector against windows
of these texts, see `evenreel.library.search.meaning`) and `sounds` (the same against windows of sound), the last two
where the library has a model of theirs. A clip is in one of four states:

- `FIT`: its frames or its sound do better than a share of `FITS` of nonsense queries does on any clip of the library,
  or a share of `FITS` of the query's words, rare ones weighing more, is written on the clip, said in it, in its name or
  in its caption;
- `MAY`: its frames or its sound do better than a share of `MAY_FIT`, or a share of `ANSWERS` of the words is written
  there;
- `MEANT`: its texts alone mean what the query does;
- `NOTHING`: neither. These are the weaker matches, behind a line that is all that is told of the states; nonsense finds
  a clip before it in 10.4 % of cases (`evenreel.library.store.vectors`), and in 3 % by what texts mean.

Clips stand by their state, then by their ranks in the channels, which are fused by

    score(clip) = sum over channels of weight / (60 + rank of the clip in the channel),

equal scores of a channel sharing a rank (Cormack, Clarke and Büttcher, 'Reciprocal Rank Fusion outperforms Condorcet
and individual Rank Learning Methods', SIGIR 2009, with its k = 60 and all weights 1). The frames' channel, which ranks
every clip, has weight 1. A channel of words ranks the clips it finds, and the first of them may have one word of the
query by chance: its weight is 1 where all of the query is written, 0 where half of it or less is, and goes straight
between. So words that are exactly on screen are never pushed out by frames that merely look somewhat alike, and 'a blue
square' is not looked for on a blue carpet. What a clip sounds like weighs 1 where it fits, 0 where it hardly may; texts
that mean it weigh a quarter.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Column, Flags, Indices
from evenreel.errors import LibraryError, UsageError
from evenreel.files import first_there
from evenreel.language.folding import FOLDING
from evenreel.library.search import filters, meaning, seen, words
from evenreel.library.search.filters import Filter
from evenreel.library.search.query import WRITTEN, EncodedQuery, Query, encode_text, readable
from evenreel.library.search.result import Channel, Hit, MomentHit, SearchResult, TextHit
from evenreel.library.search.snapshot import Snapshot, SnapshotReader
from evenreel.library.search.words import SOURCES, TIMED, WordMatches, read_texts
from evenreel.library.store.catalog import load_metadata, loaded_path, no_clip
from evenreel.library.store.meanings import model_of
from evenreel.library.store.vectors import FITS, MAY_FIT, MEANINGS, SOUNDS, ExactVectors, as_one_of
from evenreel.types import Encoder, FloatArray, Metadata, TextEncoder

EMPTY = "The library is empty: none of its files is there; `evenreel info` says which were skipped or are missing."
NOTHING_KNOWN: Mapping[Channel, str] = {
    "said": "The library knows of nothing that is said: its videos have no subtitles, and none were heard (`evenreel "
    "index --speech MODEL` hears them).",
    "on_screen": "The library knows of no words on screen: none were read, or there are none.",
}
FOLDED_BEFORE = (
    "The library's words were stored by another evenreel, so that some may not be found; run `evenreel index` once "
    "more, which stores them anew from what was read."
)
NOTHING_SEEN = "The library is searched without vision, so nothing is found by what is seen; leave `seen:` out."

RANK_CONSTANT = 60
FIT, MAY, MEANT, NOTHING = range(4)
ANSWERS = 0.5  # a clip with this share of the query's weight in writing is no weaker match


class ChannelColumns(NamedTuple):
    """What one channel says of clips, (C,): ranks from 1 on, 0 where it did not find a clip; their weights; scores."""

    ranks: Indices
    weights: Column | float
    scores: Column


@dataclass(frozen=True, eq=False)
class Asked:
    """What the channels say of a library's clips, (C,), under one query."""

    encoded: EncodedQuery  # the query
    allowed: Flags  # clips that may be found
    texts: Mapping[Channel, WordMatches]  # what each channel of words says
    vector: FloatArray | None  # (D,) what frames were compared with; None where they were not
    scores: FloatArray | None  # similarity of each clip's best frame, -inf of those that were left out; None likewise
    above: Column | None  # share of nonsense that each one's frames beat; None likewise, and where not measured
    heard: seen.Heard | None  # what the model of sounds hears; None for nothing
    meant: meaning.Meant | None  # what texts mean; None where they were not compared
    notices: list[str]  # sentences for a person
    # what each channel says, in the order in which their shares of a clip's score are added
    channels: Mapping[Channel, ChannelColumns]

    @property
    def query(self) -> Query:
        return self.encoded.query

    @property
    def clips(self) -> int:
        return len(self.allowed)

    @property
    def measured(self) -> bool:
        return self.scores is None or self.above is not None

    @cached_property
    def sounds(self) -> Column:
        return np.full(self.clips, np.nan) if self.heard is None else self.heard.shares

    @cached_property
    def written(self) -> Column:
        found: Column = np.max([*(one.coverage for one in self.texts.values()), np.zeros(self.clips)], axis=0)
        return found

    @cached_property
    def fused(self) -> Column:
        total = np.zeros(self.clips)
        for columns in self.channels.values():
            share = columns.weights / (RANK_CONSTANT + columns.ranks)
            total += np.where(columns.ranks > 0, share, 0.0)
        return total

    @cached_property
    def found(self) -> Flags:
        found = np.zeros(self.clips, np.bool_)
        for columns in self.channels.values():
            found |= columns.ranks > 0
        return found

    @cached_property
    def states(self) -> NDArray[np.int8]:
        """States of the clips; what was not measured counts as nothing."""
        beats = self.sounds if self.above is None else np.fmax(self.sounds, self.above)
        states = np.minimum(states_of(beats, MAY_FIT), states_of(self.written, ANSWERS))
        return states if self.meant is None else np.where(self.meant.found, np.minimum(states, MEANT), states)

    def best(self, s: Snapshot, k: int) -> list[int]:
        """Find the first k clips; equal ones go by the share of the query that is written, then by path."""
        places = np.flatnonzero(self.found)
        merit = self.states[places] - self.fused[places]
        if k < len(places):  # rounded: what is equal stays so, and nothing changes places
            places = places[merit <= np.partition(merit, k - 1)[k - 1]]
        keys = self.states[places], -self.fused[places], -self.written[places]
        order = np.lexsort(keys[::-1])
        equal = np.ones(max(0, len(order) - 1), np.bool_)
        for key in keys:
            equal &= np.diff(key[order]) == 0
        if equal[:k].any():
            paths = _paths(s, self.query, places)
            order = np.lexsort((np.argsort(np.argsort(np.array(paths, object), kind="stable")), *keys[::-1]))
        found: list[int] = places[order][:k].tolist()
        return found

    def found_in(self, channel: Channel, place: int) -> bool:
        return channel in self.channels and bool(self.channels[channel].ranks[place])

    def share(self, channel: Channel, place: int) -> float | None:
        """The share of nonsense that frames or sound beat, or of the query that words have; None where unknown."""
        columns: dict[Channel, Column | None] = {name: one.coverage for name, one in self.texts.items()}
        columns |= {"seen": self.above, "sounds": self.sounds, "meaning": self.meant.shares if self.meant else None}
        column = columns.get(channel)
        return None if column is None or np.isnan(column[place]) else float(column[place])

    def weaker(self, place: int) -> bool | None:
        """Return whether a clip is a weaker match; None where no nonsense was scored to compare it with."""
        if self.states[place] != NOTHING:
            return False
        measured: tuple[Channel, ...] = ("seen", "sounds")
        return None if any(self.found_in(one, place) and self.share(one, place) is None for one in measured) else True

    def answers_by(self, channel: Channel, place: int) -> bool:
        return (self.share(channel, place) or 0.0) >= (ANSWERS if channel in WRITTEN else MAY_FIT)

    def found_by(self, place: int) -> Channel:
        """The best reason for a clip; a name, which says nothing of when, only where frames would not have found it."""
        seen = (self.share("seen", place) or 0.0) if self.found_in("seen", place) else -1.0
        written = float(self.written[place])
        if self.found_in("sounds", place):
            alone = not self.found_in("seen", place) and not written
            if alone or (self.share("sounds", place) or 0.0) > max(seen, written):
                return "sounds"
        for channel in TIMED:
            if (share := self.share(channel, place)) and share >= max(seen, written):
                return channel
        if self.found_in("meaning", place) and written < ANSWERS and not self.answers_by("seen", place):
            return "meaning"
        by_name = self.found_in("about", place) and written > seen and not self.answers_by("seen", place)
        return "about" if by_name else "seen"


def states_of(shares: Column, may_fit: float) -> NDArray[np.int8]:
    """Return the states, (N,), by shares of nonsense that are beaten, or of a query that is written; NaN is nothing."""
    return np.where(shares >= FITS, FIT, np.where(shares >= may_fit, MAY, NOTHING)).astype(np.int8)


def ranks_of(scores: Column | FloatArray, there: Flags) -> Indices:
    """Count the clips before each of those that are there, and one: (C,), 0 of others; equal scores share a rank."""
    ranks, places = np.zeros(len(scores), np.int64), np.flatnonzero(there)
    places = places[np.argsort(scores[places])]
    ordered = scores[places]  # looked up in its own order: half the time of looking up in any
    ranks[places] = len(ordered) - np.searchsorted(ordered, ordered, "right") + 1
    return ranks


def _columns(
    texts: Mapping[Channel, WordMatches],
    heard: seen.Heard | None,
    scores: FloatArray | None,
    meant: meaning.Meant | None,
) -> dict[Channel, ChannelColumns]:
    channels: dict[Channel, ChannelColumns] = {}
    for channel, one in texts.items():
        weights = np.maximum(0.0, (one.coverage - ANSWERS) / (1 - ANSWERS))
        channels[channel] = ChannelColumns(ranks_of(one.scores, one.coverage > 0), weights, one.scores)

    def rank(channel: Channel, scores: FloatArray, found: Flags | bool, weights: Column | float) -> None:
        ranks = np.where(found, ranks_of(scores, np.isfinite(scores)), 0)
        channels[channel] = ChannelColumns(ranks, weights, scores.astype(np.float64))

    if heard is not None:
        rank("sounds", heard.scores, heard.found, heard.weights)
    if scores is not None:
        rank("seen", scores, True, 1.0)
    if meant is not None:
        rank("meaning", meant.scores, meant.found, meant.weights)
    return channels


AskEngine = Callable[[Snapshot, FloatArray, str | None, int, list[str]], FloatArray | None]
"""`evenreel.library.engine.SeenByEngine.score`."""

Judged = tuple[float, dict[str, float]]  # score of a clip by a matcher, and its parts


class ClipFacts(NamedTuple):
    """What the catalog says of a clip, whatever was asked for."""

    clip_id: str  # its id
    path: str  # the file that is shown
    duration_s: float | None  # length of the clip in seconds; None where it is not known
    metadata: Metadata  # metadata of the file
    other_paths: tuple[str, ...]  # the clip's other files
    times: seen.ClipTimes  # times of its frames and shots
    has_tracks: bool  # whether anything was read on it


def facts_of(s: Snapshot, clip_ids: Sequence[str], where: str | None) -> list[ClipFacts]:
    """Read what is shown of clips, with the first file of each that passes a filter and is there now."""
    condition, found = Filter() if where is None else s.read_filter(where), list[ClipFacts]()
    files: dict[str, dict[str, str]] = {clip_id: {} for clip_id in clip_ids}
    fitting: dict[str, list[str]] = {clip_id: [] for clip_id in clip_ids}
    about: dict[str, tuple[float | None, int]] = {}
    with filters.limited(s.connection, condition):
        rows = s.connection.execute(
            f"SELECT clips.clip_id, files.path, metadata, {condition.sql}, duration_s,"
            " EXISTS (SELECT 1 FROM tracks WHERE tracks.clip_id = clips.clip_id) FROM json_each(?) AS wanted"
            " CROSS JOIN clips ON clips.clip_id = wanted.value CROSS JOIN files ON files.clip_id = clips.clip_id"
            " WHERE state = 'indexed' ORDER BY files.path",
            (*condition.parameters, json.dumps(list(clip_ids))),
        ).fetchall()
    for clip_id, stored, metadata, fits, duration_s, has_tracks in rows:
        path, about[clip_id] = loaded_path(stored), (duration_s, has_tracks)
        files[clip_id][path] = metadata
        fitting[clip_id] += [path] if fits else []
    for clip_id, times in seen.times_of(s, clip_ids).items():
        path = first_there(fitting[clip_id])
        others = tuple(other for other in files[clip_id] if other != path)
        duration_s, has_tracks = about[clip_id]
        metadata = load_metadata(files[clip_id][path])
        found.append(ClipFacts(clip_id, path, duration_s, metadata, others, times, bool(has_tracks)))
    return found


def show(s: Snapshot, asked: Asked, places: Sequence[int], judged: Mapping[int, Judged]) -> tuple[Hit, ...]:
    hits, vector, heard = [], asked.vector, asked.heard
    for place, about in zip(places, facts_of(s, s.ids(places), asked.query.where), strict=True):
        found = {channel: texts_of(s, asked.texts.get(channel), place) for channel in TIMED}
        moments: dict[Channel, list[MomentHit]] = {
            "seen": [] if vector is None else seen.stretches(s, vector, place, about.times),
            "on_screen": [seen.shown(sign) for sign in found["on_screen"]],
            "said": [seen.spoken(utterance) for utterance in found["said"]],
            "sounds": [],
            "meaning": [],
        }
        by = asked.found_by(place)
        if heard is not None and (by == "sounds" or asked.answers_by("sounds", place)):
            moments["sounds"] = heard.stretches(about.clip_id, place, asked.notices)
        line = asked.meant.line(about.clip_id, place) if asked.meant and asked.found_in("meaning", place) else None
        if line is not None and line.source != "about":
            moments["meaning"] = [line.moment]
        if by == "about" or (by == "meaning" and not moments[by]):
            best = seen.best_moments(seen.whole(moments["seen"], about.duration_s, float(asked.written[place])))
        else:
            also = [name for name in moments if name != by and asked.answers_by(name, place)]
            best = seen.best_moments(moments[by], [one for name in also for one in moments[name]])
        scores = {name: float(one.scores[place]) for name, one in asked.channels.items() if one.ranks[place]}
        reranked, parts = judged.get(place, (None, {}))
        hits.append(
            Hit(
                clip_id=about.clip_id,
                path=about.path,
                score=float(asked.fused[place]),
                weaker=asked.weaker(place),
                above_nonsense=asked.share("seen", place),
                written=float(asked.written[place]),
                scores=scores | ({} if reranked is None else {"reranked": reranked}),
                moments=best,
                on_screen=found["on_screen"],
                said=found["said"],
                sounds=asked.share("sounds", place),
                meaning=None if line and line.text in {text.text for some in found.values() for text in some} else line,
                duration_s=about.duration_s,
                metadata=about.metadata,
                other_paths=about.other_paths,
                parts=parts,
                none_read="on_screen" in parts and not about.has_tracks,
            )
        )
    return tuple(hits)


def texts_of(s: Snapshot, matches: WordMatches | None, place: int) -> tuple[TextHit, ...]:
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
        load_sounds: Callable[[Mapping[str, str]], TextEncoder] | None = None,
    ) -> None:
        self._encoder, self._models = encoder, dict[Channel, seen.OtherModel]()
        if load_sounds is not None:  # else no model is loaded
            self._models = {"sounds": seen.OtherModel(SOUNDS, load_sounds)}
            self._models["meaning"] = seen.OtherModel(MEANINGS, model_of)
        self.engine: AskEngine | None = None  # where one is asked what is seen
        self._meta: Mapping[str, str] = {}  # entries of the catalog, of which some name the models
        self._reader = SnapshotReader(
            connection, open_vectors, folder, read_filter=read_filter, keeps_model=encoder is not None
        )

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        return self._reader.snapshot()

    def search(self, query: Query) -> SearchResult:
        """Search for the clips that answer a query, best first; equal ones go by path."""
        if self.is_empty():  # no model is loaded for that
            return SearchResult(query.text or "", (), notices=(EMPTY,))
        encoded = self.encode(query)
        with self.snapshot() as s:
            return self._answer(s, self.ask(s, encoded, self.engine))

    def is_empty(self) -> bool:
        with self.snapshot() as s:
            self._meta = s.meta
            return not s.allowed(None).any()

    def encode(self, query: Query) -> EncodedQuery:
        notices, embedding, vector = query.notices(), None, query.moved
        if query.asked is None:
            vector = seen.unit(query.image)
        elif query.asked.sees and self._encoder is not None and (encoder := self._encoder()) is not None:
            embedding = encode_text(encoder, query.asked.text, notices)
            vector = seen.unit(embedding.sentence[0]) if query.moved is None else query.moved
        by = dict[Channel, seen.Encoded | None]()
        for channel, model in self._models.items():
            if query.asked is not None and query.moved is None and channel in query.channels:
                by[channel] = model.encode(query.asked.text, self._meta, notices)
        if query.channels == {"sounds"} == by.keys() and not SOUNDS.own(self._meta).get("weights_hash"):
            notices.append(seen.NO_SOUNDS)
        return EncodedQuery(query, embedding, vector, by.get("sounds"), by.get("meaning"), tuple(notices))

    def ask(self, s: Snapshot, encoded: EncodedQuery, engine: AskEngine | None = None) -> Asked:
        """Ask the channels of a query; an engine names the clips that frames are compared of, else they are all."""
        query, notices = encoded.query, list(encoded.notices)
        vector = _fitting(s, query, encoded.vector)
        allowed = s.allowed(query.where)
        if query.terms and s.meta.get("folding") != FOLDING:
            notices.append(FOLDED_BEFORE)
        texts = {channel: words.score(s, channel, query, allowed) for channel in SOURCES if channel in query.channels}
        for channel, sentence in NOTHING_KNOWN.items():
            if query.channels & WRITTEN == {channel} and not words.vocabulary(s, channel).count:
                notices.append(sentence)
        alone, models = query.channels == {"sounds"}, 1 + (vector is not None)
        heard = seen.hear(s, encoded.to_hear, allowed, notices, alone=alone, models=models)
        meant = meaning.compare(s, query, encoded.to_mean, allowed, notices)
        scores = above = None
        if vector is not None:
            if engine is not None:
                scores = engine(s, vector, query.where, query.enough, notices)
            if scores is None:
                scores = seen.score(s, vector, allowed)
            if query.asked is not None and query.moved is None:
                above = seen.above(s, scores)
            if above is None:
                notices.append(_not_measured(query))
            elif heard is not None and heard.s.measured:
                above = as_one_of(above, 2)
        channels = _columns(texts, heard, scores, meant)
        return Asked(encoded, allowed, texts, vector, scores, above, heard, meant, notices, channels)

    def clip_vector(self, clip_id: str, time_s: float | None = None) -> FloatArray:
        """Return the vector of a clip, (D,) of unit length, for a search of similar clips."""
        with self.snapshot() as s:
            (place,), times = s.places([clip_id]), seen.times_of(s, [clip_id])[clip_id]
            frames = seen.frames_of(s, place, times).astype(np.float32)
            if len(frames):
                near = None if time_s is None else int(np.abs(times.spans_s[:, 0] - time_s).argmin())
                return seen.unit(frames.mean(axis=0) if near is None else frames[near])
            if s.connection.execute("SELECT 1 FROM clips WHERE clip_id = ?", (clip_id,)).fetchone() is None:
                raise no_clip(clip_id)
            raise UsageError("The frames of this clip were not encoded, so nothing can be found that looks like it.")

    def _answer(self, s: Snapshot, asked: Asked) -> SearchResult:
        query = asked.query
        places, judged = asked.best(s, query.enough), dict[int, Judged]()
        if query.reranker is not None and query.asked is not None and not query.asked.sees:
            asked.notices.append("Nothing seen was asked for, so that a matcher ranks nothing anew.")
        elif query.reranker is not None:
            asked, places = _reranked(s, asked, places, judged)
        hits = show(s, asked, places[: query.k], judged)
        matches = int(np.count_nonzero(asked.found & (asked.states != NOTHING)))
        return SearchResult(readable(query.text or ""), hits, matches, tuple(asked.notices))


def _reranked(s: Snapshot, asked: Asked, places: list[int], judged: dict[int, Judged]) -> tuple[Asked, list[int]]:
    """The clips in the matcher's order, see `evenreel.library.search.rerank`; fills in what it says of each."""
    from evenreel.library.search.rerank import stored_clip, unread_notice

    query, embedding, reranker = asked.query, asked.encoded.embedding, asked.query.reranker
    if query.asked is None or embedding is None or asked.vector is None or reranker is None:
        raise UsageError("The library is searched without vision, so a matcher has nothing to re-rank by.")
    framed = [place for place in places if asked.channels["seen"].ranks[place]]
    if framed:
        clip_ids = s.ids(framed)
        read = partial(stored_clip, s, text=reranker.reads_text)
        found = reranker.judge(query.asked.text, embedding, clip_ids, read, s)
        seen_so_far = asked.channels["seen"]
        ranks = seen_so_far.ranks.copy()
        ranks[framed] = ranks_of(found.scores, np.ones(len(framed), np.bool_))
        asked = replace(asked, channels={**asked.channels, "seen": seen_so_far._replace(ranks=ranks)})
        judged.update((place, (float(found.scores[at]), found.of(at))) for at, place in enumerate(framed))
        if reranker.reads_text:
            asked.notices.extend(unread_notice(s.connection, clip_ids))
    asked.notices.extend(reranker.notices)
    paths = dict(zip(places, _paths(s, query, places), strict=True))
    return asked, sorted(places, key=lambda one: (asked.written[one] < FITS, -asked.fused[one], paths[one]))


def _paths(s: Snapshot, query: Query, places: Indices | Sequence[int]) -> list[str]:
    ids = s.ids(places)
    found = filters.first_paths(s.connection, s.read_filter(query.where), ids)
    return [found.get(clip_id, "") for clip_id in ids]


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


def _not_measured(query: Query) -> str:
    if query.asked is None:
        return "Which matches are weaker is measured for texts; results for a picture are ranked only."
    if query.moved is not None:
        return "Which matches are weaker is measured for words alone; results for words and examples are ranked only."
    return (
        "Which matches are weaker was not measured in this library yet, or what was measured is damaged; run "
        "`evenreel index` once more."
    )
