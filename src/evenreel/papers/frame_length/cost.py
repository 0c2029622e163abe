"""Table 5 of the paper on frame-length bias: parameters, multiply-adds and time of an epoch, alone and by stratum."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evenreel.evaluation import Interval
from evenreel.papers.engine.findings import Findings, effect_of, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.seeds import over_seeds
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.trainings import batch_shape, learning_of, splits_of
from evenreel.papers.engine.variants import BASELINE
from evenreel.papers.engine.words import paragraphs
from evenreel.papers.frame_length.variants import BACKDOOR, ENSEMBLE, backdoor, ensemble, plain
from evenreel.progress import Progress
from evenreel.progress import part_of as progress_of_part
from evenreel.report.result.record import AuditTable, Cell, interval_cells, interval_columns
from evenreel.training.cost import RecipeCost, Shape, recipe_cost
from evenreel.training.specs import learned_from
from evenreel.training.timing import Times, measured_times


def costs(material: LearningInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Make table 5 of the frame-length paper: what the baseline, the ensemble and the backdoor adjustment cost.

    Raises:
        CorpusError: there are too few clips for a batch of each stratum.
        UsageError: clips cannot be divided.
    """
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
    change = over_seeds([_percent(one.in_turn_s, one) for one in times], settings.audit.confidence)
    whole = counted[BACKDOOR]
    return Findings(
        f"One after the other, the strata take {shown(change)} % beside one training for an epoch. To search, each "
        f"clip is encoded {whole.members} times and {whole.members} galleries are kept.",
        effect_of(change, f"Time of an epoch in sequence: {BACKDOOR} less {BASELINE}, % of {BASELINE}"),
        (_cost_table(counted, shape), _time_table(times, settings.audit.confidence)),
        (),
        (),
        paragraphs("length", "Costs", "Table 5 in the paper"),
    )


def _percent(seconds: float, times: Times) -> float:
    return 100 * (seconds / times.alone.seconds - 1)


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


def _time_table(times: Sequence[Times], confidence: float) -> AuditTable:
    """Seconds of an epoch, of one training and of each stratum, and of all strata together."""
    count = len(times[0].members)
    rows: dict[str, Callable[[Times], float]] = {"one training, all clips": lambda one: one.alone.seconds}
    rows |= {f"stratum {place + 1}": _stratum(place) for place in range(count)}
    rows |= {"strata in sequence": lambda one: one.in_turn_s, "strata in parallel": lambda one: one.at_once_s}
    captions = [times[0].alone.captions, *(one.captions for one in times[0].members), None, None]
    cells = tuple(
        (
            name,
            learned,
            *interval_cells(
                over_seeds([seconds(one) for one in times], confidence, (0.0, float("inf"))),
                _beside(times, seconds, confidence),
            ),
        )
        for (name, seconds), learned in zip(rows.items(), captions, strict=True)
    )
    columns = ("training", "captions", *interval_columns("seconds an epoch", "% beside one training"))
    return AuditTable("What an epoch takes", columns, cells)


def _stratum(place: int) -> Callable[[Times], float]:
    return lambda one: one.members[place].seconds


def _beside(times: Sequence[Times], seconds: Callable[[Times], float], confidence: float) -> Interval:
    return over_seeds([_percent(seconds(one), one) for one in times], confidence)
