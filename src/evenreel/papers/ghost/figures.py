"""Tables 1 to 6 and figures 2 and 3 of Generative Ghost (arXiv 2502.07327), and galleries with ever more mirrors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, product
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenreel.audits.exchange import DELTA_METRICS, MIX_R, inverted_interval
from evenreel.audits.inputs import PairedScores, pair_scores
from evenreel.audits.overview import (
    PAPER_RULE,
    Overview,
    overview,
    overview_method,
    overview_sentence,
    overview_tables,
    similarities,
)
from evenreel.audits.settings import AuditSettings
from evenreel.audits.source import SourceMeasures, measure_source
from evenreel.corpus.counterparts import counterparts
from evenreel.debias.source import PRESETS
from evenreel.edits.frame_order import reordered, sees_order, single_frame
from evenreel.edits.settings import FrameOrder, OneFrame
from evenreel.errors import CorpusError, UsageError
from evenreel.evaluation import Interval
from evenreel.evaluation.intervals import over_seeds
from evenreel.evaluation.ranking import hit_chance
from evenreel.features.facts import FACT_COLUMNS, ClipFacts
from evenreel.papers.engine import (
    PERCENT,
    PREFERENCE,
    UNIT,
    Findings,
    FineTuned,
    SeededRuns,
    before_training,
    begins_ready,
    by_row,
    each_trained,
    effect_of,
    few_pairs,
    furthest,
    shown,
    verdict,
)
from evenreel.papers.study import StudySettings, paragraph, paragraphs
from evenreel.papers.workspace import Model, Workspace, groups_in
from evenreel.progress import Progress, each_part
from evenreel.report.figures import Line, Panel, deltas_by_group, share_sweep, similarity_histogram
from evenreel.report.result import AuditFigure, AuditTable, Effect, interval_cells, interval_columns
from evenreel.training.recipe import Recipe
from evenreel.types import Corpus, ScoreBlocks, VideoFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go


# Source measures of Generative Ghost, of one system's scores or over several seeds, and tables of them in its form.

Key = TypeVar("Key", bound=Hashable)

METRICS = tuple(map(str, DELTA_METRICS))
ROWS = {
    "real": "REAL",
    "generated": "AI",
    "mixed real": "mixed-REAL",
    "mixed generated": "mixed-AI",
    "relative": "Relative Δ",
    "location": "Location Δ",
    "normalized": "Normalized Δ",
}
"""Rows of the tables of Generative Ghost by their key, in the paper's words."""

MAIN = ("normalized", MIX_R)
"""The figure that a study's effect is about."""

WIN_RATE = ("win rate", "%")


@dataclass(frozen=True, eq=False)
class Figures:
    """Source measures of one system with one group of generated clips.

    Attributes:
        values: figures with their intervals, by row (a key of `ROWS`, or `WIN_RATE`) and metric.
        notices: sentences on what was left out.
    """

    values: Mapping[tuple[str, str], Interval]
    notices: tuple[str, ...] = ()

    def __getitem__(self, key: tuple[str, str]) -> Interval:
        return self.values[key]

    @property
    def numbers(self) -> dict[tuple[str, str], float]:
        """Return the figures without their intervals, by row of the table and metric."""
        return {key: figure.value for key, figure in self.values.items()}


Rows = Sequence[tuple[tuple[str, ...], Figures]]
"""Words that say whose figures they are, and the figures."""

_FURTHEST = {"relative": 200.0, "location": 200.0, "normalized": 400.0}
"""How far from 0 a Δ can be."""


def measured(scores: ScoreBlocks, corpus: Corpus, group: str, audit: AuditSettings) -> Figures:
    """Measure how one system ranks real clips and the generated clips of one group that mirror them."""
    return figures_of(measure_source(scores, corpus, group, audit))


def figures_of(measures: SourceMeasures) -> Figures:
    """Return the figures of a source audit by row and metric of Generative Ghost's tables, with its win rate."""
    rows = {**measures.figures, **measures.deltas}
    found = {(row, metric): figure for row, metrics in rows.items() for metric, figure in metrics.items()}
    return Figures({**found, WIN_RATE: measures.win_rate}, measures.notices)


