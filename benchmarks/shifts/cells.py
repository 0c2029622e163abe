"""Rows of a perturbation and strength: what is found as it is, after corrections of scores, and after adapting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew

from benchmarks.evidence.adapted import HUB_MEMORY, NAIVE, NNN, QB_NORM, SINKHORN, SourceModel, in_a_stream
from benchmarks.evidence.rendered.domain import SAFE
from benchmarks.evidence.trainings import relevance_of, values_of
from benchmarks.shifts.world import PERTURBATIONS, ShiftedWorld, place_of
from evenreel.adaptation.titan import load_settings, naive
from evenreel.edits.corruptions.settings import STRENGTHS
from evenreel.evaluation.rescoring import nearest_neighbour_norm, querybank_norm, sinkhorn_norm
from evenreel.papers.cells import Figures, Rows
from evenreel.types import Scores

Matrix = NDArray[Any]
Way = Literal["t2v", "v2t"]
WAYS: tuple[Way, ...] = ("v2t", "t2v")
"""Perturbed videos that look for captions, and captions that look for perturbed videos."""
AS_IT_IS, CLEAN = "as it is", "none"
ADAPTED_AT = (0, 1, 3, 5)
"""Strengths at which models are adapted, which takes longest."""
R1, HUBS = "R@1", "hubs"
DEPTH = 10
"""Of the rankings in which hubs are counted."""


@dataclass(frozen=True)
class ShiftRun:
    """A perturbation and strength on the clips of a seed; what is measured once and written down."""

    seed: int
    perturbation: str
    strength: int
    clips: int
    steps: int

    @property
    def corpus(self) -> int:
        """Runs of a seed share clips and matcher, see `benchmarks.over_seeds`."""
        return self.seed

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.perturbation}, strength {self.strength}"


def runs_of(seed: int, clips: int, steps: int) -> list[ShiftRun]:
    """All runs of a seed, the clips as they are first."""
    shifted = [(name, strength) for name in PERTURBATIONS for strength in STRENGTHS]
    return [ShiftRun(seed, name, strength, clips, steps) for name, strength in [(CLEAN, 0), *shifted]]


def measured_runs(runs: Sequence[ShiftRun]) -> Iterator[tuple[ShiftRun, Rows]]:
    """Train on the clips of a seed as they are, and measure what is found of them perturbed."""
    first = runs[0]
    world = ShiftedWorld(place_of(first.seed, first.clips, first.steps))
    for run in runs:
        yield run, rows_of(world, run)


def rows_of(world: ShiftedWorld, run: ShiftRun) -> Rows:
    """The rows of a run; figures of both directions, of captions' searches alone where a model is adapted."""
    target = world.perturbed(run.perturbation, run.strength)
    test, values = target.test, values_of(world.matcher, target.test)
    relevance, order = relevance_of(test), {way: order_of(values, way, run.seed) for way in WAYS}
    rows = {AS_IT_IS: found_by(dict.fromkeys(WAYS, values), relevance)}
    for name, correct in CORRECTIONS.items():
        rows[name] = found_by({way: turned(correct(turned(values, way), order[way]), way) for way in WAYS}, relevance)
    if run.strength in ADAPTED_AT:
        model = SourceModel(target, world.matcher, 0.0, run.seed)
        for name, settings in ((SAFE, load_settings("safe")), (NAIVE, naive(model.uncorrected()))):
            rows[name] = found_by({"t2v": values_of(model.adapted(settings)[0], test)}, relevance)
    return rows


Correct = Callable[[Matrix, NDArray[np.intp]], Matrix]
"""Scores, queries as rows, and the order in which they are asked -> corrected scores."""


def _by_bank(norm: Callable[[Scores, Matrix], Scores]) -> Correct:
    return lambda values, _: norm(_scores(values), values).values


def _nnn(scores: Scores, bank: Matrix) -> Scores:
    return nearest_neighbour_norm(scores, bank, top=min(128, len(bank)))


CORRECTIONS: Mapping[str, Correct] = MappingProxyType(
    {
        HUB_MEMORY: lambda values, order: in_a_stream(values, order, values[:0]),
        QB_NORM: _by_bank(querybank_norm),
        NNN: _by_bank(_nnn),
        SINKHORN: _by_bank(sinkhorn_norm),
    }
)
"""The bank of all but the first is all queries that are measured, known beforehand; the first knows those before."""


def order_of(values: Matrix, way: Way, seed: int) -> NDArray[np.intp]:
    """The order in which queries are asked, the same at every strength."""
    return np.random.default_rng([seed, 8]).permutation(len(turned(values, way)))


def turned(values: Matrix, way: Way) -> Matrix:
    """Queries as rows; the same turns the result back."""
    return values if way == "t2v" else values.T


def found_by(values: Mapping[Way, Matrix], relevance: Matrix) -> Figures:
    """R@1 in percent and the skewness of how often each item is among the first 10, in some directions.

    Args:
        values: (Q, V) scores of each direction.
        relevance: (Q, V) 1 where a clip shows what the caption names.
    """
    found = {}
    for way, own in values.items():
        rows = turned(own, way)
        best = rows.argmax(axis=1)
        found[f"{way} {R1}"] = 100 * float(turned(relevance, way)[np.arange(len(rows)), best].mean())
        found[f"{way} {HUBS}"] = hubness(rows)
    return found


def hubness(rows: Matrix) -> float:
    """Skewness of how often each item is among the first 10 of the queries in rows (Radovanović et al. 2010)."""
    first = np.argpartition(-rows, DEPTH - 1, axis=1)[:, :DEPTH]
    return float(skew(np.bincount(first.ravel(), minlength=rows.shape[1])))


def _scores(values: Matrix) -> Scores:
    queries, items = values.shape
    return Scores(values, [f"q{row}" for row in range(queries)], [f"i{column}" for column in range(items)])
