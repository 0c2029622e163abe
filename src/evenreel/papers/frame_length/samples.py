"""What RmvAll does to captions that may be missed for their length (section B of the paper on frame-length bias)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.audits.class_lengths import TailClasses, read_tail_classes
from evenreel.audits.length import LengthMeasures, measure_length
from evenreel.errors import CorpusError
from evenreel.papers.engine.findings import Findings, effect_of, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.seeds import SeededRuns
from evenreel.papers.engine.training_tables import measured_trainings
from evenreel.papers.engine.trainings import TrainingOutcome, few_seeds, training_told
from evenreel.papers.engine.variants import BASELINE, Variant
from evenreel.papers.engine.words import paragraph
from evenreel.papers.frame_length.settings import SampleSettings
from evenreel.papers.frame_length.variants import RMV_ALL, RMV_RAND, plain, trimmed
from evenreel.progress import Progress
from evenreel.report.result import AuditTable, Cell

MOST = 60
"""Captions that are drawn of those that are suspected."""


_SHARE = "Captions ranked better less those ranked worse"
_COUNTED = ("suspected", "drawn", "better", "worse", "same", "ranks gained", "ranks lost")


class Moved(NamedTuple):
    """How many captions rank better or worse after another training, and by how many ranks.

    Attributes:
        suspected: how many there were to draw from.
        better, worse, same: captions whose rank falls, rises, stays.
        gained, lost: ranks that the former and the latter move, summed.
    """

    suspected: int
    better: int
    worse: int
    same: int
    gained: float
    lost: float

    @property
    def drawn(self) -> int:
        """Return how many captions were ranked again."""
        return self.better + self.worse + self.same

    @property
    def share(self) -> float:
        """Return the share of captions ranked better less that of captions ranked worse, in percent."""
        return 100 * (self.better - self.worse) / self.drawn

    @property
    def figures(self) -> dict[str, float]:
        """Return the figures by the heads of their columns, and the share last."""
        own = (self.suspected, self.drawn, self.better, self.worse, self.same, self.gained, self.lost)
        return {**dict(zip(_COUNTED, own, strict=True)), _SHARE: self.share}


def samples(material: LearningInputs, settings: SampleSettings, progress: Progress) -> Findings:
    """Rank captions that may be missed for their length before and after RmvAll, and after RmvRand (section B)."""
    material.learning()  # refuses what lacks a split, before the recipe is looked at
    recipe = settings.recipe
    tail = read_tail_classes(settings.tail_classes) if settings.tail_classes else None
    kinds = {
        BASELINE: Variant(plain(recipe)),
        RMV_ALL: Variant(trimmed(recipe, "all"), BASELINE),
        RMV_RAND: Variant(trimmed(recipe, "random"), BASELINE),
    }
    suspected: dict[int, tuple[LengthMeasures, NDArray[np.int64]]] = {}

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        found = _measured(one, settings, tail)
        if one.row == BASELINE:  # the first of its seed
            suspected.clear()  # one seed at a time is enough
            suspected[one.seed] = found, drawn(found, one.seed)
            return {}
        before, rows = suspected[one.seed]
        return {one.row: compared(before, found, rows).figures}

    runs = measured_trainings(kinds, material, settings, progress, measure, {})
    added = runs.changes(RMV_RAND, RMV_ALL)[_SHARE]
    return Findings(
        " ".join(f"After {name}: {_told(own[0])}" for name, own in runs.rows.items())
        + f" {_SHARE}, RmvAll less RmvRand: {shown(added)} points.",
        effect_of(added, f"{_SHARE}, in %: RmvAll less RmvRand"),
        (_table(runs),),
        (),
        (*few_seeds(settings), *runs.notices),
        (paragraph("length", "Suspected captions"), training_told(recipe, material)),
    )


def _told(moved: Mapping[str, float]) -> str:
    return (
        f"of {moved['drawn']} suspected captions {moved['better']} are ranked better and {moved['worse']} worse, by "
        f"{moved['ranks gained']:,.0f} and {moved['ranks lost']:,.0f} ranks in all."
    )


def compared(before: LengthMeasures, after: LengthMeasures, rows: NDArray[np.int64]) -> Moved:
    """Count how many captions rank better or worse by another ranking, and by how many ranks."""
    change = after.first.rank[rows] - before.first.rank[rows]
    suspected = 0 if before.failures is None else len(before.failures.suspected)
    return Moved(
        suspected,
        int((change < 0).sum()),
        int((change > 0).sum()),
        int((change == 0).sum()),
        float(-change[change < 0].sum()),
        float(change[change > 0].sum()),
    )


def drawn(before: LengthMeasures, seed: int) -> NDArray[np.int64]:
    """Draw up to `MOST` of the captions that are suspected of being missed for their length, ascending rows."""
    rows = np.empty(0, np.int64) if before.failures is None else before.failures.suspected
    if not len(rows):
        raise CorpusError(
            "No caption is suspected of being missed for its length: none is ranked behind 10 whose class is longer or "
            "shorter in training by a second. The audit `length` says how many each rule leaves."
        )
    return np.sort(np.random.default_rng(seed).choice(rows, min(MOST, len(rows)), replace=False))


def _measured(outcome: TrainingOutcome, settings: SampleSettings, tail: TailClasses | None) -> LengthMeasures:
    audit = replace(settings.audit, resamples=0)
    return measure_length(outcome.scores(), outcome.test.corpus, audit, train=outcome.learned, tail=tail)


def _table(runs: SeededRuns[str, str]) -> AuditTable:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (name, seed, *(one[head] for head in _COUNTED))
        for name, own in runs.rows.items()
        for seed, one in enumerate(own)
    )
    return AuditTable("Suspected captions, ranked again", ("training", "seed", *_COUNTED), rows)
