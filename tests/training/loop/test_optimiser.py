"""Rates by step and by parameter, and what decays."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evenreel.training.module import RetrievalModule, parameter_groups, rate_share
from evenreel.training.recipe import Optimiser, Schedule
from tests.training.small_material import small_recipe


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.logit_scale = nn.Parameter(torch.zeros(()))
        self.norm = nn.LayerNorm(2)
        self.map = nn.Linear(2, 2)
        self.loss = None


def by_rate(settings: Optimiser) -> dict[tuple[float, float], int]:
    """(rate, decay) -> numbers in the parameters."""
    head, towers = Head(), nn.Linear(3, 1)
    numbers: Counter[tuple[float, float]] = Counter()
    for group in parameter_groups(head.named_parameters(), towers.named_parameters(), settings):
        numbers[group["lr"], group["weight_decay"]] += sum(parameter.numel() for parameter in group["params"])
    return dict(numbers)


def test_rates_and_decay_by_part() -> None:
    settings = Optimiser(lr=1.0, backbone_lr=0.1, logit_scale_lr=0.5, weight_decay=0.2)
    assert by_rate(settings) == {
        (0.5, 0.0): 1,  # logit scale
        (1.0, 0.0): 4 + 2,  # norm, bias
        (1.0, 0.2): 4,
        (0.1, 0.2): 3,
        (0.1, 0.0): 1,
    }


def test_without_exempt_everything_decays() -> None:
    assert by_rate(Optimiser(lr=1.0, backbone_lr=1.0, weight_decay=0.2, exempt=())) == {(1.0, 0.2): 15}


def test_parameters_that_do_not_learn_are_left_out() -> None:
    towers = nn.Linear(3, 1).requires_grad_(False)
    assert parameter_groups((), towers.named_parameters(), Optimiser()) == []


def bert_adam(step: int, steps: int, warmup: float) -> float:
    """The schedule of BertAdam, written out from its definition."""
    x = step / steps
    return x / warmup if x < warmup else 0.5 * (1 + math.cos(math.pi * x))


def shifted_cosine(step: int, steps: int, warmup_steps: int) -> float:
    """The schedule of X-Pool's trainer, which counts warm-up in steps."""
    if step < warmup_steps:
        return step / warmup_steps
    return 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / (steps - warmup_steps)))


@pytest.mark.parametrize("step", range(0, 101, 7))
def test_the_forms_of_the_papers(step: int) -> None:
    assert rate_share(Schedule("bert_adam", 0.1), step, 100) == pytest.approx(bert_adam(step, 100, 0.1))
    assert rate_share(Schedule("cosine", 0.1), step, 100) == pytest.approx(shifted_cosine(step, 100, 10))


@given(
    form=st.sampled_from(["cosine", "bert_adam", "constant"]),
    warmup=st.floats(0, 1),
    steps=st.integers(1, 1000),
    data=st.data(),
)
def test_a_share_is_between_0_and_1(form: str, warmup: float, steps: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, steps))
    assert 0.0 <= rate_share(Schedule(form, warmup), step, steps) <= 1.0  # type: ignore[arg-type]


def test_the_optimiser_follows_the_schedule() -> None:
    head = Head()
    recipe = small_recipe(optimiser={"lr": 2.0}, schedule={"form": "constant", "warmup": 0.5})
    made = RetrievalModule(head, None, recipe, steps=4).configure_optimizers()  # type: ignore[arg-type]
    rates = []
    for _ in range(4):
        rates.append(made["optimizer"].param_groups[0]["lr"])
        made["optimizer"].step()
        made["lr_scheduler"]["scheduler"].step()
    assert rates == [0.0, 1.0, 2.0, 2.0]
    assert made["lr_scheduler"]["interval"] == "step"
