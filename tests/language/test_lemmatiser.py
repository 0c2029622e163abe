"""Base forms, checked by hand, by the annotations of EPIC-KITCHENS-100, and without reading a pickle."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import polars as pl
import pytest

from evenreel.language.folding import dictionary, lemma_of
from evenreel.language.synonyms import caption_synonyms

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
