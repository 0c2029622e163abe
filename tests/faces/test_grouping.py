"""Grouping of faces: against slow loops, and on planted people."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.faces.grouping import chinese_whispers, join_groups
from evenreel.types import FloatArray


def people(seed: int, sizes: list[int], noise: float = 0.35) -> tuple[FloatArray, list[int]]:
    """Faces scattered around a direction for each person, in random order, and whose each is."""
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.standard_normal((64, len(sizes))))[0].T
    whose = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    faces = centres[whose] + noise * rng.standard_normal((len(whose), 64)) / 8
    return (faces / np.linalg.norm(faces, axis=1, keepdims=True)).astype(np.float32), whose.tolist()


def partition(labels: list[int]) -> set[frozenset[int]]:
    return {frozenset(row for row, other in enumerate(labels) if other == label) for label in labels}


@given(st.integers(0, 10_000), st.lists(st.integers(1, 12), min_size=1, max_size=6))
def test_faces_of_people_that_are_far_apart_are_grouped_by_person(seed: int, sizes: list[int]) -> None:
    faces, whose = people(seed, sizes)
    assert partition(chinese_whispers(faces).tolist()) == partition(whose)


def test_labels_are_numbered_as_they_first_occur() -> None:
    faces, _ = people(1, [4, 4, 4])
    labels = chinese_whispers(faces).tolist()
    assert list(dict.fromkeys(labels)) == [0, 1, 2]


def test_a_face_that_is_like_no_other_is_a_group_of_its_own() -> None:
    faces = np.eye(3, dtype=np.float32)[[0, 0, 1, 2]]
    assert chinese_whispers(faces).tolist() == [0, 0, 1, 2]


def test_nothing_is_grouped_where_there_is_no_face() -> None:
    assert chinese_whispers(np.zeros((0, 8), np.float32)).shape == (0,)


def test_the_threshold_is_inclusive_and_below_it_faces_stay_apart() -> None:
    faces = np.array([[1, 0], [0.6, 0.8]], np.float32)
    assert chinese_whispers(faces, threshold=0.6).tolist() == [0, 0]
    assert chinese_whispers(faces, threshold=0.61).tolist() == [0, 1]


@given(st.integers(0, 10_000))
def test_joining_is_the_mean_similarity_to_every_face_of_a_group(seed: int) -> None:
    faces, whose = people(seed, [5, 3, 4], noise=1.5)
    new, _ = people(seed + 1, [3, 3], noise=2.0)
    members = [[row for row, one in enumerate(whose) if one == person] for person in range(3)]
    means = np.stack([faces[rows].mean(axis=0) for rows in members])
    expected = []
    for face in new:
        mean = [sum(float(face @ faces[row]) for row in rows) / len(rows) for rows in members]
        best = max(range(3), key=lambda group: mean[group])
        expected.append(best if mean[best] >= 0.2 else -1)
    assert join_groups(new, means, {}, threshold=0.2).tolist() == expected


def test_a_face_never_joins_a_group_that_it_was_taken_out_of() -> None:
    means = np.array([[1, 0], [0.9, np.sqrt(0.19)]], np.float32)
    face = np.array([[1, 0], [1, 0]], np.float32)
    assert join_groups(face, means, {0: frozenset({0})}).tolist() == [1, 0]
    assert join_groups(face, means, {0: frozenset({0, 1})}).tolist() == [-1, 0]


@pytest.mark.parametrize("groups", [0, 2])
def test_no_face_joins_no_group(groups: int) -> None:
    assert join_groups(np.zeros((0, 4), np.float32), np.zeros((groups, 4), np.float32), {}).shape == (0,)


def test_tiles_of_any_size_give_the_same_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    faces, _ = people(3, [9, 5, 7, 1], noise=1.2)
    means = faces[:3].copy()
    whole = chinese_whispers(faces).tolist(), join_groups(faces, means, {4: frozenset({1})}).tolist()
    monkeypatch.setattr("evenreel.faces.grouping._CELLS", 40)
    assert (chinese_whispers(faces).tolist(), join_groups(faces, means, {4: frozenset({1})}).tolist()) == whole


def test_of_many_neighbours_the_heaviest_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.faces.grouping.NEIGHBOURS", 2)
    faces, whose = people(5, [6, 6], noise=0.2)
    groups = partition(chinese_whispers(faces).tolist())
    assert all(any(group <= person for person in partition(whose)) for group in groups)
    assert len(groups) <= 4
