"""Matchers with weights that are not those they start with, and features to score."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, RecordedMetric
from evenreel.checkpoint.architecture import build
from tests.matchers.examples import captions, disturb, scores_of, videos

DIMENSION = 16
ENCODER = EncoderNote("openai/clip-vit-base-patch32@c237dc49", "0f" * 32, DIMENSION)


def trained(spec: MatcherSpec, about: About | None = None) -> Pretrained:
    """A matcher whose every weight was moved from where it starts, as training does."""
    about = about or About(ENCODER)
    torch.manual_seed(7)
    return Pretrained(disturb(build(spec, about.encoder.dimension)).eval(), spec, about)


def scores(pretrained: Pretrained) -> torch.Tensor:
    """Of five captions and four videos, random ones with padding."""
    return scores_of(pretrained.matcher, captions((6, 1, 3, 4, 2)), videos((3, 1, 2, 3)))


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
