"""Which clips are crowded and by which words, and Figure 4 of TITAN (MM 2023): when they count as crowded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from evenreel.adaptation.titan import AdaptSettings, CounterfactualSettings, counterfactuals, hub_queries, over_attended
from evenreel.evaluation import Interval
from evenreel.evaluation.concentration import balance
from evenreel.papers.engine.seeds import SeededRuns
from evenreel.papers.engine.words import paragraph
from evenreel.papers.titan.rows import Swept, swept
from evenreel.papers.titan.streams import METRICS, Target
from evenreel.report.figures import Panel, sweep
from evenreel.report.result import AuditFigure, AuditTable, Cell

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
