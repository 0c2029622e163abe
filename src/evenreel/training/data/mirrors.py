"""The generated clips that mirror those that are learned from, for training that compares the two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.corpus.counterparts import counterparts, only_paired
from evenreel.types import Corpus


@dataclass(frozen=True, eq=False)
class Mirrors:
    """Mirrors among the clips of a table.

    Attributes:
        other: (V,) row of the other clip of each clip's pair; -1 where it has none in the table.
        generated: (V,) True = the clip is the generated one of its pair.
    """

    other: NDArray[np.int64]
    generated: NDArray[np.bool_]


def mirrors_of(corpus: Corpus, group: str | None = None) -> dict[str, str]:
    """Find the one generated clip that mirrors each real clip, by id.

    Args:
        corpus: corpus to search.
        group: generated clips of this group; None: of the only one that there is.

    Raises:
        CorpusError: no clip has a mirror, several groups have some and none is named, or none has this name.
    """
    pairs = counterparts(only_paired(corpus, group))
    return dict(pairs.select("clip_id", "generated_id").iter_rows())


def with_other_clips(part: Corpus, whole: Corpus, mirrors: Mapping[str, str]) -> Corpus:
    """Append the other clips of their pairs to a split's clips; they bring no captions.

    Args:
        part: split of the corpus.
        whole: the corpus, or a part of it that has those clips.
        mirrors: real clips and their mirrors.
    """
    own = set(part.clips["clip_id"])
    wanted = {clip for pair in mirrors.items() if own & set(pair) for clip in pair if clip not in own}
    others = whole.clips.filter(pl.col("clip_id").is_in(list(wanted)))
    return Corpus(pl.concat([part.clips, others]), part.captions)


def mirror_rows(clip_ids: Sequence[str], mirrors: Mapping[str, str]) -> Mirrors:
    """Convert mirrors to rows of a table of clips.

    >>> found = mirror_rows(["a", "b", "a again"], {"a": "a again", "b": "b again"})
    >>> found.other.tolist(), found.generated.tolist()
    ([2, -1, 0], [False, False, True])
    """
    place = {clip_id: row for row, clip_id in enumerate(clip_ids)}
    other = {**mirrors, **{generated: real for real, generated in mirrors.items()}}
    generated = set(mirrors.values())
    return Mirrors(
        np.array([place.get(other.get(clip_id, ""), -1) for clip_id in clip_ids], np.int64),
        np.array([clip_id in generated for clip_id in clip_ids], np.bool_),
    )
