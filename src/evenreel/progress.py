"""Progress of long work: a callable that takes the share done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

Progress = Callable[[float], object]
"""Takes the share of the work that is done, from 0 to 1."""

Item = TypeVar("Item")


def part_of(progress: Progress | None, number: int, parts: int) -> Progress:
    """Return the progress of one of several equal parts, counted from 0, given that of the whole.

    >>> part_of(print, 1, 4)(0.5)
    0.375
    """
    return lambda share: progress((number + share) / parts) if progress else None


def each_part(items: Collection[Item], progress: Progress) -> Iterator[tuple[Item, Progress]]:
    """Yield each item of a work of equal parts, and the progress of its part.

    When the next item is asked for, the part of the one before is done.

    >>> [item for item, share in each_part(["a", "b"], print)]
    0.5
    1.0
    ['a', 'b']
    """
    for number, item in enumerate(items):
        share = part_of(progress, number, len(items))
        yield item, share
        share(1.0)


def stretch_of(progress: Progress, start: float, end: float) -> Progress:
    """Return the progress of a stretch of work, from one share of the whole to another.

    >>> stretch_of(print, 0.5, 1.0)(0.5)
    0.75
    """
    return lambda share: progress(start + (end - start) * share)
