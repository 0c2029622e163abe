"""The visual bias in drawn worlds: a large background goes with the small thing that a caption names.

BiMa is trained with decoders of one block. Its dictionary is as mined ones are: entities are nouns, activities verbs,
frequent actions and backgrounds, which captions of large collections name as well. All other rows but `wti` compare the
mean frame and the sentence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from benchmarks.admission_rules import TWICE
from benchmarks.evidence.rows import BASELINE, PLAIN_ROWS, REFERENCE, Evidence, Place, Row, Size
from benchmarks.evidence.trainings import (
    as_scores,
    clips_of,
    cosines,
    examples_of,
    found_by,
    learned,
    measured_row,
    plain_recipe,
    recipe,
    values_of,
)
from evenreel.arrays import Indices
from evenreel.checkpoint.architecture import module
from evenreel.features.shards import seal
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.bima.video import SceneElements
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.registry import build_matcher
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.backgrounds import draw_backgrounds, phrases_of
from evenreel.planted.worlds.drawing import FeatureWorld
from evenreel.training.batches import FeatureExamples
from evenreel.training.material import with_backgrounds
from evenreel.training.recipe import BackgroundExchange, Recipe
from evenreel.types import FloatArray

FREQUENT = 200
"""Actions in the mined dictionary."""
EXCHANGE = BackgroundExchange()
PRINTED = {"residual": False, "reduction": "sum", "kl_on": "z"}
"""What the paper prints and recipes do otherwise: equation 6 without residual, losses as sums, the divergence of z."""
BIMA_ALL, SEARCHED_BARE = "bima", "bima, no elements in search"
CONTROL_TWICE = "twice the steps, uncorrected"

ROWS: Mapping[str, Row] = {
    "untrained, mean frame": Row("untrained", "the mean frame against the sentence."),
    "untrained, tokens": Row("untrained", "words against frames, weighed alike."),
    BASELINE: Row("baseline", "plain training of `mean_pool`."),
    REFERENCE: Row("admission", "the same clips before backgrounds that were drawn anew."),
    **PLAIN_ROWS,
    CONTROL_TWICE: Row("control", "the baseline trained for twice the steps.", steps=2.0),
    "wti": Row("control", "weighted token interaction, which is BiMa with all its parts off."),
    "wti, mlp": Row("control", "the same behind maps with a hidden layer, as BiMa's content has."),
    "bima, printed": Row(
        "published", "all of BiMa as printed: no residual, sums, the divergence of z; mined elements."
    ),
    BIMA_ALL: Row("published", "all of BiMa as in the recipes, frames keep what they are; mined elements."),
    SEARCHED_BARE: Row("ours", "the row before, with elements in training and none in search."),
    "balanced": Row(
        "ours", "clips drawn so that their noun says nothing of the cluster of their background.", uses="noun classes"
    ),
    "backgrounds exchanged": Row(
        "ours", "clips before the backgrounds of others (`backgrounds`), which are found without labels.", chosen=True
    ),
}
BIMA: Mapping[str, dict[str, Any]] = {"bima, printed": PRINTED, BIMA_ALL: {}}


class Dictionary(NamedTuple):
    """Phrases with their vectors, rows of unit length."""

    entities: tuple[str, ...]
    activities: tuple[str, ...]
    vectors: Mapping[str, FloatArray]


class BackgroundParts(NamedTuple):
    """A world of backgrounds, what its reference learns from, and a dictionary for it."""

    train: FeatureWorld
    val: FeatureWorld
    test: FeatureWorld
    redrawn: FeatureWorld
    dictionary: Dictionary


def draw(place: Place) -> BackgroundParts:
    """The world, and the same clips before backgrounds that were drawn anew."""
    clips = clips_of(place)
    world = draw_backgrounds(clips, place.strength, place.seed)
    redrawn = draw_backgrounds(clips, 0.0, place.seed, draw=1)
    train, val, test = (world.split(name) for name in ("train", "val", "test"))
    return BackgroundParts(train, val, test, redrawn, mined(clips, place.seed))


def mined(clips: pl.DataFrame, seed: int) -> Dictionary:
    """Nouns as entities; verbs, frequent actions and backgrounds as activities."""
    phrases = phrases_of(clips, seed)
    actions = clips.filter(pl.col("split") == "train").group_by("verb", "noun").len()
    nouns, verbs = (np.unique(actions[kind].to_numpy()) for kind in ("noun", "verb"))
    often = actions.sort("len", "verb", "noun", descending=[True, False, False]).head(FREQUENT)
    named = list(zip(often["verb"].to_list(), often["noun"].to_list(), strict=True))
    whole = np.stack([phrases.verbs[verb] + phrases.nouns[noun] for verb, noun in named])
    whole /= np.linalg.norm(whole, axis=1, keepdims=True)
    return Dictionary(
        tuple(f"noun {noun}" for noun in nouns),
        (
            *(f"verb {verb}" for verb in verbs),
            *(f"verb {verb} noun {noun}" for verb, noun in named),
            *(f"place {kind}" for kind in range(len(phrases.kinds))),
        ),
        {
            "entities": phrases.nouns[nouns].astype(np.float32),
            "activities": np.concatenate([phrases.verbs[verbs], whole, phrases.kinds]).astype(np.float32),
        },
    )


def measured_rows(drawn: BackgroundParts, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The rows, each trained or read once."""
    cell = CellRows(drawn, place)
    for name in rows:
        yield name, cell.figures(name)


