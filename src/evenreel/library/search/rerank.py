"""Re-ranking: a trained matcher orders the first clips of a result anew.

Search by one vector keeps the best frame of each clip; a matcher reads every word of the query against every frame,
which is more expensive, so it scores a shortlist: the first clips of the library's own answer. In it the rank by the
matcher's score takes the place of the rank in `seen`, and is fused with those in `on_screen` and `about` as before.
Clips on which 0.95 of the query's words are written still stand first; the confidence of frames no longer counts.
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from evenreel.errors import CheckpointError, LibraryError
from evenreel.features.load import graphs_of
from evenreel.features.windows import EMPTY, Sampled, read_windows
from evenreel.library.search.seen import DECIMALS, frames_of, times_of
from evenreel.library.search.snapshot import Snapshot
from evenreel.library.store.vectors import HalfArray
from evenreel.matchers.matcher import check_words
from evenreel.matchers.scoring import State, encode_texts, encode_videos, score_with_parts
from evenreel.similarity.tiles import Encoded, gather_rows, mapped, row_bytes, take_rows, tensors_of
from evenreel.types import Encoder, FloatArray, OnScreen, TextEmbedding, TextFeatures, TextTrack, VideoFeatures

if TYPE_CHECKING:
    from evenreel.checkpoint import Inputs, Pretrained

CACHE_BYTES = 2**28
"""Most memory for encoded clips by default: a clip of 12 frames of 512 numbers takes 2 to 242 KiB, as matchers go."""

PARTS = {"video": "seen", "ocr": "on_screen", "hybrid": "both"}
"""What a hit calls the parts of a matcher's score (`evenreel.matchers.matcher.ScoresInParts`): what is seen in the
frames, what is read on screen, and what is seen and read together."""


AT_ONCE = 8
"""Clips that are encoded together: always so many, all of one size, some of them twice where there are fewer. The last
bits of a product can depend on its shape, and those of a clip must not depend on the clips beside it."""


class RerankScores(NamedTuple):
    """Similarities of C clips by a matcher: `scores` (C,), and their `parts` (C,) by name where it gives them."""

    scores: FloatArray
    parts: dict[str, FloatArray]

    def of(self, place: int) -> dict[str, float]:
        return {name: float(part[place]) for name, part in self.parts.items()}


class StoredClip(NamedTuple):
    """Stored features of one clip: `frames` (T, D) float16, `times_s` (T,), `spans_s` (T, 2), and on-screen text."""

    clip_id: str
    frames: HalfArray
    times_s: NDArray[np.float64]
    spans_s: NDArray[np.float64]
    tracks: tuple[TextTrack, ...] = ()


class Reranker:
    """A matcher that re-ranks shortlists of one library; keeps encoded clips, since encoding is most of the cost."""

    def __init__(self, pretrained: Pretrained, encoder: Encoder, cache_bytes: int = CACHE_BYTES) -> None:
        self.pretrained, self._encoder, self._most_bytes = pretrained, encoder, cache_bytes
        self._kept: OrderedDict[str, State] = OrderedDict()  # the one that was asked for last is last
        self._read_of: object = None

    @property
    def reads_text(self) -> bool:
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

        Of more frames than the matcher was trained on the middle ones of equal stretches are used, of a longer query
        the first words and the end mark, as training cuts captions; role graphs are those of the whole text.
        """
        if library is not self._read_of:
            self._kept.clear()
            self._read_of = library
        matcher, texts = self.pretrained.matcher, query_features(self.pretrained, text, query)
        check_words(matcher, texts.word_mask)
        states = enumerate(self.states(clip_ids, read))
        largest_first = sorted(states, key=lambda placed: -row_bytes(placed[1]))  # so that none is copied for room
        parts = ((slice(place, place + 1), state) for place, state in largest_first)
        videos = Encoded(tuple(clip_ids), gather_rows(len(clip_ids), parts))
        found = score_with_parts(matcher, encode_texts(matcher, texts), videos)
        if not np.isfinite(found.values).all():
            raise CheckpointError(
                "The matcher gives a score that is not a number; its weights are damaged or its training went wrong."
            )
        # Equal clips give equal scores, wherever a matrix product's blocks put them.
        names = [PARTS.get(name, name) for name in found.parts]
        rounded = [np.round(one, DECIMALS).astype(np.float32) for one in (found.values, *found.parts.values())]
        return RerankScores(rounded[0], dict(zip(names, rounded[1:], strict=True)))

    def states(self, clip_ids: Sequence[str], read: Callable[[str], StoredClip]) -> list[State]:
        """Return the state of each clip, one row each; equal to the bit in whatever batch it is encoded."""
        found = {clip_id: self._kept.pop(clip_id) for clip_id in dict.fromkeys(clip_ids) if clip_id in self._kept}
        inputs = self.pretrained.about.inputs
        missing = [as_given(read(clip_id), inputs, self._encoder) for clip_id in clip_ids if clip_id not in found]
        for _, alike in groupby(sorted(missing, key=_size), _size):
            group = list(alike)
            for start in range(0, len(group), AT_ONCE):
                some = group[start : start + AT_ONCE]
                videos = _joined(some + some[-1:] * (AT_ONCE - len(some)))
                state = encode_videos(self.pretrained.matcher, videos).state
                for row, video in enumerate(some):  # a copy: a view would keep the states of all of them
                    found[video.ids[0]] = mapped(take_rows(state, slice(row, row + 1)), Tensor.clone)
        self._kept.update(found)
        kept_bytes = sum(map(_bytes, self._kept.values()))
        while kept_bytes > self._most_bytes:
            kept_bytes -= _bytes(self._kept.popitem(last=False)[1])
        return [found[clip_id] for clip_id in clip_ids]


