from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from evenreel import open_library
from evenreel.config import IndexSettings
from evenreel.errors import LibraryError, NotFoundError, UsageError
from evenreel.library import index_folders, publish_library, repair, verify
from evenreel.library.people import forget_everyone, forget_person, has_people, list_people, merge_people, name_person
from evenreel.library.store.catalog import CATALOG, library_lock
from evenreel.library.store.user_tables import COPY
from tests.faces.drawn_faces import write_people
from tests.library.damage import table_of, write
from tests.library.people.traces import found_in, traces


def test_a_person_who_is_forgotten_is_in_no_byte_of_any_file_and_nothing_else_changes(
    library: Path, folder: Path, settings: IndexSettings
) -> None:
    gone, bob = traces(library, "Ada King"), table_of(library, "faces WHERE person_id = 2")
    assert CATALOG in found_in(library, gone)
    person = forget_person(library, "ada king")
    assert (person.name, person.faces, person.clips) == ("Ada King", 7, 4)
    assert found_in(library, gone) == []
    assert table_of(library, "faces") == bob
    assert [one.name for one in list_people(library)] == ["Bob"]
    assert verify(library) == []
    report = index_folders(folder / "videos", library, replace(settings, people=False, face_models=None))
    assert report.people == 0  # nor is what was looked at looked at again
    assert found_in(library, gone) == []


def test_an_older_name_and_a_catalog_that_was_put_aside_are_forgotten_too(library: Path) -> None:
    gone = traces(library)
    name_person(library, "Bob", "Robert Robertson")
    merge_people(library, "Robert Robertson", "Ada King")
    for name in (CATALOG, COPY):
        shutil.copy(library / name, library / f"{name}.broken-1")  # as a repair leaves one
    forget_person(library, "Robert Robertson")
    assert found_in(library, [*gone, b"Robert Robertson"]) == []
    assert list_people(library, everyone=True) == []


def test_forgetting_beside_an_open_library_leaves_nothing_and_is_seen_there(library: Path) -> None:
    gone = traces(library, "Bob")
    with open_library(library) as opened:
        assert opened.search("person:bob").hits
        forget_person(library, "Bob")
        assert found_in(library, gone) == []
        with pytest.raises(UsageError, match="Nobody is called"):
            opened.search("person:bob")


def test_forgetting_everyone_switches_the_choice_off(library: Path, folder: Path, settings: IndexSettings) -> None:
    gone = traces(library)
    assert forget_everyone(library) == 2
    assert found_in(library, gone) == []
    assert not has_people(library)
    write_people(folder / "videos" / "new.mp4", [{(0, 0): 0}], grey=33)
    report = index_folders(folder / "videos", library, replace(settings, people=False, face_models=None))
    assert (report.indexed, report.people) == (1, 0)
    assert found_in(library, gone) == []
    with pytest.raises(UsageError, match="No people were looked for"):
        forget_everyone(library)


def test_no_snapshot_holds_people(library: Path, tmp_path: Path) -> None:
    publish_library(library, tmp_path / "published")
    assert found_in(tmp_path / "published", traces(library)) == []


def test_faces_of_a_clip_that_is_gone_go_with_it(
    library: Path, folder: Path, made: Path, settings: IndexSettings
) -> None:
    index_folders(folder / "videos", library, settings)
    write(library, f"DELETE FROM files WHERE path LIKE '{made}/%'")  # from where it was copied
    gone = traces(library, "Bob")
    for path in (folder / "videos").glob("bo*.mp4"):
        path.unlink()
    index_folders(folder / "videos", library, replace(settings, accept_missing=True))
    assert CATALOG in found_in(library, gone)  # a file that is missing may come back
    repair(library, drop_missing=True)
    assert found_in(library, gone) == []
    assert [one.name for one in list_people(library)] == ["Ada King"]


def test_nobody_is_forgotten_by_a_name_that_nobody_has_or_while_a_run_writes(library: Path) -> None:
    with pytest.raises(NotFoundError, match="Nobody is called 'Zoe'.*Ada King, Bob"):
        forget_person(library, "Zoe")
    with library_lock(library):
        for forget in (lambda: forget_person(library, "Bob"), lambda: forget_everyone(library)):
            with pytest.raises(LibraryError, match="is being written by"):
                forget()
    assert len(list_people(library)) == 2


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
