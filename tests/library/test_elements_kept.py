"""Scene elements beside an indexer and a repair: found for new clips, checked, rebuilt from what is left, dropped."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenreel.config import IndexSettings
from evenreel.language.scene_dictionary import given
from evenreel.library import index_folders, open_library, repair, tag_library, verify
from evenreel.library.store.catalog import open_for_writing, set_meta, transaction
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.content import FileStamp
from tests import prebuilt
from tests.features.test_shards import make_shard
from tests.library.damage import change, write
from tests.library.fakes import DIMENSION, SUBJECTS, WordsEncoder, encode
from tests.library.videos import write_folder

MODEL = {"model": "words", "encoder_id": "words", "weights_hash": "words-1", "dimension": str(DIMENSION)}
DICTIONARY = given((*SUBJECTS, "bus"), ["drive bus"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of shards, one for each subject, with its elements found."""
    folder = tmp_path_factory.mktemp("kept")
    connection = open_for_writing(folder)
    set_meta(connection, MODEL | {"rule": "every 1 s"})
    store = Store(folder, connection, {})
    for number, subject in enumerate(SUBJECTS):
        add(store, f"{number:032x}", subject)
    store.update_null_scores(WordsEncoder())
    connection.close()
    tag_library(folder, DICTIONARY, encoder=WordsEncoder())
    return folder


def add(store: Store, clip_id: str, subject: str) -> None:
    frames = encode(subject)[None].astype("f2")
    shard = replace(make_shard(1), clip_id=clip_id, encoder_id="words", weights_hash="words-1", frames=frames)
    store.add_clip(shard)
    store.link(FoundFile(f"/v/{clip_id}.mp4", "/v", FileStamp(1, 1, 1)), clip_id)


@pytest.fixture
def library(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "library")
    return tmp_path / "library"


def rows(library: Path) -> list[Any]:
    connection = sqlite3.connect(library / "catalog.sqlite", isolation_level=None)
    found = connection.execute("SELECT * FROM clip_elements ORDER BY clip_id, kind, rank").fetchall()
    connection.close()
    return found


def test_a_whole_library_has_no_problem(library: Path) -> None:
    assert [row[3] for row in rows(library) if row[0] == "0" * 32] == ["drive bus", "red bus", "bus"]
    assert verify(library) == []
    assert "found the scene elements anew" in repair(library)
    assert verify(library) == []


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM clip_elements WHERE rank = 2",
        "UPDATE clip_elements SET phrase = 'a lie' WHERE rank = 1",
        "UPDATE clip_elements SET score = score + 1",
    ],
)
def test_changed_rows_are_found_and_made_anew(library: Path, statement: str) -> None:
    before = rows(library)
    change(library, statement)
    assert [(problem.where, problem.remedy) for problem in verify(library)] == [
        ("table clip_elements of catalog.sqlite", "run: evenreel repair")
    ]
    repair(library)
    assert verify(library) == []
    assert rows(library) == before


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"\0" * 100)], ids=["lost", "zeroed"])
def test_a_dictionary_that_is_lost_is_dropped(library: Path, damage: Callable[[Path], object]) -> None:
    (path,) = library.glob("elements.*")
    damage(path)
    (problem,) = verify(library)
    assert problem.remedy == "run: evenreel repair, then run: evenreel elements --library LIBRARY"
    assert any(line.startswith("dropped the scene elements") for line in repair(library))
    assert verify(library) == []
    assert rows(library) == []
    assert not list(library.glob("elements.*.safetensors"))
    with open_library(library, encoder=WordsEncoder()) as opened:
        assert opened.search("red bus").hits[0].elements == ()
        assert opened.stats().with_elements is None


def test_a_lost_catalog_takes_the_dictionary_up_again(library: Path) -> None:
    before = rows(library)
    (library / "catalog.sqlite").unlink()
    assert "found the scene elements anew" in repair(library)
    assert verify(library) == []
    assert rows(library) == before


def test_without_the_bank_of_nonsense_elements_wait_for_the_next_index_run(library: Path) -> None:
    before = rows(library)
    (library / "catalog.sqlite").unlink()
    (library / "kept.jsonl").unlink()
    assert any(line.startswith("kept the dictionary of scene elements") for line in repair(library))
    assert verify(library) == []
    connection = open_for_writing(library)
    store = Store(library, connection, {})
    assert store.elements_hold()
    store.update_null_scores(WordsEncoder())
    assert not store.elements_hold()
    store.update_elements()
    connection.close()
    assert rows(library) == before


def test_a_dictionary_of_another_model_is_put_aside(library: Path) -> None:
    for path in (library / "catalog.sqlite", library / "kept.jsonl", *library.glob("shards/*/*.safetensors")):
        path.unlink()
    connection = open_for_writing(library)
    set_meta(connection, MODEL | {"weights_hash": "words-2", "rule": "every 1 s"})
    connection.close()
    assert any("not with the library's model" in line for line in repair(library))
    assert [path.suffix for path in library.glob("elements.*")] == [".broken"]


def test_files_that_no_catalog_names_are_removed(library: Path) -> None:
    (path,) = library.glob("elements.*")
    (library / "elements.0000.safetensors").write_bytes(path.read_bytes())
    repair(library)
    assert list(library.glob("elements.*")) == [path]


def test_clips_that_are_forgotten_take_theirs_along(library: Path) -> None:
    write(library, "UPDATE files SET state = 'missing' WHERE clip_id = '00000000000000000000000000000000'")
    repair(library, drop_missing=True)
    assert verify(library) == []
    connection = open_for_writing(library)
    store = Store(library, connection, {})
    store.update_null_scores(WordsEncoder())
    store.update_elements()
    connection.close()
    assert "0" * 32 not in {row[0] for row in rows(library)}
    assert len(rows(library)) == len(SUBJECTS) - 1


def test_what_breaks_off_changes_nothing(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of the last clip cannot be written: those before it are not either."""
    before = rows(library)
    connection = open_for_writing(library)
    store = Store(library, connection, {})
    with transaction(connection):
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON clip_elements WHEN new.kind = 'activity'"
            " BEGIN SELECT raise(ABORT, 'no'); END"
        )
    with pytest.raises(sqlite3.IntegrityError):
        store.update_elements()
    connection.close()
    assert rows(library) == before


def test_an_index_run_finds_those_of_new_clips(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    videos, library = tmp_path / "videos", tmp_path / "library"
    settings = IndexSettings(model="builtin", read_text=False, workers=1)
    write_folder(videos, 2, seconds=1.0)
    prebuilt.library(videos, library, settings)
    tag_library(library, given([f"{colour} square" for colour in ("red", "green", "blue", "black")], []))
    made_from = "SELECT value FROM meta WHERE key = 'elements_made_from'"
    connection = sqlite3.connect(library / "catalog.sqlite", isolation_level=None)
    before = connection.execute(made_from).fetchone()
    write_folder(videos, 3, seconds=1.0)
    index_folders([videos], library, settings)
    assert connection.execute(made_from).fetchone() != before
    assert verify(library) == []
    (path,) = library.glob("elements.*")
    path.unlink()
    write_folder(videos, 4, seconds=1.0)
    with caplog.at_level(logging.WARNING, "evenreel"):
        assert index_folders([videos], library, settings).indexed == 1
    connection.close()
    assert "is missing. The new clips have no scene elements; run: evenreel elements --library" in caplog.text
