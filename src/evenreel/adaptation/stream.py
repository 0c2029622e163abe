"""A stream of queries at test time, the clips that they are ranked against, and the features and vectors of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from evenreel.arrays import Indices, slices
from evenreel.checkpoint.architecture import build, module
from evenreel.checkpoint.records import About, EncoderNote, Inputs, MatcherSpec, Pretrained
from evenreel.encoders.towers import usable_device
from evenreel.errors import UsageError
from evenreel.features.load import graphs_of
from evenreel.language.tokens import Tagged, Tagger
from evenreel.matchers.adapter import Adapted
from evenreel.matchers.batches import TextBatch, VideoBatch, text_batch, to_device, video_batch
from evenreel.matchers.matcher import Matcher, check_texts, check_videos
from evenreel.progress import Progress
from evenreel.similarity.interaction import masked_mean
from evenreel.similarity.tiles import device_of, evaluating
from evenreel.types import Encoder, TextFeatures, VideoFeatures

EncodeTexts = Callable[[Sequence[str]], TextFeatures]
"""Captions -> their features, with ids of any kind."""

READ_AT_ONCE = 256
"""Captions that are encoded together."""

ZERO_SHOT = "mean_pool"
"""The matcher that can be adapted without training, see `zero_shot`."""

FRAMES = 12
"""Frames of a clip of a library that it takes, the middle ones of as many equal stretches (CLIP4Clip takes as many)."""


@dataclass(frozen=True, eq=False)
class QueryStream:
    """Stream of queries, and the clips that they are ranked against; it holds no right answers to learn from.

    Raises:
        UsageError: there are not as many sentences as features of queries, or fewer than two queries or clips.
    """

    texts: TextFeatures  # features of Q queries, in the order in which they came
    sentences: tuple[str, ...]  # the queries as they are written
    videos: VideoFeatures  # features of the V clips

    def __post_init__(self) -> None:
        check_sentences(self.texts, self.sentences)
        if min(len(self.sentences), len(self.videos.ids)) < 2:
            raise UsageError(
                f"There are {len(self.sentences):,} queries and {len(self.videos.ids):,} clips; a model can learn from "
                "two of each or more."
            )

    def batches(self, size: int) -> Iterator[Indices]:
        """Yield rows of the stream's queries, `size` at a time; a last single query joins the batch before it."""
        starts = [*range(0, len(self.sentences), size), len(self.sentences)]
        if len(starts) > 2 and starts[-1] - starts[-2] == 1:
            del starts[-2]
        for start, stop in pairwise(starts):
            yield np.arange(start, stop)


def check_sentences(texts: TextFeatures, sentences: Sequence[str]) -> None:
    """Check that there is a sentence for each query's features, and one query at least."""
    if not sentences or len(sentences) != len(texts.ids):
        raise UsageError(
            f"{len(sentences):,} sentences came with features of {len(texts.ids):,} queries; give the sentence of "
            "each, and one query at least."
        )


def taken(texts: TextFeatures, rows: Indices) -> TextFeatures:
    """Select the features of some captions by their rows."""
    return TextFeatures(
        tuple(texts.ids[row] for row in rows),
        texts.words[rows],
        texts.word_mask[rows],
        texts.sentence[rows],
        None if texts.graphs is None else tuple(texts.graphs[row] for row in rows),
    )


def joined(*parts: TextFeatures) -> TextFeatures:
    """Concatenate features of captions, padded to the longest; role graphs are kept where every part has them."""
    graphs = tuple(graph for part in parts for graph in part.graphs or ())
    return TextFeatures(
        tuple(caption for part in parts for caption in part.ids),
        with_room([part.words for part in parts]),
        with_room([part.word_mask for part in parts]),
        np.concatenate([part.sentence for part in parts]),
        graphs if all(part.graphs is not None for part in parts) else None,
    )


