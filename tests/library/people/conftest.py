"""A library of drawn people: Ada (0) in four clips, Bob (1) in three, one clip with both and one with nobody."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.library.people import list_people, name_person
from tests.faces.drawn_faces import write_models, write_people
from tests.library.damage import QUICK, without_models


@pytest.fixture(scope="session")
def face_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_models(tmp_path_factory.mktemp("faces") / "models")


@pytest.fixture(autouse=True)
def _stubs() -> Iterator[None]:
    with without_models():
        yield


@pytest.fixture
def settings(face_models: Path) -> IndexSettings:
    """Settings that look for people."""
    return replace(QUICK, read_text=False, people=True, face_models=face_models)


def write_films(folder: Path) -> None:
    for number in range(3):
        write_people(folder / f"ada_{number}.mp4", [{(0, 0): 0}, {(1, 3): 0}, {}], grey=60 + 20 * number)
    for number in range(2):
        write_people(folder / f"bob_{number}.mp4", [{(0, 0): 1}, {(0, 4): 1}, {(2, 2): 1}], grey=60 + 20 * number)
    write_people(folder / "both.mp4", [{(0, 0): 0, (0, 4): 1}, {}])
    write_people(folder / "nobody.mp4", [{}, {}], grey=150)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, face_models: Path) -> Path:
    """A folder with `videos` and `library`, in which Ada and Bob have their names."""
    folder = tmp_path_factory.mktemp("people")
    write_films(folder / "videos")
    with without_models():
        report = index_folders(
            folder / "videos", folder / "library", replace(QUICK, read_text=False, people=True, face_models=face_models)
        )
    assert (report.indexed, report.people, report.notes) == (7, 7, [])
    ada, bob = list_people(folder / "library")
    assert (ada.faces, ada.clips, bob.faces, bob.clips) == (7, 4, 7, 3)
    name_person(folder / "library", str(ada.number), "Ada King")
    name_person(folder / "library", str(bob.number), "Bob")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it to change; its videos are at another place than they were indexed at."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


@pytest.fixture
def library(folder: Path) -> Path:
    return folder / "library"


def who(library: Path) -> list[tuple[str | None, int, int]]:
    return [(one.name, one.faces, one.clips) for one in list_people(library, everyone=True)]
