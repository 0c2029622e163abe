from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenreel.config import IndexSettings
from evenreel.errors import LibraryError
from evenreel.features import shards
from evenreel.features.shards import read_shard, write_shard
from evenreel.library import index_folders, open_library, repair, verify
from evenreel.library.search import searcher as search_module
from evenreel.library.search.snapshot import ClipColumns
from evenreel.library.store.catalog import library_lock, open_for_writing, set_meta, transaction
from evenreel.library.store.user_tables import COPY
from evenreel.library.store.writer import insert_clip
from scripts import damage_catalog
from scripts.damage_catalog import Made, flip_bit, hurt_file, hurt_page, try_both
from tests import prebuilt
from tests.features.test_shards import make_shard
from tests.library.damage import change, library, videos, without_models, write
from tests.library.state import state
from tests.library.videos import write_folder

__all__ = ["library", "videos"]

SETTINGS = IndexSettings(model="builtin", read_text=False, workers=2)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("made")
    videos = place / "videos"
    write_folder(videos, 3)
    (videos / "metadata.csv").write_text("path,caption\nclip_00.mp4,a red tram\n")
    prebuilt.library(videos, place / "library", SETTINGS)
    return videos, place / "library"


Damage = Callable[[Path], None]


def first_shard(library: Path) -> Path:
    return sorted(library.glob("shards/*/*.safetensors"))[0]


def altered(pattern: str, change_of: Callable[[bytes], bytes]) -> Damage:
    """The first file of these names has other content."""

    def damage(library: Path) -> None:
        path = sorted(library.glob(pattern))[0]
        path.write_bytes(change_of(path.read_bytes()))

    return damage


def gone(pattern: str) -> Damage:
    return lambda library: sorted(library.glob(pattern))[0].unlink()


def sql(statement: str) -> Damage:
    return lambda library: change(library, statement)


