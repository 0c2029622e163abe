"""Folding of words for search in on-screen text: without case, width and accents."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib import resources
from itertools import groupby

_SHORTENED = re.compile(r"\w+n['’ʼ]t\b|['’ʼ](?:s|d|m|ll|re|ve)\b", re.IGNORECASE)
"""English that an apostrophe shortens: 'not' with the verb before it, and the ends of 'man's' and 'they'll'."""

_ASCII_WORD = re.compile("[a-z0-9]+")


def fold(text: str) -> str:
    """Return a text in lower case, normal width and without Latin, Greek or Cyrillic accents, for comparing.

    Example:
        >>> fold("Ｃａｆé ΆΣ")
        'cafe ασ'
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text.casefold()).casefold())
    # Accents only: the vowel signs of other scripts are combining marks too, and belong to the word.
    kept = "".join(letter for letter in plain if not ("\u0300" <= letter <= "\u036f" or _is_unseen(letter)))
    return unicodedata.normalize("NFKC", kept.replace("ı", "i"))


def words(text: str) -> list[str]:
    """Return the words of a text, in order, folded: in lower case and without accents.

    Example:
        >>> words("JAPAN - Netherlands_2:0")
        ['japan', 'netherlands', '2', '0']
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    runs = ("".join(run) for inside, run in groupby(fold(text), _in_word) if inside)
    return [run for run in runs if any(letter.isalnum() for letter in run)]


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
    text = resources.files("evenreel.language").joinpath("stop_words.txt").read_text(encoding="utf-8")
    return frozenset(word for line in text.splitlines() if not line.startswith("#") for word in line.split())


def _is_unseen(letter: str) -> bool:
    """Whether nobody sees a letter, such as a soft hyphen or a mark of direction, and it keeps no words apart."""
    return unicodedata.category(letter) == "Cf" and letter not in "\u200b\u200c\u200d"


def _in_word(letter: str) -> bool:
    return letter.isalnum() or unicodedata.category(letter)[0] == "M"
