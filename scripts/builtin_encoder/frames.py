"""Training frames: rendered ahead into memory, shrunk exactly as the checkpoint's preprocessing does it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from evenreel.planted import Renderer, Scene, SceneRanges, sample_scene, vocabulary
from evenreel.planted.scenes import shake_offset, subject_pose

SIDE = 64
"""Side of the encoder's square input in pixels."""
PICTURE_SIZES = ((160, 120), (160, 120), (128, 128), (128, 128), (214, 120), (320, 240))
SCENES_A_JOB = 500
VISIBLE = ("colour", "shape", "size", "background")
"""Attributes that one frame shows; what the subject does needs several."""
NAMED = {
    "colour": tuple(vocabulary.colours()),
    "shape": vocabulary.shapes(),
    "size": tuple(vocabulary.sizes()),
    "background": tuple(vocabulary.backgrounds()),
}


@dataclass(frozen=True)
class Frames:
    """Rendered frames and their truth.

    Attributes:
        pixels: (N, 3, SIDE, SIDE) uint8.
        labels: (N, 4) index of the value of each of `VISIBLE`.
        discs: (N, 3) centre x, y and radius of the subject in pixels of the frame.
        scenes: the scene of each frame, N of them.
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    discs: NDArray[np.float32]
    scenes: tuple[Scene, ...]


def shrink(picture: Image.Image) -> NDArray[np.uint8]:
    """(3, SIDE, SIDE) from a picture of any size, as CLIPImageProcessor does: shortest edge, then the centre."""
    scale = SIDE / min(picture.size)
    small = picture.resize((int(picture.width * scale), int(picture.height * scale)), Image.Resampling.BICUBIC)
    left, top = (small.width - SIDE) // 2, (small.height - SIDE) // 2
    return np.asarray(small.crop((left, top, left + SIDE, top + SIDE))).transpose(2, 0, 1)


def training_scene(rng: np.random.Generator) -> Scene:
    """A scene at one of several picture sizes, whose sign, if any, says something unrelated or misleading."""
    width, height = PICTURE_SIZES[int(rng.integers(len(PICTURE_SIZES)))]
    scene = sample_scene(rng, SceneRanges(sign_share=0.35, width=width, height=height))
    signs = tuple(replace(sign, text=_sign_text(rng), start_s=0.0, end_s=np.inf) for sign in scene.signs)
    return replace(scene, signs=signs)


def _sign_text(rng: np.random.Generator) -> str:
    words = [*vocabulary.sign_words(), *NAMED["colour"], *NAMED["shape"], *NAMED["background"]]
    if rng.random() < 0.5:
        return words[int(rng.integers(len(words)))].upper()
    return nonsense_word(rng).upper()


def nonsense_word(rng: np.random.Generator) -> str:
    """A few letters that mean nothing."""
    letters = "aabcdeeefghiijklmnooprsttuvwxyz"
    return "".join(letters[i] for i in rng.integers(len(letters), size=int(rng.integers(2, 8))))


def render(job: tuple[int, int, int]) -> Frames:
    """Frames of `count` scenes with `views` random moments each, from one seed."""
    seed, count, views = job
    rng = np.random.default_rng(seed)
    scenes = [training_scene(rng) for _ in range(count)]
    moments = rng.uniform(0, 1, (count, views))
    parts = [draw_views(s, m * s.duration_s) for s, m in zip(scenes, moments, strict=True)]
    return Frames(
        np.concatenate([pixels for pixels, _ in parts]),
        np.repeat([_labels(scene) for scene in scenes], views, axis=0),
        np.concatenate([discs for _, discs in parts]),
        tuple(scene for scene in scenes for _ in range(views)),
    )


def draw_views(scene: Scene, times_s: NDArray[np.float64]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """(T, 3, SIDE, SIDE) frames of a scene at some moments, and the (T, 3) discs that its subject covers."""
    renderer = Renderer(scene)
    pixels = np.stack([shrink(renderer.picture(float(t))) for t in times_s])
    return pixels, np.array([_disc(scene, float(t)) for t in times_s], dtype=np.float32)


def _disc(scene: Scene, time_s: float) -> tuple[float, float, float]:
    pose = subject_pose(scene, time_s)
    dx, dy = (part / scene.height for part in shake_offset(scene, time_s))
    return SIDE * (0.5 + pose.x + dx), SIDE * (0.5 + pose.y + dy), SIDE * pose.radius


def _labels(scene: Scene) -> list[int]:
    return [NAMED[name].index(scene.attributes[name]) for name in VISIBLE]


def render_all(scenes: int, views: int, seed: int, processes: int) -> Frames:
    """The training frames, rendered in several processes; their number does not change the frames."""
    jobs = [(seed * 1_000_003 + n, SCENES_A_JOB, views) for n in range(scenes // SCENES_A_JOB)]
    with get_context("spawn").Pool(processes) as pool:
        parts = pool.map(render, jobs, chunksize=1)
    return Frames(
        np.concatenate([part.pixels for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.discs for part in parts]),
        tuple(scene for part in parts for scene in part.scenes),
    )
