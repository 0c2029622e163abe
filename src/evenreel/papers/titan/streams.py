"""Answering of a stream of queries with a model by the method of a table's row, and measures of what came of it.

Labels are looked at after the fact: `evenreel.adaptation.stream.QueryStream` has no room for them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenreel.adaptation.adapted import Resources, TestTimeMatcher
from evenreel.adaptation.baselines import Rescore, StreamNorm
from evenreel.adaptation.prepared import resources_of
from evenreel.adaptation.run import AdaptReport, adapt
from evenreel.adaptation.stream import EncodeTexts, QueryStream, RememberingReader, RememberingTagger, taken
from evenreel.adaptation.titan import AdaptSettings, learnable
from evenreel.adaptation.titan_correction import CausalCorrection
from evenreel.arrays import CACHED_BYTES, row_bands
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.concentration import balance
from evenreel.evaluation.metrics import PerQuery
from evenreel.evaluation.rescoring import nearest_neighbour_norm, querybank_norm
from evenreel.language import load_tagger
from evenreel.language.tokens import Tagged
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.engine.caption_bank import CaptionBank
from evenreel.papers.engine.material import Model
from evenreel.papers.titan.rows import Norm, Row
from evenreel.progress import Progress
from evenreel.types import FloatArray, ScoreBlocks, Scores

METRICS = ("R@1", "R@5", "R@10", "MedR")
NEIGHBOURS = 128
"""Queries of the bank that NNN looks at, as its authors' example does; all of a smaller bank."""

AT_ONCE = 1024
"""Queries whose scores are corrected at a time, where that does not hang on which came before."""


@dataclass(frozen=True)
class Diagnosis:
    """How good the pseudo-labels of one stream were, and how far the weights moved.

    Attributes:
        labels: how many queries have a pseudo-label.
        right: share of the pseudo-labels, the last of each query, that are its own clip; None without pseudo-labels.
        coverage: share of the clips that are a pseudo-label; None without any.
        gini: Gini coefficient of the pseudo-labels over the clips; None without any.
        counterfactual: captions that lost a word, of all steps.
        moved: how far the weights went, as a share of their length.
        changed: share of the queries with another first clip than the source's.
        rank_before: mean rank of the labels among their candidates by the correction of bias before it trained on
            them, over the steps; None without the correction.
        rank_after: the same after it trained.
        sentence: what was decided in the end.
    """

    labels: int
    right: float | None
    coverage: float | None
    gini: float | None
    counterfactual: int
    moved: float
    changed: float
    rank_before: float | None
    rank_after: float | None
    sentence: str


@dataclass(frozen=True, eq=False)
class StreamOutcome:
    """Metrics of one stream of queries, answered by the method of one row of a table with one seed.

    Attributes:
        per_query: columns of `METRICS`, (Q,) each, in the order of the split's captions.
        diagnosis: how good the pseudo-labels were; None where nothing was learned.
    """

    per_query: PerQuery
    diagnosis: Diagnosis | None = None

    def figure(self, metric: str) -> float:
        """Summarise a metric over all captions, R@k in percent or a median rank."""
        (asked,) = parse_metrics([metric])
        return float(asked.summary(self.per_query)[0])


class Target:
    """One model with its test split, whose captions are a stream of queries for each row of a table.

    Args:
        model: source model, with features of the split that is searched.
        bank: bank of training captions; None for none.
    """

    def __init__(self, model: Model, bank: CaptionBank | None = None) -> None:
        part = model.part.only(model.part.corpus)
        self.name, self.matcher, self.part, self.bank = model.name, model.matcher, part, bank
        self.prepared = model.prepared
        self._drawn: tuple[tuple[int, int], FloatArray] | None = None
        self.sentences: tuple[str, ...] = tuple(part.corpus.captions["text"])
        self.own: tuple[str, ...] = tuple(part.corpus.captions["clip_id"])
        self.tagger = RememberingTagger(load_tagger())
        self.read: EncodeTexts | None = None if model.read is None else RememberingReader(model.read)

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Return a number for each caption that is equal for captions of one clip, (Q,)."""
        return np.unique(self.own, return_inverse=True)[1].astype(np.int64)

    @cached_property
    def tagged(self) -> list[Tagged]:
        """Return the words of the captions with their tags."""
        return self.tagger.tag(self.sentences)

    @cached_property
    def scores(self) -> ScoreBlocks:
        """Score every caption and clip by the source model."""
        return self.part.scores(self.matcher)

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """Return the column of the first clip of each caption by the source model, (Q,)."""
        bands = row_bands(self.scores, CACHED_BYTES)
        return np.concatenate([band.argmax(axis=1) for _, band in bands]).astype(np.int64)

    @cached_property
    def confounders(self) -> FloatArray | None:
        """Return the confounders of the target's clips, (N, d); None where the checkpoint corrects nothing."""
        if self.prepared is None or self.prepared.correction is None:
            return None
        found: FloatArray = self.prepared.target_confounders(self.part.videos).numpy()
        return found

    def bank_scores(self, seed: int, most: int) -> FloatArray:
        """Compute the source model's scores (N, V) of training captions, drawn at random, and the target's V clips.

        The scores of the latest draw are kept, so that a second call with the same arguments costs nothing.

        Args:
            seed: seed of the draw.
            most: most captions that are drawn; N is fewer where there are not so many.
        """
        assert self.bank is not None
        if self._drawn is None or self._drawn[0] != (seed, most):
            limits = self.matcher.limits
            texts = self.bank.drawn(seed, most, None if limits.graphs else limits.words)
            scores = matcher_scores(self.matcher, texts, self.part.videos)
            self._drawn = (seed, most), scores.block(slice(0, len(texts.ids)), slice(0, len(self.part.videos.ids)))
        return self._drawn[1]

    def stream(self, seed: int) -> QueryStream:
        """Return the captions as a stream, in an order that the seed draws."""
        order = np.random.default_rng([seed, 2]).permutation(len(self.sentences))
        sentences = tuple(self.sentences[row] for row in order)
        return QueryStream(taken(self.part.texts, order), sentences, self.part.videos)

    def resources(self, row: Row) -> Resources:
        """Return the resources that learning by the method of a row takes; the row must have `settings`."""
        assert row.settings is not None
        prepared = self.prepared
        if prepared is not None and prepared.correction is not None and row.correction:
            prepared = replace(prepared, correction=switched(prepared.correction, row))
        given = self.confounders if row.settings.causal else None
        reads = self.read if row.settings.reads_captions else None
        return resources_of(prepared, self.part.videos, row.settings, reads, self.tagger, confounders=given)

    def check(self, row: Row) -> None:
        """Check that the model can answer a stream by the method of a row."""
        if row.settings is not None:
            self.resources(row).check(row.settings)
            learnable(self.matcher, row.settings.learns, row.settings.objective)

    def model(self, row: Row) -> TestTimeMatcher:
        """Return a matcher around the source model that learns at test time by the method of a row."""
        return TestTimeMatcher(self.matcher, self.part.videos, row.settings, self.resources(row))


