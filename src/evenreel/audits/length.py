"""Audit of length bias: does a ranking of any system or library depend on how long clips are?

According to the paper on frame-length bias (sections A and B), clips whose class was short in training and is long in
test are missed. The measures are the paper's, except the length bias itself, which it argues from a few classes: first
clips have the lengths that their class had in training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from math import isnan
from types import NoneType
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import spearmanr

from evenreel.arrays import CACHED_BYTES, Column, Indices, row_bands
from evenreel.audits.class_lengths import (
    ClassLengths,
    TailClasses,
    class_lengths,
    drawn_discrepancies,
    tail_by_frequency,
)
from evenreel.audits.exchange import BOTH, PROBES, ClipProperty, exchange_test, inverted_interval, queries_part, widened
from evenreel.audits.inputs import OrderedRows, as_inputs, candidates, paragraph, score_notices
from evenreel.audits.length_charts import (
    STRIP_DEPTH,
    Groups,
    Strip,
    Weighted,
    discrepancy_bars,
    length_boxes,
    length_histograms,
    relevance_strips,
)
from evenreel.audits.settings import AuditSettings
from evenreel.config import check_kind
from evenreel.corpus.actions import ActionLengths, Actions, Unit, action_names, actions_of, clip_lengths
from evenreel.corpus.folder import CorpusLike, as_corpus
from evenreel.corpus.relevance import Relevance, class_relevance, same_text
from evenreel.debias.frame_length import PRESETS, Trimming, adjusted_strata, equal_strata, strata_at, trimmed
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation.intervals import AUTO, clusters_of, percentile_ends, resampled_weights
from evenreel.evaluation.metrics import FIRST_RANK, parse_metric
from evenreel.evaluation.ranking import CheckedScores, Items, Search, best_items, find_places, first_hits, hit_columns
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import (
    ENOUGH,
    AuditFigure,
    AuditResult,
    AuditTable,
    Cell,
    Effect,
    Row,
    by_certainty,
    figure_words,
)
from evenreel.types import Corpus, ScoreBlocks, Shown

_FPS = 60.0
"""Frame rate of EPIC-KITCHENS-100: of the lengths that presets are for, and of frames whose rate is not known."""

FAILED = 10  # a caption fails where the first clip that answers stands behind this rank
DEPTHS = (1, 5, 10, 20, 50)
MAIN = 20  # depth of the effect: the paper on frame-length bias looks at the mean length of the first 20 (section B)
USES_TEST = "uses test statistics"

_KINDS = ("verb_classes", "noun_classes")


def audit_length(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    train: CorpusLike | None = None,
    tail: TailClasses | None = None,
) -> AuditResult:
    """Test whether the first clips of rankings have the lengths of their classes in training, or just longer ones.

    With `train` and verb classes the effect is the length bias (`LengthMeasures`); without, it is the ratio of the
    length of the first clips to that of others, which needs only lengths and any queries.

    Args:
        scores: scores of captions and clips.
        corpus: corpus of these captions and clips, with the clips' lengths.
        settings: samples, seed, confidence, and how much is read at once.
        train: corpus that the system was trained on; None where it is not known.
        tail: classes with few training clips; None to find them by their frequency.

    Raises:
        CorpusError: a clip of the scores is not in the corpus, or no length is known.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    measured = measure_length(scores, corpus, settings, train=train, tail=tail)
    words = _length_bias_sentence if measured.has_length_bias else _ratio_sentence
    return AuditResult(
        name="length",
        title="Does the ranking go by the length of clips?",
        sentence=words(measured, settings.confidence),
        effect=measured.effect,
        tables=tuple(_tables(measured)),
        figures=tuple(_figures(measured, CheckedScores(scores))),
        notices=(
            *score_notices(scores, corpus, settings.cluster),
            *length_notices(measured, trained=train is not None),
        ),
        method=tuple(length_method(measured)),
        confidence=settings.confidence,
    )


# Lengths of the training clips and of the ranked clips, by class.


@dataclass(frozen=True, eq=False)
class TrainTestClasses:
    """Classes of N training clips and of V ranked ones."""

    # actions of the N training clips, then of the V ranked ones; `clips` of actions count through both
    actions: Actions
    trained: NDArray[np.bool_]  # (A,) True for actions of training clips, of all A actions
    names: Mapping[int, str]  # names of the classes, as captions call them

    @classmethod
    def of(cls, both: Corpus, count: int) -> TrainTestClasses | None:
        """Collect the classes of `count` training clips and the ranked ones behind them; None where no clip has any."""
        if not both.clips["verb_classes"].drop_nulls().list.len().sum():
            return None
        actions = actions_of(both)
        return cls(actions, actions.clips < count, action_names(both, actions))

    @cached_property
    def sides(self) -> tuple[ActionLengths, ActionLengths]:
        """Actions of training, and of test."""
        actions = self.actions
        train, test = (
            ActionLengths(actions.classes[own], actions.lengths[own]) for own in (self.trained, ~self.trained)
        )
        return train, test

    @cached_property
    def common(self) -> ClassLengths:
        """Mean lengths of the classes that both have."""
        return class_lengths(*self.sides)

    def counts(self, *, trained: bool) -> NDArray[np.int64]:
        """Count the actions of each of C classes (C,), of training clips or of ranked ones."""
        return np.bincount(self.actions.classes[self.trained == trained], minlength=len(self.actions.pairs))

    @cached_property
    def train_mean(self) -> Column:
        """Mean length (C,) of each class in training; NaN for a class that is not in both splits."""
        return self._spread(self.common.train_mean)

    @cached_property
    def test_mean(self) -> Column:
        """Mean length (C,) of the ranked clips of each class; NaN for a class that is not in both splits."""
        return self._spread(self.common.test_mean)

    def _spread(self, values: Column) -> Column:
        found = np.full(len(self.actions.pairs), np.nan)
        found[self.common.classes] = values
        return found


