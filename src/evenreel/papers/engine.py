"""The engine of studies that train: rows with seeds, each trained once and kept, measured, and compared seed by seed.

A row is a recipe (`study.Variant`). It is trained as `evenreel train` does: the same trimming, held-out videos, words,
streams, members and selection, and with a backbone towers of its own. Its run is kept in a folder: one that was broken
off goes on, and one that is over is read, also by other studies with a row alike. Then it is measured by `evaluate`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
import polars as pl

from evenreel.checkpoint.architecture import encodings, kept_weights, module, reads_graphs, reads_windows, uses_in
from evenreel.corpus import select
from evenreel.corpus.counterparts import counterparts
from evenreel.corpus.relevance import class_relevance
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.loading import locate
from evenreel.encoders.towers import usable_device
from evenreel.errors import UsageError
from evenreel.evaluation import EvaluationSettings, Interval, evaluate, fuse, parse_metrics
from evenreel.evaluation.intervals import over_seeds
from evenreel.evaluation.metrics import Direction
from evenreel.features.load import with_pretrained_means
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.batches import row_lengths
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.registry import build_matcher
from evenreel.papers.study import Study, StudySettings, Table, Variant, Variants, paragraph, paragraphs
from evenreel.papers.workspace import CorpusPart, PartFolders, Workspace, with_streams
from evenreel.progress import Progress, each_part, part_of
from evenreel.report.figures import Line, Panel, deltas_by_group, sweep
from evenreel.report.result import ENOUGH, AuditFigure, AuditResult, AuditTable, Cell, Effect
from evenreel.training.batches import FeatureExamples, TrainingInputs, pairs_of
from evenreel.training.cost import Shape
from evenreel.training.loop import RunHooks, SelectionMeasure, TrainedModel, higher_is_better, tower_features
from evenreel.training.material import begun_with, spec_of, weighed
from evenreel.training.members import ALL, score_weights, tower_member_recipes, train_recipe
from evenreel.training.module import RetrievalModule
from evenreel.training.pixels import clip_files, load_pixels, pixel_examples, readable
from evenreel.training.recipe import MatcherChoice, Recipe, uses_of
from evenreel.training.run_folder import CLIPS_READ, MEMBERS
from evenreel.training.splits import (
    CorpusSplits,
    mirrors_of,
    needs_relevance,
    parts_of,
    trimmed_corpus,
    usable_part,
    with_other_clips,
)
from evenreel.types import Corpus, ScoreBlocks
from evenreel.wording import count

if TYPE_CHECKING:
    import plotly.graph_objects as go

Key = TypeVar("Key")
Row = TypeVar("Row", bound=Hashable)
Figure = TypeVar("Figure", bound=Hashable)

# what a study found, and how it is worded -----------------------------------------------------------------------------

PREFERENCE = "Normalized Δ MixR"
"""The figure that most studies of Generative Ghost are about."""
UNIT = "Normalized Δ, % (above 0: real clips first)"


def finding(
    sentence: str,
    effect: Effect,
    tables: Iterable[AuditTable],
    figures: Iterable[AuditFigure] = (),
    notices: Iterable[str] = (),
    method: Iterable[str] = (),
) -> AuditResult:
    """Return what a study found; `registry.run_study` adds its name, title, confidence and what was read."""
    return AuditResult("", "", sentence, effect, tuple(tables), tuple(figures), tuple(notices), tuple(method))


def but_few(few: str, found: AuditResult) -> AuditResult:
    """Put a sentence first that there are too few pairs or clips to conclude, unless it is empty."""
    effect = replace(found.effect, enough=not few)
    return replace(found, sentence=f"{few} {found.sentence}".strip(), effect=effect)


def few_pairs(corpus: Corpus, groups: Iterable[str]) -> str:
    """Return the sentence that groups have too few pairs of real clip and mirror to conclude; empty where none has."""
    sizes = {group: counterparts(corpus, group)["clip_id"].n_unique() for group in groups}
    named = ", ".join(f"{size} of {group}" for group, size in sizes.items() if size < ENOUGH)
    return f"Too few pairs of a real clip and its mirror to conclude: {named}." if named else ""


def few_clips(count: int) -> str:
    """Return the sentence that a number of clips with captions is too small to conclude; empty where it suffices."""
    return f"Too few clips with captions to conclude: {count}." if count < ENOUGH else ""


def few_seeds(settings: StudySettings) -> tuple[str, ...]:
    """Return the notice that one seed tells no difference from chance; nothing for more seeds."""
    if settings.seeds > 1:
        return ()
    return ("Trained with one seed, so nothing says which of the differences are chance; give --seeds 3 or more.",)


def effect_of(figure: Interval, name: str = PREFERENCE) -> Effect:
    """Return a figure with its interval as the effect of a study, whose neutral value is 0."""
    return Effect(name, figure.value, figure.low, figure.high)


def furthest(figures: Mapping[Key, Interval]) -> Key:
    """Return the key of the figure that is furthest from 0; the first of several.

    >>> furthest({"a": Interval(2.0), "b": Interval(-3.0)})
    'b'
    """
    return max(figures, key=lambda key: abs(figures[key].value))


def verdict(figure: Interval, more: str = "") -> str:
    """Say which clips a Normalized Δ favours, or with `more=" more"` a change of it.

    >>> verdict(Interval(-12.0, -20.0, -4.0)), verdict(Interval(3.0, -1.0, 7.0)), verdict(Interval(3.0), " more")
    ('favours generated clips', 'favours neither, as far as can be told,', 'seems to favour real clips more')
    """
    side = f"{'real' if figure.value > 0 else 'generated'} clips{more}"
    if figure.low is None or figure.high is None:
        return f"seems to favour {side}"
    return f"favours neither{more}, as far as can be told," if figure.low <= 0 <= figure.high else f"favours {side}"


def shown(figure: Interval) -> str:
    """Format a difference with its interval.

    >>> shown(Interval(-12.0, -20.0, -4.0)), shown(Interval(3.0))
    ('-12.0 (-20.0 to -4.0)', '+3.0')
    """
    value = f"{figure.value:+.1f}"
    return value if figure.low is None or figure.high is None else f"{value} ({figure.low:+.1f} to {figure.high:+.1f})"


def beside(change: Interval, other: str) -> str:
    """Format a change with its interval, what it is a change from, and whether it may be chance.

    >>> beside(Interval(2.0, -1.0, 5.0), "baseline"), beside(Interval(2.0, 1.0, 3.0), "baseline")
    ('+2.0 (-1.0 to +5.0) beside baseline, which may be chance', '+2.0 (+1.0 to +3.0) beside baseline')
    """
    return f"{shown(change)} beside {other}{', which may be chance' if may_be_chance(change) else ''}"


def may_be_chance(change: Interval) -> bool:
    """Check whether the interval of a change contains 0."""
    return change.low is not None and change.high is not None and change.low <= 0 <= change.high


Cells = Mapping[str, Cell | Interval]
"""A row of a table, by the heads of its columns."""
FigureRows = Iterable[tuple[Mapping[str, Cell], Mapping[str, Interval]]]
"""Cells by their heads that say whose figures they are, and the figures by their names."""


def figure_table(title: str, rows: FigureRows, value: str, note: str = "") -> AuditTable:
    """Make a table with a row for each figure and its interval.

    >>> figure_table("Changes", [({"row": "tcd", "less": "baseline"}, {"R@1": Interval(2.0, 1.0, 3.0)})], "change")
    AuditTable
    Changes
    row  less      figure  change  low   high
    tcd  baseline  R@1     2.00    1.00  3.00
    """
    cells = ({**own, "figure": name, value: figure} for own, figures in rows for name, figure in figures.items())
    return AuditTable.of(title, cells, note)


def change_bars(changes: Mapping[str, Mapping[str, Interval]], metric: str) -> go.Figure:
    return deltas_by_group({metric: {row: own[metric] for row, own in changes.items()}}, f"change of {metric}, points")


# figures over seeds ---------------------------------------------------------------------------------------------------

PERCENT = (0.0, 100.0)
"""The ends of a share."""


def by_row(measured: Iterable[tuple[Row, Key]]) -> dict[Row, list[Key]]:
    """Gather what was measured of the rows of a table, seed after seed, by row; rows in the order they first come.

    >>> by_row([("a", 1), ("b", 2), ("a", 3)])
    {'a': [1, 3], 'b': [2]}
    """
    found: dict[Row, list[Key]] = {}
    for row, one in measured:
        found.setdefault(row, []).append(one)
    return found


@dataclass(frozen=True, eq=False)
class SeededRuns(Generic[Row, Figure]):
    """Figures of the rows of a table, measured once with each seed, as means and changes with Student's intervals.

    `ends` are the least and greatest value that a figure can have, where these are not 0 and 100.
    """

    rows: Mapping[Row, Sequence[Mapping[Figure, float]]]
    confidence: float
    ends: Mapping[Figure, tuple[float, float]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def mean(self, row: Row, figure: Figure) -> Interval:
        """Return the mean of a figure of a row over its seeds, with its interval."""
        return over_seeds([run[figure] for run in self.rows[row]], self.confidence, self.ends.get(figure, PERCENT))

    def means(self, row: Row) -> dict[Figure, Interval]:
        """Return the mean of each figure of a row."""
        return {figure: self.mean(row, figure) for figure in self.rows[row][0]}

    def changes(self, before: Row, after: Row) -> dict[Figure, Interval]:
        """Return how each figure changes from one row to another with the same seed.

        >>> rows = {"a": [{"R@1": 20.0}, {"R@1": 22.0}], "b": [{"R@1": 21.0}, {"R@1": 23.0}]}
        >>> SeededRuns(rows, 0.95).changes("a", "b")
        {'R@1': Interval(value=1.0, low=1.0, high=1.0)}
        """
        pairs = list(zip(self.rows[before], self.rows[after], strict=True))
        figures = self.rows[before][0]
        return {one: over_seeds([new[one] - old[one] for old, new in pairs], self.confidence) for one in figures}

    def changes_beside(self, before: Row) -> dict[Row, dict[Figure, Interval]]:
        """Return how each figure of every other row differs from that of one row with the same seed."""
        return {row: self.changes(before, row) for row in self.rows if row != before}


# what is measured -----------------------------------------------------------------------------------------------------

WAYS: dict[str, Direction] = {"T2V": "t2v", "V2T": "v2t"}
BOTH, MEAN = "Rsum both ways", "AVG"
"""R@1, R@5 and R@10 of both ways, added up; and the mean of a metric of both ways."""
GRADED = {"nDCG": "nDCG@R", "mAP-EPIC": "mAP-EPIC", "mAP": "mAP"}
"""Columns by degrees of relevance (classes of verbs and nouns), and their metrics. The frame-length paper's nDCG is cut
after as many places as a query has relevant items (section 4); its mAP is that of the scripts of EPIC-KITCHENS-100,
`mAP-EPIC`, in which precision sums degrees of relevance."""
_ENDS = {"Rsum": (0.0, 300.0), "MedR": (1.0, np.inf), "MeanR": (1.0, np.inf)}


def ends_of(names: Iterable[str]) -> dict[str, tuple[float, float]]:
    own = {name: (0.0, 600.0) if name == BOTH else _ENDS.get(name.split()[0]) for name in names}
    return {name: ends for name, ends in own.items() if ends is not None}


def figures_of(scores: ScoreBlocks, corpus: Corpus, names: Sequence[str]) -> dict[str, float]:
    """Measure recall in percent, ranks and graded relevance, of queries both ways.

    Args:
        scores: scores of every caption and clip of the corpus.
        corpus: corpus that the scores are of.
        names: a metric of `evenreel.evaluation` and a way of `WAYS`, such as `R@1 T2V`, or without one from text to
            video; `BOTH`; one of `GRADED` with a way or `AVG`.
    """
    found: dict[str, float] = {}
    metrics = dict.fromkeys(name.split()[0] for name in names)
    for graded in (False, True):
        own = [metric for metric in metrics if (metric in GRADED) == graded]
        if not own:
            continue
        settings = EvaluationSettings(parse_metrics([GRADED.get(metric, metric) for metric in own]), resamples=0)
        found_by = evaluate(scores, corpus, settings, relevance="classes-iou" if graded else "clip")
        measured = found_by.directions
        for metric in own:
            ways = {way: measured[key].summary[GRADED.get(metric, metric)].value for way, key in WAYS.items()}
            found |= {f"{metric} {way}": value for way, value in ways.items()}
            found |= {metric: ways["T2V"], f"{metric} {MEAN}": float(np.mean([ways["V2T"], ways["T2V"]]))}
    if BOTH in names:
        found[BOTH] = sum(found[f"Rsum {way}"] for way in WAYS)
    return {name: found[name] for name in names}


# rows with seeds ------------------------------------------------------------------------------------------------------

SEEDS_APART = 1000
"""Between trainings of a row: the members of an ensemble take the seeds that follow, and rows that shared members with
those of the next seed would not be independent, as the intervals over seeds take them to be."""
STARTS_READY = ("mean_pool", "temporal")
"""Matchers that rank by the towers' own similarities before they are trained."""


