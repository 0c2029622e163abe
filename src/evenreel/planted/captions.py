"""Captions from a grammar: the same scene in many phrasings, naming all of it or a part."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from string import Formatter

import numpy as np

from evenreel.errors import UsageError
from evenreel.planted import vocabulary
from evenreel.planted.scenes import Scene

ATTRIBUTES = ("colour", "shape", "size", "activity", "background")
"""All that a caption can name."""
SUBJECT = frozenset({"colour", "shape", "size"})


def caption(
    scene: Scene,
    rng: np.random.Generator,
    names: Collection[str] = ("colour", "shape", "activity", "background"),
) -> str:
    """A sentence about a scene that names exactly the attributes asked for; never the words on its signs.

    Args:
        scene: what to describe.
        rng: chooses the phrasing.
        names: which of `ATTRIBUTES` the sentence names.

    Raises:
        UsageError: `names` has an unknown attribute, or names nothing.
    """
    if not names or not set(names) <= set(ATTRIBUTES):
        raise UsageError(f"a caption names some of {', '.join(ATTRIBUTES)}; asked for {sorted(names)}")
    pattern = _choose(rng, _fitting_patterns(frozenset(names)))
    return pattern.format(**_phrases(scene, rng, names))


@cache
def _fitting_patterns(names: frozenset[str]) -> tuple[str, ...]:
    """Patterns with a slot for each named part and no other; the subject may stand without attributes."""
    fitting = []
    for pattern in vocabulary.sentences():
        slots = {name for _, name, _, _ in Formatter().parse(pattern) if name}
        acts = bool(slots & {"does", "doing"})
        if (
            acts == ("activity" in names)
            and ("where" in slots) == ("background" in names)
            and ("subject" in slots or not SUBJECT & names)
        ):
            fitting.append(pattern)
    return tuple(fitting)


def _phrases(scene: Scene, rng: np.random.Generator, names: Collection[str]) -> dict[str, str]:
    activity = vocabulary.activities()[scene.activity]
    return {
        "subject": _subject(scene, rng, names),
        "does": _choose(rng, activity.does),
        "doing": _choose(rng, activity.doing),
        "where": _word(scene, rng, "background"),
    }


def _subject(scene: Scene, rng: np.random.Generator, names: Collection[str]) -> str:
    words = [_word(scene, rng, part) for part in ("size", "colour") if part in names]
    words.append(_word(scene, rng, "shape") if "shape" in names else _choose(rng, vocabulary.unnamed_shapes()))
    phrase = " ".join(words)
    return f"an {phrase}" if phrase[0] in "aeiou" else f"a {phrase}"


def _word(scene: Scene, rng: np.random.Generator, attribute: str) -> str:
    return _choose(rng, vocabulary.words_for(attribute, scene.attributes[attribute]))


def _choose(rng: np.random.Generator, items: Sequence[str]) -> str:
    return items[int(rng.integers(len(items)))]
