"""Entropic optimal transport between queries and items (Cuturi 2013): the two potentials that its plan is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from evenreel.arrays import Column

_ROUNDING = 1e-9
"""Two steps that differ by less than this share of their size are equal."""


class Potentials(NamedTuple):
    """Potentials of a transport plan, which is exp(kernel + of_queries[:, None] + of_items).

    Attributes:
        of_queries: (Q,) potentials of queries.
        of_items: (V,) potentials of items, the lower the more queries prefer an item than it has room for.
    """

    of_queries: Column
    of_items: Column


def potentials(kernel: NDArray[np.float64], iterations: int, *, equal: bool = False) -> Potentials:
    """Compute the potentials of the entropic transport of queries to items, by Sinkhorn's rounds.

    The rows of the plan sum to 1 / Q and its columns to 1 / V, or to at most 1 / Q where Q is below V: equal shares
    would then spread each query over several items whatever its scores. With `equal` they are equal all the same.

    Args:
        kernel: (Q, V) scores divided by the temperature; each row and each column has a finite one.
        iterations: greatest number of rounds; fewer are run where a round changes nothing.
        equal: whether columns have equal shares also where there are fewer queries than items.
    """
    queries, items = kernel.shape
    share, most = -np.log(queries), -np.log(items if equal else min(queries, items))
    of_queries = share - logsumexp(kernel, axis=1)
    of_items = np.zeros(items)
    for _ in range(iterations):
        of_items = most - logsumexp(kernel + of_queries[:, None], axis=0)
        if queries < items and not equal:
            of_items = np.minimum(of_items, 0.0)  # a column may have less
        before, of_queries = of_queries, share - logsumexp(kernel + of_items, axis=1)
        if np.abs(of_queries - before).max() <= _ROUNDING * max(1.0, np.abs(of_queries).max()):
            break
    return Potentials(of_queries, of_items)
