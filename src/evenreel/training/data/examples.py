"""Training examples and their batches: features computed once, or tokens and pixels for towers in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

from evenreel.arrays import Indices
from evenreel.debias.backgrounds import Backgrounds
from evenreel.encoders.trainable import TokenIds
from evenreel.errors import EvenreelError
from evenreel.matchers.batches import TextBatch, VideoBatch, text_batch, to_device, video_batch
from evenreel.media.workers import safe_path
from evenreel.training.data.pairs import Mirrors, Order, Pairs
from evenreel.training.data.window_tokens import WindowTokens
from evenreel.types import RoleGraph, TextFeatures, VideoFeatures

if TYPE_CHECKING:
    from evenreel.checkpoint import MatcherSpec
    from evenreel.encoders.trainable import TrainableTowers
    from evenreel.training.ensemble.strata import ClipLengths
    from evenreel.training.loop.run_folder import Facts

Batch = TypeVar("Batch")


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Captions as tokens for a text tower.

    Attributes:
        ids: ids of the Q captions.
        tokens: (Q, W) token ids and their mask.
    """

    ids: tuple[str, ...]
    tokens: TokenIds


@dataclass(frozen=True, eq=False)
class PixelBatch:
    """Frames of videos as pixels for an image tower; padding takes no memory.

    Attributes:
        ids: ids of the V clips.
        pixels: (N, 3, h, w) uint8, the real frames of all videos one after the other, resized and cut for the tower.
        frame_mask: (V, T) True = real, N in all.
        times_s: (V, T) time of each frame in its clip, in seconds.
        pretrained_mean: (V, D) mean frame by the towers before training, see `evenreel.matchers.batches.VideoBatch`.
        windows: tokens of on-screen text; None where not needed.
    """

    ids: tuple[str, ...]
    pixels: Tensor
    frame_mask: Tensor
    times_s: Tensor
    pretrained_mean: Tensor | None = None
    windows: WindowTokens | None = None


Texts = TextBatch | TokenBatch
Videos = VideoBatch | PixelBatch


class Draw(NamedTuple):
    """Seed of the random changes (augmentation) of a batch.

    Attributes:
        seed: seed of the run.
        batch: number of the batch.
        alike: rows of other clips whose random changes the batch's clips get too, in order; None for changes of their
            own.
    """

    seed: int
    batch: int
    alike: Indices | None = None


class TrainingExamples(Protocol):
    """Captions and clips of one split of a corpus, in a form that training can load by rows."""

    @property
    def pairs(self) -> Pairs:
        """Pairs of a caption and its clip."""

    def texts(self, rows: Indices) -> Texts:
        """Load captions by their rows."""

    def videos(self, rows: Indices, draw: Draw | None = None) -> Videos:
        """Load clips by their rows; they are changed at random only where a `draw` is given."""


@dataclass(frozen=True, eq=False)
class FeatureExamples:
    """Training examples whose features were computed once; only their backgrounds may change at random.

    Attributes:
        pairs: pairs of rows of captions and clips.
        text_features: features of the captions.
        video_features: features of the clips.
        backgrounds: backgrounds of the clips, which clips of a batch exchange; None where each keeps its own.
        exchanged: probability that a clip gets the background of another one.
    """

    pairs: Pairs
    text_features: TextFeatures
    video_features: VideoFeatures
    backgrounds: Backgrounds | None = None
    exchanged: float = 1.0

    def texts(self, rows: Indices) -> TextBatch:
        """Load the features of captions by their rows."""
        return text_batch(self.text_features, rows)

    def videos(self, rows: Indices, draw: Draw | None = None) -> VideoBatch:
        """Load the features of clips by their rows; backgrounds are exchanged only where a `draw` is given."""
        batch = video_batch(self.video_features, rows)
        if draw is None or self.backgrounds is None:
            return batch
        rng = np.random.default_rng([draw.seed, draw.batch])
        added = torch.from_numpy(self.backgrounds.exchanged(rows, self.exchanged, rng))
        frames = F.normalize(batch.frames.float(), dim=-1) + added[:, None]
        return replace(batch, frames=frames.masked_fill(~batch.frame_mask[..., None], 0.0))


