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


def rbp(p: float, k: int) -> Callable[[Ranking], float]:
    return lambda found: 100 * (1 - p) * sum(degree * p**place for place, degree in enumerate(retrieved(found)[:k]))


def err(k: int) -> Callable[[Ranking], float]:
    def of(found: Ranking) -> float:
        total, reading = 0.0, 1.0
        for place, degree in enumerate(retrieved(found)[:k], 1):
            satisfied = (2 ** (4 * degree) - 1) / 16
            total += reading * satisfied / place
            reading *= 1 - satisfied
        return 100 * total

    return of


def bpref(found: Ranking) -> float:
    """As trec_eval's m_bpref.c, everything judged."""
    relevant = sum(degree == 1 for _, degree in found)
    others = len(found) - relevant
    total, above = 0.0, 0
    for degree in retrieved(found):
        if degree == 1:
            total += 1 - (min(above, relevant) / min(relevant, others) if above else 0)
        else:
            above += 1
    return 100 * total / relevant


def exponential(k: int | None = None) -> Callable[[Ranking], float]:
    return lambda found: ndcg(k)([(score, 2 ** (4 * degree) - 1) for score, degree in found])


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
    "RBP(p=0.8)": rbp(0.8, 10**6),
    "RBP(p=0.35)@3": rbp(0.35, 3),
    "ERR": err(10**6),
    "ERR@2": err(2),
    "Bpref": bpref,
    "nDCG(dcg='exp-log2')": exponential(),
    "nDCG(dcg='exp-log2')@2": exponential(2),
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
