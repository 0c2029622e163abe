"""`benchmarks/evidence/rendered/length`: each method is made, costs what it says, and shares what is trained alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.admission_rules import TWICE
from benchmarks.evidence.length import BALANCED, ENSEMBLE, LONGER, WITHOUT_LENGTH
from benchmarks.evidence.rendered.length import EVIDENCE, MODELS, ROWS, measured_rows
from benchmarks.evidence.rendered.worlds import Model, RenderedWorld, Trainings, recipe_of
from benchmarks.evidence.rows import ADMISSION, AGAIN, BASELINE, SEARCH_S, TRAINING_S, Place, Size
from benchmarks.evidence.trainings import SplitName, as_scores, found_by, values_of
from benchmarks.planted import RULES, Split
from evenreel.corpus import select
from evenreel.encoders import load_encoder
from evenreel.planted import PlantedCorpus, corpus_of, plan_corpus, text_features
from evenreel.planted.features import frame_times
from evenreel.planted.plan import SPLITS
from evenreel.types import VideoFeatures

TINY = Place(1, 0.9, Size(240, 0, 2), Path())


@pytest.fixture(scope="module")
def world() -> RenderedWorld:
    """Clips of the planned lengths and words, with noise for pictures."""
    plan = plan_corpus("length", 0.9, 240, seed=1)
    return RenderedWorld(plan, [split_of_noise(plan, name) for name in SPLITS])


def split_of_noise(plan: PlantedCorpus, name: SplitName) -> Split:
    clips = plan.split(name)
    times = [frame_times(clip.scene, RULES["length"]) for clip in clips]
    mask = np.arange(max(map(len, times))) < np.array([[len(one)] for one in times])
    times_s = np.zeros(mask.shape)
    times_s[mask] = np.concatenate(times)
    frames = np.random.default_rng(0).normal(size=(*mask.shape, 128)) * mask[..., None]
    frames /= np.maximum(np.linalg.norm(frames, axis=-1, keepdims=True), 1e-9)
    videos = VideoFeatures(tuple(clip.clip_id for clip in clips), frames.astype(np.float16), mask, times_s)
    return Split(select(corpus_of(plan), split=name), text_features(clips, load_encoder("builtin")), videos)


def test_every_row_has_a_model_and_costs_what_recipes_take(world: RenderedWorld) -> None:
    assert {BASELINE, *ADMISSION} <= set(ROWS)
    assert {LONGER, ENSEMBLE, WITHOUT_LENGTH, BALANCED, "strata 2", "strata 2, all steps"} == set(EVIDENCE.methods)
    assert (ROWS[ENSEMBLE].steps, ROWS[ENSEMBLE].models) == (2, 2)
    for name, model in MODELS.items():
        if isinstance(model, Model):
            members = recipe_of(world, model, TINY).members
            count = 1 if members is None else members.count
            times = count if members is not None and members.steps == "full" else 1
            assert (ROWS[name].steps, ROWS[name].models) == (model.steps * times, count), name


@pytest.mark.parametrize("row", EVIDENCE.methods)
def test_a_row_has_its_figures(world: RenderedWorld, row: str) -> None:
    ((name, figures),) = measured_rows(world, TINY, [row])
    assert name == row
    assert 0 <= figures["R@1"] <= figures["mAP"] <= 100
    assert {TRAINING_S, SEARCH_S} <= set(figures)


def test_the_ensemble_is_the_mean_of_the_baseline_and_another_start(world: RenderedWorld) -> None:
    place = TINY._replace(size=Size(240, 0, 5))
    trainings = Trainings(world, place, MODELS)
    one, other = (values_of(trainings.model(name)[0], world.test) for name in (BASELINE, AGAIN))
    assert np.abs(one - other).max() > 0
    expected = found_by(as_scores((one + other) / 2, world.test), world.test)
    ((_, figures),) = measured_rows(world, place, [ENSEMBLE])
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_longer_training_is_trained_once(world: RenderedWorld) -> None:
    trainings = Trainings(world, TINY, MODELS)
    assert trainings.model(LONGER) is trainings.model(TWICE)
