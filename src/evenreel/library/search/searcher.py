"""Search of a library by what is seen, written, said and heard, with a line before weaker matches.

Five channels rank clips: `seen` (the query's vector against the clips' frames), `on_screen` (recognised words), `said`
(subtitles, recognised speech), `about` (file names and given captions) and `sounds` (the query's vector against windows
of sound, where the library has a model of sounds). `evenreel.library.search.asked` says which
of them a query asks, `evenreel.library.search.ranking` in which order clips stand and which are weaker matches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from evenreel.errors import LibraryError, NotFoundError, OtherModelError, UsageError
from evenreel.files import FileState
from evenreel.library.contents import no_clip
from evenreel.library.search import filters
from evenreel.library.search.allowed import AllowedClips, KeptFilters, first_paths, shown_paths
from evenreel.library.search.answering import Answering, AnsweringClips
from evenreel.library.search.by_words import find_by_words
from evenreel.library.search.channels import AskedChannels, hit_of, left_out
from evenreel.library.search.filters import Filter
from evenreel.library.search.gallery import FrameGallery, Opened, Sight, clip_vector, load_gallery, look
from evenreel.library.search.hits import SearchResult
from evenreel.library.search.known_rows import ClipRows
from evenreel.library.search.nearest import NEAREST, ExactlyScored
from evenreel.library.search.query import ParsedQuery, Query, readable, understand, unit
from evenreel.library.search.ranking import RankedClip
from evenreel.library.search.shown_clips import ShownClips
from evenreel.library.search.sign_tracks import SignReader
from evenreel.library.search.sounds import SeenAndHeard, SoundModel, ToHear, add_sounds, encoded_for_sounds, heard
from evenreel.library.store.catalog import get_meta, reading, snapshot
from evenreel.library.store.confidence import FITS
from evenreel.library.store.timed_texts import SAID
from evenreel.library.store.user_tables import own_state
from evenreel.library.store.vectors import VectorIndex
from evenreel.types import Encoder, FloatArray

if TYPE_CHECKING:
    from evenreel.library.search.rerank import Reranker

EMPTY = "The library is empty: none of its files is there; `evenreel info` says what was set aside or is missing."

NOTHING_SEEN = "The library is searched without vision, so nothing is found by what is seen; leave `seen:` out."
WORDS_ARE_NOT_RERANKED = "Nothing seen was asked for, so that a matcher ranks nothing anew."

Answer = TypeVar("Answer")
AnswerTogether = Callable[[Sequence[AskedChannels], ShownClips], SearchResult]
"""Function from what the channels say under several queries, and what is shown of clips, to an answer."""

OpenVectors = Callable[[Mapping[str, str]], VectorIndex | None]
"""Function from the catalog's table `meta` to the vectors that it names; None for a library without vision."""


