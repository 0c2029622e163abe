"""From features to scores: captions and videos are encoded once, in batches, and their pairs are scored in tiles."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from evenreel.errors import UsageError
from evenreel.matchers.batches import text_batch, to_device, video_batch
from evenreel.matchers.matcher import Matcher
from evenreel.similarity.states import Encoded, join_rows, move
from evenreel.similarity.tiles import DEFAULT_BUDGET_BYTES, MatcherScores, device_of, evaluating
from evenreel.types import TextFeatures, VideoFeatures

ROWS_A_BATCH = 256


def matcher_scores(
    matcher: Matcher, texts: TextFeatures, videos: VideoFeatures, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> MatcherScores:
    """Scores of every caption and video, ready for `evenreel.evaluate`; a pair is scored when it is asked for.

    Args:
        matcher: on the device where the work is to be done.
        texts: features of Q captions.
        videos: features of V videos, of the same encoder.
        budget_bytes: most memory that scoring takes beside the encoded captions and videos and the scores it gives.

    Raises:
        UsageError: there is no caption or no video, their features have different lengths, or the budget is too small.
    """
    dimensions = texts.words.shape[-1], videos.frames.shape[-1]
    if dimensions[0] != dimensions[1]:
        raise UsageError(
            f"The features of captions have {dimensions[0]} numbers and those of videos {dimensions[1]}; "
            "compute both with one encoder."
        )
    return MatcherScores(matcher, encode_texts(matcher, texts), encode_videos(matcher, videos), budget_bytes)


def encode_texts(matcher: Matcher, features: TextFeatures) -> Encoded:
    """Captions as the matcher keeps them, in evaluation mode; the state is in main memory wherever the matcher is."""
    device = device_of(matcher)
    with torch.no_grad(), evaluating(matcher):
        states = [
            move(matcher.encode_text(to_device(text_batch(features, rows), device)), "cpu")
            for rows in _batches(len(features.ids))
        ]
    return Encoded(features.ids, join_rows(states) if states else ())


def encode_videos(matcher: Matcher, features: VideoFeatures) -> Encoded:
    """Videos as the matcher keeps them, likewise."""
    device = device_of(matcher)
    with torch.no_grad(), evaluating(matcher):
        states = [
            move(matcher.encode_video(to_device(video_batch(features, rows), device)), "cpu")
            for rows in _batches(len(features.ids))
        ]
    return Encoded(features.ids, join_rows(states) if states else ())


def _batches(count: int) -> Iterator[slice]:
    for start in range(0, count, ROWS_A_BATCH):
        yield slice(start, min(start + ROWS_A_BATCH, count))
