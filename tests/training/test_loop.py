"""A run does what a plain loop does, is selected, broken off and resumed, begins and ends as it should."""

from __future__ import annotations

import math
import signal
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from tensorboardX.proto.event_pb2 import Event, SessionLog
from torch import nn

from evenreel.debias.habits import HabitRemoval, WithoutHabits
from evenreel.debias.without_length import WithoutLength
from evenreel.errors import CheckpointError, CorpusError, UsageError
from evenreel.matchers import MATCHERS, PairBatch, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import TextBatch, text_batch, video_batch
from evenreel.training import Recipe, load_recipe
from evenreel.training.batches import FeatureExamples, Order, TrainingInputs, batch_seed
from evenreel.training.loop import Milestones, RunHooks, TrainingError, best_weights, plan_of, train
from evenreel.training.module import RetrievalModule, freeze_unused_parameters, parameter_groups, rate_share
from evenreel.training.recipe import Optimiser, Schedule
from evenreel.training.run_folder import CHECKPOINTS, LAST, METRICS, TENSORBOARD
from evenreel.types import ScoreBlocks
from tests.matchers.examples import SETTINGS as MATCHER_SETTINGS
from tests.training.small_material import (
    DIMENSION,
    CutShortError,
    check_resumed,
    cut_short_after_7,
    figures_of,
    recall_at_1,
    small_examples,
    small_material,
    small_recipe,
    tower_material,
    weights_of,
)
from tests.training.train_once import run, start


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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


def test_a_run_is_resumed_with_its_own_pairs(tmp_path: Path) -> None:
    train(small_recipe(), small_material(), tmp_path / "run")
    with pytest.raises(CorpusError, match="begun with other data: train_pairs was .* and is .*, validation_pairs was "):
        train(small_recipe(), small_material(small_examples(33)), tmp_path / "run", RunHooks(resume=True))


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
        ({"loop": {"batch_size": 64}}, "has 32 captions, fewer than loop.batch_size=64"),
        ({"records": {"wandb": "project"}}, "pip install wandb"),
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
    with pytest.raises((UsageError, CorpusError), match=sentence):
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


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.logit_scale = nn.Parameter(torch.zeros(()))
        self.norm = nn.LayerNorm(2)
        self.map = nn.Linear(2, 2)


def by_rate(settings: Optimiser) -> dict[tuple[float, float], int]:
    """(rate, decay) -> numbers in the parameters."""
    head, towers = Head(), nn.Linear(3, 1)
    numbers: Counter[tuple[float, float]] = Counter()
    for group in parameter_groups(head.named_parameters(), towers.named_parameters(), settings):
        numbers[group["lr"], group["weight_decay"]] += sum(parameter.numel() for parameter in group["params"])
    return dict(numbers)


def test_rates_and_decay_by_part() -> None:
    settings = Optimiser(lr=1.0, backbone_lr=0.1, logit_scale_lr=0.5, weight_decay=0.2)
    assert by_rate(settings) == {
        (0.5, 0.0): 1,  # logit scale
        (1.0, 0.0): 4 + 2,  # norm, bias
        (1.0, 0.2): 4,
        (0.1, 0.2): 3,
        (0.1, 0.0): 1,
    }


def test_without_exempt_everything_decays() -> None:
    assert by_rate(Optimiser(lr=1.0, backbone_lr=1.0, weight_decay=0.2, exempt=())) == {(1.0, 0.2): 15}


def test_parameters_that_do_not_learn_are_left_out() -> None:
    towers = nn.Linear(3, 1).requires_grad_(False)
    assert parameter_groups((), towers.named_parameters(), Optimiser()) == []


def bert_adam(step: int, steps: int, warmup: float) -> float:
    """The schedule of BertAdam, written out from its definition."""
    x = step / steps
    return x / warmup if x < warmup else 0.5 * (1 + math.cos(math.pi * x))


def shifted_cosine(step: int, steps: int, warmup_steps: int) -> float:
    """The schedule of X-Pool's trainer, which counts warm-up in steps."""
    if step < warmup_steps:
        return step / warmup_steps
    return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / (steps - warmup_steps)))


@pytest.mark.parametrize("step", range(0, 101, 7))
def test_the_forms_of_the_papers(step: int) -> None:
    assert rate_share(Schedule("bert_adam", 0.1), step, 100) == pytest.approx(bert_adam(step, 100, 0.1))
    assert rate_share(Schedule("cosine", 0.1), step, 100) == pytest.approx(shifted_cosine(step, 100, 10))


