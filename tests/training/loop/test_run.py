"""A run does what a plain loop does, keeps the best state, and says clearly what it cannot do."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file
from tensorboardX.proto.event_pb2 import Event, SessionLog

from evenreel.errors import CheckpointError, CorpusError, UsageError
from evenreel.matchers import PairBatch, build_matcher
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import text_batch, video_batch
from evenreel.training import Recipe, load_recipe
from evenreel.training.batches import Order, TrainingInputs, batch_seed
from evenreel.training.loop import RunHooks, TrainedModel, train
from evenreel.training.milestones import Milestones, TrainingError, best_weights, plan_of
from evenreel.training.module import RetrievalModule
from evenreel.training.run_folder import LAST, METRICS, TENSORBOARD, held
from evenreel.types import ScoreBlocks
from tests.training.small_material import (
    DIMENSION,
    recall_at_1,
    small_examples,
    small_material,
    small_recipe,
    tower_material,
)


def figures_of(folder: Path, name: str) -> dict[int, float]:
    """step -> value."""
    rows = pl.read_csv(folder / "metrics.csv").filter(pl.col("name") == name)
    return dict(zip(rows["step"].to_list(), rows["value"].to_list(), strict=True))


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def weights_of(trained: TrainedModel) -> dict[str, torch.Tensor]:
    matcher: Any = trained.matcher
    return {name: tensor.clone() for name, tensor in matcher.state_dict().items()}


def cosine_share(step: int, steps: int) -> float:
    """The default schedule's formula: a tenth of the steps up in a line, half a wave down in the others."""
    x = step / steps
    return x / 0.1 if x < 0.1 else 0.5 * (1 + math.cos(math.pi * (x - 0.1) / 0.9))


def plain_loop(recipe: Recipe) -> dict[str, torch.Tensor]:
    """The same training written with torch alone."""
    examples, loop, optimiser = small_examples(), recipe.loop, recipe.optimiser
    torch.manual_seed(loop.seed)
    assert recipe.adapter is not None
    matcher = Adapted(build_matcher("mean_pool", DIMENSION), DIMENSION, recipe.adapter)
    decaying = [p for name, p in matcher.named_parameters() if not name.endswith(("bias", "logit_scale"))]
    exempt = [p for name, p in matcher.named_parameters() if name.endswith(("bias", "logit_scale"))]
    adam = torch.optim.AdamW(
        [{"params": exempt, "weight_decay": 0.0}, {"params": decaying, "weight_decay": optimiser.weight_decay}],
        betas=optimiser.betas,
        eps=optimiser.eps,
    )
    order = Order(len(examples.pairs), loop.batch_size, loop.seed)
    assert loop.epochs is not None
    steps = loop.epochs * order.batches_per_epoch // loop.accumulate
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = optimiser.lr * cosine_share(step, steps)
        adam.zero_grad()
        for part in range(loop.accumulate):
            number = step * loop.accumulate + part
            rows = order.rows(number)
            torch.manual_seed(batch_seed(loop.seed, number))
            batch = PairBatch(
                text_batch(examples.text_features, rows),
                video_batch(examples.video_features, rows),
                torch.eye(len(rows), dtype=torch.bool),
            )
            (matcher.loss(batch)["contrastive"] / loop.accumulate).backward()
        torch.nn.utils.clip_grad_norm_(matcher.parameters(), loop.gradient_clip)
        adam.step()
        matcher.logit_scale.data.clamp_(max=math.log(100))
    return matcher.state_dict()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_ends_where_a_plain_loop_ends(tmp_path: Path, accumulate: int) -> None:
    recipe = small_recipe(loop={"accumulate": accumulate, "gradient_clip": 0.5})
    material = replace(small_material(), validation=None)
    trained = train(recipe, material, tmp_path / "run")
    assert trained.step == 12 // accumulate
    for name, expected in plain_loop(recipe).items():
        torch.testing.assert_close(weights_of(trained)[name], expected, rtol=1e-5, atol=1e-6)


def test_two_runs_are_equal_to_the_byte(tmp_path: Path) -> None:
    for name in ("one", "two"):
        train(small_recipe(), small_material(), tmp_path / name, RunHooks(recall_at_1))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_the_rates_written_down_are_those_of_their_steps(tmp_path: Path) -> None:
    recipe = small_recipe(optimiser={"lr": 0.01, "logit_scale_lr": 0.02})
    train(recipe, small_material(), tmp_path)
    for name, peak in (("head", 0.01), ("logit_scale", 0.02)):
        expected = {step: peak * cosine_share(step - 1, 12) for step in range(1, 13)}
        assert figures_of(tmp_path, f"rate/{name}") == pytest.approx(expected)


