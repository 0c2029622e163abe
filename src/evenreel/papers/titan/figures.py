"""Tables 1 to 3 and figures 4 and 5 of TITAN (MM 2023, section 4): rows, streams of captions, and phrases.

A row is a way to answer one stream of queries. Labels are looked at after the fact:
`evenreel.adaptation.stream.QueryStream` has no room for them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenreel.adaptation.adapted import Resources, TestTimeMatcher
from evenreel.adaptation.baselines import Rescore, StreamNorm
from evenreel.adaptation.prepared import resources_of
from evenreel.adaptation.run import AdaptReport, adapt
from evenreel.adaptation.stream import EncodeTexts, QueryStream, RememberingReader, RememberingTagger, taken
from evenreel.adaptation.stream import caption_vectors as vectors_of
from evenreel.adaptation.titan import (
    UNSAFE,
    AdaptSettings,
    CounterfactualSettings,
    LabelRank,
    Learns,
    Match,
    QueryWindow,
    SafetySettings,
    counterfactuals,
    hub_queries,
    learnable,
    naive,
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
    Cells,
    FigureRows,
    SeededRuns,
    beside,
    but_few,
    by_row,
    change_bars,
    each_seed,
    effect_of,
    few_clips,
    figure_table,
    finding,
    furthest,
    may_be_chance,
)
from evenreel.papers.shown import CAPTIONS
from evenreel.papers.study import StudySettings, paragraph, paragraphs
from evenreel.papers.workspace import CaptionBank, Model, Workspace, texts_of
from evenreel.progress import Progress, each_part
from evenreel.report.figures import Panel, deltas_by_group, sweep
from evenreel.report.result import AuditFigure, AuditResult, AuditTable
from evenreel.types import FloatArray, ScoreBlocks, Scores

if TYPE_CHECKING:
    import plotly.graph_objects as go

# rows of tables -------------------------------------------------------------------------------------------------------

SOURCE, NAIVE, TITAN = "source only", "naive pseudo-labels", "TITAN"
SAFE, FIRST = "{} with safety", "{}, predicted first"
NEITHER, CHR, CBC, BOTH = "neither", "CHR", "CBC", "CHR + CBC"
"""Rows of table 2: the rebalancing of labels (CHR) and the correction of bias (CBC)."""
NO_WORDS = "no counterfactual captions"
BETAS, BETA_SHARES, THETAS = (5, 10, 20, 30, 50, 100), (0.001, 0.005, 0.01, 0.05), (0.1, 0.25, 0.5, 0.75, 0.9)
"""Figure 4, on both sides of the paper's beta of 30."""
MATCHES: tuple[Match, ...] = ("one_way", "mutual_nn", "hungarian", "sinkhorn")
"""Ways to match beside the paper's."""
LEARNERS: tuple[Learns, ...] = ("heads", "norms", "text")
NORMS: Mapping[Literal["qb-norm", "nnn"], str] = {"qb-norm": "QB-Norm", "nnn": "NNN"}


class Norm(NamedTuple):
    """A correction of scores by those of other queries, without learning.

    The bank is of training captions (`trained`), or of the latest of the stream's own queries that it has room for:
    online of those that came before, offline of all.
    """

    method: Literal["qb-norm", "nnn"]
    trained: bool = False


@dataclass(frozen=True)
class Row:
    """Method to answer a stream of queries; without any field, the source model as it is."""

    settings: AdaptSettings | None = None  # of test-time training
    correction: Mapping[str, Any] = field(default_factory=dict)  # of the bias correction, in place of the checkpoint's
    norm: Norm | None = None  # corrects the source model's scores


Rows = dict[str, Row]
RowsOf = Callable[[AdaptSettings, bool], Rows]
"""From the settings of the study, and whether there are training captions for a bank."""


def online(settings: AdaptSettings, bank: bool) -> Rows:
    """Rows of table 1: methods that learn batch by batch."""
    return _methods(_of_protocol(settings, "online", "titan/t3"), bank)


def offline(settings: AdaptSettings, bank: bool) -> Rows:
    """Rows of table 3: methods that learn from all queries first."""
    return _methods(_of_protocol(settings, "offline", "titan/t1"), bank)


