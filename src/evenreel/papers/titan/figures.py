"""Tables and figures of TITAN: streams of captions, phrases, and what each row of adaptation finds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.adaptation.adapted import Resources, TestTimeMatcher
from evenreel.adaptation.baselines import Rescore, StreamNorm
from evenreel.adaptation.prepared import resources_of
from evenreel.adaptation.run import AdaptReport, adapt
from evenreel.adaptation.stream import EncodeTexts, QueryStream, RememberingReader, RememberingTagger, taken
from evenreel.adaptation.stream import caption_vectors as vectors_of
from evenreel.adaptation.titan import (
    AdaptSettings,
    CounterfactualSettings,
    LabelRank,
    PseudoPairs,
    QueryWindow,
    counterfactuals,
    hub_queries,
    learnable,
    over_attended,
    pseudo_pairs,
    scored,
)
from evenreel.adaptation.titan_correction import CausalCorrection, judged
from evenreel.arrays import CACHED_BYTES, row_bands
from evenreel.audits.exchange import hits_interval, mean_interval
from evenreel.audits.settings import AuditSettings
from evenreel.errors import UsageError
from evenreel.evaluation import EvaluationSettings, Interval, evaluate, parse_metrics
from evenreel.evaluation.concentration import balance
from evenreel.evaluation.metrics import PerQuery
from evenreel.evaluation.rescoring import nearest_neighbour_norm, querybank_norm
from evenreel.language import load_tagger
from evenreel.language.tokens import Tagged
from evenreel.language.wording import content_phrases
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.engine import (
    Findings,
    SeededRuns,
    beside,
    by_row,
    change_bars,
    each_seed,
    effect_of,
    few_clips,
    figure_table,
    furthest,
    may_be_chance,
)
from evenreel.papers.shown import CAPTIONS
from evenreel.papers.study import StudySettings, paragraph, paragraphs
from evenreel.papers.titan.rows import (
    BOTH,
    NEITHER,
    NO_WORDS,
    SOURCE,
    Norm,
    Row,
    Rows,
    RowsOf,
    Swept,
    by_labels,
    name_of_whole,
    offline,
    online,
    parts,
    swept,
    thresholds,
)
from evenreel.papers.workspace import CaptionBank, Model, Workspace, texts_of
from evenreel.progress import Progress, each_part
from evenreel.report.figures import Panel, deltas_by_group, sweep
from evenreel.report.result import AuditFigure, AuditTable, Cell
from evenreel.types import FloatArray, ScoreBlocks, Scores, TextFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go


# Answering of a stream of queries with a model by the method of a table's row, and measures of what came of it.
#
# Labels are looked at after the fact: `evenreel.adaptation.stream.QueryStream` has no room for them.

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


# Which clips are crowded and by which words, and Figure 4 of TITAN (MM 2023): when they count as crowded.

WORDS = 5
"""Over-attended words of a clip that are listed."""
RECALLS = METRICS[:3]


def hub_table(targets: Sequence[Target], settings: AdaptSettings) -> AuditTable:
    """Make a table of the clips that rank first for most queries, and of the words these have in common."""
    how = settings.counterfactuals or CounterfactualSettings()
    rows = tuple(row for target in targets for row in _hubs(target, how))
    columns = ("model", "clip", "queries", "own captions among them", "crowded", "words, with their queries")
    return AuditTable(
        "The clips that are first for most queries", columns, rows, paragraph("titan", "Words of crowded clips")
    )


def no_crowd(targets: Sequence[Target], settings: AdaptSettings) -> Iterator[str]:
    """Yield a notice for each model for which the settings can make no counterfactual caption."""
    if settings.counterfactuals is None:
        return
    for target in targets:
        if not counts(target, settings.counterfactuals)[0]:
            beta = settings.counterfactuals.beta
            limit = f"{beta:g}" if beta >= 1 else f"{100 * beta:g} % of the"
            yield (
                f"{target.name}: no clip is first for more than {limit} queries, so few or no counterfactual captions "
                "are made; --set counterfactuals.beta=0.01 asks for 1 % of the queries."
            )


def counts(target: Target, how: CounterfactualSettings) -> tuple[int, int]:
    """Count the clips that the source model crowds with queries, and the counterfactual captions made of these."""
    made = counterfactuals(target.sentences, target.tagged, target.firsts, how)
    return len(hub_queries(target.firsts, len(target.sentences), how.beta)), len(made)


def sweep_tables(targets: Sequence[Target], settings: AdaptSettings) -> tuple[AuditTable, ...]:
    """Make a table of how many clips are crowded and how many captions lose a word, over both thresholds."""
    assert settings.counterfactuals is not None
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (target.name, point.row, *counts(target, point.how))
        for target in targets
        for points in swept(settings.counterfactuals).values()
        for point in points.values()
    )
    columns = ("model", "row", "crowded clips", "counterfactual captions")
    note = "By the first clips of the source model; a model that learns meanwhile makes others from batch to batch."
    return (AuditTable("What the thresholds let through", columns, rows, note),)


def sweep_figures(target: Target, runs: SeededRuns[str, str], settings: AdaptSettings) -> Iterator[AuditFigure]:
    """Draw recall over each threshold of figure 4, beside the crowded clips and counterfactual captions it gives."""
    assert settings.counterfactuals is not None
    for name, points in swept(settings.counterfactuals).items():
        there = {value: point for value, point in points.items() if point.row in runs.rows}
        draw = partial(_sweep, target, runs, name, there)
        yield AuditFigure(f"{target.name}: {name}", draw, "Bands are of the seeds, where there are some.")


def _hubs(target: Target, how: CounterfactualSettings) -> Iterator[tuple[Cell, ...]]:
    firsts = target.firsts
    full = hub_queries(firsts, len(firsts), how.beta)
    words: dict[int, list[str]] = {}
    for one in over_attended(target.tagged, firsts, replace(how, beta=0)):
        words.setdefault(one.video, []).append(f"{one.word} ({one.count:,})")
    for column, queries in balance(firsts, len(target.part.videos.ids)).hubs:
        clip = target.part.videos.ids[column]
        own = sum(target.own[row] == clip for row in (firsts == column).nonzero()[0])
        named = ", ".join(words.get(column, [])[:WORDS]) or None
        yield (target.name, clip, queries, own, "yes" if column in full else "no", named)


def _sweep(target: Target, runs: SeededRuns[str, str], name: str, points: Mapping[float, Swept]) -> go.Figure:
    recalls = {
        metric: [(float(value), runs.mean(point.row, metric)) for value, point in points.items()] for metric in RECALLS
    }
    through = {value: counts(target, point.how) for value, point in points.items()}
    numbers = {
        what: [(float(value), Interval(float(pair[place]))) for value, pair in through.items()]
        for place, what in enumerate(("crowded clips", "counterfactual captions"))
    }
    return sweep([Panel("Recall", "%", recalls), Panel("What is let through", "number", numbers)], name, columns=2)


# Tables 1 to 3 and Figure 4 of TITAN (MM 2023): a stream without labels, answered in several ways.

MAIN = "R@1"
TABLES_RECALLS = METRICS[:3]
_DIAGNOSED = {
    "labels": ("labels", 1), "right, %": ("right", 100), "coverage, %": ("coverage", 100), "Gini": ("gini", 1),
    "counterfactual captions": ("counterfactual", 1), "weights moved, %": ("moved", 100),
    "first clips changed, %": ("changed", 100), "rank before": ("rank_before", 1), "rank after": ("rank_after", 1),
}  # fmt: skip
"""Columns of the table of labels: a field of `Diagnosis` each, and what it is multiplied by."""
OVER_CAPTIONS = "Intervals over captions."
FEW_ROWS = 3
"""Rows that all have a sentence; of more, those have one that differ for sure."""


@dataclass(frozen=True)
class StreamComparison:
    """A table that compares ways to answer a stream of queries: its rows, and the row they are compared with.

    Attributes:
        rows: makes the rows of the table.
        against: name of the row that the others are compared with.
        lead: the row whose change is the effect of the study, empty for that of the settings as they are; where it is
            not there, the one with the largest change.
        notes: headings of paragraphs of `papers/words/titan.md` that readers have to know.
        sweeps: whether rows are points of the sweeps of Figure 4.
    """

    rows: RowsOf
    against: str
    lead: str = ""
    notes: tuple[str, ...] = ()
    sweeps: bool = False


@dataclass(frozen=True, eq=False)
class ComparedStreams:
    """One model's rows of a table of streams, measured with each seed.

    Attributes:
        target: the model and its split.
        against: the row that the others are compared with.
        outcomes: outcomes of each row by its name, one a seed.
        runs: metrics of the rows over all captions.
        left_out: why rows are missing, by the reason.
    """

    target: Target
    against: str
    outcomes: Mapping[str, Sequence[StreamOutcome]]
    runs: SeededRuns[str, str]
    left_out: Mapping[str, Sequence[str]]

    def mean(self, row: str, metric: str) -> float:
        """Return the mean of a metric of a row over the seeds."""
        return self.runs.mean(row, metric).value

    def changes(self, settings: AuditSettings) -> dict[str, dict[str, Interval]]:
        """Return how the recalls of each row differ from those of `against`, with intervals over captions."""
        before = self._hits(self.against)
        found = {}
        for row in self.outcomes:
            if row != self.against:
                changed = self._hits(row) - before
                intervals = [hits_interval(column, self.target.groups, settings) for column in changed]
                found[row] = dict(zip(TABLES_RECALLS, intervals, strict=True))
        return found

    def seed_changes(self) -> dict[str, dict[str, Interval]]:
        """Return how the metrics of each row differ from those of `against`, with intervals over seeds."""
        return self.runs.changes_beside(self.against)

    def _hits(self, row: str) -> NDArray[np.float64]:
        """(3, Q) hits of each caption at each depth, in percent, their mean over seeds."""
        found: NDArray[np.float64] = np.mean(
            [[one.per_query[metric] for metric in TABLES_RECALLS] for one in self.outcomes[row]], axis=0
        )
        return found


def compared_streams(
    comparison: StreamComparison, material: Workspace, settings: StudySettings, progress: Progress
) -> Findings:
    """Make a table of streams: answer the test split by the method of each row, with each model and seed."""
    models = material.encoders()
    rows = comparison.rows(settings.adapt, material.bank is not None)
    targets = [Target(model, material.bank) for model in models]
    found = [
        _compared(target, rows, comparison.against, settings, share) for target, share in each_part(targets, progress)
    ]
    changes = {one.target.name: one.changes(settings.audit) for one in found}
    first = changes[found[0].target.name]
    lead = comparison.lead or name_of_whole(settings.adapt)
    lead = lead if lead in first else furthest({row: own[MAIN] for row, own in first.items()})
    return Findings(
        " ".join(_told(found, changes)),
        effect_of(first[lead][MAIN], f"Change of {MAIN}: {lead} less {found[0].against}"),
        (
            _means(found),
            _changes_table("What each changes", [changes[one.target.name] for one in found], found, OVER_CAPTIONS),
            *(() if settings.seeds == 1 else (_over_seeds(found, settings),)),
            _diagnoses(found),
            *(sweep_tables([one.target for one in found], settings.adapt) if comparison.sweeps else ()),
            hub_table([one.target for one in found], settings.adapt),
        ),
        tuple(_figures(comparison, found, changes, settings)),
        (*_left_out(found), *no_crowd([one.target for one in found], settings.adapt), *_one_seed(settings)),
        (
            *paragraphs("titan", "Measures", "Pseudo-labels"),
            settings_told(settings),
            paragraph("titan", "Seeds"),
            *paragraphs("titan", *comparison.notes),
        ),
        few=few_clips(len(set(found[0].target.own))),
    )


def settings_told(settings: StudySettings) -> str:
    """Say by which settings models learn from a stream, which all rows of a table have in common."""
    own = settings.adapt
    step = f"{own.steps} step{'s' if own.steps > 1 else ''} a batch"
    rounds = step if own.online else f"{own.epochs} epoch{'s' if own.epochs > 1 else ''} of {step}"
    how = f"batches of {own.batch_size:,} queries, {rounds}"
    paper = " It is the paper's, for whole towers; a small adapter on fixed features moves little with it in one pass."
    fit = own.causal_fit
    stage = f" Target stage of the correction: {fit.steps:,} steps of {fit.lr:g} each time that labels are made."
    return (
        f"Adam with a learning rate of {own.lr:g}, {how}, what learns: {own.learns}."
        f"{paper if own.lr <= 1e-5 else ''}{stage if own.causal else ''} "
        "Change these with --set lr=0.001, --set epochs=5, --set causal_fit.steps=200 and so on."
    )


def _compared(target: Target, rows: Rows, against: str, settings: StudySettings, progress: Progress) -> ComparedStreams:
    reasons: dict[str, list[str]] = {}
    able: Rows = {}
    for name, row in rows.items():
        reason = _reason(target, row)
        if reason:
            reasons.setdefault(reason, []).append(name)
        else:
            able[name] = row
    learning = [name for name, row in able.items() if row.settings is not None]
    if not learning:
        raise UsageError(f"{target.name} cannot learn at test time: {next(iter(reasons))}")
    if against not in able:
        against = SOURCE
    seeds = range(settings.adapt.seed, settings.adapt.seed + settings.seeds)
    outcomes = by_row(
        (name, answered(target, able[name], seed, share, settings=settings.adapt))
        for name, seed, share in each_seed(able, seeds, progress)
    )
    figures = {
        name: [{metric: one.figure(metric) for metric in METRICS} for one in own] for name, own in outcomes.items()
    }
    return ComparedStreams(target, against, outcomes, SeededRuns(figures, settings.audit.confidence), reasons)


def _reason(target: Target, row: Row) -> str:
    """Why a model cannot be asked in the way of a row; empty where it can."""
    try:
        target.check(row)
    except UsageError as error:
        return str(error)
    return ""


def _told(
    found: Sequence[ComparedStreams], changes: Mapping[str, Mapping[str, Mapping[str, Interval]]]
) -> Iterator[str]:
    """A sentence for the row that others are compared with, for each that can be told from it, and for the rest."""
    for one in found:
        of = f"{one.target.name}, " if len(found) > 1 else ""
        main = {row: own[MAIN] for row, own in changes[one.target.name].items()}
        yield f"{of}{one.against}: {MAIN} {one.mean(one.against, MAIN):.1f}."
        for row, change in main.items():
            if len(main) <= FEW_ROWS or not may_be_chance(change):
                yield f"{of}{row}: {MAIN} {one.mean(row, MAIN):.1f}, {beside(change, one.against)}."
        rest = sum(may_be_chance(change) for change in main.values())
        if rest and len(main) > FEW_ROWS:
            others = "the other row is" if rest == 1 else f"the other {rest} rows are"
            yield f"{of}{others if of else others.capitalize()} within chance of {one.against}."


def _means(found: Sequence[ComparedStreams]) -> AuditTable:
    """The paper's form."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one.target.name, row, *(one.mean(row, metric) for metric in METRICS)) for one in found for row in one.outcomes
    )
    return AuditTable("What each finds", ("model", "row", *METRICS), rows, "Recall in percent; means over seeds.")


