"""The divergence and the likelihood of words against loops over captions, tokens and numbers."""

from __future__ import annotations

import math
from statistics import pvariance

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from evenreel.matchers import bima
from evenreel.matchers.bima import Reduction, active_units, gaussian_kl, overlap, token_nll

lengths = st.lists(st.integers(1, 4), min_size=1, max_size=4)
reductions = st.sampled_from(["mean", "sum"])


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def real(counts: list[int], room: int = 1) -> Tensor:
    """A mask of so many tokens a row, and some room."""
    return torch.arange(max(counts) + room) < torch.tensor(counts)[:, None]


def by_loops(costs: list[list[float]], reduction: Reduction) -> float:
    rows = [sum(row) / (len(row) if reduction == "mean" else 1) for row in costs]
    return sum(rows) / len(rows)


@given(counts=lengths, seed=st.integers(0, 999), reduction=reductions, free=st.sampled_from([0.0, 3.0]))
def test_divergence_against_the_library_of_distributions(
    counts: list[int], seed: int, reduction: Reduction, free: float
) -> None:
    mask = real(counts)
    mu, log_variance = random(*mask.shape, 5, seed=seed), random(*mask.shape, 5, seed=seed + 1)
    own, prior = Normal(mu, (0.5 * log_variance).exp()), Normal(torch.zeros(5), torch.ones(5))
    each = kl_divergence(own, prior)
    costs = [[max(free, sum(each[row, token].tolist())) for token in range(count)] for row, count in enumerate(counts)]
    found = gaussian_kl(mu, log_variance, mask, reduction, free)
    assert found.item() == pytest.approx(by_loops(costs, reduction), rel=1e-5)


def test_the_prior_itself_costs_nothing() -> None:
    assert gaussian_kl(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), real([3, 1], 0)).item() == 0


def test_what_is_free_has_no_slope() -> None:
    mu = torch.tensor([[[0.1, 0.0], [9.0, 0.0]]], requires_grad=True)
    gaussian_kl(mu, torch.zeros(1, 2, 2), real([2], 0), free_nats=1.0).backward()
    assert mu.grad is not None
    assert mu.grad.flatten().tolist() == [0.0, 0.0, 4.5, 0.0]


@given(counts=lengths, seed=st.integers(0, 99), least=st.sampled_from([0.01, 1.0]))
def test_active_numbers_against_a_loop(counts: list[int], seed: int, least: float) -> None:
    mask = real(counts)
    mu = random(*mask.shape, 6, seed=seed) * torch.linspace(0, 2, 6)
    mu[~mask] = 1e3
    columns = torch.stack([mu[row, place] for row, count in enumerate(counts) for place in range(count)]).T.tolist()
    assert active_units(mu, mask, least).item() == sum(pvariance(column) > least for column in columns)


def slow_nll(states: Tensor, words: Tensor, targets: Tensor, counts: list[int]) -> list[list[float]]:
    def cost(state: Tensor, target: int) -> float:
        raised = [math.exp(float(state @ word)) for word in words]
        return -math.log(raised[target] / sum(raised))

    return [
        [cost(states[row, place], int(targets[row, place])) for place in range(count)]
        for row, count in enumerate(counts)
    ]


@given(counts=lengths, seed=st.integers(0, 999), reduction=reductions)
def test_likelihood_against_loops(counts: list[int], seed: int, reduction: Reduction) -> None:
    mask = real(counts)
    states, words = random(*mask.shape, 5, seed=seed), random(7, 5, seed=seed + 1)
    targets = torch.randint(7, mask.shape, generator=torch.Generator().manual_seed(seed))
    expected = by_loops(slow_nll(states, words, targets, counts), reduction)
    assert token_nll(states, words, targets, mask, reduction).item() == pytest.approx(expected, rel=1e-4)
    states[~mask] = 1e30
    assert token_nll(states, words, targets, mask, reduction).item() == pytest.approx(expected, rel=1e-4)


def test_chunks_give_the_value_and_the_slopes_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    mask, targets = real([4, 2, 3]), torch.arange(15).view(3, 5) % 7
    results = []
    for most in (bima.LOGIT_BYTES, 2 * 4 * 7):  # all at once, and two tokens at a time
        monkeypatch.setattr(bima, "LOGIT_BYTES", most)
        states, words = (random(*shape, seed=1).requires_grad_() for shape in ((3, 5, 4), (7, 4)))
        cost = token_nll(states, words, targets, mask)
        results.append((cost.detach(), *torch.autograd.grad(cost, (states, words))))
    for whole, parts in zip(*results, strict=True):
        torch.testing.assert_close(parts, whole)
    assert not results[0][1][~mask].any()


@given(counts=lengths, seed=st.integers(0, 999))
def test_overlap_against_a_loop_over_words(counts: list[int], seed: int) -> None:
    mask = real(counts)
    content, bias = (random(*mask.shape, 5, seed=seed + one) for one in (0, 1))
    said, held = (rows[mask].double().numpy() for rows in (content, bias))
    squares = []
    for one, other in zip(said - said.mean(0), held - held.mean(0), strict=True):
        lengths_of = float((one @ one) * (other @ other)) ** 0.5
        squares.append((float(one @ other) / lengths_of) ** 2 if lengths_of > 1e-9 else 0.0)
    assert overlap(content, bias, mask).item() == pytest.approx(sum(squares) / len(squares), abs=1e-5)


def test_overlap_begins_where_there_is_no_bias_yet() -> None:
    """The head of the bias begins at zero, and its first step has a gradient that is a number."""
    content, bias = random(2, 3, 4, seed=0), torch.zeros(2, 3, 4, requires_grad=True)
    overlap(content, bias, torch.ones(2, 3, dtype=torch.bool)).backward()
    assert bias.grad is not None
    assert bias.grad.isfinite().all()
