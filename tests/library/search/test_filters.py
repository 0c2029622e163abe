from __future__ import annotations

import json
import operator
import os
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.library.search import filters as search_filters
from evenreel.library.search.filters import COLUMNS, Filter, columns_of, parse_filter
from evenreel.library.store.catalog import folder_of
from scripts.filter_attack import attack, filters
from tests.each import of_each
from tests.library.fakes import Library, empty_catalog

KEYS = {"source", "year", "two words", "größe", "Name"}

ROWS: list[dict[str, Any]] = [
    {"path": "/a/one.mp4", "duration_s": 12.0, "width": 640, "source": "camera", "year": 2019, "größe": 1.5},
    {"path": "/a/two.mp4", "duration_s": 75.5, "width": 640, "source": "sora", "year": "unknown"},
    {"path": "/b/it's.mp4", "duration_s": None, "width": 1080, "source": None, "year": 12, "two words": True},
    {"path": "/b/four.mp4", "duration_s": 60.0, "width": 0, "year": "12", "Name": "x' OR 1=1 --"},
]


def catalog() -> sqlite3.Connection:
    connection = empty_catalog()
    for number, row in enumerate(ROWS):
        metadata = {key: value for key, value in row.items() if key in KEYS}
        connection.execute(
            "INSERT INTO clips VALUES (?, 'mp4', 'h264', ?, 360, ?, 25, 1, 1, '[]', '')",
            (str(number), row["width"], row["duration_s"]),
        )
        connection.execute(
            "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, metadata)"
            " VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, ?)",
            (row["path"], row["path"].rpartition("/")[2], str(number), json.dumps(metadata, ensure_ascii=False)),
        )
    return connection


CATALOG = catalog()


def chosen(condition: Filter, connection: sqlite3.Connection = CATALOG) -> list[int]:
    rows = connection.execute(
        "SELECT CAST(clips.clip_id AS INTEGER) FROM files JOIN clips ON clips.clip_id = files.clip_id"
        f" WHERE {condition.sql} ORDER BY 1",
        condition.parameters,
    )
    return [number for (number,) in rows]


def passing(text: str) -> list[int]:
    return chosen(parse_filter(text, KEYS, columns_of(CATALOG)))


@of_each(
    [
        ("source = 'camera' and duration_s < 60", [0]),
        ("SOURCE = 'camera' AND Duration_S < 60", [0]),
        ("source != 'camera'", [1]),
        ("source is null", [2, 3]),
        ("source is not null", [0, 1]),
        ("not source = 'camera'", [1]),
        ("year = 12", [2]),
        ("year > 11", [0, 2]),
        ("not year > 2000", [2]),
        ("year = '12'", [2, 3]),
        ("year in (12, 2019)", [0, 2]),
        ("year not in ('12', 'unknown')", [0]),
        ("year like '20%'", [0]),
        ("duration_s between 12 and 60", [0, 3]),
        ("duration_s not between 12 and 60", [1]),
        ("(width = 640 or width = 1080) and not duration_s >= 60", [0]),
        ("width > height", [0, 1, 2]),
        ("width > -1 and width <= 6.4e2", [0, 1, 3]),
        ('"two words" = true', [2]),
        ("größe < 2", [0]),
        ("path like '/B/%'", [2, 3]),
        ("path = '/b/it''s.mp4'", [2]),
        ("path not like '/B/%'", [0, 1]),
        ("source not like 'cam%'", [1]),
        ("not source not like 'cam%'", [0]),
        ("year not like '20%' and year not in ('12')", [1]),
        ("name = 'one.mp4'", [0]),
        ("metadata.name = 'x'' OR 1=1 --'", [3]),
        ("duration_s < 99999999999999999999999999", [0, 1, 3]),
        ("width > .5e1 and width < 1.E3 and width != 0x10", [0, 1]),
        (" or ".join(["width = 640"] * 150), [0, 1]),
        ("not (" * 7 + "width = 640 and width = 1 or width = 0" + ")" * 7, [0, 1, 2]),
        ("has_text = true and codec = 'h264' and container like 'MP%'", [0, 1, 2, 3]),
    ]
)
def test_a_filter_finds_the_rows_a_person_expects(text: str, expected: list[int]) -> None:
    assert passing(text) == expected