@dataclass(frozen=True, eq=False)
class SeededFigures(Generic[Key]):
    """Source measures of the rows of a table, each row measured once with each seed.

    Attributes:
        rows: measures of each row, one a seed.
        confidence: confidence of the intervals over seeds.
    """

    rows: Mapping[Key, Sequence[Figures]]
    confidence: float

    @cached_property
    def runs(self) -> SeededRuns[Key, tuple[str, str]]:
        """Return the figures without the intervals of one ranking, for means and changes over seeds."""
        ends = {key: _ends(*key) for runs in self.rows.values() for key in runs[0].values}
        return SeededRuns({row: [one.numbers for one in own] for row, own in self.rows.items()}, self.confidence, ends)

    @cached_property
    def means(self) -> dict[Key, Figures]:
        """Return the mean of each figure of each row over its seeds, with its interval."""
        return {row: Figures(self.runs.means(row), notices_of(own)) for row, own in self.rows.items()}


def _ends(row: str, metric: str) -> tuple[float, float]:
    """Between which values a figure lies whatever is measured."""
    if row in _FURTHEST:
        return -_FURTHEST[row], _FURTHEST[row]
    return (1.0, np.inf) if metric in ("MedR", "MeanR") else PERCENT


def notices_of(every: Iterable[Figures]) -> tuple[str, ...]:
    """Return the notices of all figures, each sentence once."""
    return tuple(dict.fromkeys(notice for figures in every for notice in figures.notices))


def paper_table(title: str, labels: Sequence[str], rows: Rows) -> AuditTable:
    """Make a table with seven rows for each system, as Generative Ghost prints them."""
    columns = (*METRICS, MIX_R)
    cells = [
        (*label, name, *(_value(figures.values.get((row, metric))) for metric in columns))
        for label, figures in rows
        for row, name in ROWS.items()
    ]
    return AuditTable(title, (*labels, "row", *columns), tuple(cells), paragraph("ghost", "The paper's form"))


def _value(figure: Interval | None) -> float | None:
    return None if figure is None else figure.value


def preference_table(title: str, labels: Sequence[str], rows: Rows, note: str = "") -> AuditTable:
    """Make a table of preferences: Normalized Δ, win rate and recall among real clips alone, with intervals.

    Args:
        title: title of the table.
        labels: heads of the columns that say whose figures they are.
        rows: the cells of these columns, and the figures.
        note: explanation for its readers; empty for that of intervals of one ranking.
    """
    shown = {
        MAIN: PREFERENCE,
        ("normalized", "R@1"): "Normalized Δ R@1",
        WIN_RATE: "real above its mirror, %",
        ("real", "R@1"): "REAL R@1",
    }
    cells = tuple((*label, *interval_cells(*(figures[key] for key in shown))) for label, figures in rows)
    columns = (*labels, *interval_columns(*shown.values()))
    return AuditTable(title, columns, cells, note or paragraph("ghost", "Intervals of one ranking"))


def group_tables(
    label: str, found: Mapping[tuple[str, str], Figures], title: str = "Real clips and {}"
) -> list[AuditTable]:
    """Make a table as Generative Ghost prints it for each group of generated clips."""
    tables: dict[str, list[tuple[tuple[str, ...], Figures]]] = {}
    for (group, name), figures in found.items():
        tables.setdefault(group, []).append(((name,), figures))
    return [paper_table(title.format(group), (label,), rows) for group, rows in tables.items()]


def group_bars(found: Mapping[tuple[str, str], Figures], metric: str = MIX_R) -> go.Figure:
    """Draw the Normalized Δ of one metric, by group of generated clips and a second name, each with bars of its own."""
    bars: dict[str, dict[str, Interval]] = {}
    for (group, name), figures in found.items():
        bars.setdefault(name, {})[group] = figures["normalized", metric]
    return deltas_by_group(bars, UNIT)


# One model's rankings with one thing changed, on the same captions and clips, and how much the preference changes.

AS_IT_IS = "as it is"
"""The variant that others are compared with; it comes first."""

_MOST_CHANGE = 800.0
"""How far a Normalized Δ can change."""

ScoredVariants = Callable[[Model, str, Progress], Iterable[tuple[str, ScoreBlocks]]]
"""From a model and a group of generated clips to the scores of each variant, by its name."""

VariantKey = tuple[str, str, str]
"""Group of generated clips, model and variant."""


