"""Hazard 34: the catalog is not believed. What was changed in it is found, told, and put right from what is sound."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.errors import LibraryError
from evenreel.library import index_folders, open_library, repair, verify
from evenreel.library.store import schema, seals
from evenreel.library.store.catalog import open_for_writing
from evenreel.library.store.kept import FILE, read_copy
from tests.features.pixel_encoder import PixelEncoder
from tests.library.damage import QUICK, change, library, table_of, videos, without_models, write
from tests.library.state import state
from tests.library.videos import write_folder

__all__ = ["library", "videos"]

CLIPS = 4
Damage = Callable[[Path], None]


@pytest.fixture(scope="module", autouse=True)
def _stubs() -> Iterator[None]:
    with without_models():
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Videos, one of them none, and a library with everything that a library can have."""
    place = tmp_path_factory.mktemp("believed")
    videos, library = place / "videos", place / "library"
    write_folder(videos, CLIPS)
    (videos / "notes.mp4").write_text("no video")
    for number in range(CLIPS):
        said = f"1\n00:00:00,100 --> 00:00:01,000\nthe quayside at noon, take {number}\n"
        (videos / f"clip_{number:02}.en.srt").write_text(said)
    index_folders([videos], library, QUICK)
    rows = "".join(f"clip_{number:02}.mp4,a red tram number {number},camera\n" for number in range(CLIPS))
    table = place / "about.csv"
    table.write_text(f"path,caption,source\n{rows.replace('clip', f'{videos}/clip')}")
    index_folders([videos], library, QUICK, metadata=table)
    return videos, library


def whole(library: Path) -> dict[str, Any]:
    """What a library holds, with the stamps of its files."""
    return state(library) | {"files with stamps": table_of(library, "files")}


def use(library: Path, videos: Path) -> None:
    """Search, info and index: each works or ends in a sentence that says what to do."""

    def search(opened: Any) -> Any:
        return [opened.search("harbour"), opened.search("a red tram", where="source = 'camera'")]

    for ask in (search, lambda opened: opened.stats(), lambda opened: opened.files(), lambda opened: opened.facets()):
        try:
            with open_library(library, encoder=PixelEncoder()) as opened:
                ask(opened)
        except LibraryError as error:
            assert "evenreel repair" in str(error)
    try:
        index_folders([videos], library, QUICK)
    except LibraryError as error:
        assert "evenreel repair" in str(error)


# The faults that were found ---------------------------------------------------------------------------------------


