"""A stream of queries at test time, in their order, and the clips that they are ranked against."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.types import TextFeatures, VideoFeatures

EncodeTexts = Callable[[Sequence[str]], TextFeatures]
"""Captions -> their features, with ids of any kind."""


@dataclass(frozen=True, eq=False)
class QueryStream:
    """Stream of queries, and the clips that they are ranked against; it holds no right answers to learn from.

    Attributes:
        texts: features of Q queries, in the order in which they came.
        sentences: the queries as they are written.
        videos: features of the V clips.

    Raises:
        UsageError: there are not as many sentences as features of queries, or fewer than two queries or clips.
    """

    texts: TextFeatures
    sentences: tuple[str, ...]
    videos: VideoFeatures

    def __post_init__(self) -> None:
        check_sentences(self.texts, self.sentences)
        if min(len(self.sentences), len(self.videos.ids)) < 2:
            raise UsageError(
                f"There are {len(self.sentences):,} queries and {len(self.videos.ids):,} clips; a model can learn from "
                "two of each or more."
            )

    def batches(self, size: int) -> Iterator[Indices]:
        """Yield rows of the stream's queries, `size` at a time; a last single query joins the batch before it."""
        starts = [*range(0, len(self.sentences), size), len(self.sentences)]
        if len(starts) > 2 and starts[-1] - starts[-2] == 1:
            del starts[-2]
        for start, stop in pairwise(starts):
            yield np.arange(start, stop)


def check_sentences(texts: TextFeatures, sentences: Sequence[str]) -> None:
    """Check that there is a sentence for each query's features.

    Raises:
        UsageError: there are none, or not equally many.
    """
    if not sentences or len(sentences) != len(texts.ids):
        raise UsageError(
            f"{len(sentences):,} sentences came with features of {len(texts.ids):,} queries; give the sentence of "
            "each, and one query at least."
        )


def taken(texts: TextFeatures, rows: Indices) -> TextFeatures:
    """Select the features of some captions by their rows."""
    return TextFeatures(
        tuple(texts.ids[row] for row in rows),
        texts.words[rows],
        texts.word_mask[rows],
        texts.sentence[rows],
        None if texts.graphs is None else tuple(texts.graphs[row] for row in rows),
    )


def joined(*parts: TextFeatures) -> TextFeatures:
    """Concatenate features of captions, padded to the longest; role graphs are kept where every part has them."""
    graphs = tuple(graph for part in parts for graph in part.graphs or ())
    return TextFeatures(
        tuple(caption for part in parts for caption in part.ids),
        with_room([part.words for part in parts]),
        with_room([part.word_mask for part in parts]),
        np.concatenate([part.sentence for part in parts]),
        graphs if all(part.graphs is not None for part in parts) else None,
    )


def with_room(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate word vectors (q, W, ...) of captions, or masks, padded with zeros to the widest: (Q, W, ...).

    >>> with_room([np.ones((1, 1)), np.ones((1, 2))]).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    widest = max(part.shape[1] for part in parts)
    shape = (sum(map(len, parts)), widest, *parts[0].shape[2:])
    whole, row = np.zeros(shape, np.result_type(*{part.dtype for part in parts})), 0
    for part in parts:
        whole[row : row + len(part), : part.shape[1]] = part
        row += len(part)
    return whole