def each_seed(rows: Collection[str], seeds: range, progress: Progress) -> Iterator[tuple[str, int, Progress]]:
    """Yield every row with every seed, all rows of one seed after each other, and the progress of each.

    When the next one is asked for, the one before is done.

    >>> [(row, seed) for row, seed, _ in each_seed(["a", "b"], range(2), lambda share: None)]
    [('a', 0), ('b', 0), ('a', 1), ('b', 1)]
    """
    for (seed, row), share in each_part(list(product(seeds, rows)), progress):
        yield row, seed, share


def run_name(row: str) -> str:
    """Return the name of the folder in which the runs of a row of a table are kept.

    >>> run_name("RmvAll"), run_name("20 % generated")
    ('rmvall', '20-generated')
    """
    return re.sub(r"[^a-z0-9]+", "-", row.lower())


class TrainingRun(NamedTuple):
    """A row of a table, trained with one seed in a folder; `clips_read` remembers which clips can be read."""

    row: str
    seed: int
    folder: Path
    progress: Progress = lambda share: None
    clips_read: Path | None = None


class FineTuned(NamedTuple):
    """A matcher, and the test split as it takes it: by its own towers, where these were trained."""

    matcher: Matcher
    test: CorpusPart


@dataclass(frozen=True, eq=False)
class TrainingOutcome:
    """One training of a row of a table: its matcher, its test split and the clips that it learned from.

    `test` is the split that is searched as the matcher takes it, and `seen` makes any split so, by towers of its own
    where these were trained. `learned` is after trimming, and of all members together. `members` are those with towers
    of their own, of which `trained` and `test` are the first's, and `weights` those of their scores.
    """

    row: str
    seed: int
    trained: TrainedModel
    test: CorpusPart
    learned: Corpus
    seen: Callable[[CorpusPart], CorpusPart]
    notices: tuple[str, ...] = ()
    members: tuple[TrainingOutcome, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def matcher(self) -> Matcher:
        """Return the matcher with the weights that were selected; of several members, the first one's."""
        return self.trained.matcher

    @property
    def clips(self) -> int:
        """Return how many clips were learned from; of a member of one stratum, those of the stratum."""
        return sum(one.clips for one in self.trained.strata) or self.learned.clips.height

    @property
    def cost(self) -> int:
        """Return how often the matcher encodes a caption and a clip; as many galleries are kept."""
        return (len(self.members) or 1) * encodings(self.trained.spec)

    def scores(self) -> ScoreBlocks:
        """Score every caption and clip of the test split; of members with their own features, by their weighted sum."""
        if self.members:
            return fuse({one.row: one.scores() for one in self.members}, "sum", weights=self.weights)
        return self.test.scores(self.matcher)


def each_outcome(
    variants: Mapping[str, Variant],
    material: Workspace,
    settings: StudySettings,
    progress: Progress,
    *,
    selects: bool = True,
) -> Iterator[TrainingOutcome]:
    """Train each row with each seed, all rows of one seed after each other, in folders by their names.

    A row that is a member of another one, which stands before it, is not trained again. Without `selects` all clips are
    learned from to the last step, and seeds are 0, 1, 2, ...
    """
    for name, variant in variants.items():
        if variant.recipe.backbone is not None and reads_graphs(spec_of(variant.recipe)):
            raise UsageError(
                f"The matcher {variant.recipe.matcher.name} of the row {name!r} reads captions as role graphs and not "
                "as a text tower does; leave 'backbone' out, or set matcher.name to another."
            )
    parents = {variant.member.row for variant in variants.values() if variant.member is not None}
    wholes: dict[str, TrainingOutcome] = {}
    with tempfile.TemporaryDirectory() if settings.runs is None else nullcontext(settings.runs) as place:
        for row, seed, share in each_seed(variants, range(settings.seeds), progress):
            variant, folder = variants[row], Path(place) / run_name(row) / f"seed-{seed}"
            if variant.member is None:
                recipe = variant.recipe
                recipe = replace(recipe, loop=replace(recipe.loop, seed=seed * (SEEDS_APART if selects else 1)))
                run = TrainingRun(row, seed, folder, share, Path(place) / CLIPS_READ)
                outcome = trained_row(run, replace(variant, recipe=recipe), material, selects=selects)
            else:
                outcome = _member(row, wholes[variant.member.row], variant.member.number)
            if row in parents:
                wholes[row] = outcome
            yield outcome


def each_trained(
    kinds: Mapping[str, Recipe], material: Workspace, settings: StudySettings, progress: Progress
) -> Iterator[tuple[str, int, FineTuned]]:
    """Train one matcher by each recipe with each seed on all clips to the last step, as studies of mirrors do."""
    for recipe in kinds.values():
        others = (recipe.trim, recipe.members, recipe.likeness, recipe.backgrounds, recipe.data.words)
        if any(one is not None for one in others):
            raise UsageError(
                "This study trains one matcher on all clips of a split as they are: set trim, members, "
                "likeness, backgrounds and data.words to null."
            )
    variants = {name: Variant(recipe) for name, recipe in kinds.items()}
    for one in each_outcome(variants, material, settings, progress, selects=False):
        yield one.row, one.seed, FineTuned(one.matcher, one.test)


def begins_ready(recipe: Recipe, material: Workspace) -> bool:
    """Whether a matcher ranks before it is trained."""
    return material.start is not None or recipe.matcher.name in STARTS_READY


def before_training(recipe: Recipe, material: Workspace) -> Matcher:
    """Return the matcher that every training begins as: the checkpoint's, or the recipe's, without its adapter."""
    if material.start is not None:
        return material.start.matcher
    if not begins_ready(recipe, material):
        raise UsageError(
            f"The matcher {recipe.matcher.name} begins with random numbers, so there is nothing to compare its "
            f"training with; set matcher.name to {' or '.join(STARTS_READY)}."
        )
    return build_matcher(recipe.matcher.name, material.learning()[1].videos.frames.shape[-1], recipe.matcher.settings)


def trained_row(run: TrainingRun, variant: Variant, material: Workspace, *, selects: bool) -> TrainingOutcome:
    """Train a row in its folder, with the seed of its recipe; members with towers of their own one after the other."""
    recipe = variant.recipe
    if not recipe.has_tower_members:
        return _single(run, variant, material, selects=selects)
    recipes, trained = tower_member_recipes(recipe), dict[str, TrainingOutcome]()
    for place, (name, one) in enumerate(recipes.items()):
        progress = part_of(run.progress, place, len(recipes))
        own = run._replace(row=f"{run.row}, {name}", folder=run.folder / MEMBERS / name, progress=progress)
        begun = trained[ALL].trained if ALL in trained else None
        trained[name] = _single(own, replace(variant, recipe=one), material, begun, selects=selects)
    members = tuple(one for name, one in trained.items() if name != ALL)
    return replace(
        members[0],
        row=run.row,
        trained=replace(members[0].trained, strata=tuple(part for one in members for part in one.trained.strata)),
        notices=tuple(dict.fromkeys(notice for one in members for notice in one.notices)),
        members=members,
        weights=score_weights(recipe, [one.trained for one in members]),
    )


def _member(name: str, whole: TrainingOutcome, number: int) -> TrainingOutcome:
    """A member of a training as a row of its own."""
    if whole.members:
        return replace(whole.members[number - 1], row=name)
    place = slice(number - 1, number)
    (alone,) = whole.trained.members[place]
    return replace(whole, row=name, trained=replace(alone, strata=whole.trained.strata[place]))


def _single(
    run: TrainingRun, variant: Variant, material: Workspace, begun: TrainedModel | None = None, *, selects: bool
) -> TrainingOutcome:
    """Train one matcher; `begun` is a training through towers whose weights all of it begins with."""
    recipe = variant.recipe
    splits = splits_of(recipe, material, selects=selects)
    if variant.narrowed is not None:
        splits = splits._replace(learned=splits.learned.only(variant.narrowed(splits.learned.corpus)))
    if recipe.backbone is None:
        learning = learning_of(recipe, splits, material)
    else:
        learning, splits = _pixels_of(recipe, splits, run)
        if begun is not None and learning.towers is not None and begun.towers is not None:
            learning.towers.model.load_state_dict(begun.towers.model.state_dict())
            learning = replace(learning, start=kept_weights(begun.matcher), start_spec=begun.spec)
    selected = splits.selected
    hooks = RunHooks(
        None if selected is None else SelectionMeasure(recipe.selection, selected.corpus),
        higher_is_better(recipe),
        lambda step, steps, figures: run.progress(step / steps),
        resume=True,
    )
    trained = train_recipe(recipe, learning, run.folder, hooks)
    module(trained.matcher).to(usable_device(recipe.loop.device, "float32"))  # training leaves it in main memory

    def seen(part: CorpusPart) -> CorpusPart:
        if recipe.backbone is not None:
            return seen_by(trained, recipe, part, run.clips_read)
        searched = with_streams(part, material.streams, recipe.data.streams).worded(recipe.data.words)
        return searched.only(searched.corpus)

    _, test = material.learning()
    searched = seen(test)
    notices = tuple(f"{run.row}: {notice}" for notice in splits.notices) if run.seed == 0 else ()
    if recipe.backbone is not None and (lost := len(test.videos.ids) - len(searched.videos.ids)):
        notices += (f"{run.row}: {count(lost, 'clip')} to search cannot be read.",)
    return TrainingOutcome(run.row, run.seed, trained, searched, splits.learned.corpus, seen, notices)


class Splits(NamedTuple):
    """What a training learns from and what its weights are selected on (None for no selection), with notices.

    `mirrors` is, with `debias`, the generated clip of each real one; `part` then has features of them all.
    """

    learned: CorpusPart
    selected: CorpusPart | None
    notices: tuple[str, ...]
    part: CorpusPart
    mirrors: Mapping[str, str] | None = None


def splits_of(recipe: Recipe, material: Workspace, *, selects: bool = True) -> Splits:
    """Return the clips that a recipe learns from, after trimming, and those that it is selected on.

    Its `data` says what is held out, and which streams are used; its names of splits are not looked at.
    """
    train, _ = material.learning()
    train = with_streams(train, material.streams, recipe.data.streams)
    words = recipe.data.words if recipe.backbone is None else None  # towers read the changed words themselves
    to_learn, selected = train.worded(None if words is None else words.learned), None
    data = replace(recipe.data, train=train.corpus.clips["split"][0], validation=None)
    if selects and material.validation is not None:
        learned = to_learn
        selected = with_streams(material.validation, material.streams, recipe.data.streams).worded(words)
    else:
        own = data if selects else replace(data, held_out=0.0)
        corpus, kept = parts_of(train.corpus, own, recipe.loop.seed)
        learned, selected = to_learn.only(corpus), None if kept is None else train.only(kept).worded(words)
    notices = tuple(f"It uses {use}." for use in uses_in(spec_of(recipe)))
    if recipe.trim is not None:
        split = recipe.trim.target
        target = selected.corpus if split is None and selected else select(material.whole, split=split)
        trimmed = trimmed_corpus(learned.corpus, target, recipe.trim, recipe.loop.seed)
        learned = learned.only(trimmed.corpus)
        idle = () if trimmed.clips else paragraphs("shared", "Nothing trimmed")
        notices += (trimmed.sentence, *idle, *(f"It uses {use}." for use in uses_of(recipe)))
    mirrors = None if recipe.debias is None else mirrors_of(train.corpus, recipe.data.generated_group)
    return Splits(learned, selected, notices, to_learn, mirrors)


def learning_of(recipe: Recipe, splits: Splits, material: Workspace) -> TrainingInputs:
    """Return the inputs of a training by a recipe on features of its splits (`splits_of`)."""
    learned, selected = splits.learned, splits.selected
    whole = learned if splits.mirrors is None else splits.part  # with the clips that mirror those learned from
    part = replace(whole, corpus=learned.corpus)
    read = TrainingInputs(
        _examples(part, splits.mirrors, relevance=needs_relevance(recipe)),
        learned.videos.frames.shape[-1],
        None if selected is None else _examples(selected),
        weights_hash=material.weights_hash,
    )
    return begun_with(weighed(recipe, read, whole.corpus), material.start)


def _examples(
    part: CorpusPart, mirrors: Mapping[str, str] | None = None, *, relevance: bool = False
) -> FeatureExamples:
    pairs = pairs_of(part.corpus, part.texts.ids, part.videos.ids, mirrors, relevance)
    return FeatureExamples(pairs, part.texts, part.videos)


def batch_shape(recipe: Recipe, learning: TrainingInputs, material: Workspace) -> Shape:
    """Return the shape of a batch of captions and clips as long as the longest ones of the training split."""
    videos, texts = material.learning()[0].videos, material.learning()[0].texts
    frames, words = (int(row_lengths(mask).max()) for mask in (videos.frame_mask, texts.word_mask))
    windows = 0 if videos.on_screen is None else videos.on_screen.mask.shape[1]
    return Shape(learning.dimension, recipe.loop.batch_size, frames, words, windows)


def training_told(recipe: Recipe, material: Workspace) -> str:
    """Say by which recipe and selection all rows of a table are trained, for the paragraphs on method."""
    if material.validation is not None:
        selected = f"the best by {recipe.selection.metric} on the split {recipe.data.validation}"
    elif recipe.data.held_out:
        selected = f"the best by {recipe.selection.metric} on {recipe.data.held_out:.0%} of the training videos"
    else:
        selected = "those of the last step, since nothing was kept to select on"
    backbone = recipe.backbone
    towers = (
        f" Each row trains towers of its own, {backbone.model} before, and is searched by the features that they make."
        if backbone is not None and backbone.train
        else ""
    )
    return (
        f"All rows are trained by the recipe {recipe.name} with the same seeds but for what their names say; the "
        f"weights are {selected}.{towers}"
    )


# where training begins, and towers ------------------------------------------------------------------------------------


def begun(study: Study, recipe: Recipe, material: Workspace) -> Recipe:
    """Return a study's recipe, ready for what it works on, or refuse it before anything is trained.

    It has the matcher and the adapter of the checkpoint that training begins with, if there is one, and where it trains
    towers the folders of the clips. Features then say which clips and captions can be used, which words are on screen
    (`data.on_screen`), and how towers saw clips before training, to select scene elements (`data.pretrained_features`).
    """
    check_towers(study, recipe)
    if material.start is not None:
        if recipe.backbone is not None:
            raise _begins_with_towers(recipe)
        spec = material.start.spec
        inner = spec.wrapped[0] if spec.wrapped else spec
        if spec is not inner and (spec.name != "adapted" or inner.wrapped):
            raise UsageError(
                f"A study's training begins with one matcher, with an adapter or without, and this checkpoint is of "
                f"{spec.name} around {inner.name}; begin with another."
            )
        adapter = None if spec is inner else AdapterSettings(**spec.settings)
        return replace(recipe, matcher=MatcherChoice(inner.name, dict(inner.settings)), adapter=adapter)
    if recipe.start is not None:
        raise UsageError(f"The recipe begins with {recipe.start}; give the material that checkpoint as its start.")
    if recipe.backbone is None:
        return recipe
    train, _ = material.learning()
    _, folder = locate(recipe.backbone.model)
    if material.weights_hash not in (None, open_checkpoint(folder).digest()):
        raise UsageError(
            f"The recipe trains {recipe.backbone.model} (backbone.model), and the features are of another encoder or "
            "of other weights; give those that it makes before training (`evenreel features --model "
            f"{recipe.backbone.model}`)."
        )
    return placed(recipe, _folders_of(train))


def check_towers(study: Study, recipe: Recipe) -> None:
    """Check, before anything is read, that a study can train towers where its recipe does."""
    if recipe.backbone is None:
        return
    if study.frozen:
        raise UsageError(
            f"The recipe {recipe.name!r} trains towers, and {study.name} {study.frozen}: it works on features computed "
            "once; leave 'backbone' out."
        )
    if recipe.start is not None:
        raise _begins_with_towers(recipe)


def _begins_with_towers(recipe: Recipe) -> UsageError:
    return UsageError(
        f"The recipe {recipe.name!r} trains towers, and studies that do so begin with a fresh matcher: leave 'start' "
        "(--start) out; a checkpoint's encoder can be named as backbone.model."
    )


def _folders_of(part: CorpusPart) -> PartFolders:
    if part.folders is None:
        raise UsageError(
            "This study trains towers, which look at the clips themselves; give it parts that know where these are "
            "(folders)."
        )
    return part.folders


def placed(recipe: Recipe, folders: PartFolders) -> Recipe:
    """Return a recipe with a backbone that finds its clips, and of their features what its matcher asks for."""
    backbone, features = recipe.backbone, str(folders.features)
    reads = reads_windows(spec_of(recipe))
    data = replace(
        recipe.data,
        features=None,
        videos=str(folders.videos),
        pretrained_features=features if backbone is not None and backbone.train else None,
        on_screen=features if reads else None,
        words=recipe.data.words if reads else None,
    )
    return replace(recipe, data=data)


def _pixels_of(recipe: Recipe, splits: Splits, run: TrainingRun) -> tuple[TrainingInputs, Splits]:
    """What a row with towers learns from, as `evenreel train` loads it, and its splits without unreadable clips."""
    learned, selected, mirrors = splits.learned, splits.selected, splits.mirrors
    corpus = learned.corpus if mirrors is None else with_other_clips(learned.corpus, splits.part.corpus, mirrors)
    parts = CorpusSplits(corpus, None if selected is None else selected.corpus, mirrors, needs_relevance(recipe))
    own = placed(recipe, _folders_of(learned))
    assert own.backbone is not None
    read = load_pixels(own, own.backbone, parts, run.progress, run.clips_read)
    usable = learned.only(select(learned.corpus, where=pl.col("clip_id").is_in(list(read.examples.pairs.clip_ids))))
    kept = None if selected is None or read.selected is None else selected.only(read.selected)
    lost = count(len(read.set_aside), "clip")
    told = (f"{lost} to learn from or to select on cannot be read.",) if read.set_aside else ()
    learning = weighed(recipe, read, corpus)
    return learning, splits._replace(learned=usable, selected=kept, notices=splits.notices + told)


def seen_by(trained: TrainedModel, recipe: Recipe, part: CorpusPart, verdicts: Path | None) -> CorpusPart:
    """Return a part with the features that trained towers make of it, as `evenreel features` does by a checkpoint."""
    folders, own = _folders_of(part), placed(recipe, _folders_of(part))
    if own.backbone is None or trained.towers is None:
        return part
    towers = trained.towers.towers
    whole = replace(own, backbone=replace(own.backbone, max_words=towers.longest_caption))
    clips, aside = readable(clip_files(part.corpus, folders.videos), own.backbone.rule, verdicts=verdicts)
    there = {file.clip_id: file for file in clips}
    corpus = usable_part(part.corpus, there, aside)
    network = RetrievalModule(trained.matcher, trained.towers, recipe, steps=1)
    network.to(usable_device(recipe.loop.device, "float32"))
    texts, videos = tower_features(network, pixel_examples(whole, towers, corpus, there), recipe.loop.workers)
    if trained.towers.learns and trained.matcher.limits.pretrained_mean:
        videos = with_pretrained_means(videos, folders.features, corpus)
    return replace(part, corpus=corpus, texts=texts, videos=videos)


# tables of trainings --------------------------------------------------------------------------------------------------


def measured_trainings(
    variants: Variants,
    material: Workspace,
    settings: StudySettings,
    progress: Progress,
    measure: Callable[[TrainingOutcome], Mapping[Row, Mapping[Figure, float]]],
    ends: Mapping[Figure, tuple[float, float]],
) -> SeededRuns[Row, Figure]:
    """Train each variant with each seed, and return its figures.

    `measure` returns the figures of a training by the row of the table that they belong to; most return one row.
    """
    notices: dict[str, None] = {}
    found: dict[Row, list[Mapping[Figure, float]]] = {}
    for one in each_outcome(variants, material, settings, progress):
        notices |= dict.fromkeys(one.notices)
        for row, figures in measure(one).items():
            found.setdefault(row, []).append(figures)
    return SeededRuns(found, settings.audit.confidence, ends, tuple(notices))


def changes_of(variants: Variants, runs: SeededRuns[str, Figure]) -> dict[str, dict[Figure, Interval]]:
    """Return how each figure of each row differs from that of the row it is compared with, seed by seed."""
    compared = ((name, variant.against) for name, variant in variants.items())
    return {name: runs.changes(against, name) for name, against in compared if against is not None}


def compared_trainings(
    table: Table, paper: str, material: Workspace, settings: StudySettings, progress: Progress
) -> AuditResult:
    """Make a table of trainings: train and measure each row, and compare it with the row it names, seed by seed."""
    _, test = material.learning()
    main, variants = table.main or table.metrics[0], table.variants(material, settings)
    if any(name.split()[0] in GRADED for name in table.metrics):  # refuses a corpus without classes
        class_relevance(
            test.corpus, test.corpus.captions["caption_id"].to_list(), test.corpus.clips["clip_id"].to_list()
        )
    clips: dict[str, list[int]] = {}
    costs: dict[str, int] = {}

    def measure(one: TrainingOutcome) -> dict[str, dict[str, float]]:
        clips.setdefault(one.row, []).append(one.clips)
        costs[one.row] = one.cost
        return {one.row: figures_of(one.scores(), one.test.corpus, table.metrics)}

    runs = measured_trainings(variants, material, settings, progress, measure, ends_of(table.metrics))
    changes = changes_of(variants, runs)
    lead = table.lead or furthest({name: own[main] for name, own in changes.items()})
    picked = () if table.lead else paragraphs("shared", "The largest change")
    means: Iterable[Cells] = (
        {
            "training": name,
            "clip encodings": cost,
            "training clips": round(float(np.mean(clips[name]))),
            **{metric: runs.mean(name, metric).value for metric in table.metrics},
        }
        for name, cost in costs.items()
    )
    return finding(
        " ".join(
            f"{name}: {main} {runs.mean(name, main).value:.1f}, {beside(own[main], str(variants[name].against))}; "
            f"each clip is encoded {'once' if costs[name] == 1 else f'{costs[name]} times'}."
            for name, own in changes.items()
        ),
        effect_of(changes[lead][main], f"Change of {main}: {lead} less {variants[lead].against}"),
        (
            AuditTable.of(
                "What each training gives",
                means,
                "Means over seeds. As many galleries are kept as a clip is encoded times.",
            ),
            *seeded_tables(
                (
                    ({"training": name, "less": variants[name].against, "clip encodings": costs[name]}, figures)
                    for name, figures in changes.items()
                ),
                (({"training": name}, runs.means(name)) for name in runs.rows),
                settings,
            ),
        ),
        (
            *(AuditFigure(name, partial(_sweep, runs, table, name)) for name in table.sweeps),
            AuditFigure(f"Change of {main}", partial(change_bars, changes, main)),
        ),
        (*few_seeds(settings), *runs.notices),
        (
            paragraph(paper, "Measures"),
            training_told(settings.recipe, material),
            *paragraphs(paper, *table.notes),
            *picked,
        ),
    )


def seeded_tables(changes: FigureRows, means: FigureRows, settings: StudySettings) -> tuple[AuditTable, AuditTable]:
    """Make tables of how each figure changes from one training to another, and of their means, with intervals."""
    note = paragraph("shared", "Intervals over seeds", seeds=settings.seeds)
    return (
        figure_table("What each changes, seed by seed", changes, "change", note),
        figure_table("Every figure with its interval", means, "mean", note),
    )


def _sweep(runs: SeededRuns[str, str], table: Table, name: str) -> go.Figure:
    """Each metric over one number that rows differ in; the axis is logarithmic where that is a hundredfold."""
    rows = table.sweeps[name]
    means = {value: runs.means(row) for value, row in rows.items() if row in runs.rows}
    parts: dict[str, dict[str, Line]] = {}
    for metric in table.drawn:
        unit = "sum of recalls, %" if metric.startswith("Rsum") else "%"
        parts.setdefault(unit, {})[metric] = [(value, own[metric]) for value, own in means.items()]
    figure = sweep([Panel("", unit, own) for unit, own in parts.items()], name)
    if 0 < 100 * min(rows) <= max(rows):
        figure.update_xaxes(type="log", dtick=1)
    return figure
