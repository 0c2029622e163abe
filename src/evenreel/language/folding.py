"""Words for comparing: without case, width and accents; their base forms, and parts of speech of a dictionary.

The tables of base forms are those of LemmInflect (drawn from the NIH's SPECIALIST lexicon); its model for unknown words
is a pickle and stays unread: the regular endings are taken off instead.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import Literal

from evenreel.language.synonyms import packaged_lines

_SHORTENED = re.compile(r"\w+n['’ʼ]t\b|['’ʼ](?:s|d|m|ll|re|ve)\b", re.IGNORECASE)
"""English that an apostrophe shortens: 'not' with the verb before it, and the ends of 'man's' and 'they'll'."""

_ASCII_WORD = re.compile("[a-z0-9]+")


FOLDING = "2"  # of the rule below: the words of a library that were folded by another one are folded anew
_LETTERS = str.maketrans(
    {"æ": "ae", "œ": "oe", "þ": "th", "\u0640": None}  # the last one is a stroke that only widens Arabic words
    | dict(zip("øłđðħŧıŋٱىيكةەہھ", "olddhtinاییکهههه", strict=True))
    | dict(zip("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹", "0123456789" * 2, strict=True))
    | {chr(code): chr(code - 0x60) for code in (*range(0x30A1, 0x30F7), 0x30FD, 0x30FE)}  # katakana
)
# Accents of Latin, Greek and Cyrillic, and the vowel signs that Arabic and Persian may leave out; those of other
# scripts are combining marks too, and belong to the word.
_MARKS = re.compile(
    r"[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)


def fold(text: str) -> str:
    """Return a text for comparing: in lower case and normal width, without accents, each letter in one form.

    Letters with a stroke and ligatures are as people type them without (ø o, æ ae, ß ss), Arabic letters and digits
    those of Persian, katakana is hiragana.

    Example:
        >>> fold("Ｃａｆé ΆΣ Łódź"), fold("كِتاب"), fold("ｶﾒﾗ")
        ('cafe ασ lodz', 'کتاب', 'かめら')
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text.casefold()).casefold())
    # Nobody sees a soft hyphen, or a mark of direction, and they keep no words apart.
    seen = "".join(one for one in plain if unicodedata.category(one) != "Cf" or one in "\u200b\u200c\u200d")
    return unicodedata.normalize("NFKC", _MARKS.sub("", seen).translate(_LETTERS))


def words(text: str) -> list[str]:
    """Return the words of a text, in order, folded: in lower case and without accents.

    Example:
        >>> words("JAPAN - Netherlands_2:0")
        ['japan', 'netherlands', '2', '0']
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    inside = (one if one.isalnum() or unicodedata.category(one)[0] == "M" else " " for one in fold(text))
    return [run for run in "".join(inside).split() if any(letter.isalnum() for letter in run)]


def content_words(text: str) -> list[str]:
    """Return the different words of a query without stop words; all its words where nothing else is left.

    Example:
        >>> content_words("a clip of the Red red bus"), content_words("The Who")
        (['red', 'bus'], ['the', 'who'])
        >>> content_words("the man's dog doesn't bark"), content_words("Gate D")
        (['man', 'dog', 'bark'], ['gate', 'd'])
    """
    # What is left of a word beside its apostrophe would be a rare word on signs, and weigh the more.
    kept = [word for word in words(_SHORTENED.sub(" ", text)) if word not in stop_words()]
    return list(dict.fromkeys(kept or words(text)))


@cache
def stop_words() -> frozenset[str]:
    """Return the English words that are ignored in a search of on-screen text."""
    return frozenset(word for row in _rows("stop_words.txt") for word in row)


def _rows(name: str) -> list[list[str]]:
    return [line.split() for line in packaged_lines(name)]


# Base forms ----------------------------------------------------------------------------------------------------------

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
    return {word: frozenset(pair) - {word} for pair in _rows("irregular_plurals.txt") for word in pair}


@lru_cache(maxsize=1)
def _overrides() -> dict[tuple[str, str], str]:
    return {(part, word): lemma for part, word, lemma in _rows("lemmas.txt")}


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