def _over_seeds(found: Sequence[ComparedStreams], settings: StudySettings) -> AuditTable:
    note = f"Student's t over {settings.seeds} seeds, so of the order of the queries and not of which they are."
    return _changes_table("What each changes, seed by seed", [one.seed_changes() for one in found], found, note)


def _changes_table(
    title: str, changes: Sequence[Mapping[str, Mapping[str, Interval]]], found: Sequence[ComparedStreams], note: str
) -> AuditTable:
    """Changes of each row, model by model."""
    rows = (
        ({"model": one.target.name, "row": row, "less": one.against}, figures)
        for one, own in zip(found, changes, strict=True)
        for row, figures in own.items()
    )
    return figure_table(title, rows, "change", note)


def _diagnoses(found: Sequence[ComparedStreams]) -> AuditTable:
    """How right and how even the labels were, and how far the weights went."""
    rows = [
        (one.target.name, row, *_diagnosis([own.diagnosis for own in outcomes if own.diagnosis is not None]))
        for one in found
        for row, outcomes in one.outcomes.items()
        if outcomes[0].diagnosis is not None
    ]
    columns = ("model", "row", *_DIAGNOSED, "in the end")
    return AuditTable(
        "How good the pseudo-labels were", columns, tuple(rows), "Means over seeds; the end of the first."
    )


