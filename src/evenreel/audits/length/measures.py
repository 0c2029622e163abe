"""Measures of length bias: how rankings follow the lengths of training clips, and the failures that it may explain.

The measures are those of the paper on frame-length bias (sections A and B), except the length bias itself, which the
paper argues from a few classes: first clips have the lengths that their class had in training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from types import NoneType

import numpy as np

from evenreel.arrays import Column, Indices
from evenreel.audits.exchange import BOTH, exchange_test, inverted_interval, queries_part, widened
from evenreel.audits.inputs import as_inputs
from evenreel.audits.length.data import LengthData, TrainTestClasses
from evenreel.audits.length.first_clips import MAIN, FirstClipLengths, measure_first
from evenreel.audits.length.rank_correlation import rank_correlation
from evenreel.audits.length.tail import TailClasses, tail_by_frequency
from evenreel.audits.settings import AuditSettings
from evenreel.config import check_kind
from evenreel.corpus.accepted import CorpusLike, as_corpus
from evenreel.evaluation.ranking import CheckedScores
from evenreel.evaluation.scores import ScoresLike
from evenreel.report.result import ENOUGH, Effect
from evenreel.types import Shown

FAILED = 10
"""A caption fails where the first clip that answers stands behind this rank."""

LENGTH_BIAS = (
    f"rank correlation of the length of the first {MAIN} clips, beside clips of their own classes, with the length "
    "that the caption's class had in training"
)
RATIO = "length of the first {depth} clips / length of {others}"


@dataclass(frozen=True, eq=False)
class Failures:
    """Numbers of captions that fail, and of failures left after each rule that singles out length bias (section B).

    Attributes:
        captions: number of captions whose class training has and whose answer has a rank.
        failed: number of these whose answer is not ranked high enough.
        left: number of failures left after each rule: neither a tail verb nor a tail noun; mean lengths of the class in
            training and test far enough apart; first clips nearer to the length in training than to that in test.
        suspected: rows of the captions that are left after all rules, ascending.
        tail: rare verbs and nouns.
    """

    captions: int
    failed: int
    left: tuple[int, int, int]
    suspected: Indices
    tail: TailClasses


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
        return self.data.of_captions(self._by_class("train_mean"))

    @cached_property
    def test_mean(self) -> Column:
        """Mean length (Q,) of each caption's class among the ranked clips; NaN where not known."""
        return self.data.of_captions(self._by_class("test_mean"))

    def _by_class(self, name: str) -> Column:
        return np.empty(0) if self.data.classes is None else np.asarray(getattr(self.data.classes, name))


def measure_length(
    scores: ScoresLike,
    corpus: CorpusLike,
    settings: AuditSettings | None = None,
    *,
    train: CorpusLike | None = None,
    tail: TailClasses | None = None,
) -> LengthMeasures:
    """Measure how a ranking depends on the lengths of clips.

    Args:
        scores: scores of captions and clips.
        corpus: corpus of the scores.
        settings: samples, seed, confidence, and how much is read at once.
        train: corpus that the system was trained on; None where it is not known.
        tail: rare classes; None to find them by their frequency.

    Raises:
        CorpusError: a clip of the scores is not in the corpus, or no length is known.
        ScoresError: a score is NaN, or the scores are no table of captions and videos.
    """
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
    length_biases = tuple(_length_bias(measured, depth, settings) for depth in range(len(first.depths)))
    failures = _failures(measured, tail or _tail(data.classes))
    return replace(measured, effect=length_biases[first.main][2], length_biases=length_biases, failures=failures)


