"""What large libraries would cost is drawn on from what was measured, and the page prints what the script does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.scale_costs import WAIT_MS, Prices, along, cost, read_sizes, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
PRICES = Prices(core_hour=0.04, gb_month=0.023)


@pytest.mark.parametrize("moments", [120_000, 200_000, 1_500_000, 9_960_000])
def test_between_measured_sizes_a_figure_lies_on_the_line_between_its_neighbours(moments: float) -> None:
    rows = read_sizes()
    sizes, times = ([row[name] for row in rows] for name in ("moments", "p95_ms"))
    assert along(rows, "p95_ms", moments) == pytest.approx(np.interp(moments, sizes, times))


def test_beyond_them_it_goes_on_as_between_the_last_two() -> None:
    rows = [{"moments": 1.0, "p95_ms": 5.0}, {"moments": 2.0, "p95_ms": 6.0}, {"moments": 4.0, "p95_ms": 12.0}]
    assert along(rows, "p95_ms", 10.0) == pytest.approx(30.0)


@pytest.mark.parametrize("moments", [1e6, 5e7, 1e9])
def test_fewer_libraries_would_keep_people_waiting(moments: float) -> None:
    rows = read_sizes()
    parts = cost(rows, moments, PRICES).parts
    assert along(rows, "p95_ms", moments / parts) <= WAIT_MS
    assert parts == 1 or along(rows, "p95_ms", moments / (parts - 1)) > WAIT_MS


def test_the_page_has_the_table_that_the_script_prints() -> None:
    costs = [cost(read_sizes(), moments, PRICES) for moments in (1e6, 9.96e6, 1e8, 1e9)]
    for line in table(costs).splitlines():
        if not line.startswith("| ---"):
            assert line in PAGE.read_text(encoding="utf-8")
