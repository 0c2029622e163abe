"""Tiny checkpoints, made once, and the encoders over them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evenreel.encoders import load_encoder
from evenreel.encoders.encoder import TowerEncoder
from tests.tiny_checkpoints import tiny_clip, tiny_siglip, tiny_siglip2

BUILDERS = {"clip": tiny_clip, "siglip": tiny_siglip, "siglip2": tiny_siglip2}


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
def encoder(checkpoints: dict[str, Path], family: str) -> TowerEncoder:
    return load_encoder(str(checkpoints[family]), device="cpu")
