"""Studies of lengths: trainings, the whole way once and every table on matchers that nobody trained, and figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
import torch

from evenreel.audits.class_lengths import TailClasses
from evenreel.audits.length import Failures, LengthMeasures
from evenreel.checkpoint import MatcherSpec, Pretrained
from evenreel.checkpoint.architecture import build, fitted
from evenreel.checkpoint.records import About, EncoderNote
from evenreel.corpus import select
from evenreel.corpus.actions import actions_of
from evenreel.debias.ensemble import Ensemble
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import evaluate, parse_metrics
from evenreel.evaluation.metrics import EvaluationSettings
from evenreel.papers import STUDIES, StudySettings, Workspace, run_study
from evenreel.papers.engine import figures_of, learning_of, splits_of
from evenreel.papers.frame_length.figures import End, OneClass, compared, drawn, picked_class, without_end
from evenreel.papers.frame_length.tables import (
    BACKDOOR,
    ENSEMBLE,
    MAP,
    MAP_EPIC,
    NDCG,
    RANKS,
    RMV_ALL,
    RMV_RAND,
    controls,
    fine_tuned_strata,
    other_matchers,
)
from evenreel.papers.study import BASELINE, Variants
from evenreel.papers.workspace import with_streams
from evenreel.report.result import AuditResult, AuditTable
from evenreel.training.batches import FeatureExamples, TrainingInputs
from evenreel.training.loop import RunHooks, SelectionProgress, TrainedModel
from evenreel.training.material import learned_from, spec_of
from evenreel.training.members import member_runs
from evenreel.training.recipe import Recipe
from evenreel.training.splits import Stratum
from evenreel.types import Scores
from tests.papers.class_clips import NOUNS, STREAMS, VERBS, class_material, longer_videos, quick_settings

KINDS = ("verb_classes", "noun_classes")
TRIM = ("trim.target=test", "trim.margin=20", "trim.least=2")
TRAINED = [name for name, study in STUDIES.items() if name.startswith("length/") and "recipe" in study.options]
PAPER = [BASELINE, RMV_RAND, RMV_ALL, ENSEMBLE, BACKDOOR]
OTHERS = {"length/t5", "length/t8", "length/samples"}
"""Those whose first table is no list of models."""


def rows_of(table: AuditTable) -> dict[str, Any]:
    """The rows of a table by their first cell."""
    return {str(row[0]): row for row in table.rows}


def untrained(recipe: Recipe, material: TrainingInputs, folder: Path, outside: RunHooks) -> TrainedModel:
    """What `train_recipe` gives, after no step; stratum k has k clips."""
    torch.manual_seed(recipe.loop.seed)
    inner, members = fitted(spec_of(recipe), learned_from(material)), recipe.members
    if members is None:
        return TrainedModel(build(inner, material.dimension), inner, None, 0, SelectionProgress(), {})
    fusion = {"weights": (1 / members.count,) * members.count}
    spec = MatcherSpec("ensemble", fusion, (inner,) * members.count)
    matcher = build(spec, material.dimension)
    alone = tuple(cast("Ensemble", matcher).members)
    return TrainedModel(
        matcher, spec, None, 0, SelectionProgress(), {},
        members=tuple(TrainedModel(one, inner, None, 0, SelectionProgress(), {}) for one in alone),
        strata=tuple(Stratum(k, k, k, 1.0, 2.0, "frames") for k in range(1, members.count + 1)),
    )  # fmt: skip


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> StudySettings:
    """Trainings that are none."""
    monkeypatch.setattr("evenreel.papers.engine.train_recipe", untrained)
    return replace(quick_settings(*TRIM), bases=("wti", "temporal"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[AuditResult, StudySettings]:
    """Table 10 with real trainings of a few steps."""
    settings = replace(quick_settings("loop.steps=2"), runs=tmp_path_factory.mktemp("runs"))
    return run_study("length/t10", class_material(), settings), settings


def test_a_table_is_trained_and_measured(trained: tuple[AuditResult, StudySettings]) -> None:
    """Each change is the difference of two rows; runs are kept, and read again instead of trained."""
    found, settings = trained
    rows = rows_of(found.tables[0])
    place = found.tables[0].columns.index("nDCG AVG")
    changes: dict[Any, Any] = {(row[0], row[3]): row[4] for row in found.tables[1].rows}
    assert changes[BACKDOOR, "nDCG AVG"] == pytest.approx(rows[BACKDOOR][place] - rows[BASELINE][place])
    assert found.effect.value == changes[BACKDOOR, "nDCG AVG"]
    assert {name: row[1] for name, row in rows.items()} == {BASELINE: 1, ENSEMBLE: 2, BACKDOOR: 2}
    assert {row[2] for row in rows.values()} == {96}  # a fifth is held out, and the strata are of all others
    assert settings.runs is not None
    assert sorted(one.name for one in settings.runs.iterdir()) == ["backdoor", "baseline", "ensemble"]
    assert (settings.runs / "backdoor" / "seed-0" / "members" / "2").is_dir()
    before = {one: one.stat().st_mtime_ns for one in settings.runs.rglob("*.ckpt")}
    assert run_study("length/t10", class_material(), settings).tables == found.tables
    assert {one: one.stat().st_mtime_ns for one in settings.runs.rglob("*.ckpt")} == before


@pytest.mark.parametrize("name", [one for one in TRAINED if one not in OTHERS])
def test_every_table_is_made_and_its_lead_says_the_change_of_two_rows(name: str, quick: StudySettings) -> None:
    found = run_study(name, class_material(), quick)
    first = found.tables[0]
    rows = {row[0]: dict(zip(first.columns, row, strict=True)) for row in cast("Any", first.rows)}
    assert name != "length/t1" or list(rows) == PAPER
    assert all(cells[first.columns[1]] == 2 for row, cells in rows.items() if row.endswith("backdoor"))
    assert all("encoded" in part for part in found.sentence.split(". ") if part)
    metric, _, names = found.effect.name.removeprefix("Change of ").partition(": ")
    lead, _, less = names.partition(" less ")
    assert found.effect.value == pytest.approx(rows[lead][metric] - rows[less][metric])
    if name != "length/t3":  # of ranks alone
        assert first.columns.index("mAP-EPIC AVG") < first.columns.index("mAP AVG")
        assert any("mAP-EPIC is the paper's mAP" in sentence for sentence in found.method)
    assert [figure.draw() for figure in found.figures]


@pytest.mark.parametrize(("count", "steps"), [(2, "share"), (3, "full")])
def test_rows_are_compared_with_what_takes_as_many_steps(count: int, steps: str) -> None:
    """In times of the baseline's: a share each is one, all steps each as many as there are strata."""
    settings = quick_settings(f"members.count={count}", f"members.steps={steps}", "loop.steps=6", "loop.epochs=null")

    def spent(name: str, kinds: Variants) -> float:
        recipe = kinds[name].recipe
        assert recipe.loop.steps is not None
        if recipe.members is None:
            return recipe.loop.steps / 6
        each = recipe.members.count if recipe.members.steps == "full" or recipe.members.by == "seed" else 1
        return each + (recipe.members.begin == "full")

    kinds = controls(class_material(), settings)
    less = {name: kind.against for name, kind in kinds.items() if kind.against is not None}
    for name, other in less.items():
        as_much = other != BASELINE or "random" in name
        assert (spent(name, kinds) == spent(other, kinds)) == as_much
    tuned = fine_tuned_strata(class_material(), settings)
    against = tuned["fine-tuned strata"].against
    assert against is not None and spent("fine-tuned strata", tuned) == spent(against, tuned) > 1


