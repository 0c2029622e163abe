"""Trainings that differ in one thing, measured on every group of generated clips of the test split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evenreel.papers.engine.fine_tuning import FineTuned, before_training, begins_ready, each_trained
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import groups_in
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.ghost.measures import Figures, Key, mean_figures, measured
from evenreel.progress import Progress
from evenreel.training.recipe.recipe import Recipe

BEFORE = "before training"


def compared(
    kinds: Mapping[str, Recipe], material: LearningInputs, settings: TrainingSettings, progress: Progress
) -> dict[tuple[str, str], list[Figures]]:
    """Train each kind with each seed and measure it.

    Args:
        kinds: recipes by name.
        material: what is learned from, and what is searched.
        settings: seeds, and where runs are kept.
        progress: called with the share that is done.

    Returns:
        By group of generated clips and by kind, the figures of each seed; `BEFORE` has one, of no training, where the
        matcher can rank before it is trained.
    """
    _, test = material.learning()
    audit, groups = replace(settings.audit, resamples=0), list(groups_in(test.corpus))
    ready = begins_ready(settings.recipe, material)
    names = [BEFORE, *kinds] if ready else list(kinds)
    found: dict[tuple[str, str], list[Figures]] = {(group, name): [] for group in groups for name in names}

    def measure(name: str, one: FineTuned) -> None:
        scores = one.test.scores(one.matcher)
        for group in groups:
            found[group, name].append(measured(scores, one.test.corpus, group, audit))

    if ready:
        measure(BEFORE, FineTuned(before_training(settings.recipe, material), test))
    for kind, _, trained in each_trained(kinds, material, settings, progress):
        measure(kind, trained)
    return found


def kind_means(found: Mapping[Key, Sequence[Figures]], confidence: float) -> dict[Key, Figures]:
    """Return the mean of each figure over seeds, with its interval, of each row."""
    return {row: mean_figures(runs, confidence) for row, runs in found.items()}
