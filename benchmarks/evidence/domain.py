"""Rows of the drawn world of two domains: what can be learned from its target's queries and clips without labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from benchmarks.evidence.adapted import (
    ALIKE,
    ALIKE_ROW,
    BOTH,
    LOG,
    LONGER,
    METHODS,
    SINKHORN,
    TURNS,
    Passes,
    SourceModel,
    adaptation_rows,
    turned_rows,
)
from benchmarks.evidence.rows import AGAIN, BASELINE, PLAIN_ROWS, REFERENCE, Evidence, Place, Row
from benchmarks.evidence.trainings import (
    as_scores,
    clips_of,
    cosines,
    found_by,
    learned,
    learned_by_likeness,
    measured_row,
    plain_recipe,
    recipe,
)
from evenreel.adaptation.baselines import FlowSettings
from evenreel.adaptation.prepared import FoundConfounders, PrepareSettings, confounders_of
from evenreel.adaptation.stream import EncodeTexts, QueryStream
from evenreel.evaluation.rescoring import sinkhorn_norm
from evenreel.language.tokens import Tagged, Token
from evenreel.matchers.matcher import Matcher
from evenreel.papers.cells import Figures
from evenreel.planted.worlds.domains import DomainSettings, draw_domains, draw_queries
from evenreel.planted.worlds.drawing import FeatureWorld
from evenreel.types import FloatArray, TextFeatures

QUERIES = 5_000
"""In the log of the target; the r-th most wanted clip is asked for 1 / r times as often as the first."""
UNTRAINED = "untrained, mean frame"
CONFOUNDERS = 64
"""Centres of frames that the bias correction knows."""
PASSES = Passes(4, 1, -(-QUERIES // 128) / 600)
"""The bias correction takes a hundred times as long."""
ADAPTED = METHODS | TURNS | {SINKHORN: lambda model: model.normalised(sinkhorn_norm, grouped=True)}
ROWS: dict[str, Row] = {
    UNTRAINED: Row("untrained", "the cosine of the sentence and the mean frame"),
    BASELINE: Row("baseline", "mean_pool behind linear maps, trained on the source"),
    **PLAIN_ROWS,
    REFERENCE: Row(
        "admission", "the same clips in the look and the wording of the target", uses="the target", unavailable=True
    ),
    **adaptation_rows(PASSES),
    SINKHORN: Row("published", "potentials of clips in a transport of the log's groups of like queries", uses=LOG),
    ALIKE: ALIKE_ROW,
    **turned_rows(),
    BOTH: replace(turned_rows()[BOTH], chosen=True),
}


class DomainWorld:
    """A world of one seed and strength with its log of queries."""

    passes = PASSES
    preparing = PrepareSettings(flow=FlowSettings(steps=0))

    def __init__(self, place: Place, settings: DomainSettings | None = None) -> None:
        clips = clips_of(place)
        self.place, self._clips = place, clips
        world = draw_domains(clips, place.strength, place.seed, settings)
        self.train, self.val, self.test = (world.split(name) for name in ("train", "val", "test"))

    def told(self) -> DomainWorld:
        """The same clips in the target's look and wording."""
        return DomainWorld(self.place, DomainSettings().told)

    @cached_property
    def stream(self) -> QueryStream:
        """What is asked of the test clips, as text and as features, without answers."""
        shown = self._clips.filter(pl.col("split") == "test")
        log = draw_queries(shown, QUERIES, self.place.seed)
        actions = [f"verb{verb} noun{noun}" for verb, noun in shown.select("verb", "noun").iter_rows()]
        return QueryStream(log.texts, tuple(actions[clip] for clip in log.clips), self.test.videos)

    @cached_property
    def tagger(self) -> WordMeans:
        """Reads and tags what is asked."""
        return WordMeans(self.stream)

    def reader(self, matcher: Matcher) -> EncodeTexts:
        """The text tower."""
        return self.tagger.read

    def confounders(self) -> FoundConfounders:
        """Centres of frames."""
        return confounders_of(self.train.videos, None, CONFOUNDERS, self.place.seed)


class WordMeans:
    """A text tower and a tagger of counterfactual queries: a word is read as the mean of what the log has for it."""

    name = "classes"

    def __init__(self, stream: QueryStream) -> None:
        parts: dict[str, list[FloatArray]] = {}
        for sentence, vectors in zip(stream.sentences, stream.texts.words, strict=True):
            for word, vector in zip(sentence.split(), vectors, strict=True):
                parts.setdefault(word, []).append(vector.astype(np.float32))
        self._means = {word: _unit(np.mean(vectors, axis=0)) for word, vectors in parts.items()}

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        """Verbs and nouns by their names."""
        return [
            tuple(Token(word, word, "VB" if word.startswith("verb") else "NN") for word in caption.split())
            for caption in captions
        ]

    def read(self, sentences: Sequence[str]) -> TextFeatures:
        """Features of sentences of one or two known words."""
        ids = tuple(f"read {number}" for number in range(len(sentences)))
        size = len(next(iter(self._means.values())))
        words, mask = np.zeros((len(ids), 2, size), np.float16), np.zeros((len(ids), 2), np.bool_)
        for row, sentence in enumerate(sentences):
            for place, word in enumerate(sentence.split()):
                words[row, place], mask[row, place] = self._means[word], True
        return TextFeatures(ids, words, mask, _unit(words.astype(np.float32).sum(1)))


def source_model(world: DomainWorld, place: Place) -> SourceModel:
    """The baseline on one world."""
    return SourceModel(world, *learned(recipe(place.seed, place.size.steps), world.train, world.val), place.seed)


def draw(place: Place) -> DomainWorld:
    """The world of a seed and strength."""
    return DomainWorld(place)


def measure(world: DomainWorld, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The figures of some rows on one world."""
    source: SourceModel | None = None
    for row in rows:
        if row in ADAPTED or row == BASELINE:
            source = source or source_model(world, place)
            yield row, ADAPTED[row](source) if row in ADAPTED else source.baseline()
        else:
            yield row, other_row(world, place, row)


def other_row(world: DomainWorld, place: Place, row: str) -> Figures:
    """A row that adapts nothing."""
    if row == UNTRAINED:
        return found_by(as_scores(cosines(world.test.texts, world.test.videos), world.test), world.test)
    if row == ALIKE:
        made = learned_by_likeness(recipe(place.seed, place.size.steps), world.train, world.val, world.test.videos)
        return measured_row(made[0], world.test, made[1])
    if row == REFERENCE:
        return measured_row_of(plain_recipe(AGAIN, place), world.told(), world.test)
    longer = recipe(place.seed, round(ROWS[LONGER].steps * place.size.steps))
    return measured_row_of(longer if row == LONGER else plain_recipe(row, place), world, world.test)


def measured_row_of(asked: Any, world: DomainWorld, test: FeatureWorld) -> Figures:
    """What a training on a world finds in the test split."""
    matcher, taken_s = learned(asked, world.train, world.val)
    return measured_row(matcher, test, taken_s)


def _unit(vectors: FloatArray) -> FloatArray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


EVIDENCE = Evidence("drawn", "domain", ROWS, draw, measure)
