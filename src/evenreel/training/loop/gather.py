"""One batch out of the parts of all devices, with gradients.

Each device calculates features of its own part, has those of all others sent, and calculates the loss of the whole
batch, so that a caption meets the same negatives whatever the number N of devices. The gradients come out right:

- A feature's gradient, on the way back, is summed over the N equal losses, so it is N times too large where it enters
  the towers; Lightning's DDP then takes the mean over N devices of what the towers' parameters got on each. Each device
  holds a different part of the batch: the mean of N times the parts' gradients is their sum, the whole gradient.
- The matcher's parameters have the whole gradient on every device, and the mean of equal things changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.matchers.batches import Batch, with_tensors

Gather = Callable[[Tensor], Tensor]
"""(n, ...) of one device -> (N, n, ...) of all, with gradients; on all devices of equal shape."""


def gather_batch(batch: Batch, ids: tuple[str, ...], gather: Gather) -> Batch:
    """Gather the captions or clips of all devices, in the order of the devices.

    Args:
        batch: of this device; every device has tensors in the same fields.
        ids: of all captions or clips.
        gather: sends a tensor to all devices; it is called for one field after the other.
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
