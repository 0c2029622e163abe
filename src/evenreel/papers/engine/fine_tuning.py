"""Training for a study to its last step: the same recipe again and again, with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from evenreel.checkpoint.architecture import kept_weights
from evenreel.checkpoint.records import MatcherSpec
from evenreel.corpus.counterparts import with_generated
from evenreel.errors import UsageError
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.registry import build_matcher
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart
from evenreel.papers.engine.runs import TrainingRun, each_run
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.towers import check_rows, read_clips, seen_by
from evenreel.progress import Progress
from evenreel.training.batches import FeatureExamples, TrainingInputs, pairs_of
from evenreel.training.loop import RunHooks, TrainedModel, train
from evenreel.training.recipe import MatcherChoice, Recipe
from evenreel.training.splits import CorpusSplits, mirrors_of, needs_relevance, with_other_clips

STARTS_READY = ("mean_pool", "temporal")
"""Matchers that rank by the towers' own similarities before they are trained."""


class FineTuned(NamedTuple):
    """A matcher after its last step, and the test split as it takes it: by its own towers, where these were trained."""

    matcher: Matcher
    test: CorpusPart


def begun(recipe: Recipe, material: LearningInputs) -> Recipe:
    """Return a recipe with the matcher and the adapter of the checkpoint that training begins with, if there is one."""
    if material.start is not None:
        return _built_as(recipe, material.start.spec)
    if recipe.start is not None:
        raise UsageError(f"The recipe begins with {recipe.start}; give the material that checkpoint as its start.")
    return recipe


def _built_as(recipe: Recipe, spec: MatcherSpec) -> Recipe:
    if not spec.wrapped:
        return replace(recipe, matcher=MatcherChoice(spec.name, dict(spec.settings)), adapter=None)
    inner = spec.wrapped[0]
    if spec.name != "adapted" or inner.wrapped:
        raise UsageError(
            f"A study's training begins with one matcher, with an adapter or without, and this checkpoint is of "
            f"{spec.name} around {inner.name}; begin with another."
        )
    adapter = AdapterSettings(**spec.settings)
    return replace(recipe, matcher=MatcherChoice(inner.name, dict(inner.settings)), adapter=adapter)


def begins_ready(recipe: Recipe, material: LearningInputs) -> bool:
    """Check whether a recipe's matcher can rank clips before it is trained."""
    return material.start is not None or recipe.matcher.name in STARTS_READY


def before_training(recipe: Recipe, material: LearningInputs) -> Matcher:
    """Return the matcher that every training begins as: that of the checkpoint, or the recipe's before any training."""
    if material.start is not None:
        return material.start.matcher
    _, test = material.learning()
    return zero_shot(recipe, test.videos.frames.shape[-1])


def zero_shot(recipe: Recipe, dimension: int) -> Matcher:
    """Build the recipe's matcher before any training, without its adapter, which changes nothing then."""
    if recipe.matcher.name not in STARTS_READY:
        raise UsageError(
            f"The matcher {recipe.matcher.name} begins with random numbers, so there is nothing to compare its "
            f"training with; set matcher.name to {' or '.join(STARTS_READY)}."
        )
    return build_matcher(recipe.matcher.name, dimension, recipe.matcher.settings)


def each_trained(
    kinds: Mapping[str, Recipe], material: LearningInputs, settings: TrainingSettings, progress: Progress
) -> Iterator[tuple[str, int, FineTuned]]:
    """Train each recipe with each seed, all recipes of one seed after each other.

    Yields:
        Kind, seed and what was trained.
    """
    check_rows(kinds)
    part, test = material.learning()
    start = None if material.start is None else kept_weights(material.start.matcher)
    for run in each_run(kinds, settings, progress):
        recipe = kinds[run.row]
        seeded = replace(recipe, loop=replace(recipe.loop, seed=run.seed))
        trained = fine_tuned(seeded, part, run, start)
        through = recipe.backbone is not None
        seen = seen_by(trained, recipe, test, run.clips_read) if through else test
        yield run.row, run.seed, FineTuned(trained.matcher, seen)


def fine_tuned(
    recipe: Recipe, part: CorpusPart, run: TrainingRun, start: Mapping[str, Tensor] | None = None
) -> TrainedModel:
    """Train a matcher to its last step; a run that is there goes on, and one that is over is read.

    Args:
        recipe: what to do; its places of data are not looked at.
        part: what is learned from.
        run: its folder and progress.
        start: weights to begin with; None for fresh ones.
    """
    others = (recipe.trim, recipe.members, recipe.likeness, recipe.backgrounds, recipe.data.words)
    if any(one is not None for one in others):
        raise UsageError(
            "This study trains one matcher on all clips of a split as they are: set trim, members, "
            "likeness, backgrounds and data.words to null."
        )
    share, group = recipe.data.generated_share, recipe.data.generated_group
    learned = with_generated(part.corpus, share, recipe.loop.seed, group)
    mirrors = None if recipe.debias is None else mirrors_of(part.corpus, group)
    relevance = needs_relevance(recipe)
    if recipe.backbone is None:
        pairs = pairs_of(learned, part.texts.ids, part.videos.ids, mirrors, relevance)
        examples = FeatureExamples(pairs, part.texts, part.videos)
        material = TrainingInputs(examples, part.videos.frames.shape[-1], start=start or {})
    else:
        shown = learned if mirrors is None else with_other_clips(learned, part.corpus, mirrors)
        material = read_clips(recipe, part, CorpusSplits(shown, None, mirrors, relevance), run)
    outside = RunHooks(watch=lambda step, steps, figures: run.progress(step / steps), resume=True)
    return train(recipe, material, run.folder, outside)
