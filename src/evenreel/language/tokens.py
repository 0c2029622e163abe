"""Tokens of a caption with lemma and tag, and the protocol of taggers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from evenreel.language.folding import Part, dictionary, part_of


@dataclass(frozen=True, slots=True)
class Token:
    """One word or punctuation mark of a caption.

    Attributes:
        text: the word as it is written.
        lemma: base form in small letters.
        tag: Penn Treebank tag, such as `NN`, `VBG`, `JJ`.
    """

    text: str
    lemma: str
    tag: str

    @property
    def part(self) -> Part | None:
        """Part of speech: `noun`, `verb`, `adjective`, `adverb`, or None."""
        return part_of(self.tag)


Tagged = tuple[Token, ...]
"""A caption's tokens, in order."""


class Tagger(Protocol):
    """Part-of-speech tagger: splits captions into words and tags them."""

    @property
    def name(self) -> str:
        """Name and version of the tagger, to be stored with anything derived from it."""

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        """Split captions into words and tag them: return the tokens of each; equal captions get equal tokens."""


_CLITICS = "n't|n’t|'s|’s|'re|’re|'ve|’ve|'ll|’ll|'d|’d|'m|’m"
_SPLIT = re.compile(
    rf"\w+?(?={_CLITICS}\b)|(?:{_CLITICS})\b|\d+(?:[.,:/]\d+)+|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE | re.UNICODE
)


def split_words(caption: str) -> list[str]:
    """Split a caption into words and punctuation marks.

    >>> split_words("A man's dog doesn't like 2.5 stir-fried eggs.")
    ['A', 'man', "'s", 'dog', 'does', "n't", 'like', '2.5', 'stir-fried', 'eggs', '.']
    """
    return _SPLIT.findall(caption)


def most_frequent(counts: Mapping[str, int], least: int = 1) -> list[tuple[str, int]]:
    """Return what was counted at least so often, with its count: the most frequent first, ties by the alphabet."""
    enough = ((name, count) for name, count in counts.items() if count >= least)
    return sorted(enough, key=lambda one: (-one[1], one[0]))


def unknown_share(captions: Iterable[Tagged]) -> float:
    """Compute the share, 0 to 1, of nouns, verbs, adjectives and adverbs that the English dictionary does not know.

    It is a few per cent for English captions (names, misspellings), and most words for another language.

    >>> unknown_share([(Token("dogs", "dog", "NNS"), Token("the", "the", "DT"), Token("собака", "собака", "NN"))])
    0.5
    """
    known = [bool(dictionary(token.text)) for tokens in captions for token in tokens if token.part]
    return known.count(False) / max(len(known), 1)


def lemmas(tokens: Iterable[Token], part: Part) -> list[str]:
    """Return the lemmas of the tokens of one part of speech, in the order of the caption.

    >>> lemmas((Token("two", "two", "CD"), Token("Dogs", "dog", "NNS"), Token("ran", "run", "VBD")), "noun")
    ['dog']
    """
    return [token.lemma for token in tokens if token.part == part]
