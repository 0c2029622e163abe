"""The temporal transformer against loops over heads, frames and layers, and what it must and must not see."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.matchers.temporal import TemporalSettings, TemporalTransformer
from tests.matchers.examples import DIMENSION, captions, disturb, scores_of, small, trained, videos

SETTINGS = TemporalSettings(layers=2, heads=2, max_frames=6)


def normed(vector: Tensor, norm: nn.LayerNorm) -> Tensor:
    spread = vector - vector.mean()
    return spread / torch.sqrt((spread**2).mean() + norm.eps) * norm.weight + norm.bias


def attended(items: list[Tensor], attention: nn.MultiheadAttention) -> list[Tensor]:
    """Multi-head attention of real items on each other, one head and one item at a time."""
    size = DIMENSION // attention.num_heads
    query, key, value = (
        [weight @ item + bias for item in items]
        for weight, bias in zip(attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3), strict=True)
    )
    seen = []
    for asked in query:
        heads = []
        for head in range(attention.num_heads):
            part = slice(head * size, (head + 1) * size)
            logits = torch.stack([asked[part] @ other[part] / math.sqrt(size) for other in key])
            weights = logits.exp() / logits.exp().sum()
            heads.append(sum(weight * other[part] for weight, other in zip(weights, value, strict=True)))
        seen.append(attention.out_proj(torch.cat(heads)))
    return seen


def by_loops(transformer: TemporalTransformer, frames: list[Tensor]) -> list[Tensor]:
    """The formula: frames plus what pre-norm blocks add to frames with positions, all at size one."""
    scaled = [math.sqrt(DIMENSION) * frame for frame in frames]
    start = [frame + transformer.positions.weight[place] for place, frame in enumerate(scaled)]
    items = start
    for block in transformer.blocks:
        looked = attended([normed(item, block.norm1) for item in items], block.self_attn)
        items = [item + more for item, more in zip(items, looked, strict=True)]
        grown = [block.linear1(normed(item, block.norm2)) for item in items]
        items = [
            item + block.linear2(wide / (1 + torch.exp(-1.702 * wide))) for item, wide in zip(items, grown, strict=True)
        ]
    sums = [frame + end - begin for frame, end, begin in zip(scaled, items, start, strict=True)]
    return [vector / vector.norm() for vector in sums]


@pytest.mark.parametrize("training", [False, True])
def test_against_loops(training: bool) -> None:
    transformer = disturb(TemporalTransformer(DIMENSION, SETTINGS), 0.3).double().train(training)
    video = videos(dtype=torch.float64)
    seen = transformer(video.frames, video.frame_mask)
    for row, mask in enumerate(video.frame_mask):
        count = int(mask.sum())
        expected = by_loops(transformer, list(video.frames[row, :count]))
        torch.testing.assert_close(seen[row, :count], torch.stack(expected), atol=1e-10, rtol=0)
        assert not seen[row, count:].any()


def test_scores_are_those_of_the_mean_of_what_it_gives() -> None:
    matcher, text, video = trained("temporal", dtype=torch.float64), captions(dtype=torch.float64), videos()
    scores = scores_of(matcher, text, videos(dtype=torch.float64))
    for column, mask in enumerate(video.frame_mask):
        frames = videos(dtype=torch.float64).frames[column][mask]
        mean = torch.stack(by_loops(matcher.transformer, list(frames))).mean(0)
        torch.testing.assert_close(scores[:, column], text.sentence @ mean / mean.norm(), atol=1e-10, rtol=0)


def test_training_starts_at_mean_pool() -> None:
    text, video = captions(), videos()
    torch.testing.assert_close(
        scores_of(small("temporal"), text, video), scores_of(small("mean_pool"), text, video), atol=1e-6, rtol=0
    )


def test_places_are_counted_among_real_frames() -> None:
    """A gap in the middle is as good as none: windows without text stand behind frames that way."""
    transformer = disturb(TemporalTransformer(DIMENSION, SETTINGS), 0.3).eval()
    frames = F.normalize(torch.randn(1, 3, DIMENSION), dim=-1)
    gap = torch.cat([frames[:, :1], torch.randn(1, 2, DIMENSION), frames[:, 1:]], dim=1)
    mask = torch.tensor([[True, False, False, True, True]])
    torch.testing.assert_close(
        transformer(gap, mask)[mask], transformer(frames, torch.ones(1, 3, dtype=torch.bool))[0], atol=1e-6, rtol=0
    )


def test_too_many_frames() -> None:
    transformer = TemporalTransformer(DIMENSION, SETTINGS)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[0, 2:] = False
    with pytest.raises(UsageError, match=r"A clip has 9 frames, .* 6 frame positions; .* max_frames=9 or more"):
        transformer(torch.randn(2, 9, DIMENSION), mask)
    mask[:, 6:] = False  # padding needs no positions
    assert transformer(torch.randn(2, 9, DIMENSION), mask).isfinite().all()


def test_dropout_is_for_training_only() -> None:
    transformer = disturb(TemporalTransformer(DIMENSION, TemporalSettings(layers=1, heads=2, dropout=0.5)))
    video = videos()
    first, second = (transformer(video.frames, video.frame_mask) for _ in range(2))
    assert not torch.equal(first, second)
    transformer.eval()
    assert torch.equal(*(transformer(video.frames, video.frame_mask) for _ in range(2)))