@dataclass(frozen=True, eq=False)
class LengthData:
    """Lengths of the clips of a gallery, and of the training clips."""

    # the V clips of the scores, in their order, with captions; a caption without classes gets its clip's
    corpus: Corpus
    # (V,) length of each clip, or of a single action of it where it has several; NaN where not known or not above 0
    lengths: Column
    whole: Column  # (V,) length of each whole clip
    train_lengths: Column  # (N,) lengths of the training clips; empty where none are given
    unit: Unit  # unit of all lengths
    second: float  # number of these units in a second
    # classes of training and ranked clips; None where clips have none, or the training clips are not known
    classes: TrainTestClasses | None
    # (V,) mean logarithm of the lengths of the ranked clips of each one's class, over the classes of a clip that has
    # several; None where the clips have none
    class_logs: Column | None
    # (V,) number of the kind of each clip, within which lengths may be permuted: clips of the same classes, or all
    # without classes. Clips that share their classes with no other are of one kind
    kinds: NDArray[np.int64]
    cluster: NDArray[np.int64]  # (V,) cluster of each clip, such as its video; clips of one are resampled together
    caption_clips: NDArray[np.int64]  # (Q,) row of each caption's clip, -1 where it is not known
    # largest error of the mean length of a class due to re-timed frames; 0 where frames are as annotated
    rounding: float = 0.0
    shared: int = 0  # number of clips of the scores that are training clips too

    @classmethod
    def of(cls, scores: ScoreBlocks, corpus: Corpus, train: Corpus | None, cluster: str = AUTO) -> LengthData:
        """Collect the lengths of scored clips, and of the training clips where they are given."""
        ranked = _ranked(scores, corpus)
        both = ranked  # training first, so that a class has one number in both
        if train is not None:
            both = Corpus(
                pl.concat([train.clips, ranked.clips], how="diagonal_relaxed"),
                pl.concat([train.captions, ranked.captions], how="diagonal_relaxed"),
            )
        count = both.clips.height - ranked.clips.height
        lengths, unit = clip_lengths(both)
        own = whole = np.where(lengths[count:] > 0, lengths[count:], np.nan)
        if np.isnan(whole).all():
            raise CorpusError(
                "The corpus says of no clip how long it is; give its clips duration_s, frame_count, or start_s and "
                "end_s, for example with `evenreel corpus overview CORPUS --keep-facts`."
            )
        classes, logs, kinds = TrainTestClasses.of(both, count), None, np.zeros(len(whole), np.int64)
        if classes is not None:
            actions = classes.actions
            clips, of = actions.clips[~classes.trained] - count, actions.classes[~classes.trained]
            own = whole.copy()
            own[clips] = actions.lengths[~classes.trained]  # a clip's, equally divided among its verbs
            own = np.where(np.isnan(whole), np.nan, own)
            logs, kinds = _class_logs(own, clips, of, len(actions.pairs)), _kinds(clips, of, len(own))
        row = {clip: place for place, clip in enumerate(scores.video_ids)}
        return cls(
            corpus=ranked,
            lengths=own,
            whole=whole,
            train_lengths=lengths[:count],
            unit=unit,
            second=1.0 if unit == "seconds" else _rate(ranked),
            classes=None if train is None else classes,
            class_logs=logs,
            kinds=kinds,
            cluster=clusters_of(corpus, cluster).of(scores.video_ids),
            caption_clips=np.array([row.get(clip, -1) for clip in ranked.captions["clip_id"]], dtype=np.int64),
            rounding=_rounding(both),
            shared=0 if train is None else len(set(train.clips["clip_id"]).intersection(scores.video_ids)),
        )

    @property
    def others(self) -> str:
        """Words for the clips that the first clips are compared with."""
        return "the gallery's clips" if self.class_logs is None else "clips of their own classes"

    @property
    def is_epic(self) -> bool:
        """Whether numbers of clips, in frames, suggest that the data are EPIC-KITCHENS-100 retrieval."""
        return (len(self.train_lengths), len(self.lengths)) == EPIC_SIZES and self.unit == "frames"

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

    def of_captions(self, mean: Callable[[TrainTestClasses], Column]) -> Column:
        """Compute the mean of a figure of classes (C,) over each caption's classes: (Q,); NaN where unknown."""
        if self.classes is None:
            return np.full(len(self.caption_clips), np.nan)
        actions, ranked = self.classes.actions, ~self.classes.trained
        clips, values = actions.clips[ranked] - len(self.train_lengths), mean(self.classes)[actions.classes[ranked]]
        known, count = ~np.isnan(values), len(self.lengths) + 1  # the last one for captions of no clip
        total, number = (np.bincount(clips[known], weights, count) for weights in (values[known], None))
        with np.errstate(invalid="ignore"):
            return np.asarray((total / number)[self.caption_clips])

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
        """Group (Q,) of each caption, by its clip or video; captions of no known clip are groups by themselves."""
        alone = -1 - np.arange(len(self.caption_clips))
        return np.where(self.caption_clips >= 0, self.cluster[self.caption_clips], alone)

    @property
    def groups(self) -> NDArray[np.int64]:
        """Group (Q,) of each caption, by class or else by clip, to be resampled together; see `clip_groups`."""
        alone = -1 - np.arange(len(self.caption_clips))
        classes, clips = self.caption_class, self.caption_clips
        by_clip = np.where(clips >= 0, len(self.classes.actions.pairs) + clips if self.classes else clips, alone)
        return np.where(classes >= 0, classes, by_clip)


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


def _class_logs(lengths: Column, clips: Indices, classes: Indices, count: int) -> Column:
    """See `LengthData.class_logs`; clips without a class are one more class, and 0 is of one without known lengths."""
    alone = np.setdiff1d(np.arange(len(lengths)), clips)
    clips, classes = np.concatenate([clips, alone]), np.concatenate([classes, np.full(len(alone), count)])
    logs = np.log(lengths)[clips]
    known = ~np.isnan(logs)
    counts = np.bincount(classes[known], minlength=count + 1)
    means = np.bincount(classes[known], logs[known], len(counts)) / np.maximum(counts, 1)
    return np.asarray(np.bincount(clips, means[classes]) / np.bincount(clips))


def _kinds(clips: Indices, classes: Indices, count: int) -> NDArray[np.int64]:
    """See `LengthData.kinds`; clips without a class are of one kind too."""
    of_clip: list[list[int]] = [[] for _ in range(count)]
    for clip, one in zip(clips.tolist(), classes.tolist(), strict=True):
        of_clip[clip].append(one)
    number: dict[tuple[int, ...], int] = {}
    found = np.array([number.setdefault(tuple(sorted(set(one))), len(number)) for one in of_clip], dtype=np.int64)
    return np.where(np.bincount(found)[found] > 1, found, -1)


def _rate(ranked: Corpus) -> float:
    """Frames a second that most ranked clips are counted in."""
    names = [name for name in ("annotated_fps", "fps") if name in ranked.clips.columns]
    rates = ranked.clips.select(pl.coalesce(pl.col(name).cast(pl.Float64, strict=False) for name in names))
    known = rates.to_series().drop_nulls()
    return float(known.mode().sort()[0]) if len(known) else _FPS


def _rounding(both: Corpus) -> float:
    """Frames that a re-timed length may be off: half a frame of its own rate at either end, in annotated ones."""
    if "annotated_fps" not in both.clips.columns:
        return 0.0
    ratio = pl.col("annotated_fps").cast(pl.Float64, strict=False) / pl.col("fps")
    coarsest = both.clips.select(ratio.fill_null(1.0).max()).item()
    return float(coarsest) if coarsest is not None and coarsest > 1 else 0.0


