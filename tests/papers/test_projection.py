"""t-SNE that repeats itself, and figures for what its picture suggests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from evenreel.errors import UsageError
from evenreel.papers.shown import draw_points, project, separation

Array = np.ndarray[Any, Any]
labels = st.lists(st.sampled_from("abc"), min_size=5, max_size=12).filter(lambda names: len(set(names)) > 1)


def two_groups(size: int, gap: float, dimension: int = 64, seed: int = 0) -> tuple[Array, list[str]]:
    """Clouds of one size whose middles are so many standard deviations apart."""
    vectors = np.random.default_rng(seed).normal(size=(2 * size, dimension))
    vectors[:size, 0] += gap
    return vectors, ["real"] * size + ["generated"] * size


def slow_agreement(vectors: Array, groups: list[str], neighbours: int) -> float:
    shares = []
    for row, vector in enumerate(vectors):
        others = [other for other in range(len(vectors)) if other != row]
        others.sort(key=lambda other: float(((vectors[other] - vector) ** 2).sum()))
        shares.append(np.mean([groups[other] == groups[row] for other in others[:neighbours]]))
    return float(np.mean(shares))


@given(labels, st.integers(0, 100), st.integers(1, 4))
@hypothesis_settings(max_examples=20)
def test_agreement_is_counted_neighbour_by_neighbour(groups: list[str], seed: int, neighbours: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(len(groups), 3))
    found = separation(vectors, groups, neighbours)
    assert found.agreement == pytest.approx(slow_agreement(vectors, groups, neighbours))
    moved = separation(7 - 2 * vectors, groups, neighbours)  # shifted, scaled and mirrored
    assert (moved.agreement, moved.silhouette) == pytest.approx((found.agreement, found.silhouette))


@given(labels, st.sampled_from([0.0, 0.1, 1.0]), st.integers(1, 4))
@hypothesis_settings(max_examples=20)
def test_equal_vectors_are_at_chance(groups: list[str], value: float, neighbours: int) -> None:
    found = separation(np.full((len(groups), 3), value), groups, neighbours)
    assert found.agreement == pytest.approx(found.chance, abs=1e-12)
    assert found.silhouette == 0
    pairs = [(a, b) for a in range(len(groups)) for b in range(len(groups)) if a != b]
    assert found.chance == pytest.approx(np.mean([groups[a] == groups[b] for a, b in pairs]))


def test_ties_at_the_last_place_count_in_part() -> None:
    """Of the vector at 0, one neighbour of its group and one of the other are equally near: half of one place."""
    line = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [9.0, 0.0]])
    found = separation(line, ["a", "a", "b", "b"], neighbours=1)
    assert found.agreement == pytest.approx((0.5 + 1 + 0 + 0) / 4)


def test_groups_that_lie_apart_and_groups_that_do_not() -> None:
    apart = separation(*two_groups(40, 20.0, dimension=3))
    assert apart.agreement == 1
    assert apart.chance == pytest.approx(39 / 79)
    assert apart.silhouette > 0.7
    mixed = separation(*two_groups(200, 0.0, dimension=3))
    assert mixed.agreement == pytest.approx(mixed.chance, abs=0.04)
    assert abs(mixed.silhouette) < 0.02


def test_the_picture_shows_the_groups_and_repeats_itself() -> None:
    vectors, groups = two_groups(30, 40.0)
    first, again = project(vectors), project(vectors)
    assert first.shape == (60, 2) and first.dtype == np.float32
    assert first.tobytes() == again.tobytes()
    assert separation(first, groups).agreement == 1
    assert project(vectors[:4]).shape == (4, 2)  # perplexity 1


def test_points_are_drawn_by_group() -> None:
    groups = ["real", "generated"] * 50 + ["p"] * 3
    rows = draw_points(groups, seed=1, most=20)
    drawn = [groups[row] for row in rows]
    assert (drawn.count("real"), drawn.count("generated"), drawn.count("p")) == (20, 20, 3)
    assert rows.tolist() == sorted(set(rows.tolist()))
    real = {row for row in rows if groups[row] == "real"}
    assert {row + 1 for row in real} <= set(rows)  # clips with their mirrors
    assert rows.tolist() == draw_points(groups, seed=1, most=20).tolist() != draw_points(groups, most=20).tolist()
    assert draw_points([]).tolist() == []


@pytest.mark.parametrize(
    ("vectors", "sentence"),
    [
        (np.zeros((3, 2)), "3 vectors of 2 dimensions cannot be projected; give at least 4 of at least 2"),
        (np.ones((9, 1)), "9 vectors of 1 dimensions cannot be projected"),
        (np.ones((9, 3)), "All 9 vectors are the same"),
        (np.ones(9), r"of the shape \(9,\) cannot be compared"),
        (np.array([[0.0, 1.0]] * 4 + [[np.inf, 0.0]]), "Vector 4 has a component that is no number"),
    ],
)
def test_what_cannot_be_projected(vectors: Array, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        project(vectors)


def test_what_cannot_be_compared() -> None:
    vectors, groups = two_groups(3, 1.0)
    for labels, count, sentence in (
        (["real"] * 6, 5, "6 vectors with 6 labels of 1 groups cannot be compared"),
        (["real", "generated"], 5, "6 vectors with 2 labels of 2 groups"),
        (groups, 6, "nearest 6 of 6 vectors were asked for; ask for 1 to 5"),
    ):
        with pytest.raises(UsageError, match=sentence):
            separation(vectors, labels, count)
