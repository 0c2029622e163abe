from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel import open_library
from evenreel.errors import NotFoundError, UsageError
from evenreel.library import Mark, Marked, UnfinishedText, Without
from evenreel.library.people import asked_people, forget_everyone, forget_person, list_people, merge_people, name_person
from evenreel.library.search.asking import read_question
from evenreel.library.search.query import ClipMoment, PlainText
from evenreel.library.search.result import SearchResult
from evenreel.library.store.catalog import library_lock
from tests.library.people.conftest import who

ADA, BOB, BOTH, NOBODY = {"ada_0", "ada_1", "ada_2", "both"}, {"bob_0", "bob_1", "both"}, {"both"}, {"nobody"}


def found(result: SearchResult) -> set[str]:
    return {Path(hit.path).stem for hit in result.hits}


def search(library: Path, text: str, where: str | None = None) -> SearchResult:
    with open_library(library) as opened:
        return opened.search(text, 10, where)


def test_clips_are_those_that_everybody_named_is_in(made: Path) -> None:
    for text, clips in (
        ('person:"Ada King"', ADA),
        ("person:king", ADA),
        ('PERSON: bob person:"ada king"', BOTH),
        ('a red square person:"Ada King"', ADA),
        ('person:bob "both"', BOTH),
        ("person:bob, a red square", BOB),
        ("person:bob a red square without a dog", BOB),
    ):
        assert found(search(made / "library", text)) == clips, text


def test_people_are_asked_for_in_questions_of_more_than_one_thing(made: Path) -> None:
    with open_library(made / "library") as opened:
        either = found(opened.search("a square, then a square"))
        assert either - BOB  # others answer it too, so that the name has something to leave out
        for asked in ("person:bob a square, then a square", "a square, then person:bob a square"):
            assert found(opened.search(asked)) == either & BOB
            assert found(opened.search(read_question(asked))) == either & BOB
        read = read_question("person:bob a square without a dog")
        assert isinstance(read, Without) and found(opened.search(read)) == BOB
        one = next(hit for hit in opened.search("person:bob").hits)
        assert found(opened.search(Marked("person:bob", (Mark(ClipMoment(one.clip_id, None), right=True),)))) == BOB
        with pytest.raises(UsageError, match="people != 'Ada'"):
            opened.search("a square without person:bob")
        with pytest.raises(UsageError, match="Nothing stands before 'then'"):
            opened.search("person:bob, then a square")
        assert found(opened.search(PlainText("a person: tall square"))) == ADA | BOB | NOBODY


def test_a_search_for_a_person_alone_lists_clips_by_faces_with_the_moments_of_these(made: Path) -> None:
    result = search(made / "library", "person:bob", "name != 'bob_1.mp4'")
    assert [Path(hit.path).stem for hit in result.hits] == ["bob_0", "both"]
    assert [[(one.start_s, one.end_s) for one in hit.moments] for hit in result.hits] == [[(0.0, 2.0)], [(0.0, 0.0)]]
    assert result.answering == len(result.hits)
    with open_library(made / "library", vision=False) as opened:
        assert len(opened.search("person:bob", 1).hits) == 1
        with pytest.raises(UsageError, match="The number of results is 0"):
            opened.search("person:bob", 0)


def test_people_are_a_column_of_filters_that_has_no_order(made: Path) -> None:
    with open_library(made / "library", vision=False) as opened:
        for where, clips in (
            ("people = 'Bob'", BOB),
            ("people != 'Bob'", (ADA | NOBODY) - BOTH),
            ("people is null", NOBODY),
            ("people is not null", ADA | BOB),
            ("people in ('Bob', 'Ada King')", ADA | BOB),
            ("people not in ('Bob')", (ADA | NOBODY) - BOTH),
            ("people like 'ada%'", ADA),
            ("people = 'Bob' and people = 'Ada King'", BOTH),
            ("people = 'Zoe'", set()),
            ("people = 'Bob' or name = 'nobody.mp4'", BOB | NOBODY),
        ):
            assert {Path(clip.path).stem for clip in opened.browse(where).clips} == clips, where
        for where in ("people > 'A'", "people between 'A' and 'B'"):
            with pytest.raises(UsageError, match="several people, which have no order"):
                opened.browse(where)


def test_the_facet_counts_the_clips_of_each_name(made: Path) -> None:
    with open_library(made / "library", vision=False) as opened:
        (facet,) = [one for one in opened.facets() if one.column == "people"]
    assert [(one.value, one.clips) for one in facet.values] == [("Ada King", 4), ("Bob", 3)]