# Lengths of the first clips of every ranking, and the lengths expected if length had no influence. A ranking that goes
# by content alone returns clips of the lengths that its content has, also where it takes a class for a related one. So
# each of the first clips is compared with the gallery's clips of its own class: chosen among those whatever their
# length it would be as long as they are on average, and the difference from that is the excess. Where classes are not
# known, clips that answer are left out, and the others are one class.

_RECALL = parse_metric(f"R@{FAILED}")


@dataclass(frozen=True, eq=False)
class FirstClipLengths:
    """Lengths of the clips that Q rankings return first."""

    depths: tuple[int, ...]  # the K depths of `DEPTHS` that are below the gallery's size
    means: Column  # (K, Q) mean length of the first k clips; NaN where nothing is shown or no length is known
    excess: Column  # (K, Q) mean logarithm of their lengths, less `expected`
    expected: Column  # (K, Q) mean logarithm of their lengths expected if length had no influence
    rank: Column  # (Q,) rank of the first relevant clip; NaN where there is none or none is known
    recall: Column  # (Q,) R@10 of each query, in percent
    shown: Column  # (V,) how often each clip is among the first `MAIN`; an expected number where scores are equal
    # (V,) weight of the logarithm of each clip's length in the mean excess over captions at the main depth. Where
    # classes are known, it is that of the logarithm beyond the mean of its class
    pull: Column
    own: Column  # (Q, 1 + P) excess of each caption at the main depth: as measured, then with P permutations of lengths

    @property
    def main(self) -> int:
        """Index of the depth `MAIN` in `depths`, or of the largest depth below it."""
        return max(place for place, depth in enumerate(self.depths) if depth <= MAIN)

    def at(self, depth: int) -> Column:
        """Return the mean lengths (Q,) of the first clips at a depth, or at the largest depth below it."""
        return np.asarray(self.means[max(place for place, one in enumerate(self.depths) if one <= depth)])


def measure_first(scores: CheckedScores, data: LengthData, band_bytes: int, seed: int = 0) -> FirstClipLengths:
    """Measure the lengths of the first clips of rankings; scores are read once, some captions at a time."""
    tally = _LengthTally(data, len(scores.caption_ids), seed)
    search = None if data.relevance is None else Search(scores, data.relevance, turned=False)
    for rows, block in row_bands(scores, min(band_bytes, CACHED_BYTES)):
        tally.add(rows, block, None if search is None else search.items(rows))
    found = tally.found
    found.pull[:] /= max(int((~np.isnan(found.own[:, 0])).sum()), 1)
    return found


class _LengthTally:
    """`FirstClipLengths`, filled band by band."""

    def __init__(self, data: LengthData, captions: int, seed: int) -> None:
        self._class_logs, self._known = data.class_logs, ~np.isnan(data.lengths)
        self._lengths = np.where(self._known, data.lengths, 0.0)
        self._logs = np.log(np.where(self._known, data.lengths, 1.0))
        permuted = data.beyond_class
        self._values = np.zeros((1 + PROBES, len(data.lengths)))
        self._values[:, self._known] = np.vstack([permuted.values, permuted.probes(seed)])
        depths = tuple(depth for depth in DEPTHS if depth == 1 or depth < len(data.lengths))
        means, excess, expected = np.full((3, len(depths), captions), np.nan)
        rank, recall = np.full((2, captions), np.nan)
        shown, pull = np.zeros((2, len(data.lengths)))
        own = np.full((captions, 1 + PROBES), np.nan)
        self.found = FirstClipLengths(depths, means, excess, expected, rank, recall, shown, pull, own)

    def add(self, rows: slice, block: NDArray[Any], items: Items | None) -> None:
        """Some captions more, with the clips that answer them."""
        if items is not None:
            hits = first_hits(find_places(block, best_items(block, items)))
            columns = hit_columns(hits, (_RECALL,))
            self.found.rank[rows.start + hits.query] = columns[FIRST_RANK]
            self.found.recall[rows.start + hits.query] = columns[str(_RECALL)]
        if self._class_logs is not None:
            self._add_first(rows, block, np.broadcast_to(self._class_logs, block.shape))
            return
        # Scores without the clips that answer, and the mean logarithm of the lengths of all others.
        total, count = np.full(len(block), self._logs.sum()), np.full(len(block), self._known.sum())
        if items is not None:
            total -= np.bincount(items.query, self._logs[items.item], len(block))
            count -= np.bincount(items.query, self._known[items.item], len(block)).astype(np.int64)
            block = block.astype(np.result_type(block, np.float32))
            block[items.query, items.item] = -np.inf
        self._add_first(rows, block, np.broadcast_to((total / np.maximum(count, 1))[:, None], block.shape))
        self._take_others(rows, items, count)

    def _take_others(self, rows: slice, items: Items | None, counts: NDArray[np.int64]) -> None:
        """Take from pull and captions what the mean of all clips of known length that do not answer gives."""
        own, pull = self.found.own, self.found.pull
        part = np.where(np.isnan(own[rows, 0]), 0.0, 1 / np.maximum(counts, 1))
        left_out = np.zeros((len(part), len(self._values)))
        pull -= self._known * part.sum()
        if items is not None:
            pull += self._known * np.bincount(items.item, part[items.query], len(pull))
            for number, values in enumerate(self._values):
                left_out[:, number] = np.bincount(items.query, values[items.item], len(part))
        own[rows] -= part[:, None] * (self._values.sum(axis=1) - left_out)

    def _add_first(self, rows: slice, block: NDArray[Any], typical: Column) -> None:
        """What some captions are shown first: (b, W) clips, the share of each in the first k, and what is expected."""
        found = self.found
        nearest = candidates(block, found.depths[-1])
        ordered = OrderedRows.of(np.take_along_axis(block, nearest, axis=1))
        for number, depth in enumerate(found.depths):
            places, shares = ordered.first(depth)
            columns = np.take_along_axis(nearest, places, axis=1)
            expected = np.take_along_axis(typical, columns, axis=1)
            weights = shares * self._known[columns]
            with np.errstate(invalid="ignore"):  # nothing is shown, or nothing of known length
                for into, values in (
                    (found.means, self._lengths[columns]),
                    (found.excess, self._logs[columns] - expected),
                    (found.expected, expected),
                ):
                    into[number, rows] = (weights * values).sum(axis=1) / weights.sum(axis=1)
            if number == found.main:
                total = weights.sum(axis=1, keepdims=True)
                part = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
                found.shown[:] += np.bincount(columns.ravel(), shares.ravel(), len(found.shown))
                found.pull[:] += np.bincount(columns.ravel(), part.ravel(), len(found.pull))
                own = np.stack([(part * values[columns]).sum(axis=1) for values in self._values], axis=1)
                found.own[rows] = np.where(total > 0, own, np.nan)


# What is measured of them.

LENGTH_BIAS = (
    f"rank correlation of the length of the first {MAIN} clips, beside clips of their own classes, with the length "
    "that the caption's class had in training"
)


