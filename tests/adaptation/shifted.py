"""A source, and a target that is the source turned: unit vectors, as captions and clips of a matcher that can adapt."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.matchers import TextBatch, VideoBatch
from evenreel.matchers.adapter import Adapted
from tests.matchers.examples import DIMENSION, small

SIZE = DIMENSION


def source_vectors(rows: int, seed: int) -> Tensor:
    """(N, D) around a direction, more spread along the first places than along the last."""
    make = torch.Generator().manual_seed(seed)
    spread = torch.linspace(0.5, 0.05, SIZE)
    middle = torch.full((SIZE,), 0.25)
    return F.normalize(middle + spread * torch.randn(rows, SIZE, generator=make), dim=-1)


def unit(*shape: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=shape)
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def turn(angle: float) -> Tensor:
    """(D, D) a rotation by the angle in each plane of a place of the first half and one of the second."""
    rotation, half = torch.eye(SIZE), SIZE // 2
    cosine, sine = torch.cos(torch.tensor(angle)), torch.sin(torch.tensor(angle))
    for one in range(half):
        other = one + half
        rotation[one, one], rotation[other, other] = cosine, cosine
        rotation[one, other], rotation[other, one] = -sine, sine
    return rotation


def adapted() -> Adapted:
    """A matcher behind maps that change nothing yet."""
    matcher: Adapted = small("mean_pool+linear")
    return matcher


def sayings(vectors: Tensor, part: int = 0) -> TextBatch:
    """Captions of two words whose sentence is the vector, with ids of their own for each part of a stream."""
    ids = tuple(f"caption{part}_{row}" for row in range(len(vectors)))
    words = torch.stack([vectors, vectors.roll(1, 0)], dim=1)
    return TextBatch(ids, words, torch.ones(words.shape[:2], dtype=torch.bool), vectors)


def clips(vectors: Tensor, part: int = 0) -> VideoBatch:
    """Clips of one frame."""
    ids = tuple(f"clip{part}_{row}" for row in range(len(vectors)))
    mask = torch.ones(len(vectors), 1, dtype=torch.bool)
    return VideoBatch(ids, vectors[:, None], mask, torch.zeros(mask.shape))
