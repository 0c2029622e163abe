"""A library's clips in two orders: as they were shot, and with their stored frames turned round, scored alike.

A search by the best frame of each clip scores both orders the same. A matcher that re-ranks reads all frames of a clip,
and may tell which came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices, slices
from evenreel.corpus.order_twins import ORDER_OF
from evenreel.errors import UsageError
from evenreel.library.audited import encoded
from evenreel.library.library import Library
from evenreel.library.search.seen import DECIMALS
from evenreel.library.search.snapshot import Snapshot
from evenreel.types import Corpus, Encoder, ScoreBlocks, ScoreNotes, Scores, VideoFeatures

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained
    from evenreel.similarity.states import Encoded

TURNED = " turned round"
"""Behind the id of a clip whose frames are turned round."""

MOST_CLIPS = 1_000
"""Clips of a library that are scored in both orders; of more, so many are drawn at random."""

_AT_ONCE = 64

BothOrders = Callable[[Sequence[int]], NDArray[Any]]
"""Scores (2, Q, C) of the queries with clips of the gallery, given by their places: as they are, and turned round."""


def order_inputs(
    library: Library, queries: Sequence[str], pretrained: Pretrained | None = None, *, seed: int = 0
) -> tuple[Corpus, ScoreBlocks]:
    """Return clips of a library in both orders and their scores, for an audit of order."""
    if pretrained is not None:
        library.check_matcher(pretrained)
    encoder = library.encoder
    with library.snapshot() as s:
        return _inputs(s, encoder, queries, pretrained, seed)


def _inputs(
    opened: Snapshot, encoder: Encoder | None, queries: Sequence[str], pretrained: Pretrained | None, seed: int
) -> tuple[Corpus, ScoreBlocks]:
    import polars as pl

    from evenreel.corpus import make_corpus

    if encoder is None or opened.vectors is None:
        raise UsageError("The library is searched without vision, so no order of frames can be audited.")
    searched, ids = encoded(queries, encoder), opened.seen_ids
    if not len(ids):
        raise UsageError("No clip of the library has frames, so there is nothing to audit; index some videos first.")
    places = _drawn(len(ids), seed)
    if pretrained is None:
        of = _by_best_frame(opened, searched.vectors)
    else:
        of = _MatchedClips(opened, encoder, pretrained, searched.texts).scores
    some = [places[part].tolist() for part in slices(len(places), _AT_ONCE)]
    values = np.concatenate([of(part) for part in some], axis=2)
    shot = [ids[place] for place in places.tolist()]
    turned = [f"{clip}{TURNED}" for clip in shot]
    rows = [f"q{number}" for number in range(1, len(searched.texts) + 1)]
    notices = (*searched.notices, *_notices(len(places), len(ids), encoder))
    uses = () if pretrained is None else pretrained.about.uses
    about = ScoreNotes(uses=uses, notices=notices, texts=dict(zip(rows, searched.texts, strict=True)))
    clips = pl.DataFrame({"clip_id": shot + turned, ORDER_OF: [None] * len(shot) + shot})
    captions = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
    return make_corpus(clips, captions), Scores(np.concatenate(values, axis=1), rows, shot + turned, about)


def _drawn(count: int, seed: int) -> Indices:
    if count <= MOST_CLIPS:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, MOST_CLIPS, replace=False))


def _notices(looked_at: int, held: int, encoder: Encoder) -> Iterator[str]:
    if looked_at < held:
        yield f"Of {held:,} clips {looked_at:,}, drawn at random, were looked at in both orders."
    if encoder.window.frames > 1:
        yield (
            f"The library's model sees {encoder.window.frames} frames at once, and within these they stay in order: "
            "only their sequence is turned round. To turn all round, index copies of the videos that play backwards."
        )


def _by_best_frame(opened: Snapshot, queries: NDArray[Any]) -> BothOrders:
    vectors, seen = opened.vectors, opened.seen
    assert vectors is not None  # it was looked at

    def scores(places: Sequence[int]) -> NDArray[Any]:
        frames = [
            np.asarray(vectors.read(int(opened.first_rows[one]), int(opened.counts[one])), np.float32)
            for one in seen[list(places)]
        ]
        best = [[(queries @ order.T).max(axis=1) for order in (one, one[::-1])] for one in frames]
        return np.round(np.array(best).transpose(1, 2, 0), DECIMALS)

    return scores


@dataclass(frozen=True, eq=False)
class _MatchedClips:
    """Clips of a library as a matcher that re-ranks scores them, in both orders."""

    opened: Snapshot
    encoder: Encoder
    pretrained: Pretrained
    texts: Sequence[str]

    def scores(self, places: Sequence[int]) -> NDArray[Any]:
        """Score all queries with some clips: (2, Q, C)."""
        from evenreel.edits.frame_order import reordered

        clips = [self._clip(place) for place in places]
        return np.stack([self._scored(clips), self._scored([reordered(one, "reversed") for one in clips])])

    def _clip(self, place: int) -> VideoFeatures:
        from evenreel.library.search.clip_states import as_given
        from evenreel.library.search.rerank import stored_clip

        inputs = self.pretrained.about.inputs
        clip = stored_clip(self.opened, self.opened.seen_ids[place], text=inputs.windows is not None)
        return as_given(clip, inputs, self.encoder)

    def _scored(self, clips: Sequence[VideoFeatures]) -> NDArray[Any]:
        from evenreel.matchers.scoring import encode_videos
        from evenreel.matchers.shortlists import score_with_parts
        from evenreel.similarity.states import Encoded, gather_rows, row_bytes

        matcher = self.pretrained.matcher
        states = [(place, encode_videos(matcher, one).state) for place, one in enumerate(clips)]
        largest_first = sorted(states, key=lambda placed: -row_bytes(placed[1]))  # so that none is copied for room
        rows = ((slice(place, place + 1), state) for place, state in largest_first)
        videos = Encoded(tuple(one.ids[0] for one in clips), gather_rows(len(clips), rows))
        found = [score_with_parts(matcher, query, videos).values for query in self._queries]
        return np.round(np.array(found), DECIMALS)

    @cached_property
    def _queries(self) -> list[Encoded]:
        """Each query as the matcher encodes it when it re-ranks."""
        from evenreel.library.search.rerank import query_features
        from evenreel.matchers.lengths import check_words
        from evenreel.matchers.scoring import encode_texts

        matcher = self.pretrained.matcher
        found = []
        for text in self.texts:
            query = query_features(self.pretrained, text, self.encoder.encode_text([text]))
            check_words(matcher, query.word_mask)
            found.append(encode_texts(matcher, query))
        return found
