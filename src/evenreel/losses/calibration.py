"""Losses that calibrate on-screen windows with frames in time: TCD's cycles (HSC, equations 3 to 5), and InfoNCE.

A step from a frame to the most similar windows and back to frames should end where it began: soft nearest neighbours
both ways (TCC, arXiv 1904.07846, equations 1 to 5). Any consistent one-to-one mapping does that, a wrong one too, and
windows that say the same thing have no place of their own; neither is fixed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

CycleForm = Literal["softmax", "squared_distance", "printed"]


class Sequence(NamedTuple):
    """Frames or on-screen windows of B videos, in the order of time.

    Attributes:
        vectors: (B, L, D), of any length.
        mask: (B, L) True = real.
    """

    vectors: Tensor
    mask: Tensor


class CycleIndices(NamedTuple):
    """Ends of cycles, for each of the N places where one begins.

    Attributes:
        mean: (B, N) soft index mu of the end; places are counted from 1.
        variance: (B, N) of the soft index, in squared places.
    """

    mean: Tensor
    variance: Tensor


@dataclass(frozen=True)
class CycleSettings:
    """Settings of the cycle loss.

    Attributes:
        form: softmax of the nearest neighbours, see `cycle_indices`.
        both_ways: whether cycles also lead from windows to frames and back.
        normalise_index: count places as shares of the clip, not in frames; the loss is then (N - 1)^2 times smaller.
        variance_weight: weight of the logarithm of the deviation in TCC's regularised form (arXiv 1904.07846, equation
            5); None for equation 5 of TCD.
    """

    form: CycleForm = "softmax"
    both_ways: bool = False
    normalise_index: bool = False
    variance_weight: float | None = None


def cycle_indices(start: Sequence, over: Sequence, temperature: Tensor | float, form: CycleForm) -> CycleIndices:
    """Compute where cycles end: soft nearest neighbours from each place to the other sequence and back.

    (TCD, equations 3 and 4.)

    Args:
        start: where cycles begin and end, (B, N, D), at least one real a row.
        over: the other sequence, (B, M, D), at least one real a row.
        temperature: temperature of the softmax.
        form: `softmax` of cosines; of negative `squared_distance` of the unit vectors; or `printed`: cosines divided by
            their sum. That gives every place the same index, next to the middle, and may divide by nothing.
    """
    first, second = (F.normalize(each.vectors, dim=-1) for each in (start, over))
    there = _weights(first @ second.mT, over.mask, temperature, form)
    met = there @ second
    if form != "squared_distance":  # its distances to unit vectors differ by the products alone
        met = F.normalize(met, dim=-1)
    back = _weights(met @ first.mT, start.mask, temperature, form)
    places = torch.arange(1, start.mask.shape[1] + 1, dtype=back.dtype, device=back.device)
    mean = back @ places
    return CycleIndices(mean, (back * (places - mean[..., None]) ** 2).sum(-1))


def _weights(alike: Tensor, mask: Tensor, temperature: Tensor | float, form: CycleForm) -> Tensor:
    """(B, N, L) from products with unit vectors; but for a constant, twice those are the negative squared distances."""
    real = mask[:, None].expand_as(alike)
    if form == "printed":
        kept = alike.masked_fill(~real, 0.0)
        total = kept.sum(-1, keepdim=True)
        return kept / torch.where(total == 0, 1.0, total)
    sharper = 2.0 if form == "squared_distance" else 1.0
    return (sharper * alike / temperature).masked_fill(~real, float("-inf")).softmax(-1)


def cycle_loss(frames: Sequence, windows: Sequence, temperature: Tensor | float, settings: CycleSettings) -> Tensor:
    """Compute TCD's cycle loss L_hsc (equation 5), the mean over the cycles of all videos; 0 where no video has text.

    A cycle begins at each frame that has text in the window of its time; elsewhere it could only lead over a window of
    another time. (In the paper all windows have text, because empty ones say that they are.)

    Args:
        frames: (B, F, D), at least one real a row, real ones first.
        windows: (B, O, D) equal stretches of the same videos, real where some text was read.
        temperature: temperature of the softmax.
        settings: form of the softmax, directions and unit.

    >>> steps = Sequence(torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool))
    >>> round(cycle_loss(steps, steps, 0.01, CycleSettings()).item(), 6)
    0.0
    """
    some = windows.mask.any(1)
    if not some.any():
        return _nothing(frames, temperature)
    here, there = (Sequence(each.vectors[some], each.mask[some]) for each in (frames, windows))
    loss = _off_by(here, there, _written_frames(here.mask, there.mask), temperature, settings)
    if not settings.both_ways:
        return loss
    return (loss + _off_by(there, here, there.mask, temperature, settings)) / 2  # each window has a frame of its time


def _off_by(
    start: Sequence, over: Sequence, begins: Tensor, temperature: Tensor | float, settings: CycleSettings
) -> Tensor:
    """How far cycles end from where they begin: the mean over places where `begins` (B, N) is True."""
    found = cycle_indices(start, over, temperature, settings.form)
    places = torch.arange(1, start.mask.shape[1] + 1, dtype=found.mean.dtype, device=found.mean.device)
    last = ((start.mask * places).amax(1, keepdim=True) - 1).clamp(min=1)
    unit = last if settings.normalise_index else torch.ones_like(last)
    squared = ((places - found.mean) / unit) ** 2
    if settings.variance_weight is not None:
        variance = found.variance / unit**2 + torch.finfo(squared.dtype).eps
        squared = squared / variance + settings.variance_weight * variance.log() / 2
    return squared[begins].mean()


def contrastive_synchrony(frames: Sequence, windows: Sequence, temperature: Tensor | float) -> Tensor:
    """Compute InfoNCE of frames and the windows of their time, the contrastive alternative to cycles (TCD, figure 3).

    It is taken in both directions, over frames whose window has text and over windows with text; where there are not as
    many windows as frames, the middle of a frame's share of the clip says which window is its own.

    Args:
        frames: (B, F, D), real ones first.
        windows: (B, O, D) equal stretches of the same videos, real where some text was read.
        temperature: temperature of the softmax.
    """
    own = _own_windows(frames.mask, windows.mask.shape[1])
    written = windows.mask.gather(1, own) & frames.mask
    if not written.any():
        return _nothing(frames, temperature)
    first, second = (F.normalize(each.vectors, dim=-1) for each in (frames, windows))
    logits = first @ second.mT / temperature
    low = torch.finfo(logits.dtype).min
    to_windows = F.log_softmax(logits.masked_fill(~windows.mask[:, None], low), dim=2)
    to_frames = F.log_softmax(logits.masked_fill(~frames.mask[:, :, None], low), dim=1)
    both = [each.gather(2, own[..., None])[..., 0][written] for each in (to_windows, to_frames)]
    return -torch.stack(both).mean()


def _nothing(frames: Sequence, temperature: Tensor | float) -> Tensor:
    """Zero that the temperature has a gradient of: devices that train together wait for one of every parameter."""
    return frames.vectors.new_zeros(()) * temperature


def _own_windows(frame_mask: Tensor, windows: int) -> Tensor:
    """(B, N) number of the window that holds the middle of each frame's share of its clip."""
    counts = frame_mask.sum(1, keepdim=True).clamp(min=1)
    places = torch.arange(frame_mask.shape[1], device=frame_mask.device)
    return ((2 * places + 1) * windows // (2 * counts)).clamp(max=windows - 1)


def _written_frames(frame_mask: Tensor, written: Tensor) -> Tensor:
    """(B, N) True = a real frame with text in a window of its time: the middle of one lies in the other's stretch.

    Args:
        frame_mask: (B, N) True = real, real ones first.
        written: (B, M) True = the window has text.
    """
    frames, windows = (torch.arange(mask.shape[1], device=mask.device) for mask in (frame_mask, written))
    counts = frame_mask.sum(1, keepdim=True)
    at_middle = _own_windows(frame_mask, len(windows))[..., None] == windows
    around_middle = ((2 * windows + 1) * counts // (2 * len(windows)))[:, None] == frames[:, None]
    return ((at_middle | around_middle) & written[:, None]).any(2) & frame_mask
