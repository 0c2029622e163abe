"""Forgetting leaves no vector, picture or name in any byte of any file, also where it is killed at any step."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from evenreel import open_library
from evenreel.config import IndexSettings
from evenreel.errors import LibraryError, NotFoundError, UsageError
from evenreel.library import index_folders, publish_library, repair, verify
from evenreel.library.people.editing import merge_people
from evenreel.library.people.forgetting import forget_everyone, forget_person
from evenreel.library.people.listing import list_people
from evenreel.library.people.store import FILE
from evenreel.library.store.filesystem import library_lock
from tests.faces.drawn_faces import write_people
from tests.library.damage import write
from tests.library.people.traces import found_in, traces


def test_a_person_who_is_forgotten_is_in_no_byte_of_any_file(library: Path) -> None:
    gone, kept = traces(library, "Ada King"), traces(library, "Bob")
    assert found_in(library, gone) == [FILE]
    person = forget_person(library, "ada king")
    assert (person.name, person.faces, person.clips) == ("Ada King", 7, 4)
    assert found_in(library, gone) == []
    assert all(found_in(library, [piece]) for piece in kept if piece not in _as_float32(library))
    assert [one.name for one in list_people(library)] == ["Bob"]
    assert verify(library) == []


def _as_float32(library: Path) -> set[bytes]:
    """Pieces that are looked for and never stored."""
    with closing(sqlite3.connect(library / FILE)) as connection:
        stored = b"".join(vector + crop for vector, crop in connection.execute("SELECT vector, crop FROM faces"))
    return {piece for piece in traces(library, "Bob") if piece not in stored and piece != b"Bob"}


def test_forgetting_everyone_deletes_the_file_and_switches_the_choice_off(
    library: Path, folder: Path, settings: IndexSettings
) -> None:
    gone = traces(library)
    assert forget_everyone(library) == 2
    assert found_in(library, gone) == []
    assert not list(library.glob(f"{FILE}*"))
    write_people(folder / "videos" / "new.mp4", [{(0, 0): 0}], grey=33)
    report = index_folders(folder / "videos", library, replace(settings, people=False, face_models=None))
    assert (report.indexed, report.people) == (1, 0)
    assert found_in(library, gone) == []
    with pytest.raises(UsageError, match="nothing to forget"):
        forget_everyone(library)


def test_neither_the_second_copy_nor_a_snapshot_holds_people(library: Path, tmp_path: Path) -> None:
    publish_library(library, tmp_path / "published")
    held = traces(library)
    assert found_in(tmp_path / "published", held) == []
    assert found_in(library, held) == [FILE]
    with open_library(library, vision=False) as opened:
        opened.search('person:"Ada King"')
        opened.facets()
    assert found_in(library, held) == [FILE]


def test_a_later_run_does_not_look_at_clips_again(library: Path, folder: Path, settings: IndexSettings) -> None:
    gone = traces(library, "Ada King")
    forget_person(library, "Ada King")
    report = index_folders(folder / "videos", library, replace(settings, people=False, face_models=None))
    assert report.people == 0
    assert found_in(library, gone) == []


def test_merged_people_are_forgotten_together(library: Path) -> None:
    gone = traces(library)
    merge_people(library, "Bob", "Ada King")
    forget_person(library, "Bob")
    assert found_in(library, gone) == []
    assert list_people(library, everyone=True) == []


def test_faces_of_a_clip_that_is_gone_go_with_it(
    library: Path, folder: Path, made: Path, settings: IndexSettings
) -> None:
    """What the library no longer has, nobody's face is kept of."""
    index_folders(folder / "videos", library, settings)
    write(library, f"DELETE FROM files WHERE path LIKE '{made}/%'")  # from where it was copied
    gone = traces(library, "Bob")
    for path in (folder / "videos").glob("bo*.mp4"):
        path.unlink()
    index_folders(folder / "videos", library, replace(settings, accept_missing=True))
    assert found_in(library, gone) == [FILE]  # a file that is missing may come back
    repair(library, drop_missing=True)
    assert found_in(library, gone) == []
    assert [one.name for one in list_people(library)] == ["Ada King"]


def test_nobody_is_forgotten_by_a_name_that_nobody_has(library: Path) -> None:
    with pytest.raises(NotFoundError, match="Nobody is called 'Zoe'.*Ada King, Bob"):
        forget_person(library, "Zoe")
    assert len(list_people(library)) == 2


def test_forgetting_waits_for_no_run_that_writes(library: Path) -> None:
    with library_lock(library):
        for forget in (lambda: forget_person(library, "Bob"), lambda: forget_everyone(library)):
            with pytest.raises(LibraryError, match="is being written by"):
                forget()
    assert len(list_people(library)) == 2


def test_a_damaged_file_can_be_forgotten_as_a_whole_and_all_else_goes_on(
    library: Path, folder: Path, settings: IndexSettings, caplog: pytest.LogCaptureFixture
) -> None:
    (library / FILE).write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    with pytest.raises(LibraryError, match="--forget ALL"):
        list_people(library)
    assert [one.where for one in verify(library)] == [FILE]
    with open_library(library, vision=False) as opened:  # all else is as it was
        assert opened.browse("name like '%.mp4'").total == 7
        assert opened.search("both").hits
        assert "people" not in {facet.column for facet in opened.facets()}
    with caplog.at_level(logging.WARNING, "evenreel"):
        index_folders(folder / "videos", library, replace(settings, people=False, face_models=None))
    assert any("--forget ALL" in record.getMessage() for record in caplog.records)
    assert any("left people.sqlite as it is" in done for done in repair(library))
    assert forget_everyone(library) == 0
    assert not list(library.glob(f"{FILE}*"))


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "where", ["at-a-line", pytest.param("within-sqlite", marks=SLOW), pytest.param("everyone", marks=SLOW)]
)
def test_killed_at_any_step_the_next_command_finishes_it(made: Path, where: str) -> None:
    """Of Ada, or of everyone, nothing is left as soon as anything was begun; Bob is whole."""
    in_memory = Path("/dev/shm")  # a process that is killed loses nothing of a disk, so none is waited for
    command = [sys.executable, "-m", "tests.library.people.killed_forgetting", str(made / "library"), where]
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as place:
        done = subprocess.run([*command, f"{place}/alone"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    killed, finished_later = map(int, done.stdout.split())
    assert killed > 5
    assert finished_later > 2