@given(
    form=st.sampled_from(["cosine", "bert_adam", "constant"]),
    warmup=st.floats(0, 1),
    steps=st.integers(1, 1000),
    data=st.data(),
)
def test_a_share_is_between_0_and_1(form: str, warmup: float, steps: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, steps))
    assert 0.0 <= rate_share(Schedule(form, warmup), step, steps) <= 1.0  # type: ignore[arg-type]


def resting(module: nn.Module) -> set[str]:
    freeze_unused_parameters(module, 8)  # type: ignore[arg-type]
    return {name for name, parameter in module.named_parameters() if not parameter.requires_grad}


@pytest.mark.parametrize("name", MATCHERS)
def test_the_matchers_have_no_idle_parameter(name: str) -> None:
    matcher = build_matcher(name, 8, MATCHER_SETTINGS.get(name))
    assert isinstance(matcher, nn.Module)
    assert resting(matcher) == set()
    assert all(parameter.grad is None for parameter in matcher.parameters())


def test_a_map_that_nothing_looks_at_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithSpare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Adapted(build_matcher("mean_pool", 8), 8, AdapterSettings())
            self.spare = nn.Linear(8, 8)
            self.loss = self.inner.loss

    assert resting(WithSpare()) == {"spare.weight", "spare.bias"}


def test_looking_for_them_draws_no_random_number() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    matcher = build_matcher("mean_pool", 8)
    freeze_unused_parameters(matcher, 8)
    assert torch.equal(torch.rand(2), expected)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """Weights of a run that ended."""
    return weights_of(train(small_recipe(), small_material(), tmp_path_factory.mktemp("first")))


