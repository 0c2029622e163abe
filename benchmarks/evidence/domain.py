"""Rows of the drawn world of two domains: what can be learned from its target's queries and clips without labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.admission_rules import HALF, NO_ADAPTER, TWICE
from benchmarks.evidence.rows import AGAIN, BASELINE, REFERENCE, SEARCH_S, TRAINING_S, Evidence, Place, Row
from benchmarks.evidence.trainings import (
    OTHER,
    as_scores,
    clips_of,
    cosines,
    found_by,
    learned,
    learned_by_likeness,
    measured_row,
    recipe,
    values_of,
    without_adapter,
)
from benchmarks.over_seeds import Figures
from evenreel.adaptation.adapted import TestTimeMatcher, gallery_of
from evenreel.adaptation.baselines.ttt_flow import FlowSettings
from evenreel.adaptation.prepared import PreparedSource
from evenreel.adaptation.preparing import PrepareSettings, SourceSplit, confounders_of, prepare
from evenreel.adaptation.resources import resources_of
from evenreel.adaptation.rotation import alike_groups, group_means
from evenreel.adaptation.run import adapt
from evenreel.adaptation.settings import AdaptSettings, naive
from evenreel.adaptation.settings_files import load_settings
from evenreel.adaptation.stream import QueryStream
from evenreel.adaptation.titan.matching import MatchSettings
from evenreel.adaptation.titan.pseudo_labels import vectors_of
from evenreel.evaluation.rescoring import nearest_neighbour_norm, querybank_norm, sinkhorn_norm
from evenreel.language.tokens import Tagged, Token
from evenreel.matchers.matcher import Matcher
from evenreel.planted.worlds.domains import DomainSettings, draw_domains, draw_queries
from evenreel.planted.worlds.drawing import FeatureWorld
from evenreel.training.data.pairs import pairs_of
from evenreel.types import FloatArray, Scores, TextFeatures

QUERIES = 5_000
"""In the log of the target; the r-th most wanted clip is asked for 1 / r times as often as the first."""
UNTRAINED = "untrained, mean frame"
LONGER = "as many more steps"
NAIVE, CHR, CBC, TITAN, ONLINE, PRINTED = (
    "naive pseudo-labels",
    "TITAN's rebalancing",
    "TITAN's bias correction",
    "TITAN",
    "TITAN, online",
    "TITAN, printed rate",
)
TTT = "TTT++"
QB_NORM, NNN, SINKHORN = "QB-Norm", "NNN", "Sinkhorn normalisation"
ALIKE = "drawn by likeness"
MASSES, ROTATED, BOTH = "labels by transport", "rotation", "rotation and Sinkhorn normalisation"
LOG = "the log of queries, without answers"
CONFOUNDERS = 64
"""Centres of frames that the bias correction knows."""
EPOCHS = 4
"""Times through the log without the bias correction; with it once, which takes a hundred times as long."""
STEPS = EPOCHS * -(-QUERIES // 128) / 600
"""Of adaptation four times through, in times of the baseline's."""
ONCE = STEPS / EPOCHS


def _adapted(words: str, kind: Any = "published", steps: float = STEPS, **more: Any) -> Row:
    return Row(kind, words, 1 + steps, uses=LOG, **more)


