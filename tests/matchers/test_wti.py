"""Weighted token interaction from features to scores, against loops over captions, videos, words and frames."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.matchers import TextBatch, VideoBatch, build_matcher
from tests.matchers.examples import DIMENSION, captions, scores_of, trained, videos


def weights_of(vectors: list[Tensor], network: nn.Module | None) -> list[float]:
    if network is None:
        return [1 / len(vectors)] * len(vectors)
    raised = [math.exp(network(vector * math.sqrt(DIMENSION)).item()) for vector in vectors]
    return [one / sum(raised) for one in raised]


def slow(matcher: Any, text: TextBatch, video: VideoBatch) -> Tensor:
    table = torch.zeros(len(text.ids), len(video.ids), dtype=torch.float64)
    for q in range(len(text.ids)):
        words = [word / word.norm() for word in text.words[q][text.word_mask[q]]]
        for v in range(len(video.ids)):
            frames = [frame / frame.norm() for frame in video.frames[v][video.frame_mask[v]]]
            of_words = [max(float(word @ frame) for frame in frames) for word in words]
            of_frames = [max(float(word @ frame) for word in words) for frame in frames]
            both = (
                (of_words, weights_of(words, matcher.word_weights)),
                (of_frames, weights_of(frames, matcher.frame_weights)),
            )
            table[q, v] = sum(weight * best for found, by in both for best, weight in zip(found, by, strict=True)) / 2
    return table


@pytest.mark.parametrize("settings", [{"kind": "ti"}, {}, {"weight_layers": 1}, {"weight_layers": 3}], ids=str)
@torch.no_grad()
def test_as_the_formula_says(settings: dict[str, Any]) -> None:
    matcher = trained("wti", 0.3, torch.float64, **settings)
    text, video = captions(dtype=torch.float64), videos(dtype=torch.float64)
    torch.testing.assert_close(scores_of(matcher, text, video), slow(matcher, text, video), atol=1e-12, rtol=0)


def test_training_starts_at_equal_weights() -> None:
    text, video = captions(), videos()
    torch.testing.assert_close(
        scores_of(build_matcher("wti", DIMENSION), text, video),
        scores_of(build_matcher("wti", DIMENSION, {"kind": "ti"}), text, video),
    )


def test_equal_single_tokens_score_one() -> None:
    text, video = captions((1,)), videos((1,))
    video = replace(video, frames=F.normalize(text.words, dim=-1))
    torch.testing.assert_close(scores_of(build_matcher("wti", DIMENSION), text, video), torch.ones(1, 1))


def test_frames_go_through_the_temporal_blocks_once_a_video() -> None:
    matcher = trained("wti", 0.3, torch.float64, temporal_layers=1, heads=2)
    text, video = captions(dtype=torch.float64), videos(dtype=torch.float64)
    with torch.no_grad():
        seen = replace(video, frames=matcher.temporal(video.frames, video.frame_mask))
        assert not torch.allclose(seen.frames, video.frames)
        torch.testing.assert_close(scores_of(matcher, text, video), slow(matcher, text, seen), atol=1e-12, rtol=0)