@dataclass(frozen=True, eq=False)
class Failures:
    """Numbers of captions that fail, and of failures left after each rule that singles out length bias (section B)."""

    captions: int  # number of captions whose class training has and whose answer has a rank
    failed: int  # number of these whose answer is not ranked high enough
    # number of failures left after each rule: neither a tail verb nor a tail noun; mean lengths of the class in
    # training and test far enough apart; first clips nearer to the length in training than to that in test
    left: tuple[int, int, int]
    suspected: Indices  # rows of the captions that are left after all rules, ascending
    tail: TailClasses  # rare verbs and nouns


@dataclass(frozen=True, eq=False)
class LengthMeasures(Shown):
    """Measures of length bias in the rankings of one system.

    Attributes:
        data: lengths of the clips.
        first: lengths of the first clips of Q captions.
        effect: length bias where training classes are known, else the ratio.
        ratio: length of the first clips over that of `LengthData.others`; the effect where no length bias can be
            measured.
        length_biases: for each depth, rank correlations of the mean length of the first clips with the length in
            training: plain, given the length in test, and of the excess as in the effect; empty where training is not
            known.
        failures: failures that length bias may explain; None where training is not known.
    """

    data: LengthData
    first: FirstClipLengths
    effect: Effect
    ratio: Effect
    length_biases: tuple[tuple[Effect, Effect, Effect], ...] = ()
    failures: Failures | None = None

    @property
    def has_length_bias(self) -> bool:
        """Whether classes and their lengths in training are known for some captions."""
        return bool(self.length_biases)

    @cached_property
    def train_mean(self) -> Column:
        """Mean length (Q,) of each caption's class in training; NaN where not known."""
        return self.data.of_captions(lambda classes: classes.train_mean)

    @cached_property
    def test_mean(self) -> Column:
        """Mean length (Q,) of each caption's class among the ranked clips; NaN where not known."""
        return self.data.of_captions(lambda classes: classes.test_mean)


def measure_length(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    train: CorpusLike | None = None,
    tail: TailClasses | None = None,
) -> LengthMeasures:
    """Measure how a ranking depends on the lengths of clips; arguments and errors are those of `audit_length`."""
    scores, corpus, settings = as_inputs(scores, corpus, settings)
    checked = CheckedScores(scores)
    learned = None if train is None else as_corpus(train, "train")
    check_kind(tail, (TailClasses, NoneType), "tail", "give what read_tail_classes(paths) returns, or None")
    data = LengthData.of(checked, corpus, learned, settings.cluster)
    first = measure_first(checked, data, settings.band_bytes, settings.seed)
    ratio = _ratio(data, first, settings)
    measured = LengthMeasures(data, first, ratio, ratio)
    if data.classes is None or np.isnan(measured.train_mean).all():
        return measured
    biases = tuple(_length_bias(measured, depth, settings) for depth in range(len(first.depths)))
    actions, trained = data.classes.actions, data.classes.trained
    failures = _failures(measured, tail or tail_by_frequency(actions.pairs, actions.classes[trained]))
    return replace(measured, effect=biases[first.main][2], length_biases=biases, failures=failures)


def _ratio(data: LengthData, first: FirstClipLengths, settings: AuditSettings) -> Effect:
    """Ratio of geometric means, from the mean excess over captions, with lengths permuted over clips."""
    name = f"length of the first {first.depths[first.main]} clips / length of {data.others}"
    excess = first.excess[first.main]
    if np.isnan(excess).all():
        return Effect(name, float("nan"), neutral=1.0)
    known = ~np.isnan(data.lengths)
    enough = min(int((~np.isnan(excess)).sum()), len(np.unique(data.cluster[known]))) >= ENOUGH
    sums = data.beyond_class.sums(first.pull[known], settings)
    drawn = widened(sums, 0.0, queries_part(first.own[:, 0], first.own[:, 1:], data.clip_groups))
    found = inverted_interval(drawn, settings)
    low, high = (None if end is None else float(np.exp(end)) for end in (found.low, found.high))
    return Effect(name, float(np.exp(found.value)), low, high, 1.0, exchange_test(drawn), enough, BOTH)


def _length_bias(measured: LengthMeasures, depth: int, settings: AuditSettings) -> tuple[Effect, Effect, Effect]:
    """Plain, given the length in test, and the excess given both that and what is expected."""
    first, train, test = measured.first, measured.train_mean, measured.test_mean
    kept = ~np.isnan(train) & ~np.isnan(first.excess[depth])
    means, excess, expected = (table[depth, kept] for table in (first.means, first.excess, first.expected))
    train, test, groups = train[kept], test[kept], measured.data.groups[kept]
    unsure = replace(settings, resamples=0)
    sure = settings if depth == first.main else unsure
    bias = rank_correlation([excess, train, test, expected], groups, sure, LENGTH_BIAS)
    return (
        rank_correlation([means, train], groups, unsure, "plain"),
        rank_correlation([means, train, test], groups, unsure, "given test"),
        replace(bias, enough=len(np.unique(groups)) >= ENOUGH, over="classes of captions"),
    )


def _failures(measured: LengthMeasures, tail: TailClasses) -> Failures:
    data, train, test = measured.data, measured.train_mean, measured.test_mean
    known = ~np.isnan(train) & ~np.isnan(measured.first.rank)
    failed = known & (measured.first.rank > FAILED)
    kinds = data.corpus.captions.select(*_KINDS).iter_rows()
    rare = np.array([tail.hold(verbs or (), nouns or ()) for verbs, nouns in kinds], dtype=np.bool_)
    first = measured.first.means[measured.first.main]
    left = [failed]
    for rule in (~rare, np.abs(test - train) >= data.second, np.abs(first - test) >= np.abs(first - train)):
        left.append(left[-1] & rule)
    one, two, three = (int(part.sum()) for part in left[1:])
    return Failures(int(known.sum()), int(failed.sum()), (one, two, three), np.flatnonzero(left[-1]), tail)


# Partial rank correlation of two columns given others, with an interval by resampling groups: Spearman 1904 (of ranks),
# Kendall 1942 (partial), Efron 1979 (bootstrap; the ranks are made anew in every sample).

_ROUNDING = 1e-9  # less than this share of a column's variance is rounding


