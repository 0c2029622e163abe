"""Lengths that stand in for the action in a drawn world: strata, trimming and frames without length.

Strata are those of the paper on EPIC-KITCHENS-100 (algorithm 2, 74.8 % of the clips in the first of the last two). An
ensemble is the mean of the cosines of models that begin from other random numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE
from benchmarks.evidence.rows import AGAIN, BASELINE, REFERENCE, SEARCH_S, TRAINING_S, Evidence, Part, Place, Row
from benchmarks.evidence.trainings import (
    OTHER,
    as_scores,
    clips_of,
    cosines,
    found_by,
    learned,
    recipe,
    values_of,
)
from evenreel.debias.frame_length import PRESETS
from evenreel.debias.without_length import LengthRemoval
from evenreel.matchers.matcher import Matcher
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.drawing import FeatureWorld, draw_world
from evenreel.planted.worlds.lengths import LENGTH_WORLD
from evenreel.planted.worlds.vectors import arc
from evenreel.training.recipe import Members, Recipe, Trim
from evenreel.training.splits import trimmed_corpus

LONGER, ENSEMBLE, ENSEMBLE_4 = "twice the steps, plain", "ensemble of 2", "ensemble of 4"
WITHOUT_LENGTH = "frames without length"
STRATA = Members(fraction=0.748)
FOUR = replace(STRATA, count=4)
RANDOM = replace(STRATA, split="random", steps="full")
TRIM = Trim(margin=PRESETS["paper_reproducing"].margin, least=PRESETS["paper_reproducing"].least, target="test")


@dataclass(frozen=True)
class Model:
    """How a row is trained.

    Attributes:
        steps: in times of the baseline's.
        other: which start, 0 for the baseline's.
        told: whether frames are without what lengths are known to do.
        changes: sections of the recipe that differ from the baseline's.
    """

    steps: float = 1.0
    other: int = 0
    told: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)


MODELS: dict[str, Model] = {
    BASELINE: Model(),
    REFERENCE: Model(told=True),
    AGAIN: Model(other=1),
    HALF: Model(steps=0.5),
    TWICE: Model(steps=2),
    NO_ADAPTER: Model(changes={"adapter": None}),
    "third": Model(other=2),
    "fourth": Model(other=3),
    "random 2, all steps": Model(changes={"members": RANDOM}),
    "RmvRand": Model(changes={"trim": replace(TRIM, rule="random")}),
    "RmvAll": Model(changes={"trim": TRIM}),
    "strata 2": Model(changes={"members": STRATA}),
    "strata 4": Model(changes={"members": FOUR}),
    "strata 2, all steps": Model(changes={"members": replace(STRATA, steps="full")}),
    "strata 4, all steps": Model(changes={"members": replace(FOUR, steps="full")}),
    "strata 2, begun with all": Model(changes={"members": replace(STRATA, begin="full")}),
    WITHOUT_LENGTH: Model(changes={"without_length": LengthRemoval()}),
}
AVERAGED: dict[str, tuple[str, ...]] = {
    LONGER: (TWICE,),
    ENSEMBLE: (BASELINE, AGAIN),
    ENSEMBLE_4: (BASELINE, AGAIN, "third", "fourth"),
}
"""Rows that are made of models of other rows."""
LENGTHS = "lengths"
ROWS: dict[str, Row] = {
    "untrained": Row("untrained", "cosine of sentence and mean frame", steps=0),
    BASELINE: Row("baseline", "mean_pool"),
    REFERENCE: Row(
        "admission",
        "frames without the directions that lengths move them in",
        uses="these directions",
        unavailable=True,
    ),
    AGAIN: Row("admission", "the baseline from another start"),
    HALF: Row("admission", "the baseline, half the steps", steps=0.5),
    TWICE: Row("admission", "the baseline, twice the steps", steps=2),
    NO_ADAPTER: Row("admission", "the baseline without linear maps"),
    LONGER: Row("control", "the baseline, trained longer", steps=2),
    ENSEMBLE: Row("control", "two baselines from other starts", steps=2, models=2),
    "random 2, all steps": Row("control", "strata of the same sizes, drawn without a look at lengths", 2, 2),
    "RmvRand": Row("control", "as many clips left out as `RmvAll` does, at random"),
    "RmvAll": Row(
        "published",
        "clips left out until classes are as long as in the test split",
        uses="class lengths of the test split",
        unavailable=True,
    ),
    "strata 2": Row("published", "a model of each stratum of length, with a share of the steps", 1, 2, LENGTHS),
    "strata 2, all steps": Row("published", "the same, each with all steps", 2, 2, LENGTHS),
    "strata 2, begun with all": Row(
        "published", "each goes on from the baseline with a share of the steps: the failure method", 2, 2, LENGTHS
    ),
    "strata 4": Row("published", "a model of each of four strata, with a share of the steps", 1, 4, LENGTHS),
    WITHOUT_LENGTH: Row(
        "ours",
        "what lengths explain of frames beyond captions is taken off them (`without_length`)",
        uses=LENGTHS,
        chosen=True,
    ),
    "strata 4, all steps": Row("published", "`strata 4`, each with all steps", 4, 4, LENGTHS),
    ENSEMBLE_4: Row("control", "four baselines from other starts", steps=4, models=4),
}


class Drawn(NamedTuple):
    """A world with biased lengths."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld

    def told(self, seed: int) -> Drawn:
        """The world without what lengths do to frames."""
        return Drawn(*(without_lengths(part, seed) for part in self))


