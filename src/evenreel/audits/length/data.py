"""Lengths of the training clips and of the ranked clips, by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.arrays import Column
from evenreel.audits.exchange import ClipProperty
from evenreel.audits.length.class_lengths import ClassLengths, class_lengths
from evenreel.corpus.actions import ActionLengths, Actions, Unit, action_names, actions_of, clip_lengths
from evenreel.corpus.relevance import Relevance, class_relevance, same_text
from evenreel.errors import CorpusError
from evenreel.evaluation.intervals import AUTO, clusters_of
from evenreel.types import Corpus, ScoreBlocks

_FPS = 60.0
"""Frame rate of EPIC-KITCHENS-100, for frames whose rate is not known."""


@dataclass(frozen=True, eq=False)
class TrainTestClasses:
    """Classes of N training clips and of V ranked ones.

    Attributes:
        actions: actions of the N training clips, then of the V ranked ones; `clips` of actions count through both.
        trained: (A,) True for actions of training clips, of all A actions.
        names: names of the classes, as captions call them.
        common: mean lengths of the classes that both have.
    """

    actions: Actions
    trained: NDArray[np.bool_]
    names: Mapping[int, str]
    common: ClassLengths

    def counts(self, *, trained: bool) -> NDArray[np.int64]:
        """Count the actions of each of C classes (C,), of training clips or of ranked ones."""
        return np.bincount(self.actions.classes[self.trained == trained], minlength=len(self.actions.pairs))

    @cached_property
    def train_mean(self) -> Column:
        """Mean length (C,) of each class in training; NaN for a class that is not in both splits."""
        return self._spread(self.common.train_mean)

    @cached_property
    def test_mean(self) -> Column:
        """Mean length (C,) of the ranked clips of each class; NaN for a class without any."""
        return self._spread(self.common.test_mean)

    def _spread(self, values: Column) -> Column:
        found = np.full(len(self.actions.pairs), np.nan)
        found[self.common.classes] = values
        return found


@dataclass(frozen=True, eq=False)
class LengthData:
    """Lengths of the clips of a gallery, and of the training clips.

    Attributes:
        corpus: the V clips of the scores, in their order, with captions; a caption without classes gets its clip's.
        lengths: (V,) length of each clip, or of a single action of it where it has several; NaN where not known or not
            above 0.
        whole: (V,) length of each whole clip.
        train_lengths: (N,) lengths of the training clips; empty where none are given.
        unit: unit of all lengths.
        second: number of these units in a second.
        classes: classes of training and ranked clips; None where clips have none, or the training clips are not known.
        class_logs: (V,) mean logarithm of the lengths of the ranked clips of each one's class, over the classes of a
            clip that has several; None where the clips have none.
        kinds: (V,) number of the kind of each clip, within which lengths may be permuted: clips of the same classes, or
            all without classes. Clips that share their classes with no other are of one kind.
        cluster: (V,) cluster of each clip, such as its video; clips of one are resampled together.
        caption_clips: (Q,) row of each caption's clip, -1 where it is not known.
        rounding: largest error of the mean length of a class due to re-timed frames; 0 where frames are as annotated.
        shared: number of clips of the scores that are training clips too.
    """

    corpus: Corpus
    lengths: Column
    whole: Column
    train_lengths: Column
    unit: Unit
    second: float
    classes: TrainTestClasses | None
    class_logs: Column | None
    kinds: NDArray[np.int64]
    cluster: NDArray[np.int64]
    caption_clips: NDArray[np.int64]
    rounding: float = 0.0
    shared: int = 0

    @classmethod
    def of(cls, scores: ScoreBlocks, corpus: Corpus, train: Corpus | None, cluster: str = AUTO) -> LengthData:
        """Collect the lengths of scored clips, and of the training clips where they are given.

        Args:
            scores: scores of captions and clips.
            corpus: corpus of the scores.
            train: corpus of the training clips; None where it is not known.
            cluster: clips that are resampled together, see `evenreel.evaluation.intervals`.

        Raises:
            CorpusError: a clip of the scores is not in the corpus, or no length is known.
        """
        ranked = _ranked(scores, corpus)
        both = ranked if train is None else _joined(train, ranked)
        count = both.clips.height - ranked.clips.height
        lengths, unit = clip_lengths(both)
        whole = np.where(lengths[count:] > 0, lengths[count:], np.nan)
        if np.isnan(whole).all():
            raise CorpusError(
                "The corpus says of no clip how long it is; give its clips duration_s, frame_count, or start_s and "
                "end_s, for example with `evenreel corpus overview CORPUS --keep-facts`."
            )
        classes = _classes(both, count)
        own = whole if classes is None else _of_one_action(whole, classes.actions, count)
        second = 1.0 if unit == "seconds" else _rate(ranked)
        logs = None if classes is None else _class_logs(own, classes.actions, count)
        known = None if train is None else classes
        clips = _caption_clips(scores, ranked)
        shared = 0 if train is None else len(set(train.clips["clip_id"]).intersection(scores.video_ids))
        kinds = np.zeros(len(own), np.int64) if classes is None else _kinds(classes.actions, count, len(own))
        drawn = clusters_of(corpus, cluster).of(scores.video_ids)
        return cls(
            ranked, own, whole, lengths[:count], unit, second, known, logs, kinds, drawn, clips, _rounding(both), shared
        )

    @property
    def others(self) -> str:
        """Words for the clips that the first clips are compared with."""
        return "the gallery's clips" if self.class_logs is None else "clips of their own classes"

    @cached_property
    def relevance(self) -> Relevance | None:
        """Relevance (Q, V): degrees from classes where there are any, else 1 or 0; None where no caption is known."""
        captions, clips = self.corpus.captions, self.corpus.clips
        if not (self.caption_clips >= 0).any():
            return None
        ids = captions["caption_id"].to_list(), clips["clip_id"].to_list()
        told = all(table[name].drop_nulls().list.len().sum() for table in (captions, clips) for name in _KINDS)
        return class_relevance(self.corpus, *ids) if told else same_text(self.corpus, *ids)

    @cached_property
    def beyond_class(self) -> ClipProperty:
        """Logarithm of each clip's length, less the mean of its class where clips have classes, to be permuted."""
        known = np.flatnonzero(~np.isnan(self.lengths))
        logs = np.log(self.lengths[known])
        values = logs if self.class_logs is None else logs - self.class_logs[known]
        order = np.argsort(self.corpus.clips["clip_id"].to_numpy()[known], kind="stable")
        return ClipProperty(values, self.kinds[known], self.cluster[known], order)

    def of_captions(self, by_class: Column) -> Column:
        """Compute the mean of a figure of classes (C,) over each caption's classes: (Q,); NaN where unknown."""
        if self.classes is None:
            return np.full(len(self.caption_clips), np.nan)
        actions, ranked = self.classes.actions, ~self.classes.trained
        clips, values = actions.clips[ranked] - len(self.train_lengths), by_class[actions.classes[ranked]]
        known = ~np.isnan(values)
        total, count = (
            np.bincount(clips[known], weights, minlength=len(self.lengths) + 1)  # the last one for captions of no clip
            for weights in (values[known], None)
        )
        with np.errstate(invalid="ignore"):
            return np.asarray((total / count)[self.caption_clips])

    @cached_property
    def caption_class(self) -> NDArray[np.int64]:
        """First class (Q,) of each caption's own clip; -1 where it has none."""
        found = np.full(len(self.lengths) + 1, -1)
        if self.classes is not None:
            own = np.flatnonzero(~self.classes.trained)[::-1]  # the first action of a clip is written last
            found[self.classes.actions.clips[own] - len(self.train_lengths)] = self.classes.actions.classes[own]
        return found[self.caption_clips]

    @property
    def clip_groups(self) -> NDArray[np.int64]:
        """Group (Q,) of each caption, by its clip or video, to be resampled together.

        Captions of no known clip are groups by themselves.
        """
        alone = -1 - np.arange(len(self.caption_clips))
        return np.where(self.caption_clips >= 0, self.cluster[self.caption_clips], alone)

    @property
    def groups(self) -> NDArray[np.int64]:
        """Group (Q,) of each caption, by class or else by clip, to be resampled together.

        Captions of no known clip are groups by themselves.
        """
        alone = -1 - np.arange(len(self.caption_clips))
        classes, clips = self.caption_class, self.caption_clips
        by_clip = np.where(clips >= 0, len(self.classes.actions.pairs) + clips if self.classes else clips, alone)
        return np.where(classes >= 0, classes, by_clip)