@dataclass(frozen=True, eq=False)
class VariantFigures:
    """Source preferences of models with one thing changed, and how much each change does.

    Attributes:
        figures: figures of every variant.
        changes: change of the Normalized Δ MixR from the first variant of its model, of the others.
    """

    figures: dict[VariantKey, Figures]
    changes: dict[VariantKey, Interval]


def compare_variants(
    variants: ScoredVariants, material: Workspace, settings: StudySettings, progress: Progress
) -> VariantFigures:
    """Measure every variant of every model with every group of generated clips.

    Args:
        variants: makes the scores; all are of the same captions and clips, and the first is what the others change.
        material: models, and the clips that they rank.
        settings: samples and confidence of the intervals.
        progress: called with the share that is done.
    """
    found = VariantFigures({}, {})
    pairs = list(product(material.encoders(), groups_in(material.test)))
    for (model, group), share in each_part(pairs, progress):
        first = None
        for name, scores in variants(model, group, share):
            measures = measure_source(scores, material.test, group, settings.audit)
            found.figures[group, model.name, name] = figures_of(measures)
            if first is None:
                first = measures.swapped
            else:
                change = inverted_interval(measures.swapped - first, settings.audit, ends=(-_MOST_CHANGE, _MOST_CHANGE))
                found.changes[group, model.name, name] = change
    return found


def changes_table(found: VariantFigures, what: str) -> AuditTable:
    """Make a table with a row for each variant: its preference, and how that changes, with intervals."""
    rows = [
        (*key, *interval_cells(figures[MAIN], found.changes.get(key, Interval(0.0))))
        for key, figures in found.figures.items()
    ]
    columns = ("generated clips", "model", what, *interval_columns(PREFERENCE, "change"))
    return AuditTable("The preference and how it changes", columns, tuple(rows))


def variant_tables(found: VariantFigures, what: str) -> list[AuditTable]:
    """Make a table in the form of Generative Ghost's table 2 for each model and group of generated clips."""
    named = {(f"{model}: real clips and {group}", name): one for (group, model, name), one in found.figures.items()}
    return group_tables(what, named, "{}")


def variant_bars(found: VariantFigures) -> go.Figure:
    """Draw the Normalized Δ MixR of each variant as a bar, by model and group of generated clips."""
    return group_bars({(f"{model}, {group}", name): one for (group, model, name), one in found.figures.items()})


# Table 1 and Figure 2: what the benchmark is made of, and how near mirrors are to real clips (section 2.3).

_UNKNOWN = ClipFacts(pl.DataFrame(schema={"clip_id": pl.String(), **FACT_COLUMNS}))
"""Of files that nobody looked at."""


