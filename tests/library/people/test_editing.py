"""Names, merges and corrections of people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from evenreel.config import IndexSettings
from evenreel.errors import NotFoundError, OutputError, UsageError
from evenreel.library import index_folders
from evenreel.library.people.editing import merge_people, name_person, refuse_face, split_person
from evenreel.library.people.listing import find_person, list_faces, list_people
from evenreel.library.people.sheet import write_faces, write_sheet
from evenreel.library.people.store import people_store
from tests.faces.drawn_faces import write_people


def who(library: Path) -> list[tuple[str | None, int, int]]:
    return [(one.name, one.faces, one.clips) for one in list_people(library, everyone=True)]


def test_a_person_has_the_name_that_was_given_last(library: Path) -> None:
    person = name_person(library, "ADA king", "  Countess   of Lovelace ")
    assert (person.name, person.faces) == ("Countess of Lovelace", 7)
    assert [name for name, *_ in who(library)] == ["Bob", "Countess of Lovelace"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "1 to 100 characters"),
        ("x" * 101, "1 to 100 characters"),
        ("12", "cannot be a name"),
        ("all", "cannot be a name"),
        ('A "B"', "no query could hold"),
        ("a\x1b[2J", "no query could hold"),
        ("bob", "is the name of person"),
    ],
)
def test_what_is_no_name_is_refused_in_a_sentence(library: Path, name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        name_person(library, "Ada King", name)
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3)]


def test_two_people_become_one_and_split_again(library: Path) -> None:
    merged = merge_people(library, "Bob", "Ada King")
    assert (merged.name, merged.faces, merged.clips) == ("Bob", 14, 6)
    assert who(library) == [("Bob", 14, 6)]
    parts = split_person(library, "Bob")
    assert sorted((one.faces, one.clips) for one in parts) == [(7, 3), (7, 4)]
    assert parts[0].name == "Bob"


def test_nobody_is_merged_with_himself_or_with_nobody(library: Path) -> None:
    with pytest.raises(UsageError, match="the same person already"):
        merge_people(library, "Bob", "bob")
    with people_store(library) as connection:  # somebody without a name is not called by an empty one
        connection.execute("UPDATE people SET name = NULL WHERE name = 'Bob'")
        connection.commit()
        for blank in ("", "  "):
            with pytest.raises(NotFoundError, match="Nobody is called"):
                find_person(connection, blank)
        connection.execute("UPDATE people SET name = 'Bob' WHERE name IS NULL")
        connection.commit()
    with pytest.raises(NotFoundError, match="Nobody is called 'Zoe'"):
        merge_people(library, "Bob", "Zoe")
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3)]


def test_a_person_whose_faces_are_alike_is_not_split(library: Path) -> None:
    (alone,) = split_person(library, "Ada King")
    assert (alone.name, alone.faces) == ("Ada King", 7)


def test_a_wrong_face_goes_and_never_comes_back(library: Path, folder: Path, settings: IndexSettings) -> None:
    face = list_faces(library, "Ada King")[0]
    now = refuse_face(library, face.number)
    assert (now.name, now.faces) == (None, 1)
    assert who(library)[:2] == [("Ada King", 6, 4), ("Bob", 7, 3)]
    write_people(folder / "videos" / "later.mp4", [{(0, 0): 0}], grey=200)
    index_folders(folder / "videos", library, replace(settings, people=False, face_models=None))
    assert face.number not in [one.number for one in list_faces(library, "Ada King")]
    with pytest.raises(NotFoundError, match="no face 99999"):
        refuse_face(library, 99999)


def test_a_refused_face_is_taken_back_by_merging(library: Path) -> None:
    face = list_faces(library, "Ada King")[0]
    now = refuse_face(library, face.number)
    merge_people(library, "Ada King", str(now.number))
    assert who(library) == [("Ada King", 7, 4), ("Bob", 7, 3)]


def test_numbers_never_come_to_mean_somebody_else(library: Path) -> None:
    numbers = {one.number for one in list_people(library)}
    merge_people(library, "Bob", "Ada King")
    parts = split_person(library, "Bob")
    assert not ({one.number for one in parts[1:]} & numbers)


def test_a_sheet_shows_a_line_for_each_person_and_all_faces_of_one(library: Path, tmp_path: Path) -> None:
    write_sheet(library, list_people(library), tmp_path / "people.png")
    write_faces(library, "Bob", tmp_path / "bob.jpg")
    with Image.open(tmp_path / "people.png") as sheet, Image.open(tmp_path / "bob.jpg") as bob:
        assert sheet.size == (968, 2 * 164 + 8)
        assert bob.size == (968, 164 + 8)
        red, green, blue = np.moveaxis(np.array(sheet.convert("RGB")), 2, 0)
        magenta = np.count_nonzero((red > 200) & (green < 60) & (blue > 200))
        assert 0.7 < magenta / (14 * (112 / 3) ** 2) < 1.3  # the middle squares of fourteen faces
    with pytest.raises(OutputError, match=r"people\.jpg"):
        write_sheet(library, list_people(library), tmp_path / "no" / "people.png")
    with pytest.raises(OutputError, match=r"people\.jpg"):
        write_sheet(library, list_people(library), tmp_path / "people.txt")
