"""Every metric again, one ranking at a time in plain loops, and its mean over all orders of equal scores.

What scores minus infinity is not retrieved: it has a rank, and earns nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

Ranking = Sequence[tuple[float, float]]
"""Scores and degrees of relevance, best-placed item first."""


def retrieved(found: Ranking) -> list[float]:
    """Degrees down to the last item that is retrieved."""
    return [degree for score, degree in found if score > -math.inf]


def rank(found: Ranking) -> float:
    return float([degree for _, degree in found].index(1) + 1)


def recall(k: int) -> Callable[[Ranking], float]:
    return lambda found: 100.0 * (1 in retrieved(found)[:k])


def reciprocal(found: Ranking) -> float:
    return 100 / rank(found) if 1 in retrieved(found) else 0.0


def dcg(degrees: Sequence[float], places: int) -> float:
    return sum(degree / math.log2(place + 1) for place, degree in enumerate(degrees, 1) if place <= places)


def ndcg(k: int | None = None) -> Callable[[Ranking], float]:
    def of(found: Ranking) -> float:
        places = len(found) if k is None else k
        best = sorted((degree for _, degree in found), reverse=True)
        return 100 * dcg(retrieved(found), places) / dcg(best, places)

    return of


def ndcg_at_r(found: Ranking) -> float:
    return ndcg(sum(degree > 0 for _, degree in found))(found)


def strict_map(found: Ranking) -> float:
    return average_precision([(score, float(degree == 1)) for score, degree in found])


def average_precision(found: Ranking) -> float:
    """As the EPIC-KITCHENS-100 code has it: precision from summed degrees, averaged over the degrees of 1."""
    total, precisions = 0.0, []
    for place, degree in enumerate(retrieved(found), 1):
        total += degree
        if degree == 1:
            precisions.append(total / place)
    return 100 * sum(precisions) / sum(degree == 1 for _, degree in found)


def precision(k: int) -> Callable[[Ranking], float]:
    return lambda found: 100 * retrieved(found)[:k].count(1) / k


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
    "P@1": precision(1),
    "P@4": precision(4),
    "P@100": precision(100),
}


def orders(scores: Sequence[float], degrees: Sequence[float]) -> list[Ranking]:
    """Each order of the items in which no lower score stands before a higher one."""
    pairs = list(zip(scores, degrees, strict=True))
    stretches = [[pair for pair in pairs if pair[0] == score] for score in sorted(set(scores), reverse=True)]
    return [
        list(itertools.chain(*parts))
        for parts in itertools.product(*(itertools.permutations(one) for one in stretches))
    ]


def favouring(scores: Sequence[float], degrees: Sequence[float], sign: int) -> Ranking:
    """The order with the more relevant of equals first (1) or last (-1)."""
    return sorted(zip(scores, degrees, strict=True), key=lambda pair: (-pair[0], -sign * pair[1]))


def expected(name: str, scores: Sequence[float], degrees: Sequence[float]) -> float:
    values = [METRICS[name](order) for order in orders(scores, degrees)]
    return math.fsum(values) / len(values)
