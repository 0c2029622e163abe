"""Parameters that no loss depends on, such as an adapter's map of words before a matcher that reads sentences alone."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch
from evenreel.matchers.matcher import Matcher
from evenreel.types import OnScreen, RoleGraph, RoleNode


def freeze_unused_parameters(matcher: Matcher, dimension: int) -> None:
    """Freeze parameters the loss never reaches (DDP hangs on them); found with one dummy batch.

    Args:
        matcher: matcher, changed in place.
        dimension: D of the features it takes.
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
        strata=torch.zeros(2, dtype=torch.int64),
        texts=("cut", "the tomato"),
    )
