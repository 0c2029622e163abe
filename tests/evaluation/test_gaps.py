"""Gaps between groups: slow loops, all arrangements of a small case, level and power."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.false_alarms import World
from benchmarks.gap_power import Cell, enough, found, least
from benchmarks.group_gaps import reported
from evenreel.evaluation.groups import Spread, bands_of

Rows = list[tuple[int, int, float]]


def slow_errors(rows: Rows, mean: float) -> tuple[list[float], dict[tuple[int, int], float]]:
    """Mean deviation of each group, and standard errors of pairs, from (cluster, group, value) with plain loops."""
    groups, clusters = sorted({row[1] for row in rows}), sorted({row[0] for row in rows})
    cells = {
        (c, g): [value - mean for one, group, value in rows if (one, group) == (c, g)] for c in clusters for g in groups
    }
    filled = [one for one in cells.values() if one]
    average = sum(sum(one) ** 2 for one in filled) / len(filled) / (sum(map(len, filled)) / len(filled)) ** 2
    size = {g: sum(len(cells[c, g]) for c in clusters) for g in groups}
    members = {g: sum(bool(cells[c, g]) for c in clusters) for g in groups}
    means = {g: sum(sum(cells[c, g]) for c in clusters) / size[g] for g in groups}
    parts = {(c, g): sum(one - means[g] for one in cells[c, g]) / size[g] for c in clusters for g in groups}

    def covariance(g: int, h: int) -> float:
        own = [members[one] / (members[one] + 1) for one in (g, h)]
        found = sum(parts[c, g] * parts[c, h] for c in clusters) * (own[0] * own[1]) ** 0.5
        return found + (2 / (members[g] + 1) * average / members[g] if g == h else 0.0)

    errors = {
        (g, h): (covariance(g, g) + covariance(h, h) - 2 * covariance(g, h)) ** 0.5
        for g, h in itertools.combinations(groups, 2)
    }
    return [means[g] for g in groups], errors


def drawn_rows(seed: int, *, nested: bool) -> Rows:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 4, 12)
    rows = []
    for cluster, size in enumerate(sizes):
        for _ in range(size):
            group = cluster % 3 if nested else int(random.integers(0, 3))
            rows.append((cluster, group, float(random.normal())))
    return rows


def spread_of(rows: Rows) -> Spread:
    cluster, group, values = (np.array(one) for one in zip(*rows, strict=True))
    return Spread.of(values, group, cluster)


@pytest.mark.parametrize("nested", [True, False])
def test_errors_are_those_of_slow_loops(nested: bool) -> None:
    rows = drawn_rows(3, nested=nested)
    mean = float(np.mean([row[2] for row in rows]))
    means, errors = slow_errors(rows, mean)
    bands = bands_of(spread_of(rows), 50, 0, 0.9)
    assert bands is not None and spread_of(rows).nested is nested
    assert bands.means == pytest.approx(means, abs=1e-12)
    assert {pair: bands.errors[pair] for pair in errors} == pytest.approx(errors)


def test_an_arrangement_exchanges_clusters_as_a_slow_loop_does() -> None:
    rows, random = drawn_rows(5, nested=True), np.random.default_rng(0)
    mean = float(np.mean([row[2] for row in rows]))
    order = random.permutation(12) % 3
    moved = [(cluster, int(order[cluster]), value) for cluster, _, value in rows]
    means, errors = slow_errors(moved, mean)
    found, covariance = spread_of(rows).exchanged(order[None, :])
    own = np.diagonal(covariance[0])
    assert found[0] == pytest.approx(means, abs=1e-12)
    assert {pair: (own[pair[0]] + own[pair[1]]) ** 0.5 for pair in errors} == pytest.approx(errors)


def test_signs_turn_the_deviations_of_whole_clusters() -> None:
    rows = drawn_rows(7, nested=False)
    mean = float(np.mean([row[2] for row in rows]))
    signs = np.random.default_rng(1).choice([-1.0, 1.0], 12)
    turned = [(cluster, group, float(signs[cluster] * (value - mean))) for cluster, group, value in rows]
    means, errors = slow_errors(turned, 0.0)
    found, covariance = spread_of(rows).signed(signs[None, :])
    apart = {(g, h): covariance[0, g, g] + covariance[0, h, h] - 2 * covariance[0, g, h] for g, h in errors}
    assert found[0] == pytest.approx(means, abs=1e-12)
    assert {pair: one**0.5 for pair, one in apart.items()} == pytest.approx(errors)


def test_p_is_the_share_of_all_arrangements() -> None:
    values = [1.0, 2.0, 4.0, 3.0, 7.0, 6.5, 9.0]
    rows = [(place, int(place >= 4), value) for place, value in enumerate(values)]
    mean = float(np.mean(values))

    def largest(groups: Any) -> float:
        moved = [(place, int(groups[place]), value) for place, value in enumerate(values)]
        (low, high), errors = slow_errors(moved, mean)
        return abs(high - low) / errors[0, 1]

    observed = largest([row[1] for row in rows])
    every = [largest([place in chosen for place in range(7)]) for chosen in itertools.combinations(range(7), 3)]
    exact = sum(one >= observed - 1e-12 for one in every) / len(every)
    bands = bands_of(spread_of(rows), 20_000, 0, 0.95)
    assert bands is not None
    assert bands.p == pytest.approx(exact, abs=0.01)


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([0.8, 0.9, 0.95]))
def test_interval_and_p_agree(seed: int, nested: bool, confidence: float) -> None:
    rows = drawn_rows(seed, nested=nested)
    assume({group for _, group, _ in rows} == {0, 1, 2})  # few rows may all miss one
    bands = bands_of(spread_of(rows), 99, seed, confidence)
    assert bands is not None
    low, high = bands.ends
    assert low is not None and high is not None and low <= np.ptp(bands.means) <= high
    assert (low > 0) == (bands.p <= 1 - confidence + 1e-9)


def test_where_all_are_alike_nothing_says_what_chance_does() -> None:
    same = Spread.of(np.full(80, 100.0), np.repeat([0, 1], 40), np.arange(80))
    assert bands_of(same, 100, 0, 0.95) is None


def test_too_few_arrangements_make_no_interval() -> None:
    bands = bands_of(spread_of(drawn_rows(0, nested=True)), 10, 0, 0.95)
    assert bands is not None
    assert bands.ends == (None, None)


def test_a_group_of_hits_alone_has_an_interval_with_width() -> None:
    values = np.concatenate([np.full(40, 100.0), np.zeros(40)])
    bands = bands_of(Spread.of(values, np.repeat([0, 1], 40), np.arange(80)), 400, 0, 0.95)
    assert bands is not None
    low, high = bands.ends
    assert low is not None and high is not None and 0 < low < 100 < high


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("share", [0.05, 0.4])
def test_no_more_than_a_twentieth_of_worlds_without_a_gap_are_reported(nested: bool, share: float) -> None:
    told = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        cluster = np.repeat(np.arange(120), 3)
        hard = random.normal(size=120)[cluster] + random.normal(size=360)
        group = (np.arange(120) % 3)[cluster] if nested else random.integers(0, 3, 360)
        hits = 100.0 * (hard > np.quantile(hard, 1 - share))
        bands = bands_of(Spread.of(hits, group, cluster), 199, seed, 0.95)
        told += bands is not None and bands.p <= 0.05
    assert 2 <= told <= 18  # of 200, 10 are expected; both ends are beyond 2.5 standard errors


def test_rankings_with_hubs_keep_their_level_and_what_is_planted_is_found() -> None:
    still = reported([World(130, 1, 4.0, seed) for seed in range(6)])
    assert sum(told for told, _ in still.values()) <= 0.15 * sum(asked for _, asked in still.values())
    planted = reported([World(150, 2, 1.0, seed, planted=2.0) for seed in range(3)])
    for column in ("source", "language"):
        assert planted[f"t2v by {column}, drawn by clip: MRR"] == (3, 3)


def test_a_gap_is_planted_in_points_and_found_where_it_is_large_enough() -> None:
    cell = Cell(180, 3, 1.0)
    more, less = cell.shifts([0.0, 30.0])
    assert less[0] == pytest.approx(0, abs=1e-9)
    nothing, planted = found(cell, more, less, 20)
    # A gap of shares of 60 and 120 queries has a standard error of 7.9 points, the mean of 20 worlds one of 1.8.
    assert planted.behind[0] == pytest.approx(30, abs=6)
    assert nothing.behind[0] == pytest.approx(0, abs=6)
    assert planted.power[0] >= 70  # 92 are expected
    assert nothing.power[0] <= 20


def test_what_finds_a_gap_nine_times_of_ten() -> None:
    assert enough([0, 10, 20], [5, 80, 100]) == 15
    assert enough([0, 10], [5, 80]) is None
    points, shares = least(Cell(400, 2, 0.0)), []
    random = np.random.default_rng(0)
    for _ in range(4000):  # two shares of 200 queries each, one of them the planted gap lower
        first, second = (random.binomial(200, share) / 200 for share in (0.45 - points / 100, 0.45))
        error = ((first * (1 - first) + second * (1 - second)) / 200) ** 0.5
        shares.append(abs(second - first) > 1.96 * error)
    assert 100 * np.mean(shares) == pytest.approx(90, abs=2)
