"""Letters that say nothing: as many, of the same kind, and none of them the one that was there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenreel.language.wording import VOWELS, babbled, scrambled

seeds = st.integers(0, 99)


@given(st.text(max_size=30), seeds)
def test_every_letter_and_digit_becomes_another_one_and_a_vowel_that_is_to_be_said_a_vowel(
    text: str, seed: int
) -> None:
    for change in (scrambled, babbled):
        other = change(text, np.random.default_rng(seed))
        assert len(other) == len(text)
        for before, after in zip(text, other, strict=True):
            assert (before == after) != before.isalnum()
            assert before.isdecimal() == after.isdecimal() and before.isupper() == after.isupper()
            assert change is scrambled or (before.lower() in VOWELS) == (after.lower() in VOWELS)


def test_a_single_digit_becomes_each_of_the_others_as_often() -> None:
    random = np.random.default_rng(0)
    drawn = [scrambled("7", random) for _ in range(900)]
    assert set(drawn) == set("012345689")
    assert max(drawn.count(one) for one in set(drawn)) < 150
