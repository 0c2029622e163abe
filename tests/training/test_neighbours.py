"""Training that knows neighbours and hubs: its terms, its memory bank, and runs that are broken off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from evenreel.debias.neighbours import NeighbourBank, NeighbourTerms, whole_vectors
from evenreel.errors import UsageError
from evenreel.losses import info_nce
from evenreel.matchers import build_matcher
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.batches import PairBatch, text_batch, video_batch
from evenreel.matchers.mean_pool import PooledVectors
from evenreel.training import Recipe, RecipeError, load_recipe, recipe_text
from evenreel.training.data.examples import FeatureExamples
from evenreel.training.loop.module import BANK
from evenreel.training.loop.run import RunHooks, train
from evenreel.training.loop.run_folder import LAST, METRICS
from tests.training.loop.test_run import CutShortError, figures_of, weights_of
from tests.training.small_material import DIMENSION, small_examples, small_material, small_recipe

SMALL = {"neighbours": 3, "bank": 20}
"""Batches of 8: the bank holds the last two and the half of a third."""
TERMS = ("centrality", "neighbours", "uniform", "levels")
OFF = {"kappa": 0.0, "neighbour_weight": 0.0, "uniform_weight": 0.0, "kl_weight": 0.0}


@pytest.fixture(scope="module")
def examples() -> FeatureExamples:
    return small_examples()


def knowing(matcher: str = "mean_pool", **settings: Any) -> Recipe:
    return small_recipe(neighbours={**SMALL, **settings}, matcher={"name": matcher}, records={"save_every_steps": 2})


def batch_of(examples: FeatureExamples, size: int = 8) -> PairBatch:
    rows = slice(0, size)
    return PairBatch(
        text_batch(examples.text_features, rows),
        video_batch(examples.video_features, rows),
        torch.eye(size, dtype=torch.bool),
    )


def terms_of(name: str, **settings: Any) -> NeighbourTerms:
    torch.manual_seed(0)
    inner = build_matcher(name, DIMENSION, {})
    matcher = Adapted(inner, DIMENSION, AdapterSettings())
    return NeighbourTerms(matcher, knowing(**settings).neighbours)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["mean_pool", "wti", "t_mass"])
def test_any_matcher_has_the_terms_and_learns_from_them(examples: FeatureExamples, name: str) -> None:
    one, batch = terms_of(name), batch_of(examples)
    one.terms(batch)
    found = one.terms(batch)
    assert tuple(found) == TERMS
    torch.stack(list(found.values())).sum().backward()
    for part, parameter in one.matcher.named_parameters():  # type: ignore[attr-defined]  # a module
        assert parameter.grad is None or parameter.grad.isfinite().all(), part
    assert one.matcher.frame_map.change[0].weight.grad.abs().sum() > 0  # type: ignore[attr-defined]


def test_with_the_matcher_s_own_loss_it_is_weighted_info_nce(examples: FeatureExamples) -> None:
    one, batch = terms_of("mean_pool", **{**OFF, "kappa": 0.3}), batch_of(examples)
    found = sum(one.matcher.loss(batch).values()) + one.terms(batch)["centrality"]
    captions, videos = (side.detach() for side in whole_vectors(one.matcher, batch))
    scale = one.matcher.logit_scale.detach().exp()
    total = 0.0
    for rows, columns in ((captions, videos), (videos, captions)):
        logits = scale * rows @ columns.T
        for query, row in enumerate(logits):
            weight = torch.exp(0.3 * sum(rows[query] @ other for other in rows) / len(rows))
            total -= float(weight * (row[query] - row.logsumexp(0))) / (2 * len(rows))
    assert found.item() == pytest.approx(total, rel=1e-4)
    assert found.item() != pytest.approx(info_nce(captions @ videos.T, batch.same, scale).item(), rel=1e-3)


def test_whole_vectors_are_what_mean_pool_compares(examples: FeatureExamples) -> None:
    one, batch = terms_of("mean_pool"), batch_of(examples)
    captions, videos = whole_vectors(one.matcher, batch)
    scores = one.matcher.score(one.matcher.encode_text(batch.text), one.matcher.encode_video(batch.video))
    assert torch.allclose(captions @ videos.T, scores, atol=1e-6)
    assert one.terms(batch)["levels"].item() == pytest.approx(0, abs=1e-7)


def state(first: int, size: int) -> PooledVectors:
    return PooledVectors(torch.arange(first, first + size, dtype=torch.float32)[:, None])


def held(bank: NeighbourBank) -> list[float]:
    return [float(row) for text, _ in bank.states(state(0, 1), state(0, 1)) for row in text.vectors]


@pytest.mark.parametrize("sizes", [(3, 3, 3), (9,), (1, 12, 1), (2,)])
def test_the_bank_keeps_the_newest_in_order(sizes: tuple[int, ...]) -> None:
    bank, seen = NeighbourBank(5), list[float]()
    for size in sizes:
        bank.add(state(len(seen), size), state(len(seen), size))
        seen += [float(len(seen) + number) for number in range(size)]
        assert held(bank) == seen[-5:]
        assert len(bank) == min(5, len(seen))
    again = NeighbourBank(5)
    again.load_state_dict(bank.state_dict(), "cpu")
    assert held(again) == held(bank)


def test_centrality_is_measured_with_the_bank(examples: FeatureExamples) -> None:
    """Other pairs in the bank, another loss; the batch's own pairs give what an empty bank does."""
    only = {**OFF, "neighbour_weight": 1.0, "neighbours": 2}
    batch, found = batch_of(examples), list[Tensor]()
    for other in (None, batch, batch_of(small_examples(seed=5))):
        one = terms_of("mean_pool", **only)
        if other is not None:
            one.bank.add(one.matcher.encode_text(other.text), one.matcher.encode_video(other.video))
        found.append(one.terms(batch)["neighbours"].detach())
    assert torch.allclose(found[0], found[1])
    assert not torch.allclose(found[0], found[2])