def rank_correlation(
    columns: Sequence[Column], groups: NDArray[np.int64], settings: AuditSettings, name: str
) -> Effect:
    """Compute the partial rank correlation of the first two columns (n,) given the others, with interval and p value.

    The interval is of percentiles of samples; p is twice the smaller share of samples on either side of 0, the measured
    value included.

    Args:
        columns: at least two, without NaN; those from the third on are held constant.
        groups: (n,) group of each row; rows of one are resampled together.
        settings: `resamples` (0 for no interval), `seed` and `confidence`.
        name: name of the effect.

    Returns:
        The correlation as an effect; NaN where a column is constant given the others.
    """
    places, rows = [], np.arange(len(groups))
    for column in columns:  # (n, U), 1 where a row has the value; values ascend
        values, member = np.unique(column, return_inverse=True)
        places.append(sparse.csr_array((np.ones(len(rows)), (rows, member)), shape=(len(rows), len(values))))
    value = float(_partial(places, np.ones((1, len(groups))))[0]) if len(groups) else float("nan")
    if not settings.resamples or isnan(value):
        return Effect(name, value)
    drawn = np.concatenate(
        [_partial(places, times) for times in resampled_weights(groups, settings.resamples, settings.seed)]
    )
    drawn = drawn[~np.isnan(drawn)]
    p = min(1.0, 2 * (1 + min((drawn <= 0).sum(), (drawn >= 0).sum())) / (1 + len(drawn)))
    low, high = percentile_ends(drawn, settings.confidence)
    return Effect(name, value, low, high, p_value=float(p))


def _partial(places: Sequence[sparse.csr_array], times: Column) -> Column:
    """(B, n) times that each row counts -> (B,) correlations of the first two columns given the others."""
    ranks = np.stack([_ranks(place, times) for place in places], axis=1)
    total = times.sum(axis=1)
    ranks -= ((ranks * times[:, None]).sum(axis=2) / total[:, None])[:, :, None]
    products = np.matmul(ranks * times[:, None], ranks.transpose(0, 2, 1)) / total[:, None, None] ** 3
    both, given, shared = products[:, :2, :2], products[:, 2:, 2:], products[:, :2, 2:]
    left = both - shared @ np.linalg.pinv(given, rcond=_ROUNDING, hermitian=True) @ shared.transpose(0, 2, 1)
    variances = np.diagonal(left, axis1=1, axis2=2)
    told = np.asarray((variances > _ROUNDING).all(axis=1))
    return np.where(told, left[:, 0, 1] / np.sqrt(np.where(told[:, None], variances, 1.0).prod(axis=1)), np.nan)


def _ranks(place: sparse.csr_array, times: Column) -> Column:
    """(B, n) mean ranks among equals, from the (n, U) places of the values."""
    held = times @ place
    upto = np.cumsum(held, axis=1)
    return np.asarray((upto - held / 2).take(place.indices, axis=1))


# Tables. Beside the figures of EPIC-KITCHENS-100 stand those that the paper gives.

EPIC_SIZES = (67_217, 9_668)  # training and test clips of EPIC-KITCHENS-100
EPIC_CLASS = (0, 54)  # verb and noun of the paper's example: take, rubbish (table 8)
EPIC_SHARE = 50_282.5 / 67_217  # of the clips in the first of two strata: the paper's division (0.748)
LARGE_S = 200 / 60  # seconds of the larger of the paper's two discrepancies, of 60 and of 200 frames at 60 a second
DRAWS = 200  # random divisions of the clips of each class, for what chance gives
_RATIO = "times as long as expected"


def _tables(measured: LengthMeasures) -> Iterator[AuditTable]:
    data, classes, failures = measured.data, measured.data.classes, measured.failures
    if classes is not None:
        yield class_table(data, classes)
        yield discrepancy_table(data, classes.common)
        yield chance_table(data, classes)
        if data.is_epic and EPIC_CLASS in classes.actions.pairs:
            yield _example_table(classes, classes.actions.pairs.index(EPIC_CLASS))
        yield _strata_table(data)
        yield _trim_table(data, classes)
    yield _first_table(measured)
    if failures is not None and classes is not None:
        yield _tertile_table(measured)
        yield _failure_table(data, failures)
        if len(failures.suspected):
            yield _suspect_table(measured, classes, failures)
        yield _class_by_class_table(measured, classes, failures)
        yield _recall_table(measured)


def most_affected(measured: LengthMeasures) -> list[int]:
    """Return the captions' classes, first those with most suspected failures, then by how their lengths differ."""
    classes, failures = measured.data.classes, measured.failures
    if classes is None or failures is None:
        return []
    own = measured.data.caption_class
    suspected = np.bincount(own[failures.suspected], minlength=len(classes.actions.pairs))
    gap = np.abs(classes.test_mean - classes.train_mean)
    asked = [int(one) for one in np.unique(own[own >= 0]) if not np.isnan(gap[one])]
    return sorted(asked, key=lambda one: (-int(suspected[one]), -float(gap[one]), one))


def _with_paper(data: LengthData, table: AuditTable, published: Mapping[int, Cell]) -> AuditTable:
    """The table of EPIC-KITCHENS-100 with what the paper gives, by row; every other as it is."""
    if not data.is_epic:
        return table
    rows = tuple((*row, published.get(place)) for place, row in enumerate(table.rows))
    return replace(table, columns=(*table.columns, "paper"), rows=rows)


def class_table(data: LengthData, held: TrainTestClasses) -> AuditTable:
    """Tabulate the numbers of clips and of classes in training, in test, and in both."""
    train, test = held.counts(trained=True) > 0, held.counts(trained=False) > 0
    counts = {
        "clips in training": len(data.train_lengths),
        "clips in test": len(data.lengths),
        "classes in training": int(train.sum()),
        "classes in test": int(test.sum()),
        "classes in both": int((train & test).sum()),
        "classes in training alone": int((train & ~test).sum()),
        "classes in test alone": int((test & ~train).sum()),
    }
    note = "A class is a pair of a verb and a noun. 'Test' is the clips of the scores."
    table = AuditTable("Classes", ("what", "count"), tuple(counts.items()), note)
    return _with_paper(data, table, {0: 67_217, 1: 9_668, 4: 1_114})


def _discrepancies(data: LengthData) -> dict[str, Callable[[Column], Column]]:
    """What is asked of differences of mean lengths (..., K), by its name."""
    unit, large = unit_of(data), LARGE_S * data.second
    return {
        f"mean over classes of test less training, {unit}": lambda gaps: gaps.mean(-1),
        f"the same without its sign, {unit}": lambda gaps: np.abs(gaps).mean(-1),
        "classes longer in test": lambda gaps: (gaps > 0).sum(-1),
        f"classes that differ by more than {data.second:g} {unit}": lambda gaps: (np.abs(gaps) > data.second).sum(-1),
        f"classes that differ by at least {large:.4g} {unit}": lambda gaps: (np.abs(gaps) >= large).sum(-1),
    }


