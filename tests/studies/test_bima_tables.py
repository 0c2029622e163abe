"""Tables and sweeps of BiMa on a few clips: the rows, what they switch, and what is read off a training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import uses_in
from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.features.scene_elements import EmbeddedDictionary, save_embedded
from evenreel.language.scene_dictionary import SceneDictionary, given
from evenreel.studies import StudySettings, run_study
from evenreel.studies.bima_kinds import OFF, PARTS, bima_of, element_counts, parts, weights
from evenreel.studies.bima_parts import predicted, told_apart
from evenreel.studies.bima_tables import T2V, V2T, recall_figures
from evenreel.studies.material import StudyMaterial
from evenreel.training.recipe import MatcherChoice
from evenreel.types import Scores
from tests.studies.class_clips import class_material, quick_settings

HASH = "0" * 64


@pytest.fixture(scope="module")
def material() -> StudyMaterial:
    return replace(class_material(), weights_hash=HASH)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, material: StudyMaterial) -> StudySettings:
    """Trainings of two steps with a dictionary of five phrases."""
    folder = tmp_path_factory.mktemp("elements")
    dimension = material.learning()[0].videos.frames.shape[-1]
    rows = np.eye(5, dimension, dtype=np.float32)
    dictionary = given(["pan", "knife", "red onion"], ["cut onion", "wash pan"])
    save_embedded(EmbeddedDictionary(dictionary, rows[:3], rows[3:], "tiny", HASH), folder)
    plain = quick_settings("loop.steps=2")
    matcher = MatcherChoice("bima", {"elements": str(folder), "kappa": 2, "heads": 1, "decoder_layers": 1})
    recipe = replace(plain.recipe, matcher=matcher, adapter=None)
    return replace(plain, recipe=recipe, seeds=1, runs=tmp_path_factory.mktemp("runs"))


def test_recall_both_ways_is_that_of_a_hand_worked_table() -> None:
    import polars as pl

    clips = pl.DataFrame({"clip_id": ["a", "b"]})
    captions = pl.DataFrame({"caption_id": ["0", "1", "2"], "clip_id": ["a", "a", "b"], "text": ["x", "y", "z"]})
    scores = Scores(np.array([[0.9, 0.1], [0.2, 0.3], [0.4, 0.8]]), ["0", "1", "2"], ["a", "b"])
    found = recall_figures(scores, make_corpus(clips, captions), (*T2V, *V2T))
    assert found["R@1 T2V"] == pytest.approx(200 / 3)  # caption 1 finds b first
    assert found["R@1 V2T"] == 100  # a: caption 0 is the best of its column; b: caption 2
    assert found["Rsum T2V"] == pytest.approx(200 / 3 + 200)


def test_each_row_of_table_4_has_its_switches(material: StudyMaterial, settings: StudySettings) -> None:
    kinds = parts(material, settings)
    assert list(kinds) == ["baseline", *PARTS]
    on = {name: {switch for switch in OFF if kind.recipe.matcher.settings[switch]} for name, kind in kinds.items()}
    assert on == {
        "baseline": set(),
        "entities": {"use_entities"},
        "activities": {"use_activities"},
        "elements": {"use_entities", "use_activities"},
        "elements + captioning": {"use_entities", "use_activities", "captioning"},
        "disentanglement": {"disentangle"},
        "bima": set(OFF),
    }
    assert {kind.against for kind in kinds.values()} == {None, "baseline"}


def test_sweeps_change_one_number_at_a_time(material: StudyMaterial, settings: StudySettings) -> None:
    for kinds in (weights(material, settings), element_counts(material, settings)):
        whole = kinds["bima"].recipe.matcher.settings
        for name, kind in kinds.items():
            own = kind.recipe.matcher.settings
            assert sum(own[key] != whole[key] for key in own) == (name != "bima")
            assert kind.against == (None if name == "bima" else "bima")
    assert len(weights(material, settings)) == 1 + 3 * 4


def test_other_matchers_and_a_missing_dictionary_are_refused(settings: StudySettings) -> None:
    other = replace(settings.recipe, matcher=MatcherChoice("wti"))
    with pytest.raises(UsageError, match="about the matcher bima, and the recipe trains wti"):
        bima_of(replace(settings, recipe=other))
    without = replace(settings.recipe, matcher=MatcherChoice("bima"))
    with pytest.raises(UsageError, match="make one with `evenreel elements` and give --set"):
        bima_of(replace(settings, recipe=without))


def test_table_4_is_trained_and_measured(material: StudyMaterial, settings: StudySettings) -> None:
    found = run_study("bima/t4", material, settings)
    rows: dict[Any, Any] = {row[0]: row for row in found.tables[0].rows}
    assert list(rows) == ["baseline", *PARTS]
    place = found.tables[0].columns.index("R@1 T2V")
    assert found.effect.value == pytest.approx(rows["bima"][place] - rows["baseline"][place])


@pytest.mark.parametrize(("name", "figures"), [("t5", 0), ("f4", 1), ("f5", 1)])
def test_content_and_bias_are_read_off_one_training(
    name: str, figures: int, material: StudyMaterial, settings: StudySettings
) -> None:
    found = run_study(f"bima/{name}", material, settings)
    assert settings.runs is not None
    assert (settings.runs / "bima" / "seed-0").is_dir()  # which all of them share
    assert np.isfinite(found.effect.value)
    assert len(found.figures) == figures
    assert all(len(figure.draw().data) for figure in found.figures)
    if name == "f4":
        rows: dict[Any, Any] = {(row[0], row[1]): row[2] for row in found.tables[0].rows}
        starts = {rows[f"content + 0 x {what}", "R@1 T2V"] for what in ("mean of the bias", "one draw of it")}
        assert len(starts) == 1  # where nothing is added, nothing was drawn


def test_a_dictionary_of_test_captions_is_told(settings: StudySettings, tmp_path: Path) -> None:
    """Wherever the matcher is: its scores know captions of the split that they are of."""
    leaky = SceneDictionary(("pan",), ("wash pan",), splits=("train", "test"))
    save_embedded(EmbeddedDictionary(leaky, *(np.eye(1, 16, dtype=np.float32),) * 2, "tiny", HASH), tmp_path)
    told = ("scene elements from captions of test",)
    bima = MatcherSpec("bima", {"elements": str(tmp_path)})
    assert uses_in(MatcherSpec("adapted", {}, (bima,))) == told
    assert uses_in(MatcherSpec("bima", {**bima.settings, **OFF})) == ()
    assert uses_in(MatcherSpec("bima", settings.recipe.matcher.settings)) == uses_in(MatcherSpec("wti")) == ()


def test_a_group_is_told_where_vectors_know_it_and_else_as_by_chance() -> None:
    rng = np.random.default_rng(0)
    groups = np.array(["a", "b"] * 60, dtype=object)
    clips = np.array([str(row // 3) for row in range(120)], dtype=object)
    blind = rng.standard_normal((120, 4))
    knowing = blind + np.where(groups == "a", 3.0, -3.0)[:, None]
    assert told_apart(knowing, groups, clips).share > 99
    assert abs(told_apart(blind, groups, clips).share - 50) < 20
    assert told_apart(blind, groups, clips).chance == 50


def test_shared_variance_is_that_of_a_planted_mixture() -> None:
    """Half of the variance of y is x, the other half noise that x knows nothing of."""
    rng = np.random.default_rng(0)
    known, noise = rng.standard_normal((2, 600, 3))
    clips = np.array([str(row) for row in range(600)], dtype=object)
    assert predicted(known, known + noise, clips) == pytest.approx(0.5, abs=0.06)
    assert predicted(known, noise, clips) == pytest.approx(0.0, abs=0.03)
    assert predicted(known, np.zeros((600, 3)), clips) == 0


def test_the_recipe_of_the_studies_is_bima(tmp_path: Path) -> None:
    from importlib.resources import files

    from evenreel.training.recipe_files import load_recipe

    recipe = load_recipe(Path(str(files("evenreel.studies").joinpath("bima.yaml"))))
    assert recipe.matcher.name == "bima"
    assert recipe.adapter is not None
