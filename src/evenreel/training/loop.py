"""One training run in its folder, from the first step or from its last checkpoint on, and how it is selected.

Checkpoints are replaced in one step that survives a power cut, and read without running any code in them.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from safetensors.torch import save
from torch import Tensor
from torch.utils.data import Dataset

from evenreel.arrays import Indices, slices
from evenreel.checkpoint import MatcherSpec
from evenreel.checkpoint.architecture import build, module, reads_windows, training_only
from evenreel.encoders.towers import usable_device
from evenreel.encoders.trainable import TrainableTowers
from evenreel.errors import CheckpointError, CorpusError, EvenreelError, UsageError
from evenreel.evaluation.measure import evaluate
from evenreel.evaluation.metrics import EvaluationSettings, parse_metric, parse_metrics
from evenreel.files import replacing
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import (
    FitsPairs,
    Matcher,
    ReportsFigures,
    StartsFromFile,
    check_frames,
    check_lengths,
    check_words,
)
from evenreel.similarity.tiles import Encoded, MatcherScores, evaluating, gather_rows
from evenreel.training.batches import (
    Batches,
    BatchLoader,
    FeatureExamples,
    Order,
    Pairs,
    ResumableLoader,
    Texts,
    TokenBatch,
    TrainingExamples,
    TrainingInputs,
    Videos,
    moved,
    useful_workers,
)
from evenreel.training.material import fitted_spec, lists_in, spec_of
from evenreel.training.module import RetrievalModule, freeze_unused_parameters
from evenreel.training.pixels import PixelExamples
from evenreel.training.recipe import Recipe, Selection
from evenreel.training.run_folder import (
    CHECKPOINTS,
    LAST,
    METRICS,
    TENSORBOARD,
    Facts,
    MetricsFile,
    held,
    read_weights,
    remember,
    write_weights,
    writing,
)
from evenreel.training.splits import Stratum
from evenreel.types import Corpus, OnScreen, ScoreBlocks, Shown, TextFeatures, VideoFeatures

PAIRS_A_BATCH = 1_024
"""Training pairs that are looked at together where parts of a matcher are fitted to all of them."""
ROWS_A_BATCH = 64
LINES = 200
"""Rows of losses in a run whose recipe does not say how many steps lie between them."""
SELECTED_BY = ("R@1", "R@5", "R@10", "MedR", "MeanR", "Rsum")
"""Figures that are always measured, beside that of `selection.metric`."""

Measure = Callable[[ScoreBlocks], Mapping[str, float]]
"""Scores of every caption and clip of the validation split -> named figures; `evenreel train` gives a
`SelectionMeasure`."""
Watch = Callable[[int, int, Mapping[str, float]], object]
"""Called after every step with its number, the number of all, and the latest figures."""
Evaluate = Callable[[], Mapping[str, float]]
"""Figures of the model as it is now."""
Made = TypeVar("Made")


class TrainingError(EvenreelError): ...


@dataclass(frozen=True, eq=False)
class TrainedModel(Shown):
    """Result of a training run."""

    matcher: Matcher  # the model with the best weights, or the last ones where nothing was selected on
    spec: MatcherSpec  # specification that the matcher is built from
    towers: TrainableTowers | None  # trained towers; None without
    step: int  # step after which the weights were taken
    progress: SelectionProgress  # state of model selection
    figures: Mapping[str, float]  # figures measured at that step, by name
    first: bool = True  # whether this is the process of the first device, the only one that writes files
    members: tuple[TrainedModel, ...] = ()  # trained members that the matcher is made of; none for a single training
    strata: tuple[Stratum, ...] = ()  # strata of the members; none where clips were not divided


@dataclass(frozen=True)
class RunHooks:
    """Callbacks and flags of one training run."""

    measure: Measure | None = None  # computes figures of validation scores; without it, nothing is selected
    higher_is_better: bool = True  # whether the best figure of `selection.metric` is the highest, or the lowest
    # called after every step with the step, the number of steps, and figures
    watch: Watch = lambda step, steps, figures: None
    resume: bool = False  # whether to go on from the last checkpoint in the folder; where there is none, from the start


def train(recipe: Recipe, material: TrainingInputs, folder: Path, outside: RunHooks = RunHooks()) -> TrainedModel:
    """Train one matcher, whatever members a recipe has; else as `evenreel.training.members.train_recipe`, see there."""
    with held(folder, recipe, resume=outside.resume):
        return train_held(recipe, material, folder, outside)


def train_held(recipe: Recipe, material: TrainingInputs, folder: Path, outside: RunHooks = RunHooks()) -> TrainedModel:
    """Train a matcher in a folder that the caller has locked (`evenreel.training.run_folder.held`)."""
    loop, pairs = recipe.loop, material.examples.pairs
    if len(pairs) < loop.batch_size:
        raise CorpusError(
            f"The training split has {len(pairs):,} captions, fewer than loop.batch_size={loop.batch_size}; make the "
            "batch smaller."
        )
    order = Order(len(pairs), loop.batch_size, loop.seed, pairs.weights)
    plan = plan_of(recipe, order.batches_per_epoch)
    torch.manual_seed(loop.seed)
    spec = fitted_spec(recipe, material)
    matcher = build(spec, material.dimension)
    _check_recipe(recipe, pairs)
    for examples in filter(None, (material.examples, material.validation)):
        _check_inputs(recipe, matcher, examples)
    freeze_unused_parameters(matcher, material.dimension)
    if not (folder / LAST).is_file():
        _begin_with(matcher, material)
    model = RetrievalModule(matcher, material.towers, recipe, plan.steps)
    model.train()  # towers come as they are loaded, in evaluation mode
    figures = None
    if material.validation is not None and outside.measure is not None:
        figures = partial(_figures, model, material.validation, loop.workers, outside.measure)
    milestones = Milestones(plan, recipe.selection, folder, figures, outside)
    with _quiet():
        trainer = _trainer(recipe, plan, folder, milestones)
        if trainer.is_global_zero:
            remember(folder, {**facts_of(material), **lists_in(spec)})
        batches = Batches(material.examples, order, (trainer.global_rank, trainer.world_size))
        loader = ResumableLoader(batches, plan.steps * loop.accumulate, loop.workers)
        trainer.fit(model, loader, ckpt_path=folder / LAST if (folder / LAST).is_file() else None, weights_only=True)
    progress = milestones.progress
    step = trainer.global_step
    if progress.best_step is not None:
        model.load_state_dict(read_weights(best_weights(folder, progress.best_step)), strict=False)
        step = progress.best_step
    measured_then = MetricsFile(folder / METRICS).of_step(step)
    return TrainedModel(
        model.matcher.eval(), spec, material.towers, step, progress, measured_then, first=trainer.is_global_zero
    )


def _begin_with(matcher: Matcher, material: TrainingInputs) -> None:
    """Give the matcher the weights that training begins with, all of them and no other.

    Without any, parts of it read files that they name or are fitted to the training pairs.

    Parts that only its loss needs begin anew where they are not among these: checkpoints have none of them.
    """
    network, start = module(matcher), material.start
    if not start:
        for part in network.modules():
            if isinstance(part, StartsFromFile):
                part.read_start()
            if isinstance(part, FitsPairs):
                part.fit_pairs(partial(_feature_pairs, material.examples))
        return
    own, spared = network.state_dict(), training_only(network)
    start = {name: weights for name, weights in own.items() if name.startswith(spared)} | dict(start)
    for name in sorted(own.keys() | start.keys()):
        if name not in own or name not in start or own[name].shape != start[name].shape:
            raise UsageError(
                f"The weights that training is to begin with (start) are another matcher's: they differ in {name}. "
                "Give matcher and adapter the settings that the checkpoint was trained with; its model card has them."
            )
    network.load_state_dict(start)


def _feature_pairs(examples: TrainingExamples) -> Iterator[tuple[TextBatch, VideoBatch]]:
    """Training pairs, as often as an epoch draws each, in batches; examples are features (`wrong_settings`)."""
    pairs = examples.pairs
    drawn = np.arange(len(pairs))
    if pairs.weights is not None:
        drawn = np.sort(Order(len(pairs), len(pairs), 0, pairs.weights).rows(0))
    for part in slices(len(pairs), PAIRS_A_BATCH):
        rows = drawn[part]
        batch = examples.texts(pairs.captions[rows]), examples.videos(pairs.clips[rows])
        yield cast("tuple[TextBatch, VideoBatch]", batch)


def _figures(
    module: RetrievalModule, examples: TrainingExamples, workers: int, measure: Measure
) -> Mapping[str, float]:
    return measure(validation_scores(module, examples, workers))


def _check_recipe(recipe: Recipe, pairs: Pairs) -> None:
    """Refuse windows among the frames for a matcher that reads them itself, and `debias` without mirrored clips."""
    own = reads_windows(MatcherSpec(recipe.matcher.name, recipe.matcher.settings))
    if own and recipe.adapter is not None and recipe.adapter.windows:
        raise UsageError(
            f"adapter.windows puts on-screen text among the frames, and the matcher {recipe.matcher.name} reads it as "
            "it is; set adapter.windows=false."
        )
    mirrors = pairs.mirrors
    if recipe.debias is not None and (mirrors is None or not (mirrors.other[pairs.clips] >= 0).any()):
        raise UsageError(
            "debias compares clips with those that mirror them, and no clip of the training split has one that can be "
            "used; add generated clips to the corpus (pair_id and source), or set debias to null."
        )


def _check_inputs(recipe: Recipe, matcher: Matcher, examples: TrainingExamples) -> None:
    """Refuse, before the first step, captions and clips that the matcher cannot take."""
    if isinstance(examples, FeatureExamples):
        videos = examples.video_features
        if matcher.limits.windows and videos.on_screen is None:
            raise UsageError(
                "adapter.windows is true, but the features have no on-screen text; run `evenreel features` without "
                "--no-ocr, or set adapter.windows=false."
            )
        if videos.on_screen is None and reads_windows(spec_of(recipe)):
            raise UsageError(
                f"The matcher {recipe.matcher.name} reads on-screen text, but the features have none; run `evenreel "
                "features` without --no-ocr, or set matcher.settings.modalities=video to train without text."
            )
        check_lengths(matcher, examples.text_features, videos)
        return
    texts = examples.texts(np.unique(examples.pairs.captions))
    check_words(matcher, (texts.tokens.mask if isinstance(texts, TokenBatch) else texts.word_mask).numpy())
    if isinstance(examples, PixelExamples):
        if (
            matcher.limits.pretrained_mean
            and recipe.backbone is not None
            and recipe.backbone.train
            and examples.pretrained_mean is None
        ):
            raise UsageError(
                f"The matcher {recipe.matcher.name} selects scene elements by how the towers see clips before "
                "training; compute features with them (evenreel features) and name their folder in "
                "data.pretrained_features."
            )
        windows = None if examples.windows is None else examples.windows.mask.numpy()
        _check_on_screen(recipe, given=windows is not None)
        counts = np.array([file.frames or 0 for file in examples.files])
        check_frames(matcher, np.arange(counts.max()) < counts[:, None], windows)


def _check_on_screen(recipe: Recipe, *, given: bool) -> None:
    """Refuse text that a backbone would read for nothing, and a matcher that waits for it in vain."""
    reads = reads_windows(spec_of(recipe))
    if reads and not given:
        raise UsageError(
            f"The matcher {recipe.matcher.name} reads on-screen text, and the backbone is given none; name a folder of "
            "features that have it in data.on_screen."
        )
    if given and not reads:
        raise UsageError(
            f"data.on_screen is given, and the matcher {recipe.matcher.name} reads no on-screen text; set it to null, "
            "or adapter.windows to true, with which that text stands among the frames."
        )


def facts_of(material: TrainingInputs) -> Facts:
    """Return the facts that identify the data of a run; a resumed run must find the same."""
    validation = material.validation.pairs.digest() if material.validation else None
    facts = {"train_pairs": material.examples.pairs.digest(), "validation_pairs": validation, **material.source}
    if material.start:
        facts["start"] = hashlib.sha256(save(dict(material.start))).hexdigest()
    return facts


def _trainer(recipe: Recipe, plan: StepSchedule, folder: Path, milestones: Milestones) -> Trainer:
    loop = recipe.loop
    usable_device(loop.device, "float32")
    try:
        return Trainer(
            accelerator={"cuda": "gpu"}.get(loop.device, loop.device),
            devices=loop.devices,
            strategy="ddp" if loop.devices > 1 else "auto",
            precision="bf16-mixed" if loop.precision == "bfloat16" else "32-true",
            max_steps=plan.steps,
            max_epochs=-1,
            min_epochs=0,
            accumulate_grad_batches=loop.accumulate,
            gradient_clip_val=loop.gradient_clip or None,
            deterministic=loop.deterministic,
            callbacks=[milestones],
            logger=_loggers(recipe, folder),
            plugins=[DurableCheckpointIO()],
            default_root_dir=folder,
            limit_val_batches=0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
    except MisconfigurationException as error:  # fewer devices than asked for, or a precision that they do not have
        raise UsageError(
            f"Training cannot run with loop.device={loop.device}, loop.devices={loop.devices} and "
            f"loop.precision={loop.precision} here ({str(error).splitlines()[0].strip()})."
        ) from error


def _loggers(recipe: Recipe, folder: Path) -> list[Any]:
    loggers: list[Any] = []
    if recipe.records.tensorboard:
        last = folder / LAST
        taken_back = step_of(last) + 1 if last.is_file() else None  # as metrics.csv does with figures of later steps
        loggers.append(TensorBoardLogger(folder, name=str(TENSORBOARD), version="", purge_step=taken_back))
    if recipe.records.wandb is not None:
        try:
            loggers.append(WandbLogger(name=recipe.name, project=recipe.records.wandb, save_dir=folder))
        except ModuleNotFoundError as error:
            raise UsageError("records.wandb needs a package that is missing: pip install wandb.") from error
    return loggers


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Lightning says of its own settings from the terminal; it is not about anything the user chose."""
    spoken = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric", "lightning")]
    levels = [logger.level for logger in spoken]
    for logger in spoken:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning\.|torch\.")
            yield
    finally:
        for logger, level in zip(spoken, levels, strict=True):
            logger.setLevel(level)


