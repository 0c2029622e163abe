"""T-MASS against loops, its evaluation against the leak of the public one, and its noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.losses import info_nce
from evenreel.matchers import build_matcher
from evenreel.matchers.t_mass import TMass, TMassSettings, best_draw
from tests.matchers.examples import DIMENSION, captions, disturb, pairs, scores_of, videos

ROOT = math.sqrt(DIMENSION)


def matcher(size: float = 0.1, **settings: Any) -> TMass:
    torch.manual_seed(0)
    built: TMass = disturb(TMass(DIMENSION, TMassSettings(max_frames=6, trials=5, dropout=0.0, **settings)), size)
    return built.double().requires_grad_(False)


def pooled(model: TMass, sentence: Tensor, frames: Tensor) -> Tensor:
    """One video for one caption, (D,); the pooling is held to its own formula in test_x_pool.py."""
    mask = torch.ones(1, len(frames), dtype=torch.bool)
    return model.pooling(sentence[None], frames[None], mask)[0, 0]


def radius(model: TMass, sentence: Tensor, frames: Tensor) -> Tensor:
    """exp(b + sum_f W_f <t, f>), (D,)."""
    total = model.log_radius.bias.clone()
    for place, frame in enumerate(frames):
        total += model.log_radius.weight[:, place] * (sentence @ frame)
    return total.exp()


def cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / one.norm() / other.norm())


@pytest.mark.parametrize("prior", ["uniform", "normal"])
def test_scores_against_loops(prior: str) -> None:
    model = matcher(prior=prior, prior_std=0.5).eval()
    text, video = captions(dtype=torch.float64), videos(dtype=torch.float64)
    scores = scores_of(model, text, video)
    for row, sentence in enumerate(text.sentence):
        for column, mask in enumerate(video.frame_mask):
            frames = video.frames[column][mask]
            view, cloud = pooled(model, sentence, frames), radius(model, sentence, frames)
            draws = [cosine(ROOT * sentence + cloud * noise, view) for noise in model.noise]
            assert float(scores[row, column]) == pytest.approx(max(draws), abs=1e-10)


def test_the_loss_against_loops() -> None:
    model, text, video = matcher().train(), captions(dtype=torch.float64), videos(dtype=torch.float64)
    batch = pairs(text, video)
    torch.manual_seed(5)
    terms = model.loss(batch)
    torch.manual_seed(5)
    noise = torch.rand(5, DIMENSION, dtype=torch.float64)
    frames = [video.frames[column][mask] for column, mask in enumerate(video.frame_mask)]
    views = [[pooled(model, sentence, each) for each in frames] for sentence in text.sentence]
    drawn, facing = [], []
    for row, sentence in enumerate(text.sentence):
        cloud = radius(model, sentence, frames[row])
        mean = torch.stack([views[other][row] for other in range(5)]).mean(0)
        way = (mean - ROOT * sentence) / (mean - ROOT * sentence).norm()
        drawn.append(ROOT * sentence + cloud * noise[row])
        facing.append(ROOT * sentence + cloud * way)
    for name, texts, weight in (("stochastic", drawn, 1.0), ("support", facing, 0.8)):
        table = [[cosine(texts[row], views[row][column]) for column in range(5)] for row in range(5)]
        expected = weight * info_nce(torch.tensor(table), batch.same, model.logit_scale.exp())
        assert terms[name].item() == pytest.approx(expected.item(), abs=1e-5)
    assert list(terms) == ["stochastic", "support"]


def public_entry(model: TMass, text: Tensor, frames: list[Tensor], described_by: list[int]) -> Tensor:
    """The table of the public evaluation: the video pooled by the caption that describes it, for whoever asks."""
    table = torch.zeros(len(text), len(frames))
    for row, sentence in enumerate(text):
        for column, each in enumerate(frames):
            view = pooled(model, sentence, each)  # picks the draw
            cloud = radius(model, sentence, each)
            draws = [ROOT * sentence + cloud * noise for noise in model.noise]
            best = max(draws, key=lambda draw: cosine(draw, view))
            table[row, column] = cosine(best, pooled(model, text[described_by[column]], each))
    return table


def test_the_public_evaluation_asks_who_describes_a_video_and_ours_does_not() -> None:
    """Say that another caption describes a video, and the public scores of a third one change. Ours have no such input.

    On the diagonal, where both pool by the right caption, they agree.
    """
    model, text = matcher(size=0.3).eval(), captions((3,) * 4, dtype=torch.float64)
    video = videos((4,) * 4, dtype=torch.float64)
    frames = list(video.frames)
    ours = scores_of(model, text, video).float()
    truth, swapped = (public_entry(model, text.sentence, frames, order) for order in ([0, 1, 2, 3], [0, 1, 3, 2]))
    torch.testing.assert_close(truth.diagonal(), ours.diagonal())
    assert (truth - ours).abs().max() > 0.01
    assert (truth - swapped)[:2, 2:].abs().max() > 0.01  # captions 0 and 1 were not touched
    for row in range(4):  # alone with all videos, a caption has the scores it has among others
        alone = replace(
            text, words=text.words[[row]], word_mask=text.word_mask[[row]], sentence=text.sentence[[row]], ids=("x",)
        )
        torch.testing.assert_close(scores_of(model, alone, video)[0].float(), ours[row])


def test_each_entry_is_made_of_its_own_caption_and_video() -> None:
    """Provenance: the gradient of an entry reaches one caption and one video."""
    model, text, video = matcher().eval(), captions(dtype=torch.float64), videos(dtype=torch.float64)
    sentence, frames = text.sentence.requires_grad_(), video.frames.requires_grad_()
    scores = model.score(model.encode_text(text), model.encode_video(video))
    of_text, of_video = torch.autograd.grad(scores[1, 3], (sentence, frames))
    assert of_text.any(dim=1).nonzero().flatten().tolist() == [1]
    assert of_video.flatten(1).any(dim=1).nonzero().flatten().tolist() == [3]


def test_large_tables_are_scored_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model, text, video = matcher().eval(), captions(dtype=torch.float64), videos(dtype=torch.float64)
    at_once = scores_of(model, text, video)
    monkeypatch.setattr("evenreel.matchers.t_mass.CHUNK_NUMBERS", 4 * DIMENSION)
    torch.testing.assert_close(scores_of(model, text, video), at_once, atol=1e-12, rtol=0)


def test_more_draws_never_fit_worse() -> None:
    make = torch.Generator().manual_seed(0)
    centre, clouds = torch.randn(3, 8, generator=make), torch.rand(3, 4, 8, generator=make)
    views = F.normalize(torch.randn(3, 4, 8, generator=make), dim=-1)
    noise = torch.rand(9, 8, generator=make)
    assert (best_draw(centre, clouds, views, noise) >= best_draw(centre, clouds, views, noise[:3])).all()
    no_noise = best_draw(centre, clouds, views, torch.zeros(1, 8))
    torch.testing.assert_close(no_noise, torch.einsum("qd,qvd->qv", F.normalize(centre, dim=-1), views))


def test_noise_of_evaluation_is_that_of_its_seed() -> None:
    def noise(**settings: Any) -> Tensor:
        return build_matcher("t_mass", 8, settings).noise  # type: ignore[attr-defined,no-any-return]

    torch.manual_seed(1)
    first = noise()
    torch.manual_seed(2)
    assert torch.equal(noise(), first)
    assert not torch.equal(noise(noise_seed=1), first)
    assert first.shape == (20, 8)
    assert 0 <= first.min() < first.max() < 1
    many = noise(prior="normal", prior_std=0.003, trials=2000)
    assert many.std().item() == pytest.approx(0.003, rel=0.02)
    assert abs(many.mean().item()) < 1e-4


def test_the_radius_starts_where_it_is_told_to() -> None:
    model = TMass(DIMENSION, TMassSettings(radius=2.3))
    radii = model._radius(torch.rand(3, 4), torch.ones(3, 4, dtype=torch.bool))
    torch.testing.assert_close(radii, torch.full((3, DIMENSION), 2.3))
