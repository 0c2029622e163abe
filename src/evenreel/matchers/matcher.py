"""What every matcher, a retrieval model, is and may offer; bases of matchers; checks that inputs fit them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from evenreel.config import Allowed
from evenreel.errors import UsageError
from evenreel.losses import info_nce
from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch, row_lengths
from evenreel.similarity.interaction import lengths
from evenreel.types import RoleGraph, TextFeatures, VideoFeatures

TEXT_OR_NONE = Allowed("text or null", lambda value: value is None or (isinstance(value, str) and bool(value)))


class Limits(NamedTuple):
    """Sizes and kinds of input that a matcher can take.

    Attributes:
        dimension: length D of the features.
        words: greatest number of words of a caption; None for any number.
        frames: greatest number of frames of a video; None for any number.
        windows: whether on-screen windows are appended to the frames and count as such.
        own_windows: greatest number of on-screen windows of a video, where the matcher reads them itself; None for any
            number.
        graphs: whether it reads the role graphs of captions instead of features of their words.
        pretrained_mean: whether it uses the frames as the frozen tower encodes them (`VideoBatch.pretrained_mean`).
    """

    dimension: int
    words: int | None = None
    frames: int | None = None
    windows: bool = False
    graphs: bool = False
    pretrained_mean: bool = False
    own_windows: int | None = None


@runtime_checkable
class Matcher(Protocol):
    """Retrieval model: a `torch.nn.Module` that encodes captions and videos to states and scores pairs of them.

    States are named tuples of tensors (`evenreel.similarity.tiles`). In evaluation mode nothing is random: equal
    states give equal scores, whatever the tile they are scored in. `score` works in chunks of its own where a pair
    needs more than a number at a time: beside the states and at most `evenreel.similarity.tiles.PAIR_BYTES` a pair it
    takes no more than `CHUNK_BYTES`, whatever it is given.
    """

    limits: Limits
    """What it was built for."""

    @property
    def logit_scale(self) -> Tensor:
        """Logarithm of the factor on similarities in the loss; learned, and kept at most ln 100 by training."""

    def encode_text(self, text: TextBatch) -> Any:
        """Encode captions: return a state, tensors with Q rows."""

    def encode_video(self, video: VideoBatch) -> Any:
        """Encode videos: return a state, tensors with V rows."""

    def score(self, text: Any, video: Any) -> Tensor:
        """Compute similarities (Q, V) of encoded captions and videos, higher is better, without the logit scale."""

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the named terms of the loss, each with its weight; training minimises their sum."""


@runtime_checkable
class StartsFromFile(Protocol):
    """Matcher, or part of one, that loads initial weights from a file that its settings name."""

    def read_start(self) -> None:
        """Load the initial weights when training begins; a checkpoint, which has all weights, is loaded without this.

        Raises:
            UsageError: the file cannot be read, or its weights do not fit.
        """


@runtime_checkable
class FitsPairs(Protocol):
    """Matcher, or part of one, with numbers that are computed from the training pairs instead of learned."""

    def fit_pairs(self, pairs: Callable[[], Iterable[tuple[TextBatch, VideoBatch]]]) -> None:
        """Compute the numbers from the training pairs when training begins; a checkpoint has them already.

        Args:
            pairs: returns all captions with their videos, in batches; may be called again.

        Raises:
            UsageError: the numbers cannot be computed from the pairs.
        """


@runtime_checkable
class HasTrainingParts(Protocol):
    """Matcher with parts that only its loss needs: checkpoints leave them out, and training starts them anew."""

    training_only: tuple[str, ...]
    """Names of these parts, as attributes of the module; each is None where it is left out, as after loading."""


@runtime_checkable
class ReportsFigures(Protocol):
    """Matcher, or part of one, that reports figures of training beside its loss."""

    figures: dict[str, Tensor]
    """Of the batch that `loss` saw last, by name, no part of the loss; training writes them down."""


@runtime_checkable
class ScoresInParts(Protocol):
    """Matcher whose score is the mean of a few named parts, which a wrapper passes on."""

    def part_scores(self, text: Any, video: Any) -> dict[str, Tensor]:
        """Compute the parts of the score, (Q, V) each: of frames (`video`), on-screen text (`ocr`) and both (`hybrid`).

        The score is the mean of the parts. A wrapper around a matcher without parts returns none.
        """


class LearnedFrom(NamedTuple):
    """Training data from which settings of a matcher, such as its vocabulary, may be completed."""

    graphs: Sequence[RoleGraph] = ()  # role graphs of the captions; empty where no matcher reads them (`Limits.graphs`)
    texts: Sequence[str] = ()  # texts of the captions
    weights_hash: str | None = None  # hash of the encoder's weights; None where it is not known


