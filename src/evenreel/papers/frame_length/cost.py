"""Table 5 of the paper on frame-length bias: parameters, multiply-adds and time of an epoch, alone and by stratum."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from pathlib import Path

from evenreel.evaluation import Interval
from evenreel.papers.engine import Findings, SeededRuns, batch_shape, effect_of, learning_of, shown, splits_of
from evenreel.papers.frame_length.tables import BACKDOOR, ENSEMBLE, backdoor, ensemble, plain
from evenreel.papers.study import BASELINE, StudySettings, paragraphs
from evenreel.papers.workspace import Workspace
from evenreel.progress import Progress, part_of
from evenreel.report.result import AuditTable, Cell
from evenreel.training.cost import measured_times, recipe_cost
from evenreel.training.material import learned_from

IN_TURN = "strata in sequence"
_EPOCH, _BESIDE = "seconds an epoch", "% beside one training"


def costs(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 5 of the frame-length paper: what the baseline, the ensemble and the backdoor adjustment cost."""
    recipe = backdoor(settings.recipe)
    learning = learning_of(recipe, splits_of(recipe, material), material)
    kinds = {BASELINE: plain(recipe), ENSEMBLE: ensemble(recipe), BACKDOOR: recipe}
    shape, learned = replace(batch_shape(recipe, learning, material), windows=0), learned_from(learning)
    counted = {name: recipe_cost(one, shape, learned) for name, one in kinds.items()}
    measured: dict[str, list[dict[str, float]]] = {}
    captions: dict[str, int | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(settings.seeds):
            share = part_of(progress, seed, settings.seeds)
            one = measured_times(recipe, learning, Path(folder) / str(seed), share)
            seconds = {"one training, all clips": one.alone.seconds}
            seconds |= {f"stratum {number}": member.seconds for number, member in enumerate(one.members, start=1)}
            seconds |= {IN_TURN: one.in_turn_s, "strata in parallel": one.at_once_s}
            for name, own_s in seconds.items():
                figures = {_EPOCH: own_s, _BESIDE: 100 * (own_s / one.alone.seconds - 1)}
                measured.setdefault(name, []).append(figures)
            read = [one.alone.captions, *(member.captions for member in one.members), None, None]
            captions |= dict(zip(seconds, read, strict=True))
    runs = SeededRuns(measured, settings.audit.confidence, {_EPOCH: (0.0, inf), _BESIDE: (-inf, inf)})
    change, whole = runs.mean(IN_TURN, _BESIDE), counted[BACKDOOR]
    rows: Iterable[tuple[Cell, ...]] = (
        (
            name, one.whole.captions.parameters, one.whole.videos.parameters, one.whole.embeddings,
            one.whole.captions.multiply_adds, one.whole.videos.multiply_adds, one.whole.pair_multiply_adds,
            one.whole.videos.row_bytes, one.members,
        )
        for name, one in counted.items()
    )  # fmt: skip
    columns = (
        "training", "parameters, captions", "clips", "tables", "multiply-adds of a batch, captions", "clips", "a pair",
        "bytes kept of a clip", "encodings of a clip",
    )  # fmt: skip
    batch = (
        f"A batch: {shape.batch} captions of {shape.words} words, {shape.batch} clips of {shape.frames} frames of "
        f"{shape.dimension:,} numbers."
    )
    times: Iterable[dict[str, Cell | Interval]] = (
        {"training": name, "captions": captions[name], **runs.means(name)} for name in runs.rows
    )
    return Findings(
        f"One after the other, the strata take {shown(change)} % beside one training for an epoch. To search, each "
        f"clip is encoded {whole.members} times and {whole.members} galleries are kept.",
        effect_of(change, f"Time of an epoch in sequence: {BACKDOOR} less {BASELINE}, % of {BASELINE}"),
        (
            AuditTable("What searching costs", columns, tuple(rows), batch),
            AuditTable.of("What an epoch takes", times),
        ),
        method=paragraphs("length", "Costs", "Table 5 in the paper"),
    )
