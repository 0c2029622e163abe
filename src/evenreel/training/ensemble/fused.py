"""Fusion of several trained members into one matcher, with weights (equation 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import cast

import numpy as np
from scipy import sparse

from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import module
from evenreel.corpus.relevance import RelevantPairs
from evenreel.debias.fusion import Fusion, learned_weights, prior_weights, standardisation, uniform_weights
from evenreel.debias.length import Ensemble
from evenreel.encoders.towers import usable_device
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.training.data.examples import FeatureExamples, TrainingInputs
from evenreel.training.data.pairs import Pairs
from evenreel.training.ensemble.strata import Stratum
from evenreel.training.loop.milestones import SelectionProgress
from evenreel.training.loop.run import RunHooks, TrainedModel
from evenreel.training.recipe import Members, Recipe
from evenreel.types import ScoreBlocks


def ensemble_of(
    recipe: Recipe,
    material: TrainingInputs,
    trained: Sequence[TrainedModel],
    strata: Sequence[Stratum],
    outside: RunHooks,
) -> TrainedModel:
    """Fuse trained members into one matcher, and measure it on the validation split.

    Args:
        recipe: recipe with members.
        material: inputs of the whole training; weights are learned from its validation examples.
        trained: trained members.
        strata: stratum of length that each member was trained on; none where each was trained on all clips.
        outside: callbacks of the run, of which `measure` is called once more.
    """
    matchers = [one.matcher for one in trained]
    sizes = [one.clips for one in strata] or [1] * len(trained)
    with _working(recipe, matchers):
        fusion = _fusion(recipe, material, sizes, matchers)
        matcher = Ensemble(matchers, material.dimension, fusion)
        figures = _figures(matcher, material, outside)
    spec = MatcherSpec("ensemble", asdict(fusion), tuple(one.spec for one in trained))
    return TrainedModel(
        cast("Matcher", matcher.eval()),
        spec,
        None,
        sum(one.step for one in trained),
        SelectionProgress(),
        figures,
        members=tuple(trained),
        strata=tuple(strata),
    )


def _fusion(recipe: Recipe, material: TrainingInputs, sizes: Sequence[int], matchers: Sequence[Matcher]) -> Fusion:
    members = cast("Members", recipe.members)
    looks = members.standardise or members.fusion == "learned"
    examples = cast("FeatureExamples", material.validation)
    scores = [_scores(matcher, examples) for matcher in matchers] if looks else []
    means, scales = standardisation(scores) if members.standardise else ((), ())
    if members.fusion == "learned":
        return Fusion(learned_weights(scores, _answers(examples.pairs, scores[0]), scales), means, scales)
    weights = uniform_weights(len(sizes)) if members.fusion == "uniform" else prior_weights(sizes)
    return Fusion(weights, means, scales)


@contextmanager
def _working(recipe: Recipe, matchers: Sequence[Matcher]) -> Iterator[None]:
    """Where the recipe trains; training leaves its matchers in main memory."""
    device = usable_device(recipe.loop.device, "float32")
    for matcher in matchers:
        module(matcher).to(device)
    try:
        yield
    finally:
        for matcher in matchers:
            module(matcher).to("cpu")


def _scores(matcher: Matcher, examples: FeatureExamples) -> ScoreBlocks:
    return matcher_scores(matcher, examples.text_features, examples.video_features)


def _answers(pairs: Pairs, scores: ScoreBlocks) -> RelevantPairs:
    """Each caption's own clip."""
    there = np.ones(len(pairs), np.bool_)
    shape = (len(scores.caption_ids), len(scores.video_ids))
    return RelevantPairs(sparse.csr_array((there, (pairs.captions, pairs.clips)), shape=shape))


def _figures(matcher: Matcher, material: TrainingInputs, outside: RunHooks) -> dict[str, float]:
    if material.validation is None or outside.measure is None:
        return {}
    found = outside.measure(_scores(matcher, cast("FeatureExamples", material.validation)))
    return {f"validation/{name}": value for name, value in found.items()}
