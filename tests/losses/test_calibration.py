"""Cycles from frames over windows and back: by hand, by loops, and as the paper prints them."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from evenreel.matchers.tcd import (
    CycleForm,
    Sequence,
    TcdSettings,
    contrastive_synchrony,
    cycle_indices,
    cycle_loss,
)


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def whole(vectors: Tensor) -> Sequence:
    return Sequence(vectors, torch.ones(vectors.shape[:2], dtype=torch.bool))


def slow_indices(frames: Tensor, windows: Tensor, tau: float, form: CycleForm) -> list[float]:
    """Equations 3 and 4 of one video, place by place."""

    def weights(one: Tensor, others: Tensor) -> Tensor:
        if form == "squared_distance":
            return torch.stack([-((one - F.normalize(other, dim=0)) ** 2).sum() / tau for other in others]).softmax(0)
        cosines = torch.stack([F.cosine_similarity(one, other, dim=0) for other in others])
        return cosines / cosines.sum() if form == "printed" else (cosines / tau).softmax(0)

    found = []
    for frame in frames:
        there = weights(F.normalize(frame, dim=0), windows)
        met = sum(weight * F.normalize(window, dim=0) for weight, window in zip(there, windows, strict=True))
        back = weights(met, frames)
        found.append(sum(float(weight) * place for place, weight in enumerate(back, start=1)))
    return found


@pytest.mark.parametrize("form", ["softmax", "squared_distance", "printed"])
@given(counts=st.tuples(st.integers(1, 5), st.integers(1, 5)), seed=st.integers(0, 99))
def test_indices_are_those_of_loops(form: CycleForm, counts: tuple[int, int], seed: int) -> None:
    frames, windows = rows(1, counts[0], 8, seed=seed) + 0.5, rows(1, counts[1], 8, seed=seed + 1) + 0.5
    found = cycle_indices(whole(frames), whole(windows), 0.3, form)
    expected = slow_indices(frames[0], windows[0], 0.3, form)
    torch.testing.assert_close(found.mean[0], torch.tensor(expected).double(), rtol=1e-6, atol=1e-6)


def test_a_sequence_in_step_with_itself_costs_nothing_as_the_temperature_falls() -> None:
    steps = whole(torch.eye(6, dtype=torch.float64)[None])
    costs = [cycle_loss(steps, steps, tau, TcdSettings()).item() for tau in (1.0, 0.3, 0.1, 0.02)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 1
    assert costs[-1] < 1e-12


def test_any_one_to_one_mapping_costs_nothing() -> None:
    """A limit of the idea: windows in the wrong order, each like one frame, close their cycles too."""
    frames = torch.eye(5, dtype=torch.float64)[None]
    for order in ([1, 0, 2, 3, 4], [4, 3, 2, 1, 0]):
        assert cycle_loss(whole(frames), whole(frames[:, order]), 0.02, TcdSettings()).item() < 1e-12


def test_as_printed_every_place_has_the_same_index_and_the_cost_is_that_of_not_knowing() -> None:
    """With cosines as CLIP's: 0.15 to 0.30, a little more for a frame and its own window."""
    count, make = 12, torch.Generator().manual_seed(0)
    cosines = 0.15 + 0.15 * torch.rand(count, count, generator=make).double() + 0.08 * torch.eye(count).double()
    # Unit windows with these cosines with frames that are at right angles: the rest of each is a direction of its own.
    frames = torch.eye(count, 2 * count, dtype=torch.float64)[None]
    rest = (1 - (cosines**2).sum(0)).sqrt()
    windows = torch.cat([cosines.T, torch.diag(rest)], dim=1)[None]
    torch.testing.assert_close(windows @ frames.mT, cosines.T[None])
    printed = cycle_indices(whole(frames), whole(windows), 1.0, "printed").mean
    assert (printed - (count + 1) / 2).abs().max() < 0.5
    flat = cycle_loss(whole(frames), whole(windows), 1.0, TcdSettings(cycle="printed")).item()
    assert flat == pytest.approx((count**2 - 1) / 12, rel=0.05)  # the variance of a uniform index, 11.92
    soft = cycle_loss(whole(frames), whole(windows), 0.01, TcdSettings()).item()
    assert soft < 0.7 * flat


def test_windows_without_text_and_padding_take_no_part() -> None:
    frames, windows = rows(2, 4, 8), rows(2, 3, 8, seed=1)
    windows_read = torch.tensor([[True, False, True], [False, False, False]])
    real = torch.tensor([[True, True, True, False], [True, True, True, True]])
    found = cycle_loss(Sequence(frames, real), Sequence(windows, windows_read), 0.1, TcdSettings())
    index = slow_indices(frames[0, :3], windows[0, [0, 2]], 0.1, "softmax")
    expected = ((index[0] - 1) ** 2 + (index[2] - 3) ** 2) / 2  # frame 2 has nothing to be in step with
    assert found.item() == pytest.approx(expected)
    none = Sequence(windows, torch.zeros(2, 3, dtype=torch.bool))
    assert cycle_loss(Sequence(frames, real), none, 0.1, TcdSettings()).item() == 0
    assert contrastive_synchrony(Sequence(frames, real), none, 0.1).item() == 0