def test_a_stratum_alone_is_not_trained_again(quick: StudySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[str] = []

    def told(recipe: Recipe, material: TrainingInputs, folder: Path, outside: RunHooks) -> TrainedModel:
        folders.append(folder.parent.name)
        return untrained(recipe, material, folder, outside)

    monkeypatch.setattr("evenreel.papers.engine.train_recipe", told)
    found = run_study("length/t4", class_material(), quick)
    assert folders == ["baseline", "equal-2", "adjusted-2", "adjusted-3", "adjusted-4"]
    clips = {name: row[2] for name, row in rows_of(found.tables[0]).items()}
    assert (clips["first of adjusted 2"], clips["second of adjusted 2"], clips["adjusted 2"]) == (1, 2, 3)


def test_seeds_share_no_member(quick: StudySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval over seeds is of independent trainings, and an ensemble takes the seeds that follow its own."""
    taken: list[set[int]] = []

    def told(recipe: Recipe, material: TrainingInputs, folder: Path, outside: RunHooks) -> TrainedModel:
        if folder.parent.name == "ensemble":
            assert recipe.members is not None
            taken.append({one.recipe.loop.seed for one in member_runs(recipe, recipe.members, material)[0]})
        return untrained(recipe, material, folder, outside)

    monkeypatch.setattr("evenreel.papers.engine.train_recipe", told)
    run_study("length/t10", class_material(), replace(quick, seeds=2))
    assert [len(one) for one in taken] == [2, 2] and not taken[0] & taken[1]


def test_what_trimming_knows_of_the_test_split_is_said(quick: StudySettings) -> None:
    found = run_study("length/t1", class_material(), quick)
    assert "RmvAll: It uses class lengths of the split test." in found.notices
    assert any(notice.startswith("RmvAll: Left out for their length: ") for notice in found.notices)
    clips = {name: row[2] for name, row in rows_of(found.tables[0]).items()}
    assert clips[RMV_ALL] == clips[RMV_RAND] < clips[BASELINE]
    assert found.notices[0].startswith("Trained with one seed, so nothing says which")


def test_trimming_that_leaves_nothing_out_is_said() -> None:
    """The clips to select on are of the training split, and so as long."""
    trim = quick_settings("trim.rule=all").recipe
    assert "So this row learns what the baseline does" in splits_of(trim, class_material()).notices[1]


def test_figures_are_those_of_an_evaluation() -> None:
    material = class_material()
    scores = material.models[0].part.scores(material.models[0].matcher)
    found = figures_of(scores, material.test, (*NDCG, *MAP_EPIC, *MAP, *RANKS))
    metrics = {"nDCG@R": NDCG, "mAP-EPIC": MAP_EPIC, "mAP": MAP}
    settings = EvaluationSettings(parse_metrics(list(metrics)), resamples=0)
    graded = evaluate(scores, material.test, settings, relevance="classes-iou")
    for metric, names in metrics.items():
        both = [graded.directions[way].summary[metric].value for way in ("v2t", "t2v")]
        assert [found[name] for name in names] == pytest.approx([*both, sum(both) / 2])
    assert found["mAP-EPIC AVG"] > found["mAP AVG"]  # whose precision leaves degrees below 1 out
    own = evaluate(scores, material.test, EvaluationSettings(resamples=0)).directions["t2v"].summary
    assert {name: found[name] for name in RANKS} == {name: own[name].value for name in RANKS}
    assert list(figures_of(scores, material.test, ("MedR",))) == ["MedR"]


def test_other_matchers_have_places_for_the_longest_clip(quick: StudySettings) -> None:
    material = class_material()
    train, test = material.learning()
    videos = longer_videos(test.videos, 13 // test.videos.frames.shape[1] + 1)
    longer = replace(material, features=replace(test, videos=videos))
    most = int(videos.frame_mask.sum(1).max())
    assert most > 12 >= train.videos.frame_mask.sum(1).max()
    kinds = other_matchers(longer, replace(quick, bases=("x_clip",)))
    assert {kind.recipe.matcher.settings["max_frames"] for kind in kinds.values()} == {most}


def test_streams_that_stay_are_of_unit_length() -> None:
    part = class_material().learning()[1]
    left = with_streams(part, STREAMS, ("heard",))
    assert left.videos.frames.shape[-1] == STREAMS["heard"]
    expected = part.videos.frames[..., STREAMS["seen"] :] * np.sqrt(2)
    np.testing.assert_allclose(left.videos.frames, expected, atol=2e-3)
    assert with_streams(part, STREAMS, ()) is part
    silent = replace(part.videos, frames=part.videos.frames.copy())
    silent.frames[3, 1, STREAMS["seen"] :] = 0
    fewer = with_streams(replace(part, videos=silent), STREAMS, ("heard",))
    assert set(part.videos.ids) - set(fewer.videos.ids) == {part.videos.ids[3]}
    assert fewer.corpus.clips["clip_id"].to_list() == list(fewer.videos.ids)


def test_one_class_is_shortened_at_either_end(quick: StudySettings) -> None:
    """As many at one end as at the other; by hand, the clips that are left of the class."""
    train, test = (part.corpus for part in class_material().learning())
    chosen = picked_class(train, test, "CUT tomato")
    assert chosen == picked_class(train, test, "0,0") == picked_class(train, test, None)
    own = train.clips.filter((pl.col("verb_classes").list.first() == 0) & (pl.col("noun_classes").list.first() == 0))
    lengths = own["frame_count"].to_numpy()
    near = chosen._replace(test_mean=float(np.sort(lengths)[4:].mean()))
    assert chosen.towards == "shortest" and chosen.train_mean == lengths.mean()
    ends: list[tuple[End, Any]] = [("shortest", np.sort(lengths)[4:]), ("longest", np.sort(lengths)[:-4])]
    for end, kept in ends:
        left = without_end(train, near, end)
        actions = actions_of(left)
        number = actions.pairs.index((0, 0))
        assert sorted(actions.lengths[actions.classes == number]) == kept.tolist()
        assert train.clips.height - left.clips.height == 4


def test_table_8_has_a_row_for_each_end(quick: StudySettings) -> None:
    found = run_study("length/t8", class_material(), replace(quick, action="cut tomato"))
    rows = rows_of(found.tables[0])
    assert list(rows) == ["remove longest", "remove none", "remove shortest"]
    train = [rows[name][1] for name in rows]
    assert train == sorted(train)
    assert found.effect.value == pytest.approx(rows["remove shortest"][4] - rows["remove none"][4])
    assert "chosen by the mean length of the class in the split that is searched" in found.notices[0]


def test_a_class_that_cannot_be_shortened_is_refused() -> None:
    train, test = (part.corpus for part in class_material().learning())
    for asked, sentence in (("7,7", "No class '7,7' is in both"), ("eat soup", "as captions call")):
        with pytest.raises(UsageError, match=sentence):
            picked_class(train, test, asked)
    with pytest.raises(UsageError, match="has 10 training clips; name one with --class"):
        picked_class(select(train, where=pl.col("frame_count") < 110), test, None)
    with pytest.raises(UsageError, match="as long in training as in test, or has a single clip"):
        without_end(train, OneClass((7, 7), "eat soup", 1.0, 2.0, "frames"), "longest")


def _ranked(ranks: list[float], suspected: list[int]) -> LengthMeasures:
    """Measures of which only ranks and suspects are there."""
    failures = Failures(
        len(ranks), 0, (0, 0, 0), np.array(suspected, np.int64), TailClasses(frozenset(), frozenset(), "")
    )
    found = object.__new__(LengthMeasures)
    first = type("First", (), {"rank": np.array(ranks)})()
    object.__setattr__(found, "first", first)
    object.__setattr__(found, "failures", failures)
    return found


def test_captions_move_up_and_down() -> None:
    before, after = _ranked([20, 30, 40, 50, 9], [0, 1, 2, 3]), _ranked([10, 35, 40, 20, 1], [])
    rows = drawn(before, 0)
    assert rows.tolist() == [0, 1, 2, 3]
    assert [*compared(before, after, rows).values()] == [4, 4, 2, 1, 1, 40.0, 5.0, 25.0]
    many = _ranked([20.0] * 100, [*range(100)])
    assert len(drawn(many, 1)) == 60 and drawn(many, 1).tolist() != drawn(many, 2).tolist()
    with pytest.raises(CorpusError, match="No caption is suspected"):
        drawn(_ranked([20], []), 0)


def test_suspected_captions_are_ranked_again(quick: StudySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is suspected among clips this few, so all are."""
    monkeypatch.setattr("evenreel.papers.frame_length.figures.drawn", lambda before, seed: np.arange(12) + seed)
    found = run_study("length/samples", class_material(), quick)
    rows = cast("Any", found.tables[0].rows)
    assert [row[:2] for row in rows] == [(RMV_ALL, 0), (RMV_RAND, 0)]
    assert all(row[4] + row[5] + row[6] == row[3] == 12 for row in rows)
    shares = [100 * (row[4] - row[5]) / 12 for row in rows]
    assert found.effect.value == pytest.approx(shares[0] - shares[1])


def test_what_strata_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.training.cost.STEPS", 2)
    monkeypatch.setattr("evenreel.training.cost.WARM_UP_STEPS", 1)
    found = run_study("length/t5", class_material(), quick_settings())
    cost = rows_of(found.tables[0])
    assert {name: row[-1] for name, row in cost.items()} == {BASELINE: 1, ENSEMBLE: 2, BACKDOOR: 2}
    assert cost[BACKDOOR][2] == 2 * cost[BASELINE][2]
    assert cost[BACKDOOR][7] == 2 * cost[BASELINE][7]
    seconds = {name: row[2] for name, row in rows_of(found.tables[1]).items()}
    strata = [seconds["stratum 1"], seconds["stratum 2"]]
    assert seconds["strata in sequence"] == pytest.approx(sum(strata))
    assert seconds["strata in parallel"] == max(strata)
    captions = [row[1] for row in cast("Any", found.tables[1].rows)]
    assert captions[1] + captions[2] == captions[0]


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("length/t2", ["matcher.name=wti", "matcher.settings={}"], "wti learns by another; set matcher.name to hgr"),
        ("length/t10", ["members.by=seed"], "compares strata of length with it"),
        ("length/t6", ["data.streams=[seen]"], "fewer than two; make features of several"),
        ("length/t7", [], "No matcher is called 'clip4clip'"),
    ],
)
def test_what_a_recipe_cannot_do_is_said(name: str, changes: list[str], sentence: str) -> None:
    settings = quick_settings(*changes)
    with pytest.raises(UsageError, match=sentence):
        run_study(name, class_material(), replace(settings, bases=("clip4clip",)))