@dataclass(frozen=True, eq=False)
class OtherClips:
    """Counterparts (generated clips of real ones, or the other way round) of the clips of a batch, on one device.

    Attributes:
        video: counterparts of this device's part of the batch, in its order; the caption's own clip where there is
            none.
        clip_ids: B ids of the whole batch.
        present: (B,) of the whole batch, True = there is a counterpart.
        generated: (B,) True = the caption's own clip is the generated one.
    """

    video: Videos
    clip_ids: tuple[str, ...]
    present: Tensor
    generated: Tensor

    def on(self, device: torch.device) -> OtherClips:
        """Return a copy with the tensors on another device."""
        present, generated = (one.to(device, non_blocking=True) for one in (self.present, self.generated))
        return OtherClips(move_videos(self.video, device), self.clip_ids, present, generated)


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """One device's part of a batch, and the data of the whole batch that its loss needs.

    Attributes:
        text: captions of this device's part of the batch.
        video: clips of this part, in the order of its captions.
        caption_ids: B ids of the whole batch.
        clip_ids: B ids of the clips of the whole batch.
        same: (B, B) of the whole batch, see `evenreel.matchers.batches.PairBatch`.
        others: counterparts of the clips; None where training does not need them.
        relevance: (B, B) relevance of the clips of the whole batch for its captions; None where the loss does not need
            it.
        graphs: B role graphs of the whole batch, which devices cannot send each other as they do tensors; None where
            the features have none.
        sentences: B captions of the whole batch as they are written; None where they are not known.
    """

    text: Texts
    video: Videos
    caption_ids: tuple[str, ...]
    clip_ids: tuple[str, ...]
    same: Tensor
    others: OtherClips | None = None
    relevance: Tensor | None = None
    graphs: tuple[RoleGraph, ...] | None = None
    sentences: tuple[str, ...] | None = None

    def on(self, device: torch.device) -> TrainingBatch:
        """Return a copy with the tensors on another device."""
        return replace(
            self,
            text=move_texts(self.text, device),
            video=move_videos(self.video, device),
            same=self.same.to(device, non_blocking=True),
            others=None if self.others is None else self.others.on(device),
            relevance=None if self.relevance is None else self.relevance.to(device, non_blocking=True),
        )


def move_texts(batch: Texts, device: torch.device) -> Texts:
    """Return a batch of captions with its tensors on another device."""
    if isinstance(batch, TextBatch):
        return to_device(batch, device)
    return TokenBatch(batch.ids, TokenIds(*(tensor.to(device, non_blocking=True) for tensor in batch.tokens)))


def move_videos(batch: Videos, device: torch.device) -> Videos:
    """Return a batch of videos with its tensors on another device."""
    if isinstance(batch, VideoBatch):
        return to_device(batch, device)

    def moved(tensor: Tensor) -> Tensor:
        return tensor.to(device, non_blocking=True)

    mean = None if batch.pretrained_mean is None else moved(batch.pretrained_mean)
    windows = None if batch.windows is None else batch.windows.on(device)
    return PixelBatch(batch.ids, moved(batch.pixels), moved(batch.frame_mask), moved(batch.times_s), mean, windows)


class Batches(Dataset[TrainingBatch]):
    """Dataset of the batches of a run by their number, each cut to one device's part.

    Args:
        examples: examples that batches are made of.
        order: order of the examples in batches.
        part: index of the device, and number of devices.
    """

    def __init__(self, examples: TrainingExamples, order: Order, part: tuple[int, int] = (0, 1)) -> None:
        self.examples, self._order, self._part = examples, order, part

    def __getitem__(self, batch: int) -> TrainingBatch:
        """Make the batch of this number, counted from the start of the run."""
        pairs, rows = self.examples.pairs, self._order.rows(batch)
        own, draw = self._own(rows), Draw(self._order.seed, batch)
        return TrainingBatch(
            self.examples.texts(pairs.captions[own]),
            self.examples.videos(pairs.clips[own], draw),
            tuple(pairs.caption_ids[row] for row in pairs.captions[rows]),
            tuple(pairs.clip_ids[row] for row in pairs.clips[rows]),
            pairs.same(rows),
            None if pairs.mirrors is None else self._others(pairs.mirrors, pairs.clips[rows], draw),
            pairs.relevance(rows),
            self._graphs(pairs.captions[rows]),
            pairs.sentences_of(rows),
        )

    def _graphs(self, captions: Indices) -> tuple[RoleGraph, ...] | None:
        features = self.examples.text_features if isinstance(self.examples, FeatureExamples) else None
        if features is None or features.graphs is None:
            return None
        return tuple(features.graphs[row] for row in captions)

    def _others(self, mirrors: Mirrors, clips: Indices, draw: Draw) -> OtherClips:
        """A clip and its mirror are cropped and flipped alike, for no other difference is to count as a preference."""
        other = mirrors.other[clips]
        present = other >= 0
        shown = np.where(present, other, clips)
        return OtherClips(
            self.examples.videos(self._own(shown), draw._replace(alike=self._own(clips))),
            tuple(self.examples.pairs.clip_ids[row] for row in shown),
            torch.from_numpy(present),
            torch.from_numpy(mirrors.generated[clips]),
        )

    def _own(self, rows: Indices) -> Indices:
        """The device's part of the rows of a batch."""
        rank, devices = self._part
        return np.split(rows, devices)[rank]


