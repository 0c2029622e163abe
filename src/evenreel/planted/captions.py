"""Captions from a grammar: a scene in many phrasings, naming all of its attributes or some."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import TypeVar

import numpy as np

from evenreel.errors import UsageError
from evenreel.planted.scenes import Scene
from evenreel.planted.vocabulary import activities, sentences, unnamed_shapes, words_for

ATTRIBUTES = ("colour", "shape", "size", "activity", "background")
"""All that a caption can name."""
SUBJECT = frozenset({"colour", "shape", "size"})

Item = TypeVar("Item")

Pick = Callable[[np.random.Generator, Sequence[str]], str]
"""Chooses one of several words or phrases that mean the same."""


def any_of(rng: np.random.Generator, items: Sequence[Item]) -> Item:
    """Choose one of several phrasings at random, with equal probabilities."""
    return items[int(rng.integers(len(items)))]


def caption(
    scene: Scene,
    rng: np.random.Generator,
    names: Collection[str] = ("colour", "shape", "activity", "background"),
    pick: Pick = any_of,
) -> str:
    """Write a caption of a scene that names exactly the given attributes, and never the words on its signs.

    Args:
        scene: scene to describe.
        rng: generator that chooses the phrasing.
        names: those of `ATTRIBUTES` that the sentence names.
        pick: function that chooses one of several phrasings.

    Raises:
        UsageError: `names` has an unknown attribute, or names nothing.
    """
    if not names or not set(names) <= set(ATTRIBUTES):
        raise UsageError(f"a caption names some of {', '.join(ATTRIBUTES)}; asked for {sorted(names)}")
    pattern = pick(rng, _fitting_patterns(frozenset(names)))
    return pattern.format(**_SceneWords(scene, rng, pick).of(names))


@cache
def _fitting_patterns(names: frozenset[str]) -> tuple[str, ...]:
    """Patterns with a slot for each named part and no other; the subject may stand without attributes."""
    fitting = []
    for pattern in sentences():
        slots = {name for _, name, _, _ in Formatter().parse(pattern) if name}
        acts = bool(slots & {"does", "doing"})
        if (
            acts == ("activity" in names)
            and ("where" in slots) == ("background" in names)
            and ("subject" in slots or not SUBJECT & names)
        ):
            fitting.append(pattern)
    return tuple(fitting)


@dataclass(frozen=True)
class _SceneWords:
    """The words for what a scene shows."""

    scene: Scene
    rng: np.random.Generator
    pick: Pick

    def of(self, names: Collection[str]) -> dict[str, str]:
        activity = activities()[self.scene.activity]
        return {
            "subject": self._subject(names),
            "does": self.pick(self.rng, activity.does),
            "doing": self.pick(self.rng, activity.doing),
            "where": self._word("background"),
        }

    def _subject(self, names: Collection[str]) -> str:
        words = [self._word(part) for part in ("size", "colour") if part in names]
        words.append(self._word("shape") if "shape" in names else self.pick(self.rng, unnamed_shapes()))
        phrase = " ".join(words)
        return f"an {phrase}" if phrase[0] in "aeiou" else f"a {phrase}"

    def _word(self, attribute: str) -> str:
        return self.pick(self.rng, words_for(attribute, self.scene.attributes[attribute]))
