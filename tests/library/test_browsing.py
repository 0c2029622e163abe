from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenreel import open_library
from evenreel.errors import UsageError
from evenreel.library import index_folders, repair, verify
from evenreel.library.contents import (
    MAX_VALUES,
    NO_CHOICE,
    ExampleKind,
    Facet,
    FacetValue,
    Scalar,
    browse,
    example_candidates,
    facets,
    tried_examples,
    written_column,
)
from evenreel.library.search.filters import COLUMNS, Filter, columns_of, parse_filter, read_filter
from evenreel.library.search.result import Hit, SearchResult
from evenreel.library.store.catalog import metadata_keys
from tests.library.damage import QUICK, change, table_of, without_models
from tests.library.fakes import empty_catalog, on_disk
from tests.media.test_times import write_dated

Rows = list[dict[str, object]]


def catalog(rows: Rows) -> sqlite3.Connection:
    """A clip a row, of one file each."""
    connection = empty_catalog()
    for number, metadata in enumerate(rows):
        add_clip(connection, str(number), 1.5 * number)
        add_file(connection, f"/v/{number}.mp4", str(number), metadata)
    return connection


def add_clip(connection: sqlite3.Connection, clip_id: str, duration_s: float | None, read: bool = True) -> None:
    connection.execute(
        "INSERT INTO clips VALUES (?, 'mp4', 'h264', 640, 360, ?, 25.0, 1, ?, '[]', '')", (clip_id, duration_s, read)
    )


def add_file(
    connection: sqlite3.Connection, path: str, clip_id: str, metadata: dict[str, object], state: str = "indexed"
) -> None:
    connection.execute(
        "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, metadata)"
        " VALUES (?, 'name', '/v', 1, 1, 1, ?, ?, ?)",
        (path, state, clip_id, json.dumps(metadata, ensure_ascii=False)),
    )


ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([None, "2019-01-01", "2020-02-02", "2021-03-03"]), st.integers(0, 3)),
    max_size=12,
)


@given(rows=ROWS, limit=st.integers(1, 5))
def test_pages_are_the_clips_in_order_each_once(rows: list[tuple[int, str | None, int]], limit: int) -> None:
    """Rows are files: of which clip, on which day that was recorded, and how many days after 1970 they changed."""
    connection, clips, files = empty_catalog(), dict[int, str | None](), dict[int, list[tuple[str, int]]]()
    for number, (clip, day, changed) in enumerate(rows):
        path = f"/v/{number:02}.mp4"
        if clip not in clips:
            clips[clip] = day
            add_clip(connection, str(clip), 1.0)
            if day:
                connection.execute("INSERT INTO recorded VALUES (?, ?)", (str(clip), day))
        connection.execute(
            "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id)"
            " VALUES (?, 'a.mp4', '', 1, ?, 1, 'indexed', ?)",
            (path, (changed * 86_400 + 43_200) * 10**9, str(clip)),
        )
        files.setdefault(clip, []).append((path, changed))
    expected = []
    for clip, day in clips.items():
        path, changed = min(files[clip])
        expected.append((day or f"1970-01-{1 + changed:02}", changed, path, str(clip)))
    expected.sort(key=lambda one: one[2])
    expected.sort(key=lambda one: one[:2], reverse=True)
    found = [browse(connection, Filter(), "latest", limit, offset) for offset in range(0, len(expected) + 1, limit)]
    assert [(clip.day, clip.path, clip.clip_id) for page in found for clip in page.clips] == [
        (day, path, clip) for day, _, path, clip in expected
    ]
    assert all(page.total == len(expected) for page in found)
    by_path = browse(connection, Filter(), "path", 100).clips
    assert [clip.path for clip in by_path] == sorted(path for _, _, path, _ in expected)
    later = browse(connection, read_filter(connection, "date >= '2020-01-01'"), limit=100)
    assert {clip.clip_id for clip in later.clips} == {clip for day, *_, clip in expected if day >= "2020-01-01"}