def test_several_matchers_do_not_begin_with_one_checkpoint() -> None:
    matcher, spec = class_material().models[0].matcher, MatcherSpec("mean_pool")
    start = Pretrained(matcher, spec, About(EncoderNote("encoder", "hash", 16)))
    with pytest.raises(UsageError, match="trains several matchers, and a checkpoint"):
        run_study("length/t7", replace(class_material(), start=start), quick_settings())


def test_what_a_recipe_draws_otherwise_a_study_does_too() -> None:
    """Exchanged backgrounds are not left out in silence."""
    material = class_material()
    swapped = quick_settings("backgrounds.clusters=2").recipe
    examples = learning_of(swapped, splits_of(swapped, material), material).examples
    assert isinstance(examples, FeatureExamples) and examples.exchanged == 1.0


# figures of lengths: of a corpus alone, and of rankings ---------------------------------------------------------------

SETTINGS = quick_settings()


def means(split: str) -> dict[tuple[int, int], float]:
    """Mean length of each class, by a query of the tables."""
    clips = select(class_material().whole, split=split).clips
    pair = [pl.col(kind).list.first() for kind in ("verb_classes", "noun_classes")]
    return {(v, n): mean for v, n, mean in clips.group_by(pair).agg(pl.col("frame_count").mean()).iter_rows()}


