"""Figures of a model on clips that are corrupted in one way: what it finds, what it loses, and how it makes hubs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from evenreel.evaluation import Evaluation, EvaluationSettings, Interval, compare, evaluate
from evenreel.evaluation.concentration import skewness
from evenreel.evaluation.metrics import Direction
from evenreel.evaluation.rescoring import hub_memory, queries_as_rows
from evenreel.features.pool import SetAside
from evenreel.types import Corpus, Scores

METRIC = "R@1"
DEPTH = 10
"""Of the rankings in which hubs are counted."""

_COSINES = 1.001
"""Largest size of a cosine, but for rounding: the numbers of the hub memory are for cosines."""


@dataclass(frozen=True)
class ShiftRow:
    """Figures of a direction on clips that are corrupted in one way.

    Attributes:
        kind: kind of corruption; `none` for clips that are only encoded the same way.
        strength: 1 to 5; 0 for `none`.
        direction: `t2v`, captions look for corrupted videos, or `v2t`, corrupted videos look for captions.
        found: R@1 in percent, with its interval.
        lost: points of R@1 below those of `none`, paired, with its interval; None for `none`.
        p: p value of a paired randomisation test that nothing is lost, adjusted by Holm for the number of
            corruptions; None for `none`.
        skewness: skewness of how often each item is among the first 10 (Radovanović et al. 2010); None where all are as
            often.
        regained: points of R@1 that the hub memory (Zhang et al. 2026) adds, with queries in the corpus's order, paired
            with the scores as they are; None where these are no cosines.
    """

    kind: str
    strength: int
    direction: Direction
    found: Interval
    lost: Interval | None
    p: float | None
    skewness: float | None
    regained: Interval | None


@dataclass
class ShiftReport:
    """What a model finds among clips that are corrupted in several ways.

    Attributes:
        model: name of the matcher.
        encoder: name of its encoder.
        folder: folder with a corpus of each corruption, its features and its scores.
        clips: number of clips.
        captions: number of captions.
        confidence: confidence of the intervals.
        rows: figures by direction, then corruption; `none` first.
        set_aside: clips that are left out of all of them.
        notices: sentences that belong beside the figures.
    """

    model: str
    encoder: str
    folder: str
    clips: int
    captions: int
    confidence: float
    rows: list[ShiftRow] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ShiftFigures:
    """Figures of a model on one corpus of clips.

    Attributes:
        found: evaluation of the scores as they are.
        corrected: evaluation of the scores after the hub memory; None where they are no cosines.
        skewness: of how often items are among the first, by direction.
    """

    found: Evaluation
    corrected: Evaluation | None
    skewness: Mapping[Direction, float | None]


def shift_figures(scores: Scores, corpus: Corpus, settings: EvaluationSettings) -> ShiftFigures:
    """Evaluate the scores of one corpus, as they are and after the hub memory.

    Args:
        scores: (Q, V) scores of its captions and clips.
        corpus: corpus of these.
        settings: settings of the evaluation.
    """
    found = evaluate(scores, corpus, settings)
    hubs = {direction: hub_skewness(scores, direction) for direction in settings.directions}
    if np.abs(scores.values).max() > _COSINES:
        return ShiftFigures(found, None, hubs)
    parts = {
        one: evaluate(hub_memory(scores, one), corpus, replace(settings, directions=(one,)))
        for one in settings.directions
    }
    directions = {one: part.directions[one] for one, part in parts.items()}
    return ShiftFigures(found, replace(found, directions=directions), hubs)


def hub_skewness(scores: Scores, direction: Direction) -> float | None:
    """Compute the skewness of how often each item is among the first 10 of the queries; None where all are as often.

    >>> rows = np.eye(12) + np.linspace(0, 0.5, 12)
    >>> scores = Scores(rows, [f"q{row}" for row in range(12)], [f"v{row}" for row in range(12)])
    >>> round(hub_skewness(scores, "t2v"), 2)
    -1.72
    """
    rows = queries_as_rows(np.asarray(scores.values), direction)
    depth, items = min(DEPTH, rows.shape[1]), rows.shape[1]
    counts = np.zeros(items, np.int64)
    for row in rows:
        counts[np.argpartition(-row, depth - 1)[:depth]] += 1
    found = skewness(counts)
    return None if np.isnan(found) else found


def shift_rows(figures: Mapping[tuple[str, int], ShiftFigures], settings: EvaluationSettings) -> list[ShiftRow]:
    """Make the rows of several corruptions, compared with the first, which is without any."""
    clean, *others = figures
    names = {"-".join(map(str, key)): key for key in others}
    against = compare(figures[clean].found, {name: figures[key].found for name, key in names.items()}, settings)
    lost = {(names[row.system], row.direction): row for row in against.rows}
    rows = []
    for direction in settings.directions:
        for key, one in figures.items():
            row = lost.get((key, direction))
            rows.append(
                ShiftRow(
                    *key,
                    direction,
                    one.found.directions[direction].summary[METRIC],
                    None if row is None else _negated(row.difference),
                    None if row is None else row.p_holm,
                    one.skewness[direction],
                    _regained(one, direction, settings),
                )
            )
    return rows


def _regained(one: ShiftFigures, direction: Direction, settings: EvaluationSettings) -> Interval | None:
    if one.corrected is None:
        return None
    compared = compare(one.found, {"hub memory": one.corrected}, settings)
    return next(row.difference for row in compared.rows if row.direction == direction)


def _negated(figure: Interval) -> Interval:
    low, high = (None if end is None else 0.0 - end for end in (figure.high, figure.low))
    return Interval(0.0 - figure.value, low, high)
