"""On-screen words of what a recipe learns from and selects on, changed as it asks (`data.words`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace

from evenreel.checkpoint import changed_words
from evenreel.checkpoint.architecture import reads_windows
from evenreel.features import FoundClips, StoredClips
from evenreel.features.word_changes import WordChanges
from evenreel.progress import Progress
from evenreel.training.data.examples import FeatureExamples
from evenreel.training.recipe.recipe import Recipe, RecipeError
from evenreel.training.specs import spec_of
from evenreel.types import Encoder


def changes_of(recipe: Recipe) -> WordChanges | None:
    """Return the changes of on-screen words that a recipe names; None for no change."""
    changes = recipe.data.words
    return None if changes is None or changes.changes_nothing else changes


def check_words(recipe: Recipe) -> None:
    """Refuse, before anything is read, to change words for a matcher that reads none.

    Raises:
        RecipeError: the recipe changes words, and its matcher reads none.
    """
    if changes_of(recipe) is None or reads_windows(spec_of(recipe)):
        return
    raise RecipeError(
        f"data.words changes on-screen words, and the matcher {recipe.matcher.name} reads none; set it to null, or "
        "adapter.windows to true, with which on-screen text stands among the frames."
    )


def with_words(
    examples: FeatureExamples,
    found: FoundClips | StoredClips,
    changes: WordChanges,
    encoder: Callable[[], Encoder],
    progress: Progress = lambda share: None,
) -> FeatureExamples:
    """Return the examples with their on-screen words changed.

    Args:
        examples: examples of clips.
        found: what their features were loaded from.
        changes: what is done to words.
        encoder: gives the encoder of the features.
        progress: called with the share of the sentences to encode that is done.

    Raises:
        FeaturesError: see `evenreel.checkpoint.word_changes`.
    """
    return replace(examples, video_features=changed_words(found, examples.video_features, changes, progress, encoder))


def words_used(recipe: Recipe) -> dict[str, str | int | None]:
    """Return how words were changed, which a resumed run must find unchanged; empty where they were not."""
    changes = changes_of(recipe)
    return {} if changes is None else {"words_changed": json.dumps(asdict(changes))}