ROWS: dict[str, Row] = {
    UNTRAINED: Row("untrained", "the cosine of the sentence and the mean frame"),
    BASELINE: Row("baseline", "mean_pool behind linear maps, trained on the source"),
    HALF: Row("admission", "half of the baseline's steps", 0.5),
    TWICE: Row("admission", "twice the baseline's steps", 2.0),
    NO_ADAPTER: Row("admission", "mean_pool alone, of which only the temperature learns"),
    REFERENCE: Row(
        "admission", "the same clips in the look and the wording of the target", uses="the target", unavailable=True
    ),
    AGAIN: Row("admission", "the baseline from other random numbers"),
    LONGER: Row("control", "the baseline for as many steps more as adaptation takes", 1 + STEPS),
    NAIVE: _adapted("each query's first clip as its label"),
    CHR: _adapted("labels by ranks in both directions, and counterfactual captions"),
    CBC: _adapted("first clips, corrected by causal intervention, 1,000 steps of 1e-3", steps=ONCE),
    TITAN: _adapted("both parts, 1,000 steps of 1e-3, rate 1e-3, once through the log", steps=ONCE),
    ONLINE: _adapted("both parts, batch by batch, 200 steps of 1e-3, rate 1e-3", steps=ONCE),
    PRINTED: _adapted("both parts at the paper's rate of 1e-5, once through the log", steps=ONCE),
    TTT: _adapted("views of an item are alike, and moments are the source's"),
    QB_NORM: _adapted("QB-Norm with the log as its bank", steps=0),
    NNN: _adapted("NNN with the log as its bank", steps=0),
    SINKHORN: _adapted("potentials of clips in a transport of the log's groups of like queries", "published", 0),
    ALIKE: Row(
        "ours",
        "clips drawn the more often, the more they are like those searched (`likeness`)",
        uses="frames of the clips that are searched",
    ),
    MASSES: _adapted("labels by transport from all queries to all clips alike, rate 1e-3", "ours"),
    ROTATED: _adapted("captions turned five times towards clips by transport from groups of like queries", "ours", 0),
    BOTH: _adapted("the rotation, then Sinkhorn normalisation by the same groups", "ours", 0, chosen=True),
}


class DomainWorld:
    """A world of one seed and strength with its log of queries."""

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


class SourceModel:
    """The baseline on one world, and all that adapts it."""

    def __init__(self, world: DomainWorld) -> None:
        place = world.place
        self._world, self._seed = world, place.seed
        self.matcher, self.training_s = learned(recipe(place.seed, place.size.steps), world.train, world.val)

    @cached_property
    def _prepared(self) -> tuple[PreparedSource, float]:
        """What TITAN and TTT++ need of the source, and seconds of processor time."""
        begun_s, train = time.process_time(), self._world.train
        part = SourceSplit(train.texts, train.videos, pairs_of(train.corpus, train.texts.ids, train.videos.ids))
        confounders = confounders_of(train.videos, None, CONFOUNDERS, self._seed)
        settings = PrepareSettings(flow=FlowSettings(steps=0), seed=self._seed)
        found = prepare(self.matcher, part, confounders, settings)
        return found, time.process_time() - begun_s

    def adapted(self, settings: AdaptSettings) -> tuple[Matcher, float]:
        """The model after the log, and seconds of processor time."""
        stream, begun_s = self._world.stream, time.process_time()
        prepared, prepared_s = None, 0.0
        if settings.causal or settings.objective == "ttt":
            prepared, prepared_s = self._prepared
            begun_s = time.process_time()
        tower = WordMeans(stream)
        resources = resources_of(prepared, stream.videos, settings, tower.read, tower)
        done = adapt(TestTimeMatcher(self.matcher, stream.videos, settings, resources), stream, keep=False)
        return done.matcher, time.process_time() - begun_s + prepared_s

    def row(self, settings: AdaptSettings) -> Figures:
        """What an adapted model finds."""
        matcher, taken_s = self.adapted(settings)
        return measured_row(matcher, self._world.test, self.training_s + taken_s)

    def normalised(
        self, norm: Callable[[Scores, NDArray[Any]], Scores], grouped: bool, rotate: bool = False
    ) -> Figures:
        """What is found with scores that are corrected by the log, as it is or by groups of like queries."""
        test, stream = self._world.test, self._world.stream
        matcher, taken_s = self.adapted(self.rotation()) if rotate else (self.matcher, 0.0)
        begun_s = time.process_time()
        queries = vectors_of(matcher, stream.texts).numpy()
        bank = group_means(queries, alike_groups(queries, self.rotation().alike)) if grouped else queries
        gallery = gallery_of(matcher, test.videos, vectors=True).vectors
        assert gallery is not None
        bank = bank @ gallery.numpy().T
        taken_s += time.process_time() - begun_s
        begun_s = time.process_time()
        scores = norm(as_scores(values_of(matcher, test), test), bank)
        searched_s = time.process_time() - begun_s
        return found_by(scores, test) | {TRAINING_S: self.training_s + taken_s, SEARCH_S: searched_s}

    def by_likeness(self) -> Figures:
        """What another model finds that learned from clips drawn by how like they are to the searched ones."""
        world, place = self._world, self._world.place
        asked = recipe(place.seed, place.size.steps)
        matcher, taken_s = learned_by_likeness(asked, world.train, world.val, world.test.videos)
        return measured_row(matcher, world.test, taken_s)

    def titan(self, protocol: str = "offline", **changed: Any) -> AdaptSettings:
        """TITAN with the rate for a small adapter, and ranks among all of the log."""
        paper = load_settings(f"titan/{protocol}")
        return replace(paper, learns="heads", lr=1e-3, bank=QUERIES, seed=self._seed, **changed)

    def rotation(self) -> AdaptSettings:
        """The settings that are shipped."""
        return replace(load_settings("rotation"), seed=self._seed)