class Searcher:
    """Searches one library; keeps what it read of the catalog until that changes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        open_vectors: OpenVectors,
        encoder: Callable[[], Encoder | None] | None,
        folder: Path | None = None,
        read_filter: Callable[[str | None], Filter] | None = None,
        sounds: SoundModel | None = None,
    ) -> None:
        self._connection, self._open_vectors, self._encoder = connection, open_vectors, encoder
        self._folder = folder
        self._filters = KeptFilters(connection, read_filter or partial(filters.read_filter, connection))
        self._sounds = sounds
        self._personal: FileState | None = None
        self._read_at: tuple[object, ...] | None = None
        self._generation: str | None = None
        self._weights_hash: str | None = None
        self._vectors: VectorIndex | None = None
        self._rows = ClipRows()
        self._gallery: FrameGallery

    def search(self, query: Query) -> SearchResult:
        """Search for the clips that answer a query, best first; equal ones go by path.

        The catalog is read at one moment, whatever an indexer writes meanwhile. Memory holds one score for each clip
        and a tile of vectors, not the library.
        """
        return self.search_together((query,), lambda asked, _: self._answer(asked[0]))

    def search_together(self, queries: Sequence[Query], answer: AnswerTogether) -> SearchResult:
        """Ask the channels for several queries at one moment, and return what a function makes of what they say."""
        if self._at_one_moment(lambda: not self._allowed(None).count):  # no model is loaded for that
            return SearchResult(queries[0].text or "", (), notices=(EMPTY,))
        understood = [self._understood(query) for query in queries]
        return self._at_one_moment(lambda: answer([self._fitting(*one) for one in understood], self._shown))

    def _understood(self, query: Query) -> tuple[ParsedQuery, tuple[str, ...], ToHear | None]:
        sees = query.asked is not None and query.asked.sees
        encoder = self._encoder() if sees and self._encoder is not None else None
        parsed, notices = understand(query, encoder)
        to_hear, left_out = (None, []) if self._sounds is None else encoded_for_sounds(self._sounds, query)
        return parsed, (*notices, *left_out), to_hear

    def clip_vector(self, clip_id: str, time_s: float | None = None) -> FloatArray:
        """Return the vector of a clip, (D,) of unit length, for a search of similar clips."""
        return self._at_one_moment(lambda: self._clip_vector(clip_id, time_s))

    def read(self, question: Callable[[Opened], Answer]) -> Answer:
        """Run a function on a snapshot of the library; again where a repair came in between."""
        return self._at_one_moment(lambda: question(self._opened))

    def _allowed(self, where: str | None) -> AllowedClips:
        return self._filters.allowed(self._gallery.clip_ids, where)

    @property
    def _opened(self) -> Opened:
        return Opened(self._folder, self._connection, self._gallery, self._vectors)

    def _at_one_moment(self, read: Callable[[], Answer]) -> Answer:
        """What is read of the catalog as it stands, once more where a repair came in between."""
        with reading(self._connection, self._folder):
            try:
                return self._in_snapshot(read)
            except LibraryError:
                if self._version() == self._read_at:
                    raise
                # A repair has put another matrix in place of the one that was just to be read.
                return self._in_snapshot(read)

    def _in_snapshot(self, read: Callable[[], Answer]) -> Answer:
        with snapshot(self._connection):
            self._refresh()
            return read()

    def _fitting(self, parsed: ParsedQuery, notices: tuple[str, ...], to_hear: ToHear | None) -> AskedChannels:
        """What the channels say, words alone where the library has no vectors."""
        if parsed.vector is not None:
            self._check_fit(parsed.query, parsed.vector)
        if self._vectors is None or parsed.vector is None:
            if parsed.query.asked is not None and parsed.query.asked.channels == {"seen"}:
                raise UsageError(NOTHING_SEEN)
            parsed = replace(parsed, embedding=None, vector=None)
        return self._channels(parsed, list(notices), to_hear)

    def _clip_vector(self, clip_id: str, time_s: float | None) -> FloatArray:
        vector = clip_vector(self._opened, clip_id, time_s)
        if vector is None:
            raise self._not_seen(clip_id)
        return unit(vector)

    def _not_seen(self, clip_id: str) -> NotFoundError | UsageError:
        if self._connection.execute("SELECT 1 FROM clips WHERE clip_id = ?", (clip_id,)).fetchone() is None:
            return no_clip(clip_id)
        return UsageError("The frames of this clip were not encoded, so nothing can be found that looks like it.")

    def _check_fit(self, query: Query, vector: FloatArray) -> None:
        """Refuse a vector that cannot be compared with those of the library."""
        if self._vectors is None and query.image is not None:
            raise UsageError("The library has no vision, so a picture cannot be searched for.")
        if self._vectors is not None and vector.shape != (self._vectors.dimension,):
            raise LibraryError(
                f"The query's vector has shape {vector.shape}, the library's have dimension "
                f"{self._vectors.dimension}; search with the encoder that the library was made with."
            )

    def _version(self) -> tuple[object, ...]:
        """Changes whenever anyone has changed the catalog."""
        (changes,) = self._connection.execute("PRAGMA data_version").fetchone()
        return changes, self._connection.total_changes

    def _refresh(self) -> None:
        """Read again what is kept, if anyone has changed the catalog."""
        if (personal := own_state(self._folder)) != self._personal:
            self._filters.clear()
            self._personal = personal
        now = self._version()
        if now == self._read_at:
            return
        meta = get_meta(self._connection)
        compares = self._encoder is not None and self._read_at is not None  # with vectors of the model it had then
        if compares and meta.get("weights_hash") != self._weights_hash:
            raise OtherModelError("The model of the library was exchanged for another one; open the library again.")
        self._weights_hash = meta.get("weights_hash")
        if self._sounds is not None:
            self._sounds.refresh(meta)
        generation = meta.get("vectors_generation", "0")
        # Rows mean nothing but in the matrix of the same moment.
        if self._vectors is None or generation != self._generation:
            self._vectors, self._generation = self._open_vectors(meta), generation
        self._gallery = load_gallery(self._connection, self._rows)
        self._signs = SignReader(self._connection)
        self._speech = SignReader(self._connection, SAID)
        self._shown = ShownClips(self._connection)
        self._filters.clear()
        self._read_at = now

    def _channels(self, parsed: ParsedQuery, notices: list[str], to_hear: ToHear | None) -> AskedChannels:
        """What each channel says of the clips."""
        query, text, vector = parsed.query, parsed.text, parsed.vector
        gallery = self._gallery
        allowed = self._allowed(query.where)
        by_words = find_by_words(query.asked, self._signs, self._speech, allowed, typing=query.unfinished)
        notices.extend(by_words.notices)
        nearest = max(NEAREST, query.enough)
        wanted = ExactlyScored(nearest, by_words.clips.first_ids(nearest), (vector is not None) + (to_hear is not None))
        sounds = heard(self._sounds, to_hear, allowed, wanted, notices)
        alone = query.asked is not None and query.asked.channels == {"sounds"}
        written = add_sounds(by_words.clips, sounds, query.enough, models=wanted.models, alone=alone)
        wanted = replace(wanted, also=written.first_ids(nearest))
        answered = AnsweringClips(written)
        if vector is not None and self._vectors is not None:
            sight = Sight(self._opened, vector, look(gallery, self._vectors, vector, allowed, wanted))
            measured = text is not None and query.move is None and gallery.measured
            if not measured:
                notices.append(_not_measured(query))
            others = sounds is not None and sounds.opened.gallery.measured
            answered = Answering(gallery, query.enough, measured, int(others)).answered(written, sight)
        opened = self._opened
        return AskedChannels(opened, parsed, allowed, gallery, by_words, answered, sounds, notices)

    def _answer(self, asked: AskedChannels) -> SearchResult:
        parsed, notices, allowed, answered = asked.parsed, asked.notices, asked.allowed, asked.answered
        query, found = parsed.query, answered.found
        rows = found.in_order(query.enough, partial(first_paths, self._connection, allowed.where))
        best: Iterator[RankedClip] = map(found.clip, rows)
        if query.reranker is not None and query.asked is not None and not query.asked.sees:
            notices.append(WORDS_ARE_NOT_RERANKED)
        elif query.reranker is not None:
            best = self._reranked(best, parsed, query.reranker, allowed, notices)
        met: dict[str, RankedClip] = {}
        ids = (met.setdefault(clip.clip_id, clip).clip_id for clip in best)
        sound, spoilt = self._shown.first_sound(ids, query.k)
        if spoilt:
            notices.append(left_out(spoilt))
        clips = [met[clip_id] for clip_id in sound]
        asked.by_words.give_texts(clips)
        paths = shown_paths(self._connection, allowed.where, sound)
        evidence = SeenAndHeard(answered.sight, asked.sounds, notices)
        hits = tuple(
            hit_of(clip, about, paths[clip.clip_id], evidence)
            for clip, about in zip(clips, self._shown.of(sound), strict=True)
        )
        return SearchResult(
            query=readable(query.text or ""),
            hits=hits,
            matches=answered.beside + found.counted() - sum(met[clip_id].weaker is False for clip_id in spoilt),
            notices=tuple(notices),
        )

    def _reranked(
        self,
        best: Iterator[RankedClip],
        parsed: ParsedQuery,
        reranker: Reranker,
        allowed: AllowedClips,
        notices: list[str],
    ) -> Iterator[RankedClip]:
        """The clips with the first of them in the matcher's order, see `evenreel.library.search.rerank`."""
        from evenreel.library.search.rerank import ranks, stored_clip, unread_notice

        if parsed.text is None or parsed.embedding is None or self._vectors is None:
            raise UsageError("The library is searched without vision, so a matcher has nothing to re-rank by.")
        shortlist = list(islice(best, parsed.query.enough))
        framed = [clip for clip in shortlist if clip.clip_id in self._gallery.place]
        if framed:
            read = partial(stored_clip, self._connection, self._gallery, self._vectors, text=reranker.reads_text)
            # The gallery is another one whenever anyone has changed the catalog.
            clip_ids = [clip.clip_id for clip in framed]
            judged = reranker.judge(parsed.text, parsed.embedding, clip_ids, read, self._gallery)
            for place, (clip, rank) in enumerate(zip(framed, ranks(judged.scores), strict=True)):
                clip.ranks["seen"], clip.scores["reranked"] = rank, float(judged.scores[place])
                clip.parts = judged.of(place)
            if reranker.reads_text:
                notices.extend(unread_notice(self._connection, clip_ids))
        notices.extend(reranker.notices)
        paths = first_paths(self._connection, allowed.where, [clip.clip_id for clip in shortlist])
        first = sorted(shortlist, key=lambda clip: (clip.written < FITS, -clip.fused, paths[clip.clip_id]))
        return chain(first, best)


def _not_measured(query: Query) -> str:
    if query.text is None:
        return "Which matches are weaker is measured for texts; results for a picture are ranked only."
    if query.move is not None:
        return "Which matches are weaker is measured for words alone; results for words and examples are ranked only."
    return (
        "Which matches are weaker was not measured in this library yet, or what was measured is damaged; run "
        "`evenreel index` once more."
    )