def flip(library: Path, text: bytes, occurrence: int = 0, bit: int = 7) -> None:
    """Flip a bit in the middle of a text of the catalog's file."""
    path = library / "catalog.sqlite"
    content, place = bytearray(path.read_bytes()), -1
    for _ in range(occurrence + 1):
        place = content.index(text, place + 1)
    content[place + len(text) // 2] ^= 1 << bit
    path.write_bytes(content)


def value(library: Path, query: str) -> Any:
    with closing(sqlite3.connect(library / "catalog.sqlite")) as connection:
        return connection.execute(query).fetchone()[0]


def flip_bank(library: Path) -> None:
    flip(library, value(library, "SELECT value FROM meta WHERE key = 'null_vectors'")[:200].encode())


def flip_path(library: Path) -> None:
    flip(library, value(library, "SELECT path FROM files WHERE name = 'clip_01.mp4'").encode(), bit=1)


def flip_index(library: Path) -> None:
    """The same bytes are in `clips`, in the other tables of a clip, and in indexes; here in that of files."""
    with closing(sqlite3.connect(library / "catalog.sqlite")) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files_by_clip'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (clip_id,) = connection.execute("SELECT min(clip_id) FROM clips").fetchone()
    path = library / "catalog.sqlite"
    content = bytearray(path.read_bytes())
    content[content.index(clip_id.encode(), (root - 1) * size) + 3] ^= 1
    path.write_bytes(content)


FOUND = {
    "a bit of the bank of nonsense": flip_bank,
    "a bit of a path": flip_path,
    "a bit of an index": flip_index,
    "fewer nonsense queries": lambda library: change(
        library, "UPDATE meta SET value = '[1.0, 2.0]' WHERE key = 'null_best'"
    ),
    "no nonsense queries": lambda library: change(library, "UPDATE meta SET value = '[' WHERE key = 'null_best'"),
    "scores of nonsense moved": lambda library: change(library, "UPDATE null_scores SET mean = mean - 0.3"),
    "scores of nonsense gone": lambda library: change(library, "DELETE FROM null_scores"),
    "names and captions gone": lambda library: change(library, "DELETE FROM about"),
    "words on screen gone": lambda library: change(library, "DELETE FROM track_words"),
    "postings of words gone": lambda library: change(library, "DELETE FROM track_words_data WHERE id > 10"),
    "text that was indexed gone": lambda library: change(library, "DELETE FROM track_words_content"),
    "another rule": lambda library: change(library, "UPDATE meta SET value = 'every 7 s' WHERE key = 'rule'"),
    "another model": lambda library: change(library, "UPDATE meta SET value = 'x' WHERE key = 'weights_hash'"),
    "another path": lambda library: change(library, "UPDATE files SET path = '/x' WHERE name = 'clip_01.mp4'"),
    "a file gone": lambda library: change(library, "DELETE FROM files WHERE name = 'clip_01.mp4'"),
    "rows of the matrix moved": lambda library: change(library, "UPDATE vector_rows SET first_row = first_row + 1"),
    "a state that was": lambda library: change(library, "UPDATE files SET state = 'missing'"),
    "another format": lambda library: change(library, "UPDATE meta SET value = '9' WHERE key = 'schema_version'"),
    "no seals": lambda library: change(library, "DELETE FROM seals"),
    "a table gone": lambda library: change(library, "DROP TABLE roots"),
    "a column of another kind": lambda library: change(
        library, "PRAGMA writable_schema = ON", "UPDATE sqlite_master SET sql = replace(sql, 'REAL', 'TEXT')"
    ),
}


@pytest.mark.parametrize("damage", FOUND.values(), ids=FOUND.keys())
def test_what_was_changed_is_found_and_put_right(library: Path, videos: Path, damage: Damage, tmp_path: Path) -> None:
    before, clean = whole(library), value(library, "SELECT count(*) FROM files")
    damage(library)
    shutil.copytree(library, tmp_path / "used")
    assert [problem for problem in verify(library) if "evenreel repair" in problem.remedy]
    repair(library)
    assert whole(library) == before
    assert verify(library) == []
    use(tmp_path / "used", videos)
    repair(tmp_path / "used")
    assert whole(tmp_path / "used") == before
    assert verify(tmp_path / "used") == []
    assert clean == CLIPS + 1
    assert not list(library.rglob("*.safetensors.broken"))


def test_derived_things_that_are_damaged_do_not_stop_a_search(library: Path) -> None:
    for damage, told in (
        ("scores of nonsense moved", 1),
        ("fewer nonsense queries", 1),
        ("a bit of the bank of nonsense", 0),
    ):
        own = library.with_name(damage)
        shutil.copytree(library, own)
        FOUND[damage](own)
        with open_library(own, encoder=PixelEncoder()) as opened:
            found = opened.search("a red tram")
            assert len(found.hits) == CLIPS
            assert sum("Which matches are weaker was not measured" in notice for notice in found.notices) == told


def test_a_clip_whose_rows_are_damaged_is_left_out_and_said(library: Path) -> None:
    flip_path(library)
    with open_library(library, encoder=PixelEncoder()) as opened:
        found = opened.search("a red tram")
        assert len(found.hits) == CLIPS - 1
        assert [notice for notice in found.notices if "1 clip whose rows" in notice and "evenreel repair" in notice]
        clip_id = value(library, "SELECT clip_id FROM files WHERE name = 'clip_01.mp4'")
        for ask in (opened.clip, opened.locate):
            with pytest.raises(LibraryError, match="evenreel repair"):
                ask(clip_id)


def test_an_index_run_measures_nonsense_anew_where_that_is_damaged(library: Path, videos: Path) -> None:
    before = whole(library)
    for damage in ("scores of nonsense moved", "fewer nonsense queries", "a bit of the bank of nonsense"):
        FOUND[damage](library)
        assert verify(library)
        index_folders([videos], library, QUICK)
        assert verify(library) == []
        assert whole(library) == before


def test_an_index_run_does_not_go_on_from_files_that_were_changed(library: Path, videos: Path) -> None:
    """It would take the changed path for a file that is gone, and make that the truth."""
    flip_path(library)
    with pytest.raises(LibraryError, match=r"rows of files are not what was written.*evenreel repair"):
        index_folders([videos], library, QUICK)


# What is sealed ---------------------------------------------------------------------------------------------------


def test_every_table_is_declared() -> None:
    """A new table fails here: say in `evenreel.library.store.schema` where it can be rebuilt from, or add it here."""
    assert schema.kept_tables() == ("meta", "roots", "files", "replaced")
    groups = [*schema.FROM_SHARDS, *schema.DERIVED, *schema.kept_tables()]
    assert sorted(
        {*groups, *schema.FULL_TEXT}
        - {"track_words", "said_words", "vocabulary_trigrams", "said_trigrams", "about", "name_trigrams"}
    ) == sorted(schema.tables())
    assert len(groups) == len(set(groups))


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (table, column.name)
        for table, columns in schema.tables().items()
        for column in columns
        if table not in {"seals", "shots", "recorded"}
    ],
)
def test_a_change_in_any_column_of_any_table_is_found(library: Path, table: str, column: str) -> None:
    """Also where no other check would see it; that of a shot is in test_shots.py, of a day in test_browsing.py."""
    if table == "replaced":
        write(library, "INSERT INTO replaced VALUES ('00')")
    assert verify(library) == []
    key = schema.tables()[table][0].name
    with closing(sqlite3.connect(library / "catalog.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        new = "x" if schema.Column(column, "TEXT") in schema.tables()[table] else 77
        done = connection.execute(
            f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {key} = (SELECT max({key}) FROM {table})", (new,)
        )
        assert done.rowcount
    assert any(
        problem.where in {f"table {table} of catalog.sqlite", "catalog.sqlite"} for problem in verify(library)
    ) or (
        table in seals.SEALED_WITH
        and any(problem.where == "table clips of catalog.sqlite" for problem in verify(library))
    )


STATEMENTS = st.sampled_from(
    (
        "INSERT OR REPLACE INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id) VALUES"
        " ('/{0}', 'n', '/', 1, {1}, 1, 'indexed', (SELECT clip_id FROM clips WHERE clip_id = '{1}'))",
        "INSERT OR IGNORE INTO clips VALUES ('{0}', 'c', 'c', {1}, 1, -0.0, {1}, 1, 1, '[]', '')",
        "INSERT INTO clips VALUES ('{0}', 'c', 'c', 1, 1, NULL, 1, 1, 1, '[]', '')"
        " ON CONFLICT (clip_id) DO UPDATE SET height = {1}",
        "INSERT OR REPLACE INTO moments SELECT clip_id, {1}, 0.1, 1, 2 FROM clips WHERE clip_id = '{0}'",
        "UPDATE moments SET time_s = time_s + {1} WHERE clip_id = '{0}'",
        "UPDATE files SET clip_id = NULL WHERE path = '/{0}'",
        "UPDATE files SET path = CAST(path || x'ff' AS BLOB) WHERE path = '/{1}'",
        "DELETE FROM clips WHERE clip_id = '{0}'",
        "DELETE FROM moments",
        "INSERT OR REPLACE INTO null_scores VALUES ('{0}', 0.{1}, 1e-300)",
        "INSERT OR REPLACE INTO meta VALUES ('{0}', '{1}')",
        "DELETE FROM meta WHERE key = '{0}'",
        "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box) SELECT clip_id,"
        " (SELECT count(*) FROM tracks), '\u00e9{1}', '', 1, 1, 1, '' FROM clips WHERE clip_id = '{0}'",
    )
)


@settings(max_examples=20)
@given(st.lists(st.tuples(STATEMENTS, st.integers(0, 3), st.integers(0, 3)), max_size=25))
def test_seals_follow_whatever_is_written(statements: list[tuple[str, int, int]]) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        schema.lay_down(connection)
        seals.guard(connection)
        for statement, *numbers in statements:
            try:
                connection.execute(statement.format(*numbers))
            except sqlite3.IntegrityError:  # a clip that a file has cannot go
                continue
            assert seals.broken(connection) == []
            assert (seals.stored(connection) or {}) == {
                part: total for part, total in seals.computed(connection).items() if total
            }


@given(st.lists(st.tuples(st.text(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False))))
def test_rows_summed_at_once_are_summed_alike(rows: list[tuple[str, int, float]]) -> None:
    keys = [key for key, _, _ in rows]
    numbers, floats = np.array([row[1] for row in rows], np.int64), np.array([row[2] for row in rows], np.float64)
    assert seals.total_of("t", keys, numbers, floats) == sum(seals.row_checksum("t", *row) for row in rows) % 2**62


# The second copy --------------------------------------------------------------------------------------------------


def test_the_second_copy_has_what_no_shard_says(library: Path) -> None:
    copy = read_copy(library)
    assert copy is not None
    assert {row["path"] for row in copy.rows["files"]} == {row[0] for row in table_of(library, "files")}
    assert {row["key"] for row in copy.rows["meta"]} >= {"rule", "model", "weights_hash", "null_vectors"}
    assert not {"null_best", "vectors_end", "changes"} & {row["key"] for row in copy.rows["meta"]}
    assert copy.lost == 0


@pytest.mark.parametrize("place", [0.0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_damaged_copy_is_found_and_written_anew(library: Path, place: float) -> None:
    before, path = whole(library), library / FILE
    content = bytearray(path.read_bytes())
    sound = bytes(content)
    content[int(place * len(content))] ^= 4
    path.write_bytes(content)
    assert [problem.where for problem in verify(library)] == [FILE]
    repair(library)
    assert (verify(library), whole(library)) == ([], before)
    assert path.read_bytes().split(b"\n")[1:] == sound.split(b"\n")[1:]


def test_lines_of_the_copy_that_are_sound_are_used_beside_damaged_ones(library: Path, videos: Path) -> None:
    """The catalog is gone, and with it one line: that file is found again."""
    before, path = whole(library), library / FILE
    lines = path.read_bytes().split(b"\n")
    (lost,) = (number for number, line in enumerate(lines) if b"clip_02.mp4" in line)
    lines[lost] = lines[lost].replace(b"clip_02", b"clip_07")
    path.write_bytes(b"\n".join(lines))
    (library / "catalog.sqlite").unlink()
    repair(library)
    assert len(state(library)["files"]) == CLIPS
    report = index_folders([videos], library, QUICK)
    assert (report.recognised, report.indexed) == (1, 0)
    assert [row for row in whole(library)["files"] if "clip_02" not in row[0]] == [
        row for row in before["files"] if "clip_02" not in row[0]
    ]


def test_an_old_catalog_in_the_place_of_the_new_one_is_found_and_brought_forward(library: Path, videos: Path) -> None:
    """As a log that lost its end would leave it, or a backup."""
    earlier = (library / "catalog.sqlite").read_bytes()
    write(library, "UPDATE files SET metadata = '{\"caption\": \"a green bus\"}' WHERE name = 'clip_01.mp4'")
    repair(library)
    before = whole(library)
    (library / "catalog.sqlite").write_bytes(earlier)
    assert any(problem.what == "it is not as the last run left it" for problem in verify(library))
    repair(library)
    assert (verify(library), whole(library)) == ([], before)


def test_a_run_that_was_killed_leaves_a_copy_that_is_behind_and_no_problem(library: Path) -> None:
    with closing(open_for_writing(library)) as connection:
        connection.execute("BEGIN")
        connection.execute("UPDATE files SET size = size + 1 WHERE name = 'clip_01.mp4'")
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'changes'")
        connection.execute("COMMIT")
    after = whole(library)
    assert verify(library) == []
    repair(library)
    assert whole(library) == after


def test_a_log_whose_catalog_is_gone_is_not_taken_for_that_of_the_new_one(library: Path) -> None:
    before = whole(library)
    with closing(open_for_writing(library)) as connection:
        connection.execute("INSERT INTO roots VALUES ('/another')")
        for name in ("catalog.sqlite-wal", "catalog.sqlite-shm"):
            shutil.copy(library / name, library / f"{name}.kept")
    for name in ("catalog.sqlite-wal", "catalog.sqlite-shm"):
        (library / f"{name}.kept").rename(library / name)
    (library / "catalog.sqlite").unlink()
    repair(library)
    assert (verify(library), whole(library)) == ([], before)


def test_a_catalog_that_may_not_be_written_is_said_so(library: Path) -> None:
    """Byte 18 of the header: SQLite reads such a file and never writes it."""
    before, path = whole(library), library / "catalog.sqlite"
    content = bytearray(path.read_bytes())
    content[18] ^= 8
    path.write_bytes(content)
    assert {problem.where for problem in verify(library)} == {"catalog.sqlite"}
    repair(library)
    assert (verify(library), whole(library)) == ([], before)


def test_an_unchanged_index_run_writes_neither_catalog_nor_copy(library: Path, videos: Path) -> None:
    index_folders([videos], library, QUICK)
    before = [(library / name).stat().st_mtime_ns for name in ("catalog.sqlite", FILE)]
    content = (library / "catalog.sqlite").read_bytes()
    assert index_folders([videos], library, replace(QUICK, retry=False)).did_nothing
    assert (library / "catalog.sqlite").read_bytes() == content
    assert [(library / name).stat().st_mtime_ns for name in ("catalog.sqlite", FILE)] == before
