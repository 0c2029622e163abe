"""`benchmarks/admission.py`: each rule on figures made by hand, what is resumed, and all of it on a few clips."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import admission as benchmark
from benchmarks import over_seeds
from benchmarks.admission import REFERENCES, Run, rows_of
from benchmarks.admission_rules import (
    AGAIN,
    BIASED,
    COSTS,
    EXPLAINED,
    FRAMES_ALONE,
    HALF,
    NEEDED,
    NO_ADAPTER,
    NOTHING,
    ORACLE,
    REFERENCE,
    STEADY,
    TWICE,
    UNTRAINED,
    broken,
    table,
    variant,
    verdicts,
)
from evenreel.planted import BIASES, BiasName, PlantedClip, admission_of, plan_corpus, planted_statistics
from evenreel.planted import admission as packaged

GOOD = {
    variant(UNTRAINED, "mean_pool"): [40.0, 60.0, 50.0],
    variant(UNTRAINED, "wti"): [50.0, 40.0, 45.0],
    BIASED: [60.0, 61.0, 62.0],
    variant(BIASED, HALF): [59.0, 60.0, 61.0],
    variant(BIASED, TWICE): [61.0, 62.0, 63.0],
    variant(BIASED, NO_ADAPTER): [58.0, 58.0, 58.0],
    ORACLE: [80.0, 80.0, 80.0],
    variant(ORACLE, HALF): [78.0, 78.0, 78.0],
    variant(ORACLE, TWICE): [81.0, 82.0, 83.0],
    variant(ORACLE, NO_ADAPTER): [70.0, 70.0, 70.0],
    REFERENCE: [80.0, 79.0, 78.0],
    AGAIN: [79.0, 81.0, 80.0],
}
"""Costs 19, 18 with half and 20 with twice the steps; the reference is 18 above biased; untrained 26.7 below."""


def failed(**changed: list[float]) -> list[str]:
    """The rules that break where some rows are others."""
    names = {name.replace(", ", "_").replace(" ", "_"): name for name in GOOD} | {"frames_alone": FRAMES_ALONE}
    figures = GOOD | {names[name]: values for name, values in changed.items()}
    rows = {name: [{"R@1": value} for value in values] for name, values in figures.items()}
    return [one.rule for one in verdicts(rows) if not one.holds]


def test_a_bias_that_can_tell_is_admitted() -> None:
    assert failed() == []


def test_learning_is_needed_by_the_best_reading_of_each_seed() -> None:
    assert failed(untrained_wti=[66.0, 40.0, 65.0]) == []  # 14, 20 and 15 below: 16.3 on average
    assert failed(untrained_wti=[66.0, 66.0, 65.0]) == [NEEDED]  # 14.3, though the mean of mean_pool is 30 below


def test_the_bias_costs_enough_and_surely() -> None:
    small = {
        "oracle": [67.5] * 3,
        "reference": [68.0] * 3,
        "again": [67.0, 68.0, 67.5],
        "untrained_mean_pool": [40.0] * 3,
    }
    steps = {"oracle_half_the_steps": [66.0] * 3, "oracle_twice_the_steps": [68.5] * 3}
    assert failed(**small, **steps) == [COSTS]  # 6.5
    unsure = failed(biased=[50.0, 61.0, 72.0], reference=[85.0] * 3)  # 19, +- 27.3
    assert unsure == [COSTS]


@pytest.mark.parametrize("row", ["oracle_half_the_steps", "oracle_twice_the_steps"])
def test_steps_change_the_cost_by_less_than_a_third(row: str) -> None:
    name = "biased_half_the_steps" if "half" in row else "biased_twice_the_steps"
    by = {name: [50.0] * 3}
    assert failed(**by, **{row: [50.0 + 19 * 0.68] * 3}) == []
    assert failed(**by, **{row: [50.0 + 19 * 0.66] * 3}) == [STEADY]
    assert failed(**by, **{row: [50.0 + 19 * 1.32] * 3}) == []
    assert failed(**by, **{row: [50.0 + 19 * 1.34] * 3}) == [STEADY]


def test_the_reference_brings_the_cost_back() -> None:
    assert failed(reference=[78.2] * 3) == []  # 17.2 of 19
    assert failed(reference=[78.0] * 3) == [EXPLAINED]  # 17.0, which is 89.5 %


def test_nothing_is_seen_at_strength_0() -> None:
    assert failed(again=[82.0, 82.1, 81.9]) == [NOTHING]
    assert failed(again=[82.0, 82.1, 81.9], frames_alone=[82.1, 82.0, 82.0]) == []


def test_a_bias_without_cost_is_not_admitted_and_the_table_says_why() -> None:
    rows = {name: [{"R@1": 90.0}] * 3 for name in GOOD}
    found = broken(verdicts(rows))
    assert [rule.split(" (")[0] for rule in found] == [NEEDED, COSTS, STEADY, EXPLAINED]
    line = table({"visual": rows}).splitlines()[-1]
    assert line.startswith("| `visual` | 90.0 | 90.0 | 90.0 | 90.0, 90.0 | **fails:** 0.0") and line.endswith("| no |")


@pytest.mark.parametrize("bias", BIASES)
def test_references_change_what_is_learned_from_and_plant_nothing(bias: BiasName) -> None:
    if BIASES[bias].in_test:
        assert rows_of(bias)[REFERENCE].words
        return
    plan = plan_corpus(bias, 0.9, 1_000, seed=1)
    told = REFERENCES[bias](plan)
    assert len(told.clips) == len(plan.clips) and told.split("train") != plan.split("train")
    content = [tuple(caption.names for caption in clip.shot.captions) for clip in told.clips]
    assert content == [tuple(caption.names for caption in clip.shot.captions) for clip in plan.clips]
    if bias != "textual":
        assert told.split("test") == plan.split("test")
    if bias in ("visual", "length"):
        train = planted_statistics(told)[0]
        chance = {"visual": 1 / 8, "length": 1 / 2}[bias]
        assert abs(train.planted_share - chance) < 0.06  # 600 clips: three standard errors


def test_the_reference_of_source_is_a_coin_and_of_domain_the_camera() -> None:
    plan = plan_corpus("source", 0.9, 1_000, seed=1)
    train = REFERENCES["source"](plan).split("train")
    assert 0.44 < sum(clip.shot.source != "camera" for clip in train) / len(train) < 0.56
    assert [clip.clip_id[:11] for clip in train] == [clip.clip_id[:11] for clip in plan.split("train")]
    seen = REFERENCES["domain"](plan_corpus("domain", 0.9, 100, seed=1))
    assert len({clip.scene.look for clip in seen.clips}) == 1


def test_the_reference_of_textual_leaves_the_content_of_captions() -> None:
    plan = plan_corpus("textual", 0.9, 60, seed=1)
    for clip, bare in zip(plan.clips, REFERENCES["textual"](plan).clips, strict=True):
        for caption, left in zip(clip.shot.captions, bare.shot.captions, strict=True):
            assert left.text in caption.text and len(left.text) < len(caption.text)


def test_a_bias_without_a_reference_of_its_own_learns_from_other_clips() -> None:
    plan = plan_corpus("visual", 0.9, 60, seed=1)
    told = benchmark.elsewhere(plan)

    def scenes(clips: Sequence[PlantedClip]) -> set[int]:
        return {clip.scene.seed for clip in clips}

    assert not scenes(told.split("train")) & scenes(plan.split("train")) and told.split("test") == plan.split("test")


def test_every_training_is_selected_on_validation_ten_times() -> None:
    run = Run("scene_text", 10, 0.9, ORACLE, 1_500, 500)
    for name, row in rows_of("scene_text").items():
        if not row.steps:
            continue
        recipe = benchmark.recipe_of(run, row, captions=1_800)
        assert recipe.loop.steps == 10 * (recipe.selection.every_steps or 0), name
        assert (recipe.selection.metric, recipe.data.validation, recipe.loop.batch_size) == ("R@1", "val", 64)
        assert (recipe.adapter is not None and recipe.adapter.windows) == row.words
    assert benchmark.recipe_of(run, rows_of("visual")[variant(BIASED, NO_ADAPTER)], 20).adapter is None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command in this process, on 24 clips with 2 steps and 2 seeds, and a file of figures."""

    def serially(jobs: Sequence[tuple[Any, ...]], work: Callable[..., Any], processes: int) -> Iterator[Any]:
        return (work(*job) for job in jobs)

    def command(*arguments: str) -> int:
        sizes = ("--clips", "24", "--steps", "2", "--seeds", "2", "--out", str(tmp_path / "figures.jsonl"))
        monkeypatch.setattr(sys, "argv", ["admission", "--biases", "visual", *sizes, *arguments])
        return benchmark.main()

    monkeypatch.setattr(over_seeds, "in_processes", serially)
    (tmp_path / "admission.json").write_text("[]", encoding="utf-8")
    monkeypatch.setattr(packaged, "SHIPPED", tmp_path / "admission.json")
    return command


