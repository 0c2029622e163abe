"""Classes by hand, clip classes against slow loops, and both against the annotations of EPIC-KITCHENS-100."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.language import relevance
from evenreel.errors import UsageError
from evenreel.language import (
    NO_SYNONYMS,
    ClassRules,
    Synonyms,
    VerbNounClasses,
    annotate,
    caption_synonyms,
    classes_of,
    clip_classes,
)
from evenreel.language.taggers import PatternTagger

TAGGER = PatternTagger()


def named(captions: list[str], rules: ClassRules | None = None) -> list[tuple[set[str], set[str]]]:
    found = classes_of(TAGGER.tag(captions), rules)
    return [
        ({found.verb_names[number] for number in verbs}, {found.noun_names[number] for number in nouns})
        for verbs, nouns in zip(found.verbs, found.nouns, strict=True)
    ]


def test_synonyms_are_one_class_and_stop_words_none() -> None:
    captions = ["a man is slicing potatoes", "chop potato", "a guy has something", "cut tomato sauce"]
    assert named(captions) == [
        ({"cut"}, {"man", "potato"}),
        ({"cut"}, {"potato"}),
        (set(), {"man"}),
        ({"cut"}, {"sauce"}),
    ]


@pytest.mark.parametrize("heads_only", [True, False])
def test_an_amount_is_no_class_before_what_it_is_of(heads_only: bool) -> None:
    rules = ClassRules(heads_only=heads_only)
    captions = ["a piece of wood", "two pairs of scissors", "a number of ferrets", "a couple of dogs", "a couple"]
    assert [nouns for _, nouns in named(captions, rules)] == [{"wood"}, {"scissors"}, {"ferret"}, {"dog"}, {"couple"}]
    assert [nouns for _, nouns in named(["a group of men", "a cup of tea"], rules)] == [
        {"group", "man"},
        {"cup", "tea"},
    ]


def test_lemmas_alone_and_every_noun() -> None:
    rules = ClassRules(synonyms=NO_SYNONYMS, stop_verbs=frozenset(), stop_nouns=frozenset(), heads_only=False)
    assert named(["a man is slicing tomato sauce"], rules) == [({"be", "slice"}, {"man", "tomato", "sauce"})]


@pytest.mark.parametrize(
    "caption", ["turn on tap", "turn the tap on", "switch on the tap", "she turns on a tap", "turn tap on and go"]
)
def test_a_particle_belongs_to_its_verb(caption: str) -> None:
    [(verbs, nouns)] = named([caption])
    assert "turn on" in verbs
    assert nouns == {"tap"}
    assert "turn off" in named([caption.replace(" on", " off")])[0][0]


def test_an_unknown_particle_leaves_the_verb() -> None:
    assert named(["he walks on a road", "put the cup on the table"]) == [
        ({"walk"}, {"road"}),
        ({"put"}, {"cup", "table"}),
    ]


def test_own_synonyms_come_first() -> None:
    own = caption_synonyms().updated(Synonyms({"chop": "chop"}, {"olive oil": "olive oil"}))
    assert named(["chop onion", "pour olive oil"], ClassRules(synonyms=own)) == [
        ({"chop"}, {"onion"}),
        ({"pour"}, {"olive oil"}),
    ]


def test_numbers_go_by_frequency_then_by_name() -> None:
    found = classes_of(TAGGER.tag(["take cup", "take pan", "open door", "take bag"]))
    assert found.verb_names == ("take", "open")
    assert found.noun_names == ("bag", "cup", "door", "pan")
    assert found.verbs == [[0], [0], [1], [0]]


def test_rare_classes_are_dropped() -> None:
    found = classes_of(TAGGER.tag(["take cup", "take pan", "open cup"]), ClassRules(min_captions=2))
    assert (found.verb_names, found.noun_names) == (("take",), ("cup",))
    assert (found.verbs, found.nouns) == ([[0], [0], []], [[0], [], [0]])
    with pytest.raises(UsageError, match="min_captions is 0; it must be 1 or more"):
        classes_of([], ClassRules(min_captions=0))


def test_no_captions_have_no_classes() -> None:
    assert classes_of([]) == VerbNounClasses((), (), [], [])
    assert classes_of(TAGGER.tag([""])) == VerbNounClasses((), (), [[]], [[]])


BUSY = settings(suppress_health_check=[HealthCheck.too_slow])  # other work may take the machine
SETS = st.lists(st.integers(0, 4), max_size=4, unique=True).map(sorted)


@BUSY
@given(
    st.lists(st.tuples(st.sampled_from("abc"), SETS, SETS), max_size=12), st.sampled_from([0.25, 0.3, 0.5, 2 / 3, 1])
)
def test_clip_classes_agree_with_slow_loops(rows: list[tuple[str, list[int], list[int]]], share: float) -> None:
    captions = VerbNounClasses(tuple("vwxyz"), tuple("VWXYZ"), [row[1] for row in rows], [row[2] for row in rows])
    found = clip_classes(captions, [row[0] for row in rows], share)
    assert found.clip_ids == list(dict.fromkeys(row[0] for row in rows))
    for kind, of_clips in ((1, found.verbs), (2, found.nouns)):
        for clip, numbers in zip(found.clip_ids, of_clips, strict=True):
            own = [row[kind] for row in rows if row[0] == clip]
            assert numbers == [n for n in range(5) if sum(n in one for one in own) >= share * len(own)]


def test_a_quarter_of_the_captions_is_enough() -> None:
    rows = [("a", "cut tomato"), ("a", "take plate"), ("a", "take cup"), ("a", "take pan"), ("b", "cut tomato")]
    captions, clips = annotate(rows, TAGGER)
    assert clips.clip_ids == ["a", "b"]
    assert [[captions.verb_names[n] for n in one] for one in clips.verbs] == [["take", "cut"], ["cut"]]
    _, strict = annotate(rows, TAGGER, share=0.5)
    assert [[captions.verb_names[n] for n in one] for one in strict.verbs] == [["take"], ["cut"]]
    assert strict.nouns[0] == []


@pytest.mark.parametrize("share", [0, -1, 1.01, float("nan")])
def test_a_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(UsageError, match="it must be more than 0 and at most 1"):
        clip_classes(VerbNounClasses((), (), [], []), [], share)


def test_every_caption_needs_its_clip() -> None:
    with pytest.raises(UsageError, match="There are 1 clip ids for 2 captions"):
        clip_classes(VerbNounClasses((), (), [[], []], [[], []]), ["a"])


def test_relevance_agrees_with_that_of_the_annotated_classes(shared_data: Path) -> None:
    rows = pl.read_csv(shared_data / "epic_kitchens_100" / "EPIC_100_retrieval_test.csv")
    rows = rows.unique("narration", maintain_order=True).sample(1500, seed=0)
    theirs = relevance(
        [[one] for one in rows["verb_class"]], [ast.literal_eval(one) for one in rows["all_noun_classes"]]
    )
    tagged = TAGGER.tag(rows["narration"].to_list())
    agreement = {}
    for name, rules in {"lemmas": ClassRules(synonyms=NO_SYNONYMS), "groups": ClassRules()}.items():
        ours = classes_of(tagged, rules)
        agreement[name] = np.corrcoef(theirs, relevance(ours.verbs, ours.nouns))[0, 1]
    assert agreement["groups"] > 0.74
    assert agreement["groups"] > agreement["lemmas"] + 0.15