def test_batches_of_one_and_of_one_clip(examples: FeatureExamples) -> None:
    one = terms_of("mean_pool")
    assert all(value.isfinite() for value in one.terms(batch_of(examples, 1)).values())
    whole = replace(batch_of(examples), same=torch.ones(8, 8, dtype=torch.bool))
    assert all(value.isfinite() for value in one.terms(whole).values())
    frames = torch.zeros_like(whole.video.frames)
    nothing = replace(whole, video=replace(whole.video, frames=frames), same=torch.eye(8, dtype=torch.bool))
    assert all(value.isfinite() for value in one.terms(nothing).values())


def cut_short_after_5(step: int, steps: int, figures: Mapping[str, float]) -> None:
    if step == 5:
        raise CutShortError


def test_a_resumed_run_ends_as_one_that_was_left_alone(tmp_path: Path) -> None:
    recipe = replace(knowing("wti"), loop=small_recipe(loop={"epochs": 2}).loop)  # captions of several lengths
    material = small_material()
    train(recipe, material, tmp_path / "whole")
    with pytest.raises(CutShortError):
        train(recipe, material, tmp_path / "broken", RunHooks(watch=cut_short_after_5))
    train(recipe, material, tmp_path / "broken", RunHooks(resume=True))
    whole, broken = (torch.load(tmp_path / name / LAST, weights_only=True) for name in ("whole", "broken"))
    assert all(torch.equal(tensor, broken["state_dict"][name]) for name, tensor in whole["state_dict"].items())
    sizes = [len(text[0]) for text, _ in whole[BANK]]
    assert sizes == [4, 8, 8]
    for one, other in zip(whole[BANK], broken[BANK], strict=True):
        for side, again in zip(one, other, strict=True):
            assert all(torch.equal(tensor, same) for tensor, same in zip(side, again, strict=True))
    assert (tmp_path / "whole" / METRICS).read_bytes() == (tmp_path / "broken" / METRICS).read_bytes()


def test_each_part_is_a_switch_and_changes_the_weights(tmp_path: Path) -> None:
    parts: dict[str, dict[str, Any] | None] = {
        "none": None,
        "centrality": {**OFF, "kappa": 0.3},
        "neighbours": {**OFF, "neighbour_weight": 1.0},
        "uniform": {**OFF, "uniform_weight": 1.0},
    }
    ends = {}
    for name, settings in parts.items():
        plain = small_recipe(loop={"epochs": 1})
        recipe = plain if settings is None else replace(knowing(**settings), loop=plain.loop)
        ends[name] = weights_of(train(recipe, small_material(), tmp_path / name))
        for term in TERMS:
            assert bool(figures_of(tmp_path / name, f"loss/{term}")) == (term == name)
    for name in parts:
        if name != "none":
            assert any(not torch.equal(tensor, ends[name][key]) for key, tensor in ends["none"].items()), name


def test_the_recipe_reads_back(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(recipe_text(knowing(kappa=0.1)))
    assert load_recipe(tmp_path / "recipe.yaml") == knowing(kappa=0.1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"neighbours": 0}, "neighbours: The setting neighbours of neighbours is 0; it must be a whole number"),
        (
            {"bank": 10**6},
            "The setting bank of neighbours is 1000000; it must be a whole number, at least 1 and at most",
        ),
        ({"beta": 1.5}, "The setting beta of neighbours is 1.5; it must be a number between 0 and 1"),
        ({"temperature": 0.0}, "The setting temperature of neighbours is 0.0; it must be a number above 0"),
        ({"kappa": -1.0}, "The setting kappa of neighbours is -1.0"),
        (OFF, "All terms of neighbours have a weight of 0, which changes nothing; set it to null."),
    ],
)
def test_hazard_209_settings_that_cannot_be_followed_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises((RecipeError, UsageError), match=words.replace("(", r"\(")):
        knowing(**settings)
