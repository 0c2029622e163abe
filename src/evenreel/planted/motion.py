"""Motion of a scene's subject, and shake of its camera, at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenreel.planted.scenes import Scene
from evenreel.planted.vocabulary import Track, activities

SHAKE_RATES_HZ = (0.7, 1.3, 2.9)
EDGE = 0.5
"""Half a side of the centred square, in picture heights."""


@dataclass(frozen=True)
class Pose:
    """Pose of a scene's subject at one time.

    Attributes:
        x, y: centre in picture heights, from the picture's centre.
        radius: radius in picture heights.
        turns: rotation, 1 is once round.
    """

    x: float
    y: float
    radius: float
    turns: float


def subject_pose(scene: Scene, time_s: float) -> Pose:
    """Compute the pose of a scene's subject at `time_s` seconds; it stays inside the centred square of the picture."""
    activity, subject = activities()[scene.activity], scene.subject
    radius = subject.radius * track_value(activity.scale, scene, time_s)
    room = EDGE - 1.1 * radius
    return Pose(
        x=room * _clip(_home(subject.x, activity.x) + track_value(activity.x, scene, time_s)),
        y=room * _clip(_home(subject.y, activity.y) + track_value(activity.y, scene, time_s)),
        radius=radius,
        turns=subject.turns + track_value(activity.turn, scene, time_s),
    )


def track_value(track: Track, scene: Scene, time_s: float) -> float:
    """Compute the value of a track (a number that changes with time) at `time_s` seconds of a scene."""
    done = min(max(time_s / scene.duration_s, 0.0), 1.0)
    wave = float(np.sin(2 * np.pi * (track.rate_hz * time_s + track.phase)))
    swing = track.swing * (abs(wave) if track.folded else wave)
    return track.start + (track.end - track.start) * done + track.per_s * time_s + swing


def shake_offset(scene: Scene, time_s: float) -> tuple[int, int]:
    """Compute the shift of the picture by the camera's shake at `time_s` seconds, in whole pixels (x, y)."""
    if not scene.shake:
        return 0, 0
    phases = np.random.default_rng([scene.seed, 1]).uniform(0, 2 * np.pi, (2, len(SHAKE_RATES_HZ)))
    waves = np.sin(2 * np.pi * np.array(SHAKE_RATES_HZ) * time_s + phases).mean(axis=1)
    dx, dy = np.rint(waves * scene.shake * scene.height).astype(int)
    return int(dx), int(dy)


def _home(position: float, track: Track) -> float:
    """The home position counts only where the activity leaves the axis alone."""
    return 0.0 if track != Track() else position


def _clip(value: float) -> float:
    return min(max(value, -1.0), 1.0)