Fit = Callable[[Mapping[str, Any], LearnedFrom], dict[str, Any]]
"""Settings, and what is learned from -> the settings with what they left open."""


class Entry(NamedTuple):
    """Registry entry of a matcher: its class, its settings, and what training does before it is built.

    Attributes:
        matcher: class of the matcher, built from the dimension D and its settings.
        settings: class of these settings.
        graphs: whether it reads the role graphs of captions.
        fit: function that completes the settings from training data; None where they need none.
        uses: function that says in words what the settings use of splits other than the training split; None for none.
        windows: function that returns whether, with given settings, on-screen windows are read apart from frames; None
            for never.
    """

    matcher: type[Any]
    settings: type[Any]
    graphs: bool = False
    fit: Fit | None = None
    uses: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    windows: Callable[[Mapping[str, Any]], bool] | None = None


def logit_scale_at(temperature: float) -> nn.Parameter:
    """Make the learned parameter `Matcher.logit_scale`, which starts as the logarithm of 1 / temperature.

    >>> round(logit_scale_at(0.01).exp().item())
    100
    """
    return nn.Parameter(torch.tensor(-math.log(temperature)))


def contrastive(matcher: Matcher, batch: PairBatch) -> dict[str, Tensor]:
    """Compute the InfoNCE loss of a matcher's scores of a batch, as a dictionary of one term."""
    scores = matcher.score(matcher.encode_text(batch.text), matcher.encode_video(batch.video))
    return {"contrastive": info_nce(scores, batch.same, matcher.logit_scale.exp())}


class ContrastiveMatcher(nn.Module):
    """Matcher whose loss is the InfoNCE of its scores of a batch; a subclass encodes and scores."""

    encode_text: Callable[..., Any]
    encode_video: Callable[..., Any]
    score: Callable[..., Tensor]
    logit_scale: Tensor
    limits: Limits

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the InfoNCE loss of the scores of a batch."""
        return contrastive(self, batch)


class Wrapper(nn.Module):
    """Matcher around another one: what a subclass leaves alone is as the wrapped matcher has it.

    A subclass may change features before they are encoded (`adapt_text`, `adapt_video`), in training and in search
    alike, and states are then those of the wrapped matcher.
    """

    def __init__(self, matcher: Any) -> None:
        super().__init__()
        self.matcher: Any = matcher
        self.limits: Limits = matcher.limits

    @property
    def served(self) -> Any:
        """The matcher that encodes and scores."""
        return self.matcher

    @property
    def logit_scale(self) -> Tensor:
        """Logit scale of the wrapped matcher."""
        scale: Tensor = self.served.logit_scale
        return scale

    def adapt_text(self, text: TextBatch) -> TextBatch:
        """Change the features of captions; here they stay."""
        return text

    def adapt_video(self, video: VideoBatch) -> VideoBatch:
        """Change the features of videos; here they stay."""
        return video

    def encode_text(self, text: TextBatch) -> Any:
        """Encode captions with the wrapped matcher, after `adapt_text`."""
        return self.served.encode_text(self.adapt_text(text))

    def encode_video(self, video: VideoBatch) -> Any:
        """Encode videos with the wrapped matcher, after `adapt_video`."""
        return self.served.encode_video(self.adapt_video(video))

    def score(self, text: Any, video: Any) -> Tensor:
        """Compute similarities (Q, V) of encoded captions and videos with the wrapped matcher."""
        scores: Tensor = self.served.score(text, video)
        return scores

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute the loss terms of the wrapped matcher of changed features, those of counterparts included."""
        other = batch.counterpart
        changed = replace(
            batch,
            text=self.adapt_text(batch.text),
            video=self.adapt_video(batch.video),
            counterpart=None if other is None else replace(other, video=self.adapt_video(other.video)),
        )
        terms: dict[str, Tensor] = self.served.loss(changed)
        return terms


def cut(items: Tensor, mask: Tensor, limit: int, names: tuple[str, str], counted: str = "") -> tuple[Tensor, Tensor]:
    """Cut words or frames and their mask to the number that a matcher has parameters for; only padding may be lost.

    Args:
        items: (N, L, D) words or frames.
        mask: (N, L) True = real.
        limit: greatest L that the matcher has parameters for.
        names: of a row and of the limit's setting, for the message, such as `("clip", "frames")`.
        counted: what the items are called there, where it is not the name of the setting.

    Raises:
        UsageError: there is a real item past the limit.
    """
    if mask.shape[1] > limit and mask[:, limit:].any():
        raise _too_long(int(lengths(mask).max()), limit, names, counted)
    return items[:, :limit], mask[:, :limit]