class CellRows:
    """All rows of one world."""

    def __init__(self, drawn: BackgroundParts, place: Place) -> None:
        self._drawn, self._place = drawn, place
        self._plain = recipe(place.seed, place.size.steps)
        self._made: dict[str, tuple[Matcher, float]] = {}

    def figures(self, name: str) -> Figures:
        """What a row finds in the test split, and what it costs."""
        test = self._drawn.test
        if name == "untrained, mean frame":
            return found_by(as_scores(cosines(test.texts, test.videos), test), test)
        if name == "untrained, tokens":
            tokens = build_matcher("wti", test.videos.frames.shape[-1], {})
            return found_by(as_scores(values_of(tokens, test), test), test)
        if name == SEARCHED_BARE:
            matcher, seconds = self.made(BIMA_ALL)
            return without_elements(matcher, lambda: measured_row(matcher, test, seconds))
        matcher, seconds = self.made(TWICE if name == CONTROL_TWICE else name)
        return measured_row(matcher, test, seconds)

    def made(self, name: str) -> tuple[Matcher, float]:
        """A trained matcher and the seconds that it took."""
        if name not in self._made:
            kept = {one: made for one, made in self._made.items() if one in (TWICE, BIMA_ALL)}
            self._made = kept | {name: self._trained(name)}
        return self._made[name]

    def _trained(self, name: str) -> tuple[Matcher, float]:
        drawn, place = self._drawn, self._place
        if name == REFERENCE:
            return learned(self._plain, drawn.redrawn.split("train"), drawn.redrawn.split("val"))
        if name in BIMA:
            return self._bima(BIMA[name])
        examples = {"balanced": self._balanced, "backgrounds exchanged": self._exchanging}.get(name)
        changed = None if examples is None else examples()
        return learned(recipe_of(name, place), drawn.train, drawn.val, examples=changed)

    def _bima(self, settings: Mapping[str, Any]) -> tuple[Matcher, float]:
        dictionary, place = self._drawn.dictionary, self._place
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "elements.safetensors"
            path.write_bytes(seal(dictionary.vectors, {}))
            phrases = {"entities": dictionary.entities, "activities": dictionary.activities, "embeddings": str(path)}
            whole = {**phrases, "decoder_layers": 1, **settings}
            return learned(recipe(place.seed, place.size.steps, "bima", whole), self._drawn.train, self._drawn.val)

    def _exchanging(self) -> FeatureExamples:
        return with_backgrounds(examples_of(self._drawn.train), EXCHANGE, self._place.seed)

    def _balanced(self) -> FeatureExamples:
        found = self._exchanging()
        assert found.backgrounds is not None
        pairs, nouns = found.pairs, self._drawn.train.corpus.clips["noun_classes"].list.first().to_numpy()
        weights = balanced_weights(found.backgrounds.clusters[pairs.clips], nouns[pairs.clips], 10.0)
        return replace(found, backgrounds=None, pairs=replace(pairs, weights=weights))


def balanced_weights(backgrounds: Indices, nouns: Indices, most: float) -> NDArray[np.float64]:
    """(P,) weights under which a noun says nothing of the background, by inverse propensity (Rosenbaum and Rubin 1983).

    Args:
        backgrounds: (P,) cluster of the background of each pair, from 0.
        nouns: (P,) noun class of each pair, from 0.
        most: largest weight before those of a noun are scaled to a mean of 1.
    """
    counts = np.zeros((nouns.max() + 1, backgrounds.max() + 1))
    np.add.at(counts, (nouns, backgrounds), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = counts.sum(0) / counts.sum() / (counts / counts.sum(1, keepdims=True))
    weights = np.minimum(wanted[nouns, backgrounds], most)
    totals = np.bincount(nouns, weights)
    found: NDArray[np.float64] = weights * (counts.sum(1) / np.where(totals == 0, 1, totals))[nouns]
    return found


def recipe_of(name: str, place: Place) -> Recipe:
    """The recipe of a row."""
    if name in ("wti", "wti, mlp"):
        words = recipe(place.seed, place.size.steps, "wti")
        return words if name == "wti" else replace(words, adapter=AdapterSettings(kind="mlp"))
    return plain_recipe(name, place)


def without_elements(matcher: Matcher, measure: Callable[[], Figures]) -> Figures:
    """What is measured while frames find nothing in their elements."""
    [scene] = [part for part in module(matcher).modules() if isinstance(part, SceneElements)]

    def nothing(frames: Tensor, frame_mask: Tensor, seen: Tensor) -> Tensor:
        return F.normalize(frames, dim=-1).masked_fill(~frame_mask[..., None], 0.0)

    found, scene.forward = scene.forward, nothing  # type: ignore[method-assign]
    try:
        return measure()
    finally:
        scene.forward = found  # type: ignore[method-assign]


EVIDENCE = Evidence("drawn", "visual", ROWS, draw, measured_rows, Size(steps=200))
