"""Base forms of English words, and the parts of speech that a dictionary knows a word as.

The tables are those of LemmInflect (drawn from the NIH's SPECIALIST lexicon); its model for unknown words is a
pickle and stays unread: the regular endings are taken off instead.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import resources
from typing import Literal

Part = Literal["noun", "verb", "adjective", "adverb"]

_DICTIONARY_NAMES: dict[Part, str] = {"noun": "NOUN", "verb": "VERB", "adjective": "ADJ", "adverb": "ADV"}
_VOWELS = "aeiou"


@cache
def part_of(tag: str) -> Part | None:
    """Part of speech of a Penn Treebank tag; None for function words, numbers and punctuation.

    >>> part_of("VBG"), part_of("NNS"), part_of("IN")
    ('verb', 'noun', None)
    """
    if tag.startswith("NN"):
        return "noun"
    if tag.startswith("VB"):
        return "verb"
    if tag.startswith("JJ"):
        return "adjective"
    return "adverb" if tag.startswith("RB") else None


@cache
def lemma_of(word: str, part: Part | None) -> str:
    """The base form of a word as a part of speech; the word itself in small letters where there is no part.

    >>> lemma_of("knives", "noun"), lemma_of("Slicing", "verb"), lemma_of("are", "verb"), lemma_of("glasses", "noun")
    ('knife', 'slice', 'be', 'glass')
    """
    word = word.lower()
    if part is None:
        return word
    if own := _overrides().get((part, word)):
        return own
    known = dictionary(word).get(part)
    return known[0] if known else _regular(word, part)


@cache
def dictionary(word: str) -> dict[Part, tuple[str, ...]]:
    """Lemmas of a word for each part of speech that the dictionary has it as; empty for an unknown word.

    >>> dictionary("cuts")
    {'noun': ('cut',), 'verb': ('cut',)}
    """
    import lemminflect

    found: dict[str, tuple[str, ...]] = lemminflect.getAllLemmas(word.lower())
    return {part: found[name] for part, name in _DICTIONARY_NAMES.items() if name in found}


@lru_cache(maxsize=1)
def _overrides() -> dict[tuple[str, str], str]:
    text = resources.files(__package__).joinpath("lemmas.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {(part, word): lemma for part, word, lemma in rows}


def _regular(word: str, part: Part) -> str:
    """An unknown word without its regular ending.

    >>> _regular("vlogging", "verb"), _regular("selfies", "noun"), _regular("photoshopped", "verb")
    ('vlog', 'selfie', 'photoshop')
    """
    if part == "verb":
        for ending in ("ing", "ed"):
            if word.endswith(ending) and len(word) > len(ending) + 2:
                return _stem(word[: -len(ending)])
    if part in ("noun", "verb") and word.endswith("s") and not word.endswith(("ss", "us")) and len(word) > 3:
        return word[:-2] if word.endswith(("ches", "shes", "sses", "xes", "zes")) else word[:-1]
    return word


def _stem(stem: str) -> str:
    """What stood before `-ing` or `-ed`: one letter of a doubled one; verbs that drop an e are in the dictionary."""
    doubled = len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz" + _VOWELS
    return stem[:-1] if doubled else stem
