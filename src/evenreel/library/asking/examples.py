"""Queries that examples move: clips marked right and wrong, and a picture with words.

Rocchio's rule (Rocchio, 'Relevance feedback in information retrieval', in Salton (ed.), The SMART Retrieval System,
1971) moves a query towards the mean of what was right and away from the mean of what was wrong,

    q' = alpha * q + beta * mean(right) - gamma * mean(wrong),

here of unit vectors in the space that texts and pictures share, q' made one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenreel.documents import brief
from evenreel.errors import UsageError
from evenreel.library.search.query import ClipMoment, readable, unit
from evenreel.types import FloatArray
from evenreel.wording import seconds_of

MOST_MARKS = 200
"""Most clips that are marked for one query."""


@dataclass(frozen=True)
class RocchioWeights:
    """Weights of Rocchio's rule; the defaults were chosen on planted clips (docs/asking.md).

    Attributes:
        alpha: weight of the query.
        beta: weight of the mean of what was right.
        gamma: weight of the mean of what was wrong.
    """

    alpha: float = 1.0
    beta: float = 0.25
    gamma: float = 0.15


PICTURE_WEIGHT = 0.4
"""Weight of a picture beside words; that of the words is the rest (docs/asking.md)."""


@dataclass(frozen=True)
class Mark:
    """A clip that was marked.

    Attributes:
        moment: the clip, by its id or the path of a file, and the time of one of its frames in seconds; None for the
            mean of all.
        right: whether it is what is looked for.
    """

    moment: ClipMoment
    right: bool


@dataclass(frozen=True)
class Marked:
    """Words, and clips that were marked right or wrong.

    Attributes:
        text: what is looked for, in the language of `evenreel.library.search.query`; empty for the examples alone.
        marks: marked clips, the latest last.

    Raises:
        UsageError: there are more than `MOST_MARKS`, or neither words nor a clip that is right.

    Example:
        >>> Marked("a dog").marked("walk.mp4", 3.5).marked("cat.mp4", right=False).undone().marks
        (Mark(moment=ClipMoment(clip_id='walk.mp4', time_s=3.5), right=True),)
    """

    text: str
    marks: tuple[Mark, ...] = ()

    def __post_init__(self) -> None:
        if len(self.marks) > MOST_MARKS:
            raise UsageError(f"{brief(len(self.marks))} clips are marked; mark {MOST_MARKS} at most.")
        if not readable(self.text) and not any(mark.right for mark in self.marks):
            raise UsageError("Nothing says what is looked for; give words, or mark a clip that is right.")

    def marked(self, clip: str, time_s: float | None = None, *, right: bool = True) -> Marked:
        """Return the same with one more clip marked; one that was marked before is marked anew."""
        mark = Mark(ClipMoment(clip, time_s), right)
        return replace(self, marks=(*(one for one in self.marks if one.moment != mark.moment), mark))

    def undone(self) -> Marked:
        """Return the same without the latest mark."""
        return replace(self, marks=self.marks[:-1])


def read_mark(text: str, *, right: bool) -> Mark:
    """Read a mark such as `walk.mp4@12.5` or `walk.mp4@1:05`: a clip, and where in it; without a time, all of it.

    Example:
        >>> read_mark("a@b.mp4@1:05", right=True).moment
        ClipMoment(clip_id='a@b.mp4', time_s=65.0)
    """
    clip, at, time = text.rpartition("@")
    time_s = seconds_of(time) if at else None
    if time_s is None:
        clip = text
    if not clip:
        raise UsageError(f"The mark {text!r} names no clip; write CLIP or CLIP@SECONDS.")
    return Mark(ClipMoment(clip, time_s), right)


def moved(query: FloatArray | None, right: Sequence[FloatArray], wrong: Sequence[FloatArray]) -> FloatArray:
    """Move a query (D,) by examples, vectors (D,) of unit length each; without a query there are the examples alone."""
    weights = RocchioWeights()
    parts = [] if query is None else [weights.alpha * query]
    parts += [weights.beta * np.mean(right, axis=0)] if len(right) else []
    parts += [-weights.gamma * np.mean(wrong, axis=0)] if len(wrong) else []
    return unit(np.sum(parts, axis=0))


def picture_with_words(picture: FloatArray, words: FloatArray) -> FloatArray:
    """Return the query (D,) for a picture with words, given as unit vectors (D,): their weighted sum."""
    return unit(PICTURE_WEIGHT * picture + (1 - PICTURE_WEIGHT) * words)
