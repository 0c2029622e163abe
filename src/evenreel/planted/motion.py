"""Motion of the subject and shake of the camera at a moment of a clip."""

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
    """Pose of the subject at one moment: centre and radius in picture heights from the picture's centre; turns."""

    x: float
    y: float
    radius: float
    turns: float


def subject_pose(scene: Scene, time_s: float) -> Pose:
    """Compute the pose of the subject at `time_s`; all of it stays inside the centred square of the picture."""
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
    """Compute the value of a track at `time_s` of a clip."""
    done = min(max(time_s / scene.duration_s, 0.0), 1.0)
    wave = float(np.sin(2 * np.pi * (track.rate_hz * time_s + track.phase)))
    swing = track.swing * (abs(wave) if track.folded else wave)
    return track.start + (track.end - track.start) * done + track.per_s * time_s + swing


def shake_offset(scene: Scene, time_s: float) -> tuple[int, int]:
    """Compute the shift of the picture at `time_s`, in whole pixels, at most `shake` picture heights."""
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
