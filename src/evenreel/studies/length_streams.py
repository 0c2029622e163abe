"""Features of several streams with some of them left out (table 6 of the paper on frame-length bias)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from evenreel.corpus import select
from evenreel.errors import MediaError
from evenreel.features.stored_clips import joined
from evenreel.studies.material import Part


def with_streams(part: Part, streams: Mapping[str, int], names: Sequence[str]) -> Part:
    """The part with frames of some streams alone, as `data.streams` of a recipe has them.

    A clip one of whose frames is zero in every stream that is left takes no part, and neither do its captions.

    Args:
        part: with frames of all streams side by side.
        streams: dimension of each stream by its name, in their order.
        names: of those that stay; empty for all.
    """
    if not names or set(names) >= set(streams):
        return part
    ends = np.cumsum([*streams.values()]).tolist()
    columns = [slice(end - streams[name], end) for name, end in zip(streams, ends, strict=True) if name in names]
    videos = part.videos
    frames = np.zeros((*videos.frames.shape[:2], sum(one.stop - one.start for one in columns)), np.float16)
    kept = []
    for clip_id, mask, own, real in zip(videos.ids, videos.frame_mask, videos.frames, frames, strict=True):
        try:
            real[mask] = joined([own[mask, one].astype(np.float64) for one in columns])
        except MediaError:  # says which frame is zero
            continue
        kept.append(clip_id)
    left = select(part.corpus, where=pl.col("clip_id").is_in(kept))
    return replace(part, videos=replace(videos, frames=frames)).only(left)
