"""X-CLIP against loops from its formula, and how far the public code's missing masks carry."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.errors import UsageError
from evenreel.matchers import build_matcher
from evenreel.matchers.x_clip import XClip, XClipSettings
from tests.matchers.examples import DIMENSION, captions, disturb, scores_of, videos


def matcher(layers: int = 0) -> XClip:
    """Small, its matrices no longer the identity, a temperature that leaves no weight at zero."""
    settings = XClipSettings(max_words=7, max_frames=5, attention_temperature=0.5, temporal_layers=layers, heads=2)
    torch.manual_seed(0)
    built: XClip = disturb(XClip(DIMENSION, settings), 0.3).double().eval().requires_grad_(False)
    return built


def weighted(alike: list[Tensor], mix: Tensor) -> Tensor:
    """Softmax at temperature 0.5, mixed: weight j is the sum over i of softmax i times mix (i, j)."""
    powers = [math.exp(float(value) / 0.5) for value in alike]
    soft = [power / sum(powers) for power in powers]
    total = torch.zeros((), dtype=torch.float64)
    for j, value in enumerate(alike):
        total = total + sum(soft[i] * mix[i, j] for i in range(len(alike))) * value
    return total


def by_loops(model: XClip, sentence: Tensor, words: list[Tensor], frames: list[Tensor], video: Tensor) -> Tensor:
    """One caption and one video: the four similarities of section 3 and their mean."""
    unit = [word / word.norm() for word in words]
    video_sentence = sentence @ model.sentence_video @ video
    video_word = weighted([word @ video for word in unit], model.video_word_mix)
    sentence_frame = weighted([sentence @ frame for frame in frames], model.sentence_frame_mix)
    alike = [[word @ model.word_frame @ frame for frame in frames] for word in unit]
    of_frames = [weighted([row[f] for row in alike], model.word_mixes[0]) for f in range(len(frames))]
    of_words = [weighted(row, model.frame_mixes[0]) for row in alike]
    frame_word = (weighted(of_frames, model.frame_mixes[1]) + weighted(of_words, model.word_mixes[1])) / 2
    return (video_sentence + video_word + sentence_frame + frame_word) / 4


@pytest.mark.parametrize("layers", [0, 1])
def test_against_loops(layers: int) -> None:
    model, text, video = matcher(layers), captions(dtype=torch.float64), videos(dtype=torch.float64)
    scores = scores_of(model, text, video)
    for row, word_mask in enumerate(text.word_mask):
        for column, frame_mask in enumerate(video.frame_mask):
            frames = video.frames[column][frame_mask]
            seen = frames
            if model.temporal is not None:  # held to its own formula in test_temporal.py
                seen = model.temporal(frames[None], torch.ones(1, len(frames), dtype=torch.bool))[0]
            mean = F.normalize(seen.mean(0), dim=0)
            expected = by_loops(model, text.sentence[row], list(text.words[row][word_mask]), list(frames), mean)
            torch.testing.assert_close(scores[row, column], expected, atol=1e-10, rtol=0)


def test_one_word_and_one_frame_by_hand() -> None:
    """Everything is the same cosine then, 0.6, and so is its mean, while the matrices are the identity."""
    text, video = captions((1,)), videos((1,))
    sentence = torch.zeros(1, DIMENSION)
    sentence[0, 0] = 1.0
    frame = torch.zeros(1, 1, DIMENSION)
    frame[0, 0, :2] = torch.tensor([0.6, 0.8])
    model = XClip(DIMENSION, XClipSettings(temporal_layers=0)).eval()
    scores = scores_of(
        model, replace(text, words=7 * sentence[:, None], sentence=sentence), replace(video, frames=frame)
    )
    assert math.isclose(scores.item(), 0.6, rel_tol=1e-6)


def public_form(model: XClip, words: Tensor, frames: Tensor) -> Tensor:
    """Frame-word similarity as the public code has it: padding takes part as if it were a word or a frame."""
    alike = torch.einsum("qwd,de,vfe->qvwf", F.normalize(words, dim=-1), model.word_frame, frames)

    def sums(values: Tensor, mix: Tensor) -> Tensor:
        size = values.shape[-1]
        return ((values / 0.5).softmax(-1) @ mix[:size, :size] * values).sum(-1)

    over_frames = sums(sums(alike.mT, model.word_mixes[0]), model.frame_mixes[1])
    over_words = sums(sums(alike, model.frame_mixes[0]), model.word_mixes[1])
    return (over_frames + over_words) / 2


def test_the_public_code_lets_padding_take_part() -> None:
    """The same without padding; with it, its scores depend on how long the other captions of the batch are."""
    model = matcher()
    text, video = captions((4, 4), dtype=torch.float64), videos((3, 3), dtype=torch.float64)
    ours = model._frame_word(model.encode_text(text), model.encode_video(video))
    torch.testing.assert_close(public_form(model, text.words, video.frames), ours, atol=1e-10, rtol=0)

    words = F.pad(text.words, (0, 0, 0, 3))
    longer = replace(text, words=words, word_mask=F.pad(text.word_mask, (0, 3)))
    torch.testing.assert_close(model._frame_word(model.encode_text(longer), model.encode_video(video)), ours)
    assert (public_form(model, words, video.frames) - ours).abs().max() > 0.01


def test_lengths_past_the_learned_mixes() -> None:
    model = build_matcher("x_clip", DIMENSION, {"max_words": 4, "max_frames": 3, "temporal_layers": 0})
    with pytest.raises(
        UsageError, match=r"A caption has 5 words, but this matcher was built for 4 .* max_words=5 or more"
    ):
        model.encode_text(captions((2, 5)))
    with pytest.raises(
        UsageError, match=r"A clip has 4 frames, but this matcher was built for 3 .* max_frames=4 or more"
    ):
        model.encode_video(videos((4, 1)))
    text, video = captions((4, 2)), videos((3, 1))
    longer = replace(text, words=F.pad(text.words, (0, 0, 0, 3)), word_mask=F.pad(text.word_mask, (0, 3)))
    torch.testing.assert_close(scores_of(model, longer, video), scores_of(model, text, video))
