"""The bias of words: its distribution, and draws that repeat."""

from __future__ import annotations

import pytest
import torch

from evenreel.matchers.bima import LARGEST_LOG_VARIANCE, BiasHead, Gaussian, mean_draw
from tests.matchers.examples import disturb


def bias(captions: int = 3, words: int = 4, dimension: int = 6) -> Gaussian:
    make = torch.Generator().manual_seed(0)
    return Gaussian(*torch.randn(2, captions, words, dimension, generator=make).double())


IDS = ("one", "two", "three")


def test_it_starts_as_the_prior() -> None:
    fresh = BiasHead(6, dropout=0.0)(torch.randn(2, 6))
    assert not fresh.mu.any()
    assert (fresh.sigma == 1).all()


def test_a_variance_stays_a_number() -> None:
    head = disturb(BiasHead(6, dropout=0.0), size=1e4)
    found = head(torch.randn(50, 6)).log_variance
    assert found.abs().max() == LARGEST_LOG_VARIANCE


def test_a_draw_is_its_mean_and_noise_of_its_spread() -> None:
    own = bias()
    torch.manual_seed(5)
    drawn = own.draw()
    torch.manual_seed(5)
    noise = torch.randn(3, 4, 6, dtype=torch.float64)
    torch.testing.assert_close(drawn, own.mu + (own.log_variance / 2).exp() * noise)


def test_without_draws_it_is_the_mean() -> None:
    assert torch.equal(mean_draw(bias(), IDS, draws=0, seed=1), bias().mu)


def test_draws_are_the_caption_s_own() -> None:
    """Whatever captions stand beside it, in whatever order, and however far they are padded."""
    own = bias()
    drawn = mean_draw(own, IDS, draws=3, seed=1)
    turned = mean_draw(Gaussian(*(tensor.flip(0) for tensor in own)), IDS[::-1], 3, 1)
    assert torch.equal(turned.flip(0), drawn)
    short = mean_draw(Gaussian(*(tensor[1:2, :2] for tensor in own)), IDS[1:2], 3, 1)
    assert torch.equal(short[0], drawn[1, :2])
    assert not torch.equal(mean_draw(own, IDS, 3, 2), drawn)
    noise = (drawn - own.mu) / own.sigma
    assert not torch.isclose(noise[0], noise[1]).any()


@pytest.mark.parametrize("draws", [1, 9])
def test_the_mean_of_n_draws_is_n_times_less_noisy(draws: int) -> None:
    plain = Gaussian(torch.zeros(1, 40, 50), torch.zeros(1, 40, 50))
    noise = mean_draw(plain, ("one",), draws, seed=0)
    assert noise.mean().abs() < 0.1
    assert noise.var().item() == pytest.approx(1 / draws, rel=0.1)
