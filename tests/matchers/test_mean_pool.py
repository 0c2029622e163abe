"""The parameter-free matcher against loops and a case by hand."""

from __future__ import annotations

import math

import torch

from evenreel.matchers import PairBatch, TextBatch, VideoBatch
from tests.matchers.examples import captions, scores_of, small, videos


def test_it_is_the_cosine_of_sentence_and_mean_frame() -> None:
    text, video = captions(dtype=torch.float64), videos(dtype=torch.float64)
    scores = scores_of(small("mean_pool").double(), text, video)
    for row, sentence in enumerate(text.sentence):
        for column in range(len(video.ids)):
            real = [frame for frame, there in zip(video.frames[column], video.frame_mask[column], strict=True) if there]
            mean = sum(real) / len(real)
            expected = float(sentence @ mean) / math.sqrt(float(mean @ mean))
            assert math.isclose(float(scores[row, column]), expected, rel_tol=1e-12)


def test_a_case_by_hand() -> None:
    """Frames up and right have their mean between them: cosine of 45 degrees with both axes."""
    text = TextBatch(("a",), torch.ones(1, 1, 2), torch.tensor([[True]]), torch.tensor([[1.0, 0.0]]))
    video = VideoBatch(("v",), torch.eye(2)[None], torch.tensor([[True, True]]), torch.zeros(1, 2))
    assert math.isclose(scores_of(small("mean_pool"), text, video).item(), math.sqrt(0.5), rel_tol=1e-6)


def test_frames_of_other_lengths_count_alike() -> None:
    """A frame's length says nothing: features stored in half precision have lengths that are not quite one."""
    text, video = captions(), videos()
    scores = scores_of(small("mean_pool"), text, video)
    video.frames[:, 1] *= 3
    torch.testing.assert_close(scores_of(small("mean_pool"), text, video), scores)


def test_the_loss_by_hand() -> None:
    """Two pairs at right angles to each other, temperature 1: -log(e / (e + 1)) in both directions."""
    matcher = small("mean_pool")
    with torch.no_grad():
        matcher.logit_scale.zero_()
    text = TextBatch(("a", "b"), torch.ones(2, 1, 2), torch.ones(2, 1, dtype=torch.bool), torch.eye(2))
    video = VideoBatch(("v", "w"), torch.eye(2)[:, None], torch.ones(2, 1, dtype=torch.bool), torch.zeros(2, 1))
    terms = matcher.loss(PairBatch(text, video, torch.eye(2, dtype=torch.bool)))
    assert list(terms) == ["contrastive"]
    assert math.isclose(terms["contrastive"].item(), math.log(1 + math.exp(-1)), rel_tol=1e-6)