_KINDS = ("verb_classes", "noun_classes")


def _ranked(scores: ScoreBlocks, corpus: Corpus) -> Corpus:
    """Clips and captions of the scores, in their order; captions that the corpus does not know are left as ids."""
    clips = pl.DataFrame({"clip_id": list(scores.video_ids)}, schema={"clip_id": pl.String})
    strangers = clips.filter(~pl.col("clip_id").is_in(corpus.clips["clip_id"].implode()))
    if strangers.height:
        raise CorpusError(
            f"{strangers['clip_id'][0]!r} is a clip of the scores and not of the corpus ({strangers.height:,} of "
            f"{clips.height:,} in all); name the corpus and the split that the scores are of."
        )
    of_clip = corpus.clips.select("clip_id", *_KINDS)
    captions = corpus.captions.join(of_clip, on="clip_id", how="left", suffix="_of_clip", maintain_order="left")
    own = captions.with_columns(pl.coalesce(kind, f"{kind}_of_clip").alias(kind) for kind in _KINDS)
    asked = pl.DataFrame({"caption_id": list(scores.caption_ids)}, schema={"caption_id": pl.String})
    return Corpus(
        clips.join(corpus.clips, on="clip_id", how="left", maintain_order="left"),
        asked.join(own.select(corpus.captions.columns), on="caption_id", how="left", maintain_order="left"),
    )


