"""What training learns from: pairs of captions and clips with all that a matcher's loss needs of them, and batches.

`Pairs` is one table: rows of captions and clips, and beside them the columns that a loss needs (texts, sentences,
mirrors, degrees of relevance, weights). Examples load its captions and clips by rows: features computed once (here), or
tokens and pixels for towers in training (`evenreel.training.pixels`). The order of pairs in batches depends on the seed
and the step alone, so that a resumed run repeats nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

from evenreel.arrays import Indices
from evenreel.corpus.relevance import ClassRelevance, class_relevance
from evenreel.debias.backgrounds import Backgrounds
from evenreel.encoders.trainable import TokenIds, shortened
from evenreel.errors import CorpusError, EvenreelError
from evenreel.matchers.batches import TextBatch, VideoBatch, text_batch, video_batch
from evenreel.media.workers import safe_path
from evenreel.types import Corpus, RoleGraph, Shown, TextFeatures, VideoFeatures

if TYPE_CHECKING:
    from evenreel.checkpoint import MatcherSpec
    from evenreel.encoders.trainable import TrainableTowers
    from evenreel.features.pool import SetAside
    from evenreel.training.run_folder import Facts
    from evenreel.training.splits import ClipLengths, EncoderUsed

Batch = TypeVar("Batch")

# Pairs ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mirrors:
    """Pairs of a real clip and the generated one that mirrors it, among the clips of a table."""

    other: NDArray[np.int64]  # (V,) row of the other clip of each clip's pair; -1 where it has none in the table
    generated: NDArray[np.bool_]  # (V,) True = the clip is the generated one of its pair


def mirror_rows(clip_ids: Sequence[str], mirrors: Mapping[str, str]) -> Mirrors:
    """Convert pairs of clip ids (real: generated) to rows of a table of clips.

    >>> found = mirror_rows(["a", "b", "a again"], {"a": "a again", "b": "b again"})
    >>> found.other.tolist(), found.generated.tolist()
    ([2, -1, 0], [False, False, True])
    """
    place = {clip_id: row for row, clip_id in enumerate(clip_ids)}
    other = {**mirrors, **{generated: real for real, generated in mirrors.items()}}
    generated = set(mirrors.values())
    return Mirrors(
        np.array([place.get(other.get(clip_id, ""), -1) for clip_id in clip_ids], np.int64),
        np.array([clip_id in generated for clip_id in clip_ids], np.bool_),
    )


@dataclass(frozen=True, eq=False)
class Pairs(Shown):
    """P captions, each with its clip, as rows of a table of captions and one of clips."""

    caption_ids: tuple[str, ...]  # ids of all captions of the table
    clip_ids: tuple[str, ...]  # ids of all clips of the table
    captions: Indices  # (P,) rows of captions in their table
    clips: Indices  # (P,) rows of clips in their table
    texts: Indices  # (P,) number of each caption's text; texts that are equal but for case and spaces have the same
    mirrors: Mirrors | None = None  # mirrors among the clips of the table; None where training does not need them
    # degrees of relevance of all captions of the table and all its clips; None where training does not need them, see
    # `evenreel.training.splits.needs_relevance`
    classes: ClassRelevance | None = None
    sentences: tuple[str, ...] = ()  # P captions as they are written; empty where they are not known
    # (P,) how often each pair is drawn in an epoch on average; None for once each
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.captions)

    def digest(self) -> str:
        """Return a hexadecimal digest of the ids of captions and clips, pair by pair in order."""
        total = hashlib.sha256("\0".join((*self.caption_ids, "", *self.clip_ids)).encode("utf-8", "surrogatepass"))
        columns: list[NDArray[Any]] = [self.captions, self.clips, self.texts]
        if self.mirrors is not None:
            columns += [self.mirrors.other, self.mirrors.generated]
        if self.weights is not None:
            columns.append(self.weights)
        if (classes := self.classes) is not None:
            tables = (classes.caption_verbs, classes.caption_nouns, classes.video_verbs, classes.video_nouns)
            columns += [rows for table in tables for rows in (table.indptr, table.indices)]
        for rows in columns:
            total.update(rows.tobytes())
        return total.hexdigest()

    def same(self, rows: Indices) -> Tensor:
        """Mark which captions of B pairs describe which clips (B, B): their own, or those of captions of equal text."""
        clips, texts = self.clips[rows], self.texts[rows]
        return torch.from_numpy((clips[:, None] == clips) | (texts[:, None] == texts))

    def relevance(self, rows: Indices) -> Tensor | None:
        """Return the relevance (B, B), 0 to 1, of the clips of B pairs for their captions; None without classes."""
        if self.classes is None:
            return None
        degrees = self.classes.block(self.captions[rows], self.clips[rows])
        return torch.from_numpy(degrees.astype(np.float32))

    def taken(self, kept: NDArray[np.bool_]) -> Pairs:
        return replace(
            self,
            captions=self.captions[kept],
            clips=self.clips[kept],
            texts=self.texts[kept],
            sentences=tuple(text for text, keep in zip(self.sentences, kept, strict=False) if keep),
            weights=None if self.weights is None else self.weights[kept],
        )


def pairs_of(
    corpus: Corpus,
    caption_ids: Sequence[str],
    clip_ids: Sequence[str],
    mirrors: Mapping[str, str] | None = None,
    relevance: bool = False,
) -> Pairs:
    """Pair the captions of a corpus with their clips, in its order; those without a row in both tables are left out.

    Args:
        corpus: the training part of a corpus.
        caption_ids: ids of the rows of the table of captions.
        clip_ids: ids of the rows of the table of clips; a clip that was set aside has none.
        mirrors: real clips and the generated ones that mirror them, see `evenreel.training.splits.mirrors_of`; for
            training with `debias`.
        relevance: whether to add degrees of relevance as RANP has them: where all have one verb the form `iou` is
            `equal`; clips of many captions have more.

    Raises:
        CorpusError: no pair is left, or there are no classes that degrees of relevance could come from.
    """
    place_of_caption = {name: row for row, name in enumerate(caption_ids)}
    place_of_clip = {name: row for row, name in enumerate(clip_ids)}
    kept = corpus.captions.filter(
        pl.col("caption_id").is_in(list(place_of_caption)), pl.col("clip_id").is_in(list(place_of_clip))
    )
    if kept.height == 0:
        raise CorpusError("No caption of the training split has a clip that can be used; is it the right split?")
    try:
        classes = class_relevance(corpus, caption_ids, clip_ids, "iou", unknown="empty") if relevance else None
    except CorpusError as error:
        raise CorpusError(
            "Mining by relevance (matcher.settings.mining) needs verb and noun classes of captions and of clips, and "
            "the training split has none; fill them with `evenreel corpus classes`, or set the mining to hardest."
        ) from error
    text = kept["text"].str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
    return Pairs(
        tuple(caption_ids),
        tuple(clip_ids),
        np.array([place_of_caption[name] for name in kept["caption_id"]], np.int64),
        np.array([place_of_clip[name] for name in kept["clip_id"]], np.int64),
        (text.rank("dense").to_numpy() - 1).astype(np.int64),
        None if mirrors is None else mirror_rows(clip_ids, mirrors),
        classes,
        sentences=tuple(kept["text"]),
    )


@dataclass(frozen=True, eq=False)
class Order:
    """Order of pairs in batches: each epoch is a permutation, and pairs that do not fill a batch are left out of it."""

    pairs: int  # number of pairs
    batch_size: int  # pairs per batch
    seed: int  # seed of the permutations
    # (P,) how often each pair is in an epoch on average, with a mean of 1; None for once each
    weights: NDArray[np.float64] | None = None

    @property
    def batches_per_epoch(self) -> int:
        return self.pairs // self.batch_size

    def rows(self, batch: int) -> Indices:
        """Return the pairs (B,) of a batch by its number, counted from the start of the run."""
        epoch, place = divmod(batch, self.batches_per_epoch)
        return _epoch(self, epoch)[place * self.batch_size : (place + 1) * self.batch_size]


@lru_cache(maxsize=2)
def _epoch(order: Order, epoch: int) -> Indices:
    """The pairs of an epoch; with weights drawn systematically: each is there as often as its weight, rounded."""
    generator = np.random.default_rng([order.seed, epoch])
    permutation = generator.permutation(order.pairs)
    if order.weights is None:
        return permutation
    ends = np.cumsum(order.weights[permutation])
    at = (generator.random() + np.arange(order.pairs)) * ends[-1] / order.pairs
    drawn = permutation[np.searchsorted(ends, at, side="right").clip(max=order.pairs - 1)]
    return generator.permutation(drawn)


def batch_seed(seed: int, batch: int) -> int:
    """Return the seed of torch's random generator for a batch, so that each has dropout and noise of its own."""
    return int(np.random.SeedSequence([seed, batch]).generate_state(1, np.uint64)[0] >> np.uint64(1))


