"""Backgrounds that are found without labels, and exchanged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.debias.backgrounds import Backgrounds, estimated_backgrounds
from evenreel.errors import UsageError
from evenreel.types import FloatArray

COUNT, KINDS, CLASSES, SIZE = 3_000, 4, 12, 16


def confounded(strength: float, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Clips of a class before a background that goes with it, their captions, the kinds, and the kinds' vectors."""
    rng = np.random.default_rng(seed)
    classes, places = rng.standard_normal((CLASSES, SIZE)), 2 * rng.standard_normal((KINDS, SIZE))
    own = rng.integers(CLASSES, size=COUNT)
    kinds = np.where(rng.random(COUNT) < strength, own % KINDS, rng.integers(KINDS, size=COUNT))
    clips = classes[own] + places[kinds] + 0.3 * rng.standard_normal((COUNT, SIZE))
    captions = classes[own] @ rng.standard_normal((SIZE, SIZE)) + 0.1 * rng.standard_normal((COUNT, SIZE))
    return clips, captions, kinds, places


def by_kind(found: Backgrounds, kinds: FloatArray) -> tuple[list[int], float]:
    """The cluster that has the most clips of each kind, and the share of clips in the one of their kind."""
    joint = np.zeros((len(found.means), KINDS))
    np.add.at(joint, (found.clusters, kinds), 1)
    return joint.argmax(0).tolist(), float(joint.max(1).sum() / len(kinds))


@pytest.mark.parametrize("strength", [0.0, 0.9])
def test_what_is_found_is_the_background_and_not_what_captions_say(strength: float) -> None:
    clips, captions, kinds, places = confounded(strength)
    found = estimated_backgrounds(clips, captions, KINDS)
    clusters, pure = by_kind(found, kinds)
    assert pure > 0.95 and sorted(clusters) == list(range(KINDS))
    true, apart = places - places[0], found.means[clusters] - found.means[clusters[0]]
    assert np.linalg.norm(apart - true) < 0.1 * np.linalg.norm(true)
    plain = np.stack([clips[kinds == kind].mean(0) for kind in range(KINDS)])
    if strength:  # the mean of a cluster holds a part of the classes that go with it
        assert np.linalg.norm(plain - plain[0] - true) > 2 * np.linalg.norm(apart - true)


def test_more_clusters_than_kinds_are_each_of_one_kind() -> None:
    clips, captions, kinds, _ = confounded(0.9)
    assert by_kind(estimated_backgrounds(clips, captions, 3 * KINDS), kinds)[1] > 0.95


@given(st.integers(1, 30), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_clips_get_backgrounds_of_each_other(count: int, share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = Backgrounds(rng.integers(3, size=40), rng.integers(-5, 5, size=(3, 2)).astype(np.float32))
    rows = rng.integers(40, size=count)
    added = found.exchanged(rows, share, np.random.default_rng(seed))
    own = found.means[found.clusters[rows]]
    among = {tuple(row) for row in own.tolist()}
    assert added.shape == (count, 2) and {tuple(row) for row in (own + added).tolist()} <= among
    if share == 0:
        assert not added.any()
    if share == 1:
        assert sorted((own + added).tolist()) == sorted(own.tolist())


def test_the_share_says_how_many_clips_are_changed() -> None:
    found = Backgrounds(np.arange(2_000), np.eye(2_000, 8, dtype=np.float32) + np.arange(2_000)[:, None])
    added = found.exchanged(np.arange(2_000), 0.3, np.random.default_rng(0))
    assert added.any(1).mean() == pytest.approx(0.3, abs=0.04)


def test_what_cannot_be_clustered_is_refused() -> None:
    with pytest.raises(UsageError, match="3 clips cannot be divided into 4"):
        estimated_backgrounds(np.eye(3), np.eye(3), 4)
    with pytest.raises(UsageError, match="no vectors"):
        estimated_backgrounds(np.eye(3), np.zeros((3, 0)), 2)
    with pytest.raises(UsageError, match="not finite"):
        estimated_backgrounds(np.full((5, 2), np.nan), np.zeros((5, 2)), 2)
