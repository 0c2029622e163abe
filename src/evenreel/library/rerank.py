"""Order the first clips of an answer anew with a trained matcher.

Search by one vector keeps the best frame of each clip; a matcher reads every word of the query against every frame,
which is dearer, so it sees a shortlist: the first clips of the library's own answer. In it the rank by the matcher's
score takes the place of the rank in `seen`, and is fused with those in `on_screen` and `about` as before. Clips on
which the words of the query are written with a confidence of 0.95 or more still stand first; the frames' confidence
orders no longer, for that is the matcher's part.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import CheckpointError, LibraryError, UsageError
from evenreel.features.windows import window_texts
from evenreel.library.gallery import DECIMALS, Gallery
from evenreel.library.vectors import HalfArray, VectorIndex
from evenreel.types import Encoder, FloatArray, TextEmbedding, TextFeatures, TextTrack, VideoFeatures

if TYPE_CHECKING:
    from evenreel.checkpoint import Pretrained


class StoredClip(NamedTuple):
    """What a library keeps of a clip.

    `frames` (T, D) float16 and their `times_s` (T,), the clip's `length_s`, and what is written in it.
    """

    clip_id: str
    frames: HalfArray
    times_s: NDArray[np.float64]
    length_s: float
    tracks: tuple[TextTrack, ...] = ()


class Reranker:
    """A matcher that orders a shortlist of `depth` clips.

    Args:
        pretrained: the matcher.
        encoder: whose features the library has.
        depth: how many clips are scored anew.

    Raises:
        UsageError: the depth is below 1.
    """

    def __init__(self, pretrained: Pretrained, encoder: Encoder, depth: int) -> None:
        if depth < 1:
            raise UsageError(f"The number of clips to re-rank is {depth}; it must be 1 or more.")
        self._pretrained, self._encoder = pretrained, encoder
        self.depth = depth

    @property
    def reads_text(self) -> bool:
        """Whether it wants to know what is written in the clips."""
        return self._pretrained.about.inputs.windows is not None

    def scores(self, query: TextEmbedding, clips: Sequence[StoredClip]) -> FloatArray:
        """The matcher's similarities of one query (one row) and C clips: (C,).

        A clip with more frames than the matcher was trained on gives the middle ones of equal stretches, and a query
        with more words its first.

        Raises:
            CheckpointError: the matcher gives something that is not a number.
        """
        from evenreel.matchers.scoring import matcher_scores

        inputs = self._pretrained.about.inputs
        texts, videos = _texts(query, inputs.words), _videos(clips, inputs.frames)
        if inputs.windows is not None:
            videos = _with_windows(videos, clips, inputs.windows, self._encoder)
        found = matcher_scores(self._pretrained.matcher, texts, videos).block(slice(0, 1), slice(0, len(clips)))[0]
        if not np.isfinite(found).all():
            raise CheckpointError(
                "The matcher gives a score that is not a number; its weights are damaged or its training went wrong."
            )
        # Equal clips must give equal scores, wherever a matrix product's blocks put them.
        rounded: FloatArray = np.round(found, DECIMALS).astype(np.float32)
        return rounded


def check_encoder(pretrained: Pretrained, made_with: str, weights_hash: str) -> None:
    """Refuse a matcher that was trained on features of another encoder than the library's.

    Raises:
        LibraryError: it was.
    """
    trained_on = pretrained.about.encoder
    if trained_on.weights_hash != weights_hash:
        raise LibraryError(
            f"The matcher was trained on features of {trained_on}, the library was made with {made_with}, and "
            f"their weights differ; index the videos with --model {trained_on.model} to re-rank with this matcher."
        )


def ranks(scores: FloatArray) -> list[int]:
    """Ranks of scores (C,), the best is 1; equal ones share a rank.

    >>> ranks(np.array([0.3, 0.9, 0.3], np.float32))
    [2, 1, 2]
    """
    found: list[int] = (np.searchsorted(np.sort(-scores), -scores, "left") + 1).tolist()
    return found


def stored_clip(
    connection: sqlite3.Connection, gallery: Gallery, vectors: VectorIndex, clip_id: str, *, text: bool
) -> StoredClip:
    """What the library has of a clip of its gallery, with what is written in it where `text` asks for that.

    Raises:
        LibraryError: the vectors cannot be read, or are not as many as the catalog has moments.
    """
    place = gallery.place[clip_id]
    count = int(gallery.counts[place])
    rows = connection.execute(
        "SELECT time_s, end_s FROM moments WHERE clip_id = ? ORDER BY number", (clip_id,)
    ).fetchall()
    if len(rows) != count:
        raise LibraryError(
            f"The catalog has {len(rows)} moments of clip {clip_id} but {count} vectors; run `evenreel repair`."
        )
    times_s, ends_s = np.array(rows, np.float64).T
    frames = vectors.read(int(gallery.first_rows[place]), count)
    return StoredClip(clip_id, frames, times_s, float(ends_s[-1]), _tracks(connection, clip_id) if text else ())


def _tracks(connection: sqlite3.Connection, clip_id: str) -> tuple[TextTrack, ...]:
    rows = connection.execute(
        "SELECT text, confidence, start_s, end_s, box FROM tracks WHERE clip_id = ? ORDER BY number", (clip_id,)
    )
    return tuple(
        TextTrack(text, confidence, start_s, end_s, tuple(json.loads(box)))
        for text, confidence, start_s, end_s, box in rows
    )


def _texts(query: TextEmbedding, most: int | None) -> TextFeatures:
    words = slice(None, most)
    return TextFeatures(("query",), query.words[:, words], query.word_mask[:, words], query.sentence)


def _videos(clips: Sequence[StoredClip], most: int | None) -> VideoFeatures:
    """The clips side by side, padded to the longest."""
    kept = [middles(len(clip.times_s), most) for clip in clips]
    shape = len(clips), max(map(len, kept))
    frames = np.zeros((*shape, clips[0].frames.shape[1]), np.float16)
    times_s, mask = np.zeros(shape), np.zeros(shape, np.bool_)
    for row, (clip, chosen) in enumerate(zip(clips, kept, strict=True)):
        frames[row, : len(chosen)] = clip.frames[chosen]
        times_s[row, : len(chosen)] = clip.times_s[chosen]
        mask[row, : len(chosen)] = True
    return VideoFeatures(tuple(clip.clip_id for clip in clips), frames, mask, times_s)


def middles(count: int, most: int | None) -> NDArray[np.int64]:
    """Which of `count` frames to keep: all, or the middle ones of `most` equal stretches.

    >>> middles(10, 3).tolist(), middles(2, 3).tolist()
    ([1, 5, 8], [0, 1])
    """
    if most is None or count <= most:
        return np.arange(count)
    return (2 * np.arange(most) + 1) * count // (2 * most)


def _with_windows(videos: VideoFeatures, clips: Sequence[StoredClip], count: int, encoder: Encoder) -> VideoFeatures:
    """The videos with what is written in each of `count` windows, as `evenreel features` makes them."""
    fits = _fits(encoder)
    texts = [window_texts(clip.tracks, clip.length_s, count, fits) for clip in clips]
    distinct = list(dict.fromkeys(text for of_clip in texts for text in of_clip if text))
    sentences = encoder.encode_text(distinct).sentence if distinct else np.zeros((0, videos.frames.shape[2]))
    nothing = np.zeros(videos.frames.shape[2])
    vectors = dict(zip(distinct, sentences, strict=True))
    windows = np.array([[vectors.get(text, nothing) for text in of_clip] for of_clip in texts], np.float16)
    return replace(videos, windows=windows, window_mask=np.array([[bool(text) for text in row] for row in texts]))


def _fits(encoder: Encoder) -> Callable[[str], bool]:
    """Whether the tokenizer takes a text whole; taken for granted of an encoder that cannot tell."""
    truncated = getattr(encoder, "truncated", None)
    return (lambda text: True) if truncated is None else (lambda text: not truncated([text])[0])