def by_length(sign: int) -> Workspace:
    """A system that ranks every caption's clips by their length alone, the short ones first for -1."""
    material = class_material()
    lengths = sign * material.test.clips["frame_count"].to_numpy().astype(np.float64)
    captions = material.test.captions["caption_id"].to_list()
    scores = Scores(np.tile(lengths, (len(captions), 1)), captions, material.test.clips["clip_id"].to_list())
    return replace(material, models=(), scores={"by length": scores})


def test_how_far_classes_differ() -> None:
    found = run_study("length/f2", class_material(), SETTINGS)
    train, test = means("train"), means("test")
    gaps = [test[pair] - train[pair] for pair in train]
    assert found.effect.value == pytest.approx(np.mean(gaps))
    assert found.sentence.startswith(f"Of {len(VERBS) * len(NOUNS)} classes in both splits {sum(g > 0 for g in gaps)} ")
    bars = found.figures[0].draw().data
    assert list(bars[0].y) == pytest.approx(sorted(gaps, reverse=True), abs=0.01)
    assert list(bars[1].y) == pytest.approx(sorted(map(abs, gaps), reverse=True), abs=0.01)


def test_how_lengths_are_spread() -> None:
    found = run_study("length/f7", class_material(), SETTINGS)
    lengths = [select(class_material().whole, split=split).clips["frame_count"] for split in ("train", "test")]
    assert [row[1:3] for row in found.tables[0].rows] == [(len(one), pytest.approx(one.mean())) for one in lengths]
    assert found.effect.value == pytest.approx(lengths[1].mean() - lengths[0].mean())  # type: ignore[operator]


