"""What comes to a model at test time: queries in their order, and the clips that they search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import UsageError
from evenreel.types import TextFeatures, VideoFeatures

Rows = NDArray[np.int64]
EncodeTexts = Callable[[Sequence[str]], TextFeatures]
"""Captions -> their features, with ids of any kind."""


@dataclass(frozen=True, eq=False)
class Stream:
    """Queries and clips. There is no room for an answer here, so nothing can learn from one.

    Attributes:
        texts: features of Q queries, in the order in which they came.
        sentences: the queries as they are written.
        videos: features of V clips.

    Raises:
        UsageError: there are not as many sentences as features of queries, or fewer than two queries or clips.
    """

    texts: TextFeatures
    sentences: tuple[str, ...]
    videos: VideoFeatures

    def __post_init__(self) -> None:
        if len(self.sentences) != len(self.texts.ids):
            raise UsageError(
                f"{len(self.sentences):,} sentences came with features of {len(self.texts.ids):,} queries."
            )
        if min(len(self.sentences), len(self.videos.ids)) < 2:
            raise UsageError(
                f"There are {len(self.sentences):,} queries and {len(self.videos.ids):,} clips; a model can learn from "
                "two of each or more."
            )

    def batches(self, size: int) -> Iterator[Rows]:
        """Rows of queries, `size` at a time; a last one alone goes with those before it."""
        starts = [*range(0, len(self.sentences), size), len(self.sentences)]
        if len(starts) > 2 and starts[-1] - starts[-2] == 1:
            del starts[-2]
        for start, stop in pairwise(starts):
            yield np.arange(start, stop)


def taken(texts: TextFeatures, rows: Rows) -> TextFeatures:
    """Some captions."""
    return TextFeatures(
        tuple(texts.ids[row] for row in rows),
        texts.words[rows],
        texts.word_mask[rows],
        texts.sentence[rows],
        None if texts.graphs is None else tuple(texts.graphs[row] for row in rows),
    )


def joined(first: TextFeatures, second: TextFeatures) -> TextFeatures:
    """Captions of both, with room for the longest word count."""
    longest = max(first.words.shape[1], second.words.shape[1])
    first, second = _with_room(first, longest), _with_room(second, longest)
    graphs = None if first.graphs is None or second.graphs is None else first.graphs + second.graphs
    return TextFeatures(
        first.ids + second.ids,
        np.concatenate([first.words, second.words]),
        np.concatenate([first.word_mask, second.word_mask]),
        np.concatenate([first.sentence, second.sentence]),
        graphs,
    )


def _with_room(texts: TextFeatures, words: int) -> TextFeatures:
    missing = words - texts.words.shape[1]
    if not missing:
        return texts
    return replace(
        texts,
        words=np.pad(texts.words, ((0, 0), (0, missing), (0, 0))),
        word_mask=np.pad(texts.word_mask, ((0, 0), (0, missing))),
    )
