"""`benchmarks/evidence/length`: each row is made, and costs what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.evidence.length import AVERAGED, MODELS, ROWS, Drawn, measured_rows, recipe_of, without_lengths
from benchmarks.evidence.rows import ADMISSION, BASELINE, SEARCH_S, TRAINING_S, Place, Size
from evenreel.planted.worlds.drawing import draw_world
from evenreel.planted.worlds.lengths import LENGTH_WORLD
from evenreel.planted.worlds.splits import SplitSizes, annotated_clips
from tests.planted.worlds.tables import made_up_table

pytestmark = pytest.mark.slow

PLACE = Place(0, 0.9, Size(clips=2_200, test_clips=40, steps=2), Path())


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    clips = annotated_clips(made_up_table(train=2_300, nouns=40), SplitSizes(2_200, 40, 40), 0)
    world = draw_world(clips, 0.9, 0)
    return Drawn(*(world.split(name) for name in Drawn._fields))


def test_all_rows_of_admission_are_there_and_one_is_recommended() -> None:
    assert {BASELINE, *ADMISSION} <= set(ROWS)
    assert set(ROWS) - {"untrained"} <= set(MODELS) | set(AVERAGED)
    assert [name for name, row in ROWS.items() if row.chosen] == ["frames without length"]


@pytest.mark.parametrize("name", [name for name in ROWS if name != "untrained"])
def test_steps_and_models_are_those_that_recipes_take(name: str) -> None:
    steps, models = 0.0, 0
    for one in AVERAGED.get(name, (name,)):
        members = recipe_of(MODELS[one], PLACE).members
        count = 1 if members is None else members.count
        models += count
        times = 1 if members is None else count if members.steps == "full" else 2 if members.begin == "full" else 1
        steps += MODELS[one].steps * times
    assert (ROWS[name].steps, ROWS[name].models) == (steps, models)


def test_every_row_is_measured(drawn: Drawn) -> None:
    found = dict(measured_rows(drawn, PLACE, list(ROWS)))
    assert list(found) == list(ROWS)
    for name, figures in found.items():
        assert 0 <= figures["R@1"] <= 100
        assert ({TRAINING_S, SEARCH_S} <= figures.keys()) == (name != "untrained")


def test_the_reference_does_not_see_lengths() -> None:
    """Clips that differ in their length alone have one frame."""
    frames = replace(LENGTH_WORLD.frame_shares, instance=0.0, background=0.0, time=0.0, action=0.0, length=0.999)
    clips = annotated_clips(made_up_table(), SplitSizes(300, 0, 40), 0)
    world = draw_world(clips, 0.9, 0, replace(LENGTH_WORLD, frame_shares=frames)).split("train")
    spread = [part.videos.frames.astype(float).std(axis=0).max() for part in (world, without_lengths(world, 0))]
    assert spread[0] > 0.05 and spread[1] < 0.02
    assert np.linalg.norm(without_lengths(world, 0).videos.frames.astype(float), axis=-1) == pytest.approx(1, abs=2e-3)
