"""Folding: letters that people type for one another, by hand, and what must hold for any text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.language.folding import fold, words


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("ŁÓDŹ Øresund Ærø Straße", "lodz oresund aero strasse"),
        ("Đà Nẵng, Þór, Œuvre, Ħamrun, Ŋ", "da nang thor oeuvre hamrun n"),
        ("İSTANBUL ışık Iğdır", "istanbul isik igdir"),
        ("كتاب يزدي على", "کتاب یزدی علی"),
        ("أحمد إبراهيم آب ٱلله", "احمد ابراهیم اب الله"),
        ("مُحَمَّد محـــمد", "محمد محمد"),
        ("مدرسة ٢٠٢٦", "مدرسه ۲۰۲۶"),
        ("ﻛﺘﺎﺏ", "کتاب"),  # presentation forms, as PDF files and old subtitles have them
        ("ＡＢＣ１２３", "abc123"),
        ("ﾌﾙｰﾂ ｶﾞｷﾞﾊﾟ", "フルーツ がぎぱ"),
        ("カメラ ヴ ヶ", "かめら ゔ ゖ"),
    ],
)
def test_what_is_written_is_found_as_it_is_typed(written: str, typed: str) -> None:
    assert words(written) == words(typed) == fold(typed).split()


def test_what_tells_words_apart_stays() -> None:
    for one, other in (("かき", "がき"), ("びる", "びーる"), ("कि", "की"), ("ב", "כ"), ("ب", "پ"), ("й", "l")):
        assert fold(one) != fold(other)
    assert words("می‌خواهم") == ["می", "خواهم"]


# Scripts that people search in, and those letters that fold by a rule of their own.
letters = st.one_of(
    st.characters(min_codepoint=0x20, max_codepoint=0x24F),
    st.characters(min_codepoint=0x600, max_codepoint=0x6FF),
    st.characters(min_codepoint=0x3040, max_codepoint=0x30FF),
    st.characters(min_codepoint=0xFB50, max_codepoint=0xFFEF, exclude_categories=["Cs"]),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.text(letters, max_size=12)


@given(text=texts)
def test_a_folded_text_stays_as_it_is(text: str) -> None:
    """And so the words that are stored are those that a query looks up."""
    assert fold(fold(text)) == fold(text)
    assert words(" ".join(words(text))) == words(text)


@given(text=texts)
def test_texts_in_any_normal_form_fold_alike(text: str) -> None:
    assert fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text)) == fold(text)
    assert fold(unicodedata.normalize("NFKD", text)) == fold(unicodedata.normalize("NFKC", text)) == fold(text)


@given(text=texts)
def test_nothing_that_was_a_word_folds_to_nothing(text: str) -> None:
    stroke = "\u0640"  # tatweel, alone or below a vowel sign, is no letter
    letters = [one for one in text if one.isalnum() and stroke not in unicodedata.normalize("NFKD", one)]
    assert bool(words("".join(letters))) == bool(letters)
    assert words(text) or not letters