# Between the steps: logging, evaluation, checkpoints and early stopping -----------------------------------------------


def best_weights(folder: Path, step: int) -> Path:
    return folder / CHECKPOINTS / f"best-{step}.safetensors"


@dataclass(frozen=True)
class StepSchedule:
    steps: int  # steps of the whole run
    steps_per_epoch: float  # steps of an epoch; need not be whole where batches are accumulated
    evaluate_every: int  # steps from one evaluation to the next
    save_every: int  # steps from one checkpoint to the next
    log_every: int  # steps from one row of losses to the next


@dataclass
class SelectionProgress:
    best: float | None = None  # best figure of the selection metric so far
    best_step: int | None = None  # the step after which it was measured
    since_best: int = 0  # number of evaluations since the best one
    stopped: bool = False  # whether training was stopped early


def plan_of(recipe: Recipe, batches_per_epoch: int) -> StepSchedule:
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
        self, plan: StepSchedule, selection: Selection, folder: Path, evaluate: Evaluate | None, outside: RunHooks
    ) -> None:
        self.progress = SelectionProgress()
        self._saved_step: int | None = None  # the best step that the checkpoint names
        self._latest: dict[str, float] = {}
        self._finite: Tensor | None = None
        self._plan, self._selection, self._folder = plan, selection, folder
        self._evaluate, self._outside = evaluate, outside
        self._metrics = MetricsFile(folder / METRICS)

    def state_dict(self) -> dict[str, Any]:
        return asdict(self.progress)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.progress = SelectionProgress(**state_dict)
        self._saved_step = self.progress.best_step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
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
        self._outside.watch(step, self._plan.steps, self._latest)

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
        sign = 1 if self._outside.higher_is_better else -1
        if progress.best is None or sign * value > sign * progress.best:
            self.progress = SelectionProgress(value, step)
            if trainer.is_global_zero:
                write_weights(best_weights(self._folder, step), module.learned())
                self._sweep()
        else:
            progress.since_best += 1
            progress.stopped = progress.since_best == self._selection.patience
        trainer.should_stop = self.progress.stopped

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


