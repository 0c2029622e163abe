"""Tables 1 to 8 and figures 2 to 5 of Generative Ghost (arXiv 2502.07327), and galleries with ever more mirrors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import TYPE_CHECKING, NamedTuple, TypeVar

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
    Cells,
    FineTuned,
    SeededRuns,
    before_training,
    begins_ready,
    but_few,
    by_row,
    each_trained,
    effect_of,
    few_pairs,
    finding,
    furthest,
    shown,
    verdict,
)
from evenreel.papers.ghost.p_vector import PRESETS as P_PRESETS
from evenreel.papers.ghost.p_vector import (
    PVector,
    Source,
    caption_vectors,
    diagnose,
    p_vectors,
    shifted_scores,
    video_vectors,
)
from evenreel.papers.shown import cloud, separation
from evenreel.papers.study import StudySettings, paragraph, paragraphs
from evenreel.papers.workspace import CorpusPart, Model, Workspace, groups_in, one_group
from evenreel.progress import Progress, each_part
from evenreel.report.figures import Line, Panel, deltas_by_group, share_sweep, similarity_histogram
from evenreel.report.result import AuditFigure, AuditResult, AuditTable, Cell, Effect
from evenreel.similarity.vectors import EmbeddingTable, VectorScores
from evenreel.training.recipe import Recipe
from evenreel.types import ScoreBlocks, VideoFeatures

if TYPE_CHECKING:
    import plotly.graph_objects as go


# source measures and tables of them in the paper's form ---------------------------------------------------------------

Key = TypeVar("Key", bound=Hashable)
Figures = Mapping[tuple[str, str], Interval]
"""Source measures of a system with one group of generated clips, by row (a key of `ROWS`, or `WIN_RATE`) and metric."""
ByPair = Mapping[tuple[str, str], Figures]
"""By group of generated clips, and system or training."""
Rows = Iterable[tuple[Mapping[str, Cell], Figures]]
"""Cells by their heads that say whose figures they are, and the figures."""

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
MAIN, WIN_RATE = ("normalized", MIX_R), ("win rate", "%")
"""The figure that a study's effect is about; and how often the real clip is above its mirror."""
_FURTHEST = {"relative": 200.0, "location": 200.0, "normalized": 400.0}
"""How far from 0 a Δ can be."""


def figures_of(measures: SourceMeasures) -> dict[tuple[str, str], Interval]:
    """Return the figures of a source audit by row and metric of Generative Ghost's tables, with its win rate."""
    rows = {**measures.figures, **measures.deltas}
    found = {(row, metric): figure for row, metrics in rows.items() for metric, figure in metrics.items()}
    return {**found, WIN_RATE: measures.win_rate}


def seeded(
    rows: Mapping[Key, Sequence[Figures]], confidence: float, notices: Iterable[str] = ()
) -> SeededRuns[Key, tuple[str, str]]:
    """Return source measures of rows, each measured once with each seed, for means and changes over seeds."""
    ends = {key: _ends(*key) for runs in rows.values() for key in runs[0]}
    numbers = {row: [{key: one.value for key, one in run.items()} for run in own] for row, own in rows.items()}
    return SeededRuns(numbers, confidence, ends, tuple(notices))


def _ends(row: str, metric: str) -> tuple[float, float]:
    """Between which values a figure lies whatever is measured."""
    if row in _FURTHEST:
        return -_FURTHEST[row], _FURTHEST[row]
    return (1.0, np.inf) if metric in ("MedR", "MeanR") else PERCENT


def paper_table(title: str, rows: Rows) -> AuditTable:
    """Make a table with seven rows for each system, as Generative Ghost prints them."""
    cells = (
        {
            **own,
            "row": name,
            **{
                metric: figures[row, metric].value if (row, metric) in figures else None for metric in (*METRICS, MIX_R)
            },
        }
        for own, figures in rows
        for row, name in ROWS.items()
    )
    return AuditTable.of(title, cells, paragraph("ghost", "The paper's form"))


def preference_table(title: str, rows: Rows, note: str = "") -> AuditTable:
    """Make a table of preferences with intervals; `note` is empty for that of intervals of one ranking."""
    shown = {
        PREFERENCE: MAIN,
        "Normalized Δ R@1": ("normalized", "R@1"),
        "real above its mirror, %": WIN_RATE,
        "REAL R@1": ("real", "R@1"),
    }
    cells = ({**own, **{head: figures[key] for head, key in shown.items()}} for own, figures in rows)
    return AuditTable.of(title, cells, note or paragraph("ghost", "Intervals of one ranking"))


def group_tables(label: str, found: ByPair, title: str = "Real clips and {}") -> list[AuditTable]:
    """Make a table as Generative Ghost prints it for each group of generated clips."""
    tables: dict[str, list[tuple[Mapping[str, Cell], Figures]]] = {}
    for (group, name), figures in found.items():
        tables.setdefault(group, []).append(({label: name}, figures))
    return [paper_table(title.format(group), rows) for group, rows in tables.items()]


