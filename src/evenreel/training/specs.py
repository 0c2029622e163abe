"""How the matcher of a recipe is built, with what it takes from the captions that it is to learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import fitted, reads_graphs
from evenreel.debias.fusion import prior_weights
from evenreel.errors import UsageError
from evenreel.training.examples import Examples, FeatureExamples
from evenreel.training.recipe import Recipe
from evenreel.training.strata import sizes
from evenreel.types import RoleGraph


def spec_of(recipe: Recipe) -> MatcherSpec:
    """The recipe's matcher as the recipe says it, in its adapter where there is one."""
    matcher = MatcherSpec(recipe.matcher.name, recipe.matcher.settings)
    return matcher if recipe.adapter is None else MatcherSpec("adapted", asdict(recipe.adapter), (matcher,))


def fitted_spec(recipe: Recipe, examples: Examples, begun: MatcherSpec | None = None) -> MatcherSpec:
    """The same, complete; in its heads where the strata of a single training have some.

    Args:
        recipe: what is trained.
        examples: what it learns from.
        begun: how the matcher is built whose weights training begins with; None where they are fresh.

    Raises:
        UsageError: the matcher reads captions as graphs, and these are none.
    """
    spec = spec_of(recipe)
    if reads_graphs(spec):
        spec = fitted(spec, _graphs(examples, recipe.matcher.name), begun)
    members = recipe.members
    if members is None or members.form != "heads":
        return spec
    return MatcherSpec("per_stratum", {"weights": prior_weights(sizes(examples.pairs))}, (spec,))


def _graphs(examples: Examples, name: str) -> Sequence[RoleGraph]:
    """Those of the captions that are learned from, each once."""
    graphs = examples.text_features.graphs if isinstance(examples, FeatureExamples) else None
    if graphs is None:
        raise UsageError(
            f"The matcher {name} reads captions as role graphs and not as a text tower does; train it on features "
            "(data.features) without a backbone."
        )
    return [graphs[row] for row in np.unique(examples.pairs.captions)]