# Examples -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Q captions as tokens (Q, W) for a text tower."""

    ids: tuple[str, ...]
    tokens: TokenIds


@dataclass(frozen=True, eq=False)
class WindowTokens:
    """On-screen text of V clips in O windows each, as tokens of its sentences."""

    sentences: TokenIds  # (N, W) token ids of the N distinct sentences, and their mask
    rows: Tensor  # (V, O) index of each window's sentence; 0 where there is no text
    confidence: Tensor  # (V, O) confidence, 0 to 1, with which words were read
    words_from: str  # where the words are from, `ocr` or `corpus`
    full_length: bool = False  # whether the tower takes sentences of its full length only, as SigLIP does

    @property
    def mask(self) -> Tensor:
        return self.rows > 0

    def of(self, clips: Indices) -> WindowTokens:
        where = torch.from_numpy(clips)
        rows = self.rows[where]
        said, places = torch.unique(torch.cat([rows.new_zeros(1), rows.flatten()]), return_inverse=True)
        sentences = TokenIds(self.sentences.ids[said], self.sentences.mask[said])
        return replace(
            self,
            sentences=sentences if self.full_length else shortened(sentences),
            rows=places[1:].view_as(rows),
            confidence=self.confidence[where],
        )

    def digest(self) -> str:
        digest = hashlib.sha256()
        for tensor in (*self.sentences, self.rows, self.confidence):
            digest.update(np.ascontiguousarray(tensor.numpy()).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class PixelBatch:
    """Frames of V videos as pixels for an image tower; padding takes no memory."""

    ids: tuple[str, ...]  # ids of the V clips
    # (N, 3, h, w) uint8, the real frames of all videos one after the other, resized and cut for the tower
    pixels: Tensor
    frame_mask: Tensor  # (V, T) True = real, N in all
    times_s: Tensor  # (V, T) time of each frame in its clip, in seconds
    # (V, D) mean frame by the towers before training, see `evenreel.matchers.batches.VideoBatch`
    pretrained_mean: Tensor | None = None
    windows: WindowTokens | None = None  # tokens of on-screen text; None where not needed


Texts = TextBatch | TokenBatch
Videos = VideoBatch | PixelBatch


class Draw(NamedTuple):
    """Seed of the random changes of a batch: those of other rows, `alike`, for clips to be changed as these."""

    seed: int
    batch: int
    alike: Indices | None = None


class TrainingExamples(Protocol):
    """Captions and clips of one split of a corpus, in a form that training can load by rows."""

    @property
    def pairs(self) -> Pairs: ...

    def texts(self, rows: Indices) -> Texts: ...

    def videos(self, rows: Indices, draw: Draw | None = None) -> Videos:
        """Load clips by their rows; they are changed at random only where a `draw` is given."""


@dataclass(frozen=True, eq=False)
class FeatureExamples:
    """Training examples whose features were computed once; only their backgrounds may change at random."""

    pairs: Pairs  # pairs of rows of captions and clips
    text_features: TextFeatures  # features of the captions
    video_features: VideoFeatures  # features of the clips
    # backgrounds of the clips, which clips of a batch exchange; None where each keeps its own
    backgrounds: Backgrounds | None = None
    exchanged: float = 1.0  # probability that a clip gets the background of another one

    def texts(self, rows: Indices) -> TextBatch:
        return text_batch(self.text_features, rows)

    def videos(self, rows: Indices, draw: Draw | None = None) -> VideoBatch:
        batch = video_batch(self.video_features, rows)
        if draw is None or self.backgrounds is None:
            return batch
        rng = np.random.default_rng([draw.seed, draw.batch])
        added = torch.from_numpy(self.backgrounds.exchanged(rows, self.exchanged, rng))
        frames = F.normalize(batch.frames.float(), dim=-1) + added[:, None]
        return replace(batch, frames=frames.masked_fill(~batch.frame_mask[..., None], 0.0))


@dataclass(frozen=True, eq=False)
class TrainingInputs(Shown):
    """Data of a training run: examples to train on and to select on, with initial towers and weights."""

    examples: TrainingExamples  # examples of the training split
    dimension: int  # dimension D of their features
    validation: TrainingExamples | None = None  # examples that the model is selected on; None for none
    # towers that make features of pixels and tokens; None where examples are features
    towers: TrainableTowers | None = None
    # initial weights of the matcher, by name; empty for fresh ones
    start: Mapping[str, Tensor] = field(default_factory=dict)
    # spec of a matcher whose vocabulary is kept, such as that of these weights; None for that of the examples
    start_spec: MatcherSpec | None = None
    # identity of the data, such as the encoder's hash; a run is only resumed with the same
    source: Facts = field(default_factory=dict)
    lengths: ClipLengths | None = None  # lengths of the clips of the examples; None where no strata need them
    weights_hash: str | None = None  # hash of the weights of the features' encoder; None where not known
    selected: Corpus | None = None  # captions and clips of `validation`; None where not known
    encoder: EncoderUsed | None = None  # encoder of the features; None where not known
    # clips that take no part, nor do their captions, nor, with `debias`, their pairs
    set_aside: tuple[SetAside, ...] = ()
    notes: tuple[str, ...] = ()  # sentences on clips left out for their length, and on how often clips are drawn
    # labels of what training uses of other splits, by `trim`, the matcher's files or the checkpoint it begins with
    uses: tuple[str, ...] = ()


# Batches --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TrainingBatch:
    """One device's part of a batch, and the data of the whole batch of B pairs that its loss needs."""

    text: Texts  # captions of this device's part of the batch
    video: Videos  # clips of this part, in the order of its captions
    caption_ids: tuple[str, ...]  # B ids of captions
    clip_ids: tuple[str, ...]  # B ids of clips
    same: Tensor  # (B, B), see `evenreel.matchers.batches.PairBatch`
    # (B, B) relevance of the clips for the captions; None where the loss does not need it
    relevance: Tensor | None = None
    # B role graphs, which devices cannot send each other as they do tensors; None without
    graphs: tuple[RoleGraph, ...] | None = None
    sentences: tuple[str, ...] | None = None  # B captions as they are written; None where they are not known
    # counterparts (generated clips of real ones, or the other way round) of this part's clips; the clip itself where
    # there is none; None where training does not need them
    other: Videos | None = None
    other_ids: tuple[str, ...] = ()  # B ids of the counterparts
    present: Tensor | None = None  # (B,) True = there is a counterpart
    generated: Tensor | None = None  # (B,) True = the caption's own clip is the generated one


def moved(value: Batch, device: torch.device) -> Batch:
    """Return a batch, or any record of tensors, with these on another device."""
    given: Any = value
    if isinstance(given, Tensor):
        given = given.to(device, non_blocking=True)
    elif isinstance(given, TokenIds):
        given = TokenIds(*(moved(one, device) for one in given))
    elif is_dataclass(given):
        changed = {one.name: moved(getattr(given, one.name), device) for one in fields(given)}
        given = replace(given, **changed)  # type: ignore[type-var]  # it is an object and no class
    found: Batch = given
    return found


class Batches(Dataset[TrainingBatch]):
    """Dataset of the batches of a run by their number, each cut to one device's part (its index, number of devices)."""

    def __init__(self, examples: TrainingExamples, order: Order, part: tuple[int, int] = (0, 1)) -> None:
        self.examples, self._order, self._part = examples, order, part

    def __getitem__(self, number: int) -> TrainingBatch:
        pairs, rows = self.examples.pairs, self._order.rows(number)
        captions, clips, draw = pairs.captions[rows], pairs.clips[rows], Draw(self._order.seed, number)
        features = self.examples.text_features if isinstance(self.examples, FeatureExamples) else None
        graphs = None if features is None else features.graphs
        batch = TrainingBatch(
            self.examples.texts(self._own(captions)),
            self.examples.videos(self._own(clips), draw),
            tuple(pairs.caption_ids[row] for row in captions),
            tuple(pairs.clip_ids[row] for row in clips),
            pairs.same(rows),
            pairs.relevance(rows),
            None if graphs is None else tuple(graphs[row] for row in captions),
            tuple(pairs.sentences[row] for row in rows) if pairs.sentences else None,
        )
        if (mirrors := pairs.mirrors) is None:
            return batch
        present = mirrors.other[clips] >= 0
        shown = np.where(present, mirrors.other[clips], clips)
        # A clip and its mirror are cropped and flipped alike, for no other difference is to count as a preference.
        return replace(
            batch,
            other=self.examples.videos(self._own(shown), draw._replace(alike=self._own(clips))),
            other_ids=tuple(pairs.clip_ids[row] for row in shown),
            present=torch.from_numpy(present),
            generated=torch.from_numpy(mirrors.generated[clips]),
        )

    def _own(self, rows: Indices) -> Indices:
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


def unchanged(batch: Any) -> Any:
    """Return a batch unchanged: the collate function of a loader of batches."""
    return batch


class BatchLoader(DataLoader[Batch]):
    """Loader of the batches of a dataset, in order; an error of a worker process is raised when its turn comes."""

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
    """Loader of the `count` batches of a whole run, whose position Lightning saves in checkpoints and restores."""

    def __init__(self, batches: Batches, count: int, workers: int) -> None:
        self._remaining = Remaining(count)
        super().__init__(batches, useful_workers(batches.examples, workers), self._remaining)
        self._given = 0

    def __iter__(self) -> Iterator[TrainingBatch]:  # type: ignore[override]  # as above
        self._given = self._remaining.done
        for batch in super().__iter__():
            self._given += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"given": self._given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._remaining.done = self._given = state["given"]


def useful_workers(examples: TrainingExamples, workers: int) -> int:
    return 0 if isinstance(examples, FeatureExamples) else workers
