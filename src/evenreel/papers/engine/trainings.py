"""Training of the rows of a table, with the splits and the selection that `evenreel train` has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import polars as pl

from evenreel.checkpoint import Pretrained
from evenreel.checkpoint.architecture import encodings, module, uses_in
from evenreel.corpus import select
from evenreel.encoders.towers import usable_device
from evenreel.evaluation import fuse
from evenreel.matchers.batches import row_lengths
from evenreel.matchers.matcher import Matcher
from evenreel.papers.engine.inputs import LearningInputs
from evenreel.papers.engine.material import CorpusPart, with_streams
from evenreel.papers.engine.runs import TrainingRun, each_run
from evenreel.papers.engine.settings import TrainingSettings
from evenreel.papers.engine.towers import begun_with_towers, check_rows, read_clips, seen_by
from evenreel.papers.engine.variants import Variant
from evenreel.papers.engine.words import paragraphs
from evenreel.progress import Progress, part_of
from evenreel.training.batches import FeatureExamples, TrainingInputs, pairs_of
from evenreel.training.cost import Shape
from evenreel.training.loop import RunHooks, SelectionMeasure, TrainedModel, higher_is_better
from evenreel.training.material import begun_with, spec_of, weighed
from evenreel.training.members import ALL, score_weights, tower_member_recipes, train_recipe
from evenreel.training.recipe import Recipe, uses_of
from evenreel.training.run_folder import MEMBERS
from evenreel.training.splits import CorpusSplits, needs_relevance, parts_of, trimmed_corpus
from evenreel.types import Corpus, ScoreBlocks
from evenreel.wording import count

SEEDS_APART = 1000
"""Between trainings of a row: the members of an ensemble take the seeds that follow, and rows that shared members with
those of the next seed would not be independent, as the intervals over seeds take them to be."""


@dataclass(frozen=True, eq=False)
class TrainingOutcome:
    """One training of a row of a table: its matcher, its test split and the clips that it learned from.

    Attributes:
        row: name of the row.
        seed: number of the seed.
        trained: the matcher, with the weights that were selected, and its members.
        test: the split that is searched, as the matcher takes it.
        learned: what was learned from, after trimming; by all members together.
        seen: makes any split as the matcher takes it, by towers of its own where these were trained.
        notices: sentences on how it was trained.
        members: outcomes of members with towers of their own, of which `matcher` and `test` are the first's; empty for
            a training with one matcher.
        weights: weight of each member's scores.
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


class Splits(NamedTuple):
    """The splits that a training learns from and is selected on, with their notices.

    Attributes:
        learned: clips and captions with their features.
        selected: clips and captions that weights are selected on; None for no selection.
        notices: sentences on how the splits were made.
    """

    learned: CorpusPart
    selected: CorpusPart | None
    notices: tuple[str, ...]


def each_outcome(
    variants: Mapping[str, Variant], material: LearningInputs, settings: TrainingSettings, progress: Progress
) -> Iterator[TrainingOutcome]:
    """Train each row with each seed, all rows of one seed after each other.

    A run that is there goes on, and one that is over is read; studies whose rows are alike share them. A row that is a
    member of another one is not trained again.

    Args:
        variants: rows by name, which is also that of the folder of their runs; a row after the one that it is a member
            of.
        material: what is learned from, and what is searched.
        settings: seeds, and where runs are kept.
        progress: called with the share that is done.

    Yields:
        Every row with every seed.
    """
    check_rows({name: variant.recipe for name, variant in variants.items()})
    parents = {variant.member.row for variant in variants.values() if variant.member is not None}
    wholes: dict[str, TrainingOutcome] = {}
    for run in each_run(variants, settings, progress):
        variant = variants[run.row]
        if variant.member is None:
            outcome = _outcome(run, variant, material)
        else:
            outcome = _member(run.row, wholes[variant.member.row], variant.member.number)
        if run.row in parents:
            wholes[run.row] = outcome
        yield outcome


def _member(name: str, whole: TrainingOutcome, number: int) -> TrainingOutcome:
    """A member of a training as a row of its own."""
    if whole.members:
        return replace(whole.members[number - 1], row=name)
    place = slice(number - 1, number)
    (alone,) = whole.trained.members[place]
    return replace(whole, row=name, trained=replace(alone, strata=whole.trained.strata[place]))


def training_told(recipe: Recipe, material: LearningInputs) -> str:
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


def few_seeds(settings: TrainingSettings) -> tuple[str, ...]:
    """Return the notice that one seed tells no difference from chance; nothing for more seeds."""
    if settings.seeds > 1:
        return ()
    return ("Trained with one seed, so nothing says which of the differences are chance; give --seeds 3 or more.",)


def _outcome(run: TrainingRun, variant: Variant, material: LearningInputs) -> TrainingOutcome:
    recipe = replace(variant.recipe, loop=replace(variant.recipe.loop, seed=run.seed * SEEDS_APART))
    if not recipe.has_tower_members:
        return _single(run, replace(variant, recipe=recipe), material)
    recipes, trained = tower_member_recipes(recipe), dict[str, TrainingOutcome]()
    for place, (name, one) in enumerate(recipes.items()):
        progress = part_of(run.progress, place, len(recipes))
        own = run._replace(row=f"{run.row}, {name}", folder=run.folder / MEMBERS / name, progress=progress)
        begun = trained[ALL].trained if ALL in trained else None
        trained[name] = _single(own, replace(variant, recipe=one), material, begun)
    members = tuple(one for name, one in trained.items() if name != ALL)
    return replace(
        members[0],
        row=run.row,
        trained=replace(members[0].trained, strata=tuple(part for one in members for part in one.trained.strata)),
        notices=tuple(dict.fromkeys(notice for one in members for notice in one.notices)),
        members=members,
        weights=score_weights(recipe, [one.trained for one in members]),
    )


