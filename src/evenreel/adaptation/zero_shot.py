"""An untrained matcher that can be adapted at test time: `mean_pool` with an adapter that starts as the identity."""

from __future__ import annotations

import torch

from evenreel.checkpoint.architecture import build, module
from evenreel.checkpoint.records import About, EncoderNote, Inputs, MatcherSpec, Pretrained
from evenreel.encoders.towers import usable_device

NAME = "mean_pool"

FRAMES = 12
"""Frames of a clip of a library that it takes, the middle ones of as many equal stretches (CLIP4Clip takes as many)."""


def zero_shot(encoder: EncoderNote, *, frames: int | None = None, device: str = "cpu", seed: int = 0) -> Pretrained:
    """Build the matcher `mean_pool` with an adapter whose maps start as the identity, so that it scores as without.

    Args:
        encoder: encoder whose features the matcher takes.
        frames: greatest number of frames of a clip that a library passes to it; None for all.
        device: device for the matcher: `cpu`, `cuda`, `auto`, ...
        seed: seed of the hidden layer of the maps.

    Raises:
        UsageError: the device cannot be used.
    """
    spec = MatcherSpec("adapted", {"kind": "mlp"}, (MatcherSpec(NAME),))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        matcher = build(spec, encoder.dimension)
    module(matcher).to(usable_device(device, "float32")).eval()
    return Pretrained(matcher, spec, About(encoder, Inputs(frames=frames)))
