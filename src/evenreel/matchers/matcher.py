"""Protocols of matchers, the retrieval models, and of what some of them offer besides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch


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

    States are named tuples of tensors (`evenreel.similarity.states`). In evaluation mode nothing is random: equal
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


@runtime_checkable
class Coarse(Protocol):
    """Matcher that also has a cheap score of the same states, to choose the pairs that get the full score."""

    def coarse(self, text: Any, video: Any) -> Tensor:
        """Compute a cheap score (Q, V) of encoded captions and videos, at one product of vectors a pair."""
