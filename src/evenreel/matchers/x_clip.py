"""X-CLIP (arXiv 2207.07285, section 3): the mean of four similarities of coarse and fine parts.

They are of sentence and video, words and video, sentence and frames, words and frames. Similarities to parts are summed
up by attention over the parts (AOSM): each is weighted by the softmax of the similarities themselves at a low
temperature, followed by a learned mix of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evenreel.config import ABOVE_0, MOST_LAYERS, MOST_SIZE, SHARE, check_settings, whole
from evenreel.matchers.batches import TextBatch, VideoBatch
from evenreel.matchers.matcher import ContrastiveMatcher, Entry, Limits, cut, logit_scale_at
from evenreel.matchers.temporal import temporal_blocks
from evenreel.similarity.interaction import TableSide, attend, in_chunks, masked_mean, token_products


@dataclass(frozen=True)
class XClipSettings:
    """Settings of the matcher X-CLIP: sizes of its learned matrices, and the transformer over frames.

    Attributes:
        max_words: greatest number of words of a caption; matrices that mix the weights of words are of this size.
        max_frames: greatest number of frames of a clip; matrices that mix the weights of frames are of this size.
        attention_temperature: temperature of the softmax that weights words and frames.
        temporal_layers: number of transformer blocks over the frames before their mean; the frames that are compared
            one by one do not go through them. 0 for none.
        heads: number of attention heads of these blocks.
        dropout: share of values dropped in these blocks while training.
        temperature: temperature of the loss at the start of training.
    """

    max_words: Annotated[int, whole(1, MOST_SIZE)] = 32
    max_frames: Annotated[int, whole(1, MOST_SIZE)] = 12
    attention_temperature: Annotated[float, ABOVE_0] = 0.01
    temporal_layers: Annotated[int, whole(0, MOST_LAYERS)] = 4
    heads: Annotated[int, whole(1, MOST_SIZE)] = 8
    dropout: Annotated[float, SHARE] = 0.0
    temperature: Annotated[float, ABOVE_0] = 0.01

    def __post_init__(self) -> None:
        check_settings("x_clip", self)


class XClipText(NamedTuple):
    """Captions encoded by X-CLIP."""

    sentence: Tensor  # (Q, D) of unit length
    words: Tensor  # (Q, W, D) of unit length
    word_mask: Tensor  # (Q, W) True = real


class XClipVideo(NamedTuple):
    """Videos encoded by X-CLIP, with the learned matrices applied once."""

    video: Tensor  # (V, D) of unit length
    video_for_sentence: Tensor  # (V, D) after the matrix of the sentence-video similarity
    frames: Tensor  # (V, F, D) of unit length
    frames_for_words: Tensor  # (V, F, D) after the matrix of the word-frame similarity
    frame_mask: Tensor  # (V, F) True = real


class XClip(ContrastiveMatcher):
    """X-CLIP matcher, the mean of four similarities of coarse and fine parts; its matrices start as the identity."""

    def __init__(self, dimension: int, settings: XClipSettings) -> None:
        super().__init__()
        self.settings = settings
        words, frames = settings.max_words, settings.max_frames
        self.limits = Limits(dimension, words, frames)
        self.sentence_video = nn.Parameter(torch.eye(dimension))
        self.word_frame = nn.Parameter(torch.eye(dimension))
        self.video_word_mix = nn.Parameter(torch.eye(words))
        self.sentence_frame_mix = nn.Parameter(torch.eye(frames))
        self.word_mixes = nn.ParameterList(torch.eye(words) for _ in range(2))
        self.frame_mixes = nn.ParameterList(torch.eye(frames) for _ in range(2))
        self.temporal = temporal_blocks(dimension, settings)
        self.logit_scale = logit_scale_at(settings.temperature)

    def encode_text(self, text: TextBatch) -> XClipText:
        """Encode captions as sentence vectors (Q, D) and word vectors (Q, W, D).

        Raises:
            UsageError: a caption has more words than `max_words`.
        """
        words, mask = cut(text.words, text.word_mask, self.settings.max_words, ("caption", "words"))
        words = F.normalize(words, dim=-1).masked_fill(~mask[..., None], 0.0)
        return XClipText(F.normalize(text.sentence, dim=-1), words, mask)

    def encode_video(self, video: VideoBatch) -> XClipVideo:
        """Encode videos as mean vectors (V, D) and frame vectors (V, F, D).

        Raises:
            UsageError: a clip has more frames than `max_frames`.
        """
        frames, mask = cut(video.frames, video.frame_mask, self.settings.max_frames, ("clip", "frames"))
        frames = F.normalize(frames, dim=-1).masked_fill(~mask[..., None], 0.0)
        seen = frames if self.temporal is None else self.temporal(frames, mask)
        mean = F.normalize(masked_mean(seen, mask), dim=-1)
        return XClipVideo(mean, mean @ self.sentence_video.T, frames, frames @ self.word_frame.T, mask)

    def score(self, text: XClipText, video: XClipVideo) -> Tensor:
        """Compute similarities (Q, V), the mean of the four kinds, in chunks of pairs."""
        return in_chunks(
            self._score, TableSide(text, text.word_mask, _cut_words), TableSide(video, video.frame_mask, _cut_frames)
        )

    def _score(self, text: XClipText, video: XClipVideo) -> Tensor:
        """(q, v) of one chunk; videos are the last axis of everything, so that steps run along contiguous memory."""
        video_sentence = text.sentence @ video.video_for_sentence.T
        video_word = self._attend(text.words @ video.video.T, self.video_word_mix, text.word_mask[..., None])
        sentence_frame = token_products(text.sentence[:, None], video.frames)[:, 0]
        sentence_frame = self._attend(sentence_frame, self.sentence_frame_mix, video.frame_mask.T)
        return (video_sentence + video_word + sentence_frame + self._frame_word(text, video)) / 4

    def _frame_word(self, text: XClipText, video: XClipVideo) -> Tensor:
        """Words and frames, (q, v): the mean of words first, then frames, and frames first, then words."""
        words, frames = text.word_mask[..., None], video.frame_mask.T
        alike = token_products(text.words, video.frames_for_words)
        by_frame = self._attend(alike.flatten(2), self.word_mixes[0], words).view(len(alike), *alike.shape[2:])
        by_word = self._attend(alike, self.frame_mixes[0], frames)
        over_frames = self._attend(by_frame, self.frame_mixes[1], frames)
        over_words = self._attend(by_word, self.word_mixes[1], words)
        return (over_frames + over_words) / 2

    def _attend(self, alike: Tensor, mix: Tensor, mask: Tensor) -> Tensor:
        return attend(alike, mix, mask, self.settings.attention_temperature)


def _cut_words(text: XClipText, longest: int) -> XClipText:
    return text._replace(words=text.words[:, :longest], word_mask=text.word_mask[:, :longest])


def _cut_frames(video: XClipVideo, longest: int) -> XClipVideo:
    return video._replace(
        frames=video.frames[:, :longest],
        frames_for_words=video.frames_for_words[:, :longest],
        frame_mask=video.frame_mask[:, :longest],
    )


ENTRY = Entry(XClip, XClipSettings)
