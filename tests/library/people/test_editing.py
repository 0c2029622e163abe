"""Names and merges of people."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenreel.errors import NotFoundError, UsageError
from evenreel.library.people import list_people, merge_people, name_person
from evenreel.library.store.catalog import library_lock


def who(library: Path) -> list[tuple[str | None, int, int]]:
    return [(one.name, one.faces, one.clips) for one in list_people(library, everyone=True)]


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
