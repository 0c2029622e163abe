"""Tables of audits as tables of Polars, whose heads have to differ."""

from __future__ import annotations

from evenreel.report.result import AuditTable, interval_cells, interval_columns


def test_words_numbers_and_gaps_keep_their_places() -> None:
    table = AuditTable("of groups", ("group", "count", "share, %"), (("a", 1, 50.5), ("b", 2, None), ("c", 3, 7)))
    made = table.to_frame()
    assert made.columns == ["group", "count", "share, %"]
    assert made.rows() == [("a", 1, 50.5), ("b", 2, None), ("c", 3, 7.0)]


def test_heads_that_are_there_before_say_of_what_they_are() -> None:
    columns = ("group", *interval_columns("R@1", "R@5"), "chance", "never", "chance", "chance")
    row = ("a", *interval_cells(None, None), 1, 2, 3, 4)
    made = AuditTable("of figures", columns, (row,)).to_frame()
    assert len(set(made.columns)) == len(columns)
    assert made.columns[4:9] == ["R@5", "low (R@5)", "high (R@5)", "chance", "never"]
    assert made.columns[9] == "chance (never)"
    assert made.rows() == [row]


def test_a_table_without_rows_has_its_columns() -> None:
    assert AuditTable("of nothing", ("a", "b"), ()).to_frame().columns == ["a", "b"]
