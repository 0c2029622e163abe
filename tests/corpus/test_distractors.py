"""Who lends words to whom: never to itself, never what does not fit, and all about as often."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus.counterparts import assign_distractors
from evenreel.errors import CorpusError


@given(carriers=st.integers(2, 30), distractors=st.integers(2, 30), seed=st.integers(0, 100))
def test_nobody_borrows_from_itself_and_all_lend_about_as_often(carriers: int, distractors: int, seed: int) -> None:
    ids = [f"v{number}" for number in range(max(carriers, distractors))]
    dealt = assign_distractors(ids[:carriers], ids[:distractors], str.__ne__, np.random.default_rng(seed))
    assert [*dealt] == ids[:carriers]
    assert all(carrier != distractor for carrier, distractor in dealt.items())
    counts = Counter(dealt.values())
    often = [counts[one] for one in ids[:distractors]]
    assert max(often) - min(often) <= 2, "one exchange that cannot be made costs one distractor a turn"
    assert set(dealt.values()) <= set(ids[:distractors])


@given(words=st.lists(st.sampled_from("abcd"), min_size=2, max_size=20), seed=st.integers(0, 100))
def test_only_words_that_fit_are_lent(words: list[str], seed: int) -> None:
    """By hand: a clip can borrow where another word than its own is there, so all can but where all have one word."""
    ids = [f"{word}{number}" for number, word in enumerate(words)]

    def fits(one: str, other: str) -> bool:
        return one[0] != other[0]

    if len(set(words)) < 2:
        with pytest.raises(CorpusError, match=f"could be put onto the clip '{ids[0]}'"):
            assign_distractors(ids, ids, fits, np.random.default_rng(seed))
        return
    dealt = assign_distractors(ids, ids, fits, np.random.default_rng(seed))
    assert all(fits(*pair) for pair in dealt.items())


def test_the_same_seed_lends_the_same_and_nobody_to_lend_is_a_sentence() -> None:
    ids = [f"v{number}" for number in range(40)]
    first, again, other = (assign_distractors(ids, ids, str.__ne__, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert first == again != other
    with pytest.raises(CorpusError, match="Give a corpus of more clips, or of more words"):
        assign_distractors(ids, [], str.__ne__, np.random.default_rng(0))
