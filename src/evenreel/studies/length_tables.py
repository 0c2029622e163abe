"""Tables 1 to 4, 6, 7, 9 and 10 of the paper on frame-length bias, and its failure method (arXiv 2309.09311).

Each trains the rows of its table with the same seeds, measures them on the test split, and says what each changes seed
by seed, beside what it costs to search with: a matcher of M members encodes every clip M times and keeps M galleries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from evenreel.audits.result import AuditFigure, AuditTable, Cell
from evenreel.checkpoint.architecture import Encodings
from evenreel.corpus.relevance import class_relevance
from evenreel.evaluation import Interval
from evenreel.studies.findings import Findings, effect_of, interval_cells, shown
from evenreel.studies.length_kinds import (
    BACKDOOR,
    Kinds,
    against_mining,
    against_trimming,
    divisions,
    fine_tuned_strata,
    other_matchers,
    shared_encoder,
    with_ensemble,
    with_mining,
    without_streams,
)
from evenreel.studies.length_measures import ENDS, MAP, MEASURES, NDCG, RANKS, length_figures
from evenreel.studies.length_training import Outcome, each_outcome, few_seeds, training_told
from evenreel.studies.material import Progress, StudyMaterial, StudySettings
from evenreel.studies.seeds import PERCENT, over_seeds
from evenreel.types import Corpus

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Comparison:
    """A table of trainings.

    Attributes:
        kinds: its rows.
        metrics: its columns, of `NDCG`, `MAP` and `RANKS`.
        lead: the row whose change is the effect of the study; empty for the row with the largest change.
    """

    kinds: Callable[[StudyMaterial, StudySettings], Kinds]
    metrics: tuple[str, ...]
    lead: str = BACKDOOR


MAIN = NDCG[-1]
"""The metric that the effect of a study is about: the paper calls it the one that shows the bias."""

TABLE_1 = Comparison(against_trimming, (*NDCG, *MAP))
TABLE_2 = Comparison(against_mining, (*NDCG, *MAP), f"RANP + {BACKDOOR}")
TABLE_3 = Comparison(with_mining, (*RANKS, *NDCG), f"baseline + {BACKDOOR}")
TABLE_4 = Comparison(divisions, (NDCG[-1], MAP[-1], "R@10", "MeanR"), "adjusted 2")
TABLE_6 = Comparison(without_streams, (NDCG[-1], MAP[-1]), "")
TABLE_7 = Comparison(other_matchers, (*NDCG, *MAP), "")
TABLE_10 = Comparison(with_ensemble, (*NDCG, *MAP))
FAILURE = Comparison(fine_tuned_strata, (*NDCG, *MAP, "R@1", "R@10"), "fine-tuned strata")
SHARED = Comparison(shared_encoder, (*NDCG, *MAP), "shared encoder")

COST = (
    "What a gain costs: a matcher of M members encodes each clip M times and keeps M galleries. Where a recipe counts "
    "epochs, members of strata see the training clips as often as one training does all together; those of an ensemble "
    "see all of them each."
)
_PICKED = (
    "The figure at the top is the largest of the changes, picked after all were seen, which its interval does not "
    "count: look at the table of all of them."
)
_OVER_SEEDS = "Student's t over {seeds} seeds, so of what training leaves to chance and not of the captions."


@dataclass(frozen=True)
class Run:
    """What is kept of a training.

    Attributes:
        figures: by metric.
        clips: that were learned from.
        cost: how often a caption and a clip are encoded.
    """

    figures: Mapping[str, float]
    clips: int
    cost: Encodings


@dataclass(frozen=True)
class Compared:
    """Rows of a table, trained and measured.

    Attributes:
        kinds: the rows.
        runs: of each row, one a seed.
        notices: what has to be said of them.
    """

    kinds: Kinds
    runs: Mapping[str, Sequence[Run]]
    notices: tuple[str, ...]

    def mean(self, name: str, metric: str) -> float:
        """A figure of a row, over seeds."""
        return float(np.mean([run.figures[metric] for run in self.runs[name]]))

    def cost(self, name: str) -> Encodings:
        """Of a row; it is the same for all seeds."""
        return self.runs[name][0].cost

    def changes(self, confidence: float) -> dict[str, dict[str, Interval]]:
        """How each figure of a row differs from that of the row it is compared with, seed by seed."""
        found = {}
        for name, kind in self.kinds.items():
            if kind.against is not None:
                pairs = [
                    (before.figures, after.figures)
                    for before, after in zip(self.runs[kind.against], self.runs[name], strict=True)
                ]
                found[name] = {
                    metric: over_seeds([after[metric] - before[metric] for before, after in pairs], confidence)
                    for metric in pairs[0][1]
                }
        return found


def compared_trainings(
    comparison: Comparison, material: StudyMaterial, settings: StudySettings, progress: Progress
) -> Findings:
    """Train the rows of a table and measure each.

    Raises:
        CorpusError: the test split has no classes to grade by.
        UsageError: the recipe cannot make one of the rows.
    """
    _, test = material.learning()
    kinds = comparison.kinds(material, settings)
    _check_classes(test.corpus)
    found = _compared(kinds, comparison.metrics, each_outcome(kinds, material, settings, progress))
    changes = found.changes(settings.audit.confidence)
    lead = comparison.lead or max(changes, key=lambda name: abs(changes[name][MAIN].value))
    return Findings(
        " ".join(_told(found, name, change[MAIN]) for name, change in changes.items()),
        effect_of(changes[lead][MAIN], f"Change of {MAIN}: {lead} less {kinds[lead].against}"),
        (_means(found, comparison.metrics), _changes(found, changes, settings), _intervals(found, settings)),
        (AuditFigure(f"Change of {MAIN}", partial(_bars, changes)),),
        (*few_seeds(settings), *found.notices),
        (MEASURES, training_told(settings.recipe, material), COST, *(() if comparison.lead else (_PICKED,))),
    )


def _check_classes(corpus: Corpus) -> None:
    """Refuse a corpus without classes before anything is trained."""
    class_relevance(corpus, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())


def _compared(kinds: Kinds, metrics: tuple[str, ...], outcomes: Iterable[Outcome]) -> Compared:
    runs: dict[str, list[Run]] = {name: [] for name in kinds}
    notices: dict[str, None] = {}
    for one in outcomes:
        figures = length_figures(one.scores(), one.test.corpus, metrics)
        runs[one.kind].append(Run(figures, one.clips, one.cost))
        notices |= dict.fromkeys(one.notices)
    return Compared(kinds, runs, tuple(notices))


def _means(found: Compared, metrics: tuple[str, ...]) -> AuditTable:
    """The paper's form: a row for each training, its figures, what it learned from, and what it costs to search."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            name,
            found.cost(name).videos,
            found.cost(name).captions,
            round(float(np.mean([run.clips for run in runs]))),
            *(found.mean(name, metric) for metric in metrics),
        )
        for name, runs in found.runs.items()
    )
    columns = ("training", "clip encodings", "of captions", "training clips", *metrics)
    note = "Means over seeds. As many galleries are kept as a clip is encoded times."
    return AuditTable("What each training gives", columns, rows, note)


