"""The rows of the evidence: worlds with a planted bias, how a row is trained or read on one, and what it finds.

A world of a bias is drawn by its seed and strength. A row is a `Model`, which says what changes of the plain recipe and
of what is learned from, or a function that trains or reads in another way. `Trainings` makes the rows of one world,
each model once. Cells, one row on one world each, are measured once and written down (`evenreel.papers.cells`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.over_seeds import mean
from benchmarks.worlds import SplitSizes, annotated_clips
from benchmarks.worlds.model import FeatureWorld
from evenreel.checkpoint.architecture import module
from evenreel.corpus import FORMATS, own_clip
from evenreel.evaluation import EvaluationSettings, evaluate, parse_metrics
from evenreel.evaluation.fusion import FusedScores, Validation, fuse
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.registry import build_matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.cells import Figures, Rows
from evenreel.training.batches import FeatureExamples, TrainingInputs, pairs_of
from evenreel.training.loop import RunHooks
from evenreel.training.material import drawn_alike
from evenreel.training.members import train_recipe
from evenreel.training.recipe import Data, Loop, MatcherChoice, Optimiser, Recipe, Records, Selection
from evenreel.training.splits import lengths_of, trimmed_corpus
from evenreel.types import Corpus, FloatArray, ScoreBlocks, Scores, TextFeatures, VideoFeatures

Kind = Literal["untrained", "baseline", "admission", "control", "published", "ours"]
SplitName = Literal["train", "val", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "val", "test")
STRENGTH = 0.9
METRICS = ("R@1", "mAP")
TRAINING_S, SEARCH_S = "training, s", "search, s"
"""Seconds of processor time: of all trainings of a row, and of scoring the test split."""
WORLD, ALL_S = "world", "all, s"
"""Figures of every row beside its own: checksum of what was drawn, seconds of processor time that the row took."""
BASELINE, REFERENCE, AGAIN, ORACLE = "baseline", "reference", "again", "oracle"
HALF, TWICE, NO_ADAPTER = "half the steps", "twice the steps", "no adapter"
ADMISSION = (REFERENCE, AGAIN, HALF, TWICE, NO_ADAPTER)
"""Rows that the rules of admission need beside the baseline and all of the kind `untrained`."""
BATCH = 128
EVALUATIONS = 10
"""Of each training, on its validation split."""
OTHER = 1_000
"""Added to the seed of a training that begins from other random numbers."""
LINEAR = AdapterSettings(kind="linear")
BARE = AdapterSettings(kind="none", windows=True)
"""Words on signs among the frames, and no maps that learn."""

Made = tuple[Matcher, float]
"""A trained matcher, and the seconds of processor time that it took."""


class Part(Protocol):
    """A split of a world: its clips with their captions, and the features of both."""

    @property
    def corpus(self) -> Corpus: ...
    @property
    def texts(self) -> TextFeatures: ...
    @property
    def videos(self) -> VideoFeatures: ...


@dataclass(frozen=True)
class Model:
    """How a row is trained: what differs from the baseline of its world."""

    matcher: str | None = None  # its name; None for that of the baseline
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the matcher
    steps: float = 1.0  # in times of the baseline's
    other: int = 0  # which start, 0 for the baseline's
    adapter: bool = True  # whether features go through an adapter that learns
    windows: bool = False  # whether words on signs stand among the frames; tcd reads them itself
    told: bool = False  # whether it learns from the world without the cause that was planted, and is asked about that
    alike: bool = False  # whether clips are drawn the more often, the more they are like those that are searched
    after: Model | None = None  # model whose weights it begins with, as far as there are any
    changes: Mapping[str, Any] = field(default_factory=dict)  # sections of the recipe


@dataclass(frozen=True)
class Row:
    """One row of a table: how a model is made or read."""

    # `untrained` readings; the `baseline`, plain training, which is the oracle where nothing is planted; rows
    # for `admission`; a `control` that corrects nothing at the same cost; a method as `published`; `ours`
    kind: Kind
    words: str  # what it is, in a sentence of a few words
    steps: float = 1.0  # of all trainings together, in times of the baseline's
    models: int = 1  # kept for search
    uses: str = ""  # what it is given beyond training pairs and their features, for example `lengths`
    unavailable: bool = False  # whether users do not have what it uses, so that it is a bound and no answer
    # whether this is the correction that is recommended, chosen on other seeds than those that are reported
    chosen: bool = False
    model: Model | Callable[[Trainings], Made] | None = None  # how it is trained; None for the baseline with `steps`
    # makes the figures of a row that is more than the scores of one model
    read: Callable[[Trainings], Figures] | None = None


class Size(NamedTuple):
    """How much is drawn and trained."""

    clips: int = 20_000  # training clips; clips of all splits of a rendered world
    test_clips: int = 2_000  # test clips at most; 0 for as many as a rendered world has
    steps: int = 600  # of the baseline's training


FULL = Size()


class Place(NamedTuple):
    """Which world: seed and strength of what is planted, its size, and the folder of the annotation tables."""

    seed: int
    strength: float
    size: Size
    annotations: Path


@dataclass(frozen=True)
class Evidence:
    """A bias in a world, with all rows that are measured on it."""

    world: str  # `drawn`, `rendered`, or `harder` for rendered videos with `settings`
    bias: str  # name of the bias
    # by name; the baseline is among them. Names of readings without training begin with `untrained`
    rows: Mapping[str, Row]
    draw: Callable[[Place], World]  # makes the world of a seed and strength
    size: Size = FULL  # how much is drawn
    # row that the baseline is compared with at full strength, where the bias is a task that needs more input;
    # None for the baseline where nothing is planted
    oracle: str | None = None
    settings: Mapping[str, float] = field(default_factory=dict)  # of a harder rendered world, by name
    beside: tuple[str, ...] = ()  # further figures of the rows that the page shows, with the bias and without

    @property
    def name(self) -> str:
        return f"{self.world}-{self.bias}"

    @property
    def untrained(self) -> list[str]:
        return [name for name, row in self.rows.items() if row.kind == "untrained"]

    @property
    def methods(self) -> list[str]:
        return [name for name, row in self.rows.items() if row.kind in ("control", "published", "ours")]

    def measure(self, drawn: World, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
        """The figures of some rows on a world, each model trained once."""
        trainings = Trainings(drawn, place, self.rows)
        for row in rows:
            yield row, trainings.figures(row)


@dataclass(frozen=True)
class Cell:
    """One row on one world: what is measured once and written down."""

    world: str
    bias: str
    seed: int
    strength: float
    row: str
    clips: int
    test_clips: int
    steps: int

    @property
    def corpus(self) -> tuple[str, str, int, float]:
        return self.world, self.bias, self.seed, self.strength

    def __str__(self) -> str:
        return f"{self.world} {self.bias}, seed {self.seed}, strength {self.strength:g}"


def cells_of(evidence: Evidence, seeds: Sequence[int], strength: float, rows: Sequence[str] = ()) -> list[Cell]:
    """All cells of a bias, or those of some rows."""
    return [
        Cell(evidence.world, evidence.bias, seed, one, row, *evidence.size)
        for seed in seeds
        for one in (strength, 0.0)
        for row in rows or evidence.rows
    ]


def of_world(every: Sequence[Evidence], annotations: Path, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Rows]]:
    """Draw the world of some cells and measure each of them; every line says which world that was."""
    first = cells[0]
    (evidence,) = (one for one in every if (one.world, one.bias) == (first.world, first.bias))
    place = Place(first.seed, first.strength, Size(first.clips, first.test_clips, first.steps), annotations)
    drawn = evidence.draw(place)
    checksum, by_row = checksum_of(drawn), {cell.row: cell for cell in cells}
    begun_s = time.process_time()
    for row, figures in evidence.measure(drawn, place, list(by_row)):
        yield by_row[row], {row: figures | {WORLD: checksum, ALL_S: time.process_time() - begun_s}}
        begun_s = time.process_time()


def checksum_of(drawn: World) -> int:
    """A number that changes with what is drawn, and is the same on every processor.

    Worlds are known by their settings, by all that their tables say, and by where the first frame and the first word of
    each split are largest: draws that are rounded as coarsely as that do not differ between processors.
    """
    number = 0
    for part in (drawn.train, drawn.val, drawn.test):
        for table in (part.corpus.clips, part.corpus.captions):
            exact = table.select(sorted(table.columns)).with_columns(pl.selectors.float().round(6))
            number = crc32(exact.write_ndjson().encode(), number)
        largest = [int(np.argmax(first)) for first in (part.videos.frames[0, 0], part.texts.words[0, 0])]
        number = crc32(repr((part.videos.frames.shape, part.texts.words.shape, largest)).encode(), number)
    return number


def planned_s(evidence: Evidence, missing: Sequence[Cell], known: Mapping[Cell, Rows]) -> float | None:
    """Seconds of processor time for cells by what their rows took, or by their steps; None where none was measured."""
    taken = {name: [rows[name] for cell, rows in known.items() if cell.row == name] for name in evidence.rows}
    if not taken[BASELINE]:
        return None
    step_s = mean(taken[BASELINE], ALL_S)
    return sum(
        mean(taken[cell.row], ALL_S) if taken[cell.row] else step_s * evidence.rows[cell.row].steps for cell in missing
    )


# Worlds


class World:
    """Splits of a world, and how its baseline is trained.

    Args:
        parts: what is learned from, what weights are selected on, biased as that is, and what is searched.
        told: makes the splits of the same world without the cause that was planted.
        own: whether a caption is answered by its own clip alone, not by all that show what it names.
    """

    def __init__(self, parts: Iterable[Part], told: Callable[[], World] | None = None, *, own: bool = False) -> None:
        self.train, self.val, self.test = parts
        self._told, self._own = told, own

    @classmethod
    def of(cls, world: FeatureWorld, told: Callable[[], World] | None = None) -> World:
        return cls((world.split(name) for name in SPLITS), told)

    @cached_property
    def told(self) -> World:
        assert self._told is not None
        return self._told()

    def recipe(self, model: Model, place: Place) -> Recipe:
        """A matcher behind linear maps, with the best of ten states on the validation split."""
        steps = round(model.steps * place.size.steps)
        plain = Recipe(
            name=f"evidence-{model.matcher or 'mean_pool'}",
            data=Data(corpus="world", features="world", validation="val"),
            matcher=MatcherChoice(model.matcher or "mean_pool", {"temperature": 0.03, **model.settings}),
            adapter=replace(LINEAR, windows=model.windows) if model.adapter else BARE if model.windows else None,
            optimiser=Optimiser(lr=4e-3, weight_decay=0.05),
            loop=Loop(batch_size=BATCH, epochs=None, steps=steps, seed=place.seed + OTHER * model.other, device="cpu"),
            selection=Selection("R@1", every_steps=max(1, steps // EVALUATIONS)),
            records=Records(every_steps=steps, tensorboard=False),
        )
        return replace(plain, **model.changes)

    def found(self, scores: ScoreBlocks) -> Figures:
        relevance = None
        if self._own:
            own = own_clip(self.test.corpus, scores.caption_ids, scores.video_ids)
            relevance = own.block(slice(0, own.shape[0]), slice(0, own.shape[1]))
        return found_by(scores, self.test, relevance)


@lru_cache(maxsize=1)
def annotation_table(folder: Path) -> Corpus:
    return FORMATS["epic-kitchens-100"]([folder]).corpus


def clips_of(place: Place, val: int = 1_000) -> pl.DataFrame:
    """The annotated clips of a world, with at most `val` in the validation split."""
    sizes = SplitSizes(place.size.clips, val, place.size.test_clips)
    return annotated_clips(annotation_table(place.annotations), sizes, place.seed)


# Trainings


class Trainings:
    """Models that are trained on one world, each once, and what they find.

    Args:
        world: the clips.
        place: with the seed and the steps of the baseline.
        rows: by name.
    """

    def __init__(self, world: World, place: Place, rows: Mapping[str, Row]) -> None:
        self.world, self.place, self.rows = world, place, rows
        self._made: list[tuple[object, Made]] = []
        self._kept: dict[Hashable, Any] = {}

    def figures(self, name: str) -> Figures:
        """What a row finds in the test split, and what it costs."""
        row = self.rows[name]
        if row.read is not None:
            return row.read(self)
        model = self.model_of(name)
        if isinstance(model, Model) and model.told and self.world.told is not self.world:
            told = self.kept("told", lambda: Trainings(self.world.told, self.place, {}))
            return told.measured(*told.made(replace(model, told=False)))
        return self.measured(*self.made(model))

    def model_of(self, name: str) -> Model | Callable[[Trainings], Made]:
        row = self.rows[name]
        return Model(steps=row.steps) if row.model is None else row.model

    def made(self, model: str | Model | Callable[[Trainings], Made]) -> Made:
        """The model of a row, or one that is trained in some way; those that are trained alike are one."""
        asked = self.model_of(model) if isinstance(model, str) else model
        for known, made in self._made:
            if known == asked:
                return made
        found = self.trained(asked) if isinstance(asked, Model) else asked(self)
        self._made.append((asked, found))
        return found

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def trained(self, model: Model, examples: FeatureExamples | None = None) -> Made:
        """Train a model, on examples of the training split where they are given."""
        world, before_s, start, begun_s = self.world, 0.0, None, time.process_time()
        if model.alike:
            examples, _ = drawn_alike(examples_of(world.train), world.test.videos)
            before_s = time.process_time() - begun_s
        if model.after is not None:
            other, before_s = self.made(model.after)
            start = self.begun(model, other)
        matcher, seconds = self.learned(world.recipe(model, self.place), start=start, examples=examples)
        return matcher, before_s + seconds

    def begun(self, model: Model, other: Matcher) -> dict[str, Tensor]:
        """Fresh weights of a model, but those that another one has too."""
        size = self.world.train.videos.frames.shape[-1]
        built = build_matcher(model.matcher or "mean_pool", size, dict(model.settings))
        fresh: dict[str, Tensor] = module(Adapted(built, size, LINEAR)).state_dict()
        return fresh | {name: weights for name, weights in module(other).state_dict().items() if name in fresh}

    def learned(
        self,
        asked: Recipe,
        part: Part | None = None,
        start: Mapping[str, Tensor] | None = None,
        examples: FeatureExamples | None = None,
    ) -> Made:
        """A trained matcher with its best weights on the validation split, and seconds of processor time.

        Args:
            asked: the recipe; its members become one matcher.
            part: what is learned from; None for the training split.
            start: all weights to begin with; None for fresh ones.
            examples: of the part with weights or mirrors; None for its plain ones.
        """
        train, val, begun_s = part or self.world.train, self.world.val, time.process_time()
        corpus = train.corpus
        if asked.trim is not None:
            corpus = trimmed_corpus(corpus, self.world.test.corpus, asked.trim, asked.loop.seed).corpus
        learned_from = examples or FeatureExamples(
            pairs_of(corpus, train.texts.ids, train.videos.ids), train.texts, train.videos
        )
        size = train.videos.frames.shape[-1]
        lengths = None if asked.members is None else lengths_of(corpus, learned_from.pairs.clip_ids)
        material = TrainingInputs(learned_from, size, examples_of(val), start=start or {}, lengths=lengths)
        hooks = RunHooks(partial(found_by, part=val, relevance=relevance_of(val), metrics=("R@1",)))
        with tempfile.TemporaryDirectory() as folder:
            matcher = train_recipe(asked, material, Path(folder), hooks).matcher
        return matcher, time.process_time() - begun_s

    def measured(self, matcher: Matcher, training_s: float) -> Figures:
        """What a trained matcher finds in the test split, and what it costs."""
        return self.searched(lambda: self.scores(matcher), training_s)

    def searched(self, read: Callable[[], ScoreBlocks], training_s: float) -> Figures:
        """What scores of the test split find, and what it costs to make them."""
        begun_s = time.process_time()
        scores = read()
        searched_s = time.process_time() - begun_s
        return self.world.found(scores) | {TRAINING_S: training_s, SEARCH_S: searched_s}

    def scores(self, matcher: Matcher, split: SplitName = "test") -> Scores:
        part: Part = getattr(self.world, split)
        return as_scores(values_of(matcher, part), part)

    def fused(
        self, scores: Callable[[str, SplitName], ScoreBlocks], channels: Sequence[str], *, alike: bool = False
    ) -> FusedScores:
        """Fuse channels of the test split with scales, and weights unless `alike`, from the validation split."""
        val = self.world.val
        answers = None if alike else own_clip(val.corpus, val.texts.ids, val.videos.ids)
        weights = [1 / len(channels)] * len(channels) if alike else ()
        held_out = Validation([scores(name, "val") for name in channels], answers)
        return fuse({name: scores(name, "test") for name in channels}, weights=weights, validation=held_out)


def examples_of(part: Part) -> FeatureExamples:
    return FeatureExamples(pairs_of(part.corpus, part.texts.ids, part.videos.ids), part.texts, part.videos)


def relevance_of(part: Part) -> NDArray[np.float64]:
    """(Q, V) 1 where a clip has all verb and noun classes of the caption, else 0."""
    missing = np.zeros((part.corpus.captions.height, part.corpus.clips.height))
    for kind in ("verb_classes", "noun_classes"):
        named, shown = part.corpus.captions[kind], part.corpus.clips[kind]
        count = 1 + max(int(classes.explode().to_numpy().max()) for classes in (named, shown))
        missing += one_hot(named, count) @ (1 - one_hot(shown, count)).T
    return (missing == 0).astype(np.float64)


def one_hot(classes: pl.Series, count: int) -> NDArray[np.float64]:
    """(N, C) 1 where a row has the class, else 0."""
    table = np.zeros((len(classes), count))
    rows = np.repeat(np.arange(len(classes)), classes.list.len().to_numpy())
    table[rows, classes.explode().drop_nulls().to_numpy()] = 1
    return table


def found_by(
    scores: ScoreBlocks, part: Part, relevance: NDArray[np.float64] | None = None, metrics: Sequence[str] = METRICS
) -> Figures:
    """Metrics in percent, text to video, of all captions and clips of a split; relevance is `relevance_of` it."""
    settings = EvaluationSettings(parse_metrics(list(metrics)), ("t2v",), resamples=0)
    relevance = relevance_of(part) if relevance is None else relevance
    summary = evaluate(scores, part.corpus, settings, relevance=relevance).directions["t2v"].summary
    return {name: summary[name].value for name in metrics}


def as_scores(values: NDArray[np.floating], part: Part) -> Scores:
    """(Q, V) values as scores of the captions and clips of a split."""
    return Scores(values, part.texts.ids, part.videos.ids)


def values_of(matcher: Matcher, part: Part) -> NDArray[np.floating]:
    """(Q, V) scores of a split."""
    scores = matcher_scores(matcher, part.texts, part.videos)
    return scores.block(slice(0, len(part.texts.ids)), slice(0, len(part.videos.ids)))


# Rows of many worlds


def by_mean_frame(own: Trainings) -> Figures:
    """What the cosine of the sentence and the mean frame finds, as an encoder scores without any training."""
    test = own.world.test
    pooled = mean_frames(test)
    scores = test.texts.sentence @ (pooled / np.linalg.norm(pooled, axis=1, keepdims=True)).T
    return own.world.found(as_scores(scores, test))


def by_untrained(matcher: str, settings: Mapping[str, Any], adapter: AdapterSettings | None = None) -> Reading:
    def read(own: Trainings) -> Figures:
        size = own.world.test.videos.frames.shape[-1]
        built = build_matcher(matcher, size, dict(settings))
        return own.world.found(own.scores(built if adapter is None else Adapted(built, size, adapter).eval()))

    return read


def told(read: Reading) -> Reading:
    """The same on the world without the cause that was planted."""
    return lambda own: read(Trainings(own.world.told, own.place, own.rows))


Reading = Callable[[Trainings], Figures]
UNTRAINED = {
    "untrained, mean frame": Row("untrained", "the mean frame against the sentence", steps=0, read=by_mean_frame)
}
PLAIN_ROWS: Mapping[str, Row] = {
    AGAIN: Row("admission", "the baseline from another start", model=Model(other=1)),
    HALF: Row("admission", "half the steps", steps=0.5),
    TWICE: Row("admission", "twice the steps", steps=2.0),
    NO_ADAPTER: Row("admission", "features as they are", model=Model(adapter=False)),
}
"""Rows for admission that change nothing but the training of the baseline."""
ALIKE = "drawn by likeness"
ALIKE_ROW = Row(
    "ours",
    "clips drawn the more often, the more they are like those searched (`likeness`)",
    uses="frames of the clips that are searched",
    model=Model(alike=True),
)


def plain_rows(reference: str, uses: str = "", other: int = 0) -> dict[str, Row]:
    """The baseline, the reference that is told the cause, and `PLAIN_ROWS`."""
    return {
        BASELINE: Row("baseline", "plain training of `mean_pool`"),
        REFERENCE: Row("admission", reference, uses=uses, unavailable=bool(uses), model=Model(told=True, other=other)),
        **PLAIN_ROWS,
    }


def variant(row: str, change: str) -> str:
    return f"{row}, {change}"


def mean_frames(part: Part) -> FloatArray:
    """(V, D) mean frame of each clip."""
    return part.videos.frames.astype(np.float32).mean(1)
