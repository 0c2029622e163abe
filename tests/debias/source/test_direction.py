"""The direction of a source is what sets its clips apart from real ones, and nothing else is taken out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenreel.debias.source.direction import MIN_CLIPS, Contrast, contrasts, source_basis, without_source
from evenreel.errors import UsageError
from evenreel.types import FloatArray

UNPAIRED = -1


def drawn(count: int, dimension: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)


def directions(compared: tuple[Contrast, ...], means: FloatArray) -> FloatArray:
    return np.stack([contrast.weights @ means for contrast in compared])


@given(
    seed=st.integers(0, 2**16), generators=st.integers(1, 4), paired=st.booleans(), dimension=st.sampled_from([3, 16])
)
def test_mean_scores_of_all_sources_are_equal_under_every_query(
    seed: int, generators: int, paired: bool, dimension: int
) -> None:
    names = ["camera", *(f"generator {number}" for number in range(generators))]
    sources = [name for name in names for _ in range(MIN_CLIPS + len(name))]
    offsets = dict(zip(names, 3 * drawn(len(names), dimension, seed), strict=True))
    means = drawn(len(sources), dimension, seed + 1) + [offsets[name] for name in sources]
    real = [row for row, name in enumerate(sources) if name == "camera"]
    mirrored = np.array([UNPAIRED if name == "camera" else real[row % len(real)] for row, name in enumerate(sources)])
    compared = contrasts(sources, mirrored if paired else np.full(len(sources), UNPAIRED))
    assert [contrast.paired for contrast in compared] == [paired] * generators
    basis = source_basis(directions(compared, means))
    for query in without_source(drawn(5, dimension, seed + 2), basis):
        scores = means @ query
        for contrast in compared:
            mine = [row for row, name in enumerate(sources) if name == contrast.source]
            others = [mirrored[row] for row in mine] if contrast.paired else real
            assert np.mean(scores[mine]) == pytest.approx(np.mean(scores[others]), abs=1e-3)


def test_only_the_part_in_the_basis_is_taken_out() -> None:
    basis = source_basis(drawn(3, 12, 0))
    queries = drawn(4, 12, 1)
    expected = []
    for query in queries.astype(np.float64):
        inside, *_ = np.linalg.lstsq(basis.astype(np.float64), query, rcond=None)
        expected.append(query - basis @ inside)
    np.testing.assert_allclose(without_source(queries, basis), expected, atol=1e-5)
    np.testing.assert_allclose(without_source(np.array(expected, np.float32), basis), expected, atol=1e-5)


def test_the_score_of_a_frame_changes_by_the_product_of_both_parts() -> None:
    basis, query, frames = source_basis(drawn(2, 9, 0)), drawn(1, 9, 1), drawn(6, 9, 2)
    expected = [frame @ query[0] - sum((query[0] @ axis) * (axis @ frame) for axis in basis.T) for frame in frames]
    np.testing.assert_allclose(frames @ without_source(query, basis)[0], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("given_directions", "rank"),
    [
        ([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0]], 2),
        ([[1.0, 0.0, 0.0], [0.3, 0.0, 0.0]], 1),
        ([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], 1),
        ([[0.0, 0.0, 0.0]], 0),
        ([[3.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 0.0]], 2),
    ],
)
def test_a_direction_that_depends_on_others_adds_nothing(given_directions: list[list[float]], rank: int) -> None:
    basis = source_basis(np.array(given_directions, np.float32))
    assert basis.shape == (3, rank)
    np.testing.assert_allclose(basis.T @ basis, np.eye(rank), atol=1e-6)


def test_pairs_are_compared_where_there_are_enough_of_them() -> None:
    sources = ["camera"] * 30 + ["few"] * 25 + ["many"] * 22 + [None] * 5
    mirrored = np.full(len(sources), UNPAIRED)
    mirrored[30:40] = range(10)  # 10 of `few`
    mirrored[55:77] = range(22)  # all of `many`
    few, many = contrasts(sources, mirrored)
    assert (few.source, few.paired, few.generated, few.real) == ("few", False, 25, 30)
    assert (many.source, many.paired, many.generated, many.real) == ("many", True, 22, 22)
    np.testing.assert_allclose(few.weights[:30], -1 / 30)
    np.testing.assert_allclose(few.weights[30:55], 1 / 25)
    np.testing.assert_allclose(many.weights[:22], -1 / 22)
    assert not many.weights[22:55].any()
    assert not few.weights[77:].any()


def test_a_real_clip_counts_as_often_as_it_is_mirrored() -> None:
    mirrored = np.concatenate([np.full(20, UNPAIRED), np.arange(20), np.arange(20)])
    (contrast,) = contrasts(["camera"] * 20 + ["sora"] * 40, mirrored)
    assert (contrast.generated, contrast.real) == (40, 20)
    np.testing.assert_allclose(contrast.weights, [-2 / 40] * 20 + [1 / 40] * 40)


def test_pairs_of_one_real_clip_are_no_pairs_of_many() -> None:
    mirrored = np.concatenate([np.full(20, UNPAIRED), np.zeros(30, np.int64)])
    (contrast,) = contrasts(["camera"] * 20 + ["sora"] * 30, mirrored)
    assert not contrast.paired


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        ([None] * 50, "No clip has a source"),
        (["sora"] * 50, "No clip has the source 'camera'"),
        (["sora"] * 50 + ["veo"] * 50, "No clip has the source 'camera'"),
        (["camera"] * 50 + [None] * 50, "All clips with a source are of a camera"),
        (["camera"] * 19 + ["sora"] * 50, "19 of a camera, 50 of sora; there must be 20"),
        (["camera"] * 50 + ["sora"] * 19 + ["veo"] * 3, "50 of a camera, 19 of sora, 3 of veo"),
        ([], "No clip has a source"),
    ],
)
def test_what_cannot_be_told_is_refused_in_a_sentence(sources: list[str | None], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        contrasts(sources, np.full(len(sources), UNPAIRED))


def test_generators_with_too_few_clips_are_left_in() -> None:
    sources: NDArray[np.str_] = np.repeat(["camera", "sora", "veo"], [40, 30, 5])
    assert [one.source for one in contrasts(sources.tolist(), np.full(75, UNPAIRED))] == ["sora"]