def test_a_day_is_of_its_shard_and_a_changed_one_is_found(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    write_dated(tmp_path / "videos" / "a.mkv", "2019-12-31T23:30:00")
    with without_models():
        index_folders([tmp_path / "videos"], tmp_path / "library", QUICK)
    with open_library(tmp_path / "library", vision=False) as library:
        assert [clip.day for clip in library.browse("created = '2019-12-31'").clips] == ["2019-12-31"]
    change(tmp_path / "library", "UPDATE recorded SET created = '2020-01-01'")
    assert [problem.where.split()[0] for problem in verify(tmp_path / "library")] == ["clip"]
    repair(tmp_path / "library")
    assert table_of(tmp_path / "library", "recorded")[0][1] == "2019-12-31T23:30:00"
    assert verify(tmp_path / "library") == []


def test_a_library_is_browsed(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    made.add_clip("tram", ["red tram"])
    made.add_file("/v/a.mp4", "tram", {"source": "camera"})
    made.connection.close()
    with open_library(tmp_path) as library:
        (clip,) = library.browse().clips
        assert (clip.clip_id, clip.path, clip.metadata) == ("tram", "/v/a.mp4", {"source": "camera"})
        assert library.browse("source = 'phone'").total == 0
        assert of(library.facets(), "source").values == (FacetValue("camera", 1),)
        for wrong in ({"order": "size"}, {"limit": 0}, {"offset": -1}, {"where": "nothing = 1"}):
            with pytest.raises(UsageError):
                library.browse(**wrong)  # type: ignore[arg-type]


# Facets are told as filters write them, and their counts are what filters find ---------------------------------------


def passing(connection: sqlite3.Connection, text: str) -> int:
    where = parse_filter(text, metadata_keys(connection), columns_of(connection))
    (count,) = connection.execute(
        f"SELECT count(DISTINCT files.clip_id) FROM files JOIN clips USING (clip_id) WHERE {where.sql}",
        where.parameters,
    ).fetchone()
    return int(count)


def literal(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def of(found: list[Facet], column: str) -> Facet:
    (facet,) = [facet for facet in found if facet.column == column]
    return facet


ALWAYS = ["duration_s", "date", "codec", "orientation"]
"""Columns that every library with a clip can be filtered by, in their order; all clips here lie in one folder."""


def test_what_is_only_an_absence_is_no_choice() -> None:
    connection = catalog([{"source": ""}, {"source": " "}, {"indoors": False}])
    assert [facet.column for facet in facets(connection)] == [*ALWAYS, "indoors"]
    connection.execute("INSERT INTO tracks SELECT 1, clip_id, 0, 'EXIT', '[]', 1, 0, 1, '[]' FROM clips LIMIT 1")
    assert of(facets(connection), "has_words").values == (FacetValue(True, 1),)


def test_values_come_with_their_clips_the_most_frequent_first() -> None:
    sources = ["camera", "sora", "camera", "luma", None, "sora", "camera"]
    found = facets(catalog([{"source": source} for source in sources]))
    assert [facet.column for facet in found] == [*ALWAYS, "source"]
    assert of(found, "source").values == (FacetValue("camera", 3), FacetValue("sora", 2), FacetValue("luma", 1))
    assert of(found, "duration_s") == Facet("duration_s", "length in seconds", low=0.0, high=9.0, kind="range")


def test_numbers_of_many_values_have_a_range_and_texts_of_many_have_nothing() -> None:
    found = facets(catalog([{"year": 1990 + n, "id": f"x{n}", "mixed": n or "none"} for n in range(MAX_VALUES + 1)]))
    assert of(found, "year") == Facet("year", "year", low=1990.0, high=1990.0 + MAX_VALUES, kind="range")
    assert {facet.column for facet in found} == {*ALWAYS, "year"}
    few = facets(catalog([{"year": 1990 + n} for n in range(MAX_VALUES)]))
    assert len(of(few, "year").values) == MAX_VALUES


def test_a_clip_of_two_files_counts_once_and_missing_files_do_not() -> None:
    connection = catalog([{"source": "camera"}, {"source": "sora"}])
    add_file(connection, "/v/again.mp4", "0", {"source": "camera"})
    add_file(connection, "/v/other.mp4", "0", {"source": "phone"})
    add_clip(connection, "gone", 99.0, read=False)
    add_file(connection, "/v/gone.mp4", "gone", {"source": "tape", "lost": 1}, state="missing")
    found = facets(connection)
    assert of(found, "source").values == (FacetValue("camera", 1), FacetValue("phone", 1), FacetValue("sora", 1))
    assert of(found, "duration_s").high == 1.5
    assert [facet.column for facet in found] == [*ALWAYS, "source"]


@pytest.mark.parametrize("column", ["caption", "pair_id"])
def test_what_is_searched_as_text_or_names_a_clip_is_no_choice(column: str) -> None:
    assert [facet.column for facet in facets(catalog([{column: "a tram"}] * 3))] == ALWAYS


def test_days_are_told_by_months_or_years_the_latest_first() -> None:
    connection = catalog([{}] * 4)
    for number, day in enumerate(("2024-05-31", "2023-12-01T10:00:00", "2024-05-02")):
        connection.execute("INSERT INTO recorded VALUES (?, ?)", (str(number), day))
    found = facets(connection)
    months = FacetValue("2024-05", 2), FacetValue("2023-12", 1)
    assert of(found, "created") == Facet("created", "recorded", months, kind="days")
    assert of(found, "date").values == (*months, FacetValue("1970-01", 1))
    assert of(found, "modified").values == (FacetValue("1970-01", 4),)
    many = catalog([{}] * (MAX_VALUES + 1))
    for number in range(MAX_VALUES + 1):
        many.execute(
            "INSERT INTO recorded VALUES (?, ?)", (str(number), f"20{10 + number % 2}-{1 + number % 12:02}-01")
        )
        many.execute("UPDATE recorded SET created = ? WHERE clip_id = ?", (f"{1990 + number}-01-01", str(number)))
    assert [one.value for one in of(facets(many), "created").values] == [str(1990 + n) for n in range(30, 0, -1)]
    for value, clips in (("2024-05", 2), ("2023-12", 1)):
        assert passing(connection, f"date like '{value}%'") == clips


def test_folders_are_those_where_files_begin_to_lie_apart() -> None:
    connection = catalog([])
    connection.execute("INSERT INTO roots VALUES ('/videos')")
    for number, place in enumerate(("a/x/1", "a/x/2", "a/y/z/3", "a/4")):
        add_clip(connection, str(number), 1.0)
        add_file(connection, f"/videos/{place}.mp4", str(number), {})
    assert of(facets(connection), "folder").values == (FacetValue("a/x", 2), FacetValue("a/y", 1))
    connection.execute("DELETE FROM files WHERE path LIKE '%/4.mp4'")
    assert of(facets(connection), "folder").values == (FacetValue("a/x", 2), FacetValue("a/y", 1))
    add_clip(connection, "top", 1.0)
    add_file(connection, "/videos/top.mp4", "top", {})
    assert of(facets(connection), "folder").values == (FacetValue("a", 3),)
    assert passing(connection, "folder = 'a/y' or folder like 'a/y/%'") == 1


def test_an_empty_library_has_no_facets() -> None:
    assert facets(empty_catalog()) == []


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("year", "year"),
        ("two words", '"two words"'),
        ("select", "select"),
        ("between", '"between"'),
        ("null", '"null"'),
        ("true", '"true"'),
        ("2nd", '"2nd"'),
        ("größe", '"größe"'),
        ("a.b", '"a.b"'),
        ("x -- y", '"x -- y"'),
        ("it's", '"it\'s"'),
        ("name", "metadata.name"),
        ("Duration_S", "metadata.Duration_S"),
        ('quo"te', None),
        ("back\\slash", None),
        ("line\n", None),
    ],
)
def test_a_column_is_written_the_shortest_way(key: str, expected: str | None) -> None:
    assert written_column(key, {key, "other"}) == expected


NAMES = [
    *["Source", "source", "SOURCE", "metadata", "metadata.x", "select", "order", "group", "date", "in", "x", "X"],
    "is null",
    *COLUMNS,
]
names = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(NAMES)
words = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=6)
values: st.SearchStrategy[object] = st.none() | words | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(0, 1)


