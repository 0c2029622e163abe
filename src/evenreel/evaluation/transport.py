"""Entropic transport between queries and items (Cuturi 2013): the two sets of numbers that its plan is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from evenreel.arrays import Column

_ROUNDING = 1e-9
"""Two steps that differ by less than this share of their size are equal."""


class Potentials(NamedTuple):
    """Logarithms by which a kernel becomes a plan, exp(kernel + of_queries[:, None] + of_items).

    Attributes:
        of_queries: (Q,) numbers.
        of_items: (V,) numbers, below 0 by as much as an item is wanted by more queries than it has room for.
    """

    of_queries: Column
    of_items: Column


def potentials(kernel: NDArray[np.float64], iterations: int) -> Potentials:
    """Compute what makes rows of a kernel sum to 1 / Q and columns to 1 / V, or to at most 1 / Q where Q is below V.

    With fewer queries than items a column holds at most as much as one query: equal shares would spread each query
    over several items whatever it says.

    Args:
        kernel: (Q, V) scores over the temperature; each row and each column has a finite one.
        iterations: most rounds; it ends before where a round moves nothing.
    """
    queries, items = kernel.shape
    share, most = -np.log(queries), -np.log(min(queries, items))
    of_queries = share - logsumexp(kernel, axis=1)
    of_items = np.zeros(items)
    for _ in range(iterations):
        of_items = most - logsumexp(kernel + of_queries[:, None], axis=0)
        if queries < items:
            of_items = np.minimum(of_items, 0.0)  # a column may have less
        before, of_queries = of_queries, share - logsumexp(kernel + of_items, axis=1)
        if np.abs(of_queries - before).max() <= _ROUNDING * max(1.0, np.abs(of_queries).max()):
            break
    return Potentials(of_queries, of_items)
