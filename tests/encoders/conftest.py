"""Tiny checkpoints, made once, and the encoders over them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenreel.edits.removal import PatchMask
from evenreel.encoders import load_encoder
from evenreel.encoders.loading import LoadedEncoder
from evenreel.planted.draw import draw_frame
from evenreel.planted.scenes import Entity, SceneRanges, sample_scene, subject_pose
from evenreel.types import Pixels
from tests.tiny_checkpoints import tiny_clip, tiny_siglip

BUILDERS = {"clip": tiny_clip, "siglip": tiny_siglip}


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One folder a family; not to be changed by a test."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {family: build(root / family) for family, build in BUILDERS.items()}


@pytest.fixture
def clip_copy(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    """A CLIP folder that a test may change."""
    return Path(shutil.copytree(checkpoints["clip"], tmp_path / "copy"))


@pytest.fixture(params=sorted(BUILDERS))
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def encoder(checkpoints: dict[str, Path], family: str) -> LoadedEncoder:
    return load_encoder(str(checkpoints[family]), device="cpu")


@pytest.fixture(scope="session")
def builtin() -> LoadedEncoder:
    return load_encoder("builtin", device="cpu")


@pytest.fixture(scope="session")
def circles() -> tuple[Pixels, PatchMask]:
    """Square scenes (N, 3, H, W) with a red circle, and on which patches (N, 8, 8) it lies by their middles."""
    middles = (np.arange(8) + 0.5) / 8 - 0.5
    pictures, places = [], []
    for seed in range(24):
        scene = sample_scene(np.random.default_rng(seed), SceneRanges(sign_share=0.0, width=128, height=128))
        subject = Entity("circle", "red", "medium", scene.subject.x, scene.subject.y)
        scene = replace(scene, entities=(subject, *scene.entities[1:]))
        pose = subject_pose(scene, 1.0)
        pictures.append(draw_frame(scene, 1.0).transpose(2, 0, 1))
        places.append(np.hypot(middles[:, None] - pose.y, middles - pose.x) <= pose.radius)
    return np.stack(pictures), np.stack(places)