def parts(settings: AdaptSettings, bank: bool) -> Rows:
    """Rows of table 2: rebalancing of labels, correction of bias, both, and changes of these."""
    if not settings.causal or settings.counterfactuals is None or settings.matching.match == "one_way":
        raise UsageError(
            "This study switches the parts of TITAN off one by one, and the settings begin without one of them; leave "
            "causal, counterfactuals and matching.match as they are."
        )
    bare, whole = naive(by_labels(settings)), settings
    corrected = replace(bare, causal=True)
    changes: dict[str, AdaptSettings] = {
        NEITHER: bare,
        CHR: replace(whole, causal=False),
        CBC: corrected,
        BOTH: whole,
        "rematching alone": replace(bare, matching=whole.matching),
        "counterfactual captions alone": replace(bare, counterfactuals=whole.counterfactuals),
    }
    ways = {match: replace(whole.matching, match=match) for match in MATCHES}
    more = {f"{BOTH}, {match.replace('_', ' ')}": replace(whole, matching=own) for match, own in ways.items()}
    more |= {f"{name}, ranks decide": replace(own, decides="ranks") for name, own in ((CBC, corrected), (BOTH, whole))}
    more |= {f"{BOTH}, {learns} alone": replace(whole, learns=learns) for learns in LEARNERS}
    return {
        SOURCE: Row(),
        **{name: Row(own) for name, own in changes.items()},
        "source debias alone": Row(corrected, {"source_debias": True, "target_amplification": False}),
        "target amplification alone": Row(corrected, {"source_debias": False, "target_amplification": True}),
        **{name: Row(own) for name, own in more.items()},
    }


def thresholds(settings: AdaptSettings, bank: bool) -> Rows:
    """Rows of figure 4: when a clip is crowded, and which of its words are over-attended."""
    own = by_labels(settings).counterfactuals
    if own is None:
        raise UsageError("This study is about counterfactual captions, and they are set to null; leave that out.")
    points = (point for points in swept(own).values() for point in points.values())
    return {SOURCE: Row(), NO_WORDS: Row(replace(settings, counterfactuals=None))} | {
        name: Row(replace(settings, counterfactuals=how)) for name, how in points
    }


class Swept(NamedTuple):
    """One point of a sweep."""

    row: str
    how: CounterfactualSettings


def swept(own: CounterfactualSettings) -> dict[str, dict[float, Swept]]:
    """Return the sweeps of figure 4: by the name of the threshold that is changed, its points by value.

    >>> swept(CounterfactualSettings())["theta, share of a clip's queries"][0.5].row
    'theta 0.5'
    """
    return {
        "beta, queries": {beta: Swept(f"beta {beta}", replace(own, beta=beta)) for beta in BETAS},
        "beta, share of the queries": {
            share: Swept(f"beta {100 * share:g} % of the queries", replace(own, beta=share)) for share in BETA_SHARES
        },
        "theta, share of a clip's queries": {
            theta: Swept(f"theta {theta:g}", replace(own, theta=theta)) for theta in THETAS
        },
    }


def name_of_whole(settings: AdaptSettings) -> str:
    """Name the row that learns by the settings of a study unchanged.

    >>> name_of_whole(AdaptSettings(causal=False))
    'TITAN without correction'
    """
    return TITAN if settings.causal else f"{TITAN} without correction"


def _methods(settings: AdaptSettings, bank: bool) -> Rows:
    """The source, what learns nothing, what the paper compares with, and TITAN with and without safety."""
    plain, whole = replace(settings, safety=UNSAFE), name_of_whole(settings)
    bare = replace(plain, counterfactuals=None, causal=False)
    rows = {SOURCE: Row()}
    for method, name in NORMS.items():
        rows[f"{name}, {'past' if settings.online else 'own'} queries"] = Row(norm=Norm(method))
        if bank:
            rows[f"{name}, training captions"] = Row(norm=Norm(method, trained=True))
    rows |= {
        NAIVE: Row(naive(plain)),
        "TTT++": Row(replace(bare, objective="ttt")),
        "TTTFlow": Row(replace(bare, objective="ttt_flow")),
        whole: Row(plain),
        SAFE.format(whole): Row(replace(settings, safety=SafetySettings()) if settings.safety == UNSAFE else settings),
    }
    return rows | ({FIRST.format(whole): Row(replace(plain, predict="before"))} if settings.online else {})