def _joined(train: Corpus, ranked: Corpus) -> Corpus:
    """Both, training first, so that a class has one number in both."""
    return Corpus(
        pl.concat([train.clips, ranked.clips], how="diagonal_relaxed"),
        pl.concat([train.captions, ranked.captions], how="diagonal_relaxed"),
    )


def _classes(both: Corpus, count: int) -> TrainTestClasses | None:
    """Classes of both; None where no clip has one."""
    if not both.clips["verb_classes"].drop_nulls().list.len().sum():
        return None
    actions = actions_of(both)
    trained = actions.clips < count
    sides = [ActionLengths(actions.classes[side], actions.lengths[side]) for side in (trained, ~trained)]
    return TrainTestClasses(actions, trained, action_names(both, actions), class_lengths(sides[0], sides[1]))


def _of_one_action(lengths: Column, actions: Actions, count: int) -> Column:
    """(V,) lengths of clips, equally divided among the verbs of each."""
    found = lengths.copy()
    own = actions.clips >= count
    found[actions.clips[own] - count] = actions.lengths[own]
    return np.where(np.isnan(lengths), np.nan, found)


def _class_logs(lengths: Column, actions: Actions, count: int) -> Column:
    """See `LengthData.class_logs`; clips without a class are one more class, and 0 is of one without known lengths."""
    own = actions.clips >= count
    alone = np.setdiff1d(np.arange(len(lengths)), actions.clips[own] - count)
    clips = np.concatenate([actions.clips[own] - count, alone])
    classes = np.concatenate([actions.classes[own], np.full(len(alone), len(actions.pairs))])
    logs = np.log(lengths)[clips]
    known = ~np.isnan(logs)
    counts = np.bincount(classes[known], minlength=len(actions.pairs) + 1)
    means = np.bincount(classes[known], logs[known], len(counts)) / np.maximum(counts, 1)
    return np.asarray(np.bincount(clips, means[classes]) / np.bincount(clips))


def _kinds(actions: Actions, count: int, clips: int) -> NDArray[np.int64]:
    """See `LengthData.kinds`; clips without a class are of one kind too."""
    own = actions.clips >= count
    classes: list[list[int]] = [[] for _ in range(clips)]
    for clip, one in zip((actions.clips[own] - count).tolist(), actions.classes[own].tolist(), strict=True):
        classes[clip].append(one)
    number: dict[tuple[int, ...], int] = {}
    found = np.array([number.setdefault(tuple(sorted(set(one))), len(number)) for one in classes], dtype=np.int64)
    return np.where(np.bincount(found)[found] > 1, found, -1)


def _caption_clips(scores: ScoreBlocks, ranked: Corpus) -> NDArray[np.int64]:
    row = {clip: place for place, clip in enumerate(scores.video_ids)}
    return np.array([row.get(clip, -1) for clip in ranked.captions["clip_id"]], dtype=np.int64)


def _rate(ranked: Corpus) -> float:
    """Frames a second that most ranked clips are counted in."""
    named = [
        pl.col(name).cast(pl.Float64, strict=False) for name in ("annotated_fps", "fps") if name in ranked.clips.columns
    ]
    rates = ranked.clips.select(pl.coalesce(named)).to_series().drop_nulls()
    return float(rates.mode().sort()[0]) if len(rates) else _FPS


def _rounding(both: Corpus) -> float:
    """Frames that a re-timed length may be off: half a frame of its own rate at either end, in annotated ones."""
    if "annotated_fps" not in both.clips.columns:
        return 0.0
    ratio = pl.col("annotated_fps").cast(pl.Float64, strict=False) / pl.col("fps")
    coarsest = both.clips.select(ratio.fill_null(1.0).max()).item()
    return float(coarsest) if coarsest is not None and coarsest > 1 else 0.0
