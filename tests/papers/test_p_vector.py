"""p-vectors: by hand, against loops over pairs of clips, and on the vectors of matchers."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.ghost.p_vector import (
    PRESETS,
    Alike,
    PVector,
    alike,
    caption_vectors,
    corrected_scores,
    diagnose,
    p_vectors,
    shifted,
    shifted_scores,
    video_vectors,
)
from evenreel.similarity.vectors import EmbeddingTable
from evenreel.types import Corpus, ScoreBlocks
from tests.matchers.examples import captions, small, text_features, trained, video_features, videos

seeds = st.integers(0, 1000)
settings = st.builds(PVector, st.sampled_from(["real", "generated"]), st.sampled_from([1, -1]), st.booleans())


def some(count: int, seed: int = 0, dimension: int = 4) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(count, dimension))


def named(kind: str, values: np.ndarray[Any, Any]) -> EmbeddingTable:
    return EmbeddingTable([f"{kind}{row}" for row in range(len(values))], values)


def whole(scores: ScoreBlocks) -> np.ndarray[Any, Any]:
    return scores.block(slice(0, len(scores.caption_ids)), slice(0, len(scores.video_ids)))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Three real clips, two of which have a mirror; a clip of a generator that mirrors none."""
    clips = {
        "clip_id": ["video0", "video1", "video2", "video3", "video4"],
        "source": ["camera", "sora", "camera", "sora", "sora"],
        "pair_id": [None, "video2", None, "video0", None],
    }
    texts = {"caption_id": ["caption0", "caption1"], "clip_id": ["video0", "video2"], "text": ["a dog", "a cat"]}
    return make_corpus(pl.DataFrame(clips), pl.DataFrame(texts))


# The vector and the shift --------------------------------------------------------------------------------------------


def test_both_presets_by_hand() -> None:
    """Debiasing moves real clips right by 1 and generated ones left by 2; both presets move real clips right."""
    original, debiased = {"real": np.zeros((2, 2)), "generated": np.ones((3, 2))}, {}
    debiased["real"], debiased["generated"] = original["real"] + [1, 0], original["generated"] - [2, 0]
    for name, right in (("paper", 1.0), ("release", 2.0)):
        preset = PRESETS[name]
        p = p_vectors(original[preset.source], debiased[preset.source]).mean(axis=0)
        assert shifted(original["real"], p, preset).tolist() == [[right, 0.0]] * 2
    assert str(PRESETS["paper"]) == "the p-vector of real clips added to real ones"
    assert str(PRESETS["release"]) == "the p-vector of generated clips subtracted from real ones"


@given(seeds, settings)
def test_scores_are_products_pair_by_pair(seed: int, how: PVector) -> None:
    texts, real, generated, p = some(3, seed), some(2, seed + 1), some(4, seed + 2), some(1, seed + 3)[0]
    scores = shifted_scores(named("c", texts), named("r", real), named("g", generated), p, how)
    assert list(scores.video_ids) == ["r0", "r1", "g0", "g1", "g2", "g3"]
    assert scores.about.uses == (str(how),)

    def unit(vector: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return vector / np.sqrt((vector**2).sum()) if how.normalised else vector

    for row, text in enumerate(texts):
        moved = [unit(unit(vector) + how.sign * p) for vector in real]
        expected = [float(unit(text) @ vector) for vector in [*moved, *map(unit, generated)]]
        np.testing.assert_allclose(scores.block(slice(row, row + 1), slice(0, 6)), [expected], atol=1e-12)
    np.testing.assert_allclose(whole(scores)[1:, 2:5], scores.block(slice(1, 3), slice(2, 5)), atol=1e-12)


def test_lengths_count_only_where_vectors_come_as_they_are() -> None:
    before, after = some(3, 1), some(3, 2)
    np.testing.assert_allclose(p_vectors(5 * before, after / 3, True), p_vectors(before, after, True), atol=1e-12)
    assert np.abs(p_vectors(5 * before, after) - p_vectors(before, after)).max() > 0.1


# How alike they are --------------------------------------------------------------------------------------------------


def slowly_alike(p: np.ndarray[Any, Any]) -> Alike:
    moved = [row for row in p if np.abs(row).any()]
    pairs = [a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in permutations(moved, 2)]
    direction = sum(p) / len(p)
    direction = direction / np.linalg.norm(direction)
    along, total = sum((row @ direction) ** 2 for row in p), sum(row @ row for row in p)
    lengths = [float(np.sqrt(row @ row)) for row in p]
    return Alike(len(moved), float(np.mean(lengths)), float(np.mean(pairs)), float(along / total))


@given(seeds, st.integers(2, 6), st.booleans())
def test_alike_is_the_mean_over_all_pairs(seed: int, count: int, one_stays: bool) -> None:
    p = some(count, seed)
    if one_stays:
        p = np.concatenate([p, np.zeros((1, 4))])
    found, expected = alike(p), slowly_alike(p)
    assert found.count == expected.count == count
    for name in ("length", "cosine", "share_along_mean"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), abs=1e-9)


