"""Batches that matchers take: features of captions, of videos, or of pairs of both, as tensors with their ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenreel.similarity.interaction import masked_mean
from evenreel.types import OnScreen, RoleGraph, Shown, TextFeatures, VideoFeatures

Batch = TypeVar("Batch", "TextBatch", "VideoBatch")
Item = TypeVar("Item")

VectorMap = Callable[[Tensor, Tensor], Tensor]
"""Vectors (Q, ..., D) of captions and their mask (Q, ...), True = real -> these changed, zero where none is real."""


@dataclass(frozen=True, eq=False)
class TextBatch(Shown):
    """Features of Q captions as tensors.

    Attributes:
        ids: Q ids of captions.
        words: (Q, W, D) word vectors of any length, zero where there is no word.
        word_mask: (Q, W) True = real, at least one a row.
        sentence: (Q, D) sentence vectors of unit length.
        graphs: Q role graphs, for matchers that read these; None for all others.
    """

    ids: tuple[str, ...]
    words: Tensor
    word_mask: Tensor
    sentence: Tensor
    graphs: tuple[RoleGraph, ...] | None = None


@dataclass(frozen=True, eq=False)
class VideoBatch(Shown):
    """Features of V videos as tensors.

    Attributes:
        ids: V ids of clips.
        frames: (V, T, D) frame vectors of unit length, zero where there is no frame.
        frame_mask: (V, T) True = real, at least one a row.
        times_s: (V, T) time of each frame in its clip, in seconds.
        on_screen: vectors of on-screen text; None where it was not read.
        pretrained_mean: (V, D) mean of the frames as the frozen tower encodes them, where an adapter or training has
            changed `frames`; None where `frames` are these, see `pretrained_mean_of`.
    """

    ids: tuple[str, ...]
    frames: Tensor
    frame_mask: Tensor
    times_s: Tensor
    on_screen: OnScreen[Tensor] | None = None
    pretrained_mean: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Counterparts(Shown):
    """Counterparts of the B videos of a batch: the generated video made after a real one, or the other way round.

    Attributes:
        video: B counterparts, in the order of the batch; where there is none, any video.
        present: (B,) True = there is one.
        generated: (B,) True = the batch's own video is the generated one of the two.
    """

    video: VideoBatch
    present: Tensor
    generated: Tensor


@dataclass(frozen=True, eq=False)
class PairBatch(Shown):
    """B pairs of a caption and its video, in the same order.

    Attributes:
        text: B captions.
        video: B videos; one that several captions describe is there several times.
        same: (B, B) True where caption i describes video j, as it does on the diagonal.
        counterpart: real or generated mirrors of the videos, for losses that compare the two
            (`evenreel.debias.source`), never negatives; None for other losses.
        relevance: (B, B) degrees, 0 to 1, to which video j answers caption i, from verb and noun classes; None where
            training does not use them.
        texts: B captions as written; None where not known.
    """

    text: TextBatch
    video: VideoBatch
    same: Tensor
    counterpart: Counterparts | None = None
    relevance: Tensor | None = None
    texts: tuple[str, ...] | None = None


def pretrained_mean_of(video: VideoBatch) -> Tensor:
    """Return the mean (V, D) of each video's real frames, as the frozen tower encodes them; not normalised."""
    if video.pretrained_mean is not None:
        return video.pretrained_mean
    return masked_mean(video.frames, video.frame_mask)


def text_batch(features: TextFeatures, rows: NDArray[np.int64] | slice = slice(None)) -> TextBatch:
    """Select captions from features as a batch in float32, cut to the longest of them."""
    mask = features.word_mask[rows]
    longest = int(row_lengths(mask).max(initial=1))
    return TextBatch(
        ids=_picked(features.ids, rows),
        words=_tensor(features.words[rows][:, :longest]),
        word_mask=torch.from_numpy(np.ascontiguousarray(mask[:, :longest])),
        sentence=_tensor(features.sentence[rows]),
        graphs=None if features.graphs is None else _picked(features.graphs, rows),
    )


def video_batch(features: VideoFeatures, rows: NDArray[np.int64] | slice = slice(None)) -> VideoBatch:
    """Select videos from features as a batch in float32, cut to the longest of them."""
    mask = features.frame_mask[rows]
    longest = int(row_lengths(mask).max(initial=1))
    return VideoBatch(
        ids=_picked(features.ids, rows),
        frames=_tensor(features.frames[rows][:, :longest]),
        frame_mask=torch.from_numpy(np.ascontiguousarray(mask[:, :longest])),
        times_s=_tensor(features.times_s[rows][:, :longest]),
        on_screen=None if features.on_screen is None else features.on_screen.mapped(lambda array: _tensor(array[rows])),
        pretrained_mean=None if features.pretrained_mean is None else _tensor(features.pretrained_mean[rows]),
    )


def row_lengths(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the length (N,) of each row of a mask (N, L): one more than the index of its last True; 0 without any.

    >>> row_lengths(np.array([[True, True, False], [True, False, True], [False, False, False]]))
    array([2, 3, 0])
    """
    longest: NDArray[np.int64] = (mask * np.arange(1, mask.shape[1] + 1)).max(axis=1, initial=0)
    return longest


def to_device(batch: Batch, device: torch.device | str) -> Batch:
    """Return a copy of a batch with its tensors on another device."""
    return with_tensors(batch, lambda tensor: tensor.to(device))


def with_tensors(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """Return a copy of a batch with a function applied to every tensor, in the order of its fields."""
    changed: dict[str, Any] = {}
    for field in fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, Tensor):
            changed[field.name] = change(value)
        elif isinstance(value, OnScreen):
            changed[field.name] = value.mapped(change)
    return replace(batch, **changed)


def _tensor(values: NDArray[Any]) -> Tensor:
    """Numbers in float32; a mask stays one."""
    return torch.from_numpy(values if values.dtype == np.bool_ else values.astype(np.float32))


def _picked(items: tuple[Item, ...], rows: NDArray[np.int64] | slice) -> tuple[Item, ...]:
    return items[rows] if isinstance(rows, slice) else tuple(items[row] for row in rows)
