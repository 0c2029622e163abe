"""What is written on screen in stored features: sentences for a text tower in training, signs for a search by words."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from evenreel.corpus.tables import select
from evenreel.errors import FeaturesError
from evenreel.features.load import FoundClips, all_of, find_clips
from evenreel.features.pool import SetAside
from evenreel.features.settings import Words
from evenreel.features.stored import StoredClips
from evenreel.features.windows import Fits
from evenreel.features.word_changes import WordChanges, changed_signs, changed_windows
from evenreel.types import Corpus, FloatArray


class ScreenSentences(NamedTuple):
    """Sentences of O windows of V clips, empty where a window has no text; `confidence` is (V, O) float32."""

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
    """Read the on-screen sentences of some clips, as a tokenizer takes them, of the signs that `rule` found."""
    found = find_clips(folder, select(corpus, where=pl.col("clip_id").is_in(clip_ids)), rule=rule, windows=True)
    if isinstance(found, StoredClips) or found.made.windows is None:
        raise FeaturesError(
            f"The features in {folder} have no on-screen text; name a folder that `evenreel features` made, without "
            "--no-ocr."
        )
    shards, _ = found.shards(without=("frames", "windows"))
    all_of(clip_ids, list(shards), folder)
    windows = [changed_windows(shards[clip_id], clip_id, changes, found.made, fits) for clip_id in clip_ids]
    confidence = np.array([[one.confidence for one in row] for row in windows], np.float32)
    return ScreenSentences(tuple(tuple(one.text for one in row) for row in windows), confidence, found.made.words)


Signs = dict[str, tuple[str, ...]]
"""The text of each sign of each clip, by the clip's id."""


def sign_texts(
    clips: FoundClips | StoredClips, changes: WordChanges | None = None
) -> tuple[Signs, tuple[SetAside, ...]]:
    """Return the best reading of every sign of each clip, and the clips that were set aside.

    Other readings of a sign are left out: most are the same words with a letter wrong. Of words misread on purpose the
    best reading is the misread one, window by window: see `evenreel.features.word_changes.changed_signs`.
    """
    if isinstance(clips, StoredClips):
        raise FeaturesError(
            f"The features in {clips.folder} were computed elsewhere and come without words on screen; name a folder "
            "that `evenreel features --model` made."
        )
    shards, aside = clips.shards(without=("frames", "windows"))
    found: Signs = {}
    for clip_id, shard in shards.items():
        if shard.tracks is None:
            raise FeaturesError(
                f"Nobody read what is written in clip {clip_id!r} for the features in {clips.folder}; run `evenreel "
                "features` without --no-ocr."
            )
        tracks = shard.tracks if changes is None else changed_signs(shard, clip_id, changes, clips.made)
        found[clip_id] = tuple(track.text for track in tracks)
    return found, aside
