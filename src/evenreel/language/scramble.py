"""Scrambled text: random letters in place of a text, which look like writing and cannot be read."""

from __future__ import annotations

import numpy as np

CONSONANTS = "bcdfghjklmnpqrstvwxz"
"""Of these alone there are no words; y sounds as a vowel now and then, so it is left out."""

DIGITS = "0123456789"


def scrambled(text: str, random: np.random.Generator) -> str:
    """Replace each letter by another random consonant, and each digit by another digit; capitals stay capitals.

    >>> scrambled("Gate 7, left", np.random.default_rng(0))
    'Wqmh 2, bcbf'
    """
    return "".join(_other(letter, random) for letter in text)


def _other(letter: str, random: np.random.Generator) -> str:
    if not letter.isalnum():
        return letter
    others = (DIGITS if letter.isdecimal() else CONSONANTS).replace(letter.lower(), "")
    drawn = others[int(random.integers(len(others)))]
    return drawn.upper() if letter.isupper() else drawn
