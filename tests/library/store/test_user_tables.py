from __future__ import annotations

import json
import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.errors import LibraryError, UsageError
from evenreel.library import index_folders, open_library, repair, verify
from evenreel.library.index.run import make_empty
from evenreel.library.store import user_tables
from evenreel.library.store.catalog import CATALOG, open_for_writing, transaction
from evenreel.library.store.user_tables import AT_HOME, COPY, EARLIER, LOCK, OWN_TABLES, changing, copied, held_in
from tests import prebuilt
from tests.library.damage import change, table_of, write
from tests.library.words_only import index

MARK = "INSERT INTO marks (clip_id, time_s, favourite, note, path, made) VALUES (?, ?, 1, ?, '/v/a.mp4', 'now')"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library without videos, in which a person has marked two moments and saved a search."""
    make_empty(tmp_path / "library")
    put(tmp_path / "library", "before", "other")
    with changing(tmp_path / "library") as connection:
        connection.execute("INSERT INTO searches (name, query, seen, looked) VALUES ('bus', 'bus', '[]', '')")
    return tmp_path / "library"


def put(library: Path, *notes: str) -> None:
    with changing(library) as connection:
        for note in notes:
            connection.execute(MARK, ("a" * 32, float(len(own(connection))), note))


def own(connection: sqlite3.Connection) -> list[str]:
    return [note for (note,) in connection.execute("SELECT note FROM marks ORDER BY number")]


def notes(library: Path, file: str = CATALOG) -> list[str]:
    with closing(sqlite3.connect(f"file:{library / file}?mode=ro", uri=True)) as connection:
        return own(connection)


def test_the_copy_has_what_is_a_persons_own_and_nothing_else(library: Path) -> None:
    with closing(sqlite3.connect(library / COPY)) as copy:
        tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {*OWN_TABLES, "meta"}
    assert notes(library) == notes(library, COPY) == ["before", "other"]
    assert set(AT_HOME) < set(OWN_TABLES)


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_damage_anywhere_in_one_of_the_files_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A page of noise, or as it was before, which the other file tells of."""
    library = tmp_path_factory.mktemp("own") / "library"
    make_empty(library)
    put(library, *(f"note {number} " * 30 for number in range(60)))
    with closing(open_for_writing(library)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    earlier = {name: (library / name).read_bytes() for name in (CATALOG, COPY)}
    put(library, *(f"later {number} " * 30 for number in range(20)))
    with closing(open_for_writing(library)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    wanted = notes(library)
    name = data.draw(st.sampled_from([CATALOG, COPY]))
    content, size = bytearray((library / name).read_bytes()), 4096
    at = data.draw(st.integers(0, len(content) // size - 1)) * size
    old = earlier[name][at : at + size] if data.draw(st.booleans()) else b""
    content[at : at + size] = old if len(old) == size else b"\xa5" * size
    (library / name).write_bytes(content)
    repair(library)
    assert notes(library) == notes(library, COPY) == wanted
    assert verify(library) == []


@pytest.mark.parametrize(
    "statement",
    ["UPDATE marks SET note = 'befora' WHERE note = 'before'", "DELETE FROM marks", "UPDATE searches SET query = 'x'"],
)
def test_a_value_that_was_changed_behind_evenreels_back_is_found_by_the_copy(library: Path, statement: str) -> None:
    change(library, statement)
    assert [problem.where for problem in verify(library)] == [CATALOG]
    with pytest.raises(LibraryError, match="verify --repair"):
        put(library, "later")
    assert notes(library, COPY) == ["before", "other"]
    repair(library)
    assert verify(library) == []
    assert notes(library) == ["before", "other"]
    assert [row[2] for row in table_of(library, "searches")] == ["bus"]


def gone(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "mine.txt").write_text("not of the library")


@pytest.mark.parametrize("damage", [gone, cut, a_folder])
@pytest.mark.parametrize("mend", [repair, put], ids=["repair", "the next change"])
def test_a_copy_that_is_damaged_is_written_anew_and_what_was_there_is_kept(
    library: Path, damage: Callable[[Path], None], mend: Callable[[Path], object]
) -> None:
    damage(library / COPY)
    (problem,) = verify(library)
    assert (problem.where, "verify --repair" in problem.remedy) == (COPY, True)
    mend(library)
    assert (verify(library), notes(library, COPY)) == ([], ["before", "other"])
    assert [path.name for path in library.glob("*.broken-1")] == ([] if damage is gone else [f"{COPY}.broken-1"])


@pytest.mark.parametrize("lost", ["catalog", "catalog and shards"])
def test_a_catalog_that_is_gone_gets_everything_back(videos: Path, tmp_path: Path, lost: str) -> None:
    library = tmp_path / "library"
    prebuilt.library(videos, library)
    put(library, "before")
    before = {table: table_of(library, table) for table in ("roots", "marks")}
    for path in library.glob(f"{CATALOG}*"):
        path.unlink()
    if lost == "catalog":
        repair(library)
    else:
        shutil.rmtree(library / "shards")
        shutil.rmtree(library / "stills")
        index(videos, library)
    assert {table: table_of(library, table) for table in before} == before
    assert verify(library) == []


def test_an_older_catalog_in_the_place_of_the_newer_one_is_found_and_loses_nothing(library: Path) -> None:
    with closing(open_for_writing(library)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    older = (library / CATALOG).read_bytes()
    put(library, "later")
    for path in library.glob(f"{CATALOG}-*"):
        path.unlink()
    (library / CATALOG).write_bytes(older)
    assert [problem.where for problem in verify(library)] == [CATALOG]
    put(library, "last")
    assert sorted(notes(library)) == sorted(notes(library, COPY)) == ["before", "last", "later", "other"]
    assert verify(library) == []


@pytest.mark.parametrize("place", ["held_by", "replacing", "free_name"])
def test_a_kill_between_the_catalog_and_its_copy_loses_nothing(
    library: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    really, calls = getattr(user_tables, place), []

    def killed(*given: object) -> object:
        calls.append(given)
        if place != "held_by" or len(calls) == 3:  # before the change it reads both
            raise SystemExit("killed")
        return really(*given)

    if place == "free_name":
        cut(library / COPY)
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(user_tables, place, killed)
        put(library, "later")
    assert notes(library) == ["before", "other", "later"]
    put(library, "last")
    assert notes(library) == notes(library, COPY) == ["before", "other", "later", "last"]
    assert verify(library) == []


def test_damage_after_such_a_kill_costs_nothing_where_sqlite_still_reads_it(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(user_tables, "write_copy", lambda *_: (_ for _ in ()).throw(SystemExit()))
        put(library, "later")
    change(library, "DROP TABLE tracks")
    repair(library)
    assert notes(library) == ["before", "other", "later"]


def test_an_error_in_the_middle_writes_nothing(library: Path) -> None:
    with pytest.raises(UsageError), changing(library) as connection:
        connection.execute("DELETE FROM marks")
        raise UsageError("no")
    assert notes(library) == notes(library, COPY) == ["before", "other"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), LibraryError("No.")])
def test_a_run_that_is_broken_off_copies_what_it_has_done(library: Path, error: BaseException) -> None:
    with closing(open_for_writing(library)) as connection, pytest.raises(type(error)), copied(library, connection):
        with transaction(connection):
            connection.execute("INSERT INTO roots VALUES ('/videos')")
        raise error
    assert [row["path"] for row in held_in(library / COPY).rows["roots"]] == ["/videos"]


def test_a_run_that_finds_damage_does_not_copy_it(library: Path) -> None:
    with (
        closing(open_for_writing(library)) as connection,
        pytest.raises(LibraryError, match="verify --repair"),
        copied(library, connection),
    ):
        connection.execute("UPDATE marks SET note = ''")
    assert notes(library, COPY) == ["before", "other"]


def _write_ten(library: Path, letter: str) -> None:
    for number in range(10):
        with changing(library) as connection:
            connection.execute(MARK, (letter * 32, float(number), letter))


def test_several_processes_write_at_once(library: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_ten, args=(library, letter)) for letter in "bcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(notes(library)) == len(notes(library, COPY)) == 32
    assert verify(library) == []


def test_who_waits_too_long_is_told_to_try_again(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_tables, "WAIT_S", 0.01)
    with user_tables.alone(library), pytest.raises(LibraryError, match="try again"):
        put(library, "later")
    (library / LOCK).unlink(missing_ok=True)
    (library / LOCK).mkdir()
    with pytest.raises(LibraryError, match=rf"{LOCK} is a folder.*move it away"):
        put(library, "later")


def line(record: dict[str, object]) -> str:
    text = json.dumps(record, separators=(",", ":"))
    return f"{crc32(text.encode()):08x} {text}\n"


@pytest.fixture
def earlier() -> Iterator[dict[str, str]]:
    """The two files of a person's own in a library of format 7, each with a damaged line."""
    mark = {"clip_id": "c" * 32, "favourite": False, "note": "é", "path": "/v/\udcff.mp4", "made": "2026-11-01"}
    rows = [
        {"table": "marks", "row": {**mark, "time_s": None}},
        {"table": "marks", "row": {**mark, "time_s": 1.5, "favourite": True}},
        {"table": "searches", "row": {"name": "n", "query": "q", "where": "favourite", "seen": ["c"], "looked": ""}},
        {"table": "marks", "row": {"colour": "red"}},
        {"table": "smells", "row": {}},
    ]
    lines = [line({"format": 1, "revision": 3, "rows": 5}), *map(line, rows)]
    yield {EARLIER[0]: "".join(lines).replace("1.5", "7.5"), EARLIER[1]: "".join(lines).replace('"q"', '"x"')}


def test_hazard_90_what_was_kept_in_a_library_of_an_earlier_format_is_taken_in_once(
    videos: Path, tmp_path: Path, earlier: dict[str, str]
) -> None:
    library = tmp_path / "library"
    prebuilt.library(videos, library)
    write(library, "UPDATE meta SET value = '7' WHERE key = 'schema_version'")
    with pytest.raises(LibraryError, match=r"--library NEW.*copy personal\.jsonl there"):
        index(videos, library)
    new = tmp_path / "new"
    new.mkdir()
    for name, text in earlier.items():
        (new / name).write_text(text)
    index(videos, new)
    for _ in range(2):
        with open_library(new) as opened:
            marks = [(one.mark.time_s, one.mark.favourite, one.mark.note, one.path) for one in opened.personal.marks()]
            assert marks == [(None, False, "é", "/v/\udcff.mp4"), (1.5, True, "é", "/v/\udcff.mp4")]
            (search,) = opened.personal.searches()
            assert (search.query, search.where, search.seen) == ("q", "favourite", ("c",))
        assert index(videos, new).did_nothing
    assert sorted(path.name for path in new.glob("personal.*jsonl*")) == sorted(f"{name}.taken" for name in EARLIER)
    assert verify(new) == []


def test_a_first_run_that_is_taken_back_leaves_only_what_a_person_made(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: dict[str, str]
) -> None:
    def refuse(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("evenreel.library.store.writer.Store.put_clip", refuse)
    for name in ("empty", "full"):
        library = tmp_path / name
        if name == "full":
            library.mkdir()
            (library / EARLIER[0]).write_text(earlier[EARLIER[0]])
        with pytest.raises(KeyboardInterrupt):
            index_folders([videos], library, prebuilt.WORDS_ONLY)
    assert not (tmp_path / "empty").exists()
    assert notes(tmp_path / "full", COPY) == ["é"]
