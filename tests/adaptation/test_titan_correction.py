"""Equations 9 to 14 against loops over pairs and confounders, where the correction starts, and its switches."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.adaptation.titan_correction import COSINE_SCALE, CausalCorrection, CausalSettings, new_correction
from evenreel.errors import UsageError

D = 6


def unit(rows: int, dimension: int, seed: int) -> Tensor:
    make = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(rows, dimension, generator=make, dtype=torch.float64), dim=-1)


def moved(settings: CausalSettings, width: int = D, confounders: int = 5) -> CausalCorrection:
    """A correction whose every weight was moved from where it starts, in double precision."""
    correction = new_correction(D, unit(confounders, width, 9), settings, 0).double()
    make = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in correction.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=make, dtype=torch.float64))
    return correction


def times(weight: Tensor, row: list[float]) -> list[float]:
    return [sum(weight[i, j].item() * row[j] for j in range(len(row))) for i in range(len(weight))]


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def sized(row: Tensor) -> list[float]:
    """A row with entries of size one."""
    length = math.sqrt(dot(row.tolist(), row.tolist()))
    return [math.sqrt(len(row)) * one / length for one in row.tolist()]


class Loops:
    """The formulas for one pair at a time, in plain Python."""

    def __init__(self, correction: CausalCorrection) -> None:
        self.of = correction
        self.scale = 1 / math.sqrt(D) if correction.settings.scaled else 1.0

    def mapped(self, row: Tensor) -> list[float]:
        project = self.of.project
        given = row / row.norm()
        if isinstance(project, nn.Linear):
            given = torch.tensor(times(project.weight, given.tolist()), dtype=torch.float64)
        return sized(given)

    def attended(self, q: Tensor, v: Tensor) -> list[float]:
        query, clip, rows = sized(q), sized(v), [self.mapped(one) for one in self.of.source]
        asked = [a + b for a, b in zip(times(self.of.w1.weight, query), times(self.of.w2.weight, clip), strict=True)]
        weights = [math.exp(self.scale * dot(asked, row)) for row in rows]
        values = [times(self.of.w3.weight, row) for row in rows]
        return [sum(w * row[d] for w, row in zip(weights, values, strict=True)) / sum(weights) for d in range(D)]

    def clip(self, q: Tensor, v: Tensor) -> list[float]:
        if not self.of.settings.source_debias:
            return sized(v)
        return [a + b for a, b in zip(sized(v), self.attended(q, v), strict=True)]

    def logit(self, q: Tensor, v: Tensor) -> float:
        first, _, last = self.of.judge
        product = [a * b for a, b in zip(self.clip(q, v), sized(q), strict=True)]
        hidden = [max(0.0, a + b) for a, b in zip(times(first.weight, product), first.bias.tolist(), strict=True)]
        return dot(times(last.weight, hidden), [1.0]) + last.bias.item()

    def confounder(self, q: Tensor, v: Tensor, target: Tensor) -> list[float]:
        rows, query, clip = [self.mapped(one) for one in target], sized(q), self.clip(q, v)
        asked = [a + b for a, b in zip(times(self.of.w4.weight, clip), times(self.of.w5.weight, query), strict=True)]
        weights = [1 / (1 + math.exp(-self.scale * dot(asked, row))) for row in rows]
        norm = len(rows) if self.of.settings.aggregate == "sigmoid_mean" else 1
        return [sum(w * row[d] for w, row in zip(weights, rows, strict=True)) / norm for d in range(D)]


SETTINGS = [
    CausalSettings(),
    CausalSettings(scaled=False, aggregate="sigmoid", lambda_mi=1.0, detach=False),
    CausalSettings(source_debias=False, hidden=3),
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("width", [D, 4])
def test_each_equation_is_that_of_loops(settings: CausalSettings, width: int) -> None:
    correction, q, v, target = moved(settings, width), unit(7, D, 1), unit(7, D, 2), unit(3, width, 3)
    loops = Loops(correction)
    pairs = list(zip(q, v, strict=True))
    expected = torch.tensor([loops.attended(*pair) for pair in pairs], dtype=torch.float64)
    torch.testing.assert_close(correction.attended(q, v), expected, rtol=0, atol=1e-10)
    logits = torch.tensor([loops.logit(*pair) for pair in pairs], dtype=torch.float64)
    torch.testing.assert_close(correction.logits(q, v), logits, rtol=0, atol=1e-10)
    found = torch.tensor([loops.confounder(*pair, target) for pair in pairs], dtype=torch.float64)
    torch.testing.assert_close(
        correction.target_confounder(q, correction.clips(q, v), target), found, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_loss_is_that_of_loops(settings: CausalSettings) -> None:
    """Equation 14, its estimator written out pair by pair and dimension by dimension."""
    correction, q, v, target = moved(settings), unit(4, D, 1), unit(4, D, 2), unit(3, D, 3)
    labels = [1.0, 0.0, 0.0, 1.0]
    loops, terms = Loops(correction), correction.target_terms(q, v, torch.tensor(labels, dtype=torch.float64), target)
    match, information = 0.0, {"video_information": 0.0, "query_information": 0.0}
    for one, other, label in zip(q, v, labels, strict=True):
        s = 1 / (1 + math.exp(-loops.logit(one, other)))
        match -= (label * math.log(s) + (1 - label) * math.log(1 - s)) / len(labels)
        found = torch.tensor(loops.confounder(one, other, target), dtype=torch.float64)
        for name, teller, told in (
            ("video_information", correction.tell_video, loops.clip(one, other)),
            ("query_information", correction.tell_query, sized(one)),
        ):
            means = teller.mean(found).tolist()
            for d in range(D):
                variance = math.log(1 + math.exp(teller.raw_variance[d].item())) + 1e-5
                density = math.exp(-((told[d] - means[d]) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
                information[name] += math.log(density) / (D * len(labels))
    assert terms.keys() == {"match", *information}
    assert terms["match"].item() == pytest.approx(match, abs=1e-10)
    for name, value in information.items():
        assert terms[name].item() == pytest.approx(-settings.lambda_mi * value, abs=1e-10)


def test_infonce_takes_the_place_of_vid() -> None:
    correction, q, v, target = moved(CausalSettings(mutual="info_nce")), unit(4, D, 1), unit(4, D, 2), unit(3, D, 3)
    terms, loops = correction.target_terms(q, v, torch.ones(4, dtype=torch.float64), target), Loops(correction)
    found = [loops.confounder(one, other, target) for one, other in zip(q, v, strict=True)]
    total = 0.0
    for i in range(4):
        logits = [dot(sized(q[i]), row) / math.sqrt(D * dot(row, row)) / 0.1 for row in found]
        total += logits[i] - math.log(sum(map(math.exp, logits)) / 4)
    assert terms["query_information"].item() == pytest.approx(-0.1 * total / 4, abs=1e-9)


def test_a_query_that_stands_there_with_two_clips_is_found_as_well_as_one_that_stands_there_once() -> None:
    """Where what tells it is the query itself, each of four is told from the three others, and not from itself."""
    correction = moved(CausalSettings(mutual="info_nce", lambda_mi=1.0))
    q = torch.eye(D, dtype=torch.float64)[:4].repeat(2, 1)
    correction.target_confounder = lambda query, clips, confounders: query  # type: ignore[method-assign]
    terms = correction.target_terms(q, unit(8, D, 2), torch.ones(8, dtype=torch.float64), unit(3, D, 3))
    best = 10 - math.log((math.exp(10) + 6) / 7)  # cosines of 1 and 0 at a temperature of 0.1, six others
    assert terms["query_information"].item() == pytest.approx(-best, abs=1e-9)


@given(st.integers(1, 20), st.integers(0, 5))
def test_it_starts_with_the_order_of_the_cosine(rows: int, seed: int) -> None:
    correction = new_correction(D, unit(4, 3, seed), CausalSettings(), seed).double()
    q, v = unit(rows, D, seed), unit(rows, D, seed + 1)
    torch.testing.assert_close(correction.logits(q, v), COSINE_SCALE * (q * v).sum(1), rtol=0, atol=1e-6)


def test_equal_seeds_start_equal_and_draw_from_nobody() -> None:
    state = torch.random.get_rng_state()
    one, other, third = (new_correction(D, unit(4, 3, 0), CausalSettings(), seed) for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))
    assert not torch.equal(one.project.weight, third.project.weight)


@pytest.mark.parametrize(
    ("changed", "terms"),
    [
        ({}, {"match", "video_information", "query_information"}),
        ({"target_amplification": False}, {"match"}),
        ({"mutual": "none"}, {"match"}),
        ({"lambda_mi": 0.0}, {"match"}),
    ],
)
def test_a_term_that_is_switched_off_is_not_there(changed: dict[str, Any], terms: set[str]) -> None:
    found = moved(CausalSettings(**changed)).target_terms(
        unit(2, D, 1), unit(2, D, 2), torch.tensor([1.0, 0.0], dtype=torch.float64), unit(3, D, 3)
    )
    assert found.keys() == terms


@pytest.mark.parametrize("detach", [True, False])
def test_nothing_is_learned_through_what_is_to_be_told(detach: bool) -> None:
    """With an estimator that ignores the confounder, only the values themselves can carry a gradient."""
    correction = moved(CausalSettings(detach=detach))
    with torch.no_grad():
        for layer in correction.tell_video.mean:
            if isinstance(layer, nn.Linear):
                layer.weight.zero_()
    v = unit(3, D, 2).requires_grad_()
    terms = correction.target_terms(unit(3, D, 1), v, torch.ones(3, dtype=torch.float64), unit(3, D, 3))
    (slope,) = torch.autograd.grad(terms["video_information"], v, allow_unused=True)
    assert (slope is None or not slope.any()) == detach


def test_what_information_asks_for_reaches_the_clip_by_the_confounder() -> None:
    correction = moved(CausalSettings())
    terms = correction.target_terms(unit(3, D, 1), unit(3, D, 2), torch.ones(3, dtype=torch.float64), unit(3, D, 3))
    slopes = torch.autograd.grad(terms["query_information"], [correction.w3.weight, correction.w4.weight])
    assert all(slope.abs().sum() > 0 for slope in slopes)
    without = moved(CausalSettings(source_debias=False))
    terms = without.target_terms(unit(3, D, 1), unit(3, D, 2), torch.ones(3, dtype=torch.float64), unit(3, D, 3))
    (slope,) = torch.autograd.grad(terms["query_information"], [without.judge[0].weight], allow_unused=True)
    assert slope is None  # as the module says, it then cannot change the verdict


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (torch.ones(3), r"these have the shape \(3,\)"),
        (torch.ones(0, 3), r"these have the shape \(0, 3\)"),
        (torch.tensor([[1.0, 2.0], [0.0, 0.0]]), "Row 1 of the confounders is zero"),
        (torch.tensor([[1.0, math.nan], [1.0, 0.0]]), "Row 0 of the confounders is zero or not all numbers"),
    ],
)
def test_what_are_no_confounders_is_refused(rows: Tensor, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        CausalCorrection(D, rows)
