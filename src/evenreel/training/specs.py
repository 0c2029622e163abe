"""Specification of a recipe's matcher, completed with what it takes from the training captions."""

from __future__ import annotations

import hashlib
from dataclasses import asdict

import numpy as np

from evenreel.checkpoint.architecture import fitted, reads_graphs, reads_windows
from evenreel.checkpoint.records import MatcherSpec
from evenreel.errors import UsageError
from evenreel.matchers.entry import LearnedFrom
from evenreel.training.data.examples import FeatureExamples, TrainingInputs
from evenreel.training.loop.run_folder import Facts
from evenreel.training.recipe import Recipe, RecipeError


def spec_of(recipe: Recipe) -> MatcherSpec:
    """Return the specification of a recipe's matcher, with its adapter and the corrections of features before it."""
    spec = MatcherSpec(recipe.matcher.name, recipe.matcher.settings)
    wrappers = {
        "adapted": recipe.adapter,
        "without_length": recipe.without_length,
        "without_habits": recipe.without_habits,
    }
    for wrapper, settings in wrappers.items():
        spec = spec if settings is None else MatcherSpec(wrapper, asdict(settings), (spec,))
    return spec


def check_words(recipe: Recipe) -> None:
    """Check that a recipe changes on-screen words only for a matcher that uses them, before anything is read.

    Raises:
        RecipeError: the recipe changes words, and its matcher reads none.
    """
    if recipe.changed_words is None or reads_windows(spec_of(recipe)):
        return
    raise RecipeError(
        f"data.words changes on-screen words, and the matcher {recipe.matcher.name} reads none; set it to null, or "
        "adapter.windows to true, with which on-screen text stands among the frames."
    )


def fitted_spec(recipe: Recipe, material: TrainingInputs) -> MatcherSpec:
    """Return the specification of a recipe's matcher with what is fitted to the training data, such as a vocabulary.

    Raises:
        UsageError: the matcher needs role graphs, and captions have none; or it cannot be fitted to the data.
    """
    spec, learned = spec_of(recipe), learned_from(material)
    if reads_graphs(spec) and not learned.graphs:
        raise UsageError(
            f"The matcher {recipe.matcher.name} reads captions as role graphs and not as a text tower does; train it "
            "on features (data.features) without a backbone."
        )
    return fitted(spec, learned, material.start_spec)


def lists_in(spec: MatcherSpec) -> Facts:
    """Compute digests of the lists of words and phrases in the settings of a matcher, by their place in it.

    With the same recipe they differ only where their source has changed, such as a scene dictionary.
    """
    own = {
        f"matcher.{name}": hashlib.sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()
        for name, words in spec.settings.items()
        if isinstance(words, tuple) and words and all(isinstance(word, str) for word in words)
    }
    return {**own, **{name: digest for inner in spec.wrapped for name, digest in lists_in(inner).items()}}


def learned_from(material: TrainingInputs) -> LearnedFrom:
    """Return the captions of the training data that matchers may be fitted to, each once, and the encoder's hash."""
    examples = material.examples
    graphs = examples.text_features.graphs if isinstance(examples, FeatureExamples) else None
    own = () if graphs is None else [graphs[row] for row in np.unique(examples.pairs.captions)]
    return LearnedFrom(own, examples.pairs.sentences, material.weights_hash)
