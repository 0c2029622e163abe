"""Similarity of captions with on-screen text, without training: the word and the window that are most alike.

A caption names a sign in one word, and the sign is read in some of the windows, more often wrong than all else that is
compared. So the best pair says more than a mean over words and windows does, in which the others drown it. It says
nothing of what a clip shows otherwise: fused with a matcher of frames (`evenreel.evaluation.fuse`), its weight learned
on a validation split, it counts as much as words are worth there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import slices
from evenreel.errors import UsageError
from evenreel.types import ScoreNotes, Scores, TextFeatures, VideoFeatures

USES = "mean score of the clips with text"
"""What scores of clips without any text are taken from."""
BLOCK_BYTES = 2**26


def window_scores(texts: TextFeatures, videos: VideoFeatures) -> Scores:
    """Compute scores (Q, V): the largest cosine between a word of the caption and an on-screen window of the clip.

    A clip in which no text was read gets the mean of the caption's scores with all other clips.

    Args:
        texts: features of Q captions.
        videos: features of V clips with on-screen text, by the same encoder.

    Raises:
        UsageError: no clip has on-screen text, or captions have features of another length.
    """
    read = videos.on_screen
    if read is None or not read.mask.any():
        raise UsageError("No clip has on-screen text; compute features that have it, without --no-ocr.")
    if texts.words.shape[2] != read.windows.shape[2]:
        raise UsageError(
            f"Features of captions have {texts.words.shape[2]} numbers and those of on-screen text "
            f"{read.windows.shape[2]}; compute both with one encoder."
        )
    written = read.mask.any(1)
    columns, clip_starts = _real(read.windows, read.mask)
    captions = max(1, BLOCK_BYTES // (4 * len(columns) * texts.words.shape[1]))
    values = np.empty((len(texts.ids), len(videos.ids)), np.float32)
    for rows in slices(len(values), captions):
        words, caption_starts = _real(texts.words[rows], texts.word_mask[rows])
        of_words = np.maximum.reduceat(words @ columns.T, clip_starts, axis=1)
        values[rows, written] = np.maximum.reduceat(of_words, caption_starts, axis=0)
    values[:, ~written] = values[:, written].mean(1, keepdims=True)
    about = ScoreNotes(uses=() if written.all() else (USES,))
    return Scores(values, texts.ids, videos.ids, about)


def _real(vectors: NDArray[np.floating], mask: NDArray[np.bool_]) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The real vectors (N, D) of all rows that have any, of unit length, and where each such row begins."""
    real = vectors[mask].astype(np.float32)
    counts = mask.sum(1)
    counts = counts[counts > 0]
    return real / np.linalg.norm(real, axis=1, keepdims=True), np.cumsum(counts) - counts