def _diagnosis(own: Sequence[Diagnosis]) -> tuple[Cell, ...]:
    def mean(values: Sequence[float | None], factor: float = 1.0) -> float | None:
        known = [value for value in values if value is not None]
        return factor * float(np.mean(known)) if known else None

    means = (mean([getattr(one, name) for one in own], factor) for name, factor in _DIAGNOSED.values())
    return (*means, own[0].sentence)


def _left_out(found: Sequence[ComparedStreams]) -> Iterator[str]:
    for one in found:
        for reason, rows in one.left_out.items():
            yield f"{one.target.name}, left out: {', '.join(rows)}. {reason}"


def _one_seed(settings: StudySettings) -> tuple[str, ...]:
    if settings.seeds > 1:
        return ()
    return ("One seed: intervals do not count the order of the queries; give --seeds 3 or more.",)


def _figures(
    comparison: StreamComparison,
    found: Sequence[ComparedStreams],
    changes: Mapping[str, Mapping[str, Mapping[str, Interval]]],
    settings: StudySettings,
) -> Iterator[AuditFigure]:
    for one in found:
        name = one.target.name
        if comparison.sweeps:
            yield from sweep_figures(one.target, one.runs, settings.adapt)
        yield AuditFigure(f"{name}: change of {MAIN}", partial(change_bars, changes[name], MAIN))


