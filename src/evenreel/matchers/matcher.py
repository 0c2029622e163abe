"""Protocols of retrieval models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from evenreel.matchers.batches import PairBatch, TextBatch, VideoBatch


class Limits(NamedTuple):
    """Sizes and kinds of input that a matcher can take.

    Attributes:
        dimension: D, the length of the features.
        words: most words of a caption; None for any number.
        frames: most frames of a video; None for any number.
        windows: whether on-screen windows are among the frames and count as such.
        own_windows: most on-screen windows of a video, where the matcher reads them itself; None for any number.
        graphs: whether it reads the role graphs of captions, and no features of them.
        captions: of such a matcher, length of the vectors that it makes of captions, which `TextBatch.vector_map` maps.
        pretrained_mean: whether it uses the frames as the frozen tower encodes them (`VideoBatch.pretrained_mean`).
    """

    dimension: int
    words: int | None = None
    frames: int | None = None
    windows: bool = False
    graphs: bool = False
    captions: int | None = None
    pretrained_mean: bool = False
    own_windows: int | None = None


@runtime_checkable
class Matcher(Protocol):
    """A `torch.nn.Module` with the methods below; states are named tuples of tensors (`evenreel.similarity.states`).

    In evaluation mode nothing is random: equal states give equal scores, whatever the tile they are scored in.
    `score` works in chunks of its own where a pair needs more than a number at a time: beside the states and at most
    `evenreel.similarity.tiles.PAIR_BYTES` a pair it takes no more than `CHUNK_BYTES`, whatever it is given.
    """

    limits: Limits
    """What it was built for."""

    @property
    def logit_scale(self) -> Tensor:
        """Logarithm of the factor on similarities in the loss, learned; training keeps it at most ln 100."""

    def encode_text(self, text: TextBatch) -> Any:
        """Encode captions once: return a state with Q rows."""

    def encode_video(self, video: VideoBatch) -> Any:
        """Encode videos once: return a state with V rows."""

    def score(self, text: Any, video: Any) -> Tensor:
        """Score states of captions and videos: (Q, V) similarities, higher is better, without the logit scale."""

    def loss(self, batch: PairBatch) -> dict[str, Tensor]:
        """Compute named terms, each with its weight; training minimises their sum."""


@runtime_checkable
class StartsFromFile(Protocol):
    """A matcher, or a part of one, that loads initial weights from a file that its settings name."""

    def read_start(self) -> None:
        """Load the weights once, when training begins; not when a checkpoint is loaded, which has all weights.

        Raises:
            UsageError: the file cannot be read, or its weights do not fit.
        """


@runtime_checkable
class FitsPairs(Protocol):
    """A matcher, or a part of one, with numbers that are calculated from the training pairs and not learned."""

    def fit_pairs(self, pairs: Callable[[], Iterable[tuple[TextBatch, VideoBatch]]]) -> None:
        """Calculate the numbers once, when training begins; not when a checkpoint is loaded, which has them.

        Args:
            pairs: gives all captions with their videos, in batches; may be called again.

        Raises:
            UsageError: the pairs do not say what is needed.
        """


@runtime_checkable
class LearnsMore(Protocol):
    """A matcher with parts that only its loss needs: checkpoints leave them out, and training starts them anew."""

    training_only: tuple[str, ...]
    """Names of these parts, as attributes of the module; each is None where it is left out, as after loading."""


@runtime_checkable
class TellsFigures(Protocol):
    """A matcher, or a part of one, that reports figures of training beside its loss."""

    figures: dict[str, Tensor]
    """Of the batch that `loss` saw last, by name, no part of the loss; training writes them down."""


@runtime_checkable
class TellsParts(Protocol):
    """A matcher whose score is the mean of a few named parts; a wrapper has those of the matcher it wraps."""

    def part_scores(self, text: Any, video: Any) -> dict[str, Tensor]:
        """Score states by part: (Q, V) similarities to frames (`video`), on-screen text (`ocr`) and both (`hybrid`).

        `score` is the mean of the parts that there are. A wrapper around a matcher without parts has none.
        """


@runtime_checkable
class Coarse(Protocol):
    """A matcher with a cheap score of the same states, to choose the pairs that get the full score."""

    def coarse(self, text: Any, video: Any) -> Tensor:
        """Score states of captions and videos, (Q, V), at the cost of one product of vectors a pair."""
