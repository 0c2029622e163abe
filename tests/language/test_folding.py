"""Words for comparing: folded, and their base forms, by hand and of any word."""

from __future__ import annotations

import ast
import pickle
import unicodedata
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.language.folding import dictionary, fold, lemma_of, words
from evenreel.language.synonyms import caption_synonyms


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


VERBS = """be is are was were be been being am 's|have has having had have|run runs running ran run|cut cut cuts cutting
put put puts putting|lie lies lying|slice slicing sliced slices|fry frying fried fries|fall fell falling|sit sat sitting
leave left leaves leaving|vlog vlogging vlogged vlogs"""
NOUNS = """children child|knives knife|men man|women woman|people people|glasses glass|leaves leaf|potatoes potato
dishes dish|mice mouse|bus bus|grass grass|lens lens|clothes clothes|pants pants|scissors scissors|news news
seasoning seasoning|pepperoni pepperoni|selfies selfie|kimchis kimchi|Ladies lady"""


def rows(table: str) -> list[list[str]]:
    return [row.split() for row in table.replace("\n", "|").split("|")]


@pytest.mark.parametrize(("lemma", "words"), [(lemma, words) for lemma, *words in rows(VERBS)])
def test_verbs(lemma: str, words: list[str]) -> None:
    assert {lemma_of(word, "verb") for word in words} == {lemma}


@pytest.mark.parametrize(("word", "lemma"), rows(NOUNS))
def test_nouns(word: str, lemma: str) -> None:
    assert lemma_of(word, "noun") == lemma


def test_other_parts() -> None:
    assert lemma_of("bigger", "adjective") == "big"
    assert lemma_of("The", None) == "the"
    assert set(dictionary("plates")) == {"noun", "verb"}
    assert dictionary("zzxq") == {}


def test_a_lemma_is_its_own_lemma() -> None:
    """Also every word of the synonyms, which are looked up by lemma."""
    for verb in caption_synonyms().verbs:
        assert lemma_of(verb.split()[0], "verb") == verb.split()[0]
    for noun in caption_synonyms().nouns:
        assert lemma_of(noun.split()[-1], "noun") == noun.split()[-1]


def test_no_pickle_is_read_for_unknown_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was read")

    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    for part in ("noun", "verb", "adjective", "adverb"):
        assert lemma_of("qwertzing", part)
    assert lemma_of("unboxxing", "verb") == "unbox"


def test_inflected_words_of_real_narrations(shared_data: Path) -> None:
    """Annotated nouns and verbs that the narration has only in another form are found by their lemma."""
    rows = pl.read_csv(shared_data / "epic_kitchens_100" / "EPIC_100_retrieval_train_sentence.csv")
    nouns, verbs = [], []
    for text, verb, listed in rows.select("narration", "verb", "nouns").iter_rows():
        words = text.lower().split()
        heads = [one.split(":")[0] for one in ast.literal_eval(listed)]
        nouns += [head in {lemma_of(word, "noun") for word in words} for head in heads if head not in words]
        main = verb.split("-")[0]
        if main not in words:
            verbs.append(main in {lemma_of(word, "verb") for word in words})
    assert len(nouns) == 2570
    assert len(verbs) == 800
    assert sum(nouns) / len(nouns) > 0.875  # the rest are mostly spellings and words that are not there
    assert sum(verbs) / len(verbs) > 0.93
