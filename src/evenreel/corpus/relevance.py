"""Relevance of clips to captions: a caption's own clip, all clips with an equal caption, or degrees from classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from evenreel.config import check_corpus, check_ids
from evenreel.errors import CorpusError, UsageError
from evenreel.types import Corpus, Shown

OTHER_CLIPS = "other_clips"
"""Column of captions: ids of further clips that answer each, beside its own."""
VerbForm = Literal["equal", "iou"]
Rows = slice | NDArray[np.int64]
_Sets = Sequence[Sequence[int]]


class Relevance(Protocol):
    """Degrees of relevance from 0 to 1 of V videos to Q captions, a matrix (Q, V) that is read a block at a time."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of captions and videos, (Q, V)."""

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        """Return the relevance (rows, columns) of some captions and videos; both slices have a start and a stop."""


@dataclass(frozen=True, eq=False)
class GradedPairs(Shown):
    """Degrees of relevance, stored where they are above 0; implements `Relevance`.

    Attributes:
        matrix: (Q, V) sparse degrees.
    """

    matrix: sparse.csr_array

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of captions and videos, (Q, V)."""
        rows, columns = self.matrix.shape
        return int(rows), int(columns)

    def block(self, captions: slice, videos: slice) -> NDArray[np.float64]:
        """Return the relevance (rows, columns) of some captions and videos; both slices have a start and a stop."""
        return np.asarray(self.above_zero(captions, videos).toarray(), dtype=np.float64)

    def above_zero(self, captions: slice, videos: slice) -> sparse.csr_array:
        """Return the relevance (rows, columns) of some captions and videos as a sparse array of the degrees above 0."""
        return self.matrix[captions][:, videos]


@dataclass(frozen=True, eq=False)
class RelevantPairs(GradedPairs):
    """Relevance of 1 or 0, stored as its pairs, sparse booleans (Q, V)."""


@dataclass(frozen=True, eq=False)
class ClassRelevance(Shown):
    """Relevance from classes: half the agreement of verbs, half that of nouns; implements `Relevance`.

    R(q, v) = (verbs(q, v) + IoU(nouns of q, nouns of v)) / 2, where `verbs` is the IoU of the verb classes too, or 1
    where they are equal and else 0. The IoU of two empty sets is 0. With one verb each both forms are the same.
    (EPIC-KITCHENS-100 multi-instance retrieval; the frame-length paper, section on metrics.)

    Attributes:
        caption_verbs, caption_nouns: (Q, C) sparse, 1 where a caption has the class.
        video_verbs, video_nouns: (V, C) sparse, 1 where a video has the class.
        verbs: `iou` or `equal`, how verbs are compared.
    """

    caption_verbs: sparse.csr_array
    caption_nouns: sparse.csr_array
    video_verbs: sparse.csr_array
    video_nouns: sparse.csr_array
    verbs: VerbForm = "equal"

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of captions and videos, (Q, V)."""
        return int(self.caption_verbs.shape[0]), int(self.video_verbs.shape[0])

    def block(self, captions: Rows, videos: Rows) -> NDArray[np.float64]:
        """Return the relevance (rows, columns) of some captions and videos, given by slices or indices in any order."""
        return np.asarray(self.above_zero(captions, videos).toarray(), dtype=np.float64)

    def above_zero(self, captions: Rows, videos: Rows) -> sparse.csr_array:
        """Return the relevance (rows, columns) of some captions and videos as a sparse array of the degrees above 0."""
        verbs = _agreement(self.caption_verbs[captions], self.video_verbs[videos], self.verbs)
        total = verbs + _agreement(self.caption_nouns[captions], self.video_nouns[videos], "iou")
        degrees = sparse.csr_array(total / 2)
        degrees.eliminate_zeros()
        return degrees


def own_clip(corpus: Corpus, caption_ids: Sequence[str], video_ids: Sequence[str]) -> RelevantPairs:
    """Return the relevance (Q, V) that is 1 for a caption's own clip and for those in its column `other_clips`, else 0.

    Args:
        corpus: corpus of the captions and clips.
        caption_ids: Q captions.
        video_ids: V clips.

    Raises:
        CorpusError: an id is not in the corpus.
    """
    own, shown = _clips_of(corpus, caption_ids, video_ids), [{video} for video in video_ids]
    if OTHER_CLIPS not in corpus.captions.columns:
        return _pairs(own, shown)
    others = dict(corpus.captions.select("caption_id", OTHER_CLIPS).iter_rows())
    answered: dict[str, set[str]] = {}
    for caption, clip in zip(caption_ids, own, strict=True):
        for name in (clip, *(others[caption] or ())):
            answered.setdefault(name, set()).add(caption)
    return _pairs(list(caption_ids), [answered.get(video, set()) for (video,) in shown])


def same_text(corpus: Corpus, caption_ids: Sequence[str], video_ids: Sequence[str]) -> RelevantPairs:
    """Return the relevance (Q, V) that is 1 for every clip with a caption of the same text, else 0.

    Texts are compared letter by letter, without spaces around them (995 of the 1,000 captions of MSR-VTT 1k-A differ).

    Args:
        corpus: corpus of the captions and clips.
        caption_ids: Q captions.
        video_ids: V clips.

    Raises:
        CorpusError: an id is not in the corpus.
    """
    _clips_of(corpus, caption_ids, video_ids)
    texts = corpus.captions.select("caption_id", "clip_id", pl.col("text").str.strip_chars())
    of_caption = dict(texts.select("caption_id", "text").iter_rows())
    of_clip = dict(texts.group_by("clip_id").agg("text").iter_rows())
    return _pairs([of_caption[one] for one in caption_ids], [of_clip.get(video, []) for video in video_ids])


