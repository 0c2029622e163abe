"""Ranking of all queries of one direction, a band of queries at a time, on all cores and for any size of gallery."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import CACHED_BYTES, SCORE_BYTES, Column, slices
from evenreel.config import usable_cores
from evenreel.evaluation.blocks import Items, Search
from evenreel.evaluation.first_hit import Hits, every_hit, first_hits, hit_columns
from evenreel.evaluation.metrics import Metric
from evenreel.evaluation.ordered import DiscountTables, order_columns
from evenreel.evaluation.places import best_items, find_places
from evenreel.evaluation.settings import EvaluationSettings, Ties
from evenreel.evaluation.weighted import mean_of
from evenreel.progress import Progress


@dataclass(frozen=True, eq=False)
class Ranked:
    """Result of ranking n queries: a column of values for each metric, and the first hits.

    Attributes:
        found: (n,) whether a query has a relevant item.
        columns: (n,) values by the name of the column.
        hits: first hits of the queries.
    """

    found: NDArray[np.bool_]
    columns: dict[str, Column]
    hits: Hits

    @classmethod
    def joined(cls, parts: Sequence[Ranked]) -> Ranked:
        """Concatenate the results of several parts of the queries."""
        ends = np.cumsum([0] + [len(part.found) for part in parts])
        every = np.arange(ends[-1])
        return cls(
            np.concatenate([part.found for part in parts]),
            {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
            Hits.joined([part.hits.renumbered(every[start:]) for part, start in zip(parts, ends, strict=False)]),
        )


@dataclass(frozen=True, eq=False)
class RankingPlan:
    """Settings of the ranking of queries, and what to compute of each.

    Attributes:
        metrics: metrics whose columns are computed.
        ties: how items with equal scores are ranked.
        every: whether each relevant item is ranked alone, without the query's other relevant items (`every_hit`).
        tables: discounts for the size of the gallery.
    """

    metrics: tuple[Metric, ...]
    ties: Ties
    every: bool
    tables: DiscountTables

    def calculate(self, scores: NDArray[Any], items: Items) -> Ranked:
        """Rank b queries by their scores (b, gallery) and compute the columns of the metrics."""
        scores = query_by_query(scores)
        found = np.bincount(items.query, minlength=len(scores)) > 0
        ordered = any(metric.needs_order for metric in self.metrics)
        counted = items if ordered else items.where(items.degree == 1) if self.every else best_items(scores, items)
        places = find_places(scores, counted, self.ties)
        hits = every_hit(places) if self.every else first_hits(places)
        columns = {
            name: mean_of(hits.query, values, len(scores)) for name, values in hit_columns(hits, self.metrics).items()
        }
        return Ranked(found, columns | order_columns(places, items, self.metrics, self.tables), hits)


def rank_all(search: Search, plan: RankingPlan, settings: EvaluationSettings, progress: Progress) -> Ranked:
    """Rank every query of a direction, and compute the columns of the metrics.

    Scores and relevance are read in this thread alone, each pair once; blocks are copied, so they may share a buffer.
    """
    threads = settings.threads or usable_cores()
    waiting: deque[Future[Ranked]] = deque()
    done: list[Ranked] = []
    finished = 0
    with ThreadPoolExecutor(threads) as pool:
        pieces = score_pieces(search, settings.band_bytes)
        while waiting or not done:
            for scores, items in islice(pieces, 2 * threads - len(waiting)):
                waiting.append(pool.submit(plan.calculate, scores, items))
            done.append(waiting.popleft().result())
            finished += len(done[-1].found)
            progress(finished / len(search.query_ids))
    return Ranked.joined(done)


def score_pieces(search: Search, band_bytes: int) -> Iterator[tuple[NDArray[Any], Items]]:
    """Yield scores (b, gallery) and relevant items of a few queries at a time, in order."""
    queries, row_bytes = len(search.query_ids), search.row_scores * SCORE_BYTES
    for band in slices(queries, band_bytes // row_bytes):
        scores = search.read(band)
        for piece in slices(band.stop, min(band_bytes, CACHED_BYTES) // row_bytes, band.start):
            yield scores[piece.start - band.start : piece.stop - band.start].copy(order="K"), search.items(piece)


def query_by_query(scores: NDArray[Any]) -> NDArray[Any]:
    """Copy scores so that those of a query lie side by side in memory."""
    if scores.flags.c_contiguous:
        return scores
    turned = np.empty(scores.shape, scores.dtype)
    # Some items at a time: numpy's own copy strides through all of memory for each query, at thrice the cost.
    for items in slices(scores.shape[1], 256):
        turned[:, items] = scores[:, items]
    return turned
