"""BM25: a case worked by hand, slow loops of the formula, and what must hold for any words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.language.bm25 import WORD_COUNTS, Bm25Scores, bm25_scores, trigrams

words = st.sampled_from(["bath", "taxi", "hotel", "hostel", "gate", "12", "exit", "the"])
texts = st.lists(words, max_size=6).map(" ".join)
signs = st.lists(texts, max_size=4)
galleries = st.lists(signs, min_size=1, max_size=6)
captions = st.lists(texts, min_size=1, max_size=4)


def named(rows: list[str]) -> dict[str, str]:
    return {f"c{number}": text for number, text in enumerate(rows)}


def clips(rows: list[list[str]]) -> dict[str, list[str]]:
    return {f"v{number}": texts for number, texts in enumerate(rows)}


def table(scores: Bm25Scores) -> np.ndarray:
    return scores.block(slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids)))


def slow(asked: list[list[str]], shown: list[list[str]], k1: float = 1.2, b: float = 0.75) -> np.ndarray:
    """The formula in loops, over lists of terms."""
    mean = sum(map(len, shown)) / len(shown)
    values = np.zeros((len(asked), len(shown)))
    for row, query in enumerate(asked):
        for column, document in enumerate(shown):
            for term in set(query):
                here = document.count(term)
                if here:
                    clips_with = sum(term in other for other in shown)
                    rarity = math.log(1 + (len(shown) - clips_with + 0.5) / (clips_with + 0.5))
                    values[row, column] += rarity * here / (here + k1 * (1 - b + b * len(document) / mean))
    return values


def test_a_case_worked_by_hand() -> None:
    gallery = {"v": ["TAXI", "Taxi 12"], "w": ["Hotel Bath"], "x": []}
    found = table(bm25_scores({"a": "a taxi to the Hôtel", "b": "a red square"}, gallery))
    # 3 clips of 3, 2 and 0 words, 5/3 on average; either word is in one clip: log(1 + 2.5 / 1.5) = 0.980829
    taxi = 0.980829 * 2 / (2 + 1.2 * (0.25 + 0.75 * 9 / 5))  # twice among 3 words: 0.500423
    hotel = 0.980829 * 1 / (1 + 1.2 * (0.25 + 0.75 * 6 / 5))  # 0.412113
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [[taxi, hotel, 0], [0, 0, 0]], rtol=1e-5)
    assert [round(taxi, 4), round(hotel, 4)] == [0.5004, 0.4121]


def test_a_caption_whose_words_are_nowhere_scores_0_with_all_and_is_counted() -> None:
    scores = bm25_scores({"a": "taxi", "b": "a clip of a horse"}, clips([["TAXI"], ["HOTEL"]]))
    assert scores.silent == 1
    assert not table(scores)[1].any()
    assert scores.about.uses == (WORD_COUNTS,)
    nothing = bm25_scores({"a": "taxi"}, clips([[], [""]]))
    assert (nothing.silent, table(nothing).tolist()) == (1, [[0.0, 0.0]])


def test_words_that_say_nothing_are_looked_for_only_where_there_is_no_other() -> None:
    found = table(bm25_scores({"a": "the hotel", "b": "The The"}, clips([["the the the"], ["hotel"]])))
    assert found[0, 0] == 0 < found[0, 1]
    assert found[1, 0] > 0 == found[1, 1]


def test_what_an_apostrophe_leaves_of_a_caption_is_no_rare_word() -> None:
    """Signs with an s of their own are not what a man's dog looks for, whichever apostrophe is typed."""
    gallery = clips([["JOE'S PIZZA"], ["DOG SHOW"], ["DON'T WALK"], ["RE: YOU'LL"]])
    asked = {"a": "a man's dog plays", "b": "a man’s dog doesn't play", "c": "they don't, they'll play a dog"}
    assert (table(bm25_scores(asked, gallery)) > 0).tolist() == [[False, True, False, False]] * 3
    pieces = table(bm25_scores(asked, gallery, by="trigrams"))
    assert (pieces[:, [0, 3]] == 0).all() and (pieces[:, 1] > pieces[:, 2]).all()  # ' do' is a piece of don and of dog
    joe, walk, bare = table(bm25_scores({"a": "Joe's", "b": "a sign says don't walk", "c": "don't"}, gallery))
    assert (joe > 0).tolist() == [True, False, False, False]
    assert (walk > 0).tolist() == (bare > 0).tolist() == [False, False, True, False]


