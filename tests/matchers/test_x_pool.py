"""Text-conditioned pooling: the paper's formula by loops, and the short way of evaluation against it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.matchers import TextBatch, VideoBatch, build_matcher, x_pool_fast
from evenreel.matchers.x_pool import TextConditionedPooling
from evenreel.matchers.x_pool_fast import pooled_cosines
from tests.matchers.examples import DIMENSION, captions, disturb, pairs, scores_of, trained, videos


def normalised(vector: Tensor, layer: nn.LayerNorm) -> Tensor:
    """Layer normalisation by its definition."""
    mean = vector.sum() / len(vector)
    variance = ((vector - mean) ** 2).sum() / len(vector)
    return (vector - mean) / math.sqrt(variance + layer.eps) * layer.weight + layer.bias


def mapped(vector: Tensor, layer: nn.Linear) -> Tensor:
    return layer.weight @ vector + layer.bias


def slow_pooled(pooling: TextConditionedPooling, sentence: Tensor, frames: Tensor) -> Tensor:
    """One caption and the real frames of one video -> (D,)."""
    scale = math.sqrt(len(sentence))
    query = mapped(normalised(sentence * scale, pooling.norm_inputs), pooling.to_query)
    seen = [normalised(frame * scale, pooling.norm_inputs) for frame in frames]
    logits = [float(query @ mapped(frame, pooling.to_key)) / scale for frame in seen]
    raised = [math.exp(logit) for logit in logits]
    attended = sum(one / sum(raised) * mapped(frame, pooling.to_value) for one, frame in zip(raised, seen, strict=True))
    assert isinstance(attended, Tensor)
    pooled = normalised(mapped(attended, pooling.to_output), pooling.norm_pooled)
    return normalised(pooled + mapped(pooled, pooling.linear), pooling.norm_output)


def slow(matcher: Any, text: TextBatch, video: VideoBatch) -> Tensor:
    def score(q: int, v: int) -> float:
        seen = slow_pooled(matcher.pooling, text.sentence[q], video.frames[v][video.frame_mask[v]])
        return float(text.sentence[q] @ seen / seen.norm())

    return torch.tensor([[score(q, v) for v in range(len(video.ids))] for q in range(len(text.ids))]).double()


@torch.no_grad()
def test_as_the_paper_says() -> None:
    matcher = trained("x_pool", 0.3, torch.float64)
    text, video = captions(dtype=torch.float64), videos(dtype=torch.float64)
    expected = slow(matcher, text, video)
    torch.testing.assert_close(scores_of(matcher, text, video), expected, atol=1e-6, rtol=0)
    written = matcher.pooling(text.sentence, video.frames, video.frame_mask)
    torch.testing.assert_close(
        F.cosine_similarity(text.sentence[:, None], written, dim=-1), expected, atol=1e-6, rtol=0
    )


def difficult(seed: int) -> tuple[Tensor, Tensor]:
    """Frames and mask of videos that a difference of squares would get wrong: alone, equal, opposite, nearly so."""
    make = torch.Generator().manual_seed(seed)
    frames = torch.randn(6, 4, 64, generator=make)
    frames[1] = frames[1, :1]
    frames[2, 1] = -frames[2, 0]
    frames[3, 1] = -frames[3, 0] + 1e-3 * frames[3, 2]
    frames[4, 1:] = frames[4, :1] + 1e-4 * frames[4, 1:]
    frames[5] = 1.0  # nothing is left of it after the first normalisation
    mask = torch.arange(4) < torch.tensor([1, 4, 2, 2, 4, 3])[:, None]
    return F.normalize(frames, dim=-1), mask


@given(seed=st.integers(0, 1000), size=st.sampled_from([0.0, 0.02, 0.2, 1.0]))
@torch.no_grad()
def test_the_short_way_is_the_written_way(seed: int, size: float) -> None:
    """Both in single precision, against the written way in double precision: the short way is no worse."""
    pooling = disturb(TextConditionedPooling(64), size).eval()
    sentence = F.normalize(torch.randn(5, 64, generator=torch.Generator().manual_seed(seed + 1)), dim=-1)
    frames, mask = difficult(seed)

    def written(module: TextConditionedPooling, sentence: Tensor, frames: Tensor) -> Tensor:
        return F.cosine_similarity(sentence[:, None], module(sentence, frames, mask), dim=-1).double()

    single = written(pooling, sentence, frames)
    short = pooled_cosines(pooling.texts(sentence), pooling.videos(frames, mask), pooling.norm_output.eps).double()
    exact = written(pooling.double(), sentence.double(), frames.double())
    assert (short - exact).abs().max() <= max(1e-5, 2 * float((single - exact).abs().max()))


@torch.no_grad()
def test_chunks_are_no_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher, text, video = trained("x_pool", 0.3, torch.float64), captions(), videos()
    matcher.float()
    whole = scores_of(matcher, text, video)
    monkeypatch.setattr(x_pool_fast, "CHUNK_NUMBERS", 1)
    torch.testing.assert_close(scores_of(matcher, text, video), whole)


def test_maps_start_as_the_identity() -> None:
    """At step 0 a video is the layer-normalised mean that the softmax of plain products gives."""
    pooling = TextConditionedPooling(DIMENSION).eval()
    sentence, video = captions().sentence, videos()
    norm = lambda rows: F.layer_norm(rows, (DIMENSION,))  # noqa: E731
    query, frames = norm(sentence * math.sqrt(DIMENSION)), norm(video.frames * math.sqrt(DIMENSION))
    for v, real in enumerate(video.frame_mask):
        weights = (query @ frames[v][real].T / math.sqrt(DIMENSION)).softmax(-1)
        expected = norm(2 * norm(weights @ frames[v][real]))
        torch.testing.assert_close(pooling(sentence, video.frames, video.frame_mask)[:, v], expected)


def test_each_entry_is_pooled_by_its_own_caption() -> None:
    """Other captions of the table leave a score as it is, so none of them tells which is right."""
    matcher, text, video = build_matcher("x_pool", DIMENSION), captions(), videos()
    with torch.no_grad():
        alone = [
            matcher.score(matcher.encode_text(captions((5,), seed=s)), matcher.encode_video(video)) for s in (0, 9)
        ]
        both = matcher.score(matcher.encode_text(text), matcher.encode_video(video))
    assert not torch.allclose(alone[0], alone[1])
    state = matcher.encode_text(text)
    for row in range(len(text.ids)):
        one = type(state)(*(tensor[row : row + 1] for tensor in state))
        torch.testing.assert_close(matcher.score(one, matcher.encode_video(video))[0], both[row])


def test_training_drops_out_and_evaluation_does_not() -> None:
    torch.manual_seed(0)
    matcher: Any = build_matcher("x_pool", DIMENSION, {"dropout": 0.5})
    batch = pairs(captions(), videos())
    losses = {matcher.loss(batch)["contrastive"].item() for _ in range(3)}
    assert len(losses) == 3
    assert len({matcher.eval().loss(batch)["contrastive"].item() for _ in range(3)}) == 1
    torch.testing.assert_close(
        scores_of(matcher.train(), batch.text, batch.video), scores_of(matcher.eval(), batch.text, batch.video)
    )
