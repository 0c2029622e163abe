"""Parameters that no loss depends on are found for every matcher."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from evenreel.matchers import MATCHERS, build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.training.module import freeze_unused_parameters
from tests.matchers.examples import SETTINGS


def resting(module: nn.Module) -> set[str]:
    freeze_unused_parameters(module, 8)  # type: ignore[arg-type]
    return {name for name, parameter in module.named_parameters() if not parameter.requires_grad}


@pytest.mark.parametrize("name", MATCHERS)
def test_the_matchers_have_no_idle_parameter(name: str) -> None:
    matcher = build_matcher(name, 8, SETTINGS.get(name))
    assert isinstance(matcher, nn.Module)
    assert resting(matcher) == set()
    assert all(parameter.grad is None for parameter in matcher.parameters())


def test_a_map_that_nothing_looks_at_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithSpare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Adapted(build_matcher("mean_pool", 8), 8, AdapterSettings())
            self.spare = nn.Linear(8, 8)
            self.loss = self.inner.loss

    assert resting(WithSpare()) == {"spare.weight", "spare.bias"}


def test_looking_for_them_draws_no_random_number() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    matcher = build_matcher("mean_pool", 8)
    freeze_unused_parameters(matcher, 8)
    assert torch.equal(torch.rand(2), expected)