def test_trigrams_find_a_misread_word_that_whole_words_miss() -> None:
    gallery = clips([["HYUNDRI"], ["GATE"]])
    assert not table(bm25_scores({"a": "hyundai"}, gallery)).any()
    found = table(bm25_scores({"a": "hyundai"}, gallery, by="trigrams"))
    assert found[0, 0] > 0 == found[0, 1]
    shared = [" hy", "hyu", "yun", "und"]  # of 7 in both
    read = trigrams("hyundri")
    assert [piece for piece in trigrams("hyundai") if piece in read] == shared
    np.testing.assert_allclose(found, slow([trigrams("hyundai")], [read, trigrams("gate")]), rtol=1e-5)


@given(captions, galleries, st.floats(0, 3), st.floats(0, 1))
def test_it_is_the_formula(asked: list[str], shown: list[list[str]], k1: float, b: float) -> None:
    wanted = [[word for word in text.split() if word != "the"] or text.split() for text in asked]
    documents = [[word for text in texts for word in text.split()] for texts in shown]
    assume(any(documents))
    found = table(bm25_scores(named(asked), clips(shown), k1=k1, b=b))
    np.testing.assert_allclose(found, slow(wanted, documents, k1, b), rtol=1e-5, atol=1e-7)


@given(captions, galleries)
def test_a_trigram_that_two_words_of_a_caption_share_counts_once(asked: list[str], shown: list[list[str]]) -> None:
    wanted = [[word for word in text.split() if word != "the"] or text.split() for text in asked]
    pieces = [[piece for word in text for piece in trigrams(word)] for text in wanted]
    documents = [[piece for text in texts for word in text.split() for piece in trigrams(word)] for texts in shown]
    assume(any(documents))
    found = table(bm25_scores(named(asked), clips(shown), by="trigrams"))
    np.testing.assert_allclose(found, slow(pieces, documents), rtol=1e-5, atol=1e-7)


@given(captions, galleries, st.data())
def test_a_block_is_a_part_of_the_table(asked: list[str], shown: list[list[str]], data: st.DataObject) -> None:
    scores = bm25_scores(named(asked), clips(shown))
    first, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(asked))] * 2)))
    left, right = sorted(data.draw(st.tuples(*[st.integers(0, len(shown))] * 2)))
    block = scores.block(slice(first, stop), slice(left, right))
    assert np.array_equal(block, table(scores)[first:stop, left:right])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"by": "letters"}, "'letters' is not what BM25 can count; it counts words or trigrams."),
        ({"k1": -1.0}, "BM25 is asked for with k1 = -1.0 and b = 0.75; k1 must be at least 0, and b 0 to 1."),
        ({"k1": math.inf}, "k1 = inf"),
        ({"b": 1.5}, "b = 1.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        bm25_scores({"a": "x"}, {"v": ["x"]}, **settings)  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_a_text_in_place_of_signs_is_refused() -> None:
    """Each of its letters would be a sign."""
    with pytest.raises(UsageError, match="The signs of the clip 'v' are the text 'bus stop'; give a list of texts"):
        bm25_scores({"a": "bus"}, {"w": ["bus"], "v": "bus stop"})


def test_words_of_a_script_without_spaces_are_found_by_trigrams() -> None:
    gallery = clips([["公交车站"], ["医院"]])
    assert not table(bm25_scores({"a": "一个人在公交车站等车"}, gallery)).any()
    assert (table(bm25_scores({"a": "一个人在公交车站等车"}, gallery, by="trigrams")) > 0).tolist() == [[True, False]]
