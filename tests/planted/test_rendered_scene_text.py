"""`benchmarks/evidence/rendered/scene_text`: each row is made, the oracle is told the words, letters are those read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE, variant
from benchmarks.evidence.rendered.scene_text import (
    EVIDENCE,
    FUSED,
    HARDER,
    HARDER_EVIDENCE,
    MODELS,
    ORACLE,
    ROWS,
    fused_figures,
    letter_scores,
    measured_rows,
)
from benchmarks.evidence.rendered.worlds import ON_SIGNS, RenderedWorld, Trainings
from benchmarks.evidence.rows import ADMISSION, AGAIN, BASELINE, SEARCH_S, TRAINING_S, Place, Size
from evenreel.encoders import load_encoder
from evenreel.language.bm25 import bm25_scores
from evenreel.planted import PlantSettings, plan_corpus, video_features
from evenreel.planted.readings import words_read

TINY = Place(1, 0.9, Size(60, 0, 2), Path())


@pytest.fixture(scope="module")
def hard() -> RenderedWorld:
    return RenderedWorld(plan_corpus("scene_text", 0.9, 60, seed=1, settings=PlantSettings(harder=HARDER)))


def test_every_row_has_a_model_or_channels_and_costs_what_it_says() -> None:
    oracle = {variant(ORACLE, change) for change in (HALF, TWICE, NO_ADAPTER)}
    assert {BASELINE, ORACLE, *ADMISSION, *oracle} <= set(ROWS)
    untrained = {name for name, row in ROWS.items() if row.kind == "untrained"}
    assert set(ROWS) == untrained | set(MODELS) | set(FUSED)
    assert [name for name, row in ROWS.items() if row.chosen] == ["letters, fused"]
    for name in (BASELINE, *EVIDENCE.methods):
        steps = sum(MODELS[one].steps for one in FUSED.get(name, (name,)) if one in MODELS)
        assert ROWS[name].steps == steps, name


@pytest.mark.parametrize("row", EVIDENCE.methods)
def test_a_row_has_its_figures(hard: RenderedWorld, row: str) -> None:
    ((name, figures),) = measured_rows(hard, TINY, [row])
    assert name == row
    assert 0 <= figures["R@1"] <= figures["mAP"] <= 100
    assert {TRAINING_S, SEARCH_S} <= set(figures)


def test_the_oracle_of_misread_words_is_told_the_true_ones(hard: RenderedWorld) -> None:
    told, encoder = hard.told, load_encoder("builtin")
    plain = plan_corpus("scene_text", 0.9, 60, seed=1)
    assert [caption.text for clip in told.plan.clips for caption in clip.shot.captions] == [
        caption.text for clip in plain.clips for caption in clip.shot.captions
    ]
    own, read = told.test.videos.on_screen, hard.test.videos.on_screen
    true = video_features(plain.split("test"), encoder, "6 midpoints").on_screen
    assert own is not None and read is not None and true is not None
    np.testing.assert_array_equal(own.windows, true.windows)  # where nothing is misread
    assert (own.windows != read.windows).any()
    assert told.test.videos.frames is hard.test.videos.frames
    trainings = Trainings(hard, TINY, MODELS)
    assert trainings.figures(ORACLE)["R@1"] == Trainings(told, TINY, MODELS).figures("wti, windows")["R@1"]
    name = f"untrained, mean frame{ON_SIGNS}"
    assert trainings.figures(name) == Trainings(told, TINY, MODELS).figures(name)


def test_true_words_need_no_telling_and_models_that_are_trained_alike_are_one() -> None:
    plain = RenderedWorld(plan_corpus("scene_text", 0.9, 60, seed=1))
    assert plain.told is plain
    trainings = Trainings(plain, TINY, MODELS)
    assert trainings.model(ORACLE) is trainings.model(AGAIN)
    assert trainings.model(ORACLE) is not trainings.model(BASELINE)


def test_letters_are_those_that_windows_read_each_reading_once(hard: RenderedWorld) -> None:
    part, clips = hard.test, hard.plan.split("test")
    captions = dict(part.corpus.captions.select("caption_id", "text").iter_rows())
    signs: dict[str, list[str]] = {}
    for row, clip in enumerate(clips):
        said = [words_read(clip, part.videos.times_s[row, at]) for at in range(part.videos.frames.shape[1])]
        signs[clip.clip_id] = sorted({word for words in said for word in words})
    whole = slice(0, len(part.texts.ids)), slice(0, len(clips))
    scores = letter_scores(part, clips)
    assert tuple(scores.video_ids) == part.videos.ids and tuple(scores.caption_ids) == part.texts.ids
    expected = bm25_scores({one: captions[one] for one in part.texts.ids}, signs, by="trigrams").block(*whole)
    np.testing.assert_allclose(scores.block(*whole), expected, rtol=1e-6)
    assert max(len(words) for words in signs.values()) > 1  # the stretches differ


@pytest.mark.parametrize("evidence", [EVIDENCE, HARDER_EVIDENCE])
def test_channels_are_fused_where_captions_name_no_sign(evidence: object) -> None:
    harder = HARDER if evidence is HARDER_EVIDENCE else PlantSettings().harder
    world = RenderedWorld(plan_corpus("scene_text", 0.0, 60, seed=1, settings=PlantSettings(harder=harder)))
    trainings = Trainings(world, TINY, MODELS)
    for channels in FUSED.values():
        assert 0 <= fused_figures(trainings, channels)["R@1"] <= 100