def _of_protocol(settings: AdaptSettings, protocol: str, other: str) -> AdaptSettings:
    if settings.protocol != protocol:
        raise UsageError(
            f"This study is of the protocol {protocol}, and the settings say {settings.protocol}; make {other} for it."
        )
    return by_labels(settings)


def by_labels(settings: AdaptSettings) -> AdaptSettings:
    """Return the settings, if they learn from pseudo-labels."""
    if settings.objective != "pseudo_labels":
        raise UsageError(
            f"Studies of TITAN go out from pseudo-labels, and the objective is {settings.objective}; leave it out."
        )
    return settings


# a stream answered in the way of a row --------------------------------------------------------------------------------

METRICS = ("R@1", "R@5", "R@10", "MedR")
RECALLS, MAIN = METRICS[:3], METRICS[0]
NEIGHBOURS = 128
"""Queries of the bank that NNN looks at, as its authors' example does; all of a smaller bank."""
AT_ONCE = 1024
"""Queries whose scores are corrected at a time, where that does not hang on which came before."""


class StreamOutcome(NamedTuple):
    """What a row with one seed came to."""

    per_query: PerQuery  # columns of `METRICS`, (Q,) each, in the order of the split's captions
    labels: Mapping[str, float | None] | None = None  # how good the pseudo-labels were, by head; None without learning
    ended: str = ""  # what was decided in the end

    def figure(self, metric: str) -> float:
        """Summarise a metric over all captions, R@k in percent or a median rank."""
        (asked,) = parse_metrics([metric])
        return float(asked.summary(self.per_query)[0])


