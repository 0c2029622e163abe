"""Cosines with videos pooled for each caption, without pooling them: the arithmetic behind X-Pool's evaluation.

The pooled video of a pair is layer-normalised, mapped and normalised again, 2 D^2 products if done as written. But it
is a weighted sum of a few rows that belong to the video alone, and a normalisation needs only the length of such a sum,
`|sum_i w_i x_i|^2 = w' G w` with the Gram matrix G of the rows. What is left for the pair are two products with the
frames, to attend and to compare, and three forms of size F.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from evenreel.similarity.tiles import chunks_of, joined_chunks, row_count

CHUNK_NUMBERS = 2**19
"""Attention weights of a chunk: a handful of tables of 4 MiB stay in a processor's cache."""


class AttendingTexts(NamedTuple):
    """Captions that frames are pooled for (X-Pool)."""

    query: Tensor  # (Q, D) attention queries, divided by the temperature
    target: Tensor  # (Q, D) unit vectors that pooled videos are compared with
    # (Q, 2) products of `target` with the two rows that all videos have in common (see `pooled_cosines`)
    constants: Tensor


class AttendedVideos(NamedTuple):
    """Videos whose frames captions attend to (X-Pool).

    Gram matrices are in double precision, since differences between them are small.
    """

    keys: Tensor  # (V, F, D) attention keys of the frames
    values: Tensor  # (V, F, D) the rows x_f
    mask: Tensor  # (V, F) True = real
    first: Tensor  # (V, F, F) Gram matrices for the variance of the first layer normalisation
    second: Tensor  # (V, 1 + F, 1 + F) for that of the second; the row that all videos share comes first


class PooledVideos(NamedTuple):
    """Videos to be compared with captions by the cosine of their text-conditioned pooling (X-Pool)."""

    length: Tensor  # (V, 2 + F, 2 + F) for the length of the pooled vector; the two shared rows come first
    attended: AttendedVideos


def pooled_cosines(texts: AttendingTexts, videos: PooledVideos, epsilon: float) -> Tensor:
    """Compute cosines (Q, V) of captions and videos pooled for each (X-Pool), `b + s (x_0 + r sum_f a_f x_f)`.

    Here `a` is the softmax of the queries and keys over real frames, `r` and `s` are one over the roots of the
    variances that the first two Gram matrices give, and `x_0` and `b` are rows that all videos have in common.

    Args:
        texts: Q captions.
        videos: V videos.
        epsilon: number that a layer normalisation adds to a variance.
    """
    frames = videos.attended.keys.shape[1]
    some_texts = list(chunks_of(texts, CHUNK_NUMBERS // frames))
    some_videos = chunks_of(videos, CHUNK_NUMBERS // (frames * row_count(some_texts[0])))
    return joined_chunks(partial(_cosines, epsilon=epsilon), some_videos, some_texts).T


def pooled_vectors(query: Tensor, videos: AttendedVideos, common: Tensor, epsilon: float) -> Tensor:
    """Compute the videos pooled for each caption, vectors (Q, V, D): `b + s (x_0 + r sum_f a_f x_f)`.

    Args:
        query: (Q, D) attention queries of captions, divided by the temperature.
        videos: V videos.
        common: (2, D), the rows `x_0` and `b`, which all videos have in common.
        epsilon: number that a layer normalisation adds to a variance.
    """
    weights = _weights(query, videos, epsilon).to(videos.values.dtype)
    rows = torch.cat([common[:1].expand(row_count(videos), 1, -1), videos.values], dim=1)
    return torch.einsum("vnq,vnd->qvd", weights, rows) + common[1]


def _cosines(videos: PooledVideos, texts: AttendingTexts, epsilon: float) -> Tensor:
    """(v, q) of one chunk."""
    weights = _weights(texts.query, videos.attended, epsilon)
    along = (weights[:, 1:] * (videos.attended.values @ texts.target.T)).sum(1)
    length = _form(videos.length, _after_one(weights)).sqrt()
    of_x_0, of_b = texts.constants.T
    cosines: Tensor = (of_b + weights[:, 0] * of_x_0 + along) / length.clamp(min=torch.finfo(length.dtype).tiny)
    return cosines.to(texts.target.dtype)


def _weights(query: Tensor, videos: AttendedVideos, epsilon: float) -> Tensor:
    """What `x_0` and each `x_f` count: `s` and `s r a_f`, (v, 1 + F, q)."""
    logits = (videos.keys @ query.T).masked_fill(~videos.mask[..., None], float("-inf"))
    attention = logits.softmax(1).to(videos.first.dtype)
    r = (_form(videos.first, attention) + epsilon).rsqrt()
    weights = _after_one(r[:, None] * attention)
    s = (_form(videos.second, weights) + epsilon).rsqrt()
    return s[:, None] * weights


def _form(gram: Tensor, weights: Tensor) -> Tensor:
    """(v, n, n) and (v, n, Q) -> `w' G w`, (v, Q); rounding may take a zero below itself."""
    form: Tensor = ((gram @ weights) * weights).sum(1)
    return form.clamp(min=0)


def _after_one(weights: Tensor) -> Tensor:
    """(v, n, Q) -> (v, 1 + n, Q) with weight one for a row in common."""
    return torch.cat([torch.ones_like(weights[:, :1]), weights], dim=1)


def gram(rows: Tensor) -> Tensor:
    """Compute Gram matrices (V, n, n) of rows (V, n, D), in double precision where the device has it.

    >>> gram(torch.tensor([[[1.0, 2.0], [0.0, 3.0]]]))
    tensor([[[5., 6.],
             [6., 9.]]], dtype=torch.float64)
    """
    exact = rows.float() if rows.device.type == "mps" else rows.double()
    return exact @ exact.mT


def centred(rows: Tensor) -> Tensor:
    """Subtract from each vector (..., D) the mean of its numbers, as a layer normalisation does first."""
    return rows - rows.mean(-1, keepdim=True)
