"""On-screen sentences of stored features, for a text tower that is in training itself."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from evenreel.corpus.tables import select
from evenreel.errors import FeaturesError
from evenreel.features.load import find_clips
from evenreel.features.settings import Words
from evenreel.features.stored.clips import StoredClips
from evenreel.features.windows import Fits
from evenreel.features.word_changes import WordChanges, changed_windows
from evenreel.types import Corpus, FloatArray


class ScreenSentences(NamedTuple):
    """On-screen sentences of V clips.

    Attributes:
        texts: V times the sentences of O windows, empty where a window has no text.
        confidence: (V, O) float32, see `evenreel.types.OnScreen`.
        words_from: source of the words.
    """

    texts: tuple[tuple[str, ...], ...]
    confidence: FloatArray
    words_from: Words


def read_on_screen(
    folder: str | Path,
    corpus: Corpus,
    clip_ids: tuple[str, ...],
    rule: str,
    fits: Fits,
    changes: WordChanges,
) -> ScreenSentences:
    """Read the on-screen sentences of some clips, as a tokenizer takes them.

    Args:
        folder: features of the corpus by any encoder, with on-screen text; its vectors are not read.
        corpus: the clips.
        clip_ids: V clips of the corpus.
        rule: sampling rule of the frames in which signs were found.
        fits: whether the tokenizer takes a sentence whole; the sentences are made anew of the signs.
        changes: words to leave out or misread.

    Raises:
        FeaturesError: the folder has no on-screen text by this rule; a clip has no features there, or was set aside; a
            file is damaged.
    """
    found = find_clips(folder, select(corpus, where=pl.col("clip_id").is_in(clip_ids)), rule=rule, windows=True)
    if isinstance(found, StoredClips) or found.made.windows is None:
        raise FeaturesError(
            f"The features in {folder} have no on-screen text; name a folder that `evenreel features` made, without "
            "--no-ocr."
        )
    shards, _ = found.shards(without=("frames", "windows"))
    if missing := next((clip_id for clip_id in clip_ids if clip_id not in shards), None):
        raise FeaturesError(
            f"The clip {missing} can be used, and was set aside when the features in {folder} were computed; compute "
            "them again."
        )
    windows = [changed_windows(shards[clip_id], clip_id, changes, found.made, fits) for clip_id in clip_ids]
    confidence = np.array([[one.confidence for one in row] for row in windows], np.float32)
    return ScreenSentences(tuple(tuple(one.text for one in row) for row in windows), confidence, found.made.words)