class Target:
    """One model with its test split, whose captions are a stream of queries for each row of a table."""

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
        """Compute the source model's scores (N, V) of at most so many training captions, drawn, and the target's clips.

        The scores of the latest draw are kept, so that a second call with the same arguments costs nothing.
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

    def lacks(self, row: Row) -> str:
        """Say why the model cannot answer a stream by the method of a row; empty where it can."""
        if row.settings is not None:
            try:
                self.resources(row).check(row.settings)
                learnable(self.matcher, row.settings.learns, row.settings.objective)
            except UsageError as error:
                return str(error)
        return ""

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
    return StreamOutcome(_measured(target, scores), diagnosed(found.report, target), found.report.sentence)


def diagnosed(report: AdaptReport, target: Target) -> dict[str, float | None]:
    """Compare the pseudo-labels of a stream, the last of each query, with the clips that its captions describe.

    Ranks are those of the labels among their candidates by the correction of bias, before and after it trained on them,
    as means over the steps; shares are None without any label, ranks without the correction.
    """
    last = dict(pair for step in report.steps for pair in step.labels)
    own = dict(zip(target.part.corpus.captions["caption_id"], target.own, strict=True))
    columns = {clip: column for column, clip in enumerate(target.part.videos.ids)}
    ranks = [step.label_rank for step in report.steps if step.label_rank is not None]
    shared = balance(np.array([columns[clip] for clip in last.values()], np.int64), len(columns))
    return {
        "labels": len(last),
        "right, %": 100 * float(np.mean([own[query] == clip for query, clip in last.items()])) if last else None,
        "coverage, %": 100 * shared.coverage if last else None,
        "Gini": shared.gini if last else None,
        "counterfactual captions": sum(step.counterfactual for step in report.steps),
        "weights moved, %": 100 * report.moved,
        "first clips changed, %": 100 * report.first_changed,
        "rank before": float(np.mean([rank.before for rank in ranks])) if ranks else None,
        "rank after": float(np.mean([rank.after for rank in ranks])) if ranks else None,
    }


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
    stream = target.stream(seed)
    videos = stream.videos

    def rescore(scores: FloatArray, bank: FloatArray) -> FloatArray:
        given = Scores(scores, [str(row) for row in range(len(scores))], videos.ids)
        if norm.method == "qb-norm":
            corrected: FloatArray = querybank_norm(given, bank).values
        else:
            corrected = nearest_neighbour_norm(given, bank, top=min(NEIGHBOURS, len(bank))).values
        return corrected

    correct: Callable[[FloatArray], FloatArray]
    whole = matcher_scores(target.matcher, stream.texts, videos)
    count, columns = len(stream.sentences), slice(0, len(videos.ids))
    if settings.online and not norm.trained:
        one_by_one: Rescore = rescore
        correct, size = StreamNorm(one_by_one, most=settings.bank), settings.batch_size
    else:
        latest = slice(max(0, count - settings.bank), count)
        bank = target.bank_scores(seed, settings.bank) if norm.trained else whole.block(latest, columns)
        correct, size = (lambda scores: rescore(scores, bank)), AT_ONCE
    rows = [correct(whole.block(slice(int(one[0]), int(one[-1]) + 1), columns)) for one in stream.batches(size)]
    return Scores(np.concatenate(rows), stream.texts.ids, videos.ids)


# crowded clips and their words, and figure 4: when clips count as crowded ---------------------------------------------

WORDS = 5
"""Over-attended words of a clip that are listed."""


def _hubs(targets: Sequence[Target], settings: AdaptSettings) -> AuditTable:
    """The clips that rank first for most queries, and the words these have in common."""
    how = settings.counterfactuals or CounterfactualSettings()
    rows: list[Cells] = []
    for target in targets:
        firsts, clips, own, words = target.firsts, target.part.videos.ids, np.array(target.own), dict[int, list[str]]()
        full = hub_queries(firsts, len(firsts), how.beta)
        for one in over_attended(target.tagged, firsts, replace(how, beta=0)):
            words.setdefault(one.video, []).append(f"{one.word} ({one.count:,})")
        rows += [
            {
                "model": target.name, "clip": clips[column], "queries": queries,
                "own captions among them": int((own[firsts == column] == clips[column]).sum()),
                "crowded": "yes" if column in full else "no",
                "words, with their queries": ", ".join(words.get(column, [])[:WORDS]) or None,
            }
            for column, queries in balance(firsts, len(clips)).hubs
        ]  # fmt: skip
    title = "The clips that are first for most queries"
    return AuditTable.of(title, rows, paragraph("titan", "Words of crowded clips"))


def _no_crowd(targets: Sequence[Target], settings: AdaptSettings) -> Iterator[str]:
    """A notice for each model for which the settings can make no counterfactual caption."""
    how = settings.counterfactuals
    for target in targets if how is not None else ():
        assert how is not None
        if not counts(target, how)[0]:
            limit = f"{how.beta:g}" if how.beta >= 1 else f"{100 * how.beta:g} % of the"
            yield (
                f"{target.name}: no clip is first for more than {limit} queries, so few or no counterfactual captions "
                "are made; --set counterfactuals.beta=0.01 asks for 1 % of the queries."
            )


def counts(target: Target, how: CounterfactualSettings) -> tuple[int, int]:
    """Count the clips that the source model crowds with queries, and the counterfactual captions made of these."""
    made = counterfactuals(target.sentences, target.tagged, target.firsts, how)
    return len(hub_queries(target.firsts, len(target.sentences), how.beta)), len(made)


def _let_through(targets: Sequence[Target], own: CounterfactualSettings) -> AuditTable:
    """How many clips are crowded and how many captions lose a word, over both thresholds."""
    rows: list[Cells] = []
    for target in targets:
        for point in (point for points in swept(own).values() for point in points.values()):
            crowded, made = counts(target, point.how)
            through: Cells = {"crowded clips": crowded, "counterfactual captions": made}
            rows.append({"model": target.name, "row": point.row, **through})
    note = "By the first clips of the source model; a model that learns meanwhile makes others from batch to batch."
    return AuditTable.of("What the thresholds let through", rows, note)


def _sweep(target: Target, runs: SeededRuns[str, str], name: str, points: Mapping[float, Swept]) -> go.Figure:
    """Recall over a threshold of figure 4, beside the crowded clips and counterfactual captions it gives."""
    recalls = {
        metric: [(float(value), runs.mean(point.row, metric)) for value, point in points.items()] for metric in RECALLS
    }
    through = {value: counts(target, point.how) for value, point in points.items()}
    numbers = {
        what: [(float(value), Interval(float(pair[place]))) for value, pair in through.items()]
        for place, what in enumerate(("crowded clips", "counterfactual captions"))
    }
    return sweep([Panel("Recall", "%", recalls), Panel("What is let through", "number", numbers)], name, columns=2)


# tables 1 to 3 and figure 4: a stream answered in several ways --------------------------------------------------------

FEW_ROWS = 3
"""Rows that all have a sentence; of more, those have one that differ for sure."""
Changes = Mapping[str, Mapping[str, Interval]]
"""Figures by row and metric."""


class StreamComparison(NamedTuple):
    """A table that compares ways to answer a stream of queries."""

    rows: RowsOf
    against: str  # the row that the others are compared with
    lead: str = ""  # the row whose change is the effect; empty for that of the settings as they are
    notes: tuple[str, ...] = ()  # headings of paragraphs that readers have to know
    sweeps: bool = False  # whether rows are points of the sweeps of figure 4


@dataclass(frozen=True, eq=False)
class ComparedStreams:
    """One model's rows of a table of streams, measured with each seed."""

    target: Target
    against: str  # the row that the others are compared with
    outcomes: Mapping[str, Sequence[StreamOutcome]]  # of each row by its name, one a seed
    runs: SeededRuns[str, str]  # metrics of the rows over all captions
    left_out: Mapping[str, Sequence[str]]  # rows that are missing, by the reason

    def mean(self, row: str, metric: str) -> float:
        return self.runs.mean(row, metric).value

    def changes(self, settings: AuditSettings) -> dict[str, dict[str, Interval]]:
        """Return how the recalls of each row differ from those of `against`, with intervals over captions."""
        before = self._hits(self.against)
        return {
            row: {
                metric: hits_interval(column, self.target.groups, settings)
                for metric, column in zip(RECALLS, self._hits(row) - before, strict=True)
            }
            for row in self.outcomes
            if row != self.against
        }

    def _hits(self, row: str) -> NDArray[np.float64]:
        """(3, Q) hits of each caption at each depth, in percent, their mean over seeds."""
        found: NDArray[np.float64] = np.mean(
            [[one.per_query[metric] for metric in RECALLS] for one in self.outcomes[row]], axis=0
        )
        return found


