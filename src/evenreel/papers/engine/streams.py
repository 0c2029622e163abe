"""Features of several streams with some of them left out (table 6 of the paper on frame-length bias)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from evenreel.corpus import select
from evenreel.features.stored.clips import joined
from evenreel.papers.engine.material import CorpusPart


def with_streams(part: CorpusPart, streams: Mapping[str, int], names: Sequence[str]) -> CorpusPart:
    """The part with frames of some streams alone, as `data.streams` of a recipe has them.

    A clip one of whose frames is zero in every stream that is left takes no part, and neither do its captions.

    Args:
        part: with frames of all streams side by side.
        streams: dimension of each stream by its name, in their order.
        names: of those that stay; empty for all.
    """
    if not names or set(names) >= set(streams):
        return part
    columns = np.concatenate([np.full(count, name in names) for name, count in streams.items()])
    videos = part.videos
    frames = np.zeros((*videos.frames.shape[:2], int(columns.sum())), np.float16)
    kept = []
    for clip_id, mask, own, left in zip(videos.ids, videos.frame_mask, videos.frames, frames, strict=True):
        left[mask] = joined([own[mask][:, columns].astype(np.float32)])
        if left[mask].any(axis=1).all():
            kept.append(clip_id)
    corpus = select(part.corpus, where=pl.col("clip_id").is_in(kept))
    return replace(part, videos=replace(videos, frames=frames)).only(corpus)