def discrepancy_table(data: LengthData, common: ClassLengths) -> AuditTable:
    """Tabulate mean lengths of classes in training and in test, and how many classes differ by how much."""
    gap, unit = common.discrepancy, unit_of(data)
    ranked = spearmanr(common.train_mean, common.test_mean).statistic if len(gap) > 2 and np.ptp(gap) else float("nan")
    values: dict[str, Cell] = {
        f"mean length of training clips, {unit}": float(np.nanmean(data.train_lengths)),
        f"mean length of test clips, {unit}": float(np.nanmean(data.whole)),
    }
    for name, measure in _discrepancies(data).items():
        is_mean = name.endswith(f", {unit}")
        values[name] = (float(measure(gap)) if len(gap) else None) if is_mean else int(measure(gap))
    values["rank correlation of training and test means over classes"] = float(ranked)
    note = f"The limits are the paper's 60 and 200 frames at 60 a second: 1 and {LARGE_S:.1f} seconds."
    if data.is_epic and data.rounding:
        limits = (data.second, LARGE_S * data.second)
        near = [int((np.abs(np.abs(gap) - at) <= data.rounding).sum()) for at in limits]
        note += (
            " Training lengths are re-timed from fewer frames a second, which may move each by up to "
            f"{data.rounding:g} frames; {near[0]} classes lie that near to the one limit and {near[1]} to the other, "
            "so the counts differ from the paper's."
        )
    title = "How far classes differ in length between training and test"
    table = AuditTable(title, ("what", "value"), tuple(values.items()), note)
    return _with_paper(data, table, {5: 559, 6: 212})


def chance_table(data: LengthData, held: TrainTestClasses, seed: int = 0) -> AuditTable:
    """Tabulate how far lengths of classes differ between training and test, and how far they would by chance."""
    gap, rows = held.common.discrepancy, []
    drawn = drawn_discrepancies(*held.sides, draws=DRAWS, seed=seed)
    for name, measure in _discrepancies(data).items() if len(gap) else ():
        chance = measure(drawn).astype(np.float64)
        low, high = np.quantile(chance, (0.025, 0.975))
        rows.append((name, float(measure(gap)), float(chance.mean()), float(low), float(high)))
    return AuditTable(
        "How far classes would differ if their test clips were drawn at random",
        ("what", "found", "drawn at random", "low", "high"),
        tuple(rows),
        f"Drawn at random: as many test clips of each class, from its clips of both splits, {DRAWS} times. 95 % of the "
        "draws lie from low to high; a figure in there is what so few clips give without any bias. Clips of one video "
        "are drawn apart, so a difference between videos counts as one between splits.",
    )


def _example_table(held: TrainTestClasses, class_: int) -> AuditTable:
    rows = (
        ("clips in training", int(held.counts(trained=True)[class_]), 95),
        ("mean length in training, frames", float(held.train_mean[class_]), 177.11),
        ("mean length in test, frames", float(held.test_mean[class_]), 305.5),
    )
    return AuditTable(f"The paper's example: {held.names[class_]}", ("what", "value", "paper"), rows)


def _strata_table(data: LengthData) -> AuditTable:
    """Sizes of two strata of training clips by each rule: equal halves, the paper's share, mean lengths as limits."""
    lengths = data.train_lengths[~np.isnan(data.train_lengths)]
    trained, tested = float(lengths.mean()), float(np.nanmean(data.whole))
    rules: dict[str, Callable[[], list[Indices]]] = {
        "equal halves": lambda: equal_strata(lengths, 2),
        f"a share of {EPIC_SHARE:.3f} in the first": lambda: adjusted_strata(lengths, 2, EPIC_SHARE),
        "below the mean length of training clips": lambda: strata_at(lengths, [trained]),
        f"below the mean length of test clips ({USES_TEST})": lambda: strata_at(lengths, [tested]),
    }
    rows: list[Row] = []
    for rule, divide in rules.items():
        try:
            rows.append((rule, *map(len, divide())))
        except UsageError:  # clips of one length have no second stratum
            rows.append((rule, None, None))
    note = (
        f"Strata of the backdoor adjustment, from short to long. What is trained by a rule that {USES_TEST} has seen "
        "the test set."
    )
    table = AuditTable("Training clips in two strata", ("rule", "first", "second"), tuple(rows), note)
    return _with_paper(data, table, {1: "50,282 + 16,935"})


def _trim_table(data: LengthData, held: TrainTestClasses) -> AuditTable:
    """What trimming (RmvAll) would leave out by either preset, in this corpus's unit."""
    classes, lengths = held.sides[0]
    classes, lengths = classes[~np.isnan(lengths)], lengths[~np.isnan(lengths)]
    targets = dict(zip(held.common.classes.tolist(), held.common.test_mean.tolist(), strict=True))
    rows = []
    for name, preset in PRESETS.items():
        margin = preset.margin * data.second / _FPS
        out = trimmed(lengths, classes, targets, Trimming(margin, preset.least))
        rows.append((name, margin, preset.least, len(out), len(np.unique(classes[out]))))
    columns = ("preset", f"margin, {unit_of(data)}", "clips a class keeps", "clips left out", "classes")
    note = "RmvAll: of each class the shortest or the longest training clips, until it is about as long as in test."
    table = AuditTable(f"What trimming would leave out ({USES_TEST})", columns, tuple(rows), note)
    return _with_paper(data, table, dict.fromkeys(range(len(rows)), "2,392 of 164 classes"))


def _first_table(measured: LengthMeasures) -> AuditTable:
    data, first, unit = measured.data, measured.first, unit_of(measured.data)
    columns: tuple[str, ...] = ("first clips", f"mean length, {unit}", _RATIO)
    rows: list[Row] = [
        (depth, _mean(first.means[place]), float(np.exp(_mean(first.excess[place]))))
        for place, depth in enumerate(first.depths)
    ]
    note = f"The gallery's clips have a mean of {_mean(data.lengths):,.1f} {unit}."
    if measured.has_length_bias:
        columns += ("correlation with training", "given test", "of the excess")
        biases = [tuple(one.value for one in some) for some in measured.length_biases]
        rows = [(*row, *values) for row, values in zip(rows, biases, strict=True)]
        note += (
            f" Over captions, their classes have a mean of {_mean(measured.train_mean):,.1f} in training and of "
            f"{_mean(measured.test_mean):,.1f} in test. The correlations are of ranks, with the mean length of the "
            "class in training; the last is the effect."
        )
    elif data.class_logs is None and data.relevance is not None:
        note += " Clips that are known to answer are left out."
    return AuditTable("Length of the first clips", columns, tuple(rows), note)


def _tertile_table(measured: LengthMeasures) -> AuditTable:
    """Captions in thirds by the length of their class in training; those of one class stay together."""
    first, train, unit = measured.first, measured.train_mean, unit_of(measured.data)
    excess, expected = first.excess[first.main], first.expected[first.main]
    kept = np.flatnonzero(~np.isnan(train) & ~np.isnan(excess))
    edges = np.quantile(train[kept], [1 / 3, 2 / 3]) if len(kept) else np.zeros(2)
    part = np.searchsorted(edges, train[kept], "left")
    rows = []
    for number, name in enumerate(("shortest", "middle", "longest")):
        own = kept[part == number]
        if len(own):
            shown, ratio = np.exp([(excess[own] + expected[own]).mean(), excess[own].mean()]).tolist()
            rows.append((name, len(own), float(train[own].mean()), float(measured.test_mean[own].mean()), shown, ratio))
    columns = ("third", "captions", f"mean in training, {unit}", f"in test, {unit}", f"first {MAIN}, {unit}", _RATIO)
    note = "The first clips' is a geometric mean, which lies below the arithmetic means beside it."
    return AuditTable("First clips by the length of the class in training", columns, tuple(rows), note)