class Remaining(Sampler[int]):
    """Sampler of the numbers of the batches that are still to come; its length is that of the whole run."""

    def __init__(self, count: int) -> None:
        self.done, self._count = 0, count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.done, self._count))

    def __len__(self) -> int:
        return self._count


class Attempts(Dataset["Batch | EvenreelError"], Generic[Batch]):
    """Dataset that returns the items of another one, or the error of making one instead of raising it."""

    def __init__(self, dataset: Dataset[Batch]) -> None:
        self._dataset = dataset

    def __getitem__(self, number: int) -> Batch | EvenreelError:
        try:
            return self._dataset[number]
        except EvenreelError as error:
            return error


class BatchLoader(DataLoader[Batch]):
    """Loader of the batches of a dataset, in order; an error of a worker process is raised when its turn comes.

    Args:
        dataset: dataset of batches by number.
        workers: number of processes that make batches; 0 for none.
        numbers: numbers of the batches.
    """

    def __init__(self, dataset: Dataset[Batch], workers: int, numbers: Sampler[int] | range) -> None:
        super().__init__(
            Attempts(dataset),  # type: ignore[arg-type]  # what is no batch is raised and not given
            batch_size=None,
            sampler=numbers,
            num_workers=workers,
            collate_fn=unchanged,
            multiprocessing_context="spawn" if workers else None,  # a fork of a process with threads may hang
            pin_memory=False,
        )

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]  # a generator, so that it can look at each
        with safe_path():  # its processes start here
            batches = super().__iter__()
        for batch in batches:
            if isinstance(batch, EvenreelError):
                raise batch
            yield batch


class ResumableLoader(BatchLoader[TrainingBatch]):
    """Loader of the batches of a whole run, whose position Lightning saves in checkpoints and restores.

    Args:
        batches: dataset of batches by number.
        count: number of batches of the run.
        workers: number of processes that make batches where clips are decoded; 0 for none.
    """

    def __init__(self, batches: Batches, count: int, workers: int) -> None:
        self._remaining = Remaining(count)
        super().__init__(batches, useful_workers(batches.examples, workers), self._remaining)
        self._given = 0

    def __iter__(self) -> Iterator[TrainingBatch]:  # type: ignore[override]  # as above
        """Yield the batches that are still to come."""
        self._given = self._remaining.done
        with safe_path():  # its processes start here
            batches = super().__iter__()
        for batch in batches:
            self._given += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return the number of batches loaded so far, to be saved in a checkpoint."""
        return {"given": self._given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continue after the number of batches that a checkpoint's state says."""
        self._remaining.done = self._given = state["given"]


def useful_workers(examples: TrainingExamples, workers: int) -> int:
    """Return the number of worker processes to use: none for features, since each would get a copy of them."""
    return 0 if isinstance(examples, FeatureExamples) else workers


def unchanged(batch: Any) -> Any:
    """Return a batch unchanged: the collate function of a loader of batches."""
    return batch


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """Data of a training run: examples to train on and to select on, with initial towers and weights.

    Attributes:
        examples: examples of the training split.
        dimension: dimension D of their features.
        validation: examples that the model is selected on; None for none.
        towers: towers that make features of pixels and tokens; None where examples are features.
        start: initial weights of the matcher, by name; empty for fresh ones.
        start_spec: spec of a matcher whose vocabulary is kept, such as that of these weights; None for that of the
            examples.
        source: identity of the data, such as the encoder's hash; a run is only resumed with the same.
        lengths: lengths of the clips of the examples; None where no strata need them.
        weights_hash: hash of the weights of the features' encoder; None where not known.
    """

    examples: TrainingExamples
    dimension: int
    validation: TrainingExamples | None = None
    towers: TrainableTowers | None = None
    start: Mapping[str, Tensor] = field(default_factory=dict)
    start_spec: MatcherSpec | None = None
    source: Facts = field(default_factory=dict)
    lengths: ClipLengths | None = None
    weights_hash: str | None = None
