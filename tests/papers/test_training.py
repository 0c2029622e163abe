"""Studies that train: a few steps of a small model on pairs with a known offset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evenreel.audits.source import measure_source
from evenreel.checkpoint import Pretrained
from evenreel.checkpoint.architecture import build, module
from evenreel.checkpoint.records import About, EncoderNote, MatcherSpec
from evenreel.debias.source import PRESETS
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import over_seeds
from evenreel.papers import STUDIES, StudySettings, Workspace, run_study, study_recipe
from evenreel.papers.engine import FineTuned, before_training, begun, each_trained
from evenreel.papers.ghost.figures import MAIN, Trained, paired_clips, seeded, trained_models
from evenreel.papers.ghost.p_vector import caption_vectors, video_vectors
from evenreel.report.result import AuditResult
from evenreel.types import Scores
from tests.papers.offset_pairs import DIMENSION, GROUP, PAIRS, QUICK, offset_material, quick_settings


@pytest.fixture(scope="module")
def material() -> Workspace:
    return offset_material(0.5)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> StudySettings:
    """One seed; studies of the same trainings share them."""
    return replace(quick_settings(seeds=1), runs=tmp_path_factory.mktemp("runs"), shares=(0.0, 0.8))


@pytest.fixture(scope="module")
def debiased(material: Workspace, settings: StudySettings) -> AuditResult:
    with pytest.MonkeyPatch.context() as patch:  # each training takes a second
        patch.setattr("evenreel.papers.ghost.figures.PRESETS", {"paper": PRESETS["paper"]})
        return run_study("ghost/t6", material, settings)


@pytest.fixture(scope="module")
def moved(material: Workspace, settings: StudySettings) -> AuditResult:
    return run_study("ghost/f4", material, settings)


def test_an_interval_over_seeds() -> None:
    """Of 1, 2, 3 by hand: the mean 2, the standard error 1 / sqrt(3), and 4.303 of Student's t with 2 degrees."""
    found = over_seeds([1.0, 2.0, 3.0], 0.95)
    half = 4.3027 / 3**0.5
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2 - half, 2 + half), abs=1e-3)


def test_an_interval_stays_where_the_figure_can_be() -> None:
    """No share is above 100 %, no rank below 1, and no Normalized Δ past 400."""
    keys = (("mixed real", "R@1"), ("real", "MedR"), MAIN)
    runs = [
        {key: Interval(value) for key, value in zip(keys, own, strict=True)} for own in ((99, 3, 390), (90, 1, 200))
    ]
    means = seeded({"": runs}, 0.95).means("")
    assert [(means[key].low, means[key].high) for key in keys] == [
        (pytest.approx(94.5 - 12.7062 * 4.5, abs=1e-3), 100),
        (1, pytest.approx(2 + 12.7062, abs=1e-3)),
        (-400, 400),
    ]


def test_the_published_term_turns_against_generated_clips(debiased: AuditResult) -> None:
    rows = {row[1]: row for row in debiased.tables[0].rows}
    assert list(rows) == ["before training", "plain", "paper"]
    changes = {row[1]: row[2] for row in debiased.tables[1].rows}
    assert changes["paper"] > 20  # type: ignore[operator]
    assert changes["paper"] == pytest.approx(rows["paper"][2] - rows["plain"][2])  # type: ignore[operator]
    assert "After paper training the matcher seems to favour" in debiased.sentence
    assert [bar.name for bar in debiased.figures[0].draw().data] == list(rows)


def test_training_begins_with_a_checkpoint(material: Workspace, settings: StudySettings, tmp_path: Path) -> None:
    """At a rate of 0 it stays as it was, and its matcher and adapter take the place of the recipe's."""
    spec = MatcherSpec("adapted", {"kind": "linear"}, (MatcherSpec("mean_pool"),))
    given = build(spec, DIMENSION)
    for parameter in module(given).eval().parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    begins = replace(material, start=Pretrained(given, spec, About(EncoderNote("encoder", "hash", DIMENSION))))
    recipe = begun(STUDIES["ghost/t6"], study_recipe(changes=(*QUICK, "optimiser.lr=0.0")), begins)
    own = replace(settings, runs=tmp_path)
    ((_, _, trained),) = each_trained({"plain": recipe}, begins, own, lambda share: None)
    assert before_training(recipe, begins) is given
    weights = module(trained.matcher).state_dict()
    assert weights.keys() == module(given).state_dict().keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in module(given).state_dict().items())
    torch.nn.init.zeros_(next(module(given).parameters()))
    with pytest.raises(CorpusError, match="start was"):  # the run that is there began with another one
        list(each_trained({"plain": recipe}, begins, own, lambda share: None))


