"""Captions as numbers: which words, in which order, and where they end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenreel.matchers.bima import BEGIN, END, SPECIAL, UNKNOWN, CaptionWords, vocabulary_of, words_in


def test_the_vocabulary_is_that_of_the_captions_by_frequency() -> None:
    captions = ["A dog runs.", "a cat, a dog", "Runs"]
    assert vocabulary_of(captions, most=9) == ("a", "dog", "runs", ",", ".", "cat")
    assert vocabulary_of(captions, most=9, least=2) == ("a", "dog", "runs")
    assert vocabulary_of(captions, most=2) == ("a", "dog")
    assert vocabulary_of([], most=2) == ()


def test_captions_begin_and_end() -> None:
    words = CaptionWords(("a", "dog"))
    written = words.written(["A DOG", "", "a red dog!"], most=9)
    a, dog = SPECIAL, SPECIAL + 1
    assert written.words[0][written.mask[0]].tolist() == [a, dog, END]
    assert written.before[0][written.mask[0]].tolist() == [BEGIN, a, dog]
    assert written.words[1][written.mask[1]].tolist() == [END]
    assert written.words[2][written.mask[2]].tolist() == [a, UNKNOWN, dog, UNKNOWN, END]
    assert len(words) == SPECIAL + 2


@given(st.lists(st.text("ab c.", max_size=12), min_size=1, max_size=4), st.integers(1, 8))
def test_what_is_written_is_the_caption(captions: list[str], most: int) -> None:
    """What follows each word is the next; a caption that is cut does not end."""
    vocabulary = vocabulary_of(captions, most=99)
    written = CaptionWords(vocabulary).written(captions, most)
    assert written.words.shape[1] <= most
    for row, caption in enumerate(captions):
        whole = [*(SPECIAL + vocabulary.index(word) for word in words_in(caption)), END]
        after, before = (tensor[row][written.mask[row]].tolist() for tensor in (written.words, written.before))
        assert after == whole[:most]
        assert before == [BEGIN, *whole][: len(after)]
