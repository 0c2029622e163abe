"""Other orders of frames and single frames: nothing changes for a model that does not see them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenreel.matchers.batches import VideoBatch
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings, PooledVectors
from evenreel.papers import Model, StudySettings, Workspace, run_study
from tests.papers.offset_pairs import DIMENSION


class FirstFrame(MeanPool):
    """A model that sees nothing but the frame that comes first."""

    def encode_video(self, video: VideoBatch) -> PooledVectors:
        return PooledVectors(video.frames[:, 0])


@pytest.fixture
def by_first(favoured: Workspace) -> Workspace:
    """Frames grow worse for generated clips: the later ones are those of other clips."""
    model = favoured.models[0]
    frames = model.part.videos.frames.copy()
    frames[40:, 1:] = np.roll(frames[40:, 1:], 1, axis=0)
    part = replace(model.part, videos=replace(model.part.videos, frames=frames))
    return replace(favoured, models=(Model("first", FirstFrame(DIMENSION, MeanPoolSettings()), part),))


def test_a_mean_of_frames_does_not_see_their_order(favoured: Workspace, quick: StudySettings) -> None:
    found = run_study("ghost/t4", favoured, quick)
    assert found.effect.value == pytest.approx(0.0, abs=1e-9)
    assert found.notices == (
        "mean_pool does not see the order of frames, so what moving them changes is not about motion.",
    )
    assert [row[2] for row in found.tables[0].rows] == [
        "as it is",
        "random, both",
        "random, generated alone",
        "reversed, both",
        "reversed, generated alone",
    ]


def test_a_model_that_sees_the_order_loses_what_it_saw(by_first: Workspace, quick: StudySettings) -> None:
    found = run_study("ghost/t4", by_first, quick)
    assert not found.notices
    changes = {row[2]: row[6] for row in found.tables[0].rows}
    assert changes["as it is"] == 0
    assert changes["reversed, generated alone"] > 10  # type: ignore[operator]
    paper = {(row[0], row[1]): row[2:] for row in found.tables[1].rows}
    assert paper["reversed, generated alone", "REAL"] == paper["as it is", "REAL"]
    assert paper["reversed, both", "REAL"] != paper["as it is", "REAL"]
    assert paper["reversed, both", "AI"] == paper["reversed, generated alone", "AI"]


def test_frames_taken_after_the_clip_is_moved_are_others(favoured: Workspace, quick: StudySettings) -> None:
    """Two of four frames: a mean sees which they are, not in which order."""
    moved = run_study("ghost/t4", favoured, replace(quick, frames=2, stage="video"))
    changes = {row[2]: row[6] for row in moved.tables[0].rows}
    assert changes["random, both"] != 0
    assert changes["as it is"] == 0


def test_single_frames(favoured: Workspace, quick: StudySettings) -> None:
    found = run_study("ghost/t5", favoured, quick)
    assert [row[2] for row in found.tables[0].rows] == ["as it is", "middle frame", "first frame", "random frame"]
    assert all(row[3] < 0 for row in found.tables[0].rows)  # type: ignore[operator]  # the offset is in every frame
    drawn = found.figures[0].draw()
    assert [bar.name for bar in drawn.data] == ["as it is", "middle frame", "first frame", "random frame"]
    assert list(drawn.data[0].x) == ["mean_pool,<br>generator<br>text"]
