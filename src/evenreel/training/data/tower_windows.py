"""On-screen text for towers in training: read from stored features, which any encoder may have made."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from evenreel.encoders.towers import Towers
from evenreel.encoders.trainable import takes_whole
from evenreel.features.on_screen import read_on_screen
from evenreel.features.word_changes import WordChanges
from evenreel.training.data.changed_words import changes_of
from evenreel.training.data.pixels import PixelExamples
from evenreel.training.data.window_tokens import window_tokens
from evenreel.training.recipe.recipe import Recipe
from evenreel.types import Corpus


def with_on_screen(
    recipe: Recipe, examples: PixelExamples, corpus: Corpus, towers: Towers, *, learned: bool
) -> PixelExamples:
    """Add what is written in their clips to examples, where the recipe asks for that.

    Args:
        recipe: recipe with `data.on_screen` and `data.words`.
        examples: examples of clips.
        corpus: corpus that has the clips.
        towers: whose tokenizer says how many words a sentence has room for.
        learned: whether they are learned from, and not only scored.

    Raises:
        FeaturesError: see `evenreel.features.on_screen.read_on_screen`.
    """
    folder = recipe.data.on_screen
    if folder is None:
        return examples
    changes = changes_of(recipe) or WordChanges()
    written = read_on_screen(
        folder,
        corpus,
        examples.pairs.clip_ids,
        examples.rule,
        partial(takes_whole, towers),
        changes.learned if learned else changes,
    )
    return replace(examples, windows=window_tokens(towers, written))


def written_used(learned: PixelExamples, selected: PixelExamples | None) -> dict[str, str | int | None]:
    """Return digests of what is written in the clips; empty where the recipe does not use it."""
    parts = [part.windows for part in (learned, selected) if part is not None and part.windows is not None]
    return {"on_screen": " ".join(part.digest() for part in parts)} if parts else {}
