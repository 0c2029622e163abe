"""A gallery and rankings that read nothing, or all, of what is exchanged in captions."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus import make_corpus
from evenreel.types import Corpus, Scores

CLIPS = 120
CLIP_IDS = [f"v{number}" for number in range(CLIPS)]
CAPTION_IDS = [f"c{number}" for number in range(CLIPS)]
OWN = np.arange(CLIPS)

Table = NDArray[np.float64]


def corpus(texts: list[str] | None = None) -> Corpus:
    """One caption a clip: half of them of a dog and a cat, half of a red ball."""
    written = texts or ["a dog chases a cat" if number % 2 else "a red ball rolls" for number in range(CLIPS)]
    captions = pl.DataFrame({"caption_id": CAPTION_IDS, "clip_id": CLIP_IDS, "text": written})
    return make_corpus(pl.DataFrame({"clip_id": CLIP_IDS}), captions)


def of(values: Table, rows: slice = slice(None)) -> Scores:
    return Scores(values[rows].astype(np.float32), CAPTION_IDS[rows], CLIP_IDS)


def content(seed: int = 0, hubs: float = 1.0) -> Table:
    """What each caption makes of each clip by its words, the own one most."""
    random = np.random.default_rng(seed)
    values: Any = random.normal(size=(CLIPS, CLIPS)) + hubs * random.exponential(size=CLIPS)
    values[OWN, OWN] += 3
    return values


def said(words: Table, seed: int) -> Table:
    """Scores of captions of some words in one order, which adds some noise."""
    return words + 0.3 * np.random.default_rng([seed, 1]).normal(size=words.shape)


def odd(words: Table, seed: int = 1) -> Table:
    """Scores of captions with the same words in another order: worse liked by all, each by so much, and flatter."""
    random = np.random.default_rng(seed)
    return 0.8 * said(words, seed + 100) - 2 - random.random((len(words), 1))


def heard(words: Table, less: float = 1.0) -> Table:
    """Scores of the same captions where the own clip hears that they are wrong."""
    edited = odd(words)
    edited[OWN, OWN] -= less
    return edited
