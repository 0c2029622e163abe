"""Perturbations of clips: what each says it does, held against slow counts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.shifts.measure import PERTURBATIONS, subject_of
from evenreel.edits.corruptions import (
    GREY,
    Original,
    elastic,
    gaussian_noise,
    guidance,
    impulse_noise,
    insertion,
    occlusion,
    scrambling,
    style,
)
from evenreel.edits.settings import STRENGTHS
from evenreel.planted import plan_corpus
from evenreel.planted.draw import draw_frame
from evenreel.types import Pixels

FRAMES = 12
SCENE = plan_corpus("source", 0.0, 20, 3).clips[0].scene


def shown(seed: int = 0) -> Original:
    """Moving stripes, a subject that walks, and two clips of one colour each."""
    rng = np.random.default_rng(seed)
    first = rng.integers(60, 200, (24, 32, 3)).astype(np.uint8)
    frames = np.stack([np.roll(first, step, axis=1) for step in range(FRAMES)])
    subject = np.array([(8.0 + step, 12.0, 5.0) for step in range(FRAMES)])
    similar, elsewhere = (np.full_like(frames, value) for value in (7, 9))
    elsewhere[:, ::2] = 29
    return Original(frames, subject, similar, elsewhere, 6)


def changed(name: str, strength: int, seed: int = 0) -> Pixels:
    return PERTURBATIONS[name](shown(seed), strength, np.random.default_rng([seed, 1]))


@pytest.mark.parametrize("name", PERTURBATIONS)
@given(seed=st.integers(0, 5), strength=st.sampled_from(STRENGTHS))
@settings(max_examples=6)
def test_a_perturbation_is_a_function_of_its_inputs_and_leaves_them(name: str, seed: int, strength: int) -> None:
    clip = shown(seed)
    found = PERTURBATIONS[name](clip, strength, np.random.default_rng([seed, 1]))
    np.testing.assert_array_equal(found, changed(name, strength, seed))
    np.testing.assert_array_equal(clip.frames, shown(seed).frames)
    assert found.dtype == np.uint8 and found.shape[1:] == clip.frames.shape[1:] and len(found) >= FRAMES


@pytest.mark.parametrize(
    "name", [one for one in PERTURBATIONS if one not in ("event insertion", "temporal scrambling")]
)
def test_more_strength_changes_more(name: str) -> None:
    frames = np.stack([draw_frame(SCENE, time_s) for time_s in (0.0, 0.2, 0.4)])
    clip = shown()._replace(frames=frames, subject=subject_of(SCENE)[:3])
    found = [PERTURBATIONS[name](clip, one, np.random.default_rng(1)) for one in STRENGTHS]
    far = [np.abs(one - clip.frames.astype(float)).mean() for one in found]
    assert far == sorted(far) and 0 < far[0] < far[-1]


def test_noise_has_the_size_that_is_said_and_stays_in_time() -> None:
    grey = shown()._replace(frames=np.full((FRAMES, 60, 80, 3), 128, np.uint8))
    found = gaussian_noise(grey, 2, np.random.default_rng(0)).astype(float)
    assert (found - 128).std() == pytest.approx(0.12 * 255, rel=0.03)
    struck = impulse_noise(grey, 5, np.random.default_rng(0))
    assert (struck != 128).mean() == pytest.approx(0.27, abs=0.01)
    assert set(np.unique(struck)) == {0, 128, 255}
    for one in (found, struck):
        assert (one == one[0]).all()


def test_warping_moves_pixels_no_further_than_is_said() -> None:
    ramp = np.tile(np.arange(80, dtype=np.uint8)[None, :, None], (60, 1, 3))
    found = elastic(shown()._replace(frames=ramp[None]), 5, np.random.default_rng(0))
    moved = np.abs(found[0].astype(int) - ramp)
    assert 0 < moved.max() <= round(0.16 * 60) + 1


def test_a_blur_follows_what_moves() -> None:
    still = shown().frames[:1].repeat(4, axis=0)
    assert guidance(still).tolist() == [1.0] * 4
    moving = still.copy()
    moving[2:] = 255 - moving[2:]
    assert guidance(moving).tolist() == [0.5, 0.5, 1.5, 0.5]


def test_the_square_covers_the_subject_and_goes_with_it() -> None:
    clip = shown()
    found = occlusion(clip, 5, np.random.default_rng(0))
    for frame, (x, y, _) in zip(found, clip.subject, strict=True):
        assert (frame[int(y), int(x)] == GREY).all()
    covered = (found == GREY).all(axis=-1)
    assert covered.sum(axis=(1, 2)).max() <= (2 * 5 * 0.9 + 1) ** 2
    assert (found[~covered] == clip.frames[~covered]).all()


def test_the_renderer_says_where_the_subject_is() -> None:
    clip = plan_corpus("source", 0.0, 20, 3).clips[0]
    x, y, radius = subject_of(clip.scene)[5]
    frame, without = (
        draw_frame(scene, 5 / clip.scene.fps).astype(int)
        for scene in (clip.scene, type(clip.scene)(**{**vars(clip.scene), "without": frozenset({"entity"})}))
    )
    rows, columns = np.nonzero(np.abs(frame - without).sum(axis=-1))
    assert np.hypot(rows.mean() - y, columns.mean() - x) < radius / 2
    assert np.hypot(rows - y, columns - x).max() < 1.5 * radius + 2


def test_a_style_has_the_moments_of_the_other_clip() -> None:
    clip = shown()
    found = style(clip, 5, np.random.default_rng(0)).reshape(-1, 3).astype(float)
    other = clip.elsewhere.reshape(-1, 3)
    assert found.mean(0) == pytest.approx(other.mean(0), abs=1) and found.std(0) == pytest.approx(other.std(0), abs=1)


@pytest.mark.parametrize(("strength", "count"), [(1, 1), (3, 5), (5, 12)])
def test_an_event_is_spliced_in_as_one_piece(strength: int, count: int) -> None:
    clip = shown()
    found = insertion(clip, strength, np.random.default_rng(4))
    foreign = (found == 7).all(axis=(1, 2, 3))
    assert foreign.sum() == count and np.abs(np.diff(foreign.astype(int))).sum() <= 2
    np.testing.assert_array_equal(found[~foreign], clip.frames)


@given(st.integers(0, 40), st.sampled_from(STRENGTHS))
@settings(max_examples=20)
def test_scrambling_puts_whole_blocks_in_another_order(seed: int, strength: int) -> None:
    clip = shown()
    frames = clip.frames.copy()
    frames[:, 0, 0, 0] = np.arange(FRAMES)
    order = scrambling(clip._replace(frames=frames), strength, np.random.default_rng(seed))[:, 0, 0, 0].tolist()
    assert sorted(order) == list(range(FRAMES)) != order
    breaks = sum(second != first + 1 for first, second in pairwise(order))
    assert 1 <= breaks <= (2, 3, 4, 6, 8)[strength - 1] - 1