def test_all_of_it_on_a_few_clips_and_no_more_where_figures_are_there(
    here: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    out = tmp_path / "figures.jsonl"
    for seed in (10, 11):  # as a run left them that was broken off
        for row in rows_of("visual"):
            if ("," in row and not row.startswith(UNTRAINED)) or (seed, row) == (11, AGAIN):
                over_seeds.note_run(out, Run("visual", seed, 0.9, row, 24, 2), {row: {"R@1": 0.0}})
    assert here() == 1
    printed = capsys.readouterr()
    assert "not admitted: visual: " in printed.err and "| `visual` |" in printed.out
    found = over_seeds.known_runs(out, Run)
    assert {(run.seed, run.row) for run in found} == {(seed, row) for seed in (10, 11) for row in rows_of("visual")}
    assert len(out.read_text(encoding="utf-8").splitlines()) == len(found)
    assert all(rows[run.row]["R@1"] > 12.5 for run, rows in found.items() if run.row in (BIASED, ORACLE))  # 8 clips

    def never(runs: Sequence[Run]) -> Iterator[Any]:
        raise AssertionError(runs)

    monkeypatch.setattr(benchmark, "of_corpus", never)
    assert here() == 1
    assert capsys.readouterr().out == printed.out
    with pytest.raises(AssertionError):
        here("--strength", "0.8")


def test_only_five_seeds_are_saved(
    here: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        here("--save")
    assert "--save takes 5 seeds" in capsys.readouterr().err
    run = Run("visual", 0, 0.9, "", 24, 2)
    for seed in range(10, 15):
        for row in rows_of("visual"):
            value = next(values for name, values in GOOD.items() if name == row)[seed % 3]
            over_seeds.note_run(tmp_path / "figures.jsonl", replace(run, seed=seed, row=row), {row: {"R@1": value}})
    assert here("--save", "--seeds", "5") == 0
    found = admission_of(plan_corpus("visual", 0.9, 24))
    assert found is not None and found.admitted and found.seeds == (10, 11, 12, 13, 14)
    assert found.means[ORACLE] == 80.0 and found.rules[STEADY] == "17.8, 18.8, 20.0"


def test_a_line_that_a_kill_cut_is_measured_again_and_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    runs = [Run("domain", seed, 0.9, "biased", 24, 2) for seed in range(3)]
    for run in runs[:2]:
        over_seeds.note_run(path, run, {"biased": {"R@1": 1.0}})
    path.write_bytes(path.read_bytes()[:-9])
    assert list(over_seeds.known_runs(path, Run)) == runs[:1]
    over_seeds.note_run(path, runs[2], {"biased": {"R@1": 2.0}})
    assert list(over_seeds.known_runs(path, Run)) == [runs[0], runs[2]]