def test_the_logit_scale_stays_in_its_bounds(tmp_path: Path) -> None:
    recipe = small_recipe(optimiser={"lr": 0.0, "logit_scale_lr": 0.5}, matcher={"settings": {"temperature": 0.001}})
    train(recipe, small_material(), tmp_path / "run")
    scales = figures_of(tmp_path / "run", "logit_scale")
    assert max(scales.values()) == pytest.approx(100.0)


def given_recalls(values: list[float]) -> Any:
    """A measure that says one value after another."""
    left = iter(values)

    def measure(scores: ScoreBlocks) -> Mapping[str, float]:
        return {"R@1": next(left)}

    return measure


@pytest.mark.parametrize(("higher_is_better", "best_step"), [(True, 8), (False, 12)])
def test_the_best_state_is_kept(tmp_path: Path, higher_is_better: bool, best_step: int) -> None:
    outside = RunHooks(given_recalls([3, 9, 1]), higher_is_better)
    trained = train(small_recipe(), small_material(), tmp_path, outside)
    assert trained.step == best_step
    matcher = load_file(best_weights(tmp_path, best_step))
    for name, tensor in weights_of(trained).items():
        assert torch.equal(tensor, matcher[f"matcher.{name}"])


class CutShortError(Exception):
    """What ends a run in a test."""


def cut_short_after_7(step: int, steps: int, figures: Mapping[str, float]) -> None:
    if step == 7:
        raise CutShortError


def check_resumed(recipe: Recipe, material: TrainingInputs, folder: Path) -> None:
    """A run that is cut short after its seventh step and resumed ends as one that was left alone, to the bit."""
    train(recipe, material, folder / "whole")
    with pytest.raises(CutShortError):
        train(recipe, material, folder / "broken", RunHooks(watch=cut_short_after_7))
    train(recipe, material, folder / "broken", RunHooks(resume=True))
    weights = [torch.load(folder / name / LAST, weights_only=True)["state_dict"] for name in ("whole", "broken")]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    metrics = [(folder / name / METRICS).read_bytes() for name in ("whole", "broken")]
    assert metrics[0] == metrics[1]


def test_the_best_state_that_the_checkpoint_names_outlives_later_ones(tmp_path: Path) -> None:
    """On a GPU a resumed run may not find again what the broken one found after its checkpoint."""
    recipe = small_recipe(selection={"every_steps": 1}, records={"save_every_steps": 5})
    with pytest.raises(CutShortError):
        train(recipe, small_material(), tmp_path, RunHooks(given_recalls(list(range(1, 13))), watch=cut_short_after_7))
    assert {path.name for path in (tmp_path / "checkpoints").glob("best*")} == {
        "best-5.safetensors",
        "best-7.safetensors",
    }
    best = load_file(best_weights(tmp_path, 5))
    trained = train(recipe, small_material(), tmp_path, RunHooks(given_recalls([0] * 12), resume=True))
    assert (trained.step, trained.figures["validation/R@1"]) == (5, 5)
    for name, tensor in weights_of(trained).items():
        assert torch.equal(tensor, best[f"matcher.{name}"])
    assert [path.name for path in (tmp_path / "checkpoints").glob("best*")] == ["best-5.safetensors"]


def test_early_stopping_also_holds_for_a_run_that_is_resumed(tmp_path: Path) -> None:
    recipe = small_recipe(selection={"every_steps": 1, "patience": 3})
    measure = given_recalls([1, 5, 5, 4, 2, 9, 9])
    stopped = train(recipe, small_material(), tmp_path / "run", RunHooks(measure))
    assert (stopped.step, stopped.progress.stopped) == (2, True)
    assert max(figures_of(tmp_path / "run", "validation/R@1")) == 5
    before = (tmp_path / "run" / "metrics.csv").read_bytes()
    again = train(recipe, small_material(), tmp_path / "run", RunHooks(measure, resume=True))
    assert again.step == 2
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == before


def test_a_finished_run_is_not_trained_on(tmp_path: Path) -> None:
    first = train(small_recipe(), small_material(), tmp_path / "run", RunHooks(recall_at_1))
    before = contents(tmp_path / "run")
    again = train(small_recipe(), small_material(), tmp_path / "run", RunHooks(recall_at_1, resume=True))
    assert before == contents(tmp_path / "run")
    assert (first.step, first.figures, first.progress) == (again.step, again.figures, again.progress)
    for name, tensor in weights_of(first).items():
        assert torch.equal(tensor, weights_of(again)[name])