def compared_streams(
    comparison: StreamComparison, material: Workspace, settings: StudySettings, progress: Progress
) -> AuditResult:
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
    means: list[Cells] = [
        {"model": one.target.name, "row": row, **{metric: one.mean(row, metric) for metric in METRICS}}
        for one in found
        for row in one.outcomes
    ]
    own, figures = settings.adapt.counterfactuals, list[AuditFigure]()
    for one in found:
        for name, points in swept(own).items() if comparison.sweeps and own is not None else ():
            there = {value: point for value, point in points.items() if point.row in one.runs.rows}
            draw = partial(_sweep, one.target, one.runs, name, there)
            note = "Bands are of the seeds, where there are some."
            figures.append(AuditFigure(f"{one.target.name}: {name}", draw, note))
        bars = partial(change_bars, changes[one.target.name], MAIN)
        figures.append(AuditFigure(f"{one.target.name}: change of {MAIN}", bars))
    seed_by_seed = figure_table(
        "What each changes, seed by seed",
        _change_rows(found, [one.runs.changes_beside(one.against) for one in found]),
        "change",
        f"Student's t over {settings.seeds} seeds, so of the order of the queries and not of which they are.",
    )
    result = finding(
        " ".join(_told(found, changes)),
        effect_of(first[lead][MAIN], f"Change of {MAIN}: {lead} less {found[0].against}"),
        (
            AuditTable.of("What each finds", means, "Recall in percent; means over seeds."),
            figure_table(
                "What each changes", _change_rows(found, list(changes.values())), "change", "Intervals over captions."
            ),
            *([seed_by_seed] if settings.seeds > 1 else ()),
            AuditTable.of("How good the pseudo-labels were", _labels(found), "Means over seeds; the end of the first."),
            *([_let_through(targets, own)] if comparison.sweeps and own is not None else ()),
            _hubs(targets, settings.adapt),
        ),
        figures,
        (
            *(
                f"{one.target.name}, left out: {', '.join(names)}. {reason}"
                for one in found
                for reason, names in one.left_out.items()
            ),
            *_no_crowd(targets, settings.adapt),
            *(
                ["One seed: intervals do not count the order of the queries; give --seeds 3 or more."]
                if settings.seeds == 1
                else ()
            ),
        ),
        (
            *paragraphs("titan", "Measures", "Pseudo-labels"),
            settings_told(settings),
            paragraph("titan", "Seeds"),
            *paragraphs("titan", *comparison.notes),
        ),
    )
    return but_few(few_clips(len(set(found[0].target.own))), result)


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
        if reason := target.lacks(row):
            reasons.setdefault(reason, []).append(name)
        else:
            able[name] = row
    if not any(row.settings is not None for row in able.values()):
        raise UsageError(f"{target.name} cannot learn at test time: {next(iter(reasons))}")
    seeds = range(settings.adapt.seed, settings.adapt.seed + settings.seeds)
    outcomes = by_row(
        (name, answered(target, able[name], seed, share, settings=settings.adapt))
        for name, seed, share in each_seed(able, seeds, progress)
    )
    figures = {
        name: [{metric: one.figure(metric) for metric in METRICS} for one in own] for name, own in outcomes.items()
    }
    runs = SeededRuns(figures, settings.audit.confidence)
    return ComparedStreams(target, against if against in able else SOURCE, outcomes, runs, reasons)