@example([{"pair_id": ""}])
@given(st.lists(st.dictionaries(names, values, max_size=5), min_size=1, max_size=5))
def test_every_facet_is_one_that_a_filter_takes_and_finds_the_clips_of(rows: Rows) -> None:
    connection = catalog(rows)
    keys = {key for row in rows for key in row} - NO_CHOICE
    filterable = {key for key in keys if json.dumps(key, ensure_ascii=False) == f'"{key}"'}
    found = facets(connection)
    labelled = {facet.column for facet in found if facet.values} - columns_of(connection).keys()
    assert len(labelled) == len(
        {key for key in filterable if any(row.get(key) is not None and str(row[key]).strip() for row in rows)}
    )
    every = " and ".join(f"not {facet.column} is null" for facet in found)
    assert passing(connection, every) <= len(rows)
    for facet in found:
        column = facet.column
        if facet.low is not None:
            assert passing(connection, f"{column} between {facet.low!r} and {facet.high!r}") == len(rows)
        for entry in facet.values if facet.kind == "values" else ():
            # Text finds numbers that are written the same, see `evenreel.library.search.filters`.
            same = sum(other.clips for other in facet.values if alike(other.value, entry.value))
            assert passing(connection, f"{column} in ({literal(entry.value)})") == same


def alike(other: Scalar, asked: Scalar) -> bool:
    if not isinstance(asked, str):
        return not isinstance(other, str) and other == asked
    return asked == (other if isinstance(other, str) else str(int(other) if isinstance(other, bool) else other))