def one_window(count: int, place: int, text: Tensor) -> tuple[Sequence, Sequence]:
    """As many orthogonal frames as windows, of which one has a text of the given direction."""
    frames = torch.eye(count, dtype=torch.float64)[None]
    windows = torch.zeros(1, count, count, dtype=torch.float64)
    windows[0, place] = text
    return whole(frames), Sequence(windows, torch.arange(count)[None] == place)


@pytest.mark.parametrize("both_ways", [False, True])
def test_one_window_of_text_in_step_with_its_frame_costs_nothing(both_ways: bool) -> None:
    """Eleven of twelve frames have nothing to be in step with, so no cycle begins there."""
    own, anyone = torch.eye(12, dtype=torch.float64)[4], torch.ones(12, dtype=torch.float64)
    half = 0.5 if both_ways else 1.0  # back to the only window there is, which costs nothing
    settings = TcdSettings(both_ways=both_ways)
    assert cycle_loss(*one_window(12, 4, own), 0.02, settings).item() < 1e-12
    # like every frame, it leads frame 5 of 12 back to their middle, 6.5
    assert cycle_loss(*one_window(12, 4, anyone), 0.02, settings).item() == pytest.approx(half * 1.5**2)


@pytest.mark.parametrize("both_ways", [False, True])
def test_training_draws_one_window_of_text_to_its_own_frame(both_ways: bool) -> None:
    """From a window that is like no frame more than another; what is in step stays there."""
    for start, least in ((torch.ones(12, dtype=torch.float64), 0.6), (torch.eye(12, dtype=torch.float64)[0], 0.99)):
        text = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([text], lr=0.05)
        for _ in range(100):
            frames, windows = one_window(12, 0, torch.zeros(12, dtype=torch.float64))
            placed = Sequence(torch.where(windows.mask[..., None], text, 0.0), windows.mask)
            optimiser.zero_grad()
            cycle_loss(frames, placed, 0.05, TcdSettings(both_ways=both_ways)).backward()
            optimiser.step()
        cosines = F.normalize(text.detach(), dim=0)
        assert cosines[0] > least and cosines[1:].max() < cosines[0] - 0.1


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_cycles_begin_at_frames_whose_stretch_has_text(frames: int, windows: int, seed: int) -> None:
    """A frame and a window go together where the middle of either lies in the other's stretch of the clip."""
    vectors, texts = rows(1, frames, 8, seed=seed), rows(1, windows, 8, seed=seed + 1)
    read = torch.rand(windows, generator=torch.Generator().manual_seed(seed)) < 0.5
    read[seed % windows] = True
    found = cycle_loss(whole(vectors), Sequence(texts, read[None]), 0.3, TcdSettings())
    index = slow_indices(vectors[0], texts[0, read], 0.3, "softmax")
    costs = []
    for frame in range(frames):
        start, end = Fraction(frame, frames), Fraction(frame + 1, frames)
        for window in range(windows):
            first, last = Fraction(window, windows), Fraction(window + 1, windows)
            together = first <= (start + end) / 2 < last or start <= (first + last) / 2 < end
            if together and read[window]:
                costs.append((frame + 1 - index[frame]) ** 2)
                break
    assert costs, "each window with text has a frame"
    assert found.item() == pytest.approx(sum(costs) / len(costs), abs=1e-6)


def test_a_batch_without_words_gives_the_temperature_a_gradient_of_zero() -> None:
    """Several devices wait for a gradient of every parameter, whatever a batch shows."""
    frames, unread = whole(rows(2, 4, 8)), Sequence(rows(2, 3, 8, seed=1), torch.zeros(2, 3, dtype=torch.bool))
    temperature = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    for loss in (
        cycle_loss(frames, unread, temperature, TcdSettings()),
        contrastive_synchrony(frames, unread, temperature),
    ):
        (found,) = torch.autograd.grad(loss, temperature)
        assert found.item() == 0