# Validation -----------------------------------------------------------------------------------------------------------


def validation_scores(module: RetrievalModule, examples: TrainingExamples, workers: int = 0) -> MatcherScores:
    """Compute the scores (Q, V) of the examples' captions and clips by the model as it is, in evaluation mode.

    Towers calculate as in training, and the matcher in full precision.
    """
    captions, pairs = np.unique(examples.pairs.captions), examples.pairs

    def text_state(batch: Texts) -> Any:
        with module.trainer.precision_plugin.forward_context():
            features = module.text_features(moved(batch, module.device))
        return module.matcher.encode_text(features)

    def video_state(batch: Videos) -> Any:
        with module.trainer.precision_plugin.forward_context():
            features = module.video_features(moved(batch, module.device))
        return module.matcher.encode_video(features)

    text, video = _encoded(module, examples, captions, (text_state, video_state), workers)
    texts = Encoded(tuple(pairs.caption_ids[row] for row in captions), text)
    return MatcherScores(module.matcher, texts, Encoded(pairs.clip_ids, video))


def tower_features(
    module: RetrievalModule, examples: TrainingExamples, workers: int = 0
) -> tuple[TextFeatures, VideoFeatures]:
    """Encode the captions and clips of examples with the towers of a module, in evaluation mode and float32."""
    pairs = examples.pairs

    def words(batch: Texts) -> Any:
        found = module.text_features(moved(batch, module.device))
        return found.words.half(), found.word_mask, found.sentence.half()

    def frames(batch: Videos) -> Any:
        found = module.video_features(moved(batch, module.device))
        seen = found.on_screen
        written = () if seen is None else (seen.windows.half(), seen.mask, seen.confidence)
        return found.frames.half(), found.frame_mask, found.times_s, written

    text, video = _encoded(module, examples, np.arange(len(pairs.caption_ids)), (words, frames), workers)
    times_s, written = video[2].double(), video[3]
    texts = TextFeatures(pairs.caption_ids, *(tensor.numpy() for tensor in text))
    on_screen = OnScreen(*(tensor.numpy() for tensor in written)) if written else None
    return texts, VideoFeatures(pairs.clip_ids, video[0].numpy(), video[1].numpy(), times_s.numpy(), on_screen)


