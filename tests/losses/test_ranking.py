"""The ranking loss and its mining against loops over pairs, hand-worked cases, and what its masks mean."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evenreel.errors import UsageError
from evenreel.losses import RANKING_PRESETS, RankingSettings, ranking_hinge
from evenreel.losses.ranking import BY_RELEVANCE

SETTINGS = {
    "hardest": RankingSettings(),
    "all": RankingSettings(mining="all"),
    "apart": RankingSettings(mining="ranp", tau_neg=0.3, tau_pos=0.6),
    **RANKING_PRESETS,
}
names = st.sampled_from(sorted(SETTINGS))


class Drawn(NamedTuple):
    """A batch; with `coarse` scores many pairs tie."""

    scores: Tensor
    same: Tensor
    relevance: Tensor


def drawn(size: int, seed: int, *, coarse: bool = False) -> Drawn:
    make = torch.Generator().manual_seed(seed)
    scores = 2 * torch.rand(size, size, generator=make) - 1
    same = torch.rand(size, size, generator=make) < 0.2
    relevance = torch.randint(0, 11, (size, size), generator=make) / 10
    return Drawn((5 * scores).round() / 5 if coarse else scores, same, relevance)


def by_loops(batch: Drawn, settings: RankingSettings) -> dict[str, float]:
    """Every row and column for itself: who are its negatives and its positives, and what does it cost."""
    turned = Drawn(*(tensor.T for tensor in batch))
    found = {"text_to_video": own_cost(batch, settings), "video_to_text": own_cost(turned, settings)}
    if settings.mining == "ranp":
        found["text_to_video_positive"] = positive_cost(batch, settings)
        found["video_to_text_positive"] = positive_cost(turned, settings)
    return found


def negatives_of(batch: Drawn, i: int, settings: RankingSettings) -> list[int]:
    others = [j for j in range(len(batch.scores)) if j != i and not batch.same[i, j]]
    if settings.mining not in ("ran", "ranp"):
        return others
    return [j for j in others if batch.relevance[i, j].item() < settings.tau_neg - 1e-6]


def own_cost(batch: Drawn, settings: RankingSettings) -> float:
    size, total = len(batch.scores), 0.0
    for i in range(size):
        lacking = [
            max(0.0, settings.margin + float(batch.scores[i, j] - batch.scores[i, i]))
            for j in negatives_of(batch, i, settings)
        ]
        total += sum(lacking) / max(len(lacking), 1) if settings.mining == "all" else max(lacking, default=0.0)
    return total / size


def positive_cost(batch: Drawn, settings: RankingSettings) -> float:
    size, total = len(batch.scores), 0.0
    for i in range(size):
        positives = [j for j in range(size) if j != i and batch.relevance[i, j].item() >= settings.tau_pos - 1e-6]
        negatives = [j for j in negatives_of(batch, i, settings) if j not in positives]
        if positives and negatives:
            lowest = min(float(batch.scores[i, j]) for j in positives)
            highest = max(float(batch.scores[i, j]) for j in negatives)
            total += max(0.0, settings.margin_pos + highest - lowest)
    return total / size


@given(size=st.integers(1, 7), seed=st.integers(0, 999), name=names, coarse=st.booleans())
def test_against_loops(size: int, seed: int, name: str, coarse: bool) -> None:
    batch = drawn(size, seed, coarse=coarse)
    terms = ranking_hinge(batch.scores, batch.same, SETTINGS[name], batch.relevance)
    assert {term: value.item() for term, value in terms.items()} == pytest.approx(
        by_loops(batch, SETTINGS[name]), abs=1e-5
    )


@given(order=st.permutations(range(6)), seed=st.integers(0, 999), name=names)
def test_permuted_pairs_have_the_same_loss(order: list[int], seed: int, name: str) -> None:
    batch = drawn(6, seed)
    mixed = Drawn(*(tensor[order][:, order] for tensor in batch))
    found, again = (ranking_hinge(one.scores, one.same, SETTINGS[name], one.relevance) for one in (batch, mixed))
    assert {key: term.item() for key, term in again.items()} == pytest.approx(
        {key: term.item() for key, term in found.items()}, abs=1e-6
    )


@given(seed=st.integers(0, 999), name=names)
def test_turned_pairs_swap_the_directions(seed: int, name: str) -> None:
    batch = drawn(5, seed)
    terms = ranking_hinge(batch.scores, batch.same, SETTINGS[name], batch.relevance)
    turned = ranking_hinge(batch.scores.T, batch.same.T, SETTINGS[name], batch.relevance.T)
    assert torch.equal(turned["text_to_video"], terms["video_to_text"])
    assert float(sum(turned.values())) == pytest.approx(float(sum(terms.values())), abs=1e-6)


def test_by_hand() -> None:
    """Caption 0: its video has 0.5; 1 has 0.6 and is relevant by 0.5, 2 has 0.4 by 0, 3 has 0.3 by 0.8."""
    scores = torch.full((4, 4), -1.0).fill_diagonal_(1.0)
    scores[0] = torch.tensor([0.5, 0.6, 0.4, 0.3])
    relevance = torch.eye(4)
    relevance[0] = torch.tensor([1.0, 0.5, 0.0, 0.8])
    same = torch.zeros(4, 4, dtype=torch.bool)

    def first(settings: RankingSettings) -> list[float]:
        """What the row costs: no other does."""
        terms = ranking_hinge(scores, same, settings, relevance)
        return [round(4 * term.item(), 4) for name, term in terms.items() if name.startswith("text_to_video")]

    assert first(RankingSettings()) == [0.3]  # 0.2 + 0.6 - 0.5
    assert first(RankingSettings(mining="all")) == [round((0.3 + 0.1) / 3, 4)]  # 3 is ahead by the whole margin
    assert first(RANKING_PRESETS["release_ran"]) == [0.3]  # 3 is relevant, 1 is not by 0.75
    assert first(replace(RANKING_PRESETS["release_ran"], tau_neg=0.5)) == [0.1]  # then 2 is all that is left
    assert first(RANKING_PRESETS["release_ranp"]) == [0.1, 0.3]  # 3 is behind 1, and has to lead 2: 0.2 + 0.4 - 0.3
    assert first(RANKING_PRESETS["paper_margin"]) == [0.3, 0.5]  # 3 has to lead 1: 0.2 + 0.6 - 0.3
    assert first(RANKING_PRESETS["paper"]) == [0.3, 0.3]  # 1 is a positive as well, so 3 has to lead 2 alone


def test_hgr_takes_all_pairs_but_the_diagonal_for_negatives() -> None:
    """Caption 0 describes video 1 too: only with `diagonal_only` does it have it as a negative."""
    scores = torch.tensor([[0.0, 1.0], [-1.0, 1.0]])
    same = torch.tensor([[True, True], [False, True]])
    assert ranking_hinge(scores, same)["text_to_video"] == 0
    published = ranking_hinge(scores, same, RankingSettings(diagonal_only=True))
    assert published["text_to_video"].item() == pytest.approx((0.2 + 1.0) / 2)
    assert published["video_to_text"].item() == pytest.approx((0 + 0.2) / 2)  # caption 0 is level


def test_all_negatives_are_the_published_sum_where_no_pair_is_left_out() -> None:
    scores = drawn(6, 4).scores
    costs = (0.2 + scores - scores.diagonal()[:, None]).clamp(min=0).fill_diagonal_(0.0)
    terms = ranking_hinge(scores, torch.eye(6, dtype=torch.bool), RankingSettings(mining="all"))
    assert terms["text_to_video"].item() == pytest.approx(costs.sum().item() / (6 * 5), rel=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_rows_without_negatives_or_positives_cost_nothing_and_have_finite_gradients(name: str) -> None:
    scores = drawn(4, 2).scores.requires_grad_()
    for same, relevance in (
        (torch.ones(4, 4, dtype=torch.bool), torch.zeros(4, 4)),  # no negative, no positive
        (torch.zeros(4, 4, dtype=torch.bool), torch.ones(4, 4)),  # by relevance no negative, all positive
        (torch.zeros(4, 4, dtype=torch.bool), torch.zeros(4, 4)),  # all negative, no positive
    ):
        terms = ranking_hinge(scores, same, SETTINGS[name], relevance)
        (gradient,) = torch.autograd.grad(sum(terms.values(), torch.tensor(0.0)), scores)
        assert gradient.isfinite().all()
        if same.all() or (relevance.all() and SETTINGS[name].mining in BY_RELEVANCE):
            assert all(term == 0 for term in terms.values())
            assert not gradient.any()
        assert all(term == 0 for kind, term in terms.items() if kind.endswith("positive"))


@pytest.mark.parametrize("name", SETTINGS)
def test_gradients_are_the_slopes(name: str) -> None:
    """Of a batch without ties; each entry is moved by a little, in double precision."""
    batch = drawn(5, 3)
    settings = SETTINGS[name]
    scores = batch.scores.requires_grad_()
    terms = ranking_hinge(scores, batch.same, settings, batch.relevance)
    (gradient,) = torch.autograd.grad(sum(terms.values(), torch.tensor(0.0)), scores)
    step = 1e-5
    for i in range(5):
        for j in range(5):
            moved = [batch.scores.detach().double().clone() for _ in range(2)]
            moved[0][i, j] += step
            moved[1][i, j] -= step
            up, down = (sum(by_loops(batch._replace(scores=one), settings).values()) for one in moved)
            assert float(gradient[i, j]) == pytest.approx((up - down) / (2 * step), abs=1e-4)


def test_equal_negatives_share_the_gradient() -> None:
    scores = torch.tensor([[0.5, 0.6, 0.6], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]], requires_grad=True)
    term = ranking_hinge(scores, torch.eye(3, dtype=torch.bool))["text_to_video"]
    (gradient,) = torch.autograd.grad(term, scores)
    torch.testing.assert_close(3 * gradient[0], torch.tensor([-1.0, 0.5, 0.5]))
    assert not gradient[1:].any()


@pytest.mark.parametrize("threshold", [0.1, 0.15, 0.2, 0.4, 0.6, 0.75])
def test_a_degree_that_equals_the_threshold_is_relevant(threshold: float) -> None:
    """Also those that float32 cannot hold."""
    scores, relevance = torch.tensor([[0.0, 1.0], [-1.0, 3.0]]), torch.full((2, 2), threshold)
    same = torch.eye(2, dtype=torch.bool)
    at, above = (RankingSettings(mining="ran", tau_neg=tau) for tau in (threshold, threshold + 0.01))
    assert ranking_hinge(scores, same, at, relevance)["text_to_video"] == 0
    assert ranking_hinge(scores, same, above, relevance)["text_to_video"] > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_scores_are_summed_in_float32(dtype: torch.dtype) -> None:
    batch = drawn(8, 6)
    low = ranking_hinge(batch.scores.to(dtype), batch.same)
    assert low == ranking_hinge(batch.scores.to(dtype).float(), batch.same)
    assert all(term.dtype == torch.float32 for term in low.values())


def test_the_inputs_are_left_alone() -> None:
    batch = drawn(4, 8)
    before = Drawn(*(tensor.clone() for tensor in batch))
    ranking_hinge(batch.scores, batch.same, RANKING_PRESETS["paper"], batch.relevance)
    assert all(torch.equal(*both) for both in zip(batch, before, strict=True))


@pytest.mark.parametrize("mining", BY_RELEVANCE)
def test_mining_by_relevance_needs_it(mining: str) -> None:
    batch = drawn(3, 0)
    with pytest.raises(UsageError, match=f"The mining {mining} needs degrees of relevance, and the batch has none"):
        ranking_hinge(batch.scores, batch.same, RankingSettings(mining=mining))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        *(
            ({name: value}, "a number of 0 to 2")
            for name in ("margin", "margin_pos")
            for value in (-0.1, 2.1, math.nan)
        ),
        *(
            ({name: value}, "above 0 and at most 1")
            for name in ("tau_neg", "tau_pos")
            for value in (0.0, 1.1, math.nan)
        ),
        ({"mining": "RAN"}, "hardest or all or ran or ranp"),
    ],
    ids=str,
)
def test_settings_that_say_nothing_are_refused(settings: dict[str, Any], why: str) -> None:
    ((name, value),) = settings.items()
    with pytest.raises(UsageError, match=f"setting {name} of the ranking loss is '?{value}.*{why}"):
        RankingSettings(**settings)


def test_the_presets_are_those_of_the_docs() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for name, preset in RANKING_PRESETS.items():
        numbers = (preset.tau_neg, preset.tau_pos, preset.margin_pos)[: 1 if preset.mining == "ran" else 3]
        cells = [f"`{name}`", f"`{preset.mining}`", *(f"{number:.2f}" for number in numbers)]
        assert f"| {' | '.join(cells)} |" in docs