# Figure 5 of TITAN (MM 2023, section 4.5): phrases of a caption with a clip, before and after the correction of bias.
#
# The paper shows two examples by hand; here the phrases are found by a tagger, and the captions are those whose clip
# the correction changed, or those that the user names.

WHOLE = "the whole caption"
JUDGES = ("source model", "correction, from the source", "correction, on the target")


class Judged(NamedTuple):
    """A phrase, or the whole caption, with its scores for a clip.

    Attributes:
        phrase: text of the phrase.
        score: score of the source model.
        before: probability by the correction as the source left it.
        after: probability by the correction when it has learned from the target.
    """

    phrase: str
    score: float
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class Example:
    """A caption with one of the clips it is labelled with, and the scores of its phrases.

    Attributes:
        system: name of the model.
        caption: text of the caption.
        clip: id of the clip.
        role: whether it is the label without the correction, with it, or both.
        right: whether the caption describes it.
        judged: scores of the caption and of its phrases.
    """

    system: str
    caption: str
    clip: str
    role: str
    right: bool
    judged: tuple[Judged, ...]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Pseudo-labels of the captions of a test split, without the correction of bias and with it.

    Attributes:
        target: the model and its split.
        model: around the source, with the encoded clips.
        rows: (Q,) captions that have a label.
        before: (Q,) columns of their clips without the correction.
        after: (Q,) columns of their clips with the correction.
        corrections: the correction as the source left it, and after the target.
        rank: ranks of the labels before and after the target stage.
    """

    target: Target
    model: TestTimeMatcher
    rows: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    corrections: tuple[CausalCorrection, CausalCorrection]
    rank: LabelRank

    def gain(self) -> NDArray[np.float64]:
        """Return for each caption 100 where only the correction is right, -100 where only it is wrong, (Q,)."""
        clips = np.array(self.target.part.videos.ids)
        own = np.array(self.target.own)[self.rows]
        found: NDArray[np.float64] = 100.0 * ((clips[self.after] == own) * 1.0 - (clips[self.before] == own))
        return found


def corrected_phrases(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figure 5 of TITAN: phrases of captions with the clips of their labels, before and after the correction."""
    found: list[Labelled] = []
    examples: list[Example] = []
    for model, _ in each_part(material.encoders(), progress):
        found.append(_labelled(Target(model), settings.adapt))
        examples += _examples(found[-1], settings.queries)
    first, audit = found[0], settings.audit
    gain = mean_interval(first.gain(), first.target.groups[first.rows], audit)
    return Findings(
        " ".join(_phrases_told(one, mean_interval(one.gain(), one.target.groups[one.rows], audit)) for one in found),
        effect_of(gain, "Right labels, %: with the correction less without"),
        (_table(examples),),
        tuple(
            AuditFigure(f"{one.system}: {one.caption!r} with {one.clip} ({one.role})", partial(_bars, one))
            for one in examples
        ),
        (
            *paragraphs("shared", "A few captions"),
            *(() if settings.queries else paragraphs("titan", "Captions that are shown")),
        ),
        paragraphs("titan", "Phrases"),
        few=few_clips(len(set(first.target.own))),
    )


