"""Table 5 of the paper on frame-length bias: parameters, multiply-adds and time of an epoch, alone and by stratum."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path

from evenreel.papers.engine.findings import Findings, effect_of, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.seeds import SeededRuns, by_row
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.trainings import batch_shape, learning_of, splits_of
from evenreel.papers.engine.variants import BASELINE
from evenreel.papers.engine.words import paragraphs
from evenreel.papers.frame_length.variants import BACKDOOR, ENSEMBLE, backdoor, ensemble, plain
from evenreel.progress import Progress
from evenreel.progress import part_of as progress_of_part
from evenreel.report.result import AuditTable, Cell, interval_cells, interval_columns
from evenreel.training.cost import RecipeCost, Shape, Times, measured_times, recipe_cost
from evenreel.training.material import learned_from

IN_TURN = "strata in sequence"
_EPOCH, _BESIDE = "seconds an epoch", "% beside one training"


def costs(material: LearningInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Make table 5 of the frame-length paper: what the baseline, the ensemble and the backdoor adjustment cost."""
    recipe = backdoor(settings.recipe)
    learning = learning_of(recipe, splits_of(recipe, material), material.start)
    kinds = {BASELINE: plain(recipe), ENSEMBLE: ensemble(recipe), BACKDOOR: recipe}
    shape = replace(batch_shape(recipe, learning, material), windows=0)
    learned = learned_from(learning)
    counted = {name: recipe_cost(one, shape, learned) for name, one in kinds.items()}
    with tempfile.TemporaryDirectory() as folder:
        times = [
            measured_times(recipe, learning, Path(folder) / str(seed), progress_of_part(progress, seed, settings.seeds))
            for seed in range(settings.seeds)
        ]
    measured = by_row(row for one in times for row in _rows(one))
    runs = SeededRuns(measured, settings.audit.confidence, {_EPOCH: (0.0, inf), _BESIDE: (-inf, inf)})
    change = runs.mean(IN_TURN, _BESIDE)
    whole = counted[BACKDOOR]
    return Findings(
        f"One after the other, the strata take {shown(change)} % beside one training for an epoch. To search, each "
        f"clip is encoded {whole.members} times and {whole.members} galleries are kept.",
        effect_of(change, f"Time of an epoch in sequence: {BACKDOOR} less {BASELINE}, % of {BASELINE}"),
        (_cost_table(counted, shape), _time_table(runs, times[0])),
        (),
        (),
        paragraphs("length", "Costs", "Table 5 in the paper"),
    )


def _cost_table(counted: Mapping[str, RecipeCost], shape: Shape) -> AuditTable:
    rows: list[tuple[Cell, ...]] = [
        (
            name, cost.whole.captions.parameters, cost.whole.videos.parameters, cost.whole.embeddings,
            cost.whole.captions.multiply_adds, cost.whole.videos.multiply_adds, cost.whole.pair_multiply_adds,
            cost.whole.videos.row_bytes, cost.members,
        )
        for name, cost in counted.items()
    ]  # fmt: skip
    columns = (
        "training", "parameters, captions", "clips", "tables", "multiply-adds of a batch, captions", "clips", "a pair",
        "bytes kept of a clip", "encodings of a clip",
    )  # fmt: skip
    note = (
        f"A batch: {shape.batch} captions of {shape.words} words, {shape.batch} clips of {shape.frames} frames of "
        f"{shape.dimension:,} numbers."
    )
    return AuditTable("What searching costs", columns, tuple(rows), note)


def _rows(one: Times) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield seconds of an epoch, of one training and of each stratum, and of all strata together."""
    seconds = {"one training, all clips": one.alone.seconds}
    seconds |= {f"stratum {number}": member.seconds for number, member in enumerate(one.members, start=1)}
    seconds |= {IN_TURN: one.in_turn_s, "strata in parallel": one.at_once_s}
    for name, own_s in seconds.items():
        yield name, {_EPOCH: own_s, _BESIDE: 100 * (own_s / one.alone.seconds - 1)}


def _time_table(runs: SeededRuns[str, str], first: Times) -> AuditTable:
    captions = [first.alone.captions, *(one.captions for one in first.members), None, None]
    rows = tuple(
        (name, learned, *interval_cells(*runs.means(name).values()))
        for name, learned in zip(runs.rows, captions, strict=True)
    )
    return AuditTable("What an epoch takes", ("training", "captions", *interval_columns(_EPOCH, _BESIDE)), rows)