def with_room(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate word vectors (q, W, ...) of captions, or masks, padded with zeros to the widest: (Q, W, ...).

    >>> with_room([np.ones((1, 1)), np.ones((1, 2))]).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    widest = max(part.shape[1] for part in parts)
    shape = (sum(map(len, parts)), widest, *parts[0].shape[2:])
    whole, row = np.zeros(shape, np.result_type(*{part.dtype for part in parts})), 0
    for part in parts:
        whole[row : row + len(part), : part.shape[1]] = part
        row += len(part)
    return whole


def text_reader(encoder: Encoder, matcher: Matcher, most: int | None = None) -> EncodeTexts:
    """Make a function that encodes captions as features in the form that a matcher takes.

    A caption of more than `most` words is cut before its end mark; None for the matcher's limit.
    """
    limits = [limit for limit in (most, matcher.limits.words) if limit is not None]

    def read(sentences: Sequence[str]) -> TextFeatures:
        parts = [encoder.encode_text(list(sentences[rows])) for rows in slices(len(sentences), READ_AT_ONCE)]
        words, mask = with_room([part.words for part in parts]), with_room([part.word_mask for part in parts])
        if limits:
            words, mask = shortened(words, mask, min(limits))
        ids = tuple(f"q{number}" for number in range(1, len(sentences) + 1))
        graphs = tuple(graphs_of(list(sentences))) if matcher.limits.graphs else None
        return TextFeatures(ids, words, mask, np.concatenate([part.sentence for part in parts]), graphs)

    return read


def shortened(words: Any, mask: Any, most: int) -> tuple[Any, Any]:
    """Shorten captions, words (Q, W, D) and mask (Q, W), to at most `most` words: the first ones, and the last.

    >>> kept, _ = shortened(np.arange(4.0).reshape(1, 4, 1), np.array([[True] * 4]), 2)
    >>> kept[0, :, 0].tolist()
    [0.0, 3.0]
    """
    if int(mask.sum(1).max(initial=0)) <= most:
        return words, mask
    order = np.argsort(~mask, axis=1, kind="stable")[:, : max(most, 1)]
    counts, last = mask.sum(1), mask.shape[1] - 1 - mask[:, ::-1].argmax(1)
    order[counts > most, most - 1] = last[counts > most]
    rows = np.arange(len(mask))[:, None]
    return words[rows, order], mask[rows, order]


class RememberingReader:
    """Encoder of captions that encodes each distinct sentence once and keeps its features."""

    def __init__(self, read: EncodeTexts) -> None:
        self._read, self._known = read, dict[str, TextFeatures]()

    def __call__(self, sentences: Sequence[str]) -> TextFeatures:
        """Encode sentences to features; ids have no meaning."""
        new = [one for one in dict.fromkeys(sentences) if one not in self._known]
        if new:
            read = self._read(new)
            for row, one in enumerate(new):
                alone = taken(read, np.array([row]))
                mask = alone.word_mask[0]
                self._known[one] = replace(alone, words=alone.words[:, mask], word_mask=alone.word_mask[:, mask])
        return joined(*(self._known[one] for one in sentences))


class RememberingTagger:
    """Part-of-speech tagger that tags each distinct sentence once and keeps the tokens."""

    def __init__(self, tagger: Tagger) -> None:
        self.name = tagger.name
        self._tagger, self._read = tagger, dict[str, Tagged]()

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        """Split sentences into words and tag them, each distinct sentence once."""
        new = [caption for caption in dict.fromkeys(captions) if caption not in self._read]
        self._read.update(zip(new, self._tagger.tag(new), strict=True) if new else ())
        return [self._read[caption] for caption in captions]


# a single vector for each caption and each clip --------------------------------------------------------------------


def text_vectors(matcher: Matcher, text: TextBatch) -> Tensor:
    """Compute a unit vector (Q, D) for each caption: its sentence vector after the matcher's adapter.

    Every matcher that takes features of captions has it, whatever it does with words later.

    Raises:
        UsageError: the matcher reads role graphs and takes no features of captions.
    """
    if matcher.limits.graphs:
        raise UsageError(
            "This matcher reads role graphs and no features of captions; bias correction and the alignment of features "
            "need these. Adapt it by pseudo-labels alone."
        )
    mapped = matcher.adapt_text(text) if isinstance(matcher, Adapted) else text
    return F.normalize(mapped.sentence, dim=-1)


def video_vectors(matcher: Matcher, video: VideoBatch) -> Tensor:
    """Compute a unit vector (V, D) for each video: the mean of its unit frames after the matcher's adapter."""
    mapped = matcher.adapt_video(video) if isinstance(matcher, Adapted) else video
    return F.normalize(masked_mean(F.normalize(mapped.frames, dim=-1), mapped.frame_mask), dim=-1)


def caption_vectors(
    matcher: Matcher, texts: TextFeatures, at_once: int = 1024, progress: Progress = lambda share: None
) -> Tensor:
    """Compute the unit vectors (Q, D) of all captions, without gradients, in main memory."""
    found = []
    with torch.no_grad(), evaluating(matcher):
        for rows in slices(len(texts.ids), at_once):
            batch = text_batch(texts, rows)
            check_texts(matcher, batch)
            found.append(text_vectors(matcher, to_device(batch, device_of(matcher))).cpu())
            progress(rows.stop / len(texts.ids))
    return torch.cat(found)


def clip_vectors(
    matcher: Matcher, videos: VideoFeatures, at_once: int = 256, progress: Progress = lambda share: None
) -> Tensor:
    """Compute the unit vectors (V, D) of all clips, without gradients, in main memory."""
    found = []
    with torch.no_grad(), evaluating(matcher):
        for rows in slices(len(videos.ids), at_once):
            batch = video_batch(videos, rows)
            check_videos(matcher, batch)
            found.append(video_vectors(matcher, to_device(batch, device_of(matcher))).cpu())
            progress(rows.stop / len(videos.ids))
    return torch.cat(found)


def zero_shot(encoder: EncoderNote, *, frames: int | None = None, device: str = "cpu", seed: int = 0) -> Pretrained:
    """Build the matcher `mean_pool` with an adapter whose maps start as the identity, so that it scores as without.

    `frames` are the most of a clip that a library passes to it, None for all; the seed is of the maps' hidden layer.
    """
    spec = MatcherSpec("adapted", {"kind": "mlp"}, (MatcherSpec(ZERO_SHOT),))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        matcher = build(spec, encoder.dimension)
    module(matcher).to(usable_device(device, "float32")).eval()
    return Pretrained(matcher, spec, About(encoder, Inputs(frames=frames)))