def _labelled(target: Target, settings: AdaptSettings) -> Labelled:
    """The labels of the first queries that fit into the bank, ranked among each other."""
    if target.read is None:
        raise UsageError(
            "This study reads phrases with the text tower of the features, and these were computed elsewhere; give it "
            "features that `evenreel features` computed."
        )
    if not by_labels(settings).causal:
        raise UsageError("This study is about the correction of bias, and causal is false; leave that out.")
    model = target.model(Row(settings))
    resources = target.resources(Row(settings))
    count = min(settings.bank, len(target.sentences))
    captions = tuple(target.part.corpus.captions["caption_id"])[:count]
    seen = QueryWindow(texts_of(target.part.texts, captions), target.sentences[:count])
    own, here = np.arange(count), resources.for_stream(settings)
    plain = pseudo_pairs(
        model.source, seen, own, model.gallery, replace(settings, causal=False), resources.for_stream(settings)
    )
    corrected = pseudo_pairs(model.source, seen, own, model.gallery, settings, here)
    assert resources.correction is not None and here.target is not None and corrected.rank is not None
    place = {one: row for row, one in enumerate(captions)}
    rows = np.array([place[one] for one in plain.texts.ids[: plain.queries]], np.int64)
    corrections = resources.correction, here.target.correction
    return Labelled(target, model, rows, _columns(plain), _columns(corrected), corrections, corrected.rank)


