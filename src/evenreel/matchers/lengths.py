"""Checks that captions and videos fit a matcher: numbers of words and frames, and the length D of features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VideoBatch, row_lengths
from evenreel.matchers.matcher import Matcher
from evenreel.similarity.interaction import lengths
from evenreel.types import TextFeatures, VideoFeatures


def cut(items: Tensor, mask: Tensor, limit: int, names: tuple[str, str], counted: str = "") -> tuple[Tensor, Tensor]:
    """Cut words or frames and their mask to the number that a matcher has parameters for; only padding may be lost.

    Args:
        items: (N, L, D) words or frames.
        mask: (N, L) True = real.
        limit: greatest L that the matcher has parameters for.
        names: names for the message, of a row and of the limit's setting, such as `("clip", "frames")`.
        counted: name of the items for the message, where it is not that of the setting.

    Raises:
        UsageError: there is a real item past the limit.
    """
    if mask.shape[1] > limit and mask[:, limit:].any():
        raise _too_long(int(lengths(mask).max()), limit, names, counted)
    return items[:, :limit], mask[:, :limit]


def check_lengths(matcher: Matcher, texts: TextFeatures, videos: VideoFeatures) -> None:
    """Check that no caption or video is too long for a matcher, before any of them is encoded.

    Raises:
        UsageError: one is too long (the message has the longest of all), or captions lack what the matcher reads:
            features of a text tower, or role graphs.
    """
    _check_read(matcher, texts)
    check_words(matcher, texts.word_mask)
    check_frames(matcher, videos.frame_mask, None if videos.on_screen is None else videos.on_screen.mask)


def check_words(matcher: Matcher, word_mask: NDArray[np.bool_]) -> None:
    """Check that no caption is too long for a matcher, by the mask of words (Q, W); role graphs are not checked.

    Raises:
        UsageError: one is.
    """
    limit = None if matcher.limits.graphs else matcher.limits.words
    most = int(row_lengths(word_mask).max(initial=0))
    if limit is not None and most > limit:
        raise _too_long(most, limit, ("caption", "words"))


def check_frames(matcher: Matcher, frame_mask: NDArray[np.bool_], window_mask: NDArray[np.bool_] | None = None) -> None:
    """Check that no video is too long for a matcher, by the masks of frames (V, T) and of windows (V, O).

    Raises:
        UsageError: one is.
    """
    limit = matcher.limits.frames
    among = matcher.limits.windows and window_mask is not None
    counts = frame_mask.sum(1) + window_mask.sum(1) if among and window_mask is not None else row_lengths(frame_mask)
    most = int(counts.max(initial=0))
    if limit is not None and most > limit:
        raise _too_long(most, limit, ("clip", "frames"), "frames and on-screen windows" if among else "frames")
    own = matcher.limits.own_windows
    if own is not None and window_mask is not None and (read := int(row_lengths(window_mask).max(initial=0))) > own:
        raise _too_long(read, own, ("clip", "frames"), "on-screen windows")


def check_texts(matcher: Matcher, texts: TextBatch) -> None:
    """Check that a matcher can score captions: they have words, and features are finite and of its length.

    Where the matcher reads their role graphs, features of words and sentences are not checked.

    Raises:
        UsageError: a caption has no word, a feature is not finite, features have another length than the matcher's, or
            captions lack what it reads: features of a text tower, or role graphs.
    """
    _check_read(matcher, texts)
    if matcher.limits.graphs:
        return
    _check_dimension(matcher, texts.words, "words")
    _check_dimension(matcher, texts.sentence, "sentences")
    _check_rows(texts.word_mask.any(1), texts.ids, "The caption {} has no word; leave it out.")
    finite = texts.words.isfinite().flatten(1).all(1) & texts.sentence.isfinite().all(1)
    _check_rows(finite, texts.ids, "The features of the caption {} are not all finite numbers; compute them again.")


def check_videos(matcher: Matcher, videos: VideoBatch) -> None:
    """Check that a matcher can score videos: they have frames, and features are finite and of its length.

    Raises:
        UsageError: a video has no frame, a feature is not finite, or features have another length than the matcher's.
    """
    _check_dimension(matcher, videos.frames, "frames")
    _check_rows(videos.frame_mask.any(1), videos.ids, "The video {} has no frame; leave it out.")
    finite = videos.frames.isfinite().flatten(1).all(1)
    if videos.on_screen is not None:
        _check_dimension(matcher, videos.on_screen.windows, "on-screen windows")
        finite &= videos.on_screen.windows.isfinite().flatten(1).all(1)
    _check_rows(finite, videos.ids, "The features of the video {} are not all finite numbers; compute them again.")


def _check_read(matcher: Matcher, texts: TextFeatures | TextBatch) -> None:
    if matcher.limits.graphs and texts.graphs is None:
        raise UsageError(
            "This matcher reads the role graphs of captions, and these have none; add them with "
            "evenreel.features.load.with_graphs."
        )
    if not matcher.limits.graphs and texts.words.shape[-1] == 0:
        raise UsageError(
            "No text tower has read these captions (they are beside features that others computed), and this matcher "
            "takes features of words; use one that reads the words themselves, such as hgr."
        )


def _check_dimension(matcher: Matcher, features: Tensor, of: str) -> None:
    given, taken = features.shape[-1], matcher.limits.dimension
    if given != taken:
        raise UsageError(
            f"The features of {of} have {given} numbers, but this matcher was built for {taken}; "
            "compute features with the encoder that it was trained on."
        )


def _check_rows(good: Tensor, ids: tuple[str, ...], sentence: str) -> None:
    if not good.all():
        raise UsageError(sentence.format(ids[int(good.int().argmin())]))


def _too_long(most: int, limit: int, names: tuple[str, str], counted: str = "") -> UsageError:
    row, parts = names
    return UsageError(
        f"A {row} has {most} {counted or parts}, but this matcher was built for {limit} at most; "
        f"use fewer {counted or parts}, or train with max_{parts}={most} or more."
    )
