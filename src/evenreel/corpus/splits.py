"""New splits of a corpus, drawn at random, which keep a video in one part."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from evenreel.config import check_corpus, check_kind
from evenreel.corpus.tables import make_corpus
from evenreel.errors import CorpusError
from evenreel.types import Corpus

_MARKS = (("clip ", "clip_id"), ("clip ", "pair_id"), ("path ", "path"))
"""Columns by which clips belong together; ids and paths are different names."""


def split_corpus(corpus: Corpus, shares: Mapping[str, float], seed: int) -> Corpus:
    """Assign the clips of a corpus to new splits at random.

    Clips of one video (equal `path`) stay together, and so do a real clip and those generated after it (`pair_id`), as
    a model that was trained on one of them has seen the others.

    Args:
        corpus: corpus to copy; splits that it has are replaced.
        shares: share of the videos by split, which sum to 1, such as `{"train": 0.8, "test": 0.2}`.
        seed: seed of the random order.

    Raises:
        CorpusError: the shares are not above 0, or do not sum to 1.
        UsageError: an argument is of the wrong kind.
    """
    check_corpus(corpus)
    remedy = "give a share for each split, {'train': 0.8, 'test': 0.2}"
    check_kind(shares, Mapping, "shares", remedy)
    for name, share in shares.items():
        check_kind(share, Real, f"shares[{name!r}]", remedy)
    check_kind(seed, Integral, "seed", "give a whole number")
    if not (shares and min(shares.values()) >= 0 and abs(sum(shares.values()) - 1) <= 1e-9):  # so that NaN fails
        raise CorpusError(f"The shares of the splits are {dict(shares)}; they must not be negative and sum to 1.")
    group = _groups(corpus.clips)
    count = group.max() + 1
    order = np.random.default_rng(seed).permutation(count)
    edges = np.round(np.cumsum([0.0, *shares.values()]) * count).astype(int)
    names = np.empty(count, dtype=object)
    for name, start, stop in zip(shares, edges, edges[1:], strict=False):
        names[order[start:stop]] = name
    column = pl.Series("split", names[group], dtype=pl.String)
    return make_corpus(corpus.clips.with_columns(column), corpus.captions)


def _groups(clips: pl.DataFrame) -> NDArray[np.int64]:
    """A number for each of H clips, equal for those that share a video or a real clip, directly or through others."""
    marks = pl.concat([prefix + clips[column] for prefix, column in _MARKS])
    kept = marks.is_not_null().to_numpy()
    mark = marks.drop_nulls().rank("dense").to_numpy().astype(np.int64) - 1
    clip = np.tile(np.arange(clips.height), len(_MARKS))[kept]
    size = clips.height + int(mark.max()) + 1
    graph = sparse.coo_array((np.ones(len(mark)), (clip, clips.height + mark)), shape=(size, size))
    labels = connected_components(graph, directed=False)[1][: clips.height]
    return np.unique(labels, return_inverse=True)[1]