def test_an_open_library_sees_new_names_and_forgets_old_ones(library: Path) -> None:
    with open_library(library) as opened:
        assert found(opened.search("person:bob")) == BOB
        assert found(opened.search("square", 10, "people = 'Bob'")) == BOB
        name_person(library, "Bob", "Robert")
        assert found(opened.search("square", 10, "people = 'Bob'")) == set()
        assert found(opened.search("person:robert square")) == BOB
        forget_person(library, "Robert")
        with pytest.raises(UsageError, match="Nobody is called 'robert'"):
            opened.search("person:robert square")
        forget_everyone(library)
        with pytest.raises(UsageError, match="knows no people"):
            opened.search("person:robert")
        with pytest.raises(UsageError, match="no people with names to filter by"):
            opened.browse("people = 'Robert'")
        assert not [one for one in opened.facets() if one.column == "people"]


@pytest.mark.parametrize("text", ["person:", "a dog person:", 'person:""', 'person:" "'])
def test_a_name_must_follow(made: Path, text: str) -> None:
    with pytest.raises(UsageError, match="Nothing follows person:"):
        search(made / "library", text)


def test_an_ambiguous_name_is_asked_back(library: Path) -> None:
    name_person(library, "Bob", "Bob King")
    with pytest.raises(UsageError, match=r'king may be Ada King, or Bob King; .*person:"Ada King"'):
        search(library, "person:king")


def test_a_name_that_is_typed_may_be_cut(made: Path) -> None:
    assert found(search(made / "library", UnfinishedText("person:ad"))) == ADA
    with pytest.raises(UsageError, match="Nobody is called 'ad'"):
        search(made / "library", "person:ad")


@pytest.mark.parametrize("text", ['"person: of interest"', "a salesperson: tall", "people at a harbour"])
def test_a_sentence_that_asks_for_nobody_is_left_as_it_is(text: str) -> None:
    assert asked_people(text) is None


@given(
    st.lists(st.from_regex(r"[a-z]+( [a-z]+)?", fullmatch=True), min_size=1, max_size=3), st.text("ab :", max_size=8)
)
def test_names_in_quotes_are_taken_out_wherever_they_stand(names: list[str], rest: str) -> None:
    asked = asked_people(" ".join([*(f'person:"{name}"' for name in names), rest]))
    assert asked == (tuple(names), " ".join(rest.split()))


@pytest.mark.parametrize("name", ["O'Neil", "50% _", "Zoë 😀 李", "x'; DROP TABLE faces; --", "\\'", "?"])
def test_whatever_a_name_holds_it_is_found_by(library: Path, name: str) -> None:
    name_person(library, "Bob", name)
    with open_library(library, vision=False) as opened:
        assert found(opened.search(f'person:"{name.upper()}"')) == BOB
        assert found(opened.search(f'person:"{name}" mp4')) == BOB
        (facet,) = [one for one in opened.facets() if one.column == "people"]
        assert {one.value for one in facet.values} == {"Ada King", name}


# Names and merges of people ------------------------------------------------------------------------------------------


def test_a_person_has_the_name_that_was_given_last_also_beside_an_index_run(library: Path) -> None:
    with library_lock(library):
        person = name_person(library, "ADA king", "  Countess   of Lovelace ")
    assert (person.name, person.faces) == ("Countess of Lovelace", 7)
    assert [name for name, *_ in who(library)] == ["Bob", "Countess of Lovelace"]


@pytest.mark.parametrize("name", ["", "x" * 101, "12", "all", 'A "B"', "a\x1b[2J", "bob"])
def test_what_is_no_name_is_refused_and_nothing_is_changed(library: Path, name: str) -> None:
    with pytest.raises(UsageError):
        name_person(library, "Ada King", name)
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3)]


def test_two_people_become_one_with_the_first_ones_name_and_number(library: Path) -> None:
    ada, bob = list_people(library)
    merged = merge_people(library, "Bob", "Ada King")
    assert (merged.number, merged.name, merged.faces, merged.clips) == (bob.number, "Bob", 14, 6)
    assert who(library) == [("Bob", 14, 6)]
    with pytest.raises(NotFoundError, match="Nobody is called"):
        name_person(library, str(ada.number), "Ada")


@pytest.mark.parametrize("other", ["bob", "Zoe", "", "  "])
def test_nobody_is_merged_with_himself_or_with_nobody(library: Path, other: str) -> None:
    with pytest.raises(UsageError if other == "bob" else NotFoundError):
        merge_people(library, "Bob", other)
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3)]
