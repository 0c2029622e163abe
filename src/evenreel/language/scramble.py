"""Scrambled text: random letters in place of a text, to be looked at, and random syllables, to be said."""

from __future__ import annotations

import numpy as np

CONSONANTS = "bcdfghjklmnpqrstvwxz"
"""Of these alone there are no words; y sounds as a vowel now and then, so it is left out."""

VOWELS = "aeiou"
DIGITS = "0123456789"


def scrambled(text: str, random: np.random.Generator) -> str:
    """Replace each letter by another random consonant, and each digit by another digit; capitals stay capitals.

    >>> scrambled("Gate 7, left", np.random.default_rng(0))
    'Wqmh 2, bcbf'
    """
    return "".join(_other(letter, CONSONANTS, random) for letter in text)


def babbled(text: str, random: np.random.Generator) -> str:
    """Replace each vowel by another vowel, each other letter by another consonant, and each digit by another digit.

    What comes out can be said in about the same time and says nothing.

    >>> babbled("Gate 7, left", np.random.default_rng(0))
    'Womi 2, babf'
    """
    kinds = (VOWELS if letter.lower() in VOWELS else CONSONANTS for letter in text)
    return "".join(_other(letter, kind, random) for letter, kind in zip(text, kinds, strict=True))


def _other(letter: str, letters: str, random: np.random.Generator) -> str:
    if not letter.isalnum():
        return letter
    others = (DIGITS if letter.isdecimal() else letters).replace(letter.lower(), "")
    drawn = others[int(random.integers(len(others)))]
    return drawn.upper() if letter.isupper() else drawn
