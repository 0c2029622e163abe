"""Table 5 and Figure 4 of BiMa (arXiv 2506.03589): what is found by content, by bias, and by content with some bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from evenreel.checkpoint.architecture import module
from evenreel.evaluation import Interval
from evenreel.matchers.bima.matcher import Reading, captions_read
from evenreel.papers.bima.measures import ENDS, MAIN, RECALLS, T2V
from evenreel.papers.bima.variants import ALPHAS, only_bima
from evenreel.papers.engine.findings import Findings, effect_of, figure_rows, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart
from evenreel.papers.engine.recalls import recall_figures
from evenreel.papers.engine.seeds import PERCENT, changes_over_seeds, means_over_seeds, over_seeds
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.trainings import TrainingOutcome, each_outcome, few_seeds, training_told
from evenreel.papers.engine.words import paragraphs
from evenreel.progress import Progress
from evenreel.report.result.record import AuditFigure, AuditTable

if TYPE_CHECKING:
    import plotly.graph_objects as go

CONTENT, MEAN, DRAWN = "content", "bias, its mean", "bias, one draw"
TABLE_5 = {
    CONTENT: Reading(),
    MEAN: Reading(source="bias"),
    DRAWN: Reading(source="bias", draws=1),
}
FIGURE_4 = {"mean of the bias": 0, "one draw of it": 1}
"""What is added to the content, and the draws that say so."""


Runs = Mapping[str, Sequence[Mapping[str, float]]]
"""Figures of each reading, one a seed."""


def by_parts(material: LearningInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Table 5: recall by content and by bias of the same training.

    Raises:
        UsageError: the recipe trains another matcher.
        EvenreelError: the dictionary cannot be used with these features.
    """
    _, test = material.learning()
    runs, notices = _read(TABLE_5, material, settings, progress)
    confidence = settings.audit.confidence
    chance = dict(zip(T2V, _chance(test), strict=True))
    found = {name: _over(own, MAIN, confidence) for name, own in runs.items()}
    above = over_seeds([run[MAIN] - chance[MAIN] for run in runs[MEAN]], confidence)
    return Findings(
        f"By content the caption's clip comes first for {found[CONTENT].value:.1f} % of the captions, by bias for "
        f"{found[MEAN].value:.1f} %, by chance for {chance[MAIN]:.1f} %; bias is {shown(above)} points above chance.",
        effect_of(above, f"{MAIN} by the mean of the bias, less chance, points"),
        (_table(runs, chance, settings),),
        (),
        (*few_seeds(settings), *notices),
        (
            *paragraphs("bima", "Measures", "The bias of a caption", "Table 5 in the paper"),
            training_told(settings.recipe, material),
        ),
    )


def with_bias(material: LearningInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Figure 4: recall by content with a growing share of the bias.

    Raises:
        UsageError: the recipe trains another matcher.
        EvenreelError: the dictionary cannot be used with these features.
    """
    material.learning()  # refuses what lacks a split, before the recipe is looked at
    readings = {
        _named(alpha, what): Reading(alpha=alpha, draws=draws) for what, draws in FIGURE_4.items() for alpha in ALPHAS
    }
    runs, notices = _read(readings, material, settings, progress)
    confidence = settings.audit.confidence
    first, last = _named(1.0, next(iter(FIGURE_4))), _named(0.0, next(iter(FIGURE_4)))
    change = changes_over_seeds(runs[last], runs[first], confidence)[MAIN]
    return Findings(
        f"With all of the bias added, {MAIN} changes by {shown(change)} points.",
        effect_of(change, f"Change of {MAIN} with the mean of the bias added (alpha 1), points"),
        (_table(runs, {}, settings),),
        (AuditFigure("Recall over the share of bias that is added", partial(_sweep, runs, confidence)),),
        (*few_seeds(settings), *notices),
        (
            *paragraphs("bima", "Measures", "The bias of a caption"),
            training_told(settings.recipe, material),
        ),
    )


def _read(
    readings: Mapping[str, Reading], material: LearningInputs, settings: TrainingSettings, progress: Progress
) -> tuple[dict[str, list[dict[str, float]]], tuple[str, ...]]:
    """Figures of each reading, one a seed, and what has to be said of the trainings."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in readings}
    notices: dict[str, None] = {}
    for outcome in each_outcome(only_bima(material, settings), material, settings, progress):
        for name, reading in readings.items():
            runs[name].append(_figures(outcome, reading))
        notices |= dict.fromkeys(outcome.notices)
    return runs, tuple(notices)


def _figures(outcome: TrainingOutcome, reading: Reading) -> dict[str, float]:
    with captions_read(module(outcome.matcher), reading):
        return recall_figures(outcome.scores(), outcome.test.corpus, T2V)


def _chance(test: CorpusPart) -> list[float]:
    """Recall of a ranking without any knowledge, as `RECALLS` has it."""
    clips = len(test.videos.ids)
    ranks = [100 * min(1.0, k / clips) for k in (1, 5, 10)]
    return [*ranks, sum(ranks)]


def _named(alpha: float, what: str) -> str:
    return f"content + {alpha:g} x {what}"


def _over(runs: Sequence[Mapping[str, float]], name: str, confidence: float) -> Interval:
    return over_seeds([run[name] for run in runs], confidence, ENDS.get(name, PERCENT))


def _table(runs: Runs, chance: Mapping[str, float], settings: TrainingSettings) -> AuditTable:
    confidence = settings.audit.confidence
    cells = figure_rows(((name,), means_over_seeds(own, confidence, ENDS)) for name, own in runs.items())
    cells += tuple(("chance", metric, value, None, None) for metric, value in chance.items())
    note = f"Intervals by Student's t over {settings.seeds} seeds, so of what training leaves to chance."
    return AuditTable("What is found by what", ("captions are", "figure", "mean", "low", "high"), cells, note)


def _sweep(runs: Runs, confidence: float) -> go.Figure:
    from evenreel.report.result.figures import Panel, share_sweep

    parts = [
        Panel(
            name,
            "%",
            {
                what: [(100 * alpha, _over(runs[_named(alpha, what)], metric, confidence)) for alpha in ALPHAS]
                for what in FIGURE_4
            },
        )
        for name, metric in zip(RECALLS[:3], T2V[:3], strict=True)
    ]
    return share_sweep(parts, "share of the bias that is added")