def class_relevance(
    corpus: Corpus,
    caption_ids: Sequence[str],
    video_ids: Sequence[str],
    verbs: VerbForm = "equal",
    unknown: Literal["refuse", "empty"] = "refuse",
) -> ClassRelevance:
    """Compute degrees of relevance (Q, V) from the verb and noun classes of captions and clips; see `ClassRelevance`.

    Args:
        corpus: corpus that has the classes.
        caption_ids: Q captions.
        video_ids: V clips.
        verbs: `iou` or `equal`, how verb classes are compared.
        unknown: for ids that are not in the corpus: `refuse` raises an error, `empty` treats them as without classes,
            for tables of which the corpus is a part.

    Raises:
        CorpusError: an id is not in the corpus, or no caption or no clip has classes.
        UsageError: `verbs` is neither `iou` nor `equal`.
    """
    check_corpus(corpus)
    if verbs not in get_args(VerbForm):
        raise UsageError(f"There is no form {verbs!r} of the verbs' half; choose {' or '.join(get_args(VerbForm))}.")
    if unknown == "refuse":
        _check_known(corpus.captions, "caption_id", caption_ids)
        _check_known(corpus.clips, "clip_id", video_ids)
    captions = _classes(corpus.captions, "caption_id", caption_ids)
    videos = _classes(corpus.clips, "clip_id", video_ids)
    caption_verbs, video_verbs = _both_sets(captions["verb_classes"], videos["verb_classes"])
    caption_nouns, video_nouns = _both_sets(captions["noun_classes"], videos["noun_classes"])
    return ClassRelevance(caption_verbs, caption_nouns, video_verbs, video_nouns, verbs)


def _both_sets(first: _Sets, second: _Sets) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Sets of any numbers as tables with a column for each different one: huge numbers make no wide table."""
    there = sorted({number for one in (*first, *second) for number in one})
    place = {number: column for column, number in enumerate(there)}
    tables = [sparse_sets([[place[number] for number in one] for one in side], len(there)) for side in (first, second)]
    return tables[0], tables[1]


def sparse_sets(sets: _Sets, count: int) -> sparse.csr_array:
    """Turn N sets of whole numbers below `count` into a sparse array (N, count), 1 where a set has the number.

    >>> sparse_sets([[0, 2], [], [2, 2]], 3).toarray().tolist()
    [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    distinct = [sorted(set(one)) for one in sets]
    ends = np.cumsum([0] + [len(one) for one in distinct])
    columns = np.array([number for one in distinct for number in one], dtype=np.int64)
    return sparse.csr_array((np.ones(len(columns)), columns, ends), shape=(len(sets), max(count, 1)))


def _agreement(first: sparse.csr_array, second: sparse.csr_array, form: VerbForm) -> sparse.csr_array:
    """(q, C) and (v, C) sets -> (q, v): IoU, or 1 where the sets are equal; entries of 0 are not stored."""
    shared = (first @ second.T).tocoo()
    union = first.sum(axis=1)[shared.row] + second.sum(axis=1)[shared.col] - shared.data
    values = shared.data / union if form == "iou" else (shared.data == union).astype(np.float64)
    return sparse.csr_array((values, (shared.row, shared.col)), shape=shared.shape)


def _classes(table: pl.DataFrame, key: str, ids: Sequence[str]) -> dict[str, list[list[int]]]:
    rows = _rows(table, key, ids)
    what = "captions" if key == "caption_id" else "clips"
    found = {kind: [row or [] for row in rows[kind].to_list()] for kind in ("verb_classes", "noun_classes")}
    if not any(found["verb_classes"]) and not any(found["noun_classes"]):
        raise CorpusError(
            f"None of the {what} has verb or noun classes, so there are no degrees of relevance; add the columns "
            "verb_classes and noun_classes, or rank with plain relevance."
        )
    return found


def _clips_of(corpus: Corpus, caption_ids: Sequence[str], video_ids: Sequence[str]) -> list[Any]:
    """The own clip of each caption; ids that are not in the corpus are refused."""
    check_corpus(corpus)
    _check_known(corpus.captions, "caption_id", caption_ids)
    _check_known(corpus.clips, "clip_id", video_ids)
    return _rows(corpus.captions, "caption_id", caption_ids)["clip_id"].to_list()


def _check_known(table: pl.DataFrame, key: str, ids: Sequence[str]) -> None:
    strangers = _ids(key, ids).filter(~pl.col(key).is_in(table[key].implode()))
    if strangers.height:
        raise CorpusError(f"{strangers[key][0]!r} is no {key} of the corpus ({strangers.height} unknown in all).")


def _rows(table: pl.DataFrame, key: str, ids: Sequence[str]) -> pl.DataFrame:
    """The rows with these ids, in their order; nulls for ids that are not there."""
    return _ids(key, ids).join(table, on=key, how="left", maintain_order="left")


def _ids(key: str, ids: Sequence[str]) -> pl.DataFrame:
    check_ids(ids, f"{key}s")
    return pl.DataFrame({key: list(ids)}, schema={key: pl.String})


def _pairs(wanted: Sequence[Any], offered: Sequence[Any]) -> RelevantPairs:
    """Pairs of each wanted value with every place that offers it."""
    places: dict[Any, list[int]] = {}
    for place, values in enumerate(offered):
        for value in set(values):
            places.setdefault(value, []).append(place)
    columns = [places.get(value, []) for value in wanted]
    ends = np.cumsum([0] + [len(one) for one in columns])
    flat = np.array([place for one in columns for place in one], dtype=np.int64)
    matrix = sparse.csr_array((np.ones(len(flat), bool), flat, ends), shape=(len(wanted), len(offered)))
    return RelevantPairs(matrix)