def answered(target: Target, row: Row, seed: int, progress: Progress, *, settings: AdaptSettings) -> StreamOutcome:
    """Answer the test captions of a model as a stream of queries by the method of a row, and measure the rankings."""
    if row.norm is not None:
        return StreamOutcome(_measured(target, _normalised(target, row.norm, seed, settings)))
    if row.settings is None:
        return StreamOutcome(_measured(target, target.scores))
    row = replace(row, settings=replace(row.settings, seed=seed))
    found = adapt(target.model(row), target.stream(seed), progress, keep=True)
    scores = target.part.scores(found.matcher) if found.scores is None else found.scores
    return StreamOutcome(_measured(target, scores), diagnosed(found.report, target))


def diagnosed(report: AdaptReport, target: Target) -> Diagnosis:
    """Compare the pseudo-labels of a stream with the clips that its captions describe."""
    last = dict(pair for step in report.steps for pair in step.labels)
    own = dict(zip(target.part.corpus.captions["caption_id"], target.own, strict=True))
    columns = {clip: column for column, clip in enumerate(target.part.videos.ids)}
    ranks = [step.label_rank for step in report.steps if step.label_rank is not None]
    shared = balance(np.array([columns[clip] for clip in last.values()], np.int64), len(columns))
    return Diagnosis(
        len(last),
        float(np.mean([own[query] == clip for query, clip in last.items()])) if last else None,
        shared.coverage if last else None,
        shared.gini if last else None,
        sum(step.counterfactual for step in report.steps),
        report.moved,
        report.first_changed,
        float(np.mean([rank.before for rank in ranks])) if ranks else None,
        float(np.mean([rank.after for rank in ranks])) if ranks else None,
        report.sentence,
    )


def switched(correction: CausalCorrection, row: Row) -> CausalCorrection:
    """Return a copy of a bias correction with the settings of a row; what it learned of the source stays."""
    other = copy.deepcopy(correction)
    other.settings = replace(correction.settings, **row.correction)
    return other


def _measured(target: Target, scores: ScoreBlocks) -> PerQuery:
    """Columns of the metrics in the order of the split's captions."""
    settings = EvaluationSettings(parse_metrics(list(METRICS)), ("t2v",), resamples=0)
    found = evaluate(scores, target.part.corpus, settings).directions["t2v"]
    place = {one: row for row, one in enumerate(found.query_ids)}
    order = [place[one] for one in target.part.corpus.captions["caption_id"]]
    return {name: values[order] for name, values in found.per_query.items()}


def _normalised(target: Target, norm: Norm, seed: int, settings: AdaptSettings) -> Scores:
    """The source model's scores, corrected by those of other queries."""
    stream, rescore = target.stream(seed), _rescoring(norm, target.part.videos.ids)
    videos = stream.videos
    correct: Callable[[FloatArray], FloatArray]
    whole = matcher_scores(target.matcher, stream.texts, videos)
    count, columns = len(stream.sentences), slice(0, len(videos.ids))
    if settings.online and not norm.trained:
        correct, size = StreamNorm(rescore, most=settings.bank), settings.batch_size
    else:
        latest = slice(max(0, count - settings.bank), count)
        bank = target.bank_scores(seed, settings.bank) if norm.trained else whole.block(latest, columns)
        correct, size = (lambda scores: rescore(scores, bank)), AT_ONCE
    rows = [correct(whole.block(slice(int(one[0]), int(one[-1]) + 1), columns)) for one in stream.batches(size)]
    return Scores(np.concatenate(rows), stream.texts.ids, videos.ids)


def _rescoring(norm: Norm, videos: Sequence[str]) -> Rescore:
    def rescore(scores: FloatArray, bank: FloatArray) -> FloatArray:
        given = Scores(scores, [str(row) for row in range(len(scores))], videos)
        if norm.method == "qb-norm":
            corrected: FloatArray = querybank_norm(given, bank).values
        else:
            corrected = nearest_neighbour_norm(given, bank, top=min(NEIGHBOURS, len(bank))).values
        return corrected

    return rescore
