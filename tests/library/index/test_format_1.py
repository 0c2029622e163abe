"""A catalog as the version before laid it down: other comments, no seals; nothing of it is damage."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from evenreel.library import index_folders, repair, verify
from evenreel.library.store import schema
from tests.library.damage import QUICK, as_format_1, change, made
from tests.library.state import state

__all__ = ["made"]

LAID_DOWN = Path(__file__).with_name("format_1.sql").read_text(encoding="utf-8")
TABLES = ("meta", "roots", "files", "clips", "replaced", "moments", "tracks", "track_words", "vocabulary")
TABLES += ("vocabulary_trigrams", "about", "vector_rows", "clip_elements", "null_scores")


@pytest.fixture
def library(made: tuple[Path, Path], tmp_path: Path) -> Path:
    """A library whose catalog was made by the script of format 1."""
    library = tmp_path / "library"
    shutil.copytree(made[1], library)
    as_format_1(library)
    new, old = library / "catalog.sqlite", library / "old"
    new.rename(old)
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.executescript(LAID_DOWN)
        connection.execute("ATTACH ? AS old", (str(old),))
        for table in TABLES:
            names = [name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]
            if "VIRTUAL" in LAID_DOWN.split(f"TABLE {table} ")[0][-8:]:
                names.insert(0, "rowid")
            columns = ", ".join(names)
            connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM old.{table}")
    old.unlink()
    return library


def test_a_library_of_the_version_before_is_whole_before_and_after_it_is_brought_up_to_date(
    made: tuple[Path, Path], library: Path
) -> None:
    before = state(made[1])
    assert verify(library) == []
    assert index_folders([made[0]], library, QUICK).unchanged == 2
    assert verify(library) == []
    repair(library)
    assert (verify(library), state(library)) == ([], before)
    assert not list(library.rglob("*.broken*"))


def test_a_library_of_the_version_before_is_repaired_in_place(made: tuple[Path, Path], library: Path) -> None:
    repair(library)
    assert verify(library) == []
    index_folders([made[0]], library, QUICK)  # its shards said nothing of speech
    assert (verify(library), state(library)) == ([], state(made[1]))
    assert not list(library.rglob("*.broken*"))


@pytest.mark.parametrize(
    ("old", "new"),
    [("value TEXT NOT NULL", "value TEXT"), ("TEXT PRIMARY KEY,", "BLOB PRIMARY KEY,"), ("'{}'", "'{ }'")],
)
def test_a_definition_that_says_something_else_is_damage(library: Path, old: str, new: str) -> None:
    change(
        library,
        "PRAGMA writable_schema = ON",
        f"""UPDATE sqlite_master SET sql = replace(sql, '{old.replace("'", "''")}', '{new.replace("'", "''")}')""",
    )
    assert any("is not what was laid down" in problem.what for problem in verify(library))


def test_comments_and_spaces_of_a_definition_say_nothing() -> None:
    def laid_down(script: str) -> list[str]:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(script)
            return schema.differences(connection)

    first, second = "CREATE TABLE roots (path TEXT PRIMARY KEY) WITHOUT ROWID", "CREATE TABLE roots(path TEXT/* a */\n"
    assert "roots" not in laid_down(first)
    assert "roots" not in laid_down(f"{second} PRIMARY  KEY -- ,b TEXT\n)WITHOUT ROWID")
    assert "roots" in laid_down(f"{second} PRIMARY KEY, b TEXT) WITHOUT ROWID")
    assert "roots" in laid_down(first.replace("path", '"--path"'))