def test_training_begins_with_the_weights_that_are_given(first: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """At a rate of 0 they stay; fresh ones would be others."""
    recipe = small_recipe()
    still = replace(recipe, optimiser=replace(recipe.optimiser, lr=0.0), loop=replace(recipe.loop, seed=5))
    begun = train(still, replace(small_material(), start=first), tmp_path / "begun")
    fresh = train(still, small_material(), tmp_path / "fresh")
    for name, tensor in weights_of(begun).items():
        torch.testing.assert_close(tensor, first[name], rtol=0, atol=0)
    assert any(not torch.equal(tensor, first[name]) for name, tensor in weights_of(fresh).items())


def test_a_resumed_run_goes_on_from_its_own_checkpoint(first: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """And does not begin anew in the middle."""
    recipe = small_recipe(records={"save_every_steps": 2})
    check_resumed(recipe, TrainingInputs(small_examples(), DIMENSION, start=first), tmp_path)


def test_weights_of_another_matcher_are_refused_before_the_first_step(
    first: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    start = dict(first)
    start.pop(sorted(start)[0])
    with pytest.raises(UsageError, match=r"\(start\) are another matcher's"):
        train(small_recipe(), replace(small_material(), start=start), tmp_path)


RECIPE = {"without_length": {"terms": 2}, "records": {"save_every_steps": 2}}


def examples() -> FeatureExamples:
    plain = small_examples(clips=64)
    lengths = np.random.default_rng(1).lognormal(0, 1, 64)
    return replace(plain, video_features=replace(plain.video_features, times_s=lengths[:, None] * np.arange(4)))


def test_it_is_fitted_before_the_first_step_and_kept(tmp_path: Path) -> None:
    trained = train(small_recipe(**RECIPE), small_material(examples()), tmp_path)
    assert isinstance(trained.matcher, WithoutLength) and trained.spec.name == "without_length"
    assert trained.matcher.effect.abs().max() > 0
    assert trained.spec.wrapped[0].name == "adapted"


def test_a_resumed_run_ends_as_one_that_was_left_alone(tmp_path: Path) -> None:
    check_resumed(small_recipe(**RECIPE), small_material(examples()), tmp_path)


HABITS = {"without_habits": {"beyond": 20.0}}
"""Few captions: differences by chance are larger in some directions than in others, but not as large as habits."""


def with_habits() -> tuple[FeatureExamples, np.ndarray]:
    """Two captions of each clip: what it shows, and a habit along one direction in words and sentence."""
    plain, rng = small_examples(clips=64), np.random.default_rng(1)
    habit = rng.standard_normal(DIMENSION)
    habit /= np.linalg.norm(habit)
    texts, rows = plain.text_features, np.repeat(np.arange(32), 2)
    shown = rng.standard_normal((32, DIMENSION))[rows] + 0.05 * rng.standard_normal((64, DIMENSION))
    written = shown + rng.standard_normal((64, 1)) * habit
    words = np.where(texts.word_mask[..., None], texts.words + written[:, None], 0)
    sentence = written / np.linalg.norm(written, axis=1, keepdims=True)
    features = replace(texts, words=words.astype(np.float32), sentence=sentence.astype(np.float32))
    return replace(plain, text_features=features, pairs=replace(plain.pairs, clips=rows)), habit


def test_the_habit_is_found_before_the_first_step_and_taken_out_of_words_and_sentences(tmp_path: Path) -> None:
    learned, habit = with_habits()
    trained = train(small_recipe(**HABITS), small_material(learned), tmp_path)
    matcher = trained.matcher
    assert isinstance(matcher, WithoutHabits) and trained.spec.name == "without_habits"
    assert trained.spec.wrapped[0].name == "adapted"
    text = text_batch(learned.text_features, np.arange(8))
    cleared, along = matcher.adapt_text(text), torch.from_numpy(habit).float()
    for before, after in ((text.sentence, cleared.sentence), (text.words, cleared.words)):
        assert (after @ along).abs().mean() < 0.1 * (before.float() @ along).abs().mean()
    assert torch.allclose(cleared.sentence.norm(dim=-1), torch.ones(8), atol=1e-5)
    assert not cleared.words[~text.word_mask].any()
    assert torch.trace(matcher.kept).item() == pytest.approx(DIMENSION - 1, abs=1e-4)


def test_before_it_is_fitted_it_is_the_matcher_as_it_is() -> None:
    learned, _ = with_habits()
    text = text_batch(learned.text_features, np.arange(4))

    class Heard:
        limits = None

        def encode_text(self, text: TextBatch) -> TextBatch:
            return text

    heard = WithoutHabits(Heard(), DIMENSION, HabitRemoval()).encode_text(text)  # type: ignore[arg-type]
    assert torch.allclose(heard.sentence, text.sentence, atol=1e-6)


PATIENCE_S = 240.0
STEPS_AN_EPOCH = 4
KILLS = (2, 7, 11)
"""Steps: before the first checkpoint, in the second epoch and in the last; each after some that no checkpoint has."""

SETTINGS: dict[str, Any] = {
    "matcher": {"name": "t_mass"},  # it draws noise and drops out
    "records": {"save_every_steps": 3, "every_steps": 1, "tensorboard": False},  # 3 divides no epoch
    "selection": {"every_steps": 5},
}


@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_killed_and_resumed_runs_end_equal(tmp_path: Path, accumulate: int) -> None:
    settings = {**SETTINGS, "loop": {"epochs": 3 * accumulate, "accumulate": accumulate}}
    broken, unbroken = tmp_path / "broken", tmp_path / "unbroken"
    for number, step in enumerate(KILLS):
        assert step % STEPS_AN_EPOCH, "it should be killed in the middle of an epoch"
        assert finish(broken, settings, resume=number > 0, killed_after=step) == -signal.SIGKILL
        assert f"\n{step}," in (broken / METRICS).read_text()
    assert finish(broken, settings, resume=True) == 0
    run(unbroken, settings)
    names = sorted(path.name for path in (unbroken / CHECKPOINTS).iterdir())
    assert names == sorted(path.name for path in (broken / CHECKPOINTS).iterdir())
    for file in (METRICS, CHECKPOINTS / names[0]):
        assert (broken / file).read_bytes() == (unbroken / file).read_bytes(), file
    one, other = (torch.load(folder / LAST, weights_only=True) for folder in (broken, unbroken))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "callbacks"):
        assert plain(one[part]) == plain(other[part]), part


def finish(folder: Path, settings: dict[str, Any], *, resume: bool, killed_after: int | None = None) -> int | None:
    """How a run in a process of its own ends."""
    process = start(run, folder, settings, resume, killed_after)
    process.join(PATIENCE_S)
    return process.exitcode


def plain(value: Any) -> Any:
    """Tensors as bytes, so that `==` compares every bit."""
    if isinstance(value, torch.Tensor):
        return value.numpy().tobytes()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value
