"""Scores by codes with exact ones where it matters, beside exact scores of every clip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.arrays import Indices
from evenreel.library.search import nearest as module
from evenreel.library.search.allowed import AllowedClips
from evenreel.library.search.compact_ids import ClipIds, encoded_ids
from evenreel.library.search.gallery import FrameGallery, FrameRanking, look
from evenreel.library.search.nearest import ComparedClips, ExactlyScored, clip_scores
from evenreel.library.store.confidence import FITS, MAY_FIT, as_one_of
from evenreel.library.store.vectors import ExactVectors
from evenreel.types import FloatArray

D = 32


@dataclass
class OneRowEach:
    """Vectors whose clips have one row with a known score each; a scan is off by up to the error it states."""

    exact: FloatArray
    error: float
    seed: int
    scored: int = 0

    def best_per_clip(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        self.scored += len(first_rows)
        return self.exact[None, first_rows]

    def scan(self, queries: FloatArray, first_rows: Indices, counts: Indices) -> FloatArray:
        off = np.random.default_rng(self.seed).choice([-1, -0.999, 0.5, 0.999, 1], len(first_rows))
        return (self.exact[first_rows] + off.astype(np.float32) * np.float32(self.error))[None]

    def scan_error(self, queries: FloatArray) -> FloatArray:
        return np.full(len(queries), self.error, np.float32)


def rank_of(place: int, scores: list[float]) -> int:
    return 1 + sum(other > scores[place] for other in scores)


def state(z: float, null_best: list[float]) -> str:
    share = sum(worst < z for worst in null_best) / len(null_best)
    return "fits" if share >= FITS else "may_fit" if share >= MAY_FIT else "nothing"


@given(
    clips=st.integers(1, 80),
    kept=st.floats(0.05, 1),
    error=st.sampled_from([0.0, 0.001, 0.02, 0.3]),
    nearest=st.integers(1, 12),
    seed=st.integers(0, 9999),
)
def test_ranks_scores_and_states_are_those_of_exact_scores(
    clips: int, kept: float, error: float, nearest: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    exact = np.round(random.normal(0.2, 0.05, clips), 3).astype(np.float32)  # with ties
    means, deviations = random.normal(0.1, 0.02, clips), random.uniform(0.005, 0.05, clips)
    null_best = np.sort(random.normal(2, 1, 40)).astype(np.float32)
    chosen = np.flatnonzero(random.random(clips) < kept)
    asked = ComparedClips(chosen, np.ones_like(chosen), means[chosen], deviations[chosen], null_best)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EXACT_ROWS", -1)
        found = clip_scores(
            asked, OneRowEach(exact, error, seed), np.ones(4, np.float32), ExactlyScored(nearest)
        ).scores.tolist()
    wanted = exact[chosen].tolist()
    places = range(len(chosen))
    for place in places:
        if rank_of(place, wanted) <= nearest:
            assert (found[place], rank_of(place, found)) == (wanted[place], rank_of(place, wanted))
    z = [
        [(value - means[c]) / deviations[c] for c, value in zip(chosen, scores, strict=True)]
        for scores in (found, wanted)
    ]
    for place in places:
        if rank_of(place, z[1]) <= nearest:
            assert rank_of(place, z[0]) == rank_of(place, z[1])
            assert z[0][place] == z[1][place]
        assert state(z[0][place], null_best.tolist()) == state(z[1][place], null_best.tolist())


def test_further_clips_are_scored_exactly_where_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_ROWS", -1)
    chosen = np.arange(50)
    vectors = OneRowEach(np.linspace(0.5, 0.1, 50).astype(np.float32), 0.001, 1)
    none, ones = np.zeros(50, np.float32), np.ones(50, np.float32)
    asked = ComparedClips(chosen, np.ones_like(chosen), none, ones, np.empty(0, np.float32))
    found = clip_scores(asked, vectors, np.ones(4, np.float32), ExactlyScored(5), np.array([30, 49]))
    exact = np.flatnonzero(found.scores == vectors.exact)
    assert found.exact[exact].all()
    assert {0, 1, 2, 3, 4, 30, 49} <= set(exact.tolist())
    assert not set(exact.tolist()) & {10, 20, 29, 31, 48}


def test_few_clips_are_scored_exactly_and_few_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    random, chosen = np.random.default_rng(0), np.arange(20_000)
    vectors = OneRowEach(random.normal(0.2, 0.05, len(chosen)).astype(np.float32), 0.001, 1)
    none, ones = np.zeros(len(chosen), np.float32), np.ones(len(chosen), np.float32)
    asked = ComparedClips(chosen, np.ones_like(chosen), none, ones * 0.05, np.empty(0, np.float32))
    clip_scores(asked, vectors, np.ones(4, np.float32), ExactlyScored())
    assert 256 <= vectors.scored < 500
    monkeypatch.setattr(module, "EXACT_ROWS", 20_000)
    vectors.scored = 0
    assert (
        clip_scores(asked, vectors, np.ones(4, np.float32), ExactlyScored()).scores.tolist() == vectors.exact.tolist()
    )
    assert vectors.scored == 20_000


@pytest.fixture(scope="module")
def gallery_of() -> Callable[[ExactVectors], FrameGallery]:
    def make(vectors: ExactVectors) -> FrameGallery:
        random = np.random.default_rng(5)
        counts = random.integers(1, 9, 700)
        centres = random.standard_normal((700, D))
        frames = np.repeat(centres, counts, axis=0) + 0.5 * random.standard_normal((counts.sum(), D)) + 0.8
        vectors.append((frames / np.linalg.norm(frames, axis=1, keepdims=True)).astype(np.float32))
        return FrameGallery(
            clip_ids=ClipIds(encoded_ids(f"clip {number}" for number in range(len(counts)))),
            first_rows=np.cumsum(counts) - counts,
            counts=counts,
            means=random.normal(0, 0.02, 700).astype(np.float32),
            deviations=random.uniform(0.1, 0.2, 700).astype(np.float32),
            null_best=np.sort(random.normal(2.5, 0.4, 200)).astype(np.float32),
        )

    return make


@pytest.mark.parametrize("share", [1.0, 0.1, 0.01])
def test_what_is_shown_is_exact_in_a_real_library_under_any_filter(
    tmp_path: Path, gallery_of: Callable[[ExactVectors], FrameGallery], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    vectors = ExactVectors(tmp_path / "vectors.0.f16", D)
    gallery, random = gallery_of(vectors), np.random.default_rng(8)

    def ranking(query: FloatArray, allowed: AllowedClips, exact_rows: int) -> FrameRanking:
        monkeypatch.setattr(module, "EXACT_ROWS", exact_rows)
        return look(gallery, vectors, query, allowed, ExactlyScored(20, encoded_ids(["clip 3", "clip 699", "none"])))

    differs = False
    for _ in range(20):
        query = random.standard_normal(D).astype(np.float32)
        query /= np.linalg.norm(query)
        allowed = AllowedClips(gallery.clip_ids, random.random(len(gallery.clip_ids)) < share)
        exact, found = (ranking(query, allowed, rows) for rows in (10**9, -1))
        near = exact.ranks <= 20
        np.testing.assert_array_equal(found.ranks[near], exact.ranks[near])
        shown = near | np.isin(np.arange(700), [3, 699])
        np.testing.assert_allclose(found.scores[shown], exact.scores[shown], atol=1.1e-5)
        assert exact.above_nonsense is not None
        assert found.above_nonsense is not None
        for bar in (FITS, MAY_FIT):
            np.testing.assert_array_equal(found.above_nonsense >= bar, exact.above_nonsense >= bar)
        differs |= bool((found.scores != exact.scores).any())
    assert differs == (share > 0.01), "under the last filter all are among the nearest"


@pytest.mark.parametrize("models", [1, 2])
def test_what_fits_by_several_models_is_as_if_all_were_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: int
) -> None:
    """Each model has to be as many times as sure as there are models, so the bars between states lie elsewhere."""
    random, clips = np.random.default_rng(3), 3000
    everything = AllowedClips(ClipIds(encoded_ids(map(str, range(clips)))), np.ones(clips, np.bool_))
    frames, query = random.standard_normal((clips, D)) + 0.8, random.standard_normal(D).astype(np.float32) + 0.3
    vectors = ExactVectors(tmp_path / "vectors.0.f16", D)
    vectors.append((frames / np.linalg.norm(frames, axis=1, keepdims=True)).astype(np.float32))
    bank = np.sort(random.normal(2, 0.5, 200)).astype(np.float32)
    none, rows = np.zeros(clips, np.float32), (np.arange(clips), np.ones(clips, np.int64))
    gallery, vector = FrameGallery(everything.gallery, *rows, none, none + 0.1, bank), query / np.linalg.norm(query)
    shares = []
    for exact_rows in (10**9, -1):
        monkeypatch.setattr(module, "EXACT_ROWS", exact_rows)
        above = look(gallery, vectors, vector, everything, ExactlyScored(5, models=models)).above_nonsense
        assert above is not None
        shares.append(as_one_of(above, models))
    exact, found = shares
    for bar in (FITS, MAY_FIT):
        assert 20 < (exact >= bar).sum() < 2500
        np.testing.assert_array_equal(found >= bar, exact >= bar)