def _told(found: Sequence[ComparedStreams], changes: Mapping[str, Changes]) -> Iterator[str]:
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


def _change_rows(found: Sequence[ComparedStreams], changes: Sequence[Changes]) -> FigureRows:
    """Changes of each row, model by model."""
    return (
        ({"model": one.target.name, "row": row, "less": one.against}, figures)
        for one, own in zip(found, changes, strict=True)
        for row, figures in own.items()
    )


def _labels(found: Sequence[ComparedStreams]) -> Iterator[Cells]:
    """How right and how even the labels were, and how far the weights went: means over the seeds that know them."""
    for one in found:
        for row, outcomes in one.outcomes.items():
            own = [outcome.labels for outcome in outcomes if outcome.labels is not None]
            known = {head: [seed[head] for seed in own if seed[head] is not None] for head in (own[0] if own else ())}
            means = {head: float(np.mean(values)) if values else None for head, values in known.items()}  # type: ignore[arg-type]
            if own:
                yield {"model": one.target.name, "row": row, **means, "in the end": outcomes[0].ended}


# figure 5 (section 4.5): phrases of a caption with a clip, before and after the correction of bias --------------------
#
# The paper shows two examples by hand; here the phrases are found by a tagger, and the captions are those whose clip
# the correction changed, or those that the user names.

WHOLE = "the whole caption"
JUDGES = ("source model", "correction, from the source", "correction, on the target")


