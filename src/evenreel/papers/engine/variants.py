"""The rows of a table of trainings: one recipe again and again, with one thing changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from evenreel.errors import UsageError
from evenreel.matchers.batches import row_lengths
from evenreel.matchers.registry import MATCHERS
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.training.recipe import MatcherChoice, Recipe
from evenreel.types import Corpus

BASELINE = "baseline"


class MemberOf(NamedTuple):
    """A row that is one member of the training of another row, and so needs none of its own.

    Attributes:
        row: name of that row.
        number: number of the member, from 1.
    """

    row: str
    number: int


@dataclass(frozen=True)
class Variant:
    """One recipe to train as a row of a table, and the row it is compared with.

    Attributes:
        recipe: recipe of the row.
        against: name of the row that it is compared with; None for a row that others are compared with.
        narrowed: function that selects the part of the training corpus to learn from; None for what the recipe selects.
        member: member of another row's ensemble that this row shows, so that it is not trained again; None for a
            training of its own.
    """

    recipe: Recipe
    against: str | None = None
    narrowed: Callable[[Corpus], Corpus] | None = None
    member: MemberOf | None = None


Variants = dict[str, Variant]


def beside(whole: Recipe, rows: Mapping[str, Recipe], name: str = BASELINE) -> Variants:
    """Return rows that are each compared with one recipe.

    Args:
        whole: what the rows are compared with.
        rows: recipes by name; one that is called as the whole is the whole, and left out.
        name: name of the row of the whole.
    """
    return {name: Variant(whole)} | {row: Variant(recipe, name) for row, recipe in rows.items() if row != name}


def changed(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """Return the recipe with other settings of its matcher."""
    return replace(recipe, matcher=MatcherChoice(recipe.matcher.name, {**recipe.matcher.settings, **settings}))


def with_room(name: str, material: LearningInputs, *, windows: bool = False) -> MatcherChoice:
    """Choose a matcher by its defaults, with room for the longest clip and caption where these have too little."""
    defaults = MATCHERS[name].settings()
    wanted = {"max_words": longest(material, "words"), "max_frames": longest(material, "frames")}
    if windows:
        wanted["max_frames"] += longest(material, "windows")
    own = {setting: count for setting, count in wanted.items() if count > getattr(defaults, setting, count)}
    return MatcherChoice(name, own)


def longest(material: LearningInputs, of: Literal["words", "frames", "windows"]) -> int:
    """Return the most words of a caption, or frames or windows of a clip, in the splits of a study."""
    parts = [part for part in (*material.learning(), material.validation) if part is not None]
    if of == "windows":
        return max(0 if part.videos.on_screen is None else part.videos.on_screen.mask.shape[1] for part in parts)
    masks = (part.texts.word_mask if of == "words" else part.videos.frame_mask for part in parts)
    return max(int(row_lengths(mask).max(initial=0)) for mask in masks)


def from_the_start(recipe: Recipe, material: LearningInputs) -> Recipe:
    """Return the recipe, for a study that trains matchers built in several ways."""
    if material.start is not None:
        raise UsageError(
            "This study trains matchers that are built in several ways, and a checkpoint (--start) is of one: leave it "
            "out."
        )
    return recipe
