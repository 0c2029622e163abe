"""How clips looked to a tower before it learned: the mean of their real frames, clip by clip, from another folder."""

from __future__ import annotations

import numpy as np

from evenreel.features.scene_elements import clip_means
from evenreel.types import VideoFeatures


def test_the_mean_is_of_real_frames_alone() -> None:
    frames = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [9.0, 9.0]]], np.float16)
    mask = np.array([[True, True], [True, False]])
    videos = VideoFeatures(("a", "b"), frames, mask, np.zeros((2, 2)))
    found = clip_means(videos)
    assert found.dtype == np.float32
    assert found.tolist() == [[0.5, 0.5], [1.0, 0.0]]
