"""Corruptions of the package: the pixels that the planted page was measured with, and where the subject is guessed."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.shifts.measure import subject_of as places_of
from evenreel.edits.corruptions import CORRUPTIONS, Original, inserted, subject_of
from evenreel.edits.settings import KINDS, STRENGTHS, Corruption, CorruptionSettings
from evenreel.errors import UsageError
from evenreel.planted import plan_corpus
from evenreel.planted.draw import draw_clip
from evenreel.types import Pixels

FRAMES = 12


def stripes(seed: int = 0) -> Original:
    """Moving stripes, a subject that walks, and another clip of two colours."""
    first = np.random.default_rng(seed).integers(60, 200, (24, 32, 3)).astype(np.uint8)
    frames = np.stack([np.roll(first, step, axis=1) for step in range(FRAMES)])
    subject = np.array([(8.0 + step, 12.0, 5.0) for step in range(FRAMES)])
    similar, elsewhere = (np.full_like(frames, value) for value in (7, 9))
    elsewhere[:, ::2] = 29
    return Original(frames, subject, similar, elsewhere, 6)


BEFORE = {
    "impulse-noise 1": 536_406_010, "impulse-noise 5": 3_824_236_590, "gaussian-noise 3": 776_305_026,
    "fog 3": 1_219_705_084, "elastic 5": 3_824_966_494, "occlusion 4": 2_681_553_774, "style 4": 345_859_147,
    "insertion 3": 74_209_867, "scrambling 5": 1_540_227_222,
}  # fmt: skip
"""Checksums of what the functions gave when they belonged to the benchmark of the planted page."""


@pytest.mark.parametrize("name", BEFORE)
def test_pixels_are_those_that_the_planted_page_was_measured_with(name: str) -> None:
    kind, strength = name.split()
    found = CORRUPTIONS[kind](stripes(), int(strength), np.random.default_rng([0, 1]))
    assert zlib.crc32(found.tobytes()) == BEFORE[name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_clip_of_one_frame_or_of_one_colour_is_corrupted_too(kind: str) -> None:
    flat = np.full((1, 16, 16, 3), 90, np.uint8)
    clip = Original(flat, subject_of(flat), flat, flat, 4)
    found = CORRUPTIONS[kind](clip, 5, np.random.default_rng(0))
    assert found.dtype == np.uint8 and found.shape == (2 if kind == "insertion" else 1, 16, 16, 3)


def test_fog_brightens_what_is_dark_and_leaves_less_contrast() -> None:
    clip = stripes()
    dark = clip._replace(frames=clip.frames // 2)
    found = [CORRUPTIONS["fog"](dark, one, np.random.default_rng(2)).astype(float) for one in STRENGTHS]
    means, edges = [one.mean() for one in found], [np.abs(np.diff(one, axis=2)).mean() for one in found]
    assert means == sorted(means) and means[0] > dark.frames.mean()
    assert edges == sorted(edges, reverse=True)


@given(st.integers(1, 400), st.sampled_from(STRENGTHS))
@settings(max_examples=20)
def test_the_share_of_inserted_frames_is_that_of_the_strength(count: int, strength: int) -> None:
    added = inserted(count, strength)
    assert added == 1 or abs(added - count * strength / (10 - strength)) <= 0.5 + 1e-9
    assert added >= 1
    frames = np.zeros((count, 2, 2, 3), np.uint8)
    clip = Original(frames, np.empty(0), frames + 1, frames, 4)
    assert len(CORRUPTIONS["insertion"](clip, strength, np.random.default_rng(count))) == count + added


def walking(noise: float = 0.0) -> tuple[Pixels, np.ndarray]:
    """A grey wall before which a white disc walks; and where its middle is."""
    rows, columns = np.mgrid[:90, :160]
    middles = np.array([(30 + 8 * step, 45 + 12 * np.sin(step)) for step in range(FRAMES)])
    inside = [(np.hypot(columns - x, rows - y) < 12)[..., None] for x, y in middles]
    wall = 110 + np.random.default_rng(0).normal(0, noise, (FRAMES, 90, 160, 3))
    return np.where(inside, 235, wall).clip(0, 255).astype(np.uint8), middles


@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_the_subject_is_what_moves(noise: float) -> None:
    frames, middles = walking(noise)
    found = subject_of(frames)
    assert np.hypot(*(found[:, :2] - middles).T).max() < 4
    assert found[:, 2] == pytest.approx(12, rel=0.35)


def test_without_motion_the_subject_is_what_stands_out() -> None:
    frames, middles = walking()
    still = frames[3:4].repeat(5, axis=0)
    assert np.hypot(*(subject_of(still)[:, :2] - middles[3]).T).max() < 4


def test_in_most_frames_of_rendered_clips_the_guess_is_within_the_subject() -> None:
    inside = []
    for clip in plan_corpus("source", 0.0, 20, 3).clips[:12]:
        frames, true = np.stack(list(draw_clip(clip.scene)))[::3], places_of(clip.scene)[::3]
        inside.append(np.hypot(*(subject_of(frames) - true)[:, :2].T) < true[:, 2])
    assert np.concatenate(inside).mean() > 0.7


def test_settings_name_what_there_is() -> None:
    asked = CorruptionSettings(kinds=("none", "fog", "fog"), strengths=(5, 1, 5))
    assert [one.name for one in asked.corruptions] == ["none", "fog-5", "fog-1"]
    assert len(CorruptionSettings(strengths=STRENGTHS).corruptions) == 60
    assert asked.corruptions[1] == Corruption("fog", 5)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"kinds": ("mist",)}, "'mist' is no kind of corruption; there are: gaussian-noise"),
        ({"strengths": (6,)}, "A strength of 6"),
        ({"strengths": ()}, "No strength"),
        ({"side": 8}, "A side of 8"),
        ({"fps": 0.0}, "0.0 frames a second"),
        ({"seed": -1}, "The seed is -1"),
    ],
)
def test_hazard_213_what_cannot_be_asked_for_is_refused(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=f"^{told}"):
        CorruptionSettings(**wrong)  # type: ignore[arg-type]