def with_halves_exchanged(content: bytes) -> bytes:
    head, rows = content[:64], content[64:]
    return head + rows[len(rows) // 2 :] + rows[: len(rows) // 2]


def reverse_vectors(library: Path) -> None:
    """The same library, its clips the other way round in the matrix."""
    path, connection = next(library.glob("vectors.*.f16")), open_for_writing(library)
    content = path.read_bytes()
    (dimension,) = connection.execute("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'dimension'").fetchone()
    rows, end, parts = "SELECT clip_id, first_row, count FROM vector_rows ORDER BY clip_id DESC", 0, []
    for clip_id, first, count in connection.execute(rows).fetchall():
        parts.append(content[64 + 2 * dimension * first :][: 2 * dimension * count])
        connection.execute("UPDATE vector_rows SET first_row = ? WHERE clip_id = ?", (end, clip_id))
        end += count
    connection.close()
    path.write_bytes(content[:64] + b"".join(parts))


SHARD, VECTORS, CATALOG = "shards/*/*.safetensors", "vectors.*.f16", "catalog.sqlite"
STATEMENTS = (
    *(
        f"UPDATE clips SET {change}"
        for change in (
            *("duration_s = duration_s + 1", "width = 3", "height = 3", "fps = NULL", "container = 'x'", "codec = 'x'"),
            *("has_text = 1 - has_text", "has_vision = 0", """notes = '["a lie"]'"""),
        )
    ),
    "UPDATE moments SET time_s = time_s + 1 WHERE number = 0",
    "DELETE FROM about",
    "DELETE FROM about_data",
    "DELETE FROM track_words_data",
    *(f"DROP TABLE {name}" for name in ("about_config", "track_words", "track_vocabulary", "track_blocks")),
    "DROP TABLE track_words_content",
    "INSERT INTO track_vocabulary VALUES ('ghost', 1, 1)",
    "DROP TABLE vector_rows",
    "UPDATE vector_rows SET first_row = first_row + 1",
    "DROP TABLE roots",
    "UPDATE meta SET value = 'every 7 s' WHERE key = 'rule'",
    "UPDATE meta SET value = 'x' WHERE key = 'weights_hash'",
    "UPDATE meta SET value = '7x' WHERE key = 'dimension'",
    "DELETE FROM meta WHERE key IN ('encoder_id', 'weights_hash', 'dimension', 'rule', 'model')",
)
DERIVED = {
    **{statement: sql(statement) for statement in STATEMENTS},
    "zeroed vectors": altered(VECTORS, lambda content: bytes(len(content))),
    "cut vectors": altered(VECTORS, lambda content: content[:100]),
    "lost vectors": gone(VECTORS),
    "swapped vectors": altered(VECTORS, with_halves_exchanged),
}
FILES = ("UPDATE files SET clip_id = 'abc' WHERE name = 'clip_01.mp4'", "UPDATE files SET size = 'many'")
flip_shard = altered(SHARD, lambda content: content[:-3] + bytes([content[-3] ^ 0x40]) + content[-2:])
SHARDS = {"zeroed": altered(SHARD, lambda content: bytes(len(content))), "one bit": flip_shard, "lost": gone(SHARD)}
lose_catalog, garbage_catalog = gone(CATALOG), altered(CATALOG, lambda _: bytes(8192))
CATALOGS = {
    "garbage": garbage_catalog,
    "torn": altered(CATALOG, lambda content: content[: len(content) // 2]),
    "lost": lose_catalog,
}


def test_a_whole_library_has_no_problem(library: Path) -> None:
    assert verify(library) == []


@pytest.mark.parametrize("damage", DERIVED.values(), ids=DERIVED)
def test_what_is_derived_is_rebuilt_without_a_video(library: Path, damage: Damage) -> None:
    before = state(library)
    damage(library)
    problems = verify(library)
    assert problems
    assert all("evenreel verify --repair" in problem.remedy for problem in problems)
    assert repair(library)
    assert verify(library) == []
    assert state(library) == before


@pytest.mark.parametrize("damage", FILES)
def test_what_no_shard_says_costs_reading_the_files_once(library: Path, videos: Path, damage: str) -> None:
    before = state(library)
    change(library, damage)
    assert any("evenreel verify --repair" in problem.remedy for problem in verify(library))
    repair(library)
    assert verify(library) == []
    assert not list(library.rglob("*.safetensors.broken"))
    report = index_folders([videos], library, SETTINGS)
    assert (report.indexed, report.frames) == (0, 0)
    assert (state(library), verify(library)) == (before, [])


@pytest.mark.parametrize("damage", SHARDS.values(), ids=SHARDS)
def test_a_damaged_shard_costs_reading_its_file_again(library: Path, videos: Path, damage: Damage) -> None:
    before = state(library)
    damage(library)
    problems = verify(library)
    assert [problem.where.startswith("clip ") for problem in problems] == [True]
    assert "evenreel index" in problems[0].remedy
    assert len(repair(library)) > 1
    assert verify(library) == []
    assert len(state(library)["clips"]) == 2
    assert len(list(library.glob("shards/*/*.broken"))) == len(list(library.glob("shards/*/*"))) - 2
    report = index_folders([videos], library, SETTINGS)
    assert (report.indexed, report.unchanged) == (1, 2)
    assert state(library) == before


@pytest.mark.parametrize("with_copy", [True, False])
@pytest.mark.parametrize("damage", CATALOGS.values(), ids=CATALOGS)
def test_a_lost_catalog_is_made_anew_from_the_shards(
    library: Path, videos: Path, damage: Damage, with_copy: bool
) -> None:
    before = state(library)
    damage(library)
    assert [problem.where for problem in verify(library)] == ["catalog.sqlite"]
    if not with_copy:
        (library / COPY).unlink()
    assert any("evenreel index FOLDER" in line for line in repair(library))
    report = index_folders([videos], library, replace(SETTINGS, model="auto"))
    assert (report.indexed, report.recognised, report.frames) == (0, 3, 0)
    assert state(library) == before
    assert verify(library) == []


def test_a_damaged_catalog_is_kept_beside_the_new_one(library: Path) -> None:
    garbage_catalog(library)
    for use in (lambda: open_library(library), lambda: index_folders([library], library, SETTINGS)):
        with pytest.raises(LibraryError, match="damaged .* evenreel verify --repair"):
            use()
    done = repair(library)
    assert "catalog.sqlite.broken-1" in done[0]
    assert (library / "catalog.sqlite.broken-1").read_bytes() == b"\0" * 8192


def test_search_never_answers_from_a_damaged_matrix(library: Path) -> None:
    for name in ("lost vectors", "cut vectors"):
        DERIVED[name](library)
        with open_library(library) as opened, pytest.raises(LibraryError, match="evenreel verify --repair"):
            opened.search("a red square")
        repair(library)


def test_repairing_twice_and_before_indexing_loses_no_clip(library: Path, videos: Path) -> None:
    lose_catalog(library)
    for _ in range(2):
        repair(library, drop_missing=True)
    assert index_folders([videos], library, SETTINGS).indexed == 0


def test_missing_files_are_forgotten_when_asked(library: Path, videos: Path, tmp_path: Path) -> None:
    fewer = tmp_path / "fewer"
    shutil.copytree(videos, fewer)
    index_folders([fewer], library, SETTINGS)
    gone = fewer / "clip_00.mp4"
    gone.unlink()
    index_folders([fewer], library, SETTINGS)
    repair(library, drop_missing=True)
    found = state(library)
    assert len(found["files"]) == 5  # the other folder still has the clip
    assert len(found["clips"]) == 3
    assert verify(library) == []


def test_there_is_nothing_to_verify_or_repair_in_an_empty_folder(tmp_path: Path) -> None:
    for use in (verify, repair):
        with pytest.raises(LibraryError, match="There is no library"):
            use(tmp_path)


def test_leftovers_of_a_crash_are_cleared(library: Path, videos: Path) -> None:
    before = state(library)
    (first_shard(library).parent / ".half.0123456789abcdef.tmp").write_bytes(b"half")
    with next(library.glob("vectors.*.f16")).open("ab") as file:
        file.write(b"\xff" * 1000)
    assert verify(library) == []
    write_folder(videos.parent / "more", 4)
    index_folders([videos.parent / "more" / "clip_03.mp4"], library, SETTINGS)
    found = state(library)
    assert found["left over"] == []
    assert len(found["clips"]) == len(before["clips"]) + 1
    assert verify(library) == []


# What repair must not do ----------------------------------------------------------------------------------------


def everything(library: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(library)): path.read_bytes()
        for path in library.rglob("*")
        if path.is_file() and path.name not in {"index.lock", "catalog.sqlite-shm", "catalog.sqlite-wal"}
    }


@pytest.mark.parametrize("damage", [sql("DELETE FROM about"), lose_catalog, garbage_catalog])
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_shard_that_cannot_be_read_just_now_is_kept(
    library: Path, monkeypatch: pytest.MonkeyPatch, code: int, damage: Damage
) -> None:
    damage(library)
    before, read_bytes = everything(library), Path.read_bytes
    refused = sorted(library.glob("shards/*/*.safetensors"))[1]

    def read(path: Path) -> bytes:
        if path == refused:
            raise OSError(code, os.strerror(code))
        return read_bytes(path)

    with monkeypatch.context() as failing:
        failing.setattr(Path, "read_bytes", read)
        with pytest.raises(LibraryError, match=rf"cannot be read \({os.strerror(code)}\); check the disk"):
            repair(library)
    assert before.items() <= everything(library).items()
    assert not list(library.rglob("*.broken*"))
    repair(library)
    assert len(state(library)["clips"]) == 3
    assert verify(library) == []
    assert not list(library.glob("*.rebuilt*"))


def test_a_shard_of_a_later_version_is_kept(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = read_shard(first_shard(library))
    with monkeypatch.context() as later:
        later.setattr(shards, "FORMAT", 2)
        write_shard(library / "shards", shard)
    before = everything(library)
    with pytest.raises(LibraryError, match="has format 2, this version reads up to 1; update evenreel"):
        repair(library)
    assert everything(library) == before


@pytest.mark.parametrize("drop_missing", [True, False])
def test_nothing_is_deleted_before_the_repair_is_committed(
    library: Path, monkeypatch: pytest.MonkeyPatch, drop_missing: bool
) -> None:
    write(library, "UPDATE files SET state = 'missing' WHERE path = (SELECT min(path) FROM files)")
    flip_shard(library)
    before, state_before = everything(library), state(library)

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as filling:
        filling.setattr("evenreel.library.check.ExactVectors.append", full)
        with pytest.raises(LibraryError, match=r"The disk of .* is full"):
            repair(library, drop_missing=drop_missing)
    assert everything(library).keys() == before.keys()
    assert state(library) == state_before
    repair(library, drop_missing=drop_missing)
    assert verify(library) == []


@pytest.mark.parametrize("message", ["database or disk is full", "disk I/O error"])
def test_a_catalog_that_cannot_be_written_is_a_sentence(
    library: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    before = state(library)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError(message)

    with monkeypatch.context() as failing:
        failing.setattr("evenreel.library.check.replace_rows", fail)
        with pytest.raises(LibraryError, match="is full" if "full" in message else "cannot be written: disk I/O error"):
            repair(library)
    assert state(library) == before


@pytest.mark.parametrize("message", ["database is locked", "disk I/O error", "unable to open database file"])
def test_a_busy_or_failing_catalog_is_not_a_damaged_one(
    library: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    before = everything(library)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError(message)

    with monkeypatch.context() as busy:
        busy.setattr("evenreel.library.store.catalog.check_version", fail)
        for use in (repair, verify, open_library, open_for_writing):
            with pytest.raises(LibraryError, match=f"cannot be read: {message}") as caught:
                use(library)
            assert "damaged" not in str(caught.value)
    assert everything(library) == before


def test_a_catalog_that_another_program_has_locked_is_kept(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **named: connect(*args, **{**named, "timeout": 0}))
    holder = connect(library / "catalog.sqlite", isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LibraryError, match="locked"):
        repair(library)
    holder.close()
    assert not list(library.glob("*.broken*"))
    assert verify(library) == []


@pytest.mark.parametrize("use", [open_library, open_for_writing, repair])
def test_no_connection_is_left_open_by_a_refusal(
    library: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Path], object]
) -> None:
    write(library, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    made, connect = [], sqlite3.connect

    def note(*args: object, **named: object) -> sqlite3.Connection:
        made.append(connect(*args, **named))  # type: ignore[call-overload]
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", note)
    with pytest.raises(LibraryError, match="has format 99"):
        use(library)
    for connection in made:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    assert made


def test_a_clip_that_is_missing_everywhere_is_forgotten_with_its_shard(library: Path) -> None:
    write(library, "UPDATE files SET state = 'missing' WHERE path = (SELECT min(path) FROM files)")
    assert "forgot 1 missing files and 1 clips that no other file has" in repair(library, drop_missing=True)
    found = state(library)
    assert (len(found["files"]), len(found["clips"]), len(found["shards"])) == (2, 2, 2)
    assert verify(library) == []


@pytest.mark.parametrize("rebuilt", [True, False])
@pytest.mark.parametrize("foreign", [{"weights_hash": "0" * 64}, {"rule": "every 7 s"}])
def test_a_shard_of_another_model_or_rule_is_not_taken_in(
    library: Path, videos: Path, foreign: dict[str, str], rebuilt: bool
) -> None:
    """The first shard by name: in a catalog made anew it must not decide for the others."""
    before = state(library)
    shard = replace(read_shard(first_shard(library)), **foreign)
    digest = write_shard(library / "shards", shard)
    write(library, f"UPDATE clips SET shard_hash = '{digest}' WHERE clip_id = '{shard.clip_id}'")
    assert "another model or sampling rule" in verify(library)[0].what
    if rebuilt:
        lose_catalog(library)
    assert any("another model" in line for line in repair(library))
    assert verify(library) == []
    report = index_folders([videos], library, SETTINGS)
    assert (report.indexed, report.frames > 0) == (1, True)
    assert state(library) == before


def test_a_new_catalog_is_never_made_beside_old_shards(library: Path, videos: Path) -> None:
    lose_catalog(library)
    with pytest.raises(LibraryError, match=r"catalog of .* is gone .*evenreel verify --repair"):
        index_folders([videos], library, SETTINGS)
    assert not (library / "catalog.sqlite").exists()


@pytest.mark.parametrize("metadata", ["{", "[]", "3", ""])
def test_broken_metadata_is_found_emptied_and_read_again(library: Path, videos: Path, metadata: str) -> None:
    before = state(library)
    change(library, f"UPDATE files SET metadata = '{metadata}' WHERE name = 'clip_00.mp4'")
    assert verify(library)
    assert any("metadata of 1 file," in line for line in repair(library))
    assert verify(library) == []
    index_folders([videos], library, SETTINGS)
    assert state(library) == before


def test_a_damaged_page_is_a_sentence_to_a_reader(library: Path) -> None:
    def every_reader_is_told() -> None:
        with open_library(library, vision=False) as opened:
            for use in (opened.stats, lambda: opened.search("clip", where="a = 1"), lambda: opened.search("clip")):
                with pytest.raises(LibraryError, match="evenreel verify --repair"):
                    use()

    change(library, "UPDATE files SET metadata = '{'")
    every_reader_is_told()  # before a page is damaged, too
    path = library / "catalog.sqlite"
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'files'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(content)
    every_reader_is_told()
    repair(library)
    assert verify(library) == []
    assert len(state(library)["clips"]) == 3


def test_a_library_that_is_being_written_is_not_verified(library: Path) -> None:
    with library_lock(library), pytest.raises(LibraryError, match=f"being written by process {os.getpid()}"):
        verify(library)


@pytest.mark.parametrize("mapped", [True, False])
def test_a_repair_between_the_query_and_its_answer_changes_nothing(
    library: Path, monkeypatch: pytest.MonkeyPatch, mapped: bool
) -> None:
    """The rows of the new matrix are in another order than those of the old one."""
    reverse_vectors(library)
    encode = search_module.encode_text

    def late(*request: object, **options: object) -> object:
        repair(library)
        return encode(*request, **options)  # type: ignore[arg-type]

    with open_library(library) as opened, open_library(library) as other:
        expected = other.search("a red square").hits
        if mapped:
            opened.search("a red square")
        monkeypatch.setattr(search_module, "encode_text", late)
        assert opened.search("a red square").hits == expected


def test_a_reader_sees_the_vectors_that_an_indexer_appends(library: Path, tmp_path: Path) -> None:
    with open_library(library) as opened:
        assert len(opened.search("a red square").hits) == 3
        write_folder(tmp_path / "more", 6)
        index_folders([tmp_path / "more"], library, SETTINGS)
        found = opened.search("a red square").hits
        with open_library(library) as fresh:
            assert found == fresh.search("a red square").hits
        assert len(found) > 3
        repair(library)
        assert opened.search("a red square").hits == found


def test_a_search_that_a_repair_overtakes_is_asked_again(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix of the search's moment is deleted before it is mapped."""
    read, calls = ClipColumns.read, list[ClipColumns]()

    def late(columns: ClipColumns, connection: sqlite3.Connection, generation: str) -> dict[str, Any]:
        calls.append(columns)
        found = read(columns, connection, generation)
        if len(calls) == 1:
            repair(library)
        return found

    monkeypatch.setattr(ClipColumns, "read", late)
    with open_library(library) as opened:
        assert len(opened.search("a red square").hits) == 3
    assert calls.count(calls[0]) == 2


def test_a_large_library_is_repaired(tmp_path: Path) -> None:
    """No query's cost is the product of tables: files x clips x tracks x moments would be 300^4 here."""
    library = tmp_path / "library"
    connection = open_for_writing(library)
    set_meta(connection, {"rule": "every 1 s", "model": ""})
    with transaction(connection):
        for number in range(300):
            shard = replace(make_shard(2), clip_id=f"{number:08x}", encoder_id=None, weights_hash=None, frames=None)
            insert_clip(connection, shard, write_shard(library / "shards", shard))
            connection.execute(
                "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id)"
                " VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?)",
                (f"/{number}.mp4", f"{number}.mp4", shard.clip_id),
            )
    connection.close()
    change(library, "DELETE FROM about")
    started = time.monotonic()
    repair(library)
    assert verify(library) == []
    assert time.monotonic() - started < 60


# Hazard 34: a small count of `scripts.damage_catalog`, the same damage each time -------------------------------------


@pytest.fixture(scope="module")
def harmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with without_models():
        yield damage_catalog.make(tmp_path_factory.mktemp("made") / "place", clips=3)


@pytest.mark.slow
def test_random_bits_pages_and_logs(harmed: Made, tmp_path: Path) -> None:
    """No error that is no sentence, no wrong answer that `verify` does not find, all repaired; much of it is found."""
    damages = [damage for damage in (flip_bit, hurt_page, hurt_file) for _ in range(5)]
    outcomes = [try_both(harmed, tmp_path / "damaged", damage, str(seed)) for seed, damage in enumerate(damages)]
    assert [outcome for outcome in outcomes if outcome.verdict.isupper()] == []
    assert sum(outcome.found for outcome in outcomes) >= 5
