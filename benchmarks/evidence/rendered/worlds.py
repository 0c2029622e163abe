"""Rendered worlds: planted videos seen through the built-in encoder, and the rows by which every one is admitted.

The wti matcher is trained behind a small adapter (`benchmarks/planted.py`). R@1 is the share of captions whose first
clip shows everything that is named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE, variant
from benchmarks.evidence.rendered.references import REFERENCES, elsewhere
from benchmarks.evidence.rows import AGAIN, BASELINE, PLAIN_ROWS, REFERENCE, SEARCH_S, TRAINING_S, Place, Row
from benchmarks.evidence.trainings import EVALUATIONS, OTHER, SplitName, as_scores, found_by, learned, values_of
from benchmarks.planted import BATCH, Sizes, Split, split_of
from benchmarks.planted import recipe as planted_recipe
from evenreel.encoders import load_encoder
from evenreel.matchers.adapter import Adapted, AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.registry import build_matcher
from evenreel.papers.cells import Figures
from evenreel.planted import BIASES, BiasName, PlantedClip, PlantedCorpus, PlantSettings, plan_corpus
from evenreel.planted.features import on_screen_features
from evenreel.planted.harder import Harder
from evenreel.planted.plan import SPLITS
from evenreel.training.recipe import MatcherChoice, Recipe, Selection
from evenreel.types import ScoreBlocks, VideoFeatures

ORACLE, ON_SIGNS = "oracle", ", words on signs"
BARE = AdapterSettings(kind="none", windows=True)
UNTRAINED = {"untrained, mean frame": "mean_pool", "untrained, tokens": "wti"}
"""Matchers that are read as they begin: the cosine with the mean frame, or of words and frames."""


@dataclass(frozen=True)
class Model:
    """How a row is trained.

    Attributes:
        matcher: its name.
        settings: of the matcher.
        steps: in times of the baseline's.
        other: whether it begins from other random numbers.
        adapter: whether features go through an adapter that learns.
        windows: whether words on signs stand among the frames.
        told: whether it learns from what `REFERENCES` makes of the clips, and is asked about that.
        changes: sections of the recipe that differ from the baseline's.
    """

    matcher: str = "wti"
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: float = 1.0
    other: bool = False
    adapter: bool = True
    windows: bool = False
    told: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)


class RenderedWorld:
    """The clips of a seed and strength, with features.

    Args:
        plan: the clips.
        splits: train, validation and test split; None for those of the plan.
    """

    def __init__(self, plan: PlantedCorpus, splits: Sequence[Split] | None = None) -> None:
        self.plan = plan
        self.train, self.val, self.test = splits or [split_of(plan, name, load_encoder("builtin")) for name in SPLITS]

    @cached_property
    def told(self) -> RenderedWorld:
        """The world without the cause that was planted; of a task, with windows that hold what signs say."""
        plan = REFERENCES.get(self.plan.bias, elsewhere)(self.plan)
        if not BIASES[plan.bias].in_test:
            return RenderedWorld(plan)
        if plan == self.plan:
            return self
        parts = zip(SPLITS, (self.train, self.val, self.test), strict=True)
        return RenderedWorld(
            plan, [part._replace(videos=reread(part.videos, plan.split(name))) for name, part in parts]
        )


def reread(videos: VideoFeatures, clips: Sequence[PlantedClip]) -> VideoFeatures:
    """The same pictures, with windows of what is read on the signs of clips that are planned otherwise."""
    windows = on_screen_features(clips, videos.times_s, videos.frame_mask, load_encoder("builtin"))
    return replace(videos, on_screen=windows)


def draw(bias: BiasName, place: Place, harder: Harder | None = None) -> RenderedWorld:
    """Plan, render and encode the clips of a seed and strength."""
    settings = PlantSettings(harder=harder or Harder())
    return RenderedWorld(plan_corpus(bias, place.strength, place.size.clips, place.seed, settings))


def admission_models(bias: BiasName) -> dict[str, Model]:
    """The trainings that the rules of admission need."""
    reads = BIASES[bias].in_test
    models = {BASELINE: Model()}
    models |= {HALF: Model(steps=0.5), TWICE: Model(steps=2.0), NO_ADAPTER: Model(adapter=False)}
    if not reads:
        return models | {REFERENCE: Model(told=True), AGAIN: Model(other=True)}
    oracle = Model(windows=True, told=True)
    variants = {change: replace(oracle, steps=models[change].steps) for change in (HALF, TWICE)}
    variants[NO_ADAPTER] = replace(oracle, adapter=False)
    models |= {ORACLE: oracle, **{variant(ORACLE, change): one for change, one in variants.items()}}
    return models | {REFERENCE: replace(oracle, other=True), AGAIN: oracle}


def admission_rows(bias: BiasName) -> dict[str, Row]:
    """The rows that the rules of admission need."""
    reads = BIASES[bias].in_test
    names = [*UNTRAINED, *(f"{name}{ON_SIGNS}" for name in UNTRAINED if reads)]
    rows = {name: Row("untrained", "nothing is trained", steps=0) for name in names}
    rows |= {
        BASELINE: Row("baseline", "plain training of `wti` behind an adapter"),
        **PLAIN_ROWS,
    }
    if not reads:
        told = Row("admission", "clips without the cause that was planted", uses="the cause", unavailable=True)
        return rows | {REFERENCE: told}
    words = Row("admission", "the baseline with words on signs among the frames", uses="words", unavailable=True)
    rows |= dict.fromkeys((ORACLE, *(variant(ORACLE, change) for change in (HALF, TWICE, NO_ADAPTER))), words)
    return rows | {REFERENCE: replace(words, words="the oracle from another start"), AGAIN: words}


Made = tuple[Matcher, float]
"""A trained model, and the seconds of processor time that it took."""


class Trainings:
    """Models that are trained on one world, each once, and what they find.

    Args:
        world: the clips.
        place: with the seed and the steps of the baseline.
        models: how the model of each row is trained, or a function that does it.
    """

    def __init__(
        self,
        world: RenderedWorld,
        place: Place,
        models: Mapping[str, Model | Callable[[Trainings], Made]],
    ) -> None:
        self.world, self.place, self._models = world, place, models
        self._made: dict[str, Made] = {}

    def figures(self, name: str) -> Figures:
        """What the model of a row finds in the test split, or a reading without training, and what it costs."""
        if name.startswith("untrained"):
            return (self._told if name.endswith(ON_SIGNS) else self).found(self._untrained(name))
        model = self._models[name]
        if isinstance(model, Model) and model.told and self.world.told is not self.world:
            return self._told.figures(name)
        matcher, seconds = self.model(name)
        return self.measured(matcher, seconds)

    @cached_property
    def _told(self) -> Trainings:
        """The rows that are told, on the world without what was planted."""
        told = {name: one for name, one in self._models.items() if isinstance(one, Model) and one.told}
        models = {name: replace(one, told=False) for name, one in told.items()}
        return Trainings(self.world.told, self.place, models)

    def measured(self, matcher: Matcher, training_s: float) -> Figures:
        """What a trained matcher finds in the test split, and what it costs."""
        begun_s = time.process_time()
        scores = self.scores(matcher, "test")
        searched_s = time.process_time() - begun_s
        return self.found_by(scores) | {TRAINING_S: training_s, SEARCH_S: searched_s}

    def found(self, matcher: Matcher) -> Figures:
        """What a matcher finds in the test split."""
        return self.found_by(self.scores(matcher, "test"))

    def found_by(self, scores: ScoreBlocks) -> Figures:
        """What scores of the test split find."""
        return found_by(scores, self.world.test)

    def scores(self, matcher: Matcher, split: SplitName) -> ScoreBlocks:
        """All scores of a split."""
        part: Split = getattr(self.world, split)
        return as_scores(values_of(matcher, part), part)

    def model(self, name: str) -> Made:
        """The model of a row; rows that are trained alike have one."""
        model = self._models[name]
        first = next(other for other, one in self._models.items() if one == model)
        if first not in self._made:
            self._made[first] = self.trained(model) if isinstance(model, Model) else model(self)
        return self._made[first]

    def trained(self, model: Model) -> Made:
        """Train a model with its best weights on the validation split."""
        return learned(recipe_of(self.world, model, self.place), self.world.train, self.world.val)

    def _untrained(self, name: str) -> Matcher:
        size, plain = self.world.test.videos.frames.shape[-1], name.removesuffix(ON_SIGNS)
        matcher = build_matcher(UNTRAINED[plain], size, {})
        return matcher if plain == name else Adapted(matcher, size, BARE).eval()


def recipe_of(world: RenderedWorld, model: Model, place: Place) -> Recipe:
    """The recipe of a model: that of the planted benchmarks, selected on validation; small batches of few captions."""
    steps = round(model.steps * place.size.steps)
    plain = planted_recipe(
        world.plan.bias, place.seed + OTHER * model.other, Sizes(place.size.clips, steps), model.windows
    )
    own = plain.matcher.settings
    if model.matcher != plain.matcher.name:
        own = {"temperature": own["temperature"]}
    bare = BARE if model.windows else None
    asked = replace(
        plain,
        data=replace(plain.data, validation="val"),
        matcher=MatcherChoice(model.matcher, {**own, **model.settings}),
        adapter=plain.adapter if model.adapter else bare,
        loop=replace(plain.loop, batch_size=min(BATCH, len(world.train.texts.ids))),
        selection=Selection("R@1", every_steps=max(1, steps // EVALUATIONS)),
    )
    return replace(asked, **model.changes)
