"""Parts of a corpus: by split or any condition, and new splits that keep a video in one part."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from evenreel.corpus.tables import make_corpus
from evenreel.errors import CorpusError
from evenreel.types import Corpus


def select(corpus: Corpus, *, split: str | None = None, where: pl.Expr | None = None) -> Corpus:
    """The clips of a split, or for which a condition holds, with their captions.

    Args:
        corpus: taken from; it stays as it is.
        split: value of the column `split`.
        where: condition on the columns of `clips`, such as `pl.col("source") == "camera"`.

    Raises:
        CorpusError: no clip is left, or the condition names a column that is not there.
    """
    clips = corpus.clips
    try:
        if split is not None:
            clips = clips.filter(pl.col("split") == split)
        if where is not None:
            clips = clips.filter(where)
    except pl.exceptions.PolarsError as error:
        raise CorpusError(f"The clips cannot be selected by {where} ({error}).") from error
    if clips.height == 0:
        there = ", ".join(sorted(corpus.clips["split"].drop_nulls().unique())) or "none"
        raise CorpusError(f"No clip is left (split {split!r}, condition {where}); the splits are: {there}.")
    return Corpus(clips, corpus.captions.filter(pl.col("clip_id").is_in(clips["clip_id"].implode())))


def split_corpus(corpus: Corpus, shares: Mapping[str, float], seed: int) -> Corpus:
    """Deal the clips to splits at random; clips of one video (equal `path`) stay together.

    Args:
        corpus: taken from; a split that it has is replaced.
        shares: share of the videos of each split, which sum to 1, for example `{"train": 0.8, "test": 0.2}`.
        seed: of the random order.

    Raises:
        CorpusError: the shares are no shares.
    """
    if not (shares and min(shares.values()) >= 0 and abs(sum(shares.values()) - 1) <= 1e-9):  # so that NaN fails
        raise CorpusError(f"The shares of the splits are {dict(shares)}; they must not be negative and sum to 1.")
    video = corpus.clips.select(pl.coalesce("path", "clip_id"))["path"]
    videos = video.unique(maintain_order=True)
    order = np.random.default_rng(seed).permutation(len(videos))
    edges = np.round(np.cumsum([0.0, *shares.values()]) * len(videos)).astype(int)
    names = np.empty(len(videos), dtype=object)
    for name, start, stop in zip(shares, edges, edges[1:], strict=False):
        names[order[start:stop]] = name
    of_video = dict(zip(videos, names, strict=True))
    column = pl.Series("split", [of_video[one] for one in video], dtype=pl.String)
    return make_corpus(corpus.clips.with_columns(column), corpus.captions)
