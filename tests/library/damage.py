"""Changes of a catalog: behind evenreel's back, as evenreel itself makes them, and back to the version before."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import evenreel.encoders
from evenreel.config import IndexSettings
from evenreel.features.shards import read_shard, shard_files, write_shard
from evenreel.library.index import ingest
from evenreel.library.store.catalog import open_for_writing, transaction
from evenreel.library.store.kept import FILE, write_copy
from tests.features.pixel_encoder import PixelEncoder
from tests.library.videos import write_folder

QUICK = IndexSettings(model="org/pixels", workers=1)
"""For libraries that are made `without_models`."""


SPEECH = ("transcripts", "utterances", "said_words", "said_vocabulary", "said_trigrams", "said_blocks")
"""Tables that a catalog of format 4 did not have."""
WITHOUT_SPEECH = (
    *(f"DELETE FROM {table}" for table in SPEECH),
    *(f"DROP TABLE {table}" for table in SPEECH),
)


def change(library: Path, *statements: str) -> None:
    """What a bad disk or another program does: the rows are others, their seals are not."""
    with closing(sqlite3.connect(library / "catalog.sqlite", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def write(library: Path, *statements: str) -> None:
    """What evenreel does: rows, seals and the second copy agree."""
    with closing(open_for_writing(library)) as connection:
        with transaction(connection):
            for statement in statements:
                connection.execute(statement)
        write_copy(library, connection)


def without_transcripts(library: Path) -> None:
    """Have the shards say nothing of speech, as those of before format 5."""
    for path in shard_files(library / "shards"):
        digest = write_shard(library / "shards", replace(read_shard(path), transcripts=None))
        write(library, f"UPDATE clips SET shard_hash = '{digest}' WHERE clip_id = '{path.stem}'")


def as_format_1(library: Path) -> None:
    """Take away what a library of the version before did not have."""
    without_transcripts(library)
    change(
        library,
        "DROP TABLE seals",
        "DROP TABLE shots",
        "DROP TABLE recorded",
        *WITHOUT_SPEECH,
        "DROP TABLE track_blocks",
        "DROP TABLE name_words",
        "DROP TABLE name_trigrams",
        "DELETE FROM meta WHERE key = 'changes'",
        "UPDATE meta SET value = '1' WHERE key = 'schema_version'",
    )
    (library / FILE).unlink(missing_ok=True)


def table_of(library: Path, name: str) -> list[tuple[object, ...]]:
    """All rows of a table."""
    with closing(sqlite3.connect(library / "catalog.sqlite")) as connection:
        return connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()


@contextmanager
def without_models() -> Iterator[None]:
    """Neither a model that sees is loaded nor one that reads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evenreel.encoders, "load_encoder", lambda *_, **__: PixelEncoder())
        reader = "tests.library.stub_reader:QuickReader"
        patch.setattr(ingest, "IndexJob", partial(ingest.IndexJob, reader=reader))
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
