"""Writing of rendered clips as mp4 files; the same scene gives the same bytes in every run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.media.encode import clip_bytes
from evenreel.planted.draw import draw_clip
from evenreel.planted.scenes import Scene
from evenreel.types import Pixels

if TYPE_CHECKING:
    from evenreel.planted.voices import Recordings


def write_scene(path: Path, scene: Scene, recordings: Recordings | None = None) -> None:
    """Render a scene and write it as an mp4 file (H.264, 4:2:0, BT.709; what is spoken as AAC).

    Args:
        path: path of the file; an existing one is replaced.
        scene: scene to render.
        recordings: what is spoken, as (N,) samples at 16 kHz by sentence; others are spoken by espeak-ng.

    Raises:
        UsageError: a sentence can be spoken neither by espeak-ng, nor is there a recording of it.
    """
    path.write_bytes(scene_bytes(scene, recordings))


def scene_bytes(scene: Scene, recordings: Recordings | None = None) -> bytes:
    """Render a scene as the bytes of an mp4 file; see `write_scene`."""
    if not scene.spoken:
        return clip_bytes(draw_clip(scene), scene.fps)
    from evenreel.planted.voices import sound_of

    sound = sound_of(scene.spoken, scene.duration_s, scene.seed, recordings)
    return clip_bytes(draw_clip(scene), scene.fps, sound=sound)


def write_clip(path: Path, frames: Iterable[Pixels], fps: int) -> None:
    """Encode frames and write them as an mp4 file (H.264, 4:2:0, BT.709).

    Args:
        path: path of the file; an existing one is replaced.
        frames: frames (H, W, 3) uint8 each, all of one size, H and W even.
        fps: frames per second.
    """
    path.write_bytes(clip_bytes(frames, fps))