def _columns(pairs: PseudoPairs) -> NDArray[np.int64]:
    return pairs.columns[: pairs.queries]


def _examples(found: Labelled, queries: Sequence[str]) -> list[Example]:
    examples: list[Example] = []
    for at in _chosen(found, queries):
        row, clips = int(found.rows[at]), dict[int, str]()
        for column, role in ((int(found.before[at]), "without correction"), (int(found.after[at]), "with correction")):
            clips[column] = "with and without correction" if column in clips else role
        for column, role in clips.items():
            examples.append(_example(found, row, column, role))
    return examples


def _chosen(found: Labelled, queries: Sequence[str]) -> list[int]:
    """Places among the labelled captions."""
    ids = found.target.part.corpus.captions["caption_id"].to_list()
    if queries:
        place = {ids[row]: at for at, row in enumerate(found.rows)}
        if strange := [one for one in queries if one not in place]:
            raise UsageError(
                f"The split has no caption {strange[0]!r} with a label; --query takes ids of captions, and labels are "
                f"given to the first {len(found.rows):,}."
            )
        return [place[one] for one in queries]
    changed = np.flatnonzero(found.before != found.after).tolist()
    return list(islice(changed, CAPTIONS)) or list(range(min(CAPTIONS, len(found.rows))))


def _example(found: Labelled, row: int, column: int, role: str) -> Example:
    target = found.target
    caption, clip = target.sentences[row], target.part.videos.ids[column]
    phrases = list(dict.fromkeys(one.text for one in content_phrases(target.tagged[row])))
    assert target.read is not None
    texts = target.read([caption, *phrases])
    judged = _judged(found, texts, column)
    named = (WHOLE, *phrases)
    return Example(
        target.name,
        caption,
        clip,
        role,
        target.own[row] == clip,
        tuple(Judged(name, *values) for name, values in zip(named, judged, strict=True)),
    )


