"""`benchmarks/evidence/scene_text`: each row is made, relevance is what a loop says, and the warm start begins warm."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE, variant
from benchmarks.evidence.rows import ADMISSION, BASELINE, SEARCH_S, TRAINING_S, Place, Size
from benchmarks.evidence.scene_text import (
    ALIKE,
    FUSED,
    MODELS,
    ORACLE,
    ROWS,
    TCD,
    WEIGHED,
    Drawn,
    Parts,
    begun,
    measured_rows,
)
from benchmarks.evidence.trainings import relevance_of
from evenreel.checkpoint.architecture import module
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.registry import build_matcher
from evenreel.planted.worlds.signs import draw_signs_world, with_named_words
from evenreel.planted.worlds.splits import SplitSizes, annotated_clips
from tests.planted.worlds.tables import made_up_table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    clips = annotated_clips(made_up_table(), SplitSizes(240, 24, 24), 0)
    world = draw_signs_world(clips, 0.9, 0)
    parts = Parts(*(world.split(name) for name in Parts._fields))
    return Drawn(*parts, Parts(*(with_named_words(part, 0) for part in parts)))


def test_all_rows_of_admission_are_there() -> None:
    oracle = {variant(ORACLE, change) for change in (HALF, TWICE, NO_ADAPTER)}
    assert {BASELINE, ORACLE, *ADMISSION, *oracle} <= set(ROWS)
    untrained = {name for name, row in ROWS.items() if row.kind == "untrained"}
    assert set(ROWS) == untrained | set(MODELS) | set(FUSED) | set(ALIKE)
    assert [name for name, row in ROWS.items() if row.chosen] == ["words, fused"]


def test_steps_of_rows_are_those_of_their_trainings() -> None:
    for name, model in MODELS.items():
        assert ROWS[name].steps == model.steps + (MODELS[model.after].steps if model.after else 0)
    for name, channels in (FUSED | ALIKE).items():
        learned = [MODELS[one].steps for one in channels if one in MODELS]
        assert (ROWS[name].steps, ROWS[name].models) == (sum(learned), len(learned))


def test_a_clip_answers_where_it_shows_all_that_the_caption_names(drawn: Drawn) -> None:
    test = drawn.test
    relevance = relevance_of(test)
    kinds = ("verb_classes", "noun_classes")
    for row, named in enumerate(test.corpus.captions.select(kinds).rows()):
        for column, shown in enumerate(test.corpus.clips.select(kinds).rows()):
            holds = all(set(one) <= set(other) for one, other in zip(named, shown, strict=True))
            assert relevance[row, column] == holds
    assert relevance.sum() == len(relevance)  # one answer each: test clips have different actions or signs


def test_a_warm_start_has_the_maps_of_what_was_trained_before(drawn: Drawn) -> None:
    size = drawn.train.videos.frames.shape[-1]
    before = Adapted(build_matcher(TCD, size, dict(MODELS[WEIGHED].settings)), size, AdapterSettings())
    with torch.no_grad():
        for weights in before.parameters():
            weights.add_(1.0)
    start = begun(MODELS["tcd, warm start"], before, size)
    kept = module(before).state_dict()
    assert all(torch.equal(start[name], weights) for name, weights in kept.items())
    assert {name.partition(".")[0] for name in start.keys() - kept.keys()} == {"matcher"}


@pytest.mark.parametrize(
    "row", ["untrained", "untrained, told", "words, fused", "words, fused alike", "tcd, warm start"]
)
def test_a_row_has_its_figures(drawn: Drawn, row: str) -> None:
    place = Place(0, 0.9, Size(240, 24, 4), Path())
    ((name, figures),) = measured_rows(drawn, place, [row])
    assert name == row
    assert 0 <= figures["R@1"] <= figures["mAP"] <= 100
    assert row.startswith("untrained") or {TRAINING_S, SEARCH_S} <= set(figures)
