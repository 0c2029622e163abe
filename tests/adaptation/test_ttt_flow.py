"""The flow against autograd, quadrature and a known density; a shifted target that becomes likely again."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from evenreel.adaptation.baselines import Flow, FlowObjective, FlowSettings, fit_flow, flow_of, nll_per_number
from evenreel.adaptation.stream import text_vectors, video_vectors
from evenreel.errors import UsageError
from tests.adaptation.shifted import adapted, clips, sayings, source_vectors, turn
from tests.matchers.examples import DIMENSION, captions, disturb, small, trained, videos

QUICK = FlowSettings(layers=4, hidden=24, steps=250, lr=5e-3, batch=128)


def bent(dimension: int, layers: int = 4, size: float = 0.4) -> Flow:
    """A flow none of whose parameters is what it starts with, in float64."""
    torch.manual_seed(0)
    flow: Flow = disturb(Flow(dimension, layers, hidden=7), size).double()
    flow.mean.copy_(torch.linspace(-1, 1, dimension))
    flow.scale.copy_(torch.linspace(0.5, 1.5, dimension))
    return flow


def draws(rows: int, dimension: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("dimension", [2, 3, 6])
def test_the_log_determinant_against_autograd(dimension: int) -> None:
    flow, x = bent(dimension), draws(4, dimension)
    _, log_det = flow(x)
    for row, found in zip(x, log_det, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda one: flow(one[None])[0][0], row)
        assert found.item() == pytest.approx(torch.linalg.slogdet(jacobian).logabsdet.item(), rel=1e-9)


def test_the_density_integrates_to_one() -> None:
    flow, step = bent(2), 0.05
    axis = torch.arange(-14, 14, step, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    with torch.no_grad():
        total = flow.log_prob(grid).exp().sum().item() * step**2
    assert total == pytest.approx(1, abs=1e-3)


def test_a_flow_without_couplings_is_a_gaussian() -> None:
    flow, x = bent(3, layers=0), draws(5, 3)
    expected = multivariate_normal(flow.mean.numpy(), np.diag(flow.scale.numpy() ** 2)).logpdf(x.numpy())
    np.testing.assert_allclose(flow.log_prob(x), expected)


def test_no_number_is_stretched_without_limit() -> None:
    flow, x = bent(4, size=5.0), 1e4 * draws(5, 4)
    z, log_det = flow(x)
    assert z.isfinite().all()
    assert log_det.abs().max().item() <= 4 * 2 * 2.0 + 3  # couplings x numbers of a half x the limit, and the scales


def test_a_fit_finds_a_known_density() -> None:
    """Correlated Gaussian vectors: the fitted flow costs little more than the density that they come from."""
    root = np.array([[1.0, 0.0], [0.9, 0.3]])
    make = np.random.default_rng(0)
    learned, fresh = (make.standard_normal((count, 2)) @ root.T + 3 for count in (2000, 1000))
    flow = fit_flow(torch.from_numpy(learned), replace(QUICK, noise=0.0))
    truth = -multivariate_normal(np.array([3.0, 3.0]), root @ root.T).logpdf(fresh).mean() / 2
    apart = nll_per_number(fit_flow(torch.from_numpy(learned), replace(QUICK, layers=0)), torch.from_numpy(fresh))
    with torch.no_grad():
        found = nll_per_number(flow, torch.from_numpy(fresh)).item()
    assert truth - 0.01 < found < truth + 0.03
    assert apart.item() > truth + 0.3


def test_a_fit_on_few_vectors_is_no_worse_on_others_than_where_it_starts() -> None:
    """What is held out stops a flow that learns its vectors by heart."""
    few, fresh = source_vectors(40, 0), source_vectors(500, 1)
    long = FlowSettings(layers=4, hidden=64, steps=150, lr=2e-2, held_out=0.25)
    kept, all_steps, start = (
        nll_per_number(fit_flow(few, each), fresh).item()
        for each in (long, replace(long, held_out=0.0), replace(long, layers=0))
    )
    assert all_steps > start + 0.2
    assert kept < start + 0.1


def test_two_vectors_are_left_to_learn_from_however_many_are_held_out() -> None:
    flow = fit_flow(source_vectors(3, 0), replace(QUICK, steps=3, held_out=0.9))
    assert flow.scale.isfinite().all()
    assert flow.log_prob(source_vectors(4, 1)).isfinite().all()


@pytest.mark.slow
def test_noise_keeps_a_sphere_from_being_all_that_counts() -> None:
    """A vector a little off the sphere is about as likely as one on it, and without noise it is not."""
    source = source_vectors(1500, 0)[:, :4]
    source = source / source.norm(dim=1, keepdim=True)

    def loss_by_leaving(noise: float) -> float:
        flow = fit_flow(source, replace(QUICK, noise=noise, steps=200))
        with torch.no_grad():
            return (nll_per_number(flow, 1.05 * source) - nll_per_number(flow, source)).item()

    assert loss_by_leaving(0.3) < 0.5 * loss_by_leaving(0.0)


def test_equal_seeds_give_equal_flows_and_leave_the_draws_of_others() -> None:
    source, chosen = source_vectors(64, 0), replace(QUICK, steps=3)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, same, other = (fit_flow(source, replace(chosen, seed=seed)).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["couplings.0.net.0.weight"], other["couplings.0.net.0.weight"])


def test_numbers_that_hardly_vary_are_not_blown_up() -> None:
    source = source_vectors(200, 0)
    source[:, 0] = 0.5
    flow = fit_flow(source, replace(QUICK, steps=5))
    assert flow.scale[0].item() == pytest.approx(0.01 * source.std(0).mean().item(), rel=0.1)
    assert nll_per_number(flow, source).isfinite()


@pytest.mark.parametrize("layers", [0, 3])
def test_a_flow_comes_back_from_its_tensors(layers: int) -> None:
    flow = fit_flow(source_vectors(64, 0), replace(QUICK, layers=layers, steps=2))
    fresh = source_vectors(5, 1)
    assert torch.equal(flow_of(flow.state_dict()).log_prob(fresh), flow.log_prob(fresh))


def test_terms_against_the_density_of_each_vector() -> None:
    matcher, text, video = trained("mean_pool+linear"), captions(), videos()
    flow_text, flow_video = bent(DIMENSION).float(), bent(DIMENSION, layers=2).float()
    terms = FlowObjective(flow_text, flow_video)(matcher, text, video)
    for name, flow, vectors in (
        ("flow_text", flow_text, text_vectors(matcher, text)),
        ("flow_video", flow_video, video_vectors(matcher, video)),
    ):
        costs = [-flow.log_prob(vector[None]).item() for vector in vectors]
        assert terms[name].item() == pytest.approx(sum(costs) / len(costs) / DIMENSION, rel=1e-5)
    assert set(terms) == {"flow_text", "flow_video"}


def test_the_flow_stays_and_the_adapter_moves() -> None:
    flow, matcher = bent(DIMENSION).float(), trained("mean_pool+linear")
    objective = FlowObjective(flow, flow)
    sum(objective(matcher, captions(), videos()).values()).backward()
    for part in (flow, objective.flow_text, objective.flow_video):
        assert all(each.grad is None for each in part.parameters())
    assert all(each.requires_grad for each in flow.parameters())
    moved = [name for name, each in matcher.named_parameters() if each.grad is not None and each.grad.any()]
    assert {name.partition(".")[0] for name in moved} == {"text_map", "frame_map"}


@pytest.fixture(scope="module")
def source_flow() -> Flow:
    return fit_flow(source_vectors(1000, 0), QUICK)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_turned_target_becomes_likely_again(sign: int, source_flow: Flow) -> None:
    """Minimising makes clips that nothing was learned from likelier, and with a wrong sign less likely."""
    target, others = (source_vectors(256, seed) @ turn(0.6).T for seed in (1, 2))
    flow, matcher = source_flow, adapted()
    objective = FlowObjective(flow, flow)
    optimizer = torch.optim.Adam(matcher.parameters(), lr=3e-3)

    def cost() -> float:
        with torch.no_grad():
            return nll_per_number(flow, video_vectors(matcher, clips(others))).item()

    before, own = cost(), nll_per_number(flow, source_vectors(256, 3)).item()
    assert before > own + 0.3
    for _ in range(40):
        optimizer.zero_grad()
        (sign * sum(objective(matcher, sayings(target), clips(target)).values())).backward()
        optimizer.step()
    after = cost()
    assert (after < before - 0.5 * (before - own)) if sign == 1 else (after > before)


@pytest.mark.parametrize("name", ["mean_pool", "hgr+linear"])
def test_a_matcher_that_cannot_adapt_by_features_is_refused(name: str) -> None:
    flow = Flow(DIMENSION, 1, 2)
    with pytest.raises(UsageError, match=r"pseudo-labels alone\."):
        FlowObjective(flow, flow)(small(name), captions(), videos())


def test_a_flow_of_another_length_is_refused() -> None:
    flow = Flow(DIMENSION, 1, 2)
    with pytest.raises(UsageError, match=f"have {DIMENSION} numbers and the source's flow 3"):
        FlowObjective(flow, Flow(3, 1, 2))(trained("mean_pool+linear"), captions(), videos())


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        (torch.ones(1, 4), r"shape \(1, 4\)"),
        (torch.ones(5, 1), r"shape \(5, 1\)"),
        (torch.ones(5), r"shape \(5,\)"),
        (torch.full((5, 4), math.inf), "NaN or infinite"),
    ],
)
def test_vectors_without_a_density_are_refused(vectors: Tensor, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        fit_flow(vectors)