def _changes(found: Compared, changes: Mapping[str, Mapping[str, Interval]], settings: StudySettings) -> AuditTable:
    """A row for each figure that changes."""
    rows = tuple(
        (name, found.kinds[name].against, found.cost(name).videos, metric, *interval_cells(change))
        for name, figures in changes.items()
        for metric, change in figures.items()
    )
    columns = ("training", "less", "clip encodings", "figure", "change", "low", "high")
    return AuditTable("What each changes, seed by seed", columns, rows, _OVER_SEEDS.format(seeds=settings.seeds))


def _intervals(found: Compared, settings: StudySettings) -> AuditTable:
    """Every figure with its interval."""
    rows = tuple(
        (name, metric, *interval_cells(_interval([run.figures[metric] for run in runs], metric, settings)))
        for name, runs in found.runs.items()
        for metric in runs[0].figures
    )
    columns = ("training", "figure", "mean", "low", "high")
    return AuditTable("Every figure with its interval", columns, rows, _OVER_SEEDS.format(seeds=settings.seeds))


def _interval(values: Sequence[float], metric: str, settings: StudySettings) -> Interval:
    return over_seeds(values, settings.audit.confidence, ENDS.get(metric, PERCENT))


def _told(found: Compared, name: str, change: Interval) -> str:
    """A sentence for a row of the table: its change, whether it can be told, and its cost."""
    unsure = change.low is not None and change.high is not None and change.low <= 0 <= change.high
    chance = ", which may be chance" if unsure else ""
    times = found.cost(name).videos
    cost = "once" if times == 1 else f"{times} times"
    return (
        f"{name}: {MAIN} {found.mean(name, MAIN):.1f}, {shown(change)} beside {found.kinds[name].against}{chance}; "
        f"each clip is encoded {cost}."
    )


def _bars(changes: Mapping[str, Mapping[str, Interval]]) -> go.Figure:
    from evenreel.audits.figures import deltas_by_group

    return deltas_by_group({MAIN: {name: own[MAIN] for name, own in changes.items()}}, f"change of {MAIN}, points")
