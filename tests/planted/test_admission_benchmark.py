"""Rules of admission on figures made by hand, references of rendered worlds, and every row of these on a few clips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

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
    variant,
    verdicts,
)
from benchmarks.evidence import trainings
from benchmarks.evidence.adapted import in_a_stream
from benchmarks.evidence.admissions import save_admissions
from benchmarks.evidence.page import Measured
from benchmarks.evidence.registry import EVIDENCE
from benchmarks.evidence.rendered.worlds import UNTRAINED as UNTRAINED_ROWS
from benchmarks.evidence.rendered.worlds import admission_rows
from benchmarks.evidence.rows import ADMISSION, BASELINE, TRAINING_S, Cell, Evidence, Place, Size
from evenreel.papers import cells as over_seeds
from evenreel.planted import PlantSettings, admission_of, plan_corpus
from evenreel.planted import admission as packaged
from evenreel.planted.biases import Harder
from tests.planted.worlds.tables import made_up_table

pytestmark = pytest.mark.slow

CHANGES = (HALF, TWICE, NO_ADAPTER)
FREE_ROWS = {BASELINE: ORACLE, AGAIN: AGAIN} | {change: variant(ORACLE, change) for change in CHANGES}
"""Rows where nothing is planted, and what the rules call them."""
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


SMALL_COST = {
    "oracle": [67.5] * 3, "reference": [68.0] * 3, "again": [67.0, 68.0, 67.5], "untrained_mean_pool": [40.0] * 3,
    "oracle_half_the_steps": [66.0] * 3, "oracle_twice_the_steps": [68.5] * 3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({}, []),
        # learning is needed by the best reading of each seed: 14, 20 and 15 below, 16.3 on average
        ({"untrained_wti": [66.0, 40.0, 65.0]}, []),
        ({"untrained_wti": [66.0, 66.0, 65.0]}, [NEEDED]),  # 14.3, though the mean of mean_pool is 30 below
        (SMALL_COST, [COSTS]),  # 6.5
        ({"biased": [50.0, 61.0, 72.0], "reference": [85.0] * 3}, [COSTS]),  # 19, +- 27.3
        ({"reference": [78.2] * 3}, []),  # 17.2 of 19
        ({"reference": [78.0] * 3}, [EXPLAINED]),  # 17.0, which is 89.5 %
        ({"again": [82.0, 82.1, 81.9]}, [NOTHING]),
        ({"again": [82.0, 82.1, 81.9], "frames_alone": [82.1, 82.0, 82.0]}, []),
        *(
            ({f"biased_{steps}": [50.0] * 3, f"oracle_{steps}": [50.0 + 19 * share] * 3}, rules)
            for steps in ("half_the_steps", "twice_the_steps")
            for share, rules in ((0.68, []), (0.66, [STEADY]), (1.32, []), (1.34, [STEADY]))
        ),
    ],
)
def test_a_rule_breaks_at_its_bound(changed: dict[str, list[float]], rules: list[str]) -> None:
    assert failed(**changed) == rules


def test_a_bias_without_cost_is_not_admitted_and_the_figures_say_why() -> None:
    rows = {name: [{"R@1": 90.0}] * 3 for name in GOOD}
    found = broken(verdicts(rows))
    assert [rule.split(" (")[0] for rule in found] == [NEEDED, COSTS, STEADY, EXPLAINED]


@pytest.mark.parametrize("evidence", EVIDENCE, ids=lambda one: one.name)
def test_rows_of_every_bias_are_made(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "annotation_table", lambda folder: made_up_table(1_400, nouns=40))
    assert {BASELINE, *ADMISSION, *([evidence.oracle] if evidence.oracle else [])} <= set(evidence.rows)
    assert sum(row.chosen for row in evidence.rows.values()) == 1
    kinds = ("untrained", "baseline", "admission")
    rows = [name for name, row in evidence.rows.items() if row.kind in kinds or row.chosen]
    place = Place(1, 0.5, Size(*((900, 40) if evidence.world == "drawn" else (60, 0)), steps=2), Path())
    found = dict(evidence.measure(evidence.draw(place), place, rows))
    assert list(found) == rows
    for name, figures in found.items():
        assert 0 <= figures["R@1"] <= 100
        assert figures.get(TRAINING_S, 0) > 0 or evidence.rows[name].kind == "untrained"


@pytest.mark.parametrize("logged", [0, 37])
def test_a_stream_answers_each_query_by_what_was_asked_before_it(logged: int) -> None:
    rng = np.random.default_rng(0)
    values, before, order = rng.normal(0.2, 0.1, (50, 25)), rng.normal(0.2, 0.1, (logged, 25)), rng.permutation(50)
    found = in_a_stream(values, order, before)
    asked = [*before, *values[order]]
    for place, row in enumerate(order, start=logged):
        batch = place // 16
        if not batch:
            assert found[row].tolist() == values[row].tolist()
            continue
        kept = np.array(asked[max(0, batch - 2) * 16 : (batch + 1) * 16])  # a tenth of 25 clips: two batches before it
        by_queries = np.exp(100 * values[row]) / np.exp(100 * kept).sum(0)
        by_clips = np.exp(10 * values[row]) / np.exp(10 * values[row]).sum()
        assert found[row] == pytest.approx(values[row] * (by_queries + by_clips) / 2, rel=1e-9)


def test_verdicts_on_rendered_worlds_are_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "admission.json").write_text("[]", encoding="utf-8")
    monkeypatch.setattr(packaged, "SHIPPED", tmp_path / "admission.json")
    names = {BASELINE: BIASED, REFERENCE: REFERENCE, AGAIN: AGAIN} | {c: variant(BIASED, c) for c in CHANGES}
    biased = {row: [{"R@1": value} for value in GOOD[name]] for row, name in names.items()}
    biased |= {name: [{"R@1": 50.0}] * 3 for name in UNTRAINED_ROWS}
    free = biased | {row: [{"R@1": value} for value in GOOD[name]] for row, name in FREE_ROWS.items()}
    plain = replace(EVIDENCE[0], world="rendered", rows=admission_rows("visual"))
    hard = replace(plain, world="harder", settings=Harder(difficulty=1.0).changed)
    found = [Measured(one, biased, free) for one in (hard, plain)]
    found.append(Measured(EVIDENCE[0], biased, free))
    assert save_admissions(found, range(10, 13), 0.9) == ["harder-visual", "rendered-visual"]
    harder = admission_of(plan_corpus("visual", 0.9, 24, settings=PlantSettings(harder=Harder(difficulty=1.0))))
    assert harder is not None and harder.admitted and harder.seeds == (10, 11, 12)
    assert harder.means[ORACLE] == 80.0 and harder.rules[STEADY] == "18.0, 19.0, 20.0"
    assert admission_of(plan_corpus("visual", 0.9, 24)) is not None


def test_a_line_that_a_kill_cut_is_measured_again_and_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    cells = [Cell("rendered", "domain", seed, 0.9, "baseline", 24, 0, 2) for seed in range(3)]
    for cell in cells[:2]:
        over_seeds.note_run(path, cell, {"baseline": {"R@1": 1.0}})
    path.write_bytes(path.read_bytes()[:-9])
    assert list(over_seeds.known_runs(path, Cell)) == cells[:1]
    over_seeds.note_run(path, cells[2], {"baseline": {"R@1": 2.0}})
    assert list(over_seeds.known_runs(path, Cell)) == [cells[0], cells[2]]
