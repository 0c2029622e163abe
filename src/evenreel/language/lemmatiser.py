"""Lemmas (base forms) of English words, and the parts of speech that a dictionary lists a word as.

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
    """Return the part of speech of a Penn Treebank tag; None for function words, numbers and punctuation.

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
    """Return the base form of a word as a part of speech; without a part, the word itself in small letters.

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
    """Return the lemmas of a word by part of speech, as the dictionary lists them; empty for an unknown word.

    >>> dictionary("cuts")
    {'noun': ('cut',), 'verb': ('cut',)}
    """
    import lemminflect

    found: dict[str, tuple[str, ...]] = lemminflect.getAllLemmas(word.lower())
    return {part: found[name] for part, name in _DICTIONARY_NAMES.items() if name in found}


def are_forms(one: str, other: str, *parts: Part) -> bool:
    """Return whether two words may be forms of the same word.

    Args:
        one: a word.
        other: another word.
        parts: parts of speech to look the words up as; none: all.

    >>> are_forms("pools", "pool"), are_forms("swimming", "swims"), are_forms("swimming", "swims", "noun")
    (True, True, False)
    >>> are_forms("news", "new"), are_forms("universe", "university"), are_forms("hyundais", "hyundai")
    (False, False, True)
    """
    return any(_bases(one, part) & _bases(other, part) for part in parts or _DICTIONARY_NAMES)


def is_noun_of_doing(word: str) -> bool:
    """Return whether a word that ends in `-ing` is listed as a noun of its own in the dictionary.

    >>> is_noun_of_doing("evening"), is_noun_of_doing("dancing")
    (True, False)
    """
    return word.endswith("ing") and word in dictionary(word).get("noun", ())


def irregular_forms(word: str) -> frozenset[str]:
    """Return the other number of an irregular noun (plural of `man`, singular of `mice`); empty for a regular noun.

    >>> sorted(irregular_forms("mice")), sorted(irregular_forms("man")), sorted(irregular_forms("dog"))
    (['mouse'], ['men'], [])
    """
    return _irregular().get(word, frozenset())


def regular_base(word: str) -> str:
    """Remove a likely regular ending from a word, by rule and without the dictionary.

    >>> regular_base("harbors"), regular_base("glass"), regular_base("vlogging"), regular_base("ring")
    ('harbor', 'glass', 'vlog', 'ring')
    """
    singular = _regular(word, "noun")
    return singular if singular != word else _regular(word, "verb")


def _bases(word: str, part: Part) -> frozenset[str]:
    known = dictionary(word)
    return frozenset(known.get(part, ()) if known else {_regular(word, part)})


@lru_cache(maxsize=1)
def _irregular() -> dict[str, frozenset[str]]:
    text = resources.files(__package__).joinpath("irregular_plurals.txt").read_text(encoding="utf-8")
    pairs = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {word: frozenset(pair) - {word} for pair in pairs for word in pair}


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
