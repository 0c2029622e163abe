"""Tables and sweeps of BiMa on a few clips: the rows, what they switch, and what is read off a training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import uses_in
from evenreel.corpus import select
from evenreel.errors import FeaturesError, UsageError
from evenreel.features.scene_elements import EmbeddedDictionary, save_embedded
from evenreel.language.scene_elements import SceneDictionary, given
from evenreel.papers import STUDIES, StudySettings, Workspace, part_of, run_study
from evenreel.papers.bima.figures import FOLDS, predicted, told_apart
from evenreel.papers.bima.tables import (
    CHOSEN,
    CLIP4CLIP,
    OFF,
    PARTS,
    T2V,
    bima_of,
    compared_with_others,
    element_counts,
    only_bima,
)
from evenreel.papers.engine import each_outcome
from evenreel.papers.study import Table, Variants
from evenreel.papers.workspace import CorpusPart
from evenreel.training.recipe import MatcherChoice
from tests.papers.class_clips import class_material, quick_settings

HASH = "0" * 64


@pytest.fixture(scope="module")
def material() -> Workspace:
    return replace(class_material(), weights_hash=HASH)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, material: Workspace) -> StudySettings:
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


def rows_of(name: str, material: Workspace, settings: StudySettings) -> Variants:
    table = STUDIES[f"bima/{name}"].make
    assert isinstance(table, Table)
    return table.variants(material, settings)


def test_sweeps_change_one_number_at_a_time(material: Workspace, settings: StudySettings) -> None:
    assert list(element_counts(material, settings)) == ["bima", "kappa 1"]  # of two activities
    for kinds in (rows_of("f3", material, settings), element_counts(material, settings)):
        whole = kinds["bima"].recipe.matcher.settings
        for name, kind in kinds.items():
            own = kind.recipe.matcher.settings
            assert sum(own[key] != whole[key] for key in own) == (name != "bima")
            assert kind.against == (None if name == "bima" else "bima")
    assert len(rows_of("f3", material, settings)) == 1 + 3 * 4


@pytest.mark.parametrize(
    "kinds",
    [compared_with_others, only_bima, *(partial(rows_of, name) for name in ("f3", "g", "kappa", "readings"))],
    ids=["t3", "one", "f3", "g", "kappa", "readings"],
)
def test_what_trains_alike_is_said_alike_and_shares_a_run(
    kinds: Callable[[Workspace, StudySettings], Variants], material: Workspace, settings: StudySettings
) -> None:
    """The rows `bima` and `baseline` of all studies, with the paper's numbers in the recipe or left to the defaults."""
    elements = {"elements": settings.recipe.matcher.settings["elements"]}
    spoken = {**elements, **CHOSEN, "g": "adaptive", "captioning": True}
    bare, said = (
        replace(settings, recipe=replace(settings.recipe, matcher=MatcherChoice("bima", own)))
        for own in (elements, spoken)
    )
    table_4, found = rows_of("t4", material, bare), kinds(material, said)
    assert "bima" in found
    for name in table_4.keys() & found.keys():
        assert found[name].recipe == table_4[name].recipe


def test_other_matchers_and_a_missing_dictionary_are_refused(material: Workspace, settings: StudySettings) -> None:
    other = replace(settings.recipe, matcher=MatcherChoice("wti"))
    with pytest.raises(UsageError, match="about the matcher bima, and the recipe trains wti"):
        bima_of(material, replace(settings, recipe=other))
    without = replace(settings.recipe, matcher=MatcherChoice("bima"))
    with pytest.raises(UsageError, match="make one with `evenreel elements` and give --set"):
        bima_of(material, replace(settings, recipe=without))


