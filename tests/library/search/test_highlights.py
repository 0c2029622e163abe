"""The words that a clip was found by are marked where they stand, and nothing else is."""

from __future__ import annotations

import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenreel.language.folding import fold, words
from evenreel.library.search.query import content_words
from evenreel.library.search.words import marks
from evenreel.library.store.fulltext import rebuild_full_text
from tests.library.fakes import Library, word_hits

letters = st.characters(exclude_categories=("Cs",))
texts = st.text(letters, max_size=40) | st.text("aAbeéÉßﬁ\u0301\u3099ｶ가각 -_1²東京", max_size=30)


def marked(text: str, matched: list[str], found: list[str]) -> list[str]:
    return [text[start:end] for start, end in marks(text, matched, found)]


@pytest.mark.parametrize(
    ("text", "matched", "found", "expected"),
    [
        ("Japan - NETHERLANDS 2:0", "japan netherlands", "japan netherlands", ["Japan", "NETHERLANDS"]),
        ("JAPANNETHERLANDS", "japan netherlands", "japannetherlands", ["JAPANNETHERLANDS"]),
        ("JAPANNETHERLAMDS", "japan netherlands", "japannetherlamds", ["JAPANNETHERLAMDS"]),  # joined and misread
        ("JAPANNETHERLANDS", "japan", "japannetherlands", ["JAPAN"]),
        ("HYUNDRI HYUNG", "hyundai", "hyundri", ["HYUNDRI"]),
        ("the news at newsstands", "news", "news newsstands", ["news", "news"]),
        ("bus busses", "bus", "bus", ["bus"]),
        ("trains", "train", "trains", ["train"]),  # what is asked for, not what is found
        ("TRAIN", "trains", "train", ["TRAIN"]),
        ("tramtramway", "tram", "tramtramway", ["tramtram"]),
        ("Crème BRÛLÉE", "creme brulee", "creme brulee", ["Crème", "BRÛLÉE"]),
        ("cre\u0300me!", "creme", "creme", ["cre\u0300me"]),
        ("Straßenbahnhof", "strassenbahn", "strassenbahnhof", ["Straßenbahn"]),
        ("Straßenbahnhof", "stras", "strassenbahnhof", ["Straß"]),  # half a letter is marked as one
        ("ＴＲＡＭ　９", "tram", "tram", ["ＴＲＡＭ"]),
        ("東京駅まで", "東京", "東京駅まで", ["東京"]),
        ("가나다라", "나다", "가나다라", ["나다"]),
        ("🚋 tram 🚋", "tram", "tram", ["tram"]),
        ("<b>tram</b>", "tram", "tram", ["tram"]),
        ("tram", "", "", []),
        ("tram", "tram", "", []),  # it was found by another reading
        ("", "tram", "tram", []),
        ("--- ...", "tram", "tram", []),
    ],
)
def test_what_is_marked(text: str, matched: str, found: str, expected: list[str]) -> None:
    assert marked(text, matched.split(), found.split()) == expected


@pytest.mark.parametrize("text", ["WINTER CUP", "Winter - CUP!", "the winter cup 24"])
def test_a_pair_that_stands_for_a_word_is_marked_with_what_is_between(text: str) -> None:
    (found,) = marked(text, ["wintercup"], ["winter cup"])
    assert words(found) == ["winter", "cup"]
    assert marked(f"{text} winter", ["wintercup"], ["winter cup"]) == [found]


foldeds = st.lists(texts.map(fold).filter(bool), max_size=4, unique=True)


@given(text=texts, matched=foldeds, found=foldeds)
def test_stretches_lie_in_the_text_apart_and_in_order(text: str, matched: list[str], found: list[str]) -> None:
    places = [place for stretch in marks(text, matched, [*found, *words(text)]) for place in stretch]
    assert places == sorted(set(places))
    assert not places or (places[0] >= 0 and places[-1] <= len(text))


@given(text=texts)
def test_every_word_of_a_text_is_marked_where_all_are_asked_for(text: str) -> None:
    found = marks(text, words(text), words(text))
    rest = list(text)
    for start, end in found:
        rest[start:end] = " " * (end - start)
    assert words("".join(rest)) == []


@given(before=texts, word=st.text("abcdefgéü", min_size=1, max_size=8), after=texts)
def test_an_exact_word_is_always_marked(before: str, word: str, after: str) -> None:
    text = f"{before} {word} {after}"
    start = len(before) + 1
    assert any(first <= start and start + len(word) <= last for first, last in marks(text, [fold(word)], words(word)))


@given(text=st.text("abc àß", max_size=30), word=st.text("xyz", min_size=1, max_size=8))
def test_nothing_is_marked_that_was_not_found(text: str, word: str) -> None:
    assert marks(text, [word, *words(text)], [word]) == ()


@given(text=texts, word=st.text("abcdeßé", min_size=4, max_size=6))
def test_offsets_count_code_points_of_the_text_as_it_is(text: str, word: str) -> None:
    """A text in another normal form has its marks elsewhere, on the same words."""
    assume(fold(word).isalpha())
    whole = f"{word}x {text}"
    for form in ("NFC", "NFD"):
        same = unicodedata.normalize(form, whole)
        first = marked(same, [fold(word)], words(same))[0]
        assert fold(first).startswith(fold(word))


@given(
    signs=st.lists(
        st.lists(
            st.sampled_from(
                ["Japan", "NETHERLANDS", "japannetherlands", "HYUNDRI", "hyundai-cup", "gold", "go", "東京駅"]
            ),
            max_size=4,
        ).map(" ".join),
        min_size=1,
        max_size=4,
    ),
    query=st.lists(
        st.sampled_from(["japan", "netherlands", "hyundai", "gold", "東京", "cup", "japam"]),
        min_size=1,
        max_size=3,
        unique=True,
    ).map(" ".join),
)
def test_marks_are_there_wherever_the_index_finds_the_text(signs: list[str], query: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder))
    for number, sign in enumerate(signs):
        library.add_clip(str(number))
        library.add_track(str(number), sign)
    rebuild_full_text(library.connection)
    found = {hit.clip_id: hit.hits[0] for hit in word_hits(library.connection, "on_screen", query)}
    for number, sign in enumerate(signs):
        hit = found.get(str(number))
        assert hit is None or marks(sign, hit.matched, hit.found)
        exact = set(content_words(query)) & set(words(sign))
        assert hit is not None or not exact