def test_a_checkpoint_that_no_study_begins_with(material: Workspace, settings: StudySettings) -> None:
    spec = MatcherSpec("ensemble", {"weights": (0.5, 0.5)}, (MatcherSpec("mean_pool"),) * 2)
    given = Pretrained(build(spec, DIMENSION), spec, About(EncoderNote("encoder", "hash", DIMENSION)))
    with pytest.raises(UsageError, match="one matcher, with .* this checkpoint is of ensemble around mean_pool"):
        begun(STUDIES["ghost/t6"], study_recipe(), replace(material, start=given))
    with pytest.raises(UsageError, match="begins with somewhere; give the material"):
        run_study("ghost/t6", material, replace(settings, recipe=replace(settings.recipe, start="somewhere")))


def test_a_share_of_generated_clips_is_trained_on(
    material: Workspace, settings: StudySettings, debiased: AuditResult
) -> None:
    found = run_study("ghost/f3", material, settings)
    rows = {row[1]: row[2:] for row in found.tables[0].rows}
    assert list(rows) == ["before training", "0 % generated", "80 % generated"]
    plain = next(row[2:] for row in debiased.tables[0].rows if row[1] == "plain")
    assert rows["0 % generated"] == plain
    assert rows["80 % generated"] != plain
    assert found.effect.value == pytest.approx(rows["80 % generated"][0] - rows["0 % generated"][0])  # type: ignore[operator]
    drawn = found.figures[0].draw()
    assert len(drawn.data) == 4 * (3 + 3) + 2 * (4 + 4)
    assert settings.runs is not None
    kept = (settings.runs / "80-generated" / "seed-0" / "recipe.yaml").read_text()
    assert "generated_share: 0.8" in kept


def test_real_clips_are_moved_by_the_mean_of_p(
    material: Workspace, settings: StudySettings, moved: AuditResult
) -> None:
    """The first row of Table 7 by another way: all vectors at hand, and one matrix."""
    (models,) = trained_models(material, settings, lambda share: None)
    paired = paired_clips(material, settings)
    both = (models.original, models.debiased)
    before, after = (video_vectors(one.matcher, paired.part.videos).values for one in both)
    assert paired.real == paired.part.videos.ids[:PAIRS]
    clips = before.copy()
    clips[:PAIRS] += (after - before)[:PAIRS].astype(np.float64).mean(axis=0)
    captions = caption_vectors(models.original.matcher, paired.part.texts)
    scores = Scores(captions.values @ clips.T, captions.ids, paired.part.videos.ids)
    expected = measure_source(scores, material.test, GROUP, replace(settings.audit, resamples=0))
    rows = {row[0]: row for row in moved.tables[0].rows}
    assert rows["p: paper"][1] == pytest.approx(expected.deltas["normalized"]["MixR"].value)
    assert rows["p: paper"][4] == pytest.approx(rows["p: paper"][1] - rows["as it is"][1])  # type: ignore[operator]
    assert rows["p: paper, control"][4] != rows["p: paper"][4]


def test_table_8_has_the_baseline_of_figure_4(material: Workspace, settings: StudySettings, moved: AuditResult) -> None:
    both = {row[0]: row for row in moved.tables[0].rows}
    found = run_study("ghost/t8", material, settings)
    rows = {row[0]: row for row in found.tables[0].rows}
    assert {one.split(":")[0] for one in rows} == {"as it is", "p-random"}
    assert all(both[one] == row for one, row in rows.items())
    likeness = moved.tables[1]
    assert {row[:3] for row in likeness.rows} >= {("p", "debiased", "real"), ("p-random", "control", "generated")}
    assert all(-1 <= row[4] <= 1 for row in likeness.rows)  # type: ignore[operator]
    assert len(moved.figures[0].draw().data) == 8


def test_a_mean_of_frames_has_one_p(
    material: Workspace, settings: StudySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, test = material.learning()
    mean = FineTuned(material.models[0].matcher, test)
    monkeypatch.setattr("evenreel.papers.ghost.figures.trained_models", lambda *_: iter([Trained(mean, mean, mean)]))
    found = run_study("ghost/t8", material, settings)
    assert found.notices == ("The models do not see the order of frames, so p-random is p and says nothing of motion.",)
    assert {row[4] for row in found.tables[0].rows if row[4] is not None} == {0.0}  # who was not trained moved nothing


def test_vectors_in_a_plane(
    material: Workspace, settings: StudySettings, moved: AuditResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenreel.papers.shown.project", lambda vectors: vectors[:, :2])  # t-SNE takes seconds
    found = run_study("ghost/f5", material, settings)
    rows = found.tables[0].rows
    assert len(rows) == 10 and all(0 <= row[3] <= 100 for row in rows)  # type: ignore[operator]
    drawn = [figure.draw() for figure in found.figures]
    names = ["h real", "h generated", "h^d real", "h^d generated", "p real", "p generated"]
    assert [[cloud.name for cloud in one.data] for one in drawn] == [names, names]
    assert drawn[0].data[0].customdata[0] == "test r0" and drawn[0].data[1].customdata[0] == "test r0@text"
