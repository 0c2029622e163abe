"""Optimiser: the parameters that the loss reaches, in groups, and their learning rates."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher
from evenreel.training.recipe import Optimiser, Recipe, Schedule
from evenreel.types import OnScreen, RoleGraph, RoleNode

HEAD, BACKBONE, LOGIT_SCALE = "head", "backbone", "logit_scale"

Named = Iterable[tuple[str, Tensor]]


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
    """Group trainable parameters by rate and by weight decay, each group with its name; empty ones are left out.

    Args:
        matcher: names and parameters of the matcher.
        towers: named parameters of the towers; none where features are given.
        settings: learning rates, weight decay and parameters exempt from it.
    """
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


def configure(groups: list[dict[str, Any]], recipe: Recipe, steps: int) -> dict[str, Any]:
    """Return AdamW and its schedule of learning rates in the form that Lightning takes."""
    settings = recipe.optimiser
    optimiser = torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_share(recipe.schedule, step, steps))
    return {"optimizer": optimiser, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def freeze_unused_parameters(matcher: Matcher, dimension: int) -> None:
    """Freeze parameters that the loss never reaches (DDP hangs on them), found with one dummy batch.

    An example is an adapter's map of words in front of a matcher that uses only sentences.
    """
    module: Any = matcher
    with torch.random.fork_rng(devices=[]):
        torch.autograd.backward(list(matcher.loss(_made_up(dimension)).values()))
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.grad is not None)
    module.zero_grad(set_to_none=True)


def _made_up(dimension: int) -> PairBatch:
    """Two pairs of two words, a verb and a noun, and two frames, with on-screen text."""
    vectors = F.normalize(torch.randn(4, 2, 2, dimension), dim=-1)
    real = torch.ones(2, 2, dtype=torch.bool)
    ids = ("one", "other")
    graph = RoleGraph(("cut", "tomato"), (RoleNode("V", (0,)), RoleNode("ARG1", (1,))), ((0, 1),))
    return PairBatch(
        TextBatch(ids, vectors[0], real, vectors[1, :, 0], (graph, graph)),
        VideoBatch(ids, vectors[2], real, torch.zeros(2, 2), OnScreen(vectors[3], real, torch.ones(2, 2))),
        torch.eye(2, dtype=torch.bool),
        relevance=torch.eye(2),
        texts=("cut", "the tomato"),
    )
