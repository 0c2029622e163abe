"""`benchmarks/evidence/source.py`: every row on a small drawn world, and figures counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.evidence.rows import BASELINE, METRICS, SEARCH_S, TRAINING_S, Place, Size
from benchmarks.evidence.source import (
    ROWS,
    WIN_RATE,
    Made,
    MirroredParts,
    both_sides,
    by_coin,
    figures_of,
    generated,
    measured_rows,
    sources_balanced,
)
from evenreel.planted.worlds.settings import WorldSettings
from evenreel.planted.worlds.sources import MARK, captioned, draw_mirrored_world
from evenreel.planted.worlds.splits import SplitSizes, annotated_clips
from evenreel.types import Scores
from tests.planted.worlds.tables import made_up_table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def parts() -> MirroredParts:
    """A world of two hundred pairs."""
    table = made_up_table(train=460, test=100, verbs=8, nouns=20)
    world = draw_mirrored_world(annotated_clips(table, SplitSizes(200, 150, 60), 0), 0.0, 0, WorldSettings(32, 2))
    train, val, test = (world.split(name) for name in ("train", "val", "test"))
    return MirroredParts(train, captioned(val), test)


def test_every_row_is_made(parts: MirroredParts) -> None:
    found = dict(measured_rows(parts, Place(0, 0.0, Size(steps=2), Path()), list(ROWS)))
    assert list(found) == list(ROWS)
    for figures in found.values():
        assert set(figures) == {*METRICS, WIN_RATE, TRAINING_S, SEARCH_S}
        assert all(0 <= figures[name] <= 100 for name in (*METRICS, WIN_RATE))
    assert found["untrained, mean frame"][TRAINING_S] == 0 < found[BASELINE][TRAINING_S]
    assert sum(row.chosen for row in ROWS.values()) == 1


def test_right_is_the_real_clip_before_all_others_and_its_mirror(parts: MirroredParts) -> None:
    test = parts.test
    count = len(test.texts.ids)
    assert test.videos.ids[count:] == tuple(name + MARK for name in test.videos.ids[:count])
    values = np.random.default_rng(0).normal(size=(count, 2 * count)).astype(np.float32)
    values[: count // 2, : count // 2] += 3 * np.eye(count // 2, dtype=np.float32)
    figures = figures_of(Made(Scores(values, test.texts.ids, test.videos.ids), 1.0, 0.5), test)
    first = [values[row, row] == max(values[row]) for row in range(count)]
    above = [values[row, row] > values[row, count + row] for row in range(count)]
    assert figures["R@1"] == pytest.approx(100 * sum(first) / count)
    assert figures[WIN_RATE] == pytest.approx(100 * sum(above) / count)


def test_the_reference_has_either_clip_of_the_same_pair(parts: MirroredParts) -> None:
    before, after = (part.corpus.captions["clip_id"].to_list() for part in (parts.train, by_coin(parts.train, 1)))
    assert [one.removesuffix(MARK) for one in before] == [one.removesuffix(MARK) for one in after]
    assert 0.35 < np.mean([one.endswith(MARK) for one in after]) < 0.65 and before != after


def test_balanced_sources_weigh_half_each(parts: MirroredParts) -> None:
    pairs = sources_balanced(parts.train).pairs
    made = generated(parts.train)[pairs.clips]
    assert pairs.weights is not None and pairs.weights.mean() == pytest.approx(1)
    assert pairs.weights[made].sum() == pytest.approx(pairs.weights[~made].sum())


def test_both_sides_moves_some_generated_clips_alike(parts: MirroredParts) -> None:
    before, after = parts.train.videos.frames, both_sides(parts.train, 0).videos.frames
    moved = np.flatnonzero((before != after).any((1, 2)))
    assert generated(parts.train)[moved].all() and 20 < len(moved) < 90
    shifts = (after[moved].astype(float) - before[moved]).reshape(-1, before.shape[-1])
    assert shifts.std(0).max() < 2e-3