def _judged(found: Labelled, texts: TextFeatures, column: int) -> list[tuple[float, float, float]]:
    """Score each text with a clip: by the source model, and as probabilities before and after the target."""
    from scipy.special import expit

    source, gallery = found.model.source, found.model.gallery
    scores = scored(source, texts, gallery.encoded)[:, column]
    vectors = vectors_of(source, texts)
    asked = np.full((len(texts.ids), 1), column)
    assert gallery.vectors is not None  # the study asks for the correction
    sides = [expit(judged(one, vectors, gallery.vectors, asked))[:, 0] for one in found.corrections]
    return [tuple(map(float, row)) for row in zip(scores, *sides, strict=True)]  # type: ignore[misc]


def _phrases_told(found: Labelled, gain: Interval) -> str:
    own, clips = np.array(found.target.own)[found.rows], np.array(found.target.part.videos.ids)
    changed = int((found.before != found.after).sum())
    before, after = (100 * float((clips[columns] == own).mean()) for columns in (found.before, found.after))
    return (
        f"{found.target.name}: the correction gives {changed:,} of {len(found.rows):,} captions another clip; "
        f"{after:.1f} % of the labels are right, {beside(gain, f'{before:.1f} % without it')}. Its target stage: "
        f"{found.rank.sentence}."
    )


def _table(examples: Sequence[Example]) -> AuditTable:
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (one.system, one.caption, one.clip, one.role, "right" if one.right else "wrong", *said)
        for one in examples
        for said in one.judged
    )
    columns = ("model", "caption", "clip", "it is the label", "it is", "phrase", *JUDGES)
    return AuditTable("Phrases with clips", columns, rows, digits=3)


def _bars(example: Example) -> go.Figure:
    values: Mapping[str, Mapping[str, Interval]] = {
        judge: {one.phrase: Interval(one[place]) for one in example.judged}  # type: ignore[arg-type]
        for place, judge in enumerate(JUDGES, start=1)
    }
    return deltas_by_group(values, "score of the model; probability by the correction")


_ROWS_1 = "Rows of tables 1 and 3"
T1 = partial(compared_streams, StreamComparison(online, SOURCE, notes=(_ROWS_1, "Table 1 in the paper")))
T2 = partial(compared_streams, StreamComparison(parts, NEITHER, BOTH, ("Rows of table 2", "Table 2 in the paper")))
T3 = partial(compared_streams, StreamComparison(offline, SOURCE, notes=(_ROWS_1, "Table 3 in the paper")))
F4 = partial(compared_streams, StreamComparison(thresholds, NO_WORDS, "beta 30", ("Rows of figure 4",), sweeps=True))