def _ratio(data: LengthData, first: FirstClipLengths, settings: AuditSettings) -> Effect:
    """Ratio of geometric means, from the mean excess over captions, with lengths permuted over clips."""
    name = RATIO.format(depth=first.depths[first.main], others=data.others)
    excess = first.excess[first.main]
    if np.isnan(excess).all():
        return Effect(name, float("nan"), neutral=1.0)
    known = ~np.isnan(data.lengths)
    enough = min(int((~np.isnan(excess)).sum()), len(np.unique(data.cluster[known]))) >= ENOUGH
    sums = data.beyond_class.sums(first.pull[known], settings)
    drawn = widened(sums, 0.0, queries_part(first.own[:, 0], first.own[:, 1:], data.clip_groups))
    found = inverted_interval(drawn, settings)
    ends = [None if end is None else float(np.exp(end)) for end in (found.low, found.high)]
    p = exchange_test(drawn)
    return Effect(name, float(np.exp(found.value)), ends[0], ends[1], neutral=1.0, p_value=p, enough=enough, over=BOTH)


def _length_bias(measured: LengthMeasures, depth: int, settings: AuditSettings) -> tuple[Effect, Effect, Effect]:
    """Plain, given the length in test, and the excess given both that and what is expected."""
    first, train, test = measured.first, measured.train_mean, measured.test_mean
    kept = ~np.isnan(train) & ~np.isnan(first.excess[depth])
    means, excess, expected = (table[depth, kept] for table in (first.means, first.excess, first.expected))
    train, test, groups = train[kept], test[kept], measured.data.groups[kept]
    unsure = replace(settings, resamples=0)
    bias = rank_correlation(
        [excess, train, test, expected], groups, settings if depth == first.main else unsure, LENGTH_BIAS
    )
    return (
        rank_correlation([means, train], groups, unsure, "plain"),
        rank_correlation([means, train, test], groups, unsure, "given test"),
        replace(bias, enough=len(np.unique(groups)) >= ENOUGH, over="classes of captions"),
    )


def _tail(classes: TrainTestClasses) -> TailClasses:
    return tail_by_frequency(classes.actions.pairs, classes.actions.classes[classes.trained])


def _failures(measured: LengthMeasures, tail: TailClasses) -> Failures:
    data, train, test = measured.data, measured.train_mean, measured.test_mean
    known = ~np.isnan(train) & ~np.isnan(measured.first.rank)
    failed = known & (measured.first.rank > FAILED)
    kinds = data.corpus.captions.select("verb_classes", "noun_classes").iter_rows()
    rare = np.array([tail.hold(verbs or (), nouns or ()) for verbs, nouns in kinds], dtype=np.bool_)
    first = measured.first.means[measured.first.main]
    rules = (~rare, np.abs(test - train) >= data.second, np.abs(first - test) >= np.abs(first - train))
    left = [failed]
    for rule in rules:
        left.append(left[-1] & rule)
    one, two, three = (int(part.sum()) for part in left[1:])
    return Failures(int(known.sum()), int(failed.sum()), (one, two, three), np.flatnonzero(left[-1]), tail)


@dataclass(frozen=True)
class Tertile:
    """Third of the captions by the length of their class in training.

    Attributes:
        name: `shortest`, `middle` or `longest`.
        captions: number of captions.
        train, test: mean lengths of their classes in training and test.
        shown: geometric mean of the lengths of their first clips.
        ratio: `shown` over the length expected if length had no influence.
    """

    name: str
    captions: int
    train: float
    test: float
    shown: float
    ratio: float


def tertiles(measured: LengthMeasures) -> list[Tertile]:
    """Divide captions into thirds by the length of their class in training; those of one class stay together."""
    first, train = measured.first, measured.train_mean
    excess, expected = first.excess[first.main], first.expected[first.main]
    kept = np.flatnonzero(~np.isnan(train) & ~np.isnan(excess))
    if not len(kept):
        return []
    edges = np.quantile(train[kept], [1 / 3, 2 / 3])
    part = np.searchsorted(edges, train[kept], "left")
    found = []
    for number, name in enumerate(("shortest", "middle", "longest")):
        own = kept[part == number]
        if len(own):
            shown, ratio = np.exp([(excess[own] + expected[own]).mean(), excess[own].mean()]).tolist()
            test = float(measured.test_mean[own].mean())
            found.append(Tertile(name, len(own), float(train[own].mean()), test, shown, ratio))
    return found
