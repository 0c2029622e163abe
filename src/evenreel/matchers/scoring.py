"""Scores from features: captions and videos are encoded once, in batches, and their pairs are scored in tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenreel.arrays import slices
from evenreel.matchers.batches import row_lengths, text_batch, to_device, video_batch
from evenreel.matchers.matcher import Matcher, check_lengths, check_texts, check_videos
from evenreel.similarity.states import Encoded, gather_rows
from evenreel.similarity.tiles import DEFAULT_BUDGET_BYTES, MatcherScores, device_of, evaluating
from evenreel.types import NO_NOTES, ScoreNotes, TextFeatures, VideoFeatures

ROWS_A_BATCH = 64

State = tuple[Any, ...]


def matcher_scores(
    matcher: Matcher,
    texts: TextFeatures,
    videos: VideoFeatures,
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
    about: ScoreNotes = NO_NOTES,
) -> MatcherScores:
    """Return a matcher's scores (Q, V) of captions and videos, which are computed when they are read.

    Args:
        matcher: the matcher, on the device where the work is to be done.
        texts: features of Q captions.
        videos: features of V videos, of the same encoder.
        budget_bytes: most memory that scoring takes beside the encoded captions and videos and the scores it gives;
            encoding, a batch of 64 at a time, is not counted.
        about: notes of the scores: what the matcher and the features use, and what else a reader must know.

    Raises:
        UsageError: there is no caption or no video, one cannot be scored (`evenreel.matchers.matcher` says which), or
            the budget is too small.
    """
    check_lengths(matcher, texts, videos)
    return MatcherScores(matcher, encode_texts(matcher, texts), encode_videos(matcher, videos), budget_bytes, about)


def encode_texts(matcher: Matcher, features: TextFeatures) -> Encoded:
    """Encode the features of captions with a matcher in evaluation mode; the state is kept in main memory.

    Raises:
        UsageError: a caption has no words, too many or none that are numbers, or the features are not the matcher's.
    """

    def encode(rows: slice) -> State:
        batch = text_batch(features, rows)
        check_texts(matcher, batch)
        state: State = matcher.encode_text(to_device(batch, device_of(matcher)))
        return state

    return Encoded(features.ids, _in_batches(matcher, encode, row_lengths(features.word_mask)))


def encode_videos(matcher: Matcher, features: VideoFeatures) -> Encoded:
    """Encode the features of videos with a matcher in evaluation mode; the state is kept in main memory.

    Raises:
        UsageError: a video has no frames, too many or none that are numbers, or the features are not the matcher's.
    """

    def encode(rows: slice) -> State:
        batch = video_batch(features, rows)
        check_videos(matcher, batch)
        state: State = matcher.encode_video(to_device(batch, device_of(matcher)))
        return state

    return Encoded(features.ids, _in_batches(matcher, encode, row_lengths(features.frame_mask)))


def _in_batches(matcher: Matcher, encode: Callable[[slice], State], lengths: NDArray[np.int64]) -> State:
    """All rows; the batch of the longest comes first, so that the state need not grow."""
    batches = sorted(slices(len(lengths), ROWS_A_BATCH), key=lambda rows: -int(lengths[rows].max()))
    with torch.no_grad(), evaluating(matcher):
        state: State = gather_rows(len(lengths), ((rows, encode(rows)) for rows in batches))
    return state
