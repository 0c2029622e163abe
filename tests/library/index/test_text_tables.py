"""Tables as text, against what polars reads of them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.library.index.scan import read_json_lines, read_separated

WORDS = st.text(st.sampled_from("ab é,\"\n;\t'"), min_size=1, max_size=6).filter(
    lambda word: word.strip('\t\n "') != ""
)
WHOLE = st.integers(-(10**17), 10**17)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
COLUMNS = st.sampled_from([WORDS, WHOLE, NUMBERS, st.booleans()])


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    """Columns of one kind each; every column has a value, and any other may be missing."""
    rows = draw(st.integers(1, 6))
    columns = {}
    for name in draw(st.lists(st.text("xyz", min_size=1, max_size=3), min_size=2, max_size=4, unique=True)):
        kind = draw(COLUMNS)
        more = draw(st.lists(st.none() | kind, min_size=rows - 1, max_size=rows - 1))
        columns[name] = [draw(kind), *more]
    return pl.DataFrame(columns)


@given(tables(), st.sampled_from(",\t"))
def test_a_table_is_read_as_polars_reads_it(
    tmp_path_factory: pytest.TempPathFactory, made: pl.DataFrame, by: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "made.csv"
    made.write_csv(path, separator=by, quote_style="necessary")
    assert read_separated(path, by) == pl.read_csv(path, separator=by, infer_schema_length=None).to_dicts()


@given(tables())
def test_lines_of_json_are_read_as_polars_reads_them(
    tmp_path_factory: pytest.TempPathFactory, made: pl.DataFrame
) -> None:
    path = tmp_path_factory.getbasetemp() / "made.jsonl"
    made.write_ndjson(path)
    assert read_json_lines(path) == pl.read_ndjson(path).to_dicts()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("007\n12", [7, 12]),
        ("7\n2.5", [7.0, 2.5]),
        ("1e3\n.5", [1000.0, 0.5]),
        ("true\nFalse", [True, False]),
        ("true\n1", ["true", "1"]),
        ("7\n\n8", [7, 8]),
        ("9" * 19, ["9" * 19]),
        ("1700000000000000000\n-9223372036854775808", [1700000000000000000, -(2**63)]),
        ("9223372036854775808", ["9223372036854775808"]),
        ("x" * 200_000, ["x" * 200_000]),
        ("9" * 400, ["9" * 400]),
        ("1_000", ["1_000"]),
        ("2024-01-01", ["2024-01-01"]),
        ('"a\nb"', ["a\nb"]),
        ("٣", ["٣"]),  # a digit to Python, not to a filter
    ],
)
def test_a_column_has_the_type_that_all_its_values_have(tmp_path: Path, text: str, values: list[object]) -> None:
    (tmp_path / "made.csv").write_text(f"\ufeffn\n{text}\n", encoding="utf-8")
    read = [row["n"] for row in read_separated(tmp_path / "made.csv", ",")]
    assert list(map(repr, read)) == list(map(repr, values))


@pytest.mark.parametrize(
    ("line", "words"), [("[1]", "no JSON object"), ("{", "line 2 is no JSON"), ("3", "no JSON object")]
)
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "made.jsonl").write_text(json.dumps({"path": "a"}) + f"\n{line}\n")
    with pytest.raises(UsageError, match=words):
        read_json_lines(tmp_path / "made.jsonl")