def test_bfloat16_trains_weights_in_float32(tmp_path: Path) -> None:
    trained = train(small_recipe(loop={"precision": "bfloat16"}), small_material(), tmp_path / "run")
    assert {tensor.dtype for tensor in weights_of(trained).values()} == {torch.float32}
    assert np.isfinite(list(figures_of(tmp_path / "run", "loss/contrastive").values())).all()


def test_what_a_run_writes_down(tmp_path: Path) -> None:
    recipe = small_recipe(records={"every_steps": 5, "tensorboard": True})
    train(recipe, small_material(), tmp_path / "run", RunHooks(recall_at_1))
    assert load_recipe(tmp_path / "run" / "recipe.yaml") == recipe
    assert "torch " in (tmp_path / "run" / "versions.txt").read_text()
    assert list(figures_of(tmp_path / "run", "loss/contrastive")) == [5, 10, 12]
    assert list(figures_of(tmp_path / "run", "validation/R@1")) == [4, 8, 12]
    assert any((tmp_path / "run" / "tensorboard").glob("events.*"))


def test_curves_of_tensorboard_take_back_what_the_checkpoint_does_not_know(tmp_path: Path) -> None:
    recipe = small_recipe(records={"save_every_steps": 5, "tensorboard": True})
    with pytest.raises(CutShortError):
        train(recipe, small_material(), tmp_path, RunHooks(watch=cut_short_after_7))
    train(recipe, small_material(), tmp_path, RunHooks(resume=True))
    assert starts_in(sorted((tmp_path / TENSORBOARD).glob("events.*"))) == [6]


def starts_in(event_files: list[Path]) -> list[int]:
    """The steps from which on TensorBoard forgets what it read before."""
    starts = []
    for path in event_files:
        content, place = path.read_bytes(), 0
        while place < len(content):  # a record: 8 bytes of length, 4 of checksum, the event, 4 of checksum
            (size,) = struct.unpack_from("<Q", content, place)
            event = Event.FromString(content[place + 12 : place + 12 + size])
            starts += [event.step] * (event.session_log.status == SessionLog.START)
            place += size + 16
    return starts


def test_nothing_is_said_on_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(small_recipe(records={"tensorboard": True}), small_material(), tmp_path / "run")
    assert capfd.readouterr() == ("", "")


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    train(small_recipe(), small_material(), tmp_path / "run")
    with pytest.raises(UsageError, match="add --resume"):
        train(small_recipe(), small_material(), tmp_path / "run")


def test_a_folder_that_another_process_has_is_not_written(tmp_path: Path) -> None:
    with (
        held(tmp_path / "run", small_recipe(), resume=False),
        pytest.raises(UsageError, match="is being written by process"),
    ):
        train(small_recipe(), small_material(), tmp_path / "run")


def test_a_run_is_resumed_with_its_own_pairs(tmp_path: Path) -> None:
    train(small_recipe(), small_material(), tmp_path / "run")
    with pytest.raises(CorpusError, match="begun with other data: train_pairs was .* and is .*, validation_pairs was "):
        train(small_recipe(), small_material(small_examples(33)), tmp_path / "run", RunHooks(resume=True))


def test_fewer_pairs_than_a_batch(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="has 32 captions, fewer than loop.batch_size=64"):
        train(small_recipe(loop={"batch_size": 64}), small_material(), tmp_path / "run")


def broken_in_step_3() -> TrainingInputs:
    """A caption of the third of four batches has a sentence of no numbers."""
    examples = small_examples()
    examples.text_features.sentence[Order(32, 8, 0).rows(2)[0]] = np.nan
    return TrainingInputs(examples, DIMENSION)


def test_a_loss_that_is_no_number_ends_the_run_at_its_step(tmp_path: Path) -> None:
    """Also where its step is neither written down nor saved."""
    recipe = small_recipe(records={"every_steps": 100, "save_every_steps": 100})
    with pytest.raises(TrainingError, match="The loss is not a number after step 3"):
        train(recipe, broken_in_step_3(), tmp_path)


class OnGpu:
    """A loss that says it is on a GPU."""

    device = torch.device("cuda")

    def __init__(self, loss: torch.Tensor) -> None:
        self.detach = loss.detach