METHODS: dict[str, Callable[[SourceModel], Figures]] = {
    NAIVE: lambda model: model.row(naive(model.titan(epochs=EPOCHS))),
    CHR: lambda model: model.row(model.titan(causal=False, epochs=EPOCHS)),
    CBC: lambda model: model.row(replace(naive(model.titan()), causal=True)),
    TITAN: lambda model: model.row(model.titan()),
    ONLINE: lambda model: model.row(model.titan("online")),
    PRINTED: lambda model: model.row(replace(model.titan(), lr=1e-5)),
    TTT: lambda model: model.row(model.titan(objective="ttt", epochs=EPOCHS)),
    QB_NORM: lambda model: model.normalised(querybank_norm, grouped=False),
    NNN: lambda model: model.normalised(nearest_neighbour_norm, grouped=False),
    SINKHORN: lambda model: model.normalised(sinkhorn_norm, grouped=True),
    ALIKE: lambda model: model.by_likeness(),
    MASSES: lambda model: model.row(
        replace(naive(model.titan(epochs=EPOCHS)), matching=MatchSettings("sinkhorn", temperature=0.02, iterations=20))
    ),
    ROTATED: lambda model: model.row(model.rotation()),
    BOTH: lambda model: model.normalised(sinkhorn_norm, grouped=True, rotate=True),
}


def draw(place: Place) -> DomainWorld:
    """The world of a seed and strength."""
    return DomainWorld(place)


def measure(world: DomainWorld, place: Place, rows: Sequence[str]) -> Iterator[tuple[str, Figures]]:
    """The figures of some rows on one world."""
    source: SourceModel | None = None
    for row in rows:
        if row in METHODS or row == BASELINE:
            source = source or SourceModel(world)
            yield (
                row,
                METHODS[row](source) if row in METHODS else measured_row(source.matcher, world.test, source.training_s),
            )
        else:
            yield row, other_row(world, place, row)


def other_row(world: DomainWorld, place: Place, row: str) -> Figures:
    """A row that adapts nothing."""
    if row == UNTRAINED:
        return found_by(as_scores(cosines(world.test.texts, world.test.videos), world.test), world.test)
    steps = {HALF: 0.5, TWICE: 2.0, LONGER: 1 + STEPS}.get(row, 1.0)
    asked = recipe(place.seed + (OTHER if row in (AGAIN, REFERENCE) else 0), round(steps * place.size.steps))
    told = world.told() if row == REFERENCE else world
    return measured_row_of(without_adapter(asked) if row == NO_ADAPTER else asked, told, world.test)


def measured_row_of(asked: Any, world: DomainWorld, test: FeatureWorld) -> Figures:
    """What a training on a world finds in the test split."""
    matcher, taken_s = learned(asked, world.train, world.val)
    return measured_row(matcher, test, taken_s)


def _unit(vectors: FloatArray) -> FloatArray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


EVIDENCE = Evidence("drawn", "domain", ROWS, draw, measure)
