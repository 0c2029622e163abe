"""Matchers with weights that are not those they start with, and features to score."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, RecordedMetric
from evenreel.checkpoint.architecture import build, module
from evenreel.matchers import TextBatch, VideoBatch
from tests.matchers.examples import graph

DIMENSION = 16
ENCODER = EncoderNote("openai/clip-vit-base-patch32@c237dc49", "0f" * 32, DIMENSION)


def trained(spec: MatcherSpec, about: About | None = None) -> Pretrained:
    """A matcher whose every weight was moved from where it starts, as training does."""
    torch.manual_seed(7)
    matcher = build(spec, DIMENSION)
    with torch.no_grad():
        for parameter in module(matcher).parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    module(matcher).eval()
    return Pretrained(matcher, spec, about or About(ENCODER))


def scores(pretrained: Pretrained) -> torch.Tensor:
    """Of five captions and four videos, random ones with padding."""
    generator = torch.Generator().manual_seed(1)
    unit = torch.nn.functional.normalize
    words = torch.randn(5, 6, DIMENSION, generator=generator)
    word_mask = torch.arange(6) < torch.tensor([[6], [1], [3], [4], [2]])
    frames = unit(torch.randn(4, 3, DIMENSION, generator=generator), dim=-1)
    frame_mask = torch.arange(3) < torch.tensor([[3], [1], [2], [3]])
    graphs = tuple(graph(int(length), row) for row, length in enumerate(word_mask.sum(1)))
    text = TextBatch(tuple("abcde"), words * word_mask[..., None], word_mask, unit(words[:, 0], dim=-1), graphs)
    video = VideoBatch(tuple("vwxy"), frames * frame_mask[..., None], frame_mask, torch.zeros(4, 3))
    matcher = pretrained.matcher
    with torch.inference_mode():
        return matcher.score(matcher.encode_text(text), matcher.encode_video(video))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with the checkpoint of a small matcher, that a test may change."""
    from evenreel.checkpoint import save_pretrained

    about = About(
        ENCODER,
        Inputs(frames=12, words=32, rule="x_pool 12"),
        corpus="msrvtt-1ka",
        split="train",
        recipe="name: msrvtt-9k/temporal\nloop: {epochs: 5}\n",
        recipe_note="The settings of the paper.",
        clips_note=("Left out for their length: 2 of 6 clips.",),
        uses=("class lengths of the split test",),
        metrics=(
            RecordedMetric("R@1 t2v", 44.5, 41.3, 47.6, "msrvtt-1ka test"),
            RecordedMetric("nDCG t2v", 62.0, data="msrvtt-1ka test", relevance="classes", uses=("a bank",)),
        ),
        limits=("It has seen no film.",),
        license="apache-2.0",
    )
    folder = tmp_path / "checkpoint"
    save_pretrained(folder, trained(MatcherSpec("temporal", {"layers": 1, "heads": 2, "max_frames": 12}), about))
    return folder
