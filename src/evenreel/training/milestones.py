"""What happens between the steps of a run: logging, evaluation, checkpoints and early stopping.

Checkpoints are replaced in one step that survives a power cut, and read without running any code in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from evenreel.errors import CheckpointError, EvenreelError
from evenreel.files import replacing
from evenreel.matchers.matcher import ReportsFigures
from evenreel.training.module import RetrievalModule
from evenreel.training.recipe import Recipe, Selection
from evenreel.training.run_folder import CHECKPOINTS, LAST, METRICS, MetricsFile, write_weights, writing

LINES = 200
"""Rows of losses in a run whose recipe does not say how many steps lie between them."""

Watch = Callable[[int, int, Mapping[str, float]], object]
"""Called after every step with its number, the number of all, and the latest figures."""

Evaluate = Callable[[], Mapping[str, float]]
"""Figures of the model as it is now."""


class TrainingError(EvenreelError):
    """Raised where training cannot go on, for example when the loss is not finite."""


def best_weights(folder: Path, step: int) -> Path:
    """Return the path of the file of the best weights, given the step at which they were measured."""
    return folder / CHECKPOINTS / f"best-{step}.safetensors"


@dataclass(frozen=True)
class StepSchedule:
    """Schedule of evaluation, saving and logging, in optimiser steps."""

    steps: int  # steps of the whole run
    steps_per_epoch: float  # steps of an epoch; need not be whole where batches are accumulated
    evaluate_every: int  # steps from one evaluation to the next
    save_every: int  # steps from one checkpoint to the next
    log_every: int  # steps from one row of losses to the next


@dataclass
class SelectionProgress:
    """State of model selection, which every checkpoint holds."""

    best: float | None = None  # best figure of the selection metric so far
    best_step: int | None = None  # the step after which it was measured
    since_best: int = 0  # number of evaluations since the best one
    stopped: bool = False  # whether training was stopped early


def plan_of(recipe: Recipe, batches_per_epoch: int) -> StepSchedule:
    """Return the schedule of evaluation, saving and logging of a recipe's run."""
    loop, selection = recipe.loop, recipe.selection
    per_epoch = batches_per_epoch / loop.accumulate
    steps = loop.steps or max(1, loop.epochs * batches_per_epoch // loop.accumulate)  # type: ignore[operator]
    evaluate_every = selection.every_steps or max(1, round(per_epoch / selection.per_epoch))
    save_every = recipe.records.save_every_steps or evaluate_every
    return StepSchedule(
        steps, per_epoch, evaluate_every, save_every, recipe.records.every_steps or max(1, round(steps / LINES))
    )


class Milestones(Callback):
    """Callback that logs, evaluates, keeps the best weights, saves checkpoints and stops early, after a step.

    All of it is done before the checkpoint of that step is saved, so that a resumed run repeats nothing.
    """

    def __init__(
        self,
        plan: StepSchedule,
        selection: Selection,
        folder: Path,
        evaluate: Evaluate | None,
        watch: Watch,
        *,
        higher_is_better: bool = True,
    ) -> None:
        self.progress = SelectionProgress()
        self._saved_step: int | None = None  # the best step that the checkpoint names
        self._latest: dict[str, float] = {}
        self._finite: Tensor | None = None
        self._plan, self._selection, self._folder = plan, selection, folder
        self._evaluate, self._watch, self._higher_is_better = evaluate, watch, higher_is_better
        self._metrics = MetricsFile(folder / METRICS)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of model selection."""
        return asdict(self.progress)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of model selection."""
        self.progress = SelectionProgress(**state_dict)
        self._saved_step = self.progress.best_step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove figures that were written after the checkpoint that is resumed."""
        if trainer.is_global_zero:
            self._metrics.cut_after(trainer.global_step)
        trainer.should_stop = self.progress.stopped

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Evaluate, save and log what is due after an optimiser step.

        Nothing is done after a batch that only accumulates gradients.
        """
        module = cast("RetrievalModule", pl_module)
        step = trainer.global_step
        self._note_loss(outputs["loss"], step)
        if (batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        last = step == self._plan.steps
        if last or step % self._plan.log_every == 0:
            self._check_loss(step)
            self._record(trainer, step, _training_figures(trainer, module, step))
        evaluates, saves = (last or step % every == 0 for every in (self._plan.evaluate_every, self._plan.save_every))
        if evaluates or saves:
            self._check_weights(module, step)
        if evaluates:
            self._select(trainer, module, step)
        if saves or self.progress.stopped:
            self._save(trainer)
        self._watch(step, self._plan.steps, self._latest)

    def _note_loss(self, loss: Tensor, step: int) -> None:
        """Keep whether all losses so far were numbers; to ask a GPU for it at every step would make the step wait."""
        finite = loss.detach().isfinite()
        self._finite = finite if self._finite is None else self._finite & finite
        if loss.device.type == "cpu":
            self._check_loss(step)

    def _check_loss(self, step: int) -> None:
        if self._finite is not None and not self._finite:
            raise TrainingError(
                f"The loss is not a number after step {step}; lower optimiser.lr, or set loop.gradient_clip or "
                "loop.precision=float32."
            )

    def _check_weights(self, module: RetrievalModule, step: int) -> None:
        """See that weights are numbers before they are evaluated or saved; the loss shows it only a step later."""
        self._check_loss(step)
        learning = [parameter.isfinite().all() for parameter in module.parameters() if parameter.requires_grad]
        if not torch.stack(learning).all():
            raise TrainingError(
                f"Weights are not numbers any more after step {step}; lower optimiser.lr, or set loop.gradient_clip or "
                "loop.precision=float32."
            )

    def _save(self, trainer: Trainer) -> None:
        self._metrics.make_durable()  # a run that goes on from the checkpoint does not write these rows again
        trainer.save_checkpoint(self._folder / LAST)
        self._saved_step = self.progress.best_step
        if trainer.is_global_zero:
            self._sweep()

    def _sweep(self) -> None:
        """Keep the best weights of now, and those that the checkpoint names until it is replaced."""
        steps = (self.progress.best_step, self._saved_step)
        kept = [best_weights(self._folder, step) for step in steps if step is not None]
        for path in (self._folder / CHECKPOINTS).glob("best-*.safetensors"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _select(self, trainer: Trainer, module: RetrievalModule, step: int) -> None:
        if self._evaluate is None:
            return
        # One device decides for all: on a GPU, equal weights may give scores that differ in the last digit.
        figures: dict[str, float] = trainer.strategy.broadcast(dict(self._evaluate()))
        self._record(trainer, step, {f"validation/{name}": value for name, value in figures.items()})
        if self._selection.metric not in figures:
            raise TrainingError(f"selection.metric is {self._selection.metric!r}; measured are {', '.join(figures)}.")
        progress, value = self.progress, figures[self._selection.metric]
        if progress.best is None or self._better(value, progress.best):
            self.progress = SelectionProgress(value, step)
            if trainer.is_global_zero:
                write_weights(best_weights(self._folder, step), module.learned())
                self._sweep()
        else:
            progress.since_best += 1
            progress.stopped = progress.since_best == self._selection.patience
        trainer.should_stop = self.progress.stopped

    def _better(self, value: float, best: float) -> bool:
        return value > best if self._higher_is_better else value < best

    def _record(self, trainer: Trainer, step: int, figures: Mapping[str, float]) -> None:
        self._latest.update(figures)
        if trainer.is_global_zero:
            self._metrics.add(step, step / self._plan.steps_per_epoch, figures)
        with writing(self._folder):
            for logger in trainer.loggers:
                logger.log_metrics(dict(figures), step)


def _training_figures(trainer: Trainer, module: RetrievalModule, step: int) -> dict[str, float]:
    """The loss of the latest batch by its terms, what matchers say of it, the rates of the step, the logit scale."""
    terms = {f"loss/{name}": float(term) for name, term in module.terms.items()}
    told = {
        name: float(value)
        for part in module.matcher.modules()
        if isinstance(part, ReportsFigures)
        for name, value in part.figures.items()
    }
    # The scheduler has moved on already; what the step was made with is one before.
    rates = {
        f"rate/{group['name']}": share(step - 1) * group["initial_lr"]
        for config in trainer.lr_scheduler_configs
        for group, share in zip(trainer.optimizers[0].param_groups, config.scheduler.lr_lambdas, strict=True)  # type: ignore[union-attr]
    }
    return {**terms, **told, **rates, "logit_scale": float(module.matcher.logit_scale.detach().exp())}


class DurableCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint files, replaced in one step that survives a power cut."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint in place of the one before, in one step that survives a power cut."""
        try:
            with replacing(Path(path)) as part, part.open("wb") as file:
                torch.save(checkpoint, file)  # given a name, it would write the name into the file
        except (OSError, RuntimeError) as error:  # torch raises the latter where a disk is full
            raise CheckpointError(f"The checkpoint {path} cannot be written ({error}).") from error

    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: bool | None = None) -> dict[str, Any]:
        """Read a checkpoint: tensors and plain values only, whatever `weights_only` says."""
        return _read(path)


def step_of(path: Path) -> int:
    """Return the step after which a checkpoint was written, without reading its tensors."""
    return int(_read(path, mmap=True)["global_step"])


def _read(path: Any, *, mmap: bool = False) -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # what a damaged file breaks in the unpickler is not foreseeable
        raise CheckpointError(
            f"The checkpoint {path} cannot be read ({type(error).__name__}); start the run again in another folder."
        ) from error
    return loaded
