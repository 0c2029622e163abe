"""TTT++ and TTTFlow against loops, numpy, simulation and a known density; scores by the queries that came before."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from torch import Tensor
from torch.nn import functional as F

from evenreel.adaptation.baselines import (
    Flow,
    FlowObjective,
    FlowSettings,
    StreamNorm,
    TTTObjective,
    TTTSettings,
    VectorQueue,
    caption_view,
    chance_gaps,
    clip_view,
    fit_flow,
    moment_gaps,
    moments,
    nll_per_number,
    nt_xent,
    source_statistics,
)
from evenreel.adaptation.stream import text_vectors, video_vectors
from evenreel.errors import UsageError
from evenreel.evaluation.rescoring import nearest_neighbour_norm, querybank_norm
from evenreel.types import FloatArray, Scores
from tests.adaptation.shifted import SIZE, adapted, clips, sayings, source_vectors, turn
from tests.matchers.examples import DIMENSION, captions, disturb, small, text_rows, trained, video_rows, videos

STILL = TTTSettings(drop=0.0, relative=False, queue=0)
"""Views are the items themselves, distances those of the paper."""


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit(rows: int, seed: int, size: int = 5) -> Tensor:
    return F.normalize(torch.randn(rows, size, generator=draw(seed)), dim=-1)


def own_statistics() -> Any:
    return source_statistics(unit(9, 0, DIMENSION), unit(8, 1, DIMENSION))


@given(rows=st.integers(1, 6), seed=st.integers(0, 999), temperature=st.sampled_from([0.1, 0.5, 2.0]))
@settings(max_examples=20)
def test_contrastive_loss_against_loops(rows: int, seed: int, temperature: float) -> None:
    first, second = unit(rows, seed), unit(rows, seed + 1)
    views = [*first.tolist(), *second.tolist()]
    costs = []
    for one, view in enumerate(views):
        alike = {
            other: math.exp(sum(a * b for a, b in zip(view, against, strict=True)) / temperature)
            for other, against in enumerate(views)
            if other != one
        }
        costs.append(-math.log(alike[(one + rows) % (2 * rows)] / sum(alike.values())))
    assert nt_xent(first, second, temperature).item() == pytest.approx(sum(costs) / len(costs), rel=1e-4, abs=1e-5)


@given(rows=st.integers(2, 20), seed=st.integers(0, 999))
@settings(max_examples=20)
def test_moments_are_those_of_numpy(rows: int, seed: int) -> None:
    vectors = unit(rows, seed)
    found = moments(vectors)
    assert found.size.item() == len(vectors)
    np.testing.assert_allclose(found.mean, vectors.numpy().mean(0), atol=1e-6)
    np.testing.assert_allclose(found.covariance, np.cov(vectors.numpy().T), atol=1e-6)


@pytest.mark.parametrize(
    ("text", "video", "words"),
    [
        (unit(1, 0), unit(5, 0), "1 captions with a vector"),
        (unit(5, 0), unit(0, 0), "0 clips with a vector"),
        (unit(5, 0), torch.full((2, 5), math.nan), "clips are NaN or infinite"),
    ],
)
def test_what_has_no_moments_is_refused(text: Any, video: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        source_statistics(text, video)


def test_gaps_against_numpy() -> None:
    target, source = unit(7, 0), unit(11, 1)
    gaps = [gap.item() for gap in moment_gaps(target, moments(source))]
    means = target.numpy().mean(0) - source.numpy().mean(0)
    spreads = np.cov(target.numpy().T) - np.cov(source.numpy().T)
    assert gaps == pytest.approx([(means**2).sum(), (spreads**2).sum()], rel=1e-4)


def test_a_single_vector_has_no_covariance_and_no_slope_of_one() -> None:
    vector = unit(1, 0).requires_grad_()
    mean, covariance = moment_gaps(vector, moments(unit(9, 1)))
    assert mean.item() > 0
    assert covariance.item() == 0
    covariance.backward()
    assert vector.grad is not None
    assert not vector.grad.any()


def test_chance_is_what_simulated_vectors_of_the_source_have() -> None:
    """The means over 1,000 draws of 12 and 20 Gaussian vectors, with a covariance that is no identity."""
    root = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-0.3, 0.2, 0.4]])
    make, found = draw(), []
    for _ in range(1000):
        target, source = (torch.randn(count, 3, generator=make) @ root.T + 2 for count in (12, 20))
        found.append(torch.stack(moment_gaps(target, moments(source))))
    known = moments(torch.randn(20, 3, generator=make))._replace(covariance=root @ root.T)
    expected = torch.stack(chance_gaps(known, 12))
    torch.testing.assert_close(torch.stack(found).mean(0), expected, rtol=0.1, atol=0.0)


def test_the_queue_keeps_the_newest_of_other_ids() -> None:
    queue, vectors = VectorQueue(4), torch.arange(8.0)[:, None]
    assert queue.with_past(["a", "b"], vectors[:2]).flatten().tolist() == [0, 1]
    assert queue.with_past(["c"], vectors[2:3]).flatten().tolist() == [2, 0, 1]
    assert queue.with_past(["b", "d"], vectors[3:5]).flatten().tolist() == [3, 4, 0, 2]  # the older b is gone
    assert queue.with_past(["e", "f"], vectors[5:7]).flatten().tolist() == [5, 6, 3, 4]  # four at most
    assert queue.ids == ["b", "d", "e", "f"]


@given(
    size=st.integers(0, 6),
    batches=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True), min_size=1, max_size=8),
)
def test_the_queue_against_a_list(size: int, batches: list[list[int]]) -> None:
    """Each vector holds its id and its batch, so that an older one is told from a newer one."""
    queue, memory = VectorQueue(size), list[tuple[float, float]]()
    for step, batch in enumerate(batches):
        own = [(float(name), float(step)) for name in batch]
        memory = [held for held in memory if held[0] not in batch]
        room = max(size - len(own), 0)
        past = memory[len(memory) - min(room, len(memory)) :]
        found = queue.with_past([str(name) for name in batch], torch.tensor(own))
        assert sorted(map(tuple, found.tolist())) == sorted(own + past)
        assert list(map(tuple, found.tolist()))[: len(own)] == own
        memory = (memory + own)[-size:] if size else []


def test_only_the_batch_in_hand_is_learned_from() -> None:
    queue, vectors = VectorQueue(8), torch.ones(4, 2, requires_grad=True)
    queue.with_past("abcd", 2 * vectors)
    later = torch.ones(2, 2, requires_grad=True)
    queue.with_past("ef", later).sum().backward()
    assert later.grad is not None
    assert vectors.grad is None


@given(drop=st.sampled_from([0.0, 0.3, 0.95]), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_a_view_lacks_some_and_never_all(drop: float, seed: int) -> None:
    chosen = TTTSettings(drop=drop)
    text, video = caption_view(captions(), chosen, draw(seed)), clip_view(videos(), chosen, draw(seed))
    for kept, real, vectors in (
        (text.word_mask, captions().word_mask, text.words),
        (video.frame_mask, videos().frame_mask, video.frames),
    ):
        assert not (kept & ~real).any()
        assert kept.any(1).all()
        assert not vectors[~kept].any()
        if drop == 0:
            assert torch.equal(kept, real)


def test_the_share_that_a_view_lacks() -> None:
    mask = torch.ones(200, 50, dtype=torch.bool)
    video = replace(videos((50,) * 200), frame_mask=mask)
    share = 1 - clip_view(video, TTTSettings(drop=0.3), draw()).frame_mask.float().mean().item()
    assert share == pytest.approx(0.3, abs=0.02)


def test_a_sentence_moves_as_the_mean_of_its_words() -> None:
    text = captions()
    view = caption_view(text, TTTSettings(drop=0.5), draw(3))
    assert not torch.equal(view.word_mask, text.word_mask)
    for row in range(len(text.ids)):
        words = [F.normalize(word, dim=0) for word in text.words[row, text.word_mask[row]]]
        left = [F.normalize(word, dim=0) for word in text.words[row, view.word_mask[row]]]
        moved = text.sentence[row] + sum(left) / len(left) - sum(words) / len(words)
        torch.testing.assert_close(view.sentence[row], moved / moved.norm())


def test_terms_against_their_parts() -> None:
    matcher, text, video, statistics = trained("mean_pool+linear"), captions(), videos(), own_statistics()
    weights = TTTSettings(2.0, 3.0, 5.0, relative=False, drop=0.0, queue=0)
    terms = TTTObjective(statistics, weights, draw())(matcher, text, video)
    expected = {}
    for side, vectors in (("text", text_vectors(matcher, text)), ("video", video_vectors(matcher, video))):
        mean, covariance = moment_gaps(vectors, getattr(statistics, side))
        expected |= {f"mean_{side}": 3 * mean, f"covariance_{side}": 5 * covariance}
        expected[f"contrastive_{side}"] = 2 * nt_xent(vectors, vectors, 0.1)
    assert set(terms) == set(expected)
    for name, term in terms.items():
        torch.testing.assert_close(term, expected[name], msg=name)


def test_a_weight_of_zero_leaves_its_terms_out() -> None:
    chosen = replace(STILL, lambda_contrastive=0.0, lambda_covariance=0.0)
    terms = TTTObjective(own_statistics(), chosen, draw())(trained("mean_pool+linear"), captions(), videos())
    assert set(terms) == {"mean_text", "mean_video"}


def test_relative_distances_are_one_where_nothing_shifted() -> None:
    source = source_vectors(2000, 0)
    chosen = TTTSettings(lambda_contrastive=0.0)
    statistics = source_statistics(source, source)
    terms: dict[str, float] = {}
    for seed in range(10):
        fresh = source_vectors(64, 100 + seed)
        found = TTTObjective(statistics, chosen, draw())(adapted(), sayings(fresh), clips(fresh))
        terms = {name: terms.get(name, 0.0) + term.item() / 10 for name, term in found.items()}
    assert all(0.5 < term < 2 for term in terms.values()), terms
    moved = source_vectors(64, 1) @ turn(0.8).T
    far = TTTObjective(statistics, chosen, draw())(adapted(), sayings(moved), clips(moved))
    assert all(term.item() > 3 for term in far.values()), far


def test_batches_add_up_in_the_queue() -> None:
    """Two halves through a queue have the moments of the whole; without one, those of the second half."""
    matcher, text, video = trained("mean_pool+linear"), captions(), videos()
    whole = TTTObjective(own_statistics(), STILL, draw())(matcher, text, video)["mean_text"]
    for size, same in ((1024, True), (0, False)):
        halves = TTTObjective(own_statistics(), replace(STILL, queue=size), draw())
        for rows in ([0, 1], [2, 3, 4]):
            terms = halves(matcher, text_rows(text, rows), video_rows(video, rows))
        assert torch.allclose(terms["mean_text"], whole, atol=1e-6) == same


def test_padding_changes_nothing() -> None:
    matcher, text, video = trained("mean_pool+linear"), captions(), videos()
    wider = replace(text, words=F.pad(text.words, (0, 0, 0, 3)), word_mask=F.pad(text.word_mask, (0, 3)))
    longer = replace(video, frames=F.pad(video.frames, (0, 0, 0, 2)), frame_mask=F.pad(video.frame_mask, (0, 2)))
    plain, padded = (TTTObjective(own_statistics(), STILL, draw()) for _ in range(2))
    for one, other in zip(plain(matcher, text, video).values(), padded(matcher, wider, longer).values(), strict=True):
        torch.testing.assert_close(one, other)


def test_equal_seeds_give_equal_terms() -> None:
    found = [
        TTTObjective(own_statistics(), TTTSettings(drop=0.5), draw(seed))(
            trained("mean_pool+linear"), captions(), videos()
        )
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1]
    assert found[0]["contrastive_text"] != found[2]["contrastive_text"]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_turned_target_comes_back_to_the_moments_of_the_source(sign: int) -> None:
    """Minimising brings the moments back; maximising, which is what a wrong sign does, takes them further away."""
    source = source_vectors(1000, 0)
    target = source_vectors(256, 1) @ turn(0.6).T
    statistics, matcher = source_statistics(source, source), adapted()
    objective = TTTObjective(statistics, TTTSettings(lambda_contrastive=0.1), draw())
    optimizer = torch.optim.Adam(matcher.parameters(), lr=3e-3)

    def gaps() -> list[float]:
        with torch.no_grad():
            return [gap.item() for gap in moment_gaps(video_vectors(matcher, clips(target)), statistics.video)]

    before = gaps()
    for step in range(60):
        rows = torch.arange(64) + 64 * (step % 4)
        part = target[rows]
        optimizer.zero_grad()
        (sign * sum(objective(matcher, sayings(part, step % 4), clips(part, step % 4)).values())).backward()
        optimizer.step()
    after = gaps()
    if sign == 1:
        assert all(late < 0.5 * early for early, late in zip(before, after, strict=True)), (before, after)
    else:
        assert after[0] > before[0], (before, after)


def test_a_matcher_that_cannot_adapt_by_features_is_refused() -> None:
    flow = Flow(DIMENSION, 1, 2)
    for objective in (TTTObjective(own_statistics(), TTTSettings(), draw()), FlowObjective(flow, flow)):
        with pytest.raises(UsageError, match=r"pseudo-labels alone\."):
            objective(small("hgr+linear"), captions(), videos())


def test_what_was_prepared_with_another_checkpoint_is_refused() -> None:
    statistics = source_statistics(unit(9, 0, SIZE), unit(8, 1, DIMENSION + 1))
    ttt = TTTObjective(statistics, TTTSettings(), draw())
    flow = FlowObjective(Flow(DIMENSION, 1, 2), Flow(3, 1, 2))
    for objective, sentence in (
        (ttt, rf"\(video\) have {DIMENSION} numbers and the source's moments {DIMENSION + 1}"),
        (flow, f"have {DIMENSION} numbers and the source's flow 3"),
    ):
        with pytest.raises(UsageError, match=sentence):
            objective(trained("mean_pool+linear"), captions(), videos())


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


TOP = 3
"""What NNN looks at of the bank."""


def qb_norm(scores: FloatArray, bank: FloatArray) -> FloatArray:
    return querybank_norm(named(scores), bank).values


def nnn(scores: FloatArray, bank: FloatArray) -> FloatArray:
    return nearest_neighbour_norm(named(scores), bank, top=TOP).values


def named(values: FloatArray) -> Scores:
    return Scores(
        values, tuple(f"q{row}" for row in range(len(values))), tuple(f"v{c}" for c in range(values.shape[1]))
    )


def scores_of(rows: int, seed: int = 0) -> FloatArray:
    """With one clip that every query likes."""
    values: FloatArray = np.random.default_rng(seed).standard_normal((rows, 6))
    values[:, 0] += 1.5
    return values


@pytest.mark.parametrize(("correct", "least"), [(qb_norm, 1), (nnn, TOP)])
def test_each_batch_has_the_queries_before_it_for_its_bank(
    correct: Callable[[FloatArray, FloatArray], FloatArray], least: int
) -> None:
    scores, norm, changed = scores_of(14), StreamNorm(correct, least=least), 0
    for start, stop in ((0, 2), (2, 5), (5, 6), (6, 14)):
        bank = scores[:start]
        expected = correct(scores[start:stop], bank) if len(bank) >= least else scores[start:stop]
        found = norm(scores[start:stop])
        np.testing.assert_array_equal(found, expected)
        changed += not np.array_equal(found, scores[start:stop])
    assert changed >= 2
    assert len(norm) == 14


@given(most=st.integers(1, 9), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_the_bank_keeps_the_latest(most: int, sizes: list[int]) -> None:
    seen: list[FloatArray] = []

    def remember(scores: FloatArray, bank: FloatArray) -> FloatArray:
        seen.append(bank)
        return scores

    scores, norm, start = scores_of(sum(sizes)), StreamNorm(remember, most=most), 0
    for size in sizes:
        norm(scores[start : start + size])
        start += size
        assert len(norm) == min(start, most)
    starts = np.cumsum(sizes)[:-1]
    assert len(seen) == len(starts)
    for bank, stop in zip(seen, starts, strict=True):
        np.testing.assert_array_equal(bank, scores[max(0, stop - most) : stop])


@pytest.mark.parametrize(("least", "most"), [(0, 5), (6, 5)])
def test_a_bank_that_can_never_be_used_is_refused(least: int, most: int) -> None:
    with pytest.raises(UsageError, match=f"from {least} queries on and to hold {most}"):
        StreamNorm(qb_norm, least=least, most=most)


def test_another_gallery_is_refused() -> None:
    norm = StreamNorm(qb_norm)
    norm(scores_of(2))
    with pytest.raises(UsageError, match="scores of 6 clips and the batch of 5"):
        norm(scores_of(2)[:, :5])
