"""Edits of captions that change what is said of what, and hardly a word: the registry, and how one is applied.

What word order and small words tell is lost on a ranking that reads captions as bags of words (Yuksekgonul et al. 2023,
'When and why vision-language models behave like bags-of-words', section 2). What can be read in these captions as well
as in the true ones is no help to the ranking: Hsieh et al. 2023 ('SugarCrepe') found odd sentences to give themselves
away, so only what can change places is exchanged, and a caption without it stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from evenreel.errors import UsageError
from evenreel.language.composition.answers import ANSWERS, answer, shown_thing
from evenreel.language.composition.attributes import swapped_attributes
from evenreel.language.composition.negation import AFFIRMED, DENIED, absent_things, with_thing
from evenreel.language.composition.pieces import Caption
from evenreel.language.composition.relations import swapped_relation
from evenreel.language.composition.roles import swapped_roles
from evenreel.language.tokens import Tagger

SWAPS: dict[str, Callable[[Caption, np.random.Generator], str | None]] = {
    "role-swapped": lambda caption, _: swapped_roles(caption),
    "attribute-swapped": swapped_attributes,
    "relation-swapped": lambda caption, _: swapped_relation(caption),
}
"""By name, edits that make a caption false of its clip: what becomes of it, None where nothing can be swapped."""

THINGS = {"negated": DENIED, "affirmed": AFFIRMED}
"""By name, edits that name a thing which the clip does not show: `negated` says so, `affirmed` says the opposite."""

EDITS = (*SWAPS, *THINGS, *ANSWERS)
"""Names of all edits of composition."""


def recomposed(edit: str, captions: Sequence[str], clip_ids: Sequence[str], tagger: Tagger, seed: int = 0) -> list[str]:
    """Apply an edit of composition to captions; those in which nothing can be changed stay as they are.

    Args:
        edit: name of the edit, one of `EDITS`.
        captions: Q texts; a draw depends on the text and the seed alone, so equal captions get equal edits.
        clip_ids: clip of each caption (Q,); a thing that is denied is one that captions of other clips name, the same
            one for all edits of `THINGS` and `ANSWERS`.
        tagger: tags the words, by which it is told what can change places.
        seed: seed of what is drawn: another colour, a thing that is absent.

    Raises:
        UsageError: there is no such edit.
    """
    if edit not in EDITS:
        raise UsageError(f"{edit!r} is no edit of what captions say of what; there are: {', '.join(EDITS)}.")
    tagged = tagger.tag(captions)
    if edit in SWAPS:
        found = [
            SWAPS[edit](Caption(text.strip(), tokens), np.random.default_rng([seed, *text.encode()]))
            for text, tokens in zip(captions, tagged, strict=True)
        ]
        return [text if new is None else new for text, new in zip(captions, found, strict=True)]
    things = absent_things(captions, tagged, clip_ids, seed)
    if edit in THINGS:
        pattern = THINGS[edit]
        return [
            text if thing is None else with_thing(pattern, text, thing)
            for text, thing in zip(captions, things, strict=True)
        ]
    shown = map(shown_thing, tagged)
    return [
        text if first is None or thing is None else answer(edit, first, thing)
        for text, first, thing in zip(captions, shown, things, strict=True)
    ]
