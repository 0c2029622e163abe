"""Tables of TCD on a few clips with signs: the rows, what they switch, which words they see, and what is measured."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from evenreel.corpus import make_corpus
from evenreel.errors import UsageError
from evenreel.features.word_changes import WordChanges
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.tcd import PRINTED
from evenreel.papers import STUDIES, StudySettings, Workspace, run_study
from evenreel.papers.engine import BOTH, ends_of, figures_of
from evenreel.papers.study import Table, Variants, named
from evenreel.papers.tcd.tables import BASES, with_windows
from evenreel.training.recipe import MatcherChoice
from evenreel.types import Scores
from tests.papers.class_clips import longer_videos
from tests.papers.signs import TEST, TRAIN, quick_settings, sign_material, with_words

TRAINED = [name for name, study in STUDIES.items() if name.startswith("tcd/") and "recipe" in study.options]
TABLES = [name.removeprefix("tcd/") for name in TRAINED if isinstance(STUDIES[name].make, Table)]


def rows_of(name: str, material: Workspace, settings: StudySettings) -> Variants:
    table = STUDIES[f"tcd/{name}"].make
    assert isinstance(table, Table)
    return table.variants(material, settings)


@pytest.fixture(scope="module")
def material() -> Workspace:
    return sign_material()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> StudySettings:
    return replace(quick_settings(), runs=tmp_path_factory.mktemp("runs"))


def test_figures_both_ways_are_those_of_a_hand_worked_table() -> None:
    clips = pl.DataFrame({"clip_id": ["a", "b", "c"]})
    captions = pl.DataFrame({"caption_id": ["0", "1", "2"], "clip_id": ["a", "b", "c"], "text": ["x", "y", "z"]})
    values = np.array([[0.9, 0.1, 0.2], [0.5, 0.3, 0.4], [0.4, 0.6, 0.8]])
    scores = Scores(values, ["0", "1", "2"], ["a", "b", "c"])
    names = (*named(("R@1", "MedR", "MeanR"), "T2V", "V2T"), BOTH)
    found = figures_of(scores, make_corpus(clips, captions), names)
    assert found["R@1 T2V"] == pytest.approx(200 / 3)  # ranks 1, 3, 1
    assert (found["MedR T2V"], found["MeanR T2V"]) == (1, pytest.approx(5 / 3))
    assert found["MeanR V2T"] == pytest.approx(4 / 3)  # b finds caption 2 before its own
    assert found[BOTH] == pytest.approx(2 * (200 / 3 + 200))
    assert ends_of(names)["MeanR V2T"] == (1, np.inf) and ends_of(names)[BOTH] == (0, 600)


def test_other_matchers_stand_with_and_without_windows(material: Workspace, settings: StudySettings) -> None:
    kinds = with_windows(material, settings)
    assert list(kinds) == [name for base in BASES for name in (base, f"{base} + windows")] + ["tcd"]
    for base in BASES:
        plain, read = kinds[base], kinds[f"{base} + windows"]
        assert plain.recipe.matcher.name == read.recipe.matcher.name == base and read.against == base
        assert plain.recipe.adapter is not None and not plain.recipe.adapter.windows
        assert read.recipe.adapter == replace(plain.recipe.adapter, windows=True)
    bare = replace(settings, recipe=replace(settings.recipe, adapter=None))
    read = with_windows(material, bare)["x_pool + windows"]
    assert read.recipe.adapter == AdapterSettings("none", windows=True)


def test_matchers_have_places_for_all_frames_and_windows(material: Workspace, settings: StudySettings) -> None:
    """As many with windows as without, so that both rows have the same parameters; captions of any length."""
    train, test = material.learning()
    longer = replace(
        test,
        videos=longer_videos(test.videos, 4),
        texts=replace(test.texts, words=test.texts.words.repeat(40, 1), word_mask=test.texts.word_mask.repeat(40, 1)),
    )
    kinds = with_windows(replace(material, features=longer), settings)
    frames, windows = 4 * train.videos.frames.shape[1], 3
    assert train.videos.on_screen is not None and train.videos.on_screen.windows.shape[1] == windows
    for base in ("x_clip", "t_mass"):
        plain, read = (kinds[name].recipe.matcher for name in (base, f"{base} + windows"))
        assert plain == read and plain.settings["max_frames"] == frames + windows
    assert kinds["x_clip"].recipe.matcher.settings["max_words"] == 40
    assert kinds["mean_pool"].recipe.matcher.settings == kinds["x_pool"].recipe.matcher.settings == {}
    assert with_windows(material, settings)["x_clip"].recipe.matcher.settings == {}, "there is room already"


def test_the_printed_formulas_stand_beside_ours_one_by_one_and_together(
    material: Workspace, settings: StudySettings
) -> None:
    kinds = rows_of("readings", material, settings)
    own = kinds["tcd"].recipe.matcher.settings
    found = {
        name: {key: value for key, value in kind.recipe.matcher.settings.items() if value != own[key]}
        for name, kind in kinds.items()
    }
    together = found.pop("all as printed")
    assert together and together.items() <= PRINTED.items()
    assert found.pop("tcd") == found.pop("empty windows say so") == {}
    assert all(len(changes) == 1 for changes in found.values())
    alone = [change for changes in found.values() for change in changes.items() if changes.items() <= PRINTED.items()]
    assert dict(alone) == together
    said = {name for name, kind in kinds.items() if kind.recipe.data.words == WordChanges(empty="caption")}
    assert said == {"empty windows say so", "all as printed"}


def test_rows_of_one_name_are_one_training(material: Workspace, settings: StudySettings) -> None:
    """So all studies may have one folder, and what was trained for one is read by the next."""
    recipes: dict[str, Any] = {}
    for study in TABLES:
        for name, kind in rows_of(study, material, settings).items():
            assert name == "baseline" or recipes.setdefault(name, kind.recipe) == kind.recipe
    different = [str(asdict(recipe)) for recipe in recipes.values()]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize("name", TRAINED)
def test_what_shows_no_words_is_refused_before_anything_is_trained(
    name: str, material: Workspace, settings: StudySettings, tmp_path: Path
) -> None:
    train, test = material.learning()
    unread = replace(test, videos=replace(test.videos, on_screen=None))
    blank = with_words(train, WordChanges(0.0))
    elsewhere = replace(settings, runs=tmp_path / "runs")
    with pytest.raises(
        UsageError, match="the features have none; give it features that were computed without --no-ocr"
    ):
        run_study(name, replace(material, features=unread), elsewhere)
    with pytest.raises(UsageError, match="no clip of the training split shows any; give it a corpus whose clips have"):
        run_study(name, replace(material, train=blank), elsewhere)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", ["t3", "t4", "t5", "readings", "noise"])
def test_words_that_nobody_knows_cannot_be_changed(name: str, material: Workspace, settings: StudySettings) -> None:
    train, _ = material.learning()
    with pytest.raises(UsageError, match="give it a training part that knows them"):
        rows_of(name, replace(material, train=replace(train, on_screen=None)), settings)


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("t2", {"matcher": MatcherChoice("wti")}, "about the matcher tcd, and the recipe trains wti"),
        ("t2", {"adapter": AdapterSettings(windows=True)}, "adapter.windows puts on-screen windows among the frames"),
        ("t9", {"adapter": None}, "Calibration moves features, and these stay as they are without an"),
    ],
)
def test_other_recipes_are_refused(
    name: str, change: dict[str, Any], sentence: str, material: Workspace, settings: StudySettings
) -> None:
    with pytest.raises(UsageError, match=sentence):
        rows_of(name, material, replace(settings, recipe=replace(settings.recipe, **change)))


def cells(found: Any) -> dict[str, dict[str, Any]]:
    columns, *_ = (table.columns for table in found.tables)
    return {row[0]: dict(zip(columns, row, strict=True)) for row in found.tables[0].rows}


def test_words_on_screen_are_worth_what_only_they_say(material: Workspace, settings: StudySettings) -> None:
    """Four clips share a scene: without words a caption finds its clip among them by chance."""
    found = run_study("tcd/t4", material, settings)
    rows = cells(found)
    assert list(rows) == ["tcd", "no words", *(f"{one} % of the words" for one in (10, 20, 40, 80))]
    assert rows["tcd"]["R@1 T2V"] > 2 * rows["no words"]["R@1 T2V"]
    assert rows["80 % of the words"]["R@1 T2V"] > rows["10 % of the words"]["R@1 T2V"]
    assert found.effect.value == pytest.approx(rows["no words"]["R@1 T2V"] - rows["tcd"]["R@1 T2V"])
    assert settings.runs is not None
    made = (settings.runs / "no-words" / "seed-0" / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    other = cells(run_study("tcd/t3", material, settings))  # two of its rows are there
    assert (settings.runs / "no-words" / "seed-0" / "checkpoints" / "last.ckpt").stat().st_mtime_ns == made
    assert other["no words"]["R@1 T2V"] == rows["no words"]["R@1 T2V"]


def test_matchers_that_only_see_gain_by_windows(material: Workspace, settings: StudySettings) -> None:
    rows = cells(run_study("tcd/t1", material, settings))
    assert rows["mean_pool + windows"]["R@1 T2V"] > rows["mean_pool"]["R@1 T2V"]
    assert rows["tcd"]["R@1 T2V"] > rows["mean_pool"]["R@1 T2V"]


SLOW = ("t5", "t6", "t7", "t10", "readings")


@pytest.mark.parametrize(
    "name", ["t2", "t9", "f3", "noise", *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)]
)
def test_every_table_is_trained_and_measured(name: str, material: Workspace, settings: StudySettings) -> None:
    found = run_study(f"tcd/{name}", material, settings)
    rows = cells(found)
    metric, names = found.effect.name.removeprefix("Change of ").split(": ")
    lead, less = names.split(" less ")
    assert found.effect.value == pytest.approx(rows[lead][metric] - rows[less][metric])
    assert all(row["training clips"] == round(0.8 * TRAIN) for row in rows.values())
    assert all(len(figure.draw().data) for figure in found.figures)
    assert len(material.learning()[1].videos.ids) == TEST
