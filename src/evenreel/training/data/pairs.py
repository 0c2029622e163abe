"""Training pairs of captions and clips, and their order in batches, which depends on the seed and the step alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from evenreel.arrays import Indices
from evenreel.corpus.relevance import ClassRelevance, class_relevance
from evenreel.errors import CorpusError
from evenreel.training.recipe import Recipe
from evenreel.types import Corpus


@dataclass(frozen=True, eq=False)
class Pairs:
    """P captions, each with its clip, as rows of a table of captions and one of clips.

    Attributes:
        caption_ids: ids of all captions of the table.
        clip_ids: ids of all clips of the table.
        captions: (P,) rows of captions in their table.
        clips: (P,) rows of clips in their table.
        texts: (P,) number of each caption's text; texts that are equal but for case and spaces have the same.
        mirrors: mirrors among the clips of the table; None where training does not need them.
        classes: degrees of relevance of all captions of the table and all its clips; None where training does not need
            them, see `needs_relevance`.
        sentences: P captions as they are written; empty where they are not known.
        weights: (P,) how often each pair is drawn in an epoch on average; None for once each.
    """

    caption_ids: tuple[str, ...]
    clip_ids: tuple[str, ...]
    captions: Indices
    clips: Indices
    texts: Indices
    mirrors: Mirrors | None = None
    classes: ClassRelevance | None = None
    sentences: tuple[str, ...] = ()
    weights: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.captions)

    def digest(self) -> str:
        """Return a hexadecimal digest of the ids of captions and clips, pair by pair in order."""
        total = hashlib.sha256("\0".join((*self.caption_ids, "", *self.clip_ids)).encode("utf-8", "surrogatepass"))
        mirrors = () if self.mirrors is None else (self.mirrors.other, self.mirrors.generated)
        optional = () if self.weights is None else (self.weights,)
        for rows in (self.captions, self.clips, self.texts, *mirrors, *optional, *_class_rows(self.classes)):
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

    def sentences_of(self, rows: Indices) -> tuple[str, ...] | None:
        """Return the captions of B pairs as they are written; None where they are not known."""
        return tuple(self.sentences[row] for row in rows) if self.sentences else None


def needs_relevance(recipe: Recipe) -> bool:
    """Return whether a recipe's loss needs degrees of relevance: a ranking loss with mining `ran` or `ranp`."""
    if "mining" not in recipe.matcher.settings:  # of most matchers; their trainings need no ranking loss
        return False
    from evenreel.losses.ranking import BY_RELEVANCE

    return recipe.matcher.settings["mining"] in BY_RELEVANCE


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
        mirrors: real clips and the generated ones that mirror them, see `evenreel.training.data.splits.mirrors_of`; for
            training with `debias`.
        relevance: whether to add degrees of relevance, see `needs_relevance`.

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
    text = kept["text"].str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars()
    return Pairs(
        tuple(caption_ids),
        tuple(clip_ids),
        np.array([place_of_caption[name] for name in kept["caption_id"]], np.int64),
        np.array([place_of_clip[name] for name in kept["clip_id"]], np.int64),
        (text.rank("dense").to_numpy() - 1).astype(np.int64),
        None if mirrors is None else mirror_rows(clip_ids, mirrors),
        _classes(corpus, caption_ids, clip_ids) if relevance else None,
        sentences=tuple(kept["text"]),
    )


def _classes(corpus: Corpus, caption_ids: Sequence[str], clip_ids: Sequence[str]) -> ClassRelevance:
    """Degrees as RANP has them: where all have one verb the form `iou` is `equal`; clips of many captions have more."""
    try:
        return class_relevance(corpus, caption_ids, clip_ids, "iou", unknown="empty")
    except CorpusError as error:
        raise CorpusError(
            "Mining by relevance (matcher.settings.mining) needs verb and noun classes of captions and of clips, and "
            "the training split has none; fill them with `evenreel corpus classes`, or set the mining to hardest."
        ) from error


def _class_rows(classes: ClassRelevance | None) -> Iterator[NDArray[np.integer]]:
    """All that degrees of relevance come from, for a digest."""
    if classes is not None:
        tables = (classes.caption_verbs, classes.caption_nouns, classes.video_verbs, classes.video_nouns)
        for table in tables:
            yield from (table.indptr, table.indices)


@dataclass(frozen=True, eq=False)
class Order:
    """Order of pairs in batches: each epoch is a permutation, and pairs that do not fill a batch are left out of it.

    Attributes:
        pairs: number of pairs.
        batch_size: pairs per batch.
        seed: seed of the permutations.
        weights: (P,) how often each pair is in an epoch on average, with a mean of 1; None for once each.
    """

    pairs: int
    batch_size: int
    seed: int
    weights: NDArray[np.float64] | None = None

    @property
    def batches_per_epoch(self) -> int:
        """Number of whole batches in an epoch."""
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


@dataclass(frozen=True, eq=False)
class Mirrors:
    """Pairs of a real clip and the generated one that mirrors it, among the clips of a table.

    Attributes:
        other: (V,) row of the other clip of each clip's pair; -1 where it has none in the table.
        generated: (V,) True = the clip is the generated one of its pair.
    """

    other: NDArray[np.int64]
    generated: NDArray[np.bool_]


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