@pytest.mark.parametrize("name", ["t3", "t4", "t5", "f3", "f4", "f5", "g", "kappa", "readings"])
def test_a_dictionary_that_a_row_cannot_use_is_refused_before_anything_is_trained(
    name: str, material: Workspace, settings: StudySettings, tmp_path: Path
) -> None:
    """Else the baseline, which looks at no elements, would be trained first."""
    wordless = SceneDictionary(("pan",), ())
    save_embedded(
        EmbeddedDictionary(wordless, np.eye(1, 16, dtype=np.float32), np.zeros((0, 16), np.float32), "tiny", HASH),
        tmp_path,
    )
    matcher = MatcherChoice("bima", {**settings.recipe.matcher.settings, "elements": str(tmp_path)})
    wrong = replace(settings, recipe=replace(settings.recipe, matcher=matcher), runs=tmp_path / "runs")
    elsewhere = replace(material, others={"other": material.learning()[1]})
    with pytest.raises(UsageError, match=r"the dictionary in .* has no activities; make one with both"):
        run_study(f"bima/{name}", elsewhere, wrong)
    with pytest.raises(FeaturesError, match="evenreel elements"):
        run_study(f"bima/{name}", replace(elsewhere, weights_hash="1" * 64), replace(settings, runs=tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_table_4_is_trained_and_measured(material: Workspace, settings: StudySettings) -> None:
    found = run_study("bima/t4", material, settings)
    rows: dict[Any, Any] = {row[0]: row for row in found.tables[0].rows}
    assert list(rows) == ["baseline", *PARTS]
    place = found.tables[0].columns.index("R@1 T2V")
    assert found.effect.value == pytest.approx(rows["bima"][place] - rows["baseline"][place])


def recall_by_hand(part: CorpusPart, similarities: np.ndarray) -> dict[str, float]:
    """R@k of the captions, one after the other; no two of their similarities are equal."""
    ranks = []
    clips = list(part.videos.ids)
    for row, clip in enumerate(part.corpus.captions["clip_id"]):
        ranks.append(sum(value > similarities[row, clips.index(clip)] for value in similarities[row]))
    found = {f"R@{k} T2V": 100 * sum(rank < k for rank in ranks) / len(ranks) for k in (1, 5, 10)}
    return found | {"Rsum T2V": sum(found.values())}


def test_table_3_searches_what_was_not_learned_from(material: Workspace, settings: StudySettings) -> None:
    """A corpus of whose clips a third could be read, one of the same clips in another order, and the own test split."""
    test = material.learning()[1]
    few = select(test.corpus, where=pl.col("clip_id").is_in(test.videos.ids[::3]))
    turned = replace(test.corpus, clips=test.corpus.clips.reverse(), captions=test.corpus.captions.reverse())
    others = {"few": part_of(test.corpus, test.texts, test.only(few).videos), "turned": test.only(turned)}
    found = run_study("bima/t3", replace(material, name="kitchen", others=others), settings)
    rows: dict[Any, Any] = {row[:3]: row[3:] for row in found.tables[0].rows}
    systems = [("nothing", CLIP4CLIP), ("kitchen", "baseline"), ("kitchen", CLIP4CLIP), ("kitchen", "bima")]
    assert list(rows) == [(name, *system) for name in ("few", "turned", "kitchen") for system in systems]
    for system in systems:  # the order of clips means nothing
        assert rows[("turned", *system)] == pytest.approx(rows[("kitchen", *system)])

    third = test.only(few)
    means = third.videos.frames.mean(axis=1)  # every clip has all of its frames
    cosines = third.texts.sentence @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    expected = recall_by_hand(third, cosines)
    assert rows["few", "nothing", CLIP4CLIP] == pytest.approx([expected[metric] for metric in T2V])
    for one in each_outcome(compared_with_others(material, settings), material, settings, lambda share: None):
        similarities = third.scores(one.matcher).block(slice(0, 12), slice(0, 12))
        expected = recall_by_hand(third, similarities)
        assert rows["few", "kitchen", one.row] == pytest.approx([expected[metric] for metric in T2V])

    gains = {name: rows[name, "kitchen", "bima"][0] - rows[name, "kitchen", "baseline"][0] for name in others}
    assert found.effect.value == pytest.approx(sum(gains.values()) / 2)
    changes: dict[Any, Any] = {row[:5]: row[5] for row in found.tables[1].rows}
    assert changes["few", "kitchen", "bima", "baseline", "R@1 T2V"] == pytest.approx(gains["few"])
    assert found.sentence.startswith("Learned from kitchen: in few bima has R@1 T2V ")
    assert [row[:3] for row in found.tables[3].rows] == [("few", 12, 12), ("turned", 36, 36), ("kitchen", 36, 36)]


def test_table_3_says_what_it_lacks(material: Workspace, settings: StudySettings) -> None:
    with pytest.raises(UsageError, match="corpora that nothing was learned from; give it some"):
        run_study("bima/t3", material, settings)
    test = material.learning()[1]
    with pytest.raises(UsageError, match="Two corpora are called 'kitchen'"):
        run_study("bima/t3", replace(material, name="kitchen", others={"kitchen": test}), settings)


@pytest.mark.parametrize(("name", "figures"), [("t5", 0), ("f4", 1), ("f5", 1)])
def test_content_and_bias_are_read_off_one_training(
    name: str, figures: int, material: Workspace, settings: StudySettings
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


def test_a_dictionary_of_test_captions_is_told(material: Workspace, settings: StudySettings, tmp_path: Path) -> None:
    """Wherever the matcher is: its scores know captions of the split that they are of."""
    leaky = SceneDictionary(("pan",), ("wash pan",), splits=("train", "test"))
    save_embedded(EmbeddedDictionary(leaky, *(np.eye(1, 16, dtype=np.float32),) * 2, "tiny", HASH), tmp_path)
    told = ("scene elements from captions of test",)
    bima = MatcherSpec("bima", {"elements": str(tmp_path)})
    assert uses_in(MatcherSpec("adapted", {}, (bima,))) == told
    assert uses_in(MatcherSpec("bima", {**bima.settings, **OFF})) == ()
    assert uses_in(MatcherSpec("bima", settings.recipe.matcher.settings)) == uses_in(MatcherSpec("wti")) == ()
    matcher = MatcherChoice("bima", {**settings.recipe.matcher.settings, "elements": str(tmp_path)})
    knowing = replace(settings, recipe=replace(settings.recipe, matcher=matcher), runs=tmp_path / "runs")
    assert "bima: It uses scene elements from captions of test." in run_study("bima/t5", material, knowing).notices


def test_columns_that_no_fold_can_learn_are_left_out(material: Workspace, settings: StudySettings) -> None:
    """One caption by another annotator is in the part that is asked, or in the parts that are taught."""
    test = material.learning()[1]
    count = test.corpus.captions.height
    captions = test.corpus.captions.with_columns(
        lone=pl.Series(["a"] * (count - 1) + ["b"]), style=pl.Series(["a", "b"] * (count // 2))
    )
    part = replace(test, corpus=replace(test.corpus, captions=captions))
    found = run_study("bima/f5", replace(material, features=part), settings)
    assert {row[0] for row in found.tables[1].rows} == {"style"}
    few = test.only(select(test.corpus, where=pl.col("clip_id").is_in(test.videos.ids[: FOLDS - 1])))
    with pytest.raises(UsageError, match="has 4 clips with features"):
        run_study("bima/f5", replace(material, features=few), settings)


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
