"""The Lightning module that trains any matcher, on features or with towers, on one device or several; its optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.nn import functional as F

from evenreel.encoders.trainable import TrainableTowers
from evenreel.matchers.batches import Batch, Counterparts, PairBatch, TextBatch, VideoBatch, with_tensors
from evenreel.matchers.matcher import Matcher
from evenreel.training.batches import Texts, TrainingBatch, Videos, batch_seed, moved
from evenreel.training.recipe import Optimiser, Recipe, Schedule
from evenreel.types import OnScreen, RoleGraph, RoleNode

HEAD, BACKBONE, LOGIT_SCALE = "head", "backbone", "logit_scale"

Named = Iterable[tuple[str, Tensor]]
LARGEST_LOGIT_SCALE = math.log(100.0)  # CLIP, arXiv 2103.00020, 2.5


class RetrievalModule(LightningModule):
    """Trains a matcher for so many steps of the whole run, and its towers; None where batches are features already."""

    def __init__(self, matcher: Matcher, towers: TrainableTowers | None, recipe: Recipe, steps: int) -> None:
        super().__init__()
        self.matcher: Any = matcher
        self.towers = towers
        self._recipe, self._steps = recipe, steps
        # A method and no module: the weights are the matcher's own, whatever it is trained with.
        self._loss = matcher.loss
        if recipe.debias is not None:
            from evenreel.debias.source import Debiased

            self._loss = Debiased(matcher, recipe.debias).loss
        self.terms: dict[str, Tensor] = {}
        self.strict_loading = False  # towers that learn nothing are not in the checkpoints

    def text_features(self, batch: Texts) -> TextBatch:
        if isinstance(batch, TextBatch):
            return batch
        words, sentence = self._towers.encode_text(batch.tokens)
        return TextBatch(batch.ids, words, batch.tokens.mask, sentence)

    def video_features(self, batch: Videos) -> VideoBatch:
        if isinstance(batch, VideoBatch):
            return batch
        rows = self._towers.encode_frames(batch.pixels)
        frames = rows.new_zeros((*batch.frame_mask.shape, rows.shape[-1]))
        frames[batch.frame_mask] = rows
        video = VideoBatch(batch.ids, frames, batch.frame_mask, batch.times_s, pretrained_mean=batch.pretrained_mean)
        if (written := batch.windows) is None:
            return video
        _, sentences = self._towers.encode_text(written.sentences)
        windows = sentences[written.rows].masked_fill(~written.mask[..., None], 0.0)  # zero where nothing is written
        return replace(video, on_screen=OnScreen(windows, written.mask, written.confidence))

    def joint_batch(self, batch: TrainingBatch) -> PairBatch:
        text = self.text_features(batch.text)
        if len(batch.caption_ids) > len(text.ids):
            text = replace(gather_batch(text, batch.caption_ids, self._gather), graphs=batch.graphs)
        video = self._joint_videos(batch.video, batch.clip_ids)
        counterpart = None
        if batch.other is not None and batch.present is not None and batch.generated is not None:
            other = self._joint_videos(batch.other, batch.other_ids)
            counterpart = Counterparts(other, batch.present, batch.generated)
        return PairBatch(text, video, batch.same, counterpart, batch.relevance, batch.sentences)

    def _joint_videos(self, part: Videos, ids: tuple[str, ...]) -> VideoBatch:
        video = self.video_features(part)
        return video if len(ids) == len(part.ids) else gather_batch(video, ids, self._gather)

    def training_step(self, batch: TrainingBatch, batch_idx: int) -> Tensor:
        terms = self._loss(self.joint_batch(batch))
        self.terms = {name: term.detach() for name, term in terms.items()}
        return torch.stack([term.float() for term in terms.values()]).sum()

    def on_train_batch_start(self, batch: TrainingBatch, batch_idx: int) -> None:
        """Seed the random generator for the batch, so that a resumed run needs no state of it."""
        torch.manual_seed(batch_seed(self._recipe.loop.seed, batch_idx))

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Callable[[], Any] | None = None
    ) -> None:
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        with torch.no_grad():
            self.matcher.logit_scale.clamp_(max=LARGEST_LOGIT_SCALE)

    def configure_optimizers(self) -> Any:
        towers, recipe, steps = self.towers.model.named_parameters() if self.towers else (), self._recipe, self._steps
        settings = recipe.optimiser
        groups = parameter_groups(self.matcher.named_parameters(), towers, settings)
        optimiser = torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_share(recipe.schedule, step, steps))
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def transfer_batch_to_device(
        self, batch: TrainingBatch, device: torch.device, dataloader_idx: int
    ) -> TrainingBatch:
        return moved(batch, device)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["state_dict"] = self.learned(checkpoint["state_dict"])

    def learned(self, state: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
        state = self.state_dict() if state is None else state
        if self.towers is None or self.towers.learns:
            return state
        return {name: tensor for name, tensor in state.items() if not name.startswith("towers.")}

    def _gather(self, part: Tensor) -> Tensor:
        return cast("Tensor", self.all_gather(part, sync_grads=True))

    @property
    def _towers(self) -> TrainableTowers:
        if self.towers is None:
            raise TypeError("tokens and pixels need towers")
        return self.towers


Gather = Callable[[Tensor], Tensor]
"""(n, ...) of one device -> (N, n, ...) of all, with gradients; on all devices of equal shape."""


def gather_batch(batch: Batch, ids: tuple[str, ...], gather: Gather) -> Batch:
    """Gather the captions or clips of all devices, in the order of the devices, with gradients.

    Each device calculates features of its own part of a batch, has those of all others sent, and calculates the loss of
    the whole batch, so that a caption meets the same negatives whatever the number N of devices. The gradients come out
    right:

    - A feature's gradient, on the way back, is summed over the N equal losses, so it is N times too large where it
      enters the towers; Lightning's DDP then takes the mean over N devices of what the towers' parameters got on each.
      Each device holds a different part of the batch: the mean of N times the parts' gradients is their sum, the whole
      gradient.
    - The matcher's parameters have the whole gradient on every device, and the mean of equal things changes nothing.

    Every device has tensors in the same fields; `ids` are those of all captions or clips.
    """
    return replace(with_tensors(batch, partial(_all, gather=gather)), ids=ids)


def _all(part: Tensor, gather: Gather) -> Tensor:
    """(n, L, ...) -> (N n, longest L, ...); what is shorter on some device is filled up with zeros, or False."""
    if part.dtype == torch.bool:
        return _all(part.to(torch.uint8), gather).bool()
    if part.ndim > 1:
        length = torch.tensor([part.shape[1]], device=part.device)
        longest = int(gather(length).max())
        part = F.pad(part, [0, 0] * (part.ndim - 2) + [0, longest - part.shape[1]])
    return gather(part).flatten(0, 1)


# The optimiser --------------------------------------------------------------------------------------------------------


def rate_share(schedule: Schedule, step: int, steps: int) -> float:
    """Compute the learning rate of a step, as a share of its peak.

    Both cosines rise linearly from 0 over the first share `warmup` of all steps. Then `cosine` falls by half a wave
    over the steps that are left, and `bert_adam` continues a half wave that spans all steps, so that the rate drops at
    once (warmup_cosine of BertAdam as CLIP4Clip uses it, arXiv 2104.08860).

    Args:
        schedule: form and warm-up of the schedule.
        step: number of the step, from 0.
        steps: number of steps of the whole run.

    >>> [round(rate_share(Schedule("cosine", 0.1), step, 100), 3) for step in (0, 5, 10, 55, 100)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    >>> [round(rate_share(Schedule("bert_adam", 0.1), step, 100), 3) for step in (0, 5, 10, 50, 100)]
    [0.0, 0.5, 0.976, 0.5, 0.0]
    """
    done, warmup = step / steps, schedule.warmup
    if done < warmup:
        return done / warmup
    if schedule.form == "constant":
        return 1.0
    after = done if schedule.form == "bert_adam" else (done - warmup) / max(1.0 - warmup, 1 / steps)
    return 0.5 * (1.0 + math.cos(math.pi * min(after, 1.0)))


def parameter_groups(matcher: Named, towers: Named, settings: Optimiser) -> list[dict[str, Any]]:
    """Group trainable parameters by rate and by weight decay, each group with its name; empty ones are left out."""
    rates = {
        HEAD: settings.lr,
        BACKBONE: settings.backbone_lr,
        LOGIT_SCALE: settings.lr if settings.logit_scale_lr is None else settings.logit_scale_lr,
    }
    groups: dict[tuple[str, bool], list[Tensor]] = {}
    for part, parameters in ((HEAD, matcher), (BACKBONE, towers)):
        for name, parameter in parameters:
            if parameter.requires_grad:
                rate = LOGIT_SCALE if name.split(".")[-1] == LOGIT_SCALE else part
                decays = not any(fnmatchcase(name, pattern) for pattern in settings.exempt)
                groups.setdefault((rate, decays), []).append(parameter)
    return [
        {"params": group, "lr": rates[rate], "weight_decay": settings.weight_decay if decays else 0.0, "name": rate}
        for (rate, decays), group in groups.items()
    ]


def freeze_unused_parameters(matcher: Matcher, dimension: int) -> None:
    """Freeze parameters that the loss never reaches (DDP hangs on them), found with one dummy batch.

    An example is an adapter's map of words in front of a matcher that uses only sentences.
    """
    module: Any = matcher
    ids, real = ("one", "other"), torch.ones(2, 2, dtype=torch.bool)  # two pairs of a verb and a noun, and two frames
    graph = RoleGraph(("cut", "tomato"), (RoleNode("V", (0,)), RoleNode("ARG1", (1,))), ((0, 1),))
    with torch.random.fork_rng(devices=[]):
        vectors = F.normalize(torch.randn(4, 2, 2, dimension), dim=-1)
        batch = PairBatch(
            TextBatch(ids, vectors[0], real, vectors[1, :, 0], (graph, graph)),
            VideoBatch(ids, vectors[2], real, torch.zeros(2, 2), OnScreen(vectors[3], real, torch.ones(2, 2))),
            torch.eye(2, dtype=torch.bool),
            relevance=torch.eye(2),
            texts=("cut", "the tomato"),
        )
        torch.autograd.backward(list(matcher.loss(batch).values()))
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.grad is not None)
    module.zero_grad(set_to_none=True)
