"""Views, moments and their queue against loops, numpy and simulation; a shifted target that moves back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evenreel.adaptation.baselines import (
    TTTObjective,
    TTTSettings,
    VectorQueue,
    caption_view,
    chance_gaps,
    clip_view,
    moment_gaps,
    moments,
    nt_xent,
    source_statistics,
    statistics_of,
)
from evenreel.adaptation.stream import text_vectors, video_vectors
from evenreel.errors import UsageError
from tests.adaptation.shifted import SIZE, adapted, clips, sayings, source_vectors, turn
from tests.matchers.examples import DIMENSION, captions, small, text_rows, trained, video_rows, videos

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


def test_statistics_come_back_from_their_tensors() -> None:
    statistics = own_statistics()
    tensors = statistics.tensors()
    back = statistics_of(tensors)
    assert set(tensors) == {f"{side}.{name}" for side in ("text", "video") for name in ("size", "mean", "covariance")}
    assert all(
        torch.equal(one, other) for side in (0, 1) for one, other in zip(statistics[side], back[side], strict=True)
    )
    assert not torch.equal(back.text.mean, back.video.mean)


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


@pytest.mark.parametrize("name", ["mean_pool", "hgr+linear"])
def test_a_matcher_that_cannot_adapt_by_features_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"pseudo-labels alone\."):
        TTTObjective(own_statistics(), TTTSettings(), draw())(small(name), captions(), videos())


def test_statistics_of_another_length_are_refused() -> None:
    statistics = source_statistics(unit(9, 0, SIZE), unit(8, 1, DIMENSION + 1))
    with pytest.raises(
        UsageError, match=rf"\(video\) have {DIMENSION} numbers and the source's moments {DIMENSION + 1}"
    ):
        TTTObjective(statistics, TTTSettings(), draw())(trained("mean_pool+linear"), captions(), videos())
