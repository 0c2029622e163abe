"""Pairs of real and generated clips made of random vectors, with an offset of known size and direction."""

from __future__ import annotations

import pytest

from evenreel.papers import StudySettings, Workspace
from tests.papers.offset_pairs import offset_material, quick_settings


@pytest.fixture(scope="session")
def favoured() -> Workspace:
    """Generated clips lie nearer to what every caption has in common."""
    return offset_material(0.35)


@pytest.fixture
def quick() -> StudySettings:
    """Two seeds of a few steps."""
    return quick_settings()