def test_where_there_is_nothing_to_compare() -> None:
    still = alike(np.zeros((3, 2)))
    assert (still.count, still.length) == (0, 0.0)
    assert np.isnan(still.cosine) and np.isnan(still.share_along_mean)
    assert np.isnan(alike(np.ones((1, 2))).cosine)
    assert np.isnan(diagnose({"still": np.zeros((3, 2)), "moved": np.ones((2, 2))}).cosine("still", "moved"))


def test_a_control_shows_what_is_due_to_fine_tuning() -> None:
    """All clips drift one way; debiasing also parts real from generated, across the drift and twice as far."""
    drift, apart = np.array([1.0, 0.0]), np.array([0.0, 2.0])
    noise = 0.01 * some(20, 4, 2)
    found = diagnose(
        {
            "real": drift + apart + noise,
            "generated": drift - apart + noise[:7],
            "control real": drift + noise,
            "control generated": drift + noise[:7],
        }
    )
    assert all(one.cosine > 0.99 for one in found.alike.values())  # the control's cluster as well: it proves nothing
    assert found.cosine("real", "generated") == pytest.approx((1 - 4) / 5, abs=0.02)
    assert found.cosine("control real", "control generated") > 0.99
    assert [one.count for one in found.alike.values()] == [20, 7, 20, 7]


# On matchers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mean_pool", "temporal", "temporal+linear"])
def test_a_model_that_was_not_debiased_has_its_own_scores(name: str, corpus: Corpus) -> None:
    matcher, text, video = trained(name), text_features(captions()), video_features(videos())
    vectors, sentences = video_vectors(matcher, video), caption_vectors(matcher, text)
    for how in (PVector(), PVector("generated", -1, normalised=True)):
        scores = corrected_scores(sentences, (vectors, vectors), corpus, how)
        assert list(scores.video_ids) == ["video2", "video0", "video1", "video3"]
        expected = matcher_scores(matcher, text, video).score_all().values[:, [2, 0, 1, 3]]
        np.testing.assert_allclose(whole(scores), expected, atol=1e-6)


def test_models_are_compared_on_the_clips_that_the_settings_name(corpus: Corpus) -> None:
    text, video = text_features(captions()), video_features(videos())
    original, debiased = (video_vectors(trained("temporal", size), video) for size in (0.1, 0.2))
    sentences = caption_vectors(trained("temporal"), text)
    change = (debiased.values - original.values).astype(np.float64)
    for how, rows in ((PRESETS["paper"], [2, 0]), (PRESETS["release"], [1, 3])):
        moved = original.values[[2, 0]] + how.sign * change[rows].mean(axis=0)
        found = whole(corrected_scores(sentences, (original, debiased), corpus, how, group="sora"))
        np.testing.assert_allclose(found[:, :2], sentences.values @ moved.T, atol=1e-5)
        np.testing.assert_allclose(found[:, 2:], sentences.values @ original.values[[1, 3]].T, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "kept"), [("wti", "vectors and mask"), ("x_clip", "frames and"), ("t_mass", "frames and attended")]
)
def test_matchers_that_keep_more_than_a_vector(name: str, kept: str) -> None:
    with pytest.raises(
        UsageError, match=f"one vector a video, such as mean_pool and temporal; this one keeps .*{kept}"
    ):
        video_vectors(small(name), video_features(videos()))
    with pytest.raises(UsageError, match="one vector a caption"):
        caption_vectors(small(name), text_features(captions()))


# What is refused -----------------------------------------------------------------------------------------------------


def test_wrong_settings() -> None:
    with pytest.raises(UsageError, match="source of a p-vector is 'ai'; it must be real or generated"):
        PVector("ai")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="sign of a p-vector is 2; it must be 1 or -1"):
        PVector(sign=2)  # type: ignore[arg-type]


def test_wrong_vectors(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match=r"shape \(3, 4\), the debiased ones \(2, 4\); give both models' vectors"):
        p_vectors(some(3), some(2))
    with pytest.raises(UsageError, match=r"of the shape \(3,\) cannot be added to vectors of \(4,\)"):
        shifted(some(2), np.ones(3), PVector())
    with pytest.raises(UsageError, match="Vector 1 has a component that is no number"):
        p_vectors(np.array([[1.0], [np.nan]]), np.ones((2, 1)))
    with pytest.raises(UsageError, match="Vector 1 is zero and has no direction"):
        p_vectors(np.array([[1.0], [0.0]]), np.ones((2, 1)), normalised=True)
    few = named("video", some(2))
    with pytest.raises(UsageError, match="1 of 2 clips have no vector .'video2' for one."):
        corrected_scores(named("caption", some(2)), (few, few), corpus, PVector())
    with pytest.raises(UsageError, match="no real clip with a generated counterpart"):
        corrected_scores(named("caption", some(2)), (few, few), corpus, PVector(), group="veo")
