"""Six short captions of a thing that a clip shows and one that it does not: the answers of multiple-choice questions.

After the task MCQ-Neg of NegBench (Alhamoud et al. 2025, arXiv 2501.09425), whose answers affirm a thing, deny one, or
do both, and are each true or false of their picture. The words of the captions are our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from evenreel.language.composition.negation import countable_things
from evenreel.language.composition.pieces import with_articles
from evenreel.language.tokens import Tagged

ANSWERS: Mapping[str, str] = MappingProxyType(
    {
        "true-affirmation": "a video with a {shown}",
        "true-negation": "a video with no {absent}",
        "true-hybrid": "a video with a {shown} and no {absent}",
        "false-affirmation": "a video with a {absent}",
        "false-negation": "a video with no {shown}",
        "false-hybrid": "a video with a {absent} and no {shown}",
    }
)
"""By name, what each of the six captions says of the thing that is shown and of the one that is absent."""

_DENIALS = frozenset({"n't", "never", "no", "not", "n’t", "without"})


def shown_thing(tokens: Tagged) -> str | None:
    """Return the first thing that a tagged caption names behind `a` or `an`, before any word that denies.

    >>> from evenreel.language.taggers import PatternTagger
    >>> tagger = PatternTagger()
    >>> [shown_thing(tokens) for tokens in tagger.tag(["the man holds a red ball", "two men without a hat"])]
    ['ball', None]
    """
    denied = (place for place, token in enumerate(tokens) if token.text.lower() in _DENIALS)
    return next(countable_things(tokens[: next(denied, len(tokens))]), None)


def answer(name: str, shown: str, absent: str) -> str:
    """Say of two things what one of `ANSWERS` says.

    >>> answer("false-hybrid", "dog", "owl")
    'a video with an owl and no dog'
    """
    return with_articles(ANSWERS[name].format(shown=shown, absent=absent))
