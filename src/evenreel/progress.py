"""Progress of long work: a callable that is told the share done."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], object]
"""Takes the share of the work that is done, from 0 to 1."""


def part_of(progress: Progress | None, number: int, parts: int) -> Progress:
    """Return the progress of one of several equal parts.

    Args:
        progress: of the whole; None for nobody.
        number: of the part, from 0.
        parts: how many there are.

    >>> part_of(print, 1, 4)(0.5)
    0.375
    """
    return lambda share: progress((number + share) / parts) if progress else None
