"""Table 5 and Figure 4 of BiMa (arXiv 2506.03589): what is found by content, by bias, and by content with some bias."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from evenreel.checkpoint.architecture import module
from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import over_seeds
from evenreel.matchers.bima import Reading, captions_read
from evenreel.papers.bima.measures import ENDS, MAIN, RECALLS, T2V
from evenreel.papers.bima.variants import ALPHAS, only_bima
from evenreel.papers.engine.findings import Findings, effect_of, figure_table, shown
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart
from evenreel.papers.engine.recalls import recall_figures
from evenreel.papers.engine.seeds import SeededRuns
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.training_tables import measured_trainings
from evenreel.papers.engine.trainings import TrainingOutcome, few_seeds, training_told
from evenreel.papers.engine.words import paragraphs
from evenreel.progress import Progress
from evenreel.report.figures import Panel, share_sweep
from evenreel.report.result import AuditFigure, AuditTable

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


def by_parts(material: LearningInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Make table 5 of BiMa: recall by the content and by the bias of captions, of the same training."""
    _, test = material.learning()
    runs = _read(TABLE_5, material, settings, progress)
    chance = dict(zip(T2V, _chance(test), strict=True))
    found = {name: runs.mean(name, MAIN).value for name in (CONTENT, MEAN)}
    above = over_seeds([run[MAIN] - chance[MAIN] for run in runs.rows[MEAN]], settings.audit.confidence)
    return Findings(
        f"By content the caption's clip comes first for {found[CONTENT]:.1f} % of the captions, by bias for "
        f"{found[MEAN]:.1f} %, by chance for {chance[MAIN]:.1f} %; bias is {shown(above)} points above chance.",
        effect_of(above, f"{MAIN} by the mean of the bias, less chance, points"),
        (_table(runs, chance, settings),),
        (),
        (*few_seeds(settings), *runs.notices),
        (
            *paragraphs("bima", "Measures", "The bias of a caption", "Table 5 in the paper"),
            training_told(settings.recipe, material),
        ),
    )


def with_bias(material: LearningInputs, settings: TrainingSettings, progress: Progress) -> Findings:
    """Make figure 4 of BiMa: recall by the content of captions with a growing share of their bias."""
    material.learning()  # refuses what lacks a split, before the recipe is looked at
    readings = {
        _named(alpha, what): Reading(alpha=alpha, draws=draws) for what, draws in FIGURE_4.items() for alpha in ALPHAS
    }
    runs = _read(readings, material, settings, progress)
    first, last = _named(1.0, next(iter(FIGURE_4))), _named(0.0, next(iter(FIGURE_4)))
    change = runs.changes(last, first)[MAIN]
    return Findings(
        f"With all of the bias added, {MAIN} changes by {shown(change)} points.",
        effect_of(change, f"Change of {MAIN} with the mean of the bias added (alpha 1), points"),
        (_table(runs, {}, settings),),
        (AuditFigure("Recall over the share of bias that is added", partial(_sweep, runs)),),
        (*few_seeds(settings), *runs.notices),
        (
            *paragraphs("bima", "Measures", "The bias of a caption"),
            training_told(settings.recipe, material),
        ),
    )


def _read(
    readings: Mapping[str, Reading], material: LearningInputs, settings: TrainingSettings, progress: Progress
) -> SeededRuns[str, str]:
    """Recall of one training by each reading of its captions."""

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        found = {}
        for name, reading in readings.items():
            with captions_read(module(one.matcher), reading):
                found[name] = recall_figures(one.scores(), one.test.corpus, T2V)
        return found

    return measured_trainings(only_bima(material, settings), material, settings, progress, measure, ENDS)


def _chance(test: CorpusPart) -> list[float]:
    """Recall of a ranking without any knowledge, as `RECALLS` has it."""
    clips = len(test.videos.ids)
    ranks = [100 * min(1.0, k / clips) for k in (1, 5, 10)]
    return [*ranks, sum(ranks)]


def _named(alpha: float, what: str) -> str:
    return f"content + {alpha:g} x {what}"


def _table(runs: SeededRuns[str, str], chance: Mapping[str, float], settings: TrainingSettings) -> AuditTable:
    rows = [((name,), runs.means(name)) for name in runs.rows]
    rows.append((("chance",), {metric: Interval(value) for metric, value in chance.items()}))
    note = f"Intervals by Student's t over {settings.seeds} seeds, so of what training leaves to chance."
    return figure_table("What is found by what", ["captions are"], rows, "mean", note)


def _sweep(runs: SeededRuns[str, str]) -> go.Figure:
    parts = [
        Panel(
            name,
            "%",
            {what: [(100 * alpha, runs.mean(_named(alpha, what), metric)) for alpha in ALPHAS] for what in FIGURE_4},
        )
        for name, metric in zip(RECALLS[:3], T2V[:3], strict=True)
    ]
    return share_sweep(parts, "share of the bias that is added")
