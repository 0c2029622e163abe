"""Table 8 of TCD (Zhao et al., AAAI 2026): what reading on-screen text costs, in windows and word by word."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch

from evenreel.checkpoint.architecture import build, module
from evenreel.encoders.towers import usable_device
from evenreel.evaluation.intervals import over_seeds
from evenreel.matchers.scoring import encode_texts, encode_videos
from evenreel.papers.engine.findings import Findings, effect_of, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart, texts_of, videos_of
from evenreel.papers.engine.runs import each_seed
from evenreel.papers.engine.seeds import SeededRuns, by_row
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.trainings import batch_shape, few_seeds, learning_of, splits_of
from evenreel.papers.engine.variants import changed
from evenreel.papers.engine.words import paragraph
from evenreel.papers.tcd.tokens import pairs_of_tokens, token_counts
from evenreel.papers.tcd.variants import BASES, TCD, WINDOWS, tcd_of, with_windows
from evenreel.progress import Progress
from evenreel.report.result import AuditTable, Cell, interval_cells, interval_columns
from evenreel.similarity.states import move
from evenreel.similarity.tiles import evaluating
from evenreel.training.batches import TrainingInputs
from evenreel.training.cost import Cost, Shape, measured_times, recipe_cost
from evenreel.training.material import learned_from, spec_of
from evenreel.training.recipe import Recipe

WORDS = 200
"""What the paper says that earlier work gives to attention of a clip."""
ONE_BY_ONE = f"{TCD}, {WORDS} words one by one"
BESIDE = WINDOWS.format(BASES[0])
_STEP, _PAIR = "milliseconds a training step", "microseconds a pair"
_ABOVE_0 = (0.0, float("inf"))
_PAIRS, _TIMED = 64, 5
"""Captions, and clips, whose pairs are scored at a time; how often."""


def reading_costs(material: LearningInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Make table 8 of TCD: tokens, parameters, multiply-adds and times."""
    _, test = material.learning()
    recipe = tcd_of(material, settings)
    learning = learning_of(recipe, splits_of(recipe, material), weights_hash=material.weights_hash)
    shape = batch_shape(recipe, learning, material)
    kinds = {
        name: kind.recipe for name, kind in with_windows(material, settings).items() if name == TCD or name not in BASES
    }
    costs = {name: recipe_cost(one, shape, learned_from(learning)).whole for name, one in kinds.items()}
    costs[ONE_BY_ONE] = recipe_cost(_long(recipe, shape), replace(shape, windows=WORDS), learned_from(learning)).whole
    runs = each_seed(kinds, range(settings.seeds), progress)
    times = by_row((name, _timed(kinds[name], learning, test)) for name, _, _ in runs)
    confidence = settings.audit.confidence
    change = over_seeds(_slower(times), confidence)
    times_more = costs[ONE_BY_ONE].pair_multiply_adds / costs[TCD].pair_multiply_adds
    tokens = () if test.on_screen is None else (pairs_of_tokens(token_counts(test)),)
    return Findings(
        f"A training step of tcd takes {shown(change)} % beside one of {BESIDE}, and a pair "
        f"{costs[TCD].pair_multiply_adds:,} multiply-adds; with {WORDS} words one by one a pair would take "
        f"{times_more:.1f} times as many.",
        effect_of(change, f"Time of a training step: {TCD} less {BESIDE}, % of {BESIDE}"),
        (
            _cost_table(costs, shape),
            _time_table(SeededRuns(times, confidence, {_STEP: _ABOVE_0, _PAIR: _ABOVE_0})),
            *tokens,
        ),
        notices=few_seeds(settings),
        method=(paragraph("tcd", "Costs", timed=_TIMED, pairs=_PAIRS), paragraph("tcd", "Table 8 in the paper")),
    )


def _long(recipe: Recipe, shape: Shape) -> Recipe:
    """The recipe with places for every word."""
    return changed(recipe, {"max_frames": max(WORDS, shape.frames, recipe.matcher.settings["max_frames"])})


def _timed(recipe: Recipe, learning: TrainingInputs, test: CorpusPart) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        epoch = measured_times(recipe, learning, Path(folder)).alone
    return {_STEP: 1e3 * epoch.seconds / epoch.steps, _PAIR: 1e6 * _pair_s(recipe, learning.dimension, test)}


def _pair_s(recipe: Recipe, dimension: int, test: CorpusPart) -> float:
    """Seconds of a pair in a table of pairs; what weights there are changes nothing."""
    device = torch.device(usable_device(recipe.loop.device, "float32"))
    matcher = build(spec_of(recipe), dimension)
    module(matcher).to(device)
    captions, clips = (
        tuple(ids[:_PAIRS]) for ids in (test.corpus.captions["caption_id"], test.corpus.clips["clip_id"])
    )
    text = move(encode_texts(matcher, texts_of(test.texts, captions)).state, device)
    video = move(encode_videos(matcher, videos_of(test.videos, clips)).state, device)
    pairs = len(captions) * len(clips)

    def table() -> None:
        matcher.score(text, video)
        if device.type == "cuda":
            torch.cuda.synchronize()

    with torch.no_grad(), evaluating(matcher):
        table()  # the first time costs more
        return median(_seconds(table) for _ in range(_TIMED)) / pairs


def _seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _slower(times: Mapping[str, Sequence[Mapping[str, float]]]) -> list[float]:
    """Return how much longer a step of tcd takes with each seed, in percent."""
    pairs = zip(times[TCD], times[BESIDE], strict=True)
    return [100 * (own[_STEP] / other[_STEP] - 1) for own, other in pairs]


def _cost_table(costs: Mapping[str, Cost], shape: Shape) -> AuditTable:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name, cost.parameters + cost.embeddings, cost.captions.multiply_adds // shape.batch,
            cost.videos.multiply_adds // shape.batch, cost.pair_multiply_adds,
            _of_a_batch(cost, shape), cost.videos.row_bytes,
        )
        for name, cost in costs.items()
    )  # fmt: skip
    columns = (
        "matcher", "parameters", "multiply-adds of a caption", "of a clip", "of a pair", "of a batch with its pairs",
        "bytes kept of a clip",
    )  # fmt: skip
    note = (
        f"A caption of {shape.words} words, a clip of {shape.frames} frames and {shape.windows} windows of "
        f"{shape.dimension:,} numbers, a batch of {shape.batch} captions and clips."
    )
    return AuditTable("What a matcher costs", columns, rows, note)


def _of_a_batch(cost: Cost, shape: Shape) -> int:
    return cost.captions.multiply_adds + cost.videos.multiply_adds + shape.batch**2 * cost.pair_multiply_adds


def _time_table(times: SeededRuns[str, str]) -> AuditTable:
    rows = tuple((name, *interval_cells(*(times.mean(name, one) for one in (_STEP, _PAIR)))) for name in times.rows)
    return AuditTable("What it takes here", ("matcher", *interval_columns(_STEP, _PAIR)), rows)