def group_bars(found: ByPair, metric: str = MIX_R) -> go.Figure:
    """Draw the Normalized Δ of one metric, by group of generated clips and a second name, each with bars of its own."""
    bars: dict[str, dict[str, Interval]] = {}
    for (group, name), figures in found.items():
        bars.setdefault(name, {})[group] = figures["normalized", metric]
    return deltas_by_group(bars, UNIT)


# table 1 and figure 2: what the benchmark is made of, and how near mirrors are to real clips (section 2.3) ------------


def benchmark(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 1 of Generative Ghost: clips by group and split, their files and their similarity to real ones."""
    return _overview(material, settings)


def similarity(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 2 of Generative Ghost: how the similarities of pairs are spread."""
    found = _overview(material, settings)
    if not found.figures:
        raise UsageError(
            "This study compares frames of real clips and their mirrors; give it features, best by "
            f"`evenreel features CORPUS --rule '{PAPER_RULE}'`."
        )
    return found


def _overview(material: Workspace, settings: StudySettings) -> AuditResult:
    pairs, rule = counterparts(material.whole), material.rule
    cosines = np.full(pairs.height, np.nan)  # of each pair; NaN for one without features
    for part in (material.features, material.train):
        if part is not None:
            cosines = np.fmax(cosines, similarities(part.videos, pairs))
    other = f"Similarity is of frames by '{rule}'; the paper's is of '{PAPER_RULE}'."
    unknown = ClipFacts(pl.DataFrame(schema={"clip_id": pl.String, **FACT_COLUMNS}))  # of files that nobody looked at
    notices = (other,) if rule not in ("", PAPER_RULE) else ()
    found = overview(material.whole, material.facts or unknown, cosines, settings.audit, notices)
    nearest = max(found.similarity, key=lambda group: found.similarity[group].value, default=None)
    effect = Effect("Mean similarity", np.nan)
    if nearest is not None:
        effect = effect_of(found.similarity[nearest], f"Mean similarity of {nearest}")
    drawn = (AuditFigure("Similarity of the two clips of a pair", partial(_similarities_drawn, found)),)
    figures = drawn if found.pairs["similarity"].is_not_nan().any() else ()
    result = finding(
        overview_sentence(found), effect, overview_tables(found), figures, found.notices, overview_method()
    )
    return but_few(few_pairs(material.test, groups_in(material.test)), result)


def _similarities_drawn(found: Overview) -> go.Figure:
    measured = found.pairs.filter(found.pairs["similarity"].is_not_nan())
    return similarity_histogram(
        {
            f"{group}, {split}": part["similarity"].to_numpy()
            for (group, split), part in measured.group_by("group", "split", maintain_order=True)
        }
    )


# tables 2 and 3: how systems rank real clips and their mirrors, by what the generator was given (section 3.2) ---------

SEEING = ("image", "video")
"""Settings in which the generator saw something of the real clip."""


def from_text(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 2 of Generative Ghost: rankings of clips generated from a caption alone, or from what nobody noted."""
    groups = [group for group, given in groups_in(material.test).items() if given not in SEEING]
    if not groups:
        raise CorpusError(
            "All generated clips of the test split were made from an image or a video, which is the study ghost/t3."
        )
    return _by_setting(groups, material, settings, progress)


def from_pictures(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 3 of Generative Ghost: rankings of clips whose generator saw a picture or a part of the real clip."""
    there = groups_in(material.test)
    groups = [group for group, given in there.items() if given in SEEING]
    if not groups:
        raise CorpusError(
            "No generated clip of the test split was made from an image or a video (the column 'setting' of the clips "
            f"would say so); there are: {', '.join(there)}."
        )
    return _by_setting(groups, material, settings, progress)


def _by_setting(groups: Sequence[str], material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    systems = material.systems()
    measures = {
        (group, system): measure_source(systems[system], material.test, group, settings.audit)
        for (group, system), _ in each_part(list(product(groups, systems)), progress)
    }
    found = {key: figures_of(one) for key, one in measures.items()}
    lead = furthest({key: figures[MAIN] for key, figures in found.items()})
    figure, (group, system) = found[lead][MAIN], lead
    sides = [one.value > 0 for one in (effect_of(own[MAIN]) for own in found.values()) if one.is_significant]
    counted = (
        f"Of {len(found)} rankings, a system with a group of generated clips each, {len(sides) - sum(sides)} favour "
        f"generated clips, {sum(sides)} real ones, and of {len(found) - len(sides)} it cannot be told. "
        if len(found) > 1
        else ""
    )
    rows = [({"generated clips": key[0], "system": key[1]}, figures) for key, figures in found.items()]
    result = finding(
        f"{counted}{system} {verdict(figure)} on {group}: {PREFERENCE} {shown(figure)}.",
        effect_of(figure, f"{PREFERENCE} of {system} on {group}"),
        (preference_table("The preference of each system", rows), *group_tables("system", found)),
        [AuditFigure(f"Preference by setting: {one}", partial(group_bars, found, one)) for one in (MIX_R, "R@1")],
        dict.fromkeys(notice for one in measures.values() for notice in one.notices),
        paragraphs("ghost", "Measures"),
    )
    return but_few(few_pairs(material.test, groups), result)


# tables 4 and 5: what is left of a preference in another order of frames, and with one frame (section 4) --------------

AS_IT_IS = "as it is"
"""The view that others are compared with; it comes first."""
SEEN_ROWS = 8
"""Captions by whose scores it is found out whether a model sees the order of frames."""
_MOST_CHANGE = 800.0
"""How far a Normalized Δ can change."""
View = Callable[[VideoFeatures, Collection[str]], VideoFeatures]
"""Videos and the ids of the generated ones -> videos as they are shown to a model."""


def frame_order(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 4 of Generative Ghost: frames in random and reverse order, of all clips or of generated ones alone."""

    def view(order: FrameOrder, *, generated_alone: bool = False) -> View:
        return lambda videos, generated: reordered(
            videos,
            order,
            stage=settings.stage,
            take=settings.frames,
            seed=settings.audit.seed,
            only=generated if generated_alone else None,
        )

    orders: tuple[FrameOrder, FrameOrder] = ("random", "reversed")
    views = {AS_IT_IS: view("original")}
    for order in orders:
        views |= {f"{order}, both": view(order), f"{order}, generated alone": view(order, generated_alone=True)}
    notices = [
        f"{model.name} does not see the order of frames, so what moving them changes is not about motion."
        for model in material.encoders()
        if not _sees_order(model)
    ]
    return _probed(views, "another order of frames", material, settings, progress, notices)


def one_frame(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 5 of Generative Ghost: one frame of each clip, so that nothing but how clips look is left."""

    def view(which: OneFrame) -> View:
        return lambda videos, generated: single_frame(videos, which, seed=settings.audit.seed)

    frames: tuple[OneFrame, ...] = ("middle", "first", "random")
    views: dict[str, View] = {AS_IT_IS: lambda videos, generated: videos}
    views |= {f"{which} frame": view(which) for which in frames}
    return _probed(views, "a single frame", material, settings, progress)


def _sees_order(model: Model) -> bool:
    rows = slice(0, SEEN_ROWS), slice(0, len(model.part.videos.ids))
    return sees_order(lambda videos: model.part.scores(model.matcher, videos).block(*rows), model.part.videos)


def _probed(
    views: Mapping[str, View],
    what: str,
    material: Workspace,
    settings: StudySettings,
    progress: Progress,
    notices: Sequence[str] = (),
) -> AuditResult:
    """Rank by every model what each view shows it of every group, and measure how the preference changes."""
    found: dict[tuple[str, str, str], dict[tuple[str, str], Interval]] = {}
    changes: dict[tuple[str, str, str], Interval] = {}
    said = dict.fromkeys(notices)
    for (model, group), share in each_part(list(product(material.encoders(), groups_in(material.test))), progress):
        videos, first = model.part.videos, None
        generated = set(counterparts(material.test, group)["generated_id"]) & set(videos.ids)
        for number, (name, view) in enumerate(views.items(), start=1):
            scores = model.part.scores(model.matcher, view(videos, generated))
            measures = measure_source(scores, material.test, group, settings.audit)
            found[group, model.name, name] = figures_of(measures)
            said |= dict.fromkeys(measures.notices)
            if first is None:
                first = measures.swapped
            else:
                change = inverted_interval(measures.swapped - first, settings.audit, ends=(-_MOST_CHANGE, _MOST_CHANGE))
                changes[group, model.name, name] = change
            share(number / len(views))
    lead = furthest(changes)
    before = found[(*lead[:2], AS_IT_IS)][MAIN].value
    told = sum(effect_of(change).is_significant for change in changes.values())
    rows: Iterable[Cells] = (
        {
            **dict(zip(("generated clips", "model", "frames"), key, strict=True)),
            PREFERENCE: figures[MAIN],
            "change": changes.get(key, Interval(0.0)),
        }
        for key, figures in found.items()
    )
    paper = {(f"{model}: real clips and {group}", name): own for (group, model, name), own in found.items()}
    bars = {(f"{model}, {group}", name): own for (group, model, name), own in found.items()}
    result = finding(
        f"With {what}, {told} of {len(changes)} preferences change by more than chance explains; the largest change "
        f"is that of {lead[1]} on {lead[0]} ({lead[2]}): {PREFERENCE} {before:+.1f} changes by {shown(changes[lead])}.",
        effect_of(changes[lead], f"Change of {PREFERENCE}: {lead[1]}, {lead[0]}, {lead[2]}"),
        (AuditTable.of("The preference and how it changes", rows), *group_tables("frames", paper, "{}")),
        (AuditFigure("Preference by what is shown", partial(group_bars, bars)),),
        said,
        paragraphs("ghost", "Measures", "Changes"),
    )
    return but_few(few_pairs(material.test, groups_in(material.test)), result)


# figure 3 and table 6: trainings that differ in one thing, measured on every group of generated clips -----------------

BEFORE, PLAIN = "before training", "plain"
"""What no training has; and fine-tuning on the same real pairs without the term against the preference."""


def compared(
    kinds: Mapping[str, Recipe], material: Workspace, settings: StudySettings, progress: Progress
) -> SeededRuns[tuple[str, str], tuple[str, str]]:
    """Train a matcher by each recipe with each seed, and measure its preference on each group of generated clips.

    Rows are a group and a kind of training; `BEFORE` has one seed, where the matcher can rank before it is trained.
    """
    _, test = material.learning()
    audit, groups = replace(settings.audit, resamples=0), list(groups_in(test.corpus))
    ready, notices = begins_ready(settings.recipe, material), dict[str, None]()

    def each_measured() -> Iterator[tuple[tuple[str, str], Figures]]:
        before = [(BEFORE, 0, FineTuned(before_training(settings.recipe, material), test))] if ready else []
        for name, _, one in chain(before, each_trained(kinds, material, settings, progress)):
            scores = one.test.scores(one.matcher)
            for group in groups:
                measures = measure_source(scores, one.test.corpus, group, audit)
                notices.update(dict.fromkeys(measures.notices))
                yield (group, name), figures_of(measures)

    found = by_row(each_measured())
    rows = {key: found[key] for key in product(groups, [BEFORE, *kinds] if ready else kinds)}
    return seeded(rows, settings.audit.confidence, notices)


RECALLS, DELTAS = ("R@1", "R@5", "R@10"), ("R@1", "MedR", "MeanR", MIX_R)
PANELS = {
    "real": ("Real clips alone", RECALLS, "R@k, %"),
    "generated": ("Generated clips alone", RECALLS, "R@k, %"),
    "mixed real": ("Real clips among both", RECALLS, "R@k, %"),
    "mixed generated": ("Generated clips among both", RECALLS, "R@k, %"),
    "relative": ("Relative Δ", DELTAS, "Relative Δ, %"),
    "normalized": ("Normalized Δ", DELTAS, "Normalized Δ, %"),
}
"""The six panels of figure 3: title, metrics and unit, by row."""


def training_share(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 3 of Generative Ghost: train with a growing share of generated clips, and measure the preference."""
    recipe, shares = settings.recipe, {name_of(share): share for share in settings.shares}
    group = replace(recipe.data, generated_group=settings.group)
    kinds = {name: replace(recipe, data=replace(group, generated_share=share)) for name, share in shares.items()}
    runs = compared(kinds, material, settings, progress)
    means = {key: runs.means(key) for key in runs.rows}
    least, most = name_of(settings.shares[0]), name_of(settings.shares[-1])
    groups = list(dict.fromkeys(group for group, _ in means))
    changes = {group: runs.changes((group, least), (group, most))[MAIN] for group in groups}
    lead = furthest(changes)
    first, last = (means[lead, kind][MAIN].value for kind in (least, most))
    rows = [({"tested with": group, "trained with": kind}, own) for (group, kind), own in means.items()]
    result = finding(
        f"Trained with {most} clips instead of {least} ones, the matcher {verdict(changes[lead], ' more')} on "
        f"{lead}: {PREFERENCE} {first:+.1f} becomes {last:+.1f}, a "
        f"change of {shown(changes[lead])} over {settings.seeds} seeds.",
        effect_of(changes[lead], f"Change of {PREFERENCE} on {lead}"),
        (
            preference_table("The preference by what was trained on", rows, _seeds_told(settings)),
            *group_tables("trained with", means, "Tested with {}"),
        ),
        [AuditFigure(f"Tested with {one}", partial(_shares_drawn, means, one, settings.shares)) for one in groups],
        runs.notices,
        paragraphs("ghost", "Measures", "A share of generated clips"),
    )
    return but_few(few_pairs(material.test, groups), result)


def _seeds_told(settings: StudySettings) -> str:
    return paragraph("ghost", "Intervals over seeds", seeds=settings.seeds)


def name_of(share: float) -> str:
    """Name a share of generated clips, for tables and folders.

    >>> name_of(0.2)
    '20 % generated'
    """
    return f"{100 * share:.0f} % generated"


def _shares_drawn(means: ByPair, group: str, shares: Sequence[float]) -> go.Figure:
    """The six panels; what was there before training is a point at the left."""

    def lines(row: str, metrics: tuple[str, ...]) -> dict[str, Line]:
        trained: dict[str, Line] = {
            metric: [(100 * share, means[group, name_of(share)][row, metric]) for share in shares] for metric in metrics
        }
        if (group, BEFORE) in means:
            trained |= {f"{metric}, {BEFORE}": [(0.0, means[group, BEFORE][row, metric])] for metric in metrics}
        return trained

    parts = [Panel(title, unit, lines(row, metrics)) for row, (title, metrics, unit) in PANELS.items()]
    return share_sweep(parts, "generated clips in training")


def debiased_training(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make table 6 of Generative Ghost: each debiasing preset beside plain fine-tuning, on each group of clips."""
    data = replace(settings.recipe.data, generated_group=settings.group)
    plain = replace(settings.recipe, data=data, debias=None)
    kinds: dict[str, Recipe] = {PLAIN: plain} | {
        name: replace(plain, debias=preset) for name, preset in PRESETS.items()
    }
    runs = compared(kinds, material, settings, progress)
    means = {key: runs.means(key) for key in runs.rows}
    groups = list(dict.fromkeys(group for group, _ in means))
    changes = {(group, name): runs.changes((group, PLAIN), (group, name))[MAIN] for group in groups for name in PRESETS}
    lead = furthest(changes)
    told = (
        f"After {kind} training the matcher {verdict(own[MAIN])} on {group}: {PREFERENCE} {shown(own[MAIN])}, and "
        f"finds {own['real', 'R@1'].value:.1f} % of real clips first among real ones."
        for (group, kind), own in means.items()
        if group == groups[0] and kind != BEFORE
    )
    rows = [({"generated clips": group, "training": kind}, own) for (group, kind), own in means.items()]
    moved: Iterable[Cells] = (
        {"generated clips": group, "training": name, "change": own} for (group, name), own in changes.items()
    )
    result = finding(
        " ".join(told),
        effect_of(changes[lead], f"Change of {PREFERENCE} on {lead[0]}: {lead[1]} less {PLAIN}"),
        (
            preference_table("What each training does", rows, _seeds_told(settings)),
            AuditTable.of(f"Change of {PREFERENCE} from {PLAIN} fine-tuning, seed by seed", moved),
            *group_tables("training", means),
        ),
        (AuditFigure("Preference after each training", partial(group_bars, means)),),
        runs.notices,
        paragraphs("ghost", "Measures", "Debiased training"),
    )
    return but_few(few_pairs(material.test, groups), result)


# galleries with a growing share of generated clips: what stands first, and who still finds what was asked for ---------
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
    """First places and hits in each of G galleries, sums over captions."""

    first: NDArray[np.float64]  # (G,) chances that the clip in the first place is generated
    # (2, G) chances that it is the answer, of captions whose answer is real and of those whose is generated
    hits: NDArray[np.float64]
    captions: NDArray[np.int64]  # (2, G) how many captions there are of each


def gallery_share(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Measure first places and R@1 in galleries with a growing share of generated clips."""
    groups, systems = list(groups_in(material.test)), material.systems()
    sweeps: dict[tuple[str, str], Sweep] = {}
    excess: dict[tuple[str, str], Interval] = {}
    notices: dict[str, None] = {}
    for (group, system), _ in each_part(list(product(groups, systems)), progress):
        paired = pair_scores(systems[system], material.test, group)
        sweeps[group, system] = swept(paired, settings)
        notices |= dict.fromkeys(paired.notices)
        half = sweeps[group, system][MIDDLE][FIRST]
        low, high = (None if end is None else end - 100 * MIDDLE for end in (half.low, half.high))
        excess[group, system] = Interval(half.value - 100 * MIDDLE, low, high)
    group, system = lead = furthest(excess)
    nothing = Interval(np.nan)
    tables = [
        AuditTable.of(
            f"{system}: galleries with clips of {group}",
            (
                {"share of the gallery, %": round(100 * share)}
                | {name: found.get(name, nothing) for name in (FIRST, OF_REAL, OF_GENERATED)}
                for share, found in sweep.items()
            ),
        )
        for (group, system), sweep in sweeps.items()
    ]
    result = finding(
        f"Where half of the gallery is of {group}, these clips hold {sweeps[lead][MIDDLE][FIRST].value:.1f} % of "
        f"the first places of {system}: {shown(excess[lead])} points beside their half.",
        effect_of(excess[lead], f"{EXCESS}: {system}, {group}"),
        tables,
        (AuditFigure("Galleries with a growing share of generated clips", partial(_galleries_drawn, sweeps)),),
        notices,
        (paragraph("ghost", "Growing galleries", seeds=settings.seeds),),
    )
    return but_few(few_pairs(material.test, groups), result)


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
    """Search G galleries for every caption; scores are read once, some `band_bytes` at a time.

    `replaced` says which of the n pairs are held by their mirror, (G, n).
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
            above = (values > own[:, None]).sum(axis=1)
            others = (values == own[:, None]).sum(axis=1) - 1
            chance = (own > -np.inf) * hit_chance(above, others, np.ones_like(above), 1)
            kind = mirrors[answers].astype(np.int64)
            hits[:, number] += np.bincount(kind, chance, minlength=2)
            captions[:, number] += np.bincount(kind, minlength=2)
    return GalleryDraws(first, hits, captions)


def _gallery_figures(counted: GalleryDraws, rows: NDArray[np.int64], confidence: float) -> dict[str, Interval]:
    total = counted.captions[:, rows].sum(axis=0)
    found = {FIRST: over_seeds((100 * counted.first[rows] / total).tolist(), confidence, PERCENT)}
    for kind, name in enumerate((OF_REAL, OF_GENERATED)):
        captions = counted.captions[kind, rows]
        if captions.all():
            found[name] = over_seeds((100 * counted.hits[kind, rows] / captions).tolist(), confidence, PERCENT)
    return found


def _galleries_drawn(sweeps: Mapping[tuple[str, str], Sweep]) -> go.Figure:
    def lines(figure: str) -> dict[str, Line]:
        return {
            f"{system}, {group}": [(100 * share, found[figure]) for share, found in sweep.items() if figure in found]
            for (group, system), sweep in sweeps.items()
        }

    even: dict[str, Line] = {"as many as in the gallery": [(100 * share, Interval(100 * share)) for share in SHARES]}
    parts = [
        Panel("Generated clips in the first place", "%", lines(FIRST) | even),
        Panel("Captions of real clips", "R@1, %", lines(OF_REAL)),
        Panel("Captions of generated clips", "R@1, %", lines(OF_GENERATED)),
    ]
    return share_sweep(parts, "generated clips in the gallery")


# tables 7 and 8 and figure 4: the p-vector, added to real clips (section 5.2) -----------------------------------------
#
# The original model is the one that training begins with, a checkpoint's or the recipe's matcher as it is built, so
# that both tables have one baseline; the debiased one is trained from it with the recipe's term, or that of the
# preset `release`. A control is fine-tuned on the same real pairs without the term: what its p-vector does is due to
# fine-tuning and not to debiasing.

ORIGINAL, DEBIASED, CONTROL = "original", "debiased", "control"
SIDES: tuple[Source, Source] = ("real", "generated")
NAMES: Mapping[FrameOrder, str] = {"original": "p", "random": "p-random"}
"""What the difference is called, by the order of the frames that the models see."""


class Trained(NamedTuple):
    """The matchers that one seed trained, with the term against the preference and without; and what they began as."""

    original: FineTuned
    debiased: FineTuned
    control: FineTuned


class Paired(NamedTuple):
    """A test split with its pairs of real clips and the generated clips of a group that mirror them."""

    part: CorpusPart
    group: str
    real: tuple[str, ...]  # ids, one a pair
    generated: tuple[str, ...]  # ids, pair by pair

    def of(self, source: Source) -> tuple[str, ...]:
        return self.real if source == "real" else self.generated


def trained_models(material: Workspace, settings: StudySettings, progress: Progress) -> Iterator[Trained]:
    """Train with one seed after the other, and yield the original, the debiased and the control matcher of each."""
    data = replace(settings.recipe.data, generated_group=settings.group)
    control = replace(settings.recipe, data=data, debias=None)
    debiased = replace(control, debias=settings.recipe.debias or PRESETS["release"])
    original = FineTuned(before_training(settings.recipe, material), material.learning()[1])
    waiting: dict[str, FineTuned] = {}
    for kind, _, trained in each_trained({CONTROL: control, DEBIASED: debiased}, material, settings, progress):
        waiting[kind] = trained
        if kind == DEBIASED:
            yield Trained(original, waiting[DEBIASED], waiting[CONTROL])


def paired_clips(material: Workspace, settings: StudySettings) -> Paired:
    """Return the test split with its pairs of a real clip and a generated one of the study's group, with features."""
    _, test = material.learning()
    group = one_group(test.corpus, settings.group)
    pairs = counterparts(test.corpus, group).unique("clip_id", keep="first", maintain_order=True)
    return Paired(test, group, tuple(pairs["clip_id"]), tuple(pairs["generated_id"]))


def in_order(videos: VideoFeatures, order: FrameOrder, settings: StudySettings) -> VideoFeatures:
    """Return the features of videos with their frames in the order in which vectors of matchers are compared."""
    if order == "original" and settings.frames is None:
        return videos
    return reordered(videos, order, stage=settings.stage, take=settings.frames, seed=settings.audit.seed)


def encoded(models: Trained, order: FrameOrder, settings: StudySettings) -> dict[str, EmbeddingTable]:
    """Encode the clips of the test split by the original, the debiased and the control matcher."""
    by_kind = {ORIGINAL: models.original, DEBIASED: models.debiased, CONTROL: models.control}
    return {
        kind: video_vectors(one.matcher, in_order(one.test.videos, order, settings)) for kind, one in by_kind.items()
    }


def moves(sets: Mapping[str, EmbeddingTable], kind: str, paired: Paired, form: PVector) -> NDArray[np.float64]:
    """Return how the vectors of one side of n pairs move from the original matcher to another, p_i (n, D).

    `sets` are the vectors of all clips by each matcher; `form` says which side, and whether vectors are of unit length.
    """
    ids = paired.of(form.source)
    return p_vectors(sets[ORIGINAL].of(ids).values, sets[kind].of(ids).values, form.normalised)


def _moved_by_p(
    orders: Sequence[FrameOrder], material: Workspace, settings: StudySettings, progress: Progress
) -> AuditResult:
    paired, confidence = paired_clips(material, settings), settings.audit.confidence
    alone = replace(settings.audit, resamples=0)
    measured: list[tuple[str, Figures]] = []
    likeness: list[tuple[tuple[str, str, str], dict[str, float]]] = []
    notices: dict[str, None] = {}
    said: dict[str, None] = {}
    for models in trained_models(material, settings, progress):
        sets = {order: encoded(models, order, settings) for order in orders}
        for name, scores in _variants(models, paired, sets):
            measures = measure_source(scores, paired.part.corpus, paired.group, alone)
            measured.append((name, figures_of(measures)))
            said |= dict.fromkeys(measures.notices)
        likeness += _likenesses(paired, sets)
        notices |= dict.fromkeys(_unmoved(models, paired, sets))
    runs, alike = seeded(by_row(measured), confidence), SeededRuns(by_row(likeness), confidence)
    means, changes = {row: runs.means(row) for row in runs.rows}, runs.changes_beside(AS_IT_IS)
    name = f"{NAMES[orders[0]]}: paper"
    bars = {  # of dot products alone, which the paper has
        row: {metric: figures["normalized", metric] for metric in (*METRICS, MIX_R)}
        for row, figures in changes.items()
        if not row.endswith("cosine")
    }
    moved: Iterable[Cells] = (
        {"real clips": row, PREFERENCE: own[MAIN], "change": changes[row][MAIN] if row in changes else None}
        for row, own in means.items()
    )
    alike_rows: Iterable[Cells] = (
        {
            **dict(zip(("vector", "model", "clips"), key, strict=True)),
            **{figure: own.value for figure, own in alike.means(key).items()},
        }
        for key in alike.rows
    )
    result = finding(
        f"Adding {NAMES[orders[0]]} to real clips, as the printed formula has it, changes {PREFERENCE} on "
        f"{paired.group} by {shown(changes[name][MAIN])}; that of the control, which was never debiased, by "
        f"{shown(changes[f'{name}, {CONTROL}'][MAIN])}.",
        effect_of(changes[name][MAIN], f"Change of {PREFERENCE} on {paired.group}: {name}"),
        (
            AuditTable.of(
                "The preference with real clips moved",
                moved,
                paragraph("ghost", "Intervals over seeds", seeds=settings.seeds),
            ),
            AuditTable.of(
                "How alike the moves of single clips are", alike_rows, paragraph("ghost", "Likeness of moves"), digits=3
            ),
            paper_table(f"Real clips and {paired.group}", [({"real clips": row}, own) for row, own in means.items()]),
        ),
        (
            AuditFigure(
                "Change of Normalized Δ by metric", partial(deltas_by_group, bars, "change of Normalized Δ, points")
            ),
        ),
        (*notices, *said),
        paragraphs("ghost", "Measures", "The p-vector"),
    )
    return but_few(few_pairs(paired.part.corpus, [paired.group]), result)


def _variants(
    models: Trained, paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]
) -> Iterator[tuple[str, ScoreBlocks]]:
    """Scores by the original model, as they are and with real clips moved in every way."""
    captions = caption_vectors(models.original.matcher, paired.part.texts)
    clips = video_vectors(models.original.matcher, paired.part.videos)
    real, generated = clips.of(paired.real), clips.of(paired.generated)
    yield AS_IT_IS, VectorScores(captions, clips)
    for order, kind, preset, normalised in product(sets, (DEBIASED, CONTROL), P_PRESETS, (False, True)):
        form = replace(P_PRESETS[preset], normalised=normalised)
        p = moves(sets[order], kind, paired, form).mean(axis=0)
        words = [preset, *([CONTROL] if kind == CONTROL else []), *(["cosine"] if normalised else [])]
        yield f"{NAMES[order]}: {', '.join(words)}", shifted_scores(captions, real, generated, p, form)


def _likenesses(
    paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]
) -> Iterator[tuple[tuple[str, str, str], dict[str, float]]]:
    """How alike the p_i of each side of the pairs are, by vector, model and side; see `p_vector.Alike`."""
    for order, kind in product(sets, (DEBIASED, CONTROL)):
        sides: dict[str, NDArray[np.float64]] = {
            side: moves(sets[order], kind, paired, PVector(side)) for side in SIDES
        }
        found = diagnose(sides)
        for side, alike in found.alike.items():
            yield (
                (NAMES[order], kind, side),
                {
                    "mean length": alike.length,
                    "cosine of two clips": alike.cosine,
                    "share along the mean": alike.share_along_mean,
                    "real to generated": found.cosine(*SIDES),
                },
            )


def _unmoved(models: Trained, paired: Paired, sets: Mapping[FrameOrder, Mapping[str, EmbeddingTable]]) -> Iterator[str]:
    """A sentence where the order of frames is nothing to the debiased model."""
    if "random" in sets:
        ordered = video_vectors(models.debiased.matcher, models.debiased.test.videos).values
        if np.allclose(ordered, sets["random"][DEBIASED].values, rtol=0.0, atol=1e-4):
            yield "The models do not see the order of frames, so p-random is p and says nothing of motion."


p_vector = partial(_moved_by_p, ("original",))  # table 7: of clips in order
p_random = partial(_moved_by_p, ("random",))  # table 8: of clips with frames in random order
p_both = partial(_moved_by_p, ("original", "random"))  # figure 4: both on one baseline


# figure 5: vectors of clips before and after debiasing, and p, in a plane (section 5.2) -------------------------------

MOST_NEIGHBOURS = 10
ORDERS: Mapping[FrameOrder, str] = {"original": "frames in order", "random": "frames in random order"}

Sets = Mapping[str, NDArray[np.float64]]
"""(n, D) vectors by what they are."""

COMPARED = (
    ("h real", "h generated"),
    ("h^d real", "h^d generated"),
    ("p real", "p generated"),
    ("p of control, real", "p of control, generated"),
    ("p real", "p of control, real"),
)
"""Which sets the table compares; the picture shows the first six."""


def projected(material: Workspace, settings: StudySettings, progress: Progress) -> AuditResult:
    """Make figure 5 of Generative Ghost: vectors of clips before and after debiasing, frames in order or not."""
    paired = paired_clips(material, settings)
    (models,) = trained_models(material, replace(settings, seeds=1), progress)
    sets = {order: vector_sets(encoded(models, order, settings), paired) for order in ORDERS}
    rows: list[dict[str, str | float]] = []
    for order, words in ORDERS.items():
        for one, other in COMPARED:
            both = [sets[order][name] for name in (one, other)]
            vectors, groups = np.concatenate(both), [one] * len(both[0]) + [other] * len(both[1])
            found = separation(vectors, groups, min(MOST_NEIGHBOURS, len(vectors) - 1))
            rows.append(
                {
                    "frames": words, "groups": f"{one} and {other}", "own neighbours, %": 100 * found.agreement,
                    "by chance, %": 100 * found.chance, "silhouette": found.silhouette,
                }
            )  # fmt: skip
    before, after = (float(row["own neighbours, %"]) for row in rows[:2])
    names = {name: paired.real if name.endswith("real") else paired.generated for name in sets["original"]}
    result = finding(
        f"Of the nearest neighbours of a clip's vector, {before:.0f} % are of its own source before debiasing and "
        f"{after:.0f} % after it (real clips and {paired.group}).",
        Effect("Neighbours of the own source after debiasing less before, points", after - before),
        (AuditTable.of("Whether groups of vectors lie apart in the full space", rows),),
        [
            AuditFigure(f"t-SNE, {words}", partial(cloud, dict(list(own.items())[:6]), names, settings.audit.seed))
            for words, own in zip(ORDERS.values(), sets.values(), strict=True)
        ],
        method=paragraphs("ghost", "Pictures of vectors"),
    )
    return but_few(few_pairs(paired.part.corpus, [paired.group]), result)


def vector_sets(vectors: Mapping[str, EmbeddingTable], paired: Paired) -> dict[str, NDArray[np.float64]]:
    """Return the (n, D) vectors and their differences that the figure and the table compare, pair by pair."""
    found: dict[str, NDArray[np.float64]] = {}
    for kind, letter in ((ORIGINAL, "h"), (DEBIASED, "h^d")):
        found |= {f"{letter} {side}": vectors[kind].of(paired.of(side)).values.astype(np.float64) for side in SIDES}
    found |= {f"p {side}": moves(vectors, DEBIASED, paired, PVector(side)) for side in SIDES}
    return found | {f"p of control, {side}": moves(vectors, CONTROL, paired, PVector(side)) for side in SIDES}
