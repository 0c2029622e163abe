"""Choices by what was exchanged for what: which relation, which kind of attribute, or the same words elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from evenreel.audits.composition.edit_choice import EditChoice
from evenreel.audits.exchange import share_interval
from evenreel.audits.settings import AuditSettings
from evenreel.evaluation.intervals import Interval
from evenreel.language.composition.lists import attribute_values
from evenreel.language.tokens import split_words
from evenreel.types import Corpus

SAME_WORDS = "same words, other places"
OTHER = "other"

LEAST = 5
"""Captions of a kind that has a row of its own."""

_MOST_WORDS = 4
_ARTICLES = frozenset({"a", "an", "the"})


class KindShare(NamedTuple):
    """What own clips prefer, of the captions in which one thing was exchanged for one other.

    Attributes:
        edit: name of the edit.
        kind: what was exchanged, see `kind_of`.
        captions, clips: number of captions, and of their clips, or videos where these are drawn.
        beyond: mean of `Choices.beyond`.
    """

    edit: str
    kind: str
    captions: int
    clips: int
    beyond: Interval


def kind_of(before: str, after: str) -> str:
    """Name what an edit exchanged in a caption: a kind of attribute, words for words, or `SAME_WORDS`.

    >>> kind_of("a red ball", "an orange ball"), kind_of("he goes up", "he goes down")
    ('colour', 'up → down')
    >>> kind_of("a dog sees a cat", "a cat sees a dog")
    'same words, other places'
    """
    first, second = (Counter(word.lower() for word in split_words(text)) for text in (before, after))
    lost, gained = ([word for word in (one - other).elements() if word not in _ARTICLES] for one, other in
                    ((first, second), (second, first)))  # fmt: skip
    if not lost and not gained:
        return SAME_WORDS
    if len(lost) == len(gained) == 1 and (shared := _kinds(lost[0]) & _kinds(gained[0])):
        return min(shared)
    return f"{' '.join(lost)} → {' '.join(gained)}" if max(len(lost), len(gained)) <= _MOST_WORDS else OTHER


def kind_shares(
    choices: Mapping[str, EditChoice], corpus: Corpus, texts: Mapping[str, Corpus], settings: AuditSettings
) -> tuple[KindShare, ...]:
    """Compute what own clips prefer by kind, the kinds of most captions first; rare kinds are `OTHER`.

    Args:
        choices: choices by the name of the edit.
        corpus: corpus with the captions as they are.
        texts: corpora of the edited captions by the name of the edit.
        settings: samples, seed and confidence.
    """
    before = dict(corpus.captions.select("caption_id", "text").rows())
    found: list[KindShare] = []
    for edit, one in choices.items():
        after = dict(texts[edit].captions.select("caption_id", "text").rows())
        kinds = [kind_of(before[name], after[name]) if name in after else OTHER for name in one.perturbed.caption_ids]
        found += _of_edit(one, kinds, settings)
    return tuple(found)


def _of_edit(one: EditChoice, kinds: list[str], settings: AuditSettings) -> Iterator[KindShare]:
    counts = Counter(kinds)
    named = np.array([kind if counts[kind] >= LEAST else OTHER for kind in kinds])
    for kind, _ in Counter(named.tolist()).most_common():
        held = (named == kind) & ~np.isnan(one.choices.beyond)
        if held.any():
            groups = one.perturbed.drawn_with[held]
            share = share_interval(one.choices.beyond[held], groups, settings)
            yield KindShare(one.edit, kind, int(held.sum()), len(np.unique(groups)), share)


def _kinds(word: str) -> set[str]:
    return {kind for kind, _ in attribute_values().get(word, ())}
