from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.audits.exchange import DELTA_METRICS, location_figure, mix_r, relative_delta
from evenreel.errors import UsageError
from evenreel.evaluation import parse_metric

Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def tables(shared_data: Path) -> dict[str, Any]:
    """Tables 2 to 6 of the paper, a record a cell."""
    return dict(json.loads((shared_data / "ghost_tables.json").read_text()))


def test_every_relative_delta_of_the_paper(tables: dict[str, Any]) -> None:
    exact = 0
    for cell in tables["cells"]:
        metric = parse_metric(cell["metric"])
        found = relative_delta(metric, cell["mixed_REAL"], cell["mixed_AI"])
        exact += round(found, 2) == cell["relative_delta"]
        # MeanR is printed with two decimals: the delta is known to what these leave open.
        slack = 0.005
        ends = [
            relative_delta(metric, cell["mixed_REAL"] + real, cell["mixed_AI"] + made)
            for real in (-slack, slack)
            for made in (-slack, slack)
        ]
        low, high = (min(ends), max(ends)) if cell["metric"] == "MeanR" else (found, found)
        assert low - 0.0051 <= cell["relative_delta"] <= high + 0.0051, cell
    assert (len(tables["cells"]), exact) == (120, 110)


def test_every_mix_r_of_the_paper(tables: dict[str, Any]) -> None:
    printed = {}
    for cell in tables["cells"]:
        for kind in ("relative", "normalized"):
            key = (cell["table"], cell["dataset"], cell["model"], kind)
            printed.setdefault(key, {})[cell["metric"]] = cell[f"{kind}_delta"]
    assert len(tables["mixr"]) == 48
    for row in tables["mixr"]:
        found = mix_r(printed[row["table"], row["dataset"], row["model"], row["kind"]])
        assert found == pytest.approx(row["MixR_printed"], abs=0.0101)


def test_every_location_delta_of_the_paper_that_can_be_checked(tables: dict[str, Any]) -> None:
    figures: dict[tuple[str, ...], dict[str, dict[str, float]]] = {}
    for cell in tables["cells"]:
        of_kind = figures.setdefault((cell["table"], cell["dataset"], cell["model"]), {"REAL": {}, "AI": {}})
        for kind, known in of_kind.items():
            known[cell["metric"]] = cell[kind]
    checked = [cell for cell in tables["cells"] if cell["matches_location"] is not None]
    wrong = []
    for cell in checked:
        metric, of_kind = parse_metric(cell["metric"]), figures[cell["table"], cell["dataset"], cell["model"]]
        found = relative_delta(metric, *(location_figure(metric, of_kind[kind]) for kind in ("REAL", "AI")))
        printed = cell["relative_delta"] - cell["normalized_delta"]
        # Two printed deltas are rounded, and for MeanR the two figures below them.
        if found != pytest.approx(printed, abs=0.06 if cell["metric"] == "MeanR" else 0.0151):
            wrong.append((cell["table"], cell["model"], cell["metric"]))
    assert len(checked) == 96
    assert wrong == [("Table 4", "InternVideo", word) for word in ("R@1", "R@10", "MeanR")]  # a row printed twice


def test_a_worked_row() -> None:
    """CogVideoX and Alpro in Table 2, by hand."""
    real, generated = {"R@5": 45.1, "MedR": 8.0, "MeanR": 49.61}, {"R@5": 51.7, "MedR": 5.0, "MeanR": 40.14}
    mixed = {"R@10": (45.5, 50.7), "MedR": (14.0, 10.0), "MeanR": (82.94, 101.16)}
    expected = {"R@10": 2.83, "MedR": 14.67, "MeanR": 41.02}
    for word, pair in mixed.items():
        metric = parse_metric(word)
        place = relative_delta(metric, location_figure(metric, real), location_figure(metric, generated))
        assert relative_delta(metric, *pair) - place == pytest.approx(expected[word], abs=0.015)


@given(st.floats(0, 1000), st.floats(0, 1000), st.sampled_from(DELTA_METRICS))
def test_relative_deltas_are_bounded_and_change_sign_with_the_roles(real: float, made: float, metric: Any) -> None:
    delta = relative_delta(metric, real, made)
    assert -200 <= delta <= 200
    assert relative_delta(metric, made, real) == -delta
    if real == made:
        assert str(delta) == "0.0"
    elif delta:
        assert (delta > 0) == ((real > made) == metric.higher_is_better)


def test_arrays_are_taken_element_by_element() -> None:
    metric, real, made = parse_metric("MedR"), np.array([2.0, 0.0]), np.array([3.0, 0.0])
    assert relative_delta(metric, real, made).tolist() == [40.0, 0.0]
    located = location_figure(parse_metric("R@3"), {"R@1": real, "R@2": made})
    assert located.tolist() == [2.5, 0.0]


@pytest.mark.parametrize(
    ("word", "figures", "said"),
    [
        ("R@5", {"R@2": 1.0}, "R@3 is missing; there are: R@2"),
        ("MedR", {}, "MedR is missing; there are: none"),
        ("mAP", {"mAP": 1.0}, "mAP has no Location form"),
        ("nDCG@10", {}, "nDCG@10 has no Location form"),
    ],
)
def test_what_has_no_location_figure(word: str, figures: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        location_figure(parse_metric(word), figures)


def test_mix_r_needs_all_three() -> None:
    with pytest.raises(UsageError, match="MeanR is missing"):
        mix_r({"R@1": 1.0, "MedR": 1.0})
