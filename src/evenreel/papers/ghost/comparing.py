"""Trainings that differ in one thing, measured on every group of generated clips of the test split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evenreel.evaluation import Interval
from evenreel.papers.engine.fine_tuning import before_training, begins_ready, each_trained
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import groups_in
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.ghost.measures import MAIN, Figures, mean_change, mean_figures, measured
from evenreel.progress import Progress
from evenreel.training.recipe.recipe import Recipe

BEFORE = "before training"

Runs = dict[str, list[Figures]]
"""Figures of every seed, by what was trained."""


def compared(
    kinds: Mapping[str, Recipe], material: LearningInputs, settings: TrainingSettings, progress: Progress
) -> dict[str, Runs]:
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
    audit = replace(settings.audit, resamples=0)
    found: dict[str, Runs] = {group: {} for group in groups_in(test.corpus)}
    if begins_ready(settings.recipe, material):
        scores = test.scores(before_training(settings.recipe, material))
        for group, runs in found.items():
            runs[BEFORE] = [measured(scores, test.corpus, group, audit)]
    for kind, _, matcher in each_trained(kinds, material, settings, progress):
        scores = test.scores(matcher)
        for group, runs in found.items():
            runs.setdefault(kind, []).append(measured(scores, test.corpus, group, audit))
    return found


def preference_change(runs: Runs, before: str, after: str, confidence: float) -> Interval:
    """The Normalized Δ MixR of one kind less that of another, seed by seed."""
    return mean_change(runs[before], runs[after], confidence)[MAIN]


def kind_means(runs: Runs, confidence: float) -> dict[str, Figures]:
    """Each kind's figures, mean over seeds with intervals."""
    return {kind: mean_figures(own, confidence) for kind, own in runs.items()}
