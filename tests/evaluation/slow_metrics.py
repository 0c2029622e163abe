"""Every metric again, one ranking at a time in plain loops, and its mean over all orders of equal scores."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

Ranking = Sequence[float]
"""Degrees of relevance, best-placed item first."""


def rank(found: Ranking) -> float:
    return float(list(found).index(1) + 1)


def recall(k: int) -> Callable[[Ranking], float]:
    return lambda found: 100.0 * (rank(found) <= k)


def reciprocal(found: Ranking) -> float:
    return 100 / rank(found)


def dcg(found: Ranking, places: int) -> float:
    return sum(degree / math.log2(place + 1) for place, degree in enumerate(found, 1) if place <= places)


def ndcg(k: int | None = None) -> Callable[[Ranking], float]:
    def of(found: Ranking) -> float:
        places = len(found) if k is None else k
        return 100 * dcg(found, places) / dcg(sorted(found, reverse=True), places)

    return of


def ndcg_at_r(found: Ranking) -> float:
    return ndcg(sum(degree > 0 for degree in found))(found)


def strict_map(found: Ranking) -> float:
    return average_precision([float(degree == 1) for degree in found])


def average_precision(found: Ranking) -> float:
    """As the EPIC-KITCHENS-100 code has it: precision from summed degrees, averaged over the degrees of 1."""
    total, precisions = 0.0, []
    for place, degree in enumerate(found, 1):
        total += degree
        if degree == 1:
            precisions.append(total / place)
    return 100 * sum(precisions) / len(precisions)


METRICS: dict[str, Callable[[Ranking], float]] = {
    "rank": rank,
    "R@1": recall(1),
    "R@2": recall(2),
    "R@5": recall(5),
    "R@100": recall(100),
    "MRR": reciprocal,
    "nDCG": ndcg(),
    "nDCG@1": ndcg(1),
    "nDCG@3": ndcg(3),
    "nDCG@100": ndcg(100),
    "nDCG@R": ndcg_at_r,
    "mAP": strict_map,
    "mAP-EPIC": average_precision,
}


def orders(scores: Sequence[float], degrees: Sequence[float]) -> list[list[float]]:
    """The degrees of each order of the items in which no lower score stands before a higher one."""
    best_first = sorted(set(scores), reverse=True)
    stretches = [[d for s, d in zip(scores, degrees, strict=True) if s == score] for score in best_first]
    return [
        list(itertools.chain(*parts))
        for parts in itertools.product(*(itertools.permutations(one) for one in stretches))
    ]


def favouring(scores: Sequence[float], degrees: Sequence[float], sign: int) -> list[float]:
    """The order with the more relevant of equals first (1) or last (-1)."""
    pairs = sorted(zip(scores, degrees, strict=True), key=lambda pair: (-pair[0], -sign * pair[1]))
    return [degree for _, degree in pairs]


def expected(name: str, scores: Sequence[float], degrees: Sequence[float]) -> float:
    values = [METRICS[name](order) for order in orders(scores, degrees)]
    return math.fsum(values) / len(values)
