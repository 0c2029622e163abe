"""Re-ranking: a trained matcher orders the first clips of a result anew.

Search by one vector keeps the best frame of each clip; a matcher reads every word of the query against every frame,
which is more expensive, so it scores a shortlist: the first clips of the library's own answer. In it the rank by the
matcher's score takes the place of the rank in `seen`, and is fused with those in `on_screen` and `about` as before.
Clips on which 0.95 of the query's words are written still stand first; the confidence of frames no longer counts.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenreel.errors import CheckpointError, LibraryError
from evenreel.features.graphs import graphs_of
from evenreel.library.search.clip_states import ClipStates, StateCache, StoredClip
from evenreel.library.search.seen import DECIMALS, frames_of, times_of
from evenreel.library.search.snapshot import Snapshot
from evenreel.matchers.lengths import check_words
from evenreel.matchers.scoring import encode_texts
from evenreel.matchers.shortlists import score_with_parts
from evenreel.similarity.states import Encoded, gather_rows, row_bytes
from evenreel.types import Encoder, FloatArray, TextEmbedding, TextFeatures, TextTrack

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained

CACHE_BYTES = 2**28
"""Most memory for encoded clips by default: a clip of 12 frames of 512 numbers takes 2 to 242 KiB, as matchers go."""

PARTS = {"video": "seen", "ocr": "on_screen", "hybrid": "both"}
"""What a hit calls the parts of a matcher's score (`evenreel.matchers.matcher.ScoresInParts`): what is seen in the
frames, what is read on screen, and what is seen and read together."""


class RerankScores(NamedTuple):
    """Similarities of C clips by a matcher: `scores` (C,), and their `parts` (C,) by name where it gives them."""

    scores: FloatArray
    parts: dict[str, FloatArray]

    def of(self, place: int) -> dict[str, float]:
        """Return the parts of one clip's score."""
        return {name: float(part[place]) for name, part in self.parts.items()}


class Reranker:
    """A matcher that re-ranks shortlists of one library; clips that it has encoded are kept for further queries."""

    def __init__(self, pretrained: Pretrained, encoder: Encoder, cache_bytes: int = CACHE_BYTES) -> None:
        self.pretrained = pretrained
        self._cache = StateCache(cache_bytes)
        self._clips = ClipStates(pretrained, encoder, self._cache)
        self._read_of: object = None

    @property
    def reads_text(self) -> bool:
        """True if the matcher reads the on-screen text of clips."""
        return self.pretrained.about.inputs.windows is not None

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences on information that the matcher has from other splits than its training split."""
        uses = self.pretrained.about.uses
        return tuple(f"The matcher that re-ranks was trained with {use}." for use in uses)

    def judge(
        self,
        text: str,
        query: TextEmbedding,
        clip_ids: Sequence[str],
        read: Callable[[str], StoredClip],
        library: object,
    ) -> RerankScores:
        """Score one query (one row) against C clips with the matcher; each pair is scored once.

        Of a clip with more frames than the matcher was trained on, the middle ones of equal stretches are used; of a
        longer query the first words and the end mark, as training cuts captions, with the sentence of the whole query.
        A matcher that reads role graphs gets that of the whole text.
        """
        if library is not self._read_of:
            self._cache.clear()
            self._read_of = library
        matcher, texts = self.pretrained.matcher, query_features(self.pretrained, text, query)
        check_words(matcher, texts.word_mask)
        states = enumerate(self._clips.of(clip_ids, read))
        largest_first = sorted(states, key=lambda placed: -row_bytes(placed[1]))  # so that none is copied for room
        parts = ((slice(place, place + 1), state) for place, state in largest_first)
        videos = Encoded(tuple(clip_ids), gather_rows(len(clip_ids), parts))
        found = score_with_parts(matcher, encode_texts(matcher, texts), videos)
        if not np.isfinite(found.values).all():
            raise CheckpointError(
                "The matcher gives a score that is not a number; its weights are damaged or its training went wrong."
            )
        return RerankScores(
            _rounded(found.values), {PARTS.get(name, name): _rounded(part) for name, part in found.parts.items()}
        )


def query_features(pretrained: Pretrained, text: str, query: TextEmbedding) -> TextFeatures:
    """Return what a matcher reads of a query: the first words and the end mark."""
    most, kept = pretrained.about.inputs.words, np.flatnonzero(query.word_mask[0])
    if most is not None and len(kept) > most:
        kept = np.append(kept[: most - 1], kept[-1])
    graphs = tuple(graphs_of([text])) if pretrained.matcher.limits.graphs else None
    return TextFeatures(("query",), query.words[:, kept], query.word_mask[:, kept], query.sentence, graphs)


def check_encoder(pretrained: Pretrained, made_with: str, weights_hash: str) -> None:
    """Refuse a matcher that was trained on features of another encoder than the library's."""
    trained_on = pretrained.about.encoder
    if pretrained.matcher.limits.pretrained_mean and trained_on.trained_further:
        raise LibraryError(
            f"The matcher selects scene elements by how {trained_on.id} saw clips before it was trained further, and a "
            "library has the features of one encoder; train it on features (data.features) to re-rank with it."
        )
    if trained_on.stored_name is not None:
        raise LibraryError(
            f"The matcher was trained on {trained_on}, features that others computed, and no library has such; train "
            f"one on features of {made_with} to re-rank with it."
        )
    if trained_on.weights_hash != weights_hash:
        raise LibraryError(
            f"The matcher was trained on features of {trained_on}, the library was made with {made_with}, and "
            f"their weights differ; index the videos with --model {trained_on.model} to re-rank with this matcher."
        )


