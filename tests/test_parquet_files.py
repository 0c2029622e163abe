"""Parquet tables from outside: a small file has no endless rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel import parquet_files
from evenreel.corpus import load_corpus, load_texts, make_corpus, save_corpus
from evenreel.corpus.folder import CAPTIONS, CLIPS
from evenreel.corpus.formats.plain_tables import _read_parquet
from evenreel.corpus.on_screen import TEXTS
from evenreel.errors import EvenreelError
from evenreel.evaluation.scores import load_scores
from evenreel.library.index.scan import _parquet_rows
from evenreel.parquet_files import ALWAYS_READ, read_table, scan_table
from evenreel.types import Corpus

ENDLESS = 300_000_000


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("endless") / "table.parquet"
    pl.LazyFrame().select(clip_id=pl.repeat(True, ENDLESS, dtype=pl.Boolean)).sink_parquet(path, compression="zstd")
    assert path.stat().st_size < 2**20
    return path


@given(st.lists(st.tuples(st.text(max_size=4), st.integers(-5, 5)), max_size=20))
def test_a_table_is_read_as_it_was_written(rows: list[tuple[str, int]]) -> None:
    table = pl.DataFrame(rows, {"text": pl.String, "number": pl.Int64}, orient="row")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a[1]*.parquet"  # no pattern
        table.write_parquet(path)
        assert read_table(path).equals(table)
        assert scan_table(path).select("number").collect().equals(table.select("number"))


def test_endless_rows_are_refused_before_they_are_read(endless: Path) -> None:
    with pytest.raises(pl.exceptions.ComputeError, match="300,000,000 rows in .* at most 30,000,000 or a row"):
        read_table(endless)


def test_more_rows_than_bytes_are_read_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    pl.select(a=pl.repeat(1, 50_000)).write_parquet(path)
    assert path.stat().st_size < 50_000 < ALWAYS_READ
    assert read_table(path).height == 50_000
    monkeypatch.setattr(parquet_files, "ALWAYS_READ", 49_999)
    with pytest.raises(pl.exceptions.ComputeError, match="50,000 rows"):
        read_table(path)


def small() -> Corpus:
    captions = pl.DataFrame({"caption_id": ["x"], "clip_id": ["a"], "text": ["t"]})
    return make_corpus(pl.DataFrame({"clip_id": ["a"]}), captions)


READERS: dict[str, Callable[[Path], object]] = {
    "a corpus": lambda table: load_corpus(table.parent),
    "words on screen": lambda table: load_texts(table.parent),
    "an import": _read_parquet,
    "scores": lambda table: load_scores(table, small()),
    "metadata": _parquet_rows,
}
PLACES = {"a corpus": (CAPTIONS, CLIPS), "words on screen": (TEXTS,)}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_a_table_says_so(reader: str, endless: Path, tmp_path: Path) -> None:
    save_corpus(small(), tmp_path)
    for name in PLACES.get(reader, ("table.parquet",)):
        table = tmp_path / name
        table.unlink(missing_ok=True)
        table.symlink_to(endless)
    with pytest.raises(EvenreelError, match="300,000,000 rows"):
        READERS[reader](table)


def test_no_other_place_reads_parquet_without_it() -> None:
    package = Path(parquet_files.__file__).parent
    reading = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if any(f"pl.{name}(" in path.read_text(encoding="utf-8") for name in ("read_parquet", "scan_parquet"))
    }
    assert reading <= {"parquet_files.py", "features/facts.py"}  # the second reads back its own cache
