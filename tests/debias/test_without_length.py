"""Frames without what lengths explain of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from evenreel.checkpoint.architecture import build
from evenreel.checkpoint.records import MatcherSpec
from evenreel.debias.without_length import LengthRemoval, WithoutLength, length_effect, spans_s
from evenreel.errors import UsageError
from evenreel.matchers.batches import TextBatch, VideoBatch, text_batch, video_batch
from evenreel.matchers.mean_pool import MeanPool, MeanPoolSettings
from evenreel.types import TextFeatures, VideoFeatures

COUNT, FRAMES, SIZE, CAPTION = 400, 3, 6, 5


def unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def biased_pairs(tilt: float = 0.9) -> tuple[TextFeatures, VideoFeatures]:
    """Captions say what frames show; how long a clip is goes with it by the tilt, and moves its frames."""
    rng = np.random.default_rng(0)
    meaning = rng.standard_normal((COUNT, CAPTION))
    lengths = np.exp(tilt * meaning[:, 0] + np.sqrt(1 - tilt**2) * rng.standard_normal(COUNT))
    ranks = lengths.argsort().argsort() / COUNT
    shown = meaning @ rng.standard_normal((CAPTION, SIZE)) + 3 * np.outer(np.cos(np.pi * ranks), np.eye(SIZE)[0])
    frames = unit(8 * rng.standard_normal(SIZE) + shown[:, None] + 0.1 * rng.standard_normal((COUNT, FRAMES, SIZE)))
    ids = tuple(f"v{row}" for row in range(COUNT))
    times = lengths[:, None] * (np.arange(FRAMES) + 0.5) / FRAMES
    texts = TextFeatures(ids, unit(meaning)[:, None], np.ones((COUNT, 1), bool), unit(meaning))
    return texts, VideoFeatures(ids, frames, np.ones((COUNT, FRAMES), bool), times)


def batches(texts: TextFeatures, videos: VideoFeatures, size: int = 150) -> list[tuple[TextBatch, VideoBatch]]:
    parts = [slice(first, first + size) for first in range(0, COUNT, size)]
    return [(text_batch(texts, part), video_batch(videos, part)) for part in parts]


def fitted(terms: int = 4) -> tuple[WithoutLength, TextFeatures, VideoFeatures]:
    texts, videos = biased_pairs()
    matcher = WithoutLength(MeanPool(SIZE, MeanPoolSettings()), SIZE, LengthRemoval(terms))
    matcher.fit_pairs(lambda: batches(texts, videos))
    return matcher, texts, videos


def test_the_effect_is_that_of_least_squares_on_terms_and_captions() -> None:
    matcher, texts, videos = fitted()
    spans = videos.times_s[:, -1] - videos.times_s[:, 0]
    ranks = [sum((other < span) + (other == span) / 2 for other in spans) / COUNT for span in spans]
    columns = [
        [np.cos(k * np.arccos(2 * rank - 1)) for k in range(5)] + list(text)
        for rank, text in zip(ranks, texts.sentence.astype(float), strict=True)
    ]
    found = np.linalg.lstsq(np.array(columns), videos.frames.astype(float).mean(1), rcond=None)[0][:5]
    explained = np.array(columns)[:, :5] @ found
    expected = videos.frames - (explained - explained.mean(0))[:, None]
    cleared = matcher.adapt_video(video_batch(videos)).frames.numpy()
    assert cleared == pytest.approx(unit(expected), abs=5e-3)  # ranks are looked up among 1,001 quantiles


def test_before_it_is_fitted_nothing_changes() -> None:
    _, videos = biased_pairs()
    inner = MeanPool(SIZE, MeanPoolSettings())
    matcher = WithoutLength(inner, SIZE, LengthRemoval())
    batch = video_batch(videos)
    assert torch.allclose(matcher.adapt_video(batch).frames, batch.frames, atol=1e-6)


def test_more_padding_and_another_batch_change_nothing() -> None:
    matcher, _, videos = fitted()
    wide = VideoFeatures(
        videos.ids,
        np.pad(videos.frames, [(0, 0), (0, 2), (0, 0)]),
        np.pad(videos.frame_mask, [(0, 0), (0, 2)]),
        np.pad(videos.times_s, [(0, 0), (0, 2)]),
    )
    wide.frame_mask[0, 3:] = False
    whole = matcher.adapt_video(video_batch(videos)).frames
    longer = replace(
        video_batch(videos),
        frames=torch.from_numpy(wide.frames),
        frame_mask=torch.from_numpy(wide.frame_mask),
        times_s=torch.from_numpy(wide.times_s).float(),
    )
    assert torch.equal(matcher.adapt_video(longer).frames[:, :3], whole)
    assert not matcher.adapt_video(longer).frames[:, 3:].any()
    assert torch.allclose(matcher.adapt_video(video_batch(videos, slice(7, 9))).frames, whole[7:9], atol=1e-6)


def test_the_span_of_a_clip_is_that_of_its_real_frames() -> None:
    mask = torch.tensor([[True, True, False], [True, False, False]])
    video = VideoBatch(("a", "b"), torch.zeros(2, 3, 1), mask, torch.tensor([[1.0, 4.0, 0.0], [2.0, 9.0, 9.0]]))
    assert spans_s(video).tolist() == [3.0, 0.0]


def test_what_cannot_be_fitted_is_refused() -> None:
    matcher, texts, videos = fitted()
    with pytest.raises(UsageError, match="one length"):
        matcher.fit_pairs(lambda: batches(texts, replace(videos, times_s=np.zeros_like(videos.times_s))))
    with pytest.raises(UsageError, match="needs 20"):
        length_effect([(torch.ones(19, 5), torch.ones(19, 5), torch.ones(19, SIZE))])
    with pytest.raises(UsageError, match="No text tower"):
        length_effect([(torch.ones(19, 5), torch.ones(19, 0), torch.ones(19, SIZE))])
    with pytest.raises(UsageError, match="terms"):
        LengthRemoval(0)


def test_a_spec_builds_it_around_the_adapter() -> None:
    spec = MatcherSpec("without_length", {"terms": 3}, (MatcherSpec("adapted", {}, (MatcherSpec("mean_pool"),)),))
    matcher = build(spec, SIZE)
    assert isinstance(matcher, WithoutLength) and matcher.effect.shape == (4, SIZE)