def query_features(pretrained: Pretrained, text: str, query: TextEmbedding) -> TextFeatures:
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


def unread_notice(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> list[str]:
    """Say of a matcher that reads on-screen text where that of some clips was never read."""
    (unread,) = connection.execute(
        "SELECT count(*) FROM clips WHERE NOT has_text AND clip_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(clip_ids)),),
    ).fetchone()
    if not unread:
        return []
    which = f"{unread:,} of the {len(clip_ids):,} clips" if unread < len(clip_ids) else "none of the clips"
    found = "was not read in" if unread < len(clip_ids) else "was read in"
    return [
        f"The matcher that re-ranks goes by on-screen text too, which {found} {which} that it ordered; `evenreel "
        "index` without --no-ocr reads it."
    ]


def stored_clip(s: Snapshot, clip_id: str, *, text: bool) -> StoredClip:
    (place,), times = s.places([clip_id]), times_of(s, [clip_id])[clip_id]
    frames = frames_of(s, place, times)
    sql = "SELECT text, confidence, start_s, end_s, box FROM tracks WHERE clip_id = ? ORDER BY number"
    rows = s.connection.execute(sql, (clip_id,)) if text else ()
    tracks = tuple(TextTrack(text, sure, start, end, tuple(json.loads(box))) for text, sure, start, end, box in rows)
    return StoredClip(clip_id, frames, times.spans_s[:, 0], times.spans_s[:, 1:], tracks)


def as_given(clip: StoredClip, inputs: Inputs, encoder: Encoder) -> VideoFeatures:
    """Convert a stored clip to one row of the features that the matcher was trained on."""
    kept = middles(len(clip.times_s), inputs.frames)
    frames, times_s = clip.frames[kept][None], clip.times_s[kept][None]
    video = VideoFeatures((clip.clip_id,), frames, np.ones(times_s.shape, np.bool_), times_s)
    if inputs.windows is None:
        return video
    sampled = Sampled(clip.times_s, clip.spans_s)
    changes = inputs.word_changes
    empty = EMPTY if changes is not None and changes.empty == "caption" else ""
    made = read_windows(clip.tracks, sampled, inputs.windows, encoder, empty=empty)
    written = np.array([[bool(text) for text in made.texts]])
    return replace(video, on_screen=OnScreen(made.vectors[None], written, made.confidence[None]))


def middles(count: int, most: int | None) -> NDArray[np.int64]:
    """Choose at most `most` of `count` frames: all, or the middle ones of equal stretches.

    >>> middles(10, 3).tolist(), middles(2, 3).tolist()
    ([1, 5, 8], [0, 1])
    """
    if most is None or count <= most:
        return np.arange(count)
    return (2 * np.arange(most) + 1) * count // (2 * most)


def _size(video: VideoFeatures) -> tuple[int, int]:
    """Frames, and windows with text, of a video that is one row: all that the shapes inside a matcher depend on."""
    return video.frame_mask.shape[1], 0 if video.on_screen is None else int(video.on_screen.mask.sum())


def _joined(videos: Sequence[VideoFeatures]) -> VideoFeatures:
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(video, name) for video in videos])
        for name, array in vars(videos[0]).items()
        if isinstance(array, np.ndarray)
    }
    on_screen = joined_text([video.on_screen for video in videos if video.on_screen is not None])
    return replace(
        videos[0], ids=tuple(clip_id for video in videos for clip_id in video.ids), **arrays, on_screen=on_screen
    )


def joined_text(parts: Sequence[OnScreen[NDArray[Any]]]) -> OnScreen[NDArray[Any]] | None:
    """Put the on-screen text of clips one below the other, as `as_given` reads it; None where there is none."""
    if not parts:
        return None
    return OnScreen(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])})


def _bytes(state: State) -> int:
    return sum(tensor.nbytes for tensor in tensors_of(state))
