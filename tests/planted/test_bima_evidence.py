"""The rows of the visual and the textual bias are what they say, on a small made-up table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.evidence import textual, trainings, visual
from benchmarks.evidence.rows import BASELINE, Place, Size
from evenreel.planted.worlds.splits import SplitSizes, annotated_clips
from tests.planted.worlds.tables import made_up_table

pytestmark = pytest.mark.slow

PLACE = Place(3, 0.9, Size(300, 60, 2), Path())
TABLE = made_up_table()


@pytest.fixture(autouse=True)
def made_up_annotations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "annotation_table", lambda folder: TABLE)


def test_elements_are_left_out_of_search_alone() -> None:
    cell = visual.CellRows(visual.draw(PLACE), PLACE)
    with_elements, bare, again = (
        cell.figures(name) for name in (visual.BIMA_ALL, visual.SEARCHED_BARE, visual.BIMA_ALL)
    )
    assert with_elements["mAP"] == again["mAP"] != bare["mAP"]


def test_balanced_and_exchanged_clips_are_those_of_the_training_split() -> None:
    world = visual.draw(PLACE)
    found = dict(visual.measured_rows(world, PLACE, [BASELINE, "balanced", "backgrounds exchanged"]))
    assert len({figures["mAP"] for figures in found.values()}) == 3
    same = world.redrawn.split("test").videos.frames
    assert same.tobytes() == world.test.videos.frames.tobytes()
    assert world.redrawn.split("train").videos.frames.tobytes() != world.train.videos.frames.tobytes()


def test_a_dictionary_names_what_training_captions_name_and_backgrounds() -> None:
    clips = annotated_clips(TABLE, SplitSizes(300, 20, 40), 0)
    dictionary = visual.mined(clips, 0)
    assert len(dictionary.entities) == len(dictionary.vectors["entities"]) == clips["noun"].n_unique()
    kinds = [phrase.split()[0] for phrase in dictionary.activities]
    assert len(kinds) == len(dictionary.vectors["activities"]) and kinds.count("place") == 40
    for vectors in dictionary.vectors.values():
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


def test_habits_are_taken_out_of_all_splits_and_nothing_else() -> None:
    drawn = textual.draw(PLACE)
    for name in (textual.CLEARED, textual.BY_NAME):
        for before, after in zip((drawn.train, drawn.val, drawn.test), textual.parts_of(name, drawn), strict=True):
            assert after.videos is before.videos and after.corpus is before.corpus
            assert np.linalg.matrix_rank(after.texts.sentence.astype(float), tol=1e-3) < 128 - 10
            rows = textual.leading_directions(after.texts.sentence, np.arange(len(after.texts.ids)), 4)
            assert rows.shape == (4, 128)
    assert textual.parts_of(BASELINE, drawn)[0] is drawn.train


def test_twice_the_steps_is_trained_once() -> None:
    rows = ["twice the steps", textual.CONTROL_TWICE, "bima, textual half, printed"]
    found = dict(textual.measured_rows(textual.draw(PLACE), PLACE, rows))
    assert found["twice the steps"] == found[textual.CONTROL_TWICE] and len(found) == 3
