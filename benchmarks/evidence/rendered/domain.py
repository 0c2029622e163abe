"""Another look, other words and other company in rendered videos of a source than in those of a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial

import numpy as np

from benchmarks.evidence.adapted import (
    ALIKE,
    ALIKE_ROW,
    LOG,
    LONGER,
    METHODS,
    SINKHORN,
    TTT,
    TURNS,
    Method,
    Passes,
    SourceModel,
    adaptation_rows,
    turned_rows,
)
from benchmarks.evidence.rendered.worlds import (
    Made,
    Model,
    RenderedWorld,
    Trainings,
    admission_models,
    admission_rows,
    draw,
    recipe_of,
)
from benchmarks.evidence.rows import BASELINE, Evidence, Place, Row, Size
from benchmarks.evidence.trainings import learned_by_likeness
from evenreel.adaptation.prepared import FoundConfounders, PrepareSettings, confounders_of
from evenreel.adaptation.stream import EncodeTexts, QueryStream, taken, text_reader
from evenreel.adaptation.titan import MatchSettings, load_settings
from evenreel.encoders import load_encoder
from evenreel.evaluation.rescoring import sinkhorn_norm
from evenreel.features.scene_elements import EmbeddedDictionary, embed
from evenreel.language import load_tagger
from evenreel.language.scene_elements import packaged
from evenreel.language.tokens import Tagger
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.papers.cells import Figures

SIZE = Size(1_500, 0, 500)
PASSES = Passes(12, 4, 8 / SIZE.steps)
"""Through 900 captions in batches of 128."""
LINEAR = "mean_pool behind linear maps"
"""The matcher of the rows that need a linear map, as it is."""
SAFE, TTT_FLOW = "evenreel adapt, as it comes", "TTTFlow"
ASSIGNED, SPREAD = "labels by assignment", "labels by assignment and Sinkhorn normalisation"
HUNGARIAN = MatchSettings("hungarian")
ADAPTED: dict[str, Method] = METHODS | {
    TTT_FLOW: lambda model: model.row(model.uncorrected(objective="ttt_flow")),
    SINKHORN: lambda model: model.normalised(sinkhorn_norm),
    SAFE: lambda model: model.row(load_settings("safe")),
    ASSIGNED: lambda model: model.row(model.matched(HUNGARIAN)),
    SPREAD: lambda model: model.normalised(partial(sinkhorn_norm, temperature=0.05), model.matched(HUNGARIAN)),
}
MODELS: dict[str, Model | Callable[[Trainings], Made]] = {
    **admission_models("domain"),
    LONGER: Model(steps=1 + PASSES.plain * PASSES.step_share),
    LINEAR: Model("mean_pool", changes={"adapter": AdapterSettings(kind="linear")}),
    ALIKE: lambda own: learned_by_likeness(
        recipe_of(own.world, Model(), own.place), own.world.train, own.world.val, own.world.test.videos
    ),
}


def _rows() -> dict[str, Row]:
    rows = admission_rows("domain") | adaptation_rows(PASSES)
    ours = Row("ours", "each clip is the label of as many queries as any other", rows[LONGER].steps, uses=LOG)
    return rows | {
        TTT_FLOW: replace(rows[TTT], words="vectors of the target are made likely by flows of the source"),
        SINKHORN: Row("published", "potentials of clips in a transport of the log's queries", uses=LOG),
        SAFE: replace(
            ours,
            words="TITAN's rebalancing with all of the safety, four times through the log",
            steps=1 + load_settings("safe").epochs * PASSES.step_share,
        ),
        ASSIGNED: ours,
        SPREAD: replace(ours, words="the model of the row above, then potentials by its own scores", chosen=True),
        ALIKE: ALIKE_ROW,
        LINEAR: Row("control", "the matcher of the rows below before they adapt it, trained as the baseline is"),
        **turned_rows(),
    }


ROWS = _rows()


class RenderedTarget(RenderedWorld):
    """A rendered world whose test captions are asked, in an order that the seed draws, without answers."""

    passes = PASSES
    preparing = PrepareSettings()

    @cached_property
    def tagger(self) -> Tagger:
        """The one that needs no model."""
        return load_tagger("pattern")

    @property
    def stream(self) -> QueryStream:
        """The captions of the test split."""
        test = self.test
        order = np.random.default_rng([self.plan.seed, 7]).permutation(len(test.texts.ids))
        texts = taken(test.texts, order)
        sentences = dict(test.corpus.captions.select("caption_id", "text").iter_rows())
        return QueryStream(texts, tuple(sentences[one] for one in texts.ids), test.videos)

    def reader(self, matcher: Matcher) -> EncodeTexts:
        """The built-in text tower."""
        return text_reader(load_encoder("builtin"), matcher)

    def confounders(self) -> FoundConfounders:
        """What `evenreel prepare` finds: the packaged phrases that most clips are near."""
        return confounders_of(self.train.videos, _phrases())


def drawn(place: Place) -> RenderedTarget:
    """Plan, render and encode the clips of a seed and strength."""
    world = draw("domain", place)
    return RenderedTarget(world.plan, (world.train, world.val, world.test))


@cache
def _phrases() -> EmbeddedDictionary:
    return embed(packaged(), load_encoder("builtin"))


def measured_rows(world: RenderedTarget, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The rows; those that turn captions are of a matcher behind linear maps."""
    trainings = Trainings(world, place, MODELS)

    @cache
    def source(name: str) -> SourceModel:
        return SourceModel(world, *trainings.model(name), place.seed)

    for name in rows:
        if name in ADAPTED:
            yield name, ADAPTED[name](source(BASELINE))
        elif name in TURNS:
            yield name, TURNS[name](source(LINEAR))
        else:
            yield name, trainings.figures(name)


EVIDENCE = Evidence("rendered", "domain", ROWS, drawn, measured_rows, SIZE)