def _single(
    run: TrainingRun, variant: Variant, material: LearningInputs, begun: TrainedModel | None = None
) -> TrainingOutcome:
    """Train one matcher; `begun` is a training through towers whose weights all of it begins with."""
    recipe = variant.recipe
    splits = splits_of(recipe, material)
    if variant.narrowed is not None:
        splits = splits._replace(learned=splits.learned.only(variant.narrowed(splits.learned.corpus)))
    if recipe.backbone is None:
        learning = learning_of(recipe, splits, material.start, material.weights_hash)
    else:
        learning, splits = _pixels_of(recipe, splits, run)
        learning = learning if begun is None else begun_with_towers(learning, begun)
    trained = _trained(recipe, learning, splits.selected, run)
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


def _pixels_of(recipe: Recipe, splits: Splits, run: TrainingRun) -> tuple[TrainingInputs, Splits]:
    """Return what a row with towers learns from, and its splits without clips that cannot be read."""
    learned, selected = splits.learned, splits.selected
    parts = CorpusSplits(learned.corpus, None if selected is None else selected.corpus)
    read = read_clips(recipe, learned, parts._replace(relevance=needs_relevance(recipe)), run)
    there = pl.col("clip_id").is_in(list(read.examples.pairs.clip_ids))
    usable = learned.only(select(learned.corpus, where=there))
    kept = None if selected is None or read.selected is None else selected.only(read.selected)
    lost = (
        (f"{count(len(read.set_aside), 'clip')} to learn from or to select on cannot be read.",)
        if read.set_aside
        else ()
    )
    return weighed(recipe, read, usable.corpus), Splits(usable, kept, splits.notices + lost)


def splits_of(recipe: Recipe, material: LearningInputs) -> Splits:
    """Return the clips that a recipe learns from, after trimming, and those that it is selected on.

    Args:
        recipe: its `data` says what is held out, and which streams are used.
        material: splits with features; the recipe's names of them are not looked at.
    """
    learned, selected = _parts(recipe, material)
    notices = tuple(f"It uses {use}." for use in uses_in(spec_of(recipe)))
    if recipe.trim is not None:
        named = recipe.trim.target
        target = selected.corpus if named is None and selected else select(material.whole, split=named)
        trimmed = trimmed_corpus(learned.corpus, target, recipe.trim, recipe.loop.seed)
        learned = learned.only(trimmed.corpus)
        idle = () if trimmed.clips else paragraphs("shared", "Nothing trimmed")
        notices += (trimmed.sentence, *idle, *(f"It uses {use}." for use in uses_of(recipe)))
    return Splits(learned, selected, notices)


def _parts(recipe: Recipe, material: LearningInputs) -> tuple[CorpusPart, CorpusPart | None]:
    """The split that is learned from, and the split for selection or the share that is held out for it."""
    train, _ = material.learning()
    train = with_streams(train, material.streams, recipe.data.streams)
    words = recipe.data.words if recipe.backbone is None else None  # towers read the changed words themselves
    to_learn = train.worded(None if words is None else words.learned)
    if material.validation is not None:
        return to_learn, with_streams(material.validation, material.streams, recipe.data.streams).worded(words)
    own = replace(recipe.data, train=train.corpus.clips["split"][0], validation=None)
    learned, selected = parts_of(train.corpus, own, recipe.loop.seed)
    return to_learn.only(learned), None if selected is None else train.only(selected).worded(words)


def learning_of(
    recipe: Recipe, splits: Splits, start: Pretrained | None = None, weights_hash: str | None = None
) -> TrainingInputs:
    """Return the inputs of a training by a recipe on its splits.

    Args:
        recipe: recipe that the splits were made by (`splits_of`).
        splits: splits with features.
        start: checkpoint that training begins with; None for fresh weights.
        weights_hash: digest of the weights of the features' encoder; None where nobody says.
    """
    learned, selected = splits.learned, splits.selected
    examples = _examples(learned, relevance=needs_relevance(recipe))
    validation = None if selected is None else _examples(selected)
    read = TrainingInputs(examples, learned.videos.frames.shape[-1], validation, weights_hash=weights_hash)
    return begun_with(weighed(recipe, read, learned.corpus), start)


def batch_shape(recipe: Recipe, learning: TrainingInputs, material: LearningInputs) -> Shape:
    """Return the shape of a batch of captions and clips as long as the longest ones of the training split."""
    videos, texts = material.learning()[0].videos, material.learning()[0].texts
    frames, words = (int(row_lengths(mask).max()) for mask in (videos.frame_mask, texts.word_mask))
    windows = 0 if videos.on_screen is None else videos.on_screen.mask.shape[1]
    return Shape(learning.dimension, recipe.loop.batch_size, frames, words, windows)


def _trained(recipe: Recipe, learning: TrainingInputs, selected: CorpusPart | None, run: TrainingRun) -> TrainedModel:
    hooks = RunHooks(
        None if selected is None else SelectionMeasure(recipe.selection, selected.corpus),
        higher_is_better(recipe),
        lambda step, steps, figures: run.progress(step / steps),
        resume=True,
    )
    return train_recipe(recipe, learning, run.folder, hooks)


def _examples(part: CorpusPart, *, relevance: bool = False) -> FeatureExamples:
    pairs = pairs_of(part.corpus, part.texts.ids, part.videos.ids, relevance=relevance)
    return FeatureExamples(pairs, part.texts, part.videos)
