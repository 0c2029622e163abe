"""Writing of rendered clips as mp4 files; the same scene gives the same bytes in every run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evenreel.media.encode import clip_bytes
from evenreel.planted.draw import draw_clip
from evenreel.planted.scenes import Scene
from evenreel.types import Pixels


def write_scene(path: Path, scene: Scene) -> None:
    """Render a scene and write it as an mp4 file (H.264, 4:2:0, BT.709).

    Args:
        path: path of the file; an existing one is replaced.
        scene: scene to render.
    """
    write_clip(path, draw_clip(scene), scene.fps)


def write_clip(path: Path, frames: Iterable[Pixels], fps: int) -> None:
    """Encode frames and write them as an mp4 file (H.264, 4:2:0, BT.709).

    Args:
        path: path of the file; an existing one is replaced.
        frames: frames (H, W, 3) uint8 each, all of one size, H and W even.
        fps: frames per second.
    """
    path.write_bytes(clip_bytes(frames, fps))
