"""Similarity of captions and videos on three levels: events, actions and things (HGR, arXiv 2003.00392, 3.3).

A phrase attends to the frames of a video and is compared with the result, `sum_f a_f v_f`, a vector of D numbers for
each phrase and video. But only its cosine is needed: its product with the phrase is a sum of products that attention
has calculated already, and its length is `a' G a` with the Gram matrix G of the frames, which belongs to the video
alone.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from evenreel.similarity.interaction import TableSide, in_chunks


class PhraseTexts(NamedTuple):
    """Captions as a sentence, verb phrases and noun phrases; vectors of unit length, zero where there is no phrase.

    Attributes:
        sentence: (Q, D) vector of the whole sentence, for the event.
        verbs: (Q, A, D) verb phrases, for actions.
        verb_mask: (Q, A) True = real, at any index, none in some rows.
        nouns: (Q, N, D) noun phrases, for things.
        noun_mask: (Q, N) True = real, at any index, none in some rows.
    """

    sentence: Tensor
    verbs: Tensor
    verb_mask: Tensor
    nouns: Tensor
    noun_mask: Tensor


class Frames(NamedTuple):
    """Frames of videos, mapped for one level of phrases (verbs or nouns); zero where there is no frame.

    Attributes:
        unit: (V, T, D) unit vectors of the frames.
        lengths: (V, T) norms of the vectors.
        gram: (V, T, T) dot products of the vectors.
    """

    unit: Tensor
    lengths: Tensor
    gram: Tensor


class PhraseVideos(NamedTuple):
    """Videos as one vector, and as frames mapped for verbs and for nouns.

    Attributes:
        video: (V, D) of unit length, what the event is compared with.
        frame_mask: (V, T) True = real, at least one a row.
        verb_frames: (V, T, D) unit vectors that verbs attend to.
        verb_lengths: (V, T) norms of these frames.
        verb_gram: (V, T, T) products of these frames.
        noun_frames: (V, T, D) unit vectors that nouns attend to.
        noun_lengths: (V, T) norms of these frames.
        noun_gram: (V, T, T) products of these frames.
    """

    video: Tensor
    frame_mask: Tensor
    verb_frames: Tensor
    verb_lengths: Tensor
    verb_gram: Tensor
    noun_frames: Tensor
    noun_lengths: Tensor
    noun_gram: Tensor


class _LevelPhrases(NamedTuple):
    """The n real phrases of a level in a chunk: `vectors` (n, D), and `means` (n, q) to average those of a caption."""

    vectors: Tensor
    means: Tensor


class _Texts(NamedTuple):
    """Captions of a chunk."""

    sentence: Tensor
    verbs: _LevelPhrases
    nouns: _LevelPhrases


def frames_of(vectors: Tensor, frame_mask: Tensor) -> Frames:
    """Compute unit vectors, lengths and Gram matrices of frames (V, T, D); frame_mask (V, T), True = real."""
    real = vectors.masked_fill(~frame_mask[..., None], 0.0)
    return Frames(F.normalize(real, dim=-1), real.norm(dim=-1), real @ real.mT)


def phrase_similarity(texts: PhraseTexts, videos: PhraseVideos, sharpness: float) -> Tensor:
    """Compute similarities (Q, V), the mean of three cosines: sentence and video, verbs and frames, nouns and frames.

    A level of which a caption has no phrase counts as 0, as in the published code.

    Args:
        texts: Q captions.
        videos: V videos.
        sharpness: inverse temperature of the attention of phrases to frames.
    """
    score = partial(_three_levels, sharpness)
    return in_chunks(
        score, TableSide(texts, _phrase_places(texts), _real_phrases), TableSide(videos, videos.frame_mask, _cut_frames)
    )


def attended_cosines(phrases: Tensor, frames: Frames, frame_mask: Tensor, sharpness: float) -> Tensor:
    """Compute cosines (V, n) of n phrases with the frames of each video, summed by the phrase's attention.

    Attention is the softmax over the real frames of `sharpness` times their cosines with the phrase, negative ones
    taken for 0, and all of them divided by their norm over the frames.

    Args:
        phrases: (n, D) of unit length.
        frames: frames of V videos.
        frame_mask: (V, T) True = real, at least one a row.
        sharpness: 0 for the mean of the frames; the larger, the nearer to the best frame.

    >>> vectors, real = torch.tensor([[[2.0, 0.0], [0.0, 2.0], [9.0, 9.0]]]), torch.tensor([[True, True, False]])
    >>> phrase = torch.tensor([[1.0, 0.0]])
    >>> attended_cosines(phrase, frames_of(vectors, real), real, sharpness=0.0)  # of the mean, which is at 45 degrees
    tensor([[0.7071]])
    >>> attended_cosines(phrase, frames_of(vectors, real), real, sharpness=4.0)  # next to the first frame
    tensor([[0.9998]])
    """
    cosines = frames.unit @ phrases.T
    logits = sharpness * F.normalize(cosines.relu(), dim=1)
    attention = logits.masked_fill(~frame_mask[..., None], float("-inf")).softmax(1)
    shares = attention * frames.lengths[..., None]
    squared = ((frames.gram @ attention) * attention).sum(1)
    # Where frames cancel out, what is left of the length is rounding, below zero even: it counts as the least that is
    # told from nothing, so that the cosine is about 0 and its slope bounded. Rounding may also take a cosine past 1.
    kind = torch.finfo(squared.dtype)
    squared = squared.maximum(kind.eps * shares.sum(1).square()).clamp(min=kind.tiny)
    return ((shares * cosines).sum(1) * squared.rsqrt()).clamp(-1.0, 1.0)


def _three_levels(sharpness: float, texts: _Texts, videos: PhraseVideos) -> Tensor:
    """(q, v) of one chunk."""
    event = texts.sentence @ videos.video.T
    verbs = attended_cosines(texts.verbs.vectors, Frames(*videos[2:5]), videos.frame_mask, sharpness)
    nouns = attended_cosines(texts.nouns.vectors, Frames(*videos[5:]), videos.frame_mask, sharpness)
    return (event + (verbs @ texts.verbs.means + nouns @ texts.nouns.means).T) / 3


def _phrase_places(texts: PhraseTexts) -> Tensor:
    """(Q, 1 + A + N) so many True from the left as a caption has things to compare, the sentence among them."""
    counts = 1 + texts.verb_mask.sum(1) + texts.noun_mask.sum(1)
    most = 1 + texts.verb_mask.shape[1] + texts.noun_mask.shape[1]
    return torch.arange(most, device=counts.device) < counts[:, None]


def _real_phrases(texts: PhraseTexts, _: int) -> _Texts:
    return _Texts(texts.sentence, _joined(texts.verbs, texts.verb_mask), _joined(texts.nouns, texts.noun_mask))


def _joined(phrases: Tensor, mask: Tensor) -> _LevelPhrases:
    """The real phrases (q, P, D) of all captions one after the other."""
    caption, place = mask.nonzero(as_tuple=True)
    shares = 1 / mask.sum(1).clamp(min=1).to(phrases.dtype)
    means = phrases.new_zeros(len(caption), len(mask))
    means[torch.arange(len(caption), device=mask.device), caption] = shares[caption]
    return _LevelPhrases(phrases[caption, place], means)


def _cut_frames(videos: PhraseVideos, longest: int) -> PhraseVideos:
    def cut(frames: Tensor, lengths: Tensor, gram: Tensor) -> Frames:
        return Frames(frames[:, :longest], lengths[:, :longest], gram[:, :longest, :longest])

    return PhraseVideos(videos.video, videos.frame_mask[:, :longest], *cut(*videos[2:5]), *cut(*videos[5:]))