def benchmark(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 1 of Generative Ghost: clips by group and split, their files and their similarity to real ones."""
    found = _overview(material, settings)
    figures = _figures(found) if found.pairs["similarity"].is_not_nan().any() else ()
    return _findings(found, material, figures)


def similarity(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figure 2 of Generative Ghost: how the similarities of pairs are spread."""
    found = _overview(material, settings)
    if not found.pairs["similarity"].is_not_nan().any():
        raise UsageError(
            "This study compares frames of real clips and their mirrors; give it features, best by "
            f"`evenreel features CORPUS --rule '{PAPER_RULE}'`."
        )
    return _findings(found, material, _figures(found))


def _findings(found: Overview, material: Workspace, figures: tuple[AuditFigure, ...]) -> Findings:
    nearest = max(found.similarity, key=lambda group: found.similarity[group].value, default=None)
    effect = Effect("Mean similarity", np.nan)
    if nearest is not None:
        effect = effect_of(found.similarity[nearest], f"Mean similarity of {nearest}")
    return Findings(
        overview_sentence(found),
        effect,
        overview_tables(found),
        figures,
        found.notices,
        overview_method(),
        few=few_pairs(material.test, groups_in(material.test)),
    )


def _overview(material: Workspace, settings: StudySettings) -> Overview:
    rule = material.rule
    other = f"Similarity is of frames by '{rule}'; the paper's is of '{PAPER_RULE}'."
    notices = (other,) if rule not in ("", PAPER_RULE) else ()
    return overview(material.whole, material.facts or _UNKNOWN, _cosines(material), settings.audit, notices)


def _cosines(material: Workspace) -> NDArray[np.float64]:
    """Return the similarity of each pair of the corpus; NaN for a pair without features."""
    pairs = counterparts(material.whole)
    found = np.full(pairs.height, np.nan)
    for part in (material.features, material.train):
        if part is not None:
            found = np.fmax(found, similarities(part.videos, pairs))
    return found


def _figures(found: Overview) -> tuple[AuditFigure, ...]:
    return (AuditFigure("Similarity of the two clips of a pair", partial(_drawn, found)),)


def _drawn(found: Overview) -> go.Figure:
    measured = found.pairs.filter(found.pairs["similarity"].is_not_nan())
    return similarity_histogram(
        {
            f"{group}, {split}": part["similarity"].to_numpy()
            for (group, split), part in measured.group_by("group", "split", maintain_order=True)
        }
    )


# Tables 2 and 3: how systems rank real clips and their mirrors, by what the generator was given (section 3.2).

SEEING = ("image", "video")
"""Settings in which the generator saw something of the real clip."""

Measured = Mapping[tuple[str, str], Figures]
"""Figures by group and system."""


def from_text(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 2 of Generative Ghost: rankings of clips generated from a caption alone, or from what nobody noted."""
    groups = [group for group, given in groups_in(material.test).items() if given not in SEEING]
    if not groups:
        raise CorpusError(
            "All generated clips of the test split were made from an image or a video, which is the study ghost/t3."
        )
    return _by_setting(groups, material, settings, progress)


def from_pictures(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 3 of Generative Ghost: rankings of clips whose generator saw a picture or a part of the real clip."""
    there = groups_in(material.test)
    groups = [group for group, given in there.items() if given in SEEING]
    if not groups:
        raise CorpusError(
            "No generated clip of the test split was made from an image or a video (the column 'setting' of the clips "
            f"would say so); there are: {', '.join(there)}."
        )
    return _by_setting(groups, material, settings, progress)


def _by_setting(groups: Sequence[str], material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    systems = material.systems()
    found = {
        (group, system): measured(systems[system], material.test, group, settings.audit)
        for (group, system), _ in each_part(list(product(groups, systems)), progress)
    }
    lead = furthest({key: figures[MAIN] for key, figures in found.items()})
    return Findings(
        _sentence(found, lead),
        effect_of(found[lead][MAIN], f"{PREFERENCE} of {lead[1]} on {lead[0]}"),
        (
            preference_table("The preference of each system", ("generated clips", "system"), list(found.items())),
            *group_tables("system", found),
        ),
        tuple(
            AuditFigure(f"Preference by setting: {metric}", partial(group_bars, found, metric))
            for metric in (MIX_R, "R@1")
        ),
        notices_of(found.values()),
        paragraphs("ghost", "Measures"),
        few=few_pairs(material.test, groups),
    )


def _sentence(found: Measured, lead: tuple[str, str]) -> str:
    """How many favour what, and which the most."""
    told = [effect_of(figures[MAIN]) for figures in found.values()]
    sides = [one.value > 0 for one in told if one.is_significant]
    group, system = lead
    counted = (
        f"Of {len(found)} rankings, a system with a group of generated clips each, {len(sides) - sum(sides)} favour "
        f"generated clips, {sum(sides)} real ones, and of {len(found) - len(sides)} it cannot be told. "
        if len(found) > 1
        else ""
    )
    figure = found[lead][MAIN]
    return f"{counted}{system} {verdict(figure)} on {group}: {PREFERENCE} {shown(figure)}."


# Tables 4 and 5: what is left of a preference in another order of frames, and with one frame (section 4).

SEEN_ROWS = 8
"""Captions by whose scores it is found out whether a model sees the order of frames."""

View = Callable[[VideoFeatures, Collection[str]], VideoFeatures]
"""Videos and the ids of the generated ones -> videos as they are shown to a model."""


def frame_order(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 4 of Generative Ghost: frames in random and reverse order, of all clips or of generated ones alone."""
    views = {AS_IT_IS: _ordered("original", settings)}
    for order in ("random", "reversed"):
        views[f"{order}, both"] = _ordered(order, settings)
        views[f"{order}, generated alone"] = _ordered(order, settings, generated_alone=True)
    found = _probed(views, material, settings, progress)
    notices = [
        f"{model.name} does not see the order of frames, so what moving them changes is not about motion."
        for model in material.models
        if not _sees_order(model)
    ]
    return _probes_findings(found, "another order of frames", material, notices)


def one_frame(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 5 of Generative Ghost: one frame of each clip, so that nothing but how clips look is left."""
    views: dict[str, View] = {AS_IT_IS: lambda videos, generated: videos}
    views |= {f"{which} frame": partial(_one, which, settings.audit.seed) for which in ("middle", "first", "random")}
    return _probes_findings(_probed(views, material, settings, progress), "a single frame", material, ())


def _sees_order(model: Model) -> bool:
    rows = slice(0, SEEN_ROWS), slice(0, len(model.part.videos.ids))
    return sees_order(lambda videos: model.part.scores(model.matcher, videos).block(*rows), model.part.videos)


def _ordered(order: str, settings: StudySettings, *, generated_alone: bool = False) -> View:
    def view(videos: VideoFeatures, generated: Collection[str]) -> VideoFeatures:
        return reordered(
            videos,
            cast("FrameOrder", order),
            stage=settings.stage,
            take=settings.frames,
            seed=settings.audit.seed,
            only=generated if generated_alone else None,
        )

    return view


def _one(which: str, seed: int, videos: VideoFeatures, generated: Collection[str]) -> VideoFeatures:
    return single_frame(videos, cast("OneFrame", which), seed=seed)


def _probed(
    views: Mapping[str, View], material: Workspace, settings: StudySettings, progress: Progress
) -> VariantFigures:
    """Every model with every group of generated clips."""

    def scored(model: Model, group: str, share: Progress) -> Iterator[tuple[str, ScoreBlocks]]:
        videos = model.part.videos
        generated = set(counterparts(material.test, group)["generated_id"]) & set(videos.ids)
        for number, (name, view) in enumerate(views.items(), start=1):
            yield name, model.part.scores(model.matcher, view(videos, generated))
            share(number / len(views))

    return compare_variants(scored, material, settings, progress)


def _probes_findings(found: VariantFigures, what: str, material: Workspace, notices: Sequence[str]) -> Findings:
    changes = found.changes
    group, model, view = lead = furthest(changes)
    before = found.figures[group, model, AS_IT_IS][MAIN].value
    told = sum(effect_of(change).is_significant for change in changes.values())
    return Findings(
        f"With {what}, {told} of {len(changes)} preferences change by more than chance explains; the largest change "
        f"is that of {model} on {group} ({view}): {PREFERENCE} {before:+.1f} changes by {shown(changes[lead])}.",
        effect_of(changes[lead], f"Change of {PREFERENCE}: {model}, {group}, {view}"),
        (changes_table(found, "frames"), *variant_tables(found, "frames")),
        (AuditFigure("Preference by what is shown", partial(variant_bars, found)),),
        (*notices, *notices_of(found.figures.values())),
        paragraphs("ghost", "Measures", "Changes"),
        few=few_pairs(material.test, groups_in(material.test)),
    )


# Trainings that differ in one thing, measured on every group of generated clips of the test split.

BEFORE = "before training"


def compared(
    kinds: Mapping[str, Recipe], material: Workspace, settings: StudySettings, progress: Progress
) -> SeededFigures[tuple[str, str]]:
    """Train a matcher by each recipe with each seed, and measure its preference on each group of generated clips.

    Returns:
        By group of generated clips and by kind, the figures of each seed; `BEFORE` has one, of no training, where the
        matcher can rank before it is trained.
    """
    _, test = material.learning()
    audit, groups = replace(settings.audit, resamples=0), list(groups_in(test.corpus))
    ready = begins_ready(settings.recipe, material)
    names = [BEFORE, *kinds] if ready else list(kinds)

    def each_measured() -> Iterator[tuple[tuple[str, str], Figures]]:
        before = [(BEFORE, 0, FineTuned(before_training(settings.recipe, material), test))] if ready else []
        for name, _, one in chain(before, each_trained(kinds, material, settings, progress)):
            scores = one.test.scores(one.matcher)
            for group in groups:
                yield (group, name), measured(scores, one.test.corpus, group, audit)

    found = by_row(each_measured())
    return SeededFigures({key: found[key] for key in product(groups, names)}, settings.audit.confidence)


# Figure 3: what a growing share of generated clips in the training split does (Generative Ghost, section 3.3).

RECALLS = ("R@1", "R@5", "R@10")
DELTAS = ("R@1", "MedR", "MeanR", MIX_R)
PANELS = {
    "real": ("Real clips alone", RECALLS, "R@k, %"),
    "generated": ("Generated clips alone", RECALLS, "R@k, %"),
    "mixed real": ("Real clips among both", RECALLS, "R@k, %"),
    "mixed generated": ("Generated clips among both", RECALLS, "R@k, %"),
    "relative": ("Relative Δ", DELTAS, "Relative Δ, %"),
    "normalized": ("Normalized Δ", DELTAS, "Normalized Δ, %"),
}
"""The six panels of the figure: title, metrics and unit, by row."""


def training_share(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make figure 3 of Generative Ghost: train with a growing share of generated clips, and measure the preference."""
    found = compared(
        {name_of(share): mixed(settings, share) for share in settings.shares}, material, settings, progress
    )
    means = found.means
    least, most = name_of(settings.shares[0]), name_of(settings.shares[-1])
    groups = list(dict.fromkeys(group for group, _ in means))
    changes = {group: found.runs.changes((group, least), (group, most))[MAIN] for group in groups}
    lead = furthest(changes)
    first, last = (means[lead, kind][MAIN].value for kind in (least, most))
    note = paragraph("ghost", "Intervals over seeds", seeds=settings.seeds)
    return Findings(
        f"Trained with {most} clips instead of {least} ones, the matcher {verdict(changes[lead], ' more')} on "
        f"{lead}: {PREFERENCE} {first:+.1f} becomes {last:+.1f}, a "
        f"change of {shown(changes[lead])} over {settings.seeds} seeds.",
        effect_of(changes[lead], f"Change of {PREFERENCE} on {lead}"),
        (
            preference_table(
                "The preference by what was trained on", ("tested with", "trained with"), list(means.items()), note
            ),
            *group_tables("trained with", means, "Tested with {}"),
        ),
        tuple(
            AuditFigure(f"Tested with {group}", partial(_sweeps_drawn, means, group, settings.shares))
            for group in groups
        ),
        notices_of(means.values()),
        paragraphs("ghost", "Measures", "A share of generated clips"),
        few=few_pairs(material.test, groups),
    )


def name_of(share: float) -> str:
    """Name a share of generated clips, for tables and folders.

    >>> name_of(0.2)
    '20 % generated'
    """
    return f"{100 * share:.0f} % generated"


def mixed(settings: StudySettings, share: float) -> Recipe:
    """Return the study's recipe with a share of generated clips in training."""
    data = replace(settings.recipe.data, generated_share=share, generated_group=settings.group)
    return replace(settings.recipe, data=data)


def _sweeps_drawn(means: Mapping[tuple[str, str], Figures], group: str, shares: Sequence[float]) -> go.Figure:
    """The six panels; what was there before training is a point at the left."""

    def lines(row: str, metrics: tuple[str, ...]) -> dict[str, Line]:
        trained: dict[str, Line] = {
            metric: [(100 * share, means[group, name_of(share)][row, metric]) for share in shares] for metric in metrics
        }
        if (group, BEFORE) not in means:
            return trained
        points: dict[str, Line] = {
            f"{metric}, {BEFORE}": [(0.0, means[group, BEFORE][row, metric])] for metric in metrics
        }
        return trained | points

    parts = [Panel(title, unit, lines(row, metrics)) for row, (title, metrics, unit) in PANELS.items()]
    return share_sweep(parts, "generated clips in training")


PLAIN = "plain"
"""Fine-tuning on the same real pairs without the term."""


def debiased_training(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Make table 6 of Generative Ghost: each debiasing preset beside plain fine-tuning, on each group of clips."""
    data = replace(settings.recipe.data, generated_group=settings.group)
    plain = replace(settings.recipe, data=data, debias=None)
    kinds: dict[str, Recipe] = {PLAIN: plain} | {
        name: replace(plain, debias=preset) for name, preset in PRESETS.items()
    }
    found = compared(kinds, material, settings, progress)
    runs, means = found.runs, found.means
    groups = list(dict.fromkeys(group for group, _ in means))
    changes = {(group, name): runs.changes((group, PLAIN), (group, name))[MAIN] for group in groups for name in PRESETS}
    lead = furthest(changes)
    note = paragraph("ghost", "Intervals over seeds", seeds=settings.seeds)
    return Findings(
        " ".join(_kinds_told(means)),
        effect_of(changes[lead], f"Change of {PREFERENCE} on {lead[0]}: {lead[1]} less {PLAIN}"),
        (
            preference_table("What each training does", ("generated clips", "training"), list(means.items()), note),
            _changes_table(changes),
            *group_tables("training", means),
        ),
        (AuditFigure("Preference after each training", partial(group_bars, means)),),
        notices_of(means.values()),
        paragraphs("ghost", "Measures", "Debiased training"),
        few=few_pairs(material.test, groups),
    )


def _kinds_told(means: Mapping[tuple[str, str], Figures]) -> Iterator[str]:
    """A sentence for each training, on the first group."""
    first, _ = next(iter(means))
    for (group, kind), figures in means.items():
        if group == first and kind != BEFORE:
            figure, recall = figures[MAIN], figures["real", "R@1"].value
            yield (
                f"After {kind} training the matcher {verdict(figure)} on {group}: {PREFERENCE} {shown(figure)}, and "
                f"finds {recall:.1f} % of real clips first among real ones."
            )


def _changes_table(changes: Mapping[tuple[str, str], Interval]) -> AuditTable:
    rows = tuple((*key, *interval_cells(change)) for key, change in changes.items())
    columns = ("generated clips", "training", *interval_columns("change"))
    return AuditTable(f"Change of {PREFERENCE} from {PLAIN} fine-tuning, seed by seed", columns, rows)


# Galleries with a growing share of generated clips: what stands first, and who still finds what was asked for.
#
# Not in the paper, which mixes all of both: a library holds some share of generated clips, and it grows. Each pair has
# one place in the gallery, held by the real clip or by its mirror, so the gallery stays as large and every caption
# keeps one answer; the pairs that are replaced at one share are replaced at a larger one too.

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MIDDLE = 0.5
FIRST, OF_REAL, OF_GENERATED = "generated clips in the first place, %", "R@1, real answers", "R@1, generated answers"
EXCESS = "First places of generated clips beyond their half of the gallery, points"

Sweep = Mapping[float, Mapping[str, Interval]]
"""By share, figures by name; one that nothing is known of, such as R@1 of no clips, is left out."""


@dataclass(frozen=True, eq=False)
class GalleryDraws:
    """First places and hits in each of G galleries, sums over captions.

    Attributes:
        first: (G,) chances that the clip in the first place is generated.
        hits: (2, G) chances that it is the answer, of captions whose answer is real and of those whose is generated.
        captions: (2, G) how many captions there are of each.
    """

    first: NDArray[np.float64]
    hits: NDArray[np.float64]
    captions: NDArray[np.int64]


def gallery_share(material: Workspace, settings: StudySettings, progress: Progress) -> Findings:
    """Measure first places and R@1 in galleries with a growing share of generated clips."""
    groups, systems = list(groups_in(material.test)), material.systems()
    sweeps: dict[tuple[str, str], Sweep] = {}
    notices: dict[str, None] = {}
    for (group, system), _ in each_part(list(product(groups, systems)), progress):
        paired = pair_scores(systems[system], material.test, group)
        sweeps[group, system] = swept(paired, settings)
        notices |= dict.fromkeys(paired.notices)
    excess = {key: _excess(sweep) for key, sweep in sweeps.items()}
    group, system = lead = furthest(excess)
    return Findings(
        f"Where half of the gallery is of {group}, these clips hold {sweeps[lead][MIDDLE][FIRST].value:.1f} % of "
        f"the first places of {system}: {shown(excess[lead])} points beside their half.",
        effect_of(excess[lead], f"{EXCESS}: {system}, {group}"),
        tuple(_table(key, sweep) for key, sweep in sweeps.items()),
        (AuditFigure("Galleries with a growing share of generated clips", lambda: _gallery_drawn(sweeps)),),
        tuple(notices),
        (paragraph("ghost", "Growing galleries", seeds=settings.seeds),),
        few=few_pairs(material.test, groups),
    )


def swept(paired: PairedScores, settings: StudySettings) -> Sweep:
    """Measure galleries of all shares, as means over seeds."""
    pairs = len(paired.real)
    replaced = np.stack([draw_replaced(pairs, share, seed) for share in SHARES for seed in range(settings.seeds)])
    counted = count_galleries(paired, replaced, settings.audit.band_bytes)
    rows = np.arange(len(replaced)).reshape(len(SHARES), settings.seeds)
    return {
        share: _gallery_figures(counted, own, settings.audit.confidence)
        for share, own in zip(SHARES, rows, strict=True)
    }


def draw_replaced(pairs: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw in which of n pairs the generated clip takes the place of the real one, (n,).

    Args:
        pairs: n, number of pairs.
        share: share of the pairs that is drawn, 0 to 1; a larger one has those of a smaller one.
        seed: seed of the draw.

    >>> [int(draw_replaced(10, share, seed=0).sum()) for share in (0.0, 0.25, 1.0)]
    [0, 2, 10]
    """
    replaced = np.zeros(pairs, np.bool_)
    replaced[np.random.default_rng(seed).permutation(pairs)[: round(share * pairs)]] = True
    return replaced


def count_galleries(paired: PairedScores, replaced: NDArray[np.bool_], band_bytes: int) -> GalleryDraws:
    """Search G galleries for every caption; scores are read once.

    Args:
        paired: scores of captions with n pairs.
        replaced: (G, n) pairs that are held by their mirror.
        band_bytes: about how many bytes of scores are read at a time.
    """
    first, hits, captions = (
        np.zeros(len(replaced)),
        np.zeros((2, len(replaced))),
        np.zeros((2, len(replaced)), np.int64),
    )
    for held, real, generated in paired.bands(band_bytes):
        answers, rows = paired.pair[held], np.arange(len(real))
        for number, mirrors in enumerate(replaced):
            values = np.where(mirrors, generated, real)
            own = values[rows, answers]
            best = values == values.max(axis=1, keepdims=True)
            first[number] += (best[:, mirrors].sum(axis=1) / best.sum(axis=1)).sum()
            chance = _first_chance(values, own)
            kind = mirrors[answers].astype(np.int64)
            hits[:, number] += np.bincount(kind, chance, minlength=2)
            captions[:, number] += np.bincount(kind, minlength=2)
    return GalleryDraws(first, hits, captions)


def _first_chance(values: NDArray[Any], own: NDArray[Any]) -> NDArray[np.float64]:
    above = (values > own[:, None]).sum(axis=1)
    others = (values == own[:, None]).sum(axis=1) - 1
    return np.asarray((own > -np.inf) * hit_chance(above, others, np.ones_like(above), 1))


def _gallery_figures(counted: GalleryDraws, rows: NDArray[np.int64], confidence: float) -> dict[str, Interval]:
    total = counted.captions[:, rows].sum(axis=0)
    found = {FIRST: over_seeds((100 * counted.first[rows] / total).tolist(), confidence, PERCENT)}
    for kind, name in enumerate((OF_REAL, OF_GENERATED)):
        captions = counted.captions[kind, rows]
        if captions.all():
            found[name] = over_seeds((100 * counted.hits[kind, rows] / captions).tolist(), confidence, PERCENT)
    return found


def _excess(sweep: Sweep) -> Interval:
    """Return the first places of generated clips beyond their half of the gallery, in points."""
    at, half = sweep[MIDDLE][FIRST], 100 * MIDDLE
    low, high = (None if end is None else end - half for end in (at.low, at.high))
    return Interval(at.value - half, low, high)


def _table(key: tuple[str, str], sweep: Sweep) -> AuditTable:
    names = (FIRST, OF_REAL, OF_GENERATED)
    rows = tuple(
        (round(100 * share), *interval_cells(*(found.get(name, Interval(np.nan)) for name in names)))
        for share, found in sweep.items()
    )
    columns = ("share of the gallery, %", *interval_columns(*names))
    return AuditTable(f"{key[1]}: galleries with clips of {key[0]}", columns, rows)


def _gallery_drawn(sweeps: Mapping[tuple[str, str], Sweep]) -> go.Figure:
    names = {key: f"{key[1]}, {key[0]}" for key in sweeps}

    def lines(figure: str) -> dict[str, Line]:
        return {
            names[key]: [(100 * share, found[figure]) for share, found in sweep.items() if figure in found]
            for key, sweep in sweeps.items()
        }

    even: dict[str, Line] = {"as many as in the gallery": [(100 * share, Interval(100 * share)) for share in SHARES]}
    parts = [
        Panel("Generated clips in the first place", "%", lines(FIRST) | even),
        Panel("Captions of real clips", "R@1, %", lines(OF_REAL)),
        Panel("Captions of generated clips", "R@1, %", lines(OF_GENERATED)),
    ]
    return share_sweep(parts, "generated clips in the gallery")