def _failure_table(data: LengthData, failures: Failures) -> AuditTable:
    counts = {
        "captions of a class that training has": failures.captions,
        f"first answer behind rank {FAILED}": failures.failed,
        "and neither a tail verb nor a tail noun": failures.left[0],
        f"and training and test differ by at least {data.second:g} {unit_of(data)}": failures.left[1],
        f"and the first {MAIN} are not nearer in length to test": failures.left[2],
    }
    note = (
        f"Verbs of the tail: {len(failures.tail.verbs):,}; nouns: {len(failures.tail.nouns):,}; {failures.tail.rule}. "
        "Some captions are left in any ranking."
    )
    title = f"Failures that length may explain ({USES_TEST})"
    return _with_paper(data, AuditTable(title, ("rule", "left"), tuple(counts.items()), note), {4: 244})


def _suspect_table(measured: LengthMeasures, held: TrainTestClasses, failures: Failures) -> AuditTable:
    first, train, test, unit = measured.first, measured.train_mean, measured.test_mean, unit_of(measured.data)
    words = [text or name for text, name in measured.data.corpus.captions.select("text", "caption_id").iter_rows()]
    figures = np.stack([first.rank, train, test, first.means[first.main]], axis=1)
    suspected = failures.suspected[np.argsort(-np.abs(test - train)[failures.suspected], kind="stable")]
    names = [held.names[one] for one in measured.data.caption_class[suspected].tolist()]
    rows = [(words[row], name, *figures[row].tolist()) for row, name in zip(suspected, names, strict=True)]
    columns = ("caption", "class", "rank", f"training, {unit}", f"test, {unit}", f"first {MAIN}, {unit}")
    note = "Those first whose class differs the most."
    return AuditTable(f"Suspected failures ({USES_TEST})", columns, tuple(rows), note, digits=1)


def _class_by_class_table(measured: LengthMeasures, held: TrainTestClasses, failures: Failures) -> AuditTable:
    train, test, unit = held.counts(trained=True), held.counts(trained=False), unit_of(measured.data)
    suspected, rows = np.isin(np.arange(len(measured.first.rank)), failures.suspected), []
    for one in most_affected(measured):
        own = measured.data.caption_class == one
        lengths = (float(held.train_mean[one]), float(held.test_mean[one]))
        asked = (int(own.sum()), int((own & suspected).sum()))
        found = (_median(measured.first.rank[own]), _mean(measured.first.at(FAILED)[own]))
        rows.append((held.names[one], int(train[one]), int(test[one]), *lengths, *asked, *found))
    columns = (
        "class", "training clips", "test clips", f"training, {unit}", f"test, {unit}", "captions", "suspected",
        "median rank", f"first {FAILED}, {unit}",
    )  # fmt: skip
    note = "By suspected failures, then by difference."
    return AuditTable("Classes, the most affected first", columns, tuple(rows), note, digits=1)


