"""Scores from features: captions and videos are encoded once, in batches, and their pairs are scored in tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenreel.arrays import slices
from evenreel.errors import UsageError
from evenreel.matchers.batches import row_lengths, text_batch, to_device, video_batch
from evenreel.matchers.matcher import Matcher, ScoresInParts, Wrapper, check_lengths, check_texts, check_videos
from evenreel.similarity.tiles import (
    DEFAULT_BUDGET_BYTES,
    Encoded,
    MatcherScores,
    device_of,
    evaluating,
    gather_rows,
    take_rows,
)
from evenreel.types import NO_NOTES, FloatArray, ScoreNotes, TextFeatures, VideoFeatures

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
    """Encode the features of captions with a matcher in evaluation mode; the state is kept in main memory."""
    return _encoded(matcher, features, features.word_mask, (text_batch, check_texts, matcher.encode_text))


def encode_videos(matcher: Matcher, features: VideoFeatures) -> Encoded:
    """Encode the features of videos with a matcher in evaluation mode; the state is kept in main memory."""
    return _encoded(matcher, features, features.frame_mask, (video_batch, check_videos, matcher.encode_video))


def _encoded(
    matcher: Matcher, features: Any, mask: NDArray[np.bool_], steps: tuple[Callable[..., Any], ...]
) -> Encoded:
    """All rows; the batch of the longest comes first, so that the state need not grow."""
    batch_of, check, encode = steps

    def state(rows: slice) -> Any:
        batch = batch_of(features, rows)
        check(matcher, batch)
        return encode(to_device(batch, device_of(matcher)))

    lengths = row_lengths(mask)
    batches = sorted(slices(len(lengths), ROWS_A_BATCH), key=lambda rows: -int(lengths[rows].max()))
    with torch.no_grad(), evaluating(matcher):
        return Encoded(features.ids, gather_rows(len(lengths), ((rows, state(rows)) for rows in batches)))


class PartedScores(NamedTuple):
    """Scores of one caption and V videos, with the parts that they are the mean of."""

    values: FloatArray  # (V,) scores
    parts: dict[str, FloatArray]  # (V,) scores of each part, by its name; empty for a matcher without parts


def score_with_parts(
    matcher: Matcher, text: Encoded, videos: Encoded, budget_bytes: int = DEFAULT_BUDGET_BYTES
) -> PartedScores:
    """Score one encoded caption with V encoded videos, and return the parts of the scores where there are some."""
    if len(text.ids) != 1:
        raise UsageError(f"Parts are told of one caption at a time; {len(text.ids)} were given.")
    noting = _Noting(matcher)
    values = MatcherScores(noting, text, videos, budget_bytes).score_all().values[0]
    names = noting.noted[0].keys()
    return PartedScores(values, {name: np.concatenate([tile[name] for tile in noting.noted]) for name in names})


def score_shortlists(
    matcher: Matcher,
    texts: Encoded,
    videos: Encoded,
    places: NDArray[np.int64],
    budget_bytes: int = DEFAULT_BUDGET_BYTES,
) -> FloatArray:
    """Score each caption with the videos of its shortlist, and no other pair.

    Memory holds all states, and a copy of those of one shortlist.

    Args:
        matcher: the matcher, on the device where the work is to be done.
        texts: Q captions, encoded by the matcher.
        videos: V videos, encoded by the matcher.
        places: (Q, K) shortlist of each caption, as rows in `videos`.
        budget_bytes: most memory that scoring takes, as in `MatcherScores`.

    Returns:
        Scores (Q, K), equal to those of the full table.

    Raises:
        UsageError: there is no caption or no place in a shortlist, or not a shortlist for each caption.
    """
    if len(places) != len(texts.ids) or not places.size:
        raise UsageError(f"There are {len(texts.ids)} captions and shortlists of shape {places.shape}; give one each.")
    scores: list[FloatArray] = []
    for row, chosen in enumerate(places):
        text = Encoded(texts.ids[row : row + 1], take_rows(texts.state, slice(row, row + 1)))
        scores.append(MatcherScores(matcher, text, chosen_rows(videos, chosen), budget_bytes).score_all().values)
    return np.concatenate(scores)


def chosen_rows(encoded: Encoded, rows: NDArray[np.int64]) -> Encoded:
    """Select encoded captions or videos by their rows, in the order given; states are copied."""
    return Encoded(tuple(encoded.ids[row] for row in rows), take_rows(encoded.state, torch.from_numpy(rows)))


class CoarseScorer(Wrapper):
    """Scorer by the cheap score of the same states, one product of vectors a pair, that a matcher has (`coarse`)."""

    def score(self, text: Any, video: Any) -> Tensor:
        """Compute the cheap score (Q, V) of encoded captions and videos."""
        cheap: Tensor = self.matcher.coarse(text, video)
        return cheap


def coarse_scorer(matcher: Matcher) -> CoarseScorer | None:
    """Return the scorer of a matcher's cheap score; None where it has none."""
    scored = encoding_matcher(matcher)
    return CoarseScorer(scored) if hasattr(scored, "coarse") else None


def encoding_matcher(matcher: Matcher) -> Matcher:
    """Return the matcher that encodes: the innermost of wrapped ones."""
    while isinstance(matcher, Wrapper):
        matcher = matcher.served
    return matcher


class _Noting(Wrapper):
    """Scores tiles of one caption as the matcher does, and notes the parts of each: a caption's tiles come in order."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__(encoding_matcher(matcher))
        self.noted: list[dict[str, FloatArray]] = []

    def score(self, text: Any, video: Any) -> Tensor:
        parts = self.matcher.part_scores(text, video) if isinstance(self.matcher, ScoresInParts) else {}
        self.noted.append({name: part[0].float().cpu().numpy() for name, part in parts.items()})
        return torch.stack(list(parts.values())).mean(0) if parts else super().score(text, video)
