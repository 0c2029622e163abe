"""Attention over similarities against a slow loop."""

from __future__ import annotations

import math

import torch

from evenreel.similarity.interaction import attend


def slow(alike: list[float], mix: list[list[float]], real: list[bool], temperature: float) -> float:
    parts = [part for part, there in enumerate(real) if there]
    raised = {part: math.exp(alike[part] / temperature) for part in parts}
    weights = {part: raised[part] / sum(raised.values()) for part in parts}
    return sum(sum(weights[j] * mix[j][i] for j in parts) * alike[i] for i in parts)


def test_as_the_formula_says() -> None:
    make = torch.Generator().manual_seed(0)
    alike, mix = torch.rand(2, 4, 3, generator=make) - 0.5, torch.randn(5, 5, generator=make)
    real = torch.tensor([[True, True, False, True], [True, False, False, False]])[..., None]
    alike = alike.masked_fill(~real, 0.0)
    expected = [
        [slow(alike[row, :, n].tolist(), mix.tolist(), real[row, :, 0].tolist(), 0.1) for n in range(3)]
        for row in range(2)
    ]
    torch.testing.assert_close(attend(alike, mix, real, 0.1), torch.tensor(expected))
