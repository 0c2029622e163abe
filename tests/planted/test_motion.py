"""Poses: inside the picture, hand-worked ends, and opposites that are each other in reverse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.planted import Entity, Scene, sample_scene, vocabulary
from evenreel.planted.scenes import shake_offset, subject_pose

ORDERED = [name for name, activity in vocabulary.activities().items() if activity.opposite]


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_the_subject_stays_inside_the_centred_square(seed: int, part: float) -> None:
    scene = sample_scene(np.random.default_rng(seed))
    pose = subject_pose(scene, part * scene.duration_s)
    assert abs(pose.x) + pose.radius <= 0.5
    assert abs(pose.y) + pose.radius <= 0.5


@pytest.mark.parametrize("name", ORDERED)
@pytest.mark.parametrize("part", [0.0, 0.3, 1.0])
def test_an_opposite_shows_the_same_poses_in_reverse_order(name: str, part: float) -> None:
    """So no single frame tells the two apart: only the order does."""
    scene = Scene((Entity("star", "red", "small"),), name, "beach", duration_s=4.0)
    other = replace(scene, activity=vocabulary.activities()[name].opposite or "")
    here, there = subject_pose(scene, 4.0 * part), subject_pose(other, 4.0 * (1 - part))
    assert np.allclose([here.x, here.y, here.radius, here.turns], [there.x, there.y, there.radius, there.turns])


def test_moving_left_goes_from_the_right_side_to_the_left_side() -> None:
    """Small is 0.14 in radius, so the way is 0.5 - 1.1 * 0.14 = 0.346 to each side."""
    scene = Scene((Entity("star", "red", "small"),), "moves_left", "beach", duration_s=2.0)
    assert [round(subject_pose(scene, t).x, 3) for t in (0.0, 1.0, 2.0)] == [0.346, 0.0, -0.346]


def test_rising_goes_upwards_and_growing_grows() -> None:
    rising = Scene((Entity("star", "red", "small"),), "rises", "beach")
    growing = replace(rising, activity="grows")
    assert subject_pose(rising, 0.0).y > subject_pose(rising, rising.duration_s).y
    assert subject_pose(growing, 0.0).radius < subject_pose(growing, growing.duration_s).radius


@given(st.integers(0, 10**6), st.floats(0, 30))
def test_the_camera_trembles_no_further_than_told(seed: int, time_s: float) -> None:
    scene = replace(sample_scene(np.random.default_rng(seed)), shake=0.02)
    assert max(map(abs, shake_offset(scene, time_s))) <= np.ceil(0.02 * scene.height)


def test_the_home_position_counts_where_the_activity_leaves_the_axis_alone() -> None:
    subject = Entity("star", "red", "small", x=0.5, y=-0.5)
    rising = subject_pose(Scene((subject,), "rises", "beach", duration_s=2.0), 1.0)
    resting = subject_pose(Scene((subject,), "rests", "beach"), 1.0)
    assert (round(rising.x, 3), round(rising.y, 3)) == (0.173, 0.0)
    assert (round(resting.x, 3), round(resting.y, 3)) == (0.173, -0.173)
