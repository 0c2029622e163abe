from __future__ import annotations

import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from evenreel.config import IndexSettings
from evenreel.errors import LibraryError
from evenreel.library import index_folders, open_library
from evenreel.library.index.run import make_empty
from evenreel.library.store import catalog
from evenreel.library.store.catalog import is_damage
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import without_models
from tests.library.videos import write_folder


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Path]:
    write_folder(tmp_path / "videos", 1)
    with without_models():
        index_folders([tmp_path / "videos"], tmp_path / "library", IndexSettings(model="org/pixels", workers=1))
        yield tmp_path / "library"


@contextmanager
def no_room() -> Iterator[None]:
    """No file grows, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_hazard_238_a_library_on_a_full_disk_is_read(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for left in library.glob(f"{catalog.CATALOG}-*"):
        left.unlink()
    with no_room(), open_library(library, encoder=PixelEncoder()) as opened:
        assert opened.is_frozen and opened.search("a red square").hits
    with closing(catalog.open_for_writing(library)) as writing:
        writing.execute("UPDATE files SET mtime_ns = 1")
        shutil.copytree(library, tmp_path / "left", ignore=shutil.ignore_patterns("*-shm"))  # as after a power cut
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=4_096))
    with no_room(), pytest.raises(LibraryError, match=r"left cannot be read: its disk is full; make room on it\.$"):
        catalog.open_for_reading(tmp_path / "left")


def test_a_log_may_be_closed_while_it_is_looked_for(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for left in library.glob(f"{catalog.CATALOG}-*"):
        left.unlink()
    monkeypatch.setattr(Path, "exists", lambda path: True)  # as it was a moment before
    with closing(catalog.open_for_reading(library)) as opened:
        assert opened.execute("SELECT count(*) FROM files").fetchone() == (1,)


def locked(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with closing(sqlite3.connect(path, timeout=0)) as connection:
            connection.execute("SELECT * FROM t")


def readonly(path: Path) -> None:
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("INSERT INTO t VALUES (1)")


def not_there(path: Path) -> None:
    sqlite3.connect(f"{(path.parent / 'none').as_uri()}?mode=ro", uri=True)


def full(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA max_page_count = 3")
        connection.execute("INSERT INTO t VALUES (zeroblob(99999))")


def interrupted(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(lambda: 1, 1)
        connection.execute("SELECT * FROM t AS a, t AS b, t AS c").fetchall()


def in_use(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO t VALUES (1), (2)")
        rows = connection.execute("SELECT * FROM t")
        next(rows)
        connection.execute("DROP TABLE t")


def no_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM gone")


def no_column(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT gone FROM t")


def no_json(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM json_each('{')").fetchall()


def no_text(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT CAST(x'ff' AS TEXT)").fetchall()


PASSING = (locked, readonly, not_there, full, interrupted, in_use)
OF_DATA = (no_table, no_column, no_json, no_text)


@pytest.mark.parametrize("provoke", [*PASSING, *OF_DATA])
def test_an_error_of_the_data_is_told_from_one_of_the_disk_or_a_lock(
    tmp_path: Path, provoke: Callable[[Path], None]
) -> None:
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(sqlite3.OperationalError) as raised:
        provoke(tmp_path / "t.sqlite")
    assert is_damage(raised.value) is (provoke in OF_DATA)


def test_a_journal_that_is_none_is_named_with_what_to_do(tmp_path: Path) -> None:
    make_empty(tmp_path / "library")
    (tmp_path / "library" / "catalog.sqlite-journal").write_bytes(b"rubbish " * 999)
    with pytest.raises(LibraryError, match=r"catalog\.sqlite-journal.*move it away"):
        open_library(tmp_path / "library", vision=False)


@pytest.mark.parametrize("head", [b"", bytes(28), catalog.JOURNAL_MAGIC])
def test_a_journal_that_is_empty_or_done_with_or_in_use_is_not_blamed(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "catalog.sqlite-journal").write_bytes(head)
    with pytest.raises(LibraryError, match="is locked; run the same command again"), catalog.readable(tmp_path):
        raise sqlite3.OperationalError("database is locked")