def _encoded(
    module: RetrievalModule,
    examples: TrainingExamples,
    captions: Indices,
    encoders: tuple[Callable[[Texts], Any], Callable[[Videos], Any]],
    workers: int,
) -> tuple[Any, Any]:
    clips = np.arange(len(examples.pairs.clip_ids))
    with torch.no_grad(), evaluating(module):
        text = gather_rows(
            len(captions), ((rows, encoders[0](batch)) for rows, batch in _batches(examples.texts, captions, 0))
        )
        own = useful_workers(examples, workers)
        video = gather_rows(
            len(clips), ((rows, encoders[1](batch)) for rows, batch in _batches(examples.videos, clips, own))
        )
    return text, video


class _Slices(Dataset[Made], Generic[Made]):
    """Rows in batches, by the first row of each; made in the processes of a loader."""

    def __init__(self, make: Callable[[Indices], Made], rows: Indices) -> None:
        self._make, self._rows = make, rows

    def __getitem__(self, start: int) -> Made:
        return self._make(self._rows[start : start + ROWS_A_BATCH])


def _batches(make: Callable[[Indices], Made], rows: Indices, workers: int) -> Iterator[tuple[slice, Made]]:
    starts = range(0, len(rows), ROWS_A_BATCH)
    for start, batch in zip(starts, BatchLoader(_Slices(make, rows), workers, starts), strict=True):
        yield slice(start, start + ROWS_A_BATCH), batch


@dataclass(frozen=True, eq=False)
class SelectionMeasure:
    """Callable that computes figures of validation scores, text to video; it can be pickled."""

    selection: Selection  # settings of model selection, with the metric
    corpus: Corpus  # the validation part of the corpus

    def __call__(self, scores: ScoreBlocks) -> Mapping[str, float]:
        metrics = parse_metrics(list(dict.fromkeys((*SELECTED_BY, self.selection.metric))))
        settings = EvaluationSettings(metrics, ("t2v",), resamples=0)
        found = evaluate(scores, self.corpus, settings, relevance=self.selection.relevance)
        return {name: figure.value for name, figure in found.directions["t2v"].summary.items()}


def higher_is_better(recipe: Recipe) -> bool:
    return parse_metric(recipe.selection.metric).higher_is_better