# Examples that are offered were run; each kind has one before another has two ----------------------------------------


KINDS: tuple[ExampleKind, ...] = ("read", "said", "caption")
HIT = Hit("c", "/v/c.mp4", 1.0, False, None, 1.0, {}, (), (), 1.0)


def searcher(fitting: set[str], refused: set[str]) -> tuple[list[str], object]:
    """A search that is answered for these words, and refuses others; and what it was asked."""
    asked: list[str] = []

    def search(text: str) -> SearchResult:
        asked.append(text)
        if text in refused:
            raise UsageError("wrong quotes")
        return SearchResult(text, (replace(HIT, weaker=text not in fitting),))

    return asked, search


TEXTS = st.lists(st.sampled_from([a + b for a, b in product("abc", "xyz")]), max_size=4, unique=True)


@given(
    candidates=st.dictionaries(st.sampled_from(KINDS), TEXTS),
    fitting=st.sets(st.sampled_from([a + b for a, b in product("abc", "xyz")])),
    refused=st.sets(st.sampled_from(["ax", "by"])),
)
def test_only_what_fits_is_offered_kinds_in_turn(
    candidates: dict[ExampleKind, list[str]], fitting: set[str], refused: set[str]
) -> None:
    asked, search = searcher(fitting, refused)
    found = tried_examples(candidates, search)  # type: ignore[arg-type]
    good = {kind: [text for text in texts if text in fitting - refused] for kind, texts in candidates.items()}
    in_turn = [(kind, texts[place]) for place in range(4) for kind, texts in good.items() if place < len(texts)]
    expected: list[tuple[ExampleKind, str]] = []
    for kind, text in in_turn:
        if text not in [told for _, told in expected] and len(expected) < 3:
            expected.append((kind, text))
    assert [(one.kind, one.query) for one in found] == expected
    assert {one.query for one in found} <= set(asked)


@pytest.fixture
def texts() -> sqlite3.Connection:
    """Two clips with signs, words that are said, and captions."""
    connection = empty_catalog()
    for clip in ("1", "2"):
        add_clip(connection, clip, 1.0)
    add_file(connection, "/v/a.mp4", "1", {"caption": "a tram in the rain"})
    add_file(connection, "/v/b.mp4", "2", {"caption": "a ferry that has gone"}, state="missing")
    add_file(connection, "/v/c.mp4", "2", {"caption": 12345678901})
    signs = [
        *(("1", 0, "HARBOUR", 0.99), ("2", 0, "HARBOUR", 0.99), ("1", 1, "FERRY", 0.99), ("1", 2, "12:30", 0.99)),
        *(("1", 3, "SURE", 0.5), ("1", 4, 'the "CAFE"', 0.99), ("1", 5, "A" * 61, 0.99), ("1", 6, "seen: X", 0.99)),
    ]
    connection.executemany(
        "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
        " VALUES (?, ?, ?, '[]', ?, 0, 1, '[]')",
        signs,
    )
    connection.executemany(
        "INSERT INTO utterances (clip_id, number, transcript, text, start_s, end_s, words)"
        " VALUES ('1', ?, 0, ?, 0, 1, '[]')",
        [(0, "Good day."), (1, "The ferry waits for nobody."), (2, "Yes."), (3, "a\nline\nand another one")],
    )
    return connection


def test_candidates_are_short_lines_of_words_that_are_there(texts: sqlite3.Connection) -> None:
    assert example_candidates(texts) == {
        "read": ["HARBOUR", "FERRY"],  # that of two clips first; no figures, nothing unsure, no sign of the language
        "said": ["The ferry waits for nobody.", "Good day."],  # sentences before two words, and one line
        "caption": ["a tram in the rain"],
    }
