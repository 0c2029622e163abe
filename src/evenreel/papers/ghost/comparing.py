"""Trainings that differ in one thing, measured on every group of generated clips of the test split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, product

from evenreel.papers.engine.fine_tuning import FineTuned, before_training, begins_ready, each_trained
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import groups_in
from evenreel.papers.engine.seeds import by_row
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.ghost.measures import Figures, SeededFigures, measured
from evenreel.progress import Progress
from evenreel.training.recipe import Recipe

BEFORE = "before training"


def compared(
    kinds: Mapping[str, Recipe], material: LearningInputs, settings: TrainingSettings, progress: Progress
) -> SeededFigures[tuple[str, str]]:
    """Train a matcher by each recipe with each seed, and measure its preference on each group of generated clips.

    Returns:
        By group of generated clips and by kind, the figures of each seed; `BEFORE` has one, of no training, where the
        matcher can rank before it is trained.
    """
    _, test = material.learning()
    audit, groups = replace(settings.audit, resamples=0), list(groups_in(test.corpus))
    ready = begins_ready(settings.recipe, material)
    names = [BEFORE, *kinds] if ready else list(kinds)

    def each_measured() -> Iterator[tuple[tuple[str, str], Figures]]:
        before = [(BEFORE, 0, FineTuned(before_training(settings.recipe, material), test))] if ready else []
        for name, _, one in chain(before, each_trained(kinds, material, settings, progress)):
            scores = one.test.scores(one.matcher)
            for group in groups:
                yield (group, name), measured(scores, one.test.corpus, group, audit)

    found = by_row(each_measured())
    return SeededFigures({key: found[key] for key in product(groups, names)}, settings.audit.confidence)
