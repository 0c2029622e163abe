"""Changes of a catalog: behind evenreel's back, and as evenreel itself makes them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import evenreel.encoders
from evenreel.config import IndexSettings
from evenreel.library.store.catalog import open_for_writing, transaction
from evenreel.library.store.user_tables import write_copy
from tests.features.pixel_encoder import PixelEncoder
from tests.library.videos import write_folder

QUICK = IndexSettings(model="org/pixels", workers=1)
"""For libraries that are made `without_models`."""


def change(library: Path, *statements: str) -> None:
    """What a bad disk or another program does: the rows are others, and nothing says so."""
    with closing(sqlite3.connect(library / "catalog.sqlite", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def write(library: Path, *statements: str) -> None:
    """What evenreel does: a person's own and its copy agree."""
    with closing(open_for_writing(library)) as connection:
        with transaction(connection):
            for statement in statements:
                connection.execute(statement)
        write_copy(library, connection)


def forget_own(library: Path) -> None:
    """As in a library that no person has put anything into."""
    write(library, "DELETE FROM marks", "DELETE FROM searches")


def table_of(library: Path, name: str) -> list[tuple[object, ...]]:
    """All rows of a table."""
    with closing(sqlite3.connect(library / "catalog.sqlite")) as connection:
        return sorted(connection.execute(f"SELECT * FROM {name}"), key=repr)


@contextmanager
def without_models() -> Iterator[None]:
    """Neither a model that sees is loaded nor one that reads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evenreel.encoders, "load_encoder", lambda *_, **__: PixelEncoder())
        reader = "tests.library.stub_reader:QuickReader"
        patch.setattr("evenreel.library.index.run.READER", reader)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Two videos, and their library; in the tests of the module no model is loaded."""
    from tests import prebuilt  # which imports this module

    place = tmp_path_factory.mktemp("made")
    write_folder(place / "videos", 2)
    with without_models():
        prebuilt.library(place / "videos", place / "library", QUICK)
        yield place / "videos", place / "library"


@pytest.fixture
def videos(made: tuple[Path, Path]) -> Path:
    """The videos that the module has made, which no test changes."""
    return made[0]


@pytest.fixture
def library(made: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of the library that the module has made, to be damaged."""
    return shutil.copytree(made[1], tmp_path / "library")
