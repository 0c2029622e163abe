"""Corpora of pairs of any small size, and every rank and chance again in plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from evenreel.corpus import make_corpus
from evenreel.report import AuditResult
from evenreel.types import Corpus, Scores


@cache
def pairs_of(clip_of_caption: tuple[int, ...], pairs: int, groups: tuple[str, ...] = ("sora",)) -> Corpus:
    """Real clips r0, r1, ..., their mirrors of each group (sora0, sora1, ...), captions c0, c1, ... of real clips."""
    clips: list[tuple[str, str, str | None]] = [(f"r{number}", "camera", None) for number in range(pairs)]
    clips += [(f"{group}{number}", group, f"r{number}") for group in groups for number in range(pairs)]
    count = len(clip_of_caption)
    return make_corpus(
        pl.DataFrame(clips, {"clip_id": pl.String, "source": pl.String, "pair_id": pl.String}, orient="row"),
        pl.DataFrame(
            {
                "caption_id": [f"c{number}" for number in range(count)],
                "clip_id": [f"r{clip}" for clip in clip_of_caption],
                "text": ["words"] * count,
            },
            {"caption_id": pl.String, "clip_id": pl.String, "text": pl.String},
        ),
    )


def scores_of(values: Any, corpus: Corpus) -> Scores:
    """In the order of the corpus."""
    return Scores(np.asarray(values), corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())


def expected_rank(own: float, others: Sequence[float]) -> float:
    return 1 + sum(other > own for other in others) + sum(other == own for other in others) / 2


def hit(own: float, others: Sequence[float], k: int) -> float:
    """Chance in percent that the own one is among the first k, equals in random order."""
    if own == -math.inf:
        return 0.0
    first = 1 + sum(other > own for other in others)
    last = first + sum(other == own for other in others)
    return 100 * sum(place <= k for place in range(first, last + 1)) / (last - first + 1)


def beats(one: float, other: float) -> float:
    return 1.0 if one > other else 0.5 if one == other else 0.0


def rows_of(result: AuditResult, title: str) -> dict[Any, tuple[Any, ...]]:
    """The rows of the first table whose title begins so, by their first cell."""
    table = next(table for table in result.tables if table.title.startswith(title))
    return {row[0]: row[1:] for row in table.rows}