@dataclass(frozen=True, eq=False)
class Labelled:
    """Pseudo-labels of the captions of a test split, without the correction of bias and with it."""

    target: Target
    model: TestTimeMatcher  # around the source, with the encoded clips
    rows: NDArray[np.int64]  # (Q,) captions that have a label
    before: NDArray[np.int64]  # (Q,) columns of their clips without the correction
    after: NDArray[np.int64]  # (Q,) columns of their clips with the correction
    corrections: tuple[CausalCorrection, CausalCorrection]  # as the source left it, and after the target
    rank: LabelRank  # ranks of the labels before and after the target stage

    def right(self, columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether clips are those that the captions describe, (Q,)."""
        clips, own = np.array(self.target.part.videos.ids), np.array(self.target.own)
        found: NDArray[np.bool_] = clips[columns] == own[self.rows]
        return found

    def gain(self, audit: AuditSettings) -> Interval:
        """Return by how many percent of the captions more labels are right with the correction."""
        gained = 100.0 * (self.right(self.after) * 1.0 - self.right(self.before))
        return mean_interval(gained.astype(np.float64), self.target.groups[self.rows], audit)


def corrected_phrases(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 5 of TITAN: phrases of captions with the clips of their labels, before and after the correction."""
    found: list[Labelled] = []
    rows: list[Cells] = []
    figures: list[AuditFigure] = []
    for model, _ in each_part(material.encoders(), progress):
        found.append(_labelled(Target(model), settings.adapt))
        for row, column, role in _chosen(found[-1], settings.queries):
            target = found[-1].target
            clip, caption = target.part.videos.ids[column], target.sentences[row]
            said = _judged(found[-1], row, column)
            head: Cells = {
                "model": target.name, "caption": caption, "clip": clip, "it is the label": role,
                "it is": "right" if target.own[row] == clip else "wrong",
            }  # fmt: skip
            rows += [{**head, "phrase": phrase, **own} for phrase, own in said.items()]
            figures.append(AuditFigure(f"{target.name}: {caption!r} with {clip} ({role})", partial(_bars, said)))
    first = found[0]
    result = finding(
        " ".join(_phrases_told(one, one.gain(settings.audit)) for one in found),
        effect_of(first.gain(settings.audit), "Right labels, %: with the correction less without"),
        (AuditTable.of("Phrases with clips", rows, digits=3),),
        figures,
        (
            *paragraphs("shared", "A few captions"),
            *(() if settings.queries else paragraphs("titan", "Captions that are shown")),
        ),
        paragraphs("titan", "Phrases"),
    )
    return but_few(few_clips(len(set(first.target.own))), result)


def _labelled(target: Target, settings: AdaptSettings) -> Labelled:
    """The labels of the first queries that fit into the bank, ranked among each other."""
    if target.read is None:
        raise UsageError(
            "This study reads phrases with the text tower of the features, and these were computed elsewhere; give it "
            "features that `evenreel features` computed."
        )
    if not by_labels(settings).causal:
        raise UsageError("This study is about the correction of bias, and causal is false; leave that out.")
    model, resources = target.model(Row(settings)), target.resources(Row(settings))
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
    before, after = (pairs.columns[: pairs.queries] for pairs in (plain, corrected))
    return Labelled(target, model, rows, before, after, (resources.correction, here.target.correction), corrected.rank)


def _chosen(found: Labelled, queries: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Captions that are shown with each clip they are labelled with, and whether it is the label without or with."""
    ids = found.target.part.corpus.captions["caption_id"].to_list()
    place = {ids[row]: at for at, row in enumerate(found.rows)}
    if strange := [one for one in queries if one not in place]:
        raise UsageError(
            f"The split has no caption {strange[0]!r} with a label; --query takes ids of captions, and labels are "
            f"given to the first {len(found.rows):,}."
        )
    changed = np.flatnonzero(found.before != found.after).tolist()
    usual = list(islice(changed, CAPTIONS)) or list(range(min(CAPTIONS, len(found.rows))))
    for at in [place[one] for one in queries] or usual:
        row, before, after = (int(own[at]) for own in (found.rows, found.before, found.after))
        if before == after:
            yield row, before, "with and without correction"
        else:
            yield row, before, "without correction"
            yield row, after, "with correction"


def _judged(found: Labelled, row: int, column: int) -> dict[str, dict[str, float]]:
    """Score a caption and each of its phrases with a clip: by the source model, and as probabilities of both judges."""
    from scipy.special import expit

    target, source, gallery = found.target, found.model.source, found.model.gallery
    phrases = list(dict.fromkeys(one.text for one in content_phrases(target.tagged[row])))
    assert target.read is not None and gallery.vectors is not None  # the study asks for both
    texts = target.read([target.sentences[row], *phrases])
    scores = scored(source, texts, gallery.encoded)[:, column]
    vectors, asked = vectors_of(source, texts), np.full((len(texts.ids), 1), column)
    sides = [expit(judged(one, vectors, gallery.vectors, asked))[:, 0] for one in found.corrections]
    return {
        phrase: dict(zip(JUDGES, map(float, own), strict=True))
        for phrase, *own in zip((WHOLE, *phrases), scores, *sides, strict=True)
    }


def _phrases_told(found: Labelled, gain: Interval) -> str:
    changed = int((found.before != found.after).sum())
    before, after = (100 * float(found.right(columns).mean()) for columns in (found.before, found.after))
    return (
        f"{found.target.name}: the correction gives {changed:,} of {len(found.rows):,} captions another clip; "
        f"{after:.1f} % of the labels are right, {beside(gain, f'{before:.1f} % without it')}. Its target stage: "
        f"{found.rank.sentence}."
    )


def _bars(judged: Mapping[str, Mapping[str, float]]) -> go.Figure:
    values = {judge: {phrase: Interval(own[judge]) for phrase, own in judged.items()} for judge in JUDGES}
    return deltas_by_group(values, "score of the model; probability by the correction")


_ROWS_1 = "Rows of tables 1 and 3"
T1 = partial(compared_streams, StreamComparison(online, SOURCE, notes=(_ROWS_1, "Table 1 in the paper")))
T2 = partial(compared_streams, StreamComparison(parts, NEITHER, BOTH, ("Rows of table 2", "Table 2 in the paper")))
T3 = partial(compared_streams, StreamComparison(offline, SOURCE, notes=(_ROWS_1, "Table 3 in the paper")))
F4 = partial(compared_streams, StreamComparison(thresholds, NO_WORDS, "beta 30", ("Rows of figure 4",), sweeps=True))