REFUSED = [
    "' OR 1=1 --", "source = 'a' OR 1=1", "source = 'a' OR 1=1 --", "source = 'a' -- more", "source = 'a' /* more */",
    "1=1", "TRUE", "source = 'a'; DROP TABLE files", "source = 'a' UNION SELECT path FROM files",
    "source in (SELECT path FROM files)", "exists (select 1)", "load_extension('x') = 1", "length(source) = 6",
    "source || 'x' = 'camerax'", "duration_s + 1 < 60", "files.path = 'x'", "sqlite_master.sql = 'x'",
    "main.files.path = 'x'", "source = ?", "source = :name", "source = @name", "source like 'a' escape '\\'",
    "source glob '*'", "source regexp 'a'", "source match 'a'", "source is true", "source is 'camera'",
    "source = null", "source collate nocase = 'CAMERA'", "cast(source as integer) = 1",
    "case when 1 then source end = 'a'", "(source, year) = ('a', 1)", "source in ()", "source", "*", "", "   ",
    "source = 'unclosed", "source =", "((((", "\x00",
]  # fmt: skip


@of_each(REFUSED)
def test_anything_else_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(UsageError):
        parse_filter(text, KEYS)


@of_each(
    [
        ("colour = 'red'", r"no column 'colour' .*duration_s.*Name, größe, source"),
        ('source = "camera"', r"no column 'camera' .*single quotation marks: 'camera'"),
        ("duration_s < '60'", r"duration_s \(number\) and '60' \(text\); numbers are written plain"),
        ("codec = 264", r"codec \(text\) and 264 \(number\)"),
        ("year in (12, 'x')", r"one kind on all sides"),
        ("year = source", r"year and source are both metadata"),
        ("year like 12", r"compared by like"),
        ("source = 'a' or 1 = 1", r"needs a column"),
        ("length(source) = 6", r"no column 'length'"),
        ("source(length) = 6", r"cannot hold '\(' where it stands"),
        ("source = 'a' and", r"is cut off at its end"),
        ("path like '" + "%a" * 200 + "'", r"at most 256 characters are compared"),
        ("source = 'a' or " * 300 + "source = 'a'", r"has 4812 characters; at most 4000"),
        ("year=1 or " * 250 + "year=1", r"more than 200 conditions"),
        ("(" * 1500 + "year=1" + ")" * 1500, r"nested too deeply"),
        ("source = '\udcff'", r"not text"),
        ("width > 1e", r"'1e' is no number; write it as 60"),
        ("width > -1e", r"'-1e' is no number"),
        ("width between 1 and 1e1.5", r"'1e1.5' is no number"),
        ("width > 0x" + "F" * 3_900, r"is no number"),
        ("width + 0x" + "F" * 3_900 + " = 1", r"cannot hold"),
        ("width = " + "9" * 3_900 + " or 1 = 1", r"needs a column"),
        ("source in (" + "9" * 3_900 + ", 'x')", r"^.{,400}$"),
        ("x" * 3_900 + " = 1", r"no column 'x{80}' "),
        ("width = 1 and (" * 30 + "width = 1" + ")" * 30, r"nested too deeply"),
        ("not " * 50 + "width = 1", r"nested too deeply"),
    ]
)
def test_the_sentence_says_what_was_not_understood(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_filter(text, KEYS)


@pytest.mark.parametrize("key", ['a"b', "back\\slash", "new\nline"])
def test_a_metadata_key_that_json_escapes_is_refused_not_guessed(key: str) -> None:
    with pytest.raises(UsageError, match="cannot be filtered by"):
        parse_filter('"' + key.replace('"', '""') + '" = 1', {key})


def test_a_sentence_lists_no_more_columns_than_a_person_reads() -> None:
    with pytest.raises(UsageError, match=r"k0049, 51 more\.") as caught:
        parse_filter("nothing = 1", {f"k{number:04}" for number in range(100)} | {"z" * 10_000})
    assert len(str(caught.value)) < 1_000


folder_name = st.text("ab'%_", min_size=1, max_size=2)


@given(
    places=st.lists(st.lists(folder_name, min_size=1, max_size=5), min_size=1, max_size=4, unique_by=tuple),
    roots=st.lists(st.lists(folder_name, max_size=4), max_size=4, unique_by=tuple),
)
def test_relative_paths_begin_below_the_indexed_folder(places: list[list[str]], roots: list[list[str]]) -> None:
    """As they are shown to visitors; of what is above it nothing can be found out, letter by letter or at once."""
    made = Library(Path("unused"))
    connection, folders = made.connection, ["/" + "/".join(root) for root in roots]
    connection.executemany("INSERT INTO roots VALUES (?)", [(folder,) for folder in folders])
    for number, place in enumerate(places):
        path = "/" + "/".join(place) + ".mp4"
        made.add_clip(str(number))
        made.add_file(path, str(number))
        shown = os.path.join(folder_of(path, folders), place[-1] + ".mp4")
        for test, value, expected in (("=", shown, True), ("=", path, False), ("like", "/%", False)):
            quoted = value.replace("'", "''")
            condition = parse_filter(f"path {test} '{quoted}'", (), columns_of(connection, relative_paths=True))
            assert (number in chosen(condition, connection)) is expected, (test, value)
        folder = folder_of(path, folders).replace("'", "''")
        condition = parse_filter(f"folder = '{folder}'", (), columns_of(connection))
        assert number in chosen(condition, connection)


DATES = [
    ("2019-12-31T23:30:00", "2019-12-31"), ("2024-05-31", "2024-05-31"), (None, "2001-09-09"), ("1962", "1962-01-01"),
    ("1962-07", "1962-07-01"),
]  # fmt: skip


def test_dates_are_days_of_the_camera_or_else_of_the_file() -> None:
    made = Library(Path("unused"))
    for number, (created, _) in enumerate(DATES):
        made.add_clip(str(number))
        made.add_file(f"/v/{number}.mp4", str(number))
        if created:
            made.connection.execute("INSERT INTO recorded VALUES (?, ?)", (str(number), created))
    made.connection.execute("UPDATE files SET mtime_ns = 1000000000000000000")

    def found(text: str) -> list[int]:
        return chosen(parse_filter(text, (), columns_of(made.connection)), made.connection)

    for number, (_, day) in enumerate(DATES):
        assert found(f"date = '{day}'") == [number]
    assert found("date >= '2019-01-01'") == [0, 1]
    assert found("date between '2019-12-31' and '2019-12-31'") == [0]
    assert found("date like '2024-05%'") == [1]
    assert found("created is null") == [2]
    assert found("date < '1970-01-01'") == found("created like '1962%'") == [3, 4]
    assert found("modified = '2001-09-09'") == [*range(5)]
    assert found("orientation = 'landscape' and has_words = false and has_speech = 0") == [*range(5)]
    for wrong in ("date > 2024", "date = 'May'", "date > '2024-5-1'"):
        with pytest.raises(UsageError, match="A day is written '2024-05-31'"):
            found(wrong)


def test_a_time_in_utc_counts_as_the_day_that_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = empty_catalog()
    connection.execute("INSERT INTO clips VALUES ('0', 'mp4', 'h264', 3, 2, 1, 1, 1, 1, '[]', '')")
    connection.execute("INSERT INTO recorded VALUES ('0', '2024-05-31T22:30:00Z')")
    condition = parse_filter("created = '2024-06-01'", (), columns_of(connection))
    for zone, expected in (("UTC", None), ("Asia/Tokyo", (1,))):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        counted = connection.execute(f"SELECT 1 FROM clips WHERE {condition.sql}", condition.parameters).fetchone()
        assert counted == expected
    monkeypatch.undo()
    time.tzset()


def test_a_relative_path_that_is_not_utf_8_or_lies_at_the_top() -> None:
    made = Library(Path("unused"))
    connection = made.connection
    connection.executemany("INSERT INTO roots VALUES (?)", [("/",), (b"/v/\xff",)])
    made.add_clip("0")
    made.add_file(b"/v/\xff/a.mp4", "0")
    made.add_file("/v/w/a.mp4", "0")

    def count(text: str) -> int:
        condition = parse_filter(text, (), columns_of(connection, relative_paths=True))
        counted = connection.execute(f"SELECT count(*) FROM files WHERE {condition.sql}", condition.parameters)
        return int(counted.fetchone()[0])

    assert (count("path = 'a.mp4'"), count("path = 'v/w/a.mp4'"), count("path like '%'")) == (1, 1, 2)


def test_a_filter_that_takes_too_long_for_the_number_of_files_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is used up at once: what is looked at between two looks at the clock is more than four files."""
    monkeypatch.setattr("evenreel.library.search.filters.SECONDS", -1.0)
    monkeypatch.setattr("evenreel.library.search.filters.STEPS", 1)
    with pytest.raises(UsageError, match="on 4 files; make it simpler"):
        search_filters.passing(CATALOG, "files.clip_id", parse_filter("folder = 'x' or folder = 'y'"))
    monkeypatch.undo()
    assert len(search_filters.passing(CATALOG, "files.clip_id", parse_filter("width > -1"))) == 4


def test_hostile_filters_are_answered_or_refused_in_a_sentence() -> None:
    """A hundredth of what `python -m scripts.filter_attack` tries, and some random ones."""
    found = attack(filters(random_ones=300, seed=1, share=0.01))
    assert found.faults == []
    assert found.counts["answered"] > 40
    assert found.counts["refused"] > 2_000


def test_the_attack_tells_a_fault_from_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(connection: sqlite3.Connection, text: str | None, *, relative_paths: bool) -> Filter:
        if text == "traceback":
            raise ValueError(text)
        if text == "no sentence":
            raise UsageError("no")
        return Filter("(SELECT count(*) FROM sqlite_master) > 0" if text == "reads more" else "nonsense")

    monkeypatch.setattr("scripts.filter_attack.read_filter", broken)
    found = attack(["traceback", "no sentence", "reads more", "no SQL"])
    assert (found.counts["fault"], len(found.faults)) == (4, 4)


@given(st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable()))
def test_a_quoted_value_is_only_ever_a_value(value: str) -> None:
    condition = parse_filter("source = '" + value.replace("'", "''") + "'", KEYS)
    assert condition.sql == parse_filter("source = 'camera'", KEYS).sql
    assert condition.parameters == ('$."source"', value)


# Random expressions against a slow evaluation on the rows, with SQL's third truth value (None).

COMPARISONS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
numbers = st.sampled_from([0, 12, 60, 75.5, 640, 2019, -1])
texts = st.sampled_from(["camera", "sora", "12", "unknown", "2019", "", "it's"])


def quoted(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def value_of(row: dict[str, Any], column: str, like: object) -> Any:
    """The row's value as the kind that it is compared with."""
    value = row.get(column)
    if value is None or column in COLUMNS:
        return value
    if isinstance(like, str):
        return str(int(value)) if isinstance(value, bool) else str(value)
    return None if isinstance(value, str) else value


def comparison(column: str, sign: str, value: object) -> tuple[str, Any]:
    def evaluate(row: dict[str, Any]) -> bool | None:
        found = value_of(row, column, value)
        return None if found is None else COMPARISONS[sign](found, value)

    return f"{column} {sign} {quoted(value)}", evaluate


def membership(column: str, values: list[object]) -> tuple[str, Any]:
    def evaluate(row: dict[str, Any]) -> bool | None:
        found = value_of(row, column, values[0])
        return None if found is None else found in values

    return f"{column} in ({', '.join(map(quoted, values))})", evaluate


def negation(inner: tuple[str, Any]) -> tuple[str, Any]:
    def evaluate(row: dict[str, Any]) -> bool | None:
        value = inner[1](row)
        return None if value is None else not value

    return f"not ({inner[0]})", evaluate


def junction(word: str, left: tuple[str, Any], right: tuple[str, Any]) -> tuple[str, Any]:
    decisive = word == "or"

    def evaluate(row: dict[str, Any]) -> bool | None:
        values = [left[1](row), right[1](row)]
        if decisive in values:
            return decisive
        return None if None in values else not decisive

    return f"({left[0]}) {word} ({right[0]})", evaluate


number_columns = st.sampled_from(["duration_s", "width", "year"])
text_columns = st.sampled_from(["source", "year", "path"])
leaves = (
    st.builds(comparison, number_columns, st.sampled_from(list(COMPARISONS)), numbers)
    | st.builds(comparison, text_columns, st.sampled_from(list(COMPARISONS)), texts)
    | st.builds(membership, number_columns, st.lists(numbers, min_size=1, max_size=3))
    | st.builds(membership, text_columns, st.lists(texts, min_size=1, max_size=3))
)
expressions = st.recursive(
    leaves,
    lambda inner: st.builds(negation, inner) | st.builds(junction, st.sampled_from(["and", "or"]), inner, inner),
    max_leaves=8,
)


@given(expressions)
def test_sqlite_agrees_with_a_slow_evaluation(expression: tuple[str, Any]) -> None:
    text, evaluate = expression
    assert passing(text) == [number for number, row in enumerate(ROWS) if evaluate(row)]