@pytest.mark.parametrize("form", ["softmax", "squared_distance", "printed"])
def test_padding_gets_no_gradient(form: CycleForm) -> None:
    frames, windows = rows(2, 4, 8), rows(2, 3, 8, seed=1)
    real = torch.tensor([[True, True, True, False], [True, True, True, True]])
    read = torch.tensor([[True, False, True], [True, True, True]])
    frames = (frames * real[..., None]).requires_grad_()
    windows = (windows * read[..., None]).requires_grad_()
    settings = TcdSettings(cycle=form, both_ways=True)
    cycle_loss(Sequence(frames, real), Sequence(windows, read), 0.3, settings).backward()
    assert frames.grad is not None
    assert windows.grad is not None
    assert frames.grad.isfinite().all()
    assert not frames.grad[~real].any()
    assert not windows.grad[~read].any()
    assert frames.grad[real].abs().sum(-1).min() > 0


def test_both_ways_is_the_mean_of_the_two() -> None:
    frames, windows = whole(rows(2, 4, 8)), whole(rows(2, 3, 8, seed=1))
    there, back = (cycle_loss(*each, 0.2, TcdSettings()) for each in ((frames, windows), (windows, frames)))
    both = cycle_loss(frames, windows, 0.2, TcdSettings(both_ways=True))
    torch.testing.assert_close(both, (there + back) / 2)


def test_shares_of_the_clip_weigh_less_by_the_square_of_its_length() -> None:
    frames, windows = whole(rows(1, 5, 8)), whole(rows(1, 3, 8, seed=1))
    plain = cycle_loss(frames, windows, 0.2, TcdSettings())
    share = cycle_loss(frames, windows, 0.2, TcdSettings(normalise_index=True))
    torch.testing.assert_close(share * 4**2, plain)


def test_so_they_do_where_windows_in_between_are_not_read() -> None:
    """Windows 1 and 5 of 5 are the whole clip apart."""
    frames, windows = whole(rows(1, 4, 8)), rows(1, 5, 8, seed=1)
    read = Sequence(windows, torch.tensor([[True, False, False, False, True]]))
    ways = [TcdSettings(both_ways=True, normalise_index=share) for share in (False, True)]
    plain, share = (cycle_loss(frames, read, 0.2, way) for way in ways)
    there = cycle_loss(frames, read, 0.2, TcdSettings())
    torch.testing.assert_close(2 * share, there / 3**2 + (2 * plain - there) / 4**2)


def test_the_regularised_form_divides_by_the_variance() -> None:
    """(i - mu)^2 / sigma^2 + weight log sigma (TCC, equation 5)."""
    frames, windows = rows(1, 4, 8), rows(1, 3, 8, seed=1)
    found = cycle_indices(whole(frames), whole(windows), 0.5, "softmax")
    expected = []
    for place, (mean, variance) in enumerate(zip(found.mean[0], found.variance[0], strict=True), start=1):
        expected.append((place - mean) ** 2 / variance + 0.001 * variance.sqrt().log())
    loss = cycle_loss(whole(frames), whole(windows), 0.5, TcdSettings(variance_weight=0.001))
    torch.testing.assert_close(loss, torch.stack(expected).mean())


def test_a_variance_is_that_of_the_places() -> None:
    frames, windows = rows(1, 3, 8), rows(1, 2, 8, seed=1)
    found = cycle_indices(whole(frames), whole(windows), 0.5, "softmax")
    first = F.normalize(frames[0], dim=-1)
    there = ((first @ F.normalize(windows[0], dim=-1).T) / 0.5).softmax(-1) @ F.normalize(windows[0], dim=-1)
    for row, met in enumerate(there):
        back = ((first @ F.normalize(met, dim=0)) / 0.5).softmax(0)
        drawn = sum(float(weight) * (place - float(found.mean[0, row])) ** 2 for place, weight in enumerate(back, 1))
        assert found.variance[0, row].item() == pytest.approx(drawn)


def test_contrastive_synchrony_is_infonce_of_windows_and_frames_of_one_moment() -> None:
    """Four frames, two windows: the first two frames are of the first window; an unread window takes no part."""
    frames, windows = rows(1, 4, 8), rows(1, 2, 8, seed=1)
    found = contrastive_synchrony(whole(frames), whole(windows), 0.2)
    logits = F.normalize(frames[0], dim=-1) @ F.normalize(windows[0], dim=-1).T / 0.2
    own = [0, 0, 1, 1]
    costs = [-logits[i].log_softmax(0)[m] for i, m in enumerate(own)]
    costs += [-logits[:, m].log_softmax(0)[i] for i, m in enumerate(own)]
    torch.testing.assert_close(found, torch.stack(costs).mean())
    read = Sequence(windows, torch.tensor([[False, True]]))
    some = contrastive_synchrony(whole(frames), read, 0.2)
    costs = [-logits[:, 1].log_softmax(0)[i] for i in (2, 3)]  # the one window left is certain
    torch.testing.assert_close(some, torch.stack([*costs, torch.zeros(()).double(), torch.zeros(()).double()]).mean())
