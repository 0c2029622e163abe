"""Limits on words and frames, for matchers with parameters for each place."""

from __future__ import annotations

from torch import Tensor

from evenreel.errors import UsageError


def cut(items: Tensor, mask: Tensor, limit: int, names: tuple[str, str]) -> tuple[Tensor, Tensor]:
    """Items and mask without padding past the limit.

    Args:
        items: (N, L, D).
        mask: (N, L) True = real.
        limit: places that there are parameters for.
        names: what a row is called, and what its items are: `("clip", "frames")`.

    Raises:
        UsageError: there is a real item past the limit.
    """
    if mask.shape[1] > limit and mask[:, limit:].any():
        row, parts = names
        most = int(mask.sum(1).max())
        raise UsageError(
            f"A {row} has {most} {parts}, but this matcher was built for {limit} at most; "
            f"use fewer {parts}, or train with max_{parts}={most} or more."
        )
    return items[:, :limit], mask[:, :limit]