def _recall_table(measured: LengthMeasures) -> AuditTable:
    data, first, rows = measured.data, measured.first, []
    gap, large = measured.test_mean - measured.train_mean, LARGE_S * data.second
    for low, high in pairwise((-np.inf, -large, -data.second, data.second, large, np.inf)):
        own = np.flatnonzero((gap >= low) & (gap < high))
        span = f"{low:.4g} and more" if np.isinf(high) else f"{low:.4g} to {high:.4g}"
        ratio = float(np.exp(_mean(first.excess[first.main][own])))
        figures = (_mean(first.recall[own]), _median(first.rank[own]), ratio)
        rows.append((f"below {high:.4g}" if np.isinf(low) else span, len(own), *figures))
    unit = f"test less training, {unit_of(data)}"
    columns = (unit, "captions", f"R@{FAILED}, %", "median rank", "first clips: times as long")
    note = "A clip answers where its verb and nouns equal the caption's."
    return AuditTable("Captions by how much longer their class is in test", columns, tuple(rows), note)


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _median(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def unit_of(data: LengthData) -> str:
    """Return the unit to write after a length, frames or seconds."""
    return "frames" if data.unit == "frames" else "s"


# Figures: what they show is read from the scores at once, since whoever draws them may no longer have these.

_STRIPS = 5


def _figures(measured: LengthMeasures, scores: CheckedScores) -> Iterator[AuditFigure]:
    unit, held = unit_of(measured.data), measured.data.classes
    yield AuditFigure(
        "Lengths of the clips that are returned first",
        partial(length_histograms, histogram_parts(measured, scores), unit),
        f"Returned first: each clip as often as it is among the first {MAIN}.",
    )
    if held is not None and len(held.common.classes):
        names = [held.names[one] for one in held.common.classes.tolist()]
        yield AuditFigure(
            "How much longer each class is in test",
            partial(discrepancy_bars, held.common.discrepancy, names, unit),
            "Point at a bar for its class.",
        )
    yield AuditFigure(
        "Spread of the lengths",
        partial(length_boxes, all_lengths(measured), unit),
        "Quartiles; whiskers reach to the last length within 1.5 times their range. Of many outliers some are shown.",
    )
    if strips := strip_parts(measured, scores):
        yield AuditFigure(
            f"How relevant the first {STRIP_DEPTH} are",
            partial(relevance_strips, strips),
            "Captions of the most affected classes, and the clips that they are of; equal scores in any order.",
        )


def all_lengths(measured: LengthMeasures) -> Groups:
    """Return the lengths of training clips, of test clips, and of the clips that rankings return first."""
    data = measured.data
    groups = {
        "training": Weighted.of(data.train_lengths),
        "test" if len(data.train_lengths) else "all": Weighted.of(data.whole),
        "returned first": Weighted.of(data.whole, measured.first.shown),
    }
    return {name: one for name, one in groups.items() if len(one.lengths)}


def histogram_parts(measured: LengthMeasures, scores: CheckedScores, class_: int | None = None) -> dict[str, Groups]:
    """Collect the lengths for histograms: of all clips, and of one class with the clips that its captions find."""
    parts, data, held = {"all clips": all_lengths(measured)}, measured.data, measured.data.classes
    if held is None:
        return parts
    for one in most_affected(measured)[:1] if class_ is None else [class_]:
        own, shown = held.actions.classes == one, np.zeros(len(data.lengths))
        for row in np.flatnonzero(data.caption_class == one).tolist():
            columns, shares = OrderedRows.of(scores.block(slice(row, row + 1), slice(0, len(shown)))).first(MAIN)
            shown[columns[0]] += shares[0]
        groups = {
            "training": Weighted.of(held.actions.lengths[own & held.trained]),
            "test": Weighted.of(held.actions.lengths[own & ~held.trained]),
            "returned first": Weighted.of(data.lengths, shown),
        }
        parts[f"class: {held.names[one]}"] = {name: some for name, some in groups.items() if len(some.lengths)}
    return parts


def strip_captions(measured: LengthMeasures) -> list[int]:
    """Choose the captions that a chart of first items shows: one of each of the classes that length bias affects most.

    It is a suspected failure if the class has one. Where classes are not known, the first captions are chosen.
    """
    data = measured.data
    suspected = set(measured.failures.suspected.tolist()) if measured.failures else set()
    ranked = np.flatnonzero((data.caption_clips >= 0) & ~np.isnan(measured.first.rank)).tolist()
    ranked.sort(key=lambda row: row not in suspected)  # stable: suspected ones first
    by_class = {int(data.caption_class[row]): row for row in reversed(ranked)}
    affected = [by_class[one] for one in most_affected(measured) if one in by_class]
    return (affected or sorted(ranked))[:_STRIPS]


def strip_parts(
    measured: LengthMeasures, scores: CheckedScores, captions: Sequence[int] | None = None
) -> dict[str, list[Strip]]:
    """Return the first items, with their relevance, for some captions and for their clips as queries."""
    relevance, corpus = measured.data.relevance, measured.data.corpus
    captions = strip_captions(measured) if captions is None else list(captions)
    if relevance is None or not captions:
        return {}
    said = dict(corpus.captions.select("clip_id", "text").drop_nulls().reverse().iter_rows())
    clips = [said.get(clip, clip) for clip in corpus.clips["clip_id"]]
    texts = [text or name for name, text in corpus.captions.select("caption_id", "text").iter_rows()]

    def strip(query: int, asking: Sequence[str], items: Sequence[str], *, by_clip: bool) -> Strip:
        one, every = slice(query, query + 1), slice(0, len(items))
        at = (every, one) if by_clip else (one, every)
        values = scores.block(*at).ravel().astype(np.float64)
        first = np.argsort(-values, kind="stable")[:STRIP_DEPTH]
        return Strip(asking[query], [items[row] for row in first.tolist()], relevance.block(*at).ravel()[first])

    own = dict.fromkeys(measured.data.caption_clips[captions].tolist())
    return {
        "text to video": [strip(row, texts, clips, by_clip=False) for row in captions],
        "video to text": [strip(row, clips, texts, by_clip=True) for row in own],
    }


# Words.


def length_notices(measured: LengthMeasures, *, trained: bool) -> Iterator[str]:
    """Yield notices on the data of an audit of length bias, whose training clips are known or not."""
    data = measured.data
    if not trained:
        advice = "" if data.relevance is None else "; to ask that, name the training part (--train-split)"
        yield (
            "Nothing says what the system learned from, so this compares the lengths of the first clips with those of "
            f"others, and does not ask whether they follow the lengths of training{advice}."
        )
    elif data.classes is None:
        yield "The clips have no verb classes, so lengths in training and in test cannot be compared by class."
    elif not measured.has_length_bias:
        yield "No caption is of a class that training has, so nothing can be said of the lengths of training."
    if unknown := int(np.isnan(data.whole).sum()):
        yield f"Of {unknown:,} of {len(data.whole):,} clips the length is not known; they are in no mean."
    if measured.has_length_bias and (lost := int(np.isnan(measured.train_mean).sum())):
        yield f"Captions whose class training does not have, or that have none: {lost:,} take no part in the lean."
    if data.shared:
        yield f"Clips in the scores that are training clips too: {data.shared:,}; a ranking of them proves little."


def length_method(measured: LengthMeasures) -> Iterator[str]:
    """Yield paragraphs on how the audit of length bias was computed, with the sources."""
    yield paragraph("length", "Excess", main=MAIN)
    if measured.has_length_bias:
        yield paragraph("length", "Length bias", main=MAIN)
        yield paragraph("length", "Suspected failures", main=MAIN, failed=FAILED)
        yield paragraph("length", "Trimming and strata", uses_test=USES_TEST)
    what = "the lengths of clips are permuted, within their class where there are classes"
    yield paragraph("length", "Ratio", permuted=paragraph("shared", "Permuted clips", what=what))
    yield paragraph("length", "Equal scores")


def _length_bias_sentence(measured: LengthMeasures, confidence: float) -> str:
    effect, failures = measured.effect, measured.failures
    if isnan(effect.value):
        return "The captions are of too few classes, or of classes too alike in length, for a lean to be measured."
    few = "" if effect.enough else f"Too few classes to conclude: {len(np.unique(measured.data.groups)):,}. "
    side = "towards" if effect.value > 0 else "away from"
    lead = by_certainty(
        effect,
        f"What was seen leans {side} the lengths that classes had in training",
        "Without an interval no lean towards the lengths of training can be told",
        "No lean towards the lengths that classes had in training can be told",
        f"The ranking leans {side} the lengths that classes had in training",
    )
    said = f"{few}{lead}: rank correlation {figure_words(effect, confidence, digits=2)}, where 0 is no lean."
    ratios = _tertile_table(measured).column(_RATIO)
    if len(ratios) > 1:
        said += (
            f" Where the class was short in training (the shortest third), the first {MAIN} clips are {ratios[0]:.2f} "
            f"times as long as {measured.data.others}; where it was long, {ratios[-1]:.2f} times."
        )
    if failures is not None and failures.captions:
        some = "" if effect.is_significant and effect.value > 0 else ", as some do in any ranking"
        suspected = f"{len(failures.suspected):,} of {failures.captions:,} captions"
        said += f" {suspected} may be missed for their length{some}."
    return said


def _ratio_sentence(measured: LengthMeasures, confidence: float) -> str:
    effect, first, known = measured.ratio, measured.first, ~np.isnan(measured.data.lengths)
    if isnan(effect.value):
        return "No query is shown a clip of known length, so no length can be compared."
    captions, clips = int((~np.isnan(first.excess[first.main])).sum()), int(known.sum())
    drawn = len(np.unique(measured.data.cluster[known]))
    apart = "" if drawn == clips else f", of which {drawn:,} are drawn apart"
    few = "" if effect.enough else f"Too few to conclude: {captions:,} queries and {clips:,} clips{apart}. "
    side = "long" if effect.value > 1 else "short"
    lead = by_certainty(
        effect,
        f"What was seen leans towards {side} clips",
        "Without an interval no preference for a length can be told",
        "No preference for long or short clips can be told",
        f"The ranking returns {side} clips first",
    )
    return (
        f"{few}{lead}: the first {first.depths[first.main]} are {figure_words(effect, confidence, digits=2)} times as "
        f"long as {measured.data.others}, as geometric means, where 1 is no preference ({captions:,} queries, "
        f"{clips:,} clips)."
    )