@pytest.mark.parametrize("records", [{"every_steps": 4}, {"every_steps": 100, "save_every_steps": 4}])
def test_on_a_gpu_it_is_seen_when_figures_are_written_or_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: dict[str, int]
) -> None:
    after_batch = Milestones.on_train_batch_end

    def after_batch_on_gpu(self: Any, trainer: Any, module: Any, outputs: Any, *rest: Any) -> None:
        after_batch(self, trainer, module, {"loss": OnGpu(outputs["loss"])}, *rest)

    monkeypatch.setattr(Milestones, "on_train_batch_end", after_batch_on_gpu)
    with pytest.raises(TrainingError, match="The loss is not a number after step 4"):
        train(small_recipe(records=records), broken_in_step_3(), tmp_path)
    assert not (tmp_path / LAST).exists()


@pytest.mark.parametrize("records", [{"save_every_steps": 2}, {"save_every_steps": 100}])
def test_weights_that_are_no_numbers_are_neither_measured_nor_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: dict[str, int]
) -> None:
    step_of_before = RetrievalModule.optimizer_step

    def breaking_step(self: Any, epoch: int, batch: int, *rest: Any) -> None:
        step_of_before(self, epoch, batch, *rest)
        if batch == 3:  # the loss of this step was a number
            self.matcher.logit_scale.data.fill_(math.nan)

    monkeypatch.setattr(RetrievalModule, "optimizer_step", breaking_step)
    measured: list[ScoreBlocks] = []
    with pytest.raises(TrainingError, match="Weights are not numbers any more after step 4"):
        train(
            small_recipe(records=records),
            small_material(),
            tmp_path,
            RunHooks(measured.append),  # type: ignore[arg-type]  # it is never called
        )
    assert not measured
    saved = torch.load(tmp_path / LAST, weights_only=True)["state_dict"] if (tmp_path / LAST).exists() else {}
    assert all(tensor.isfinite().all() for tensor in saved.values())


def test_a_metric_that_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="selection.metric is 'R@7'; measured are R@1"):
        train(small_recipe(selection={"metric": "R@7"}), small_material(), tmp_path / "run", RunHooks(recall_at_1))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"matcher": {"name": "temporal", "settings": {"max_frames": 3}}}, "A clip has 4 frames.* built for 3"),
        ({"matcher": {"name": "x_clip", "settings": {"max_words": 5}}}, "A caption has 6 words.* built for 5"),
        ({"adapter": {"windows": True}}, "adapter.windows is true, but the features have no on-screen text"),
        (
            {"matcher": {"name": "tcd", "settings": {"heads": 2}}},
            "The matcher tcd reads on-screen text, but the features",
        ),
        (
            {"matcher": {"name": "tcd", "settings": {"heads": 2}}, "adapter": {"windows": True}},
            "adapter.windows puts on-screen text among the frames, and the matcher tcd reads it as it is",
        ),
    ],
)
def test_what_a_matcher_cannot_take_is_said_before_the_start(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        train(small_recipe(**changes), small_material(), tmp_path / "run")
    assert not (tmp_path / "run" / METRICS).exists()


def test_so_are_captions_that_are_too_long_for_towers(tmp_path: Path, clip_folder: Path) -> None:
    backbone = {"model": str(clip_folder), "rule": "every 1 s"}
    matcher = {"name": "x_clip", "settings": {"max_words": 4}}
    recipe = small_recipe(data={"features": None}, adapter=None, backbone=backbone, matcher=matcher)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="A caption has . words"):
        train(recipe, tower_material(clip_folder), tmp_path / "run")


def test_a_run_of_any_length_has_some_two_hundred_rows() -> None:
    for steps, rows in ((1, 1), (50, 50), (300, 150), (4000, 200), (100_000, 200)):
        recipe = small_recipe(loop={"epochs": None, "steps": steps}, records={"every_steps": None})
        assert steps // plan_of(recipe, 10).log_every == rows


def test_a_damaged_checkpoint_is_refused_and_no_code_in_it_runs(tmp_path: Path) -> None:
    train(small_recipe(), small_material(), tmp_path / "run")
    path = tmp_path / "run" / LAST
    for content in (path.read_bytes()[:-50], b"cos\nsystem\n(S'touch " + str(tmp_path / "owned").encode() + b"'\ntR."):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="cannot be read"):
            train(small_recipe(), small_material(), tmp_path / "run", RunHooks(resume=True))
    assert not (tmp_path / "owned").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this is about a machine without a GPU")
def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="The device 'cuda' cannot be used here"):
        train(small_recipe(loop={"device": "cuda"}), small_material(), tmp_path / "run")


def test_wandb_that_is_not_installed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pip install wandb"):
        train(small_recipe(records={"wandb": "project"}), small_material(), tmp_path / "run")