def _rounded(scores: FloatArray) -> FloatArray:
    """Equal clips must give equal scores, wherever a matrix product's blocks put them."""
    rounded: FloatArray = np.round(scores, DECIMALS).astype(np.float32)
    return rounded


def ranks(scores: FloatArray) -> list[int]:
    """Rank scores (C,); the best has rank 1, equal ones share a rank.

    >>> ranks(np.array([0.3, 0.9, 0.3], np.float32))
    [2, 1, 2]
    """
    found: list[int] = (np.searchsorted(np.sort(-scores), -scores, "left") + 1).tolist()
    return found


def unread_notice(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the notice for a matcher that reads on-screen text where that of some clips was never read."""
    (unread,) = connection.execute(
        "SELECT count(*) FROM clips WHERE NOT has_text AND clip_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(clip_ids)),),
    ).fetchone()
    if not unread:
        return ()
    which = f"{unread:,} of the {len(clip_ids):,} clips" if unread < len(clip_ids) else "none of the clips"
    found = "was not read in" if unread < len(clip_ids) else "was read in"
    return (
        f"The matcher that re-ranks goes by on-screen text too, which {found} {which} that it ordered; `evenreel "
        "index` without --no-ocr reads it.",
    )


def stored_clip(s: Snapshot, clip_id: str, *, text: bool) -> StoredClip:
    """Read the stored features of a clip with frames, with its on-screen text where `text` is True."""
    (place,), times = s.places([clip_id]), times_of(s, [clip_id])[clip_id]
    frames, tracks = frames_of(s, place, times), _tracks(s.connection, clip_id) if text else ()
    return StoredClip(clip_id, frames, times.spans_s[:, 0], times.spans_s[:, 1:], tracks)


def _tracks(connection: sqlite3.Connection, clip_id: str) -> tuple[TextTrack, ...]:
    rows = connection.execute(
        "SELECT text, confidence, start_s, end_s, box FROM tracks WHERE clip_id = ? ORDER BY number", (clip_id,)
    )
    return tuple(
        TextTrack(text, confidence, start_s, end_s, tuple(json.loads(box)))
        for text, confidence, start_s, end_s, box in rows
    )