def draw(place: Place) -> Drawn:
    """Clips of EPIC-KITCHENS-100 whose nouns keep to strata of length in training and validation."""
    clips = clips_of(place)
    world = draw_world(clips, place.strength, place.seed)
    return Drawn(*(world.split(name) for name in Drawn._fields))


def without_lengths(part: FeatureWorld, seed: int) -> FeatureWorld:
    """The split with frames from which all directions are taken that lengths move them in."""
    waves, frames = LENGTH_WORLD.harmonics, part.videos.frames.astype(np.float32)
    curve = arc(np.linspace(0, 1, 8 * waves), frames.shape[-1], seed, 0, waves)
    directions = np.linalg.svd(curve, full_matrices=False)[2][: 2 * waves]
    frames -= frames @ directions.T @ directions
    frames /= np.linalg.norm(frames, axis=-1, keepdims=True)
    return replace(part, videos=replace(part.videos, frames=frames.astype(np.float16)))


def measured_rows(drawn: Drawn, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """Train what rows need, each model once, and test them."""
    made: dict[str, tuple[Matcher, float]] = {}
    for name in rows:
        if name == "untrained":
            scores = as_scores(cosines(drawn.test.texts, drawn.test.videos), drawn.test)
            yield name, found_by(scores, drawn.test)
            continue
        names = AVERAGED.get(name, (name,))
        for one in names:
            if one not in made:
                made[one] = model_of(MODELS[one], drawn, place)
        yield name, figures_of([made[one] for one in names], parts_of(name, drawn, place).test)


def figures_of(models: Sequence[tuple[Matcher, float]], test: Part) -> Figures:
    """What the mean of the cosines of models finds, and what it costs."""
    begun_s = time.process_time()
    values = np.mean([values_of(matcher, test) for matcher, _ in models], axis=0)
    searched_s = time.process_time() - begun_s
    seconds = sum(one for _, one in models)
    return found_by(as_scores(values, test), test) | {TRAINING_S: seconds, SEARCH_S: searched_s}


def parts_of(name: str, drawn: Drawn, place: Place) -> Drawn:
    """The world as a row sees it."""
    return drawn.told(place.seed) if name in MODELS and MODELS[name].told else drawn


def model_of(model: Model, drawn: Drawn, place: Place) -> tuple[Matcher, float]:
    """A trained matcher and the seconds that took."""
    asked = recipe_of(model, place)
    parts = drawn.told(place.seed) if model.told else drawn
    learned_from = parts.train
    if asked.trim is not None:
        kept = trimmed_corpus(learned_from.corpus, parts.test.corpus, asked.trim, asked.loop.seed)
        learned_from = replace(learned_from, corpus=kept.corpus)
    return learned(asked, learned_from, parts.val)


def recipe_of(model: Model, place: Place) -> Recipe:
    """The recipe of a model."""
    plain = recipe(place.seed + OTHER * model.other, round(model.steps * place.size.steps))
    return replace(plain, **model.changes)


EVIDENCE = Evidence("drawn", "length", ROWS, draw, measured_rows)