def test_which_lengths_a_class_is_shown() -> None:
    """A ranking by length shows every class the 20 shortest clips."""
    found = run_study("length/f1", by_length(-1), replace(SETTINGS, action="take cup"))
    ((system, name, train, test, first, _),) = found.tables[0].rows
    shortest = np.sort(class_material().test.clips["frame_count"].to_numpy())[:20]
    assert (system, name) == ("by length", "take cup")
    assert (train, test) == (pytest.approx(means("train")[1, 2]), pytest.approx(means("test")[1, 2]))
    assert first == pytest.approx(shortest.mean())
    assert not found.effect.enough  # so few classes conclude nothing, as the audit says too
    assert "take cup" in found.figures[0].draw().layout.annotations[1].text
    both = replace(class_material(), scores=by_length(1).scores)
    rows = run_study("length/f1", both, SETTINGS).tables[0].rows
    assert [row[0] for row in rows] == ["mean_pool", "by length"] and rows[0][1] == rows[1][1]


def test_how_relevant_the_first_clips_are() -> None:
    material = by_length(1)
    caption = material.test.captions["caption_id"][5]
    found = run_study("length/f5", material, replace(SETTINGS, queries=(caption,)))
    assert [row[:2] for row in found.tables[0].rows] == [
        ("by length: text to video", "take plate"), ("by length: video to text", "take plate"),
    ]  # fmt: skip
    verb, noun = 5 // len(NOUNS), 5 % len(NOUNS)
    clips = material.test.clips.sort("frame_count", descending=True).head(50)
    degrees = [((v == [verb]) + (n == [noun])) / 2 for v, n in clips.select("verb_classes", "noun_classes").iter_rows()]
    assert found.tables[0].rows[0][2] == pytest.approx(np.mean(degrees))
    assert len(found.figures[0].draw().data) == 2
    both = replace(material, models=class_material().models)
    compared = run_study("length/f5", both, SETTINGS)
    assert compared.effect.name.endswith("last system less first")
    assert len(compared.figures[0].draw().data) == 4


@pytest.mark.parametrize(
    ("name", "changes", "kind", "sentence"),
    [
        ("f5", {"queries": ("nobody",)}, UsageError, "no caption 'nobody'; --query takes ids"),
        ("f1", {"action": "eat soup"}, UsageError, "No class 'eat soup' is in both"),
    ],
)
def test_what_is_not_there_is_said(name: str, changes: dict[str, object], kind: type, sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        run_study(f"length/{name}", class_material(), replace(SETTINGS, **changes))  # type: ignore[arg-type]


def test_splits_without_a_class_in_common_cannot_be_compared() -> None:
    material = class_material()
    verbs = pl.col("verb_classes").list.first()
    apart = replace(
        material, test=select(material.test, where=verbs == 0), learned=select(material.whole, where=verbs > 0)
    )
    with pytest.raises(CorpusError, match="No class of verb and noun is in both splits"):
        run_study("length/f2", apart, SETTINGS)
