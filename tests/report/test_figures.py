"""Figures from plain data: every value is where it belongs, words are text, and the size has a limit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from evenreel.errors import UsageError
from evenreel.evaluation.intervals import Interval
from evenreel.report import figures as figures_module
from evenreel.report.figures import (
    Panel,
    deltas_by_group,
    effect_intervals,
    share_sweep,
    similarity_histogram,
    vector_map,
)
from evenreel.report.result import Effect

NAN = float("nan")


def drawn(figure: Any) -> Any:
    """As a page gets it."""
    return json.loads(json.dumps(figure.to_plotly_json(), default=lambda array: np.asarray(array).tolist()))


def test_bars_have_their_values_and_the_lengths_of_both_halves_of_their_intervals() -> None:
    deltas = {
        "R@1": {"sora <b>": Interval(10.0, 4.0, 13.0), "a very long name": Interval(-5.0)},
        "MedR": {"sora <b>": Interval(NAN)},
    }
    figure = drawn(deltas_by_group(deltas, "difference, above 0: real"))
    first, second = figure["data"]
    assert (first["name"], first["x"]) == ("R@1", ["sora &lt;b&gt;", "a very<br>long name"])
    assert first["y"] == [10.0, -5.0]
    assert first["error_y"]["array"] == [3.0, None]
    assert first["error_y"]["arrayminus"] == [6.0, None]
    assert first["customdata"] == ["10.00 (4.00 to 13.00)", "-5.00"]
    assert second["y"] == [None]
    assert figure["layout"]["yaxis"]["title"]["text"] == "difference, above 0: real"


def test_effects_stand_below_each_other_with_the_neutral_value() -> None:
    effects = {"old.npz": Effect("win rate, %", 60.0, 55.0, 66.0, 50.0), "new.npz": Effect("win rate, %", 51.0)}
    figure = drawn(effect_intervals(effects))
    (points,) = figure["data"]
    assert (points["x"], points["y"]) == ([60.0, 51.0], ["old.npz", "new.npz"])
    assert points["error_x"]["array"] == [6.0, None]
    assert figure["layout"]["shapes"][0]["x0"] == 50.0
    assert figure["layout"]["yaxis"]["autorange"] == "reversed"
    assert figure["layout"]["xaxis"]["title"]["text"] == "win rate, %"


def test_a_sweep_has_a_panel_each_and_a_name_one_colour() -> None:
    line = [(0.0, Interval(30.0, 28.0, 32.0)), (20.0, Interval(31.0, 29.0, 33.0))]
    parts = [
        Panel("real <i>", "R@1, %", {"text": line, "zero-shot": [(0.0, Interval(20.0, 18.0, 22.0))]}),
        Panel("mixed", "MixR", {"video": line, "text": [(share, Interval(one.value)) for share, one in line]}),
    ]
    figure = drawn(share_sweep(parts, "share of generated clips"))
    band, text, zero_shot, other_band, video, plain_text = figure["data"]
    assert band["y"] == [32.0, 33.0, 29.0, 28.0]
    assert band["x"] == [0.0, 20.0, 20.0, 0.0]
    assert (text["xaxis"], text["y"], text["mode"]) == ("x", [30.0, 31.0], "lines+markers")
    assert (zero_shot["mode"], zero_shot["error_y"]["array"]) == ("markers", [2.0])
    assert (other_band["xaxis"], video["yaxis"]) == ("x2", "y2")
    assert text["line"]["color"] == plain_text["line"]["color"] != video["line"]["color"]
    assert [one["showlegend"] for one in (text, plain_text, video)] == [True, False, True]
    layout = figure["layout"]
    assert layout["meta"] == {"panels": 2, "columns": 2}
    assert (layout["grid"]["rows"], layout["grid"]["columns"]) == (1, 2)
    assert [one["text"] for one in layout["annotations"]] == ["<b>real &lt;i&gt;</b>", "<b>mixed</b>"]
    assert layout["xaxis2"]["title"]["text"] == "share of generated clips, %"
    assert layout["yaxis2"]["title"]["text"] == "MixR"


def test_six_panels_make_two_rows_of_three() -> None:
    parts = [Panel(str(number), "%", {"a": [(0.0, Interval(1.0))]}) for number in range(6)]
    assert drawn(share_sweep(parts, "share"))["layout"]["grid"]["rows"] == 2


def test_a_histogram_counts_every_pair_once_over_the_same_bins() -> None:
    random = np.random.default_rng(0)
    groups = {"a": random.normal(0.7, 0.1, 300), "b": random.normal(0.8, 0.1, 20_000)}
    figure = similarity_histogram(groups, bins=10)
    first, second = figure.data
    assert list(first.x) == list(second.x)
    assert sum(first.y) == pytest.approx(100)
    assert sum(second.y) == pytest.approx(100)
    low, high = min(map(np.min, groups.values())), max(map(np.max, groups.values()))
    width = (high - low) / 10
    third = 100 * np.mean((groups["a"] >= low + 3 * width) & (groups["a"] < low + 4 * width))
    assert first.y[3] == pytest.approx(third)
    assert len(figure.to_json()) < 20_000


@pytest.mark.parametrize("groups", [{}, {"a": []}, {"a": [0.5, NAN]}, {"a": [float("inf")]}])
def test_a_histogram_of_nothing_or_of_no_numbers_is_refused(groups: dict[str, list[float]]) -> None:
    with pytest.raises(UsageError):
        similarity_histogram(groups)


def test_vectors_keep_their_group_and_name_and_many_are_a_seeded_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.arange(40.0).reshape(20, 2)
    groups = ["real", "made <b>"] * 10
    names = [f"clip {number}" for number in range(20)]
    figure, count = vector_map(points, groups, names, 0)
    assert count == 20
    assert [trace.name for trace in figure.data] == ["real", "made &lt;b&gt;"]
    for trace in figure.data:
        for x, name in zip(trace.x, trace.customdata, strict=True):
            assert points[int(name.split()[1]), 0] == x
    monkeypatch.setattr(figures_module, "MOST_POINTS", 6)
    sampled, count = vector_map(points, groups, names, 1)
    assert count == 6 == sum(len(trace.x) for trace in sampled.data)
    assert sampled.to_json() == vector_map(points, groups, names, 1)[0].to_json()
    with pytest.raises(UsageError, match="give one a point"):
        vector_map(points, groups[1:], names, 0)