def check_lengths(matcher: Matcher, texts: TextFeatures, videos: VideoFeatures) -> None:
    """Check that no caption or video is too long for a matcher, before any of them is encoded."""
    _check_read(matcher, texts)
    check_words(matcher, texts.word_mask)
    check_frames(matcher, videos.frame_mask, None if videos.on_screen is None else videos.on_screen.mask)


def check_words(matcher: Matcher, word_mask: NDArray[np.bool_]) -> None:
    """Check that no caption is too long for a matcher, by the mask of words (Q, W); role graphs are not checked."""
    limit = None if matcher.limits.graphs else matcher.limits.words
    most = int(row_lengths(word_mask).max(initial=0))
    if limit is not None and most > limit:
        raise _too_long(most, limit, ("caption", "words"))


def check_frames(matcher: Matcher, frame_mask: NDArray[np.bool_], window_mask: NDArray[np.bool_] | None = None) -> None:
    """Check that no video is too long for a matcher, by the masks of frames (V, T) and of windows (V, O)."""
    limit = matcher.limits.frames
    among = matcher.limits.windows and window_mask is not None
    counts = frame_mask.sum(1) + window_mask.sum(1) if among and window_mask is not None else row_lengths(frame_mask)
    most = int(counts.max(initial=0))
    if limit is not None and most > limit:
        raise _too_long(most, limit, ("clip", "frames"), "frames and on-screen windows" if among else "frames")
    own = matcher.limits.own_windows
    if own is not None and window_mask is not None and (read := int(row_lengths(window_mask).max(initial=0))) > own:
        raise _too_long(read, own, ("clip", "frames"), "on-screen windows")


def check_texts(matcher: Matcher, texts: TextBatch) -> None:
    """Check that a matcher can score captions: they have words, and features are finite and of its length.

    Where the matcher reads their role graphs, features of words and sentences are not checked.
    """
    _check_read(matcher, texts)
    if matcher.limits.graphs:
        return
    _check_dimension(matcher, texts.words, "words")
    _check_dimension(matcher, texts.sentence, "sentences")
    _check_rows(texts.word_mask.any(1), texts.ids, "The caption {} has no word; leave it out.")
    finite = texts.words.isfinite().flatten(1).all(1) & texts.sentence.isfinite().all(1)
    _check_rows(finite, texts.ids, "The features of the caption {} are not all finite numbers; compute them again.")


def check_videos(matcher: Matcher, videos: VideoBatch) -> None:
    """Check that a matcher can score videos: they have frames, and features are finite and of its length."""
    _check_dimension(matcher, videos.frames, "frames")
    _check_rows(videos.frame_mask.any(1), videos.ids, "The video {} has no frame; leave it out.")
    finite = videos.frames.isfinite().flatten(1).all(1)
    if videos.on_screen is not None:
        _check_dimension(matcher, videos.on_screen.windows, "on-screen windows")
        finite &= videos.on_screen.windows.isfinite().flatten(1).all(1)
    _check_rows(finite, videos.ids, "The features of the video {} are not all finite numbers; compute them again.")


def _check_read(matcher: Matcher, texts: TextFeatures | TextBatch) -> None:
    if matcher.limits.graphs and texts.graphs is None:
        raise UsageError(
            "This matcher reads the role graphs of captions, and these have none; add them with "
            "evenreel.features.load.with_graphs."
        )
    if not matcher.limits.graphs and texts.words.shape[-1] == 0:
        raise UsageError(
            "No text tower has read these captions (they are beside features that others computed), and this matcher "
            "takes features of words; use one that reads the words themselves, such as hgr."
        )


def _check_dimension(matcher: Matcher, features: Tensor, of: str) -> None:
    given, taken = features.shape[-1], matcher.limits.dimension
    if given != taken:
        raise UsageError(
            f"The features of {of} have {given} numbers, but this matcher was built for {taken}; "
            "compute features with the encoder that it was trained on."
        )


def _check_rows(good: Tensor, ids: tuple[str, ...], sentence: str) -> None:
    if not good.all():
        raise UsageError(sentence.format(ids[int(good.int().argmin())]))


def _too_long(most: int, limit: int, names: tuple[str, str], counted: str = "") -> UsageError:
    row, parts = names
    return UsageError(
        f"A {row} has {most} {counted or parts}, but this matcher was built for {limit} at most; "
        f"use fewer {counted or parts}, or train with max_{parts}={most} or more."
    )


def check_heads(dimension: int, heads: int) -> None:
    """Check that D is a multiple of the number of attention heads."""
    if dimension % heads:
        raise UsageError(
            f"Features of length {dimension} cannot be split among {heads} attention heads; "
            f"choose a number of heads that divides {dimension}."
        )
