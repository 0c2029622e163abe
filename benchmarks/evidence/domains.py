"""Another look and other words in a source than in a target: what can be learned from a log of queries without labels.

The drawn world of two domains is here, and the rendered one, whose log are the captions of its test split.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.evidence.drawn import LOG, QUERIES
from benchmarks.evidence.engine import (
    ALIKE,
    ALIKE_ROW,
    BASELINE,
    SPLITS,
    UNTRAINED,
    Evidence,
    Kind,
    Model,
    Part,
    Place,
    Reading,
    Row,
    Size,
    Trainings,
    World,
    as_scores,
    clips_of,
    plain_rows,
    values_of,
)
from benchmarks.evidence.rendered import RenderedWorld, admission_rows, plan_of
from benchmarks.worlds.model import DomainSettings, draw_domains, draw_queries
from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.baselines import FlowSettings
from evenreel.adaptation.matching import alike_groups
from evenreel.adaptation.prepared import (
    FoundConfounders,
    PreparedSource,
    PrepareSettings,
    confounders_of,
    prepare,
    resources_of,
)
from evenreel.adaptation.run import adapt
from evenreel.adaptation.stream import EncodeTexts, QueryStream, caption_vectors, taken, text_reader
from evenreel.adaptation.titan import AdaptSettings, MatchSettings, load_settings, naive
from evenreel.encoders import load_encoder
from evenreel.evaluation.rescoring import hub_memory, nearest_neighbour_norm, querybank_norm, sinkhorn_norm
from evenreel.features.scene_elements import EmbeddedDictionary, embed
from evenreel.language import load_tagger
from evenreel.language.scene_elements import packaged
from evenreel.language.tokens import Tagged, Tagger, Token
from evenreel.matchers.adapter import AdapterSettings
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.cells import Figures
from evenreel.training.batches import FeatureExamples, pairs_of
from evenreel.types import FloatArray, Scores, TextFeatures

LONGER = "as many more steps"
NAIVE, CHR, CBC, TITAN, ONLINE, PRINTED = (
    "naive pseudo-labels", "TITAN's rebalancing", "TITAN's bias correction", "TITAN", "TITAN, online",
    "TITAN, printed rate",
)  # fmt: skip
TTT, TTT_FLOW, SAFE = "TTT++", "TTTFlow", "evenreel adapt, as it comes"
QB_NORM, NNN, SINKHORN, HUB_MEMORY = "QB-Norm", "NNN", "Sinkhorn normalisation", "hub memory"
MASSES, ROTATED, BOTH = "labels by transport", "rotation", "rotation and Sinkhorn normalisation"
ASSIGNED, SPREAD = "labels by assignment", "labels by assignment and Sinkhorn normalisation"
LINEAR = "mean_pool behind linear maps"
"""The matcher of the rows that need a linear map, as it is."""
EARLIER = "queries that were asked before, without answers"


class Passes(NamedTuple):
    """How often a log is gone through, offline."""

    plain: int  # without the bias correction
    corrected: int  # with it
    step_share: float  # steps of one pass, in times of the baseline's


class Target(Protocol):
    """A world that is learned from in one domain and searched in another."""

    @property
    def train(self) -> Part:
        """The source's clips with their captions."""

    @property
    def test(self) -> Part:
        """The target's, with the answers that are measured by."""

    @property
    def stream(self) -> QueryStream:
        """What is asked of the target's clips, without answers."""

    @property
    def tagger(self) -> Tagger:
        """Reads the queries' words."""

    @property
    def passes(self) -> Passes:
        """How often a log is gone through."""

    @property
    def preparing(self) -> PrepareSettings:
        """How the source is prepared."""

    def reader(self, matcher: Matcher) -> EncodeTexts:
        """The text tower of queries that lose a word."""

    def confounders(self) -> FoundConfounders:
        """What the bias correction knows of the source."""


class SourceModel:
    """A model of the source, and all that adapts it.

    Args:
        own: trainings on its source.
        world: source and target.
        matcher: trained on the source, with the seconds of processor time that this took.
    """

    def __init__(self, own: Trainings, world: Target, matcher: tuple[Matcher, float]) -> None:
        self._own, self._world, self._seed = own, world, own.place.seed
        self.matcher, self.training_s = matcher
        self._made: dict[AdaptSettings, tuple[Matcher, float]] = {}

    @cached_property
    def _prepared(self) -> tuple[PreparedSource, float]:
        """What TITAN and TTT++ need of the source, and seconds of processor time."""
        begun_s, train = time.process_time(), self._world.train
        pairs = pairs_of(train.corpus, train.texts.ids, train.videos.ids)
        part = FeatureExamples(pairs, train.texts, train.videos)
        found = prepare(self.matcher, part, self._world.confounders(), replace(self._world.preparing, seed=self._seed))
        return found, time.process_time() - begun_s

    def adapted(self, settings: AdaptSettings) -> tuple[Matcher, float]:
        """The model after the log, and seconds of processor time; made once."""
        if settings not in self._made:
            self._made[settings] = self._adapted(settings)
        return self._made[settings]

    def _adapted(self, settings: AdaptSettings) -> tuple[Matcher, float]:
        prepared, prepared_s = None, 0.0
        if settings.causal or settings.objective.startswith("ttt"):
            prepared, prepared_s = self._prepared
        world, stream, begun_s = self._world, self._world.stream, time.process_time()
        resources = resources_of(prepared, stream.videos, settings, world.reader(self.matcher), world.tagger)
        done = adapt(TestTimeMatcher(self.matcher, stream.videos, settings, resources), stream, keep=False)
        return done.matcher, time.process_time() - begun_s + prepared_s

    def row(self, settings: AdaptSettings) -> Figures:
        matcher, taken_s = self.adapted(settings)
        return self._own.measured(matcher, self.training_s + taken_s)

    def normalised(
        self,
        norm: Callable[[Scores, NDArray[Any]], Scores],
        settings: AdaptSettings | None = None,
        *,
        grouped: bool = False,
    ) -> Figures:
        """What is found with scores that are corrected by the log.

        Args:
            norm: the correction.
            settings: of an adaptation before; None for none.
            grouped: whether queries that are alike are one of the bank.
        """
        test = self._world.test
        matcher, taken_s = (self.matcher, 0.0) if settings is None else self.adapted(settings)
        begun_s = time.process_time()
        bank = log_scores(matcher, self._world.stream, grouped)
        taken_s += time.process_time() - begun_s
        return self._own.searched(
            lambda: norm(as_scores(values_of(matcher, test), test), bank), self.training_s + taken_s
        )

    def remembered(self) -> Figures:
        """What is found by captions of the test that come in a stream, each corrected by what was asked before it."""
        test, stream = self._world.test, self._world.stream

        def read() -> Scores:
            values, place = values_of(self.matcher, test), {name: row for row, name in enumerate(test.texts.ids)}
            if set(place) == set(stream.texts.ids):  # what is tested is the stream
                before, order = values[:0], np.array([place[name] for name in stream.texts.ids])
            else:
                before = log_scores(self.matcher, stream, grouped=False)
                order = np.random.default_rng([self._seed, 8]).permutation(len(values))
            return as_scores(in_a_stream(values, order, before), test)

        return self._own.searched(read, self.training_s)

    def titan(self, protocol: str = "offline", **changed: Any) -> AdaptSettings:
        """TITAN with the rate for a small adapter, and ranks among all of the log."""
        paper, world = load_settings(f"titan/{protocol}"), self._world
        epochs = world.passes.corrected if protocol == "offline" else 1
        bank = len(world.stream.sentences)
        ours = replace(paper, learns="heads", lr=1e-3, epochs=epochs, bank=bank, seed=self._seed)
        return replace(ours, **changed)

    def uncorrected(self, **changed: Any) -> AdaptSettings:
        return self.titan(causal=False, epochs=self._world.passes.plain, **changed)

    def matched(self, matching: MatchSettings) -> AdaptSettings:
        """Each query learns from the clip that a way to match gives it."""
        return replace(naive(self.uncorrected()), matching=matching)

    def rotation(self) -> AdaptSettings:
        return replace(load_settings("rotation"), seed=self._seed)


def in_a_stream(values: NDArray[Any], order: NDArray[np.intp], before: NDArray[Any]) -> NDArray[np.float64]:
    """Correct scores by the hub memory.

    Args:
        values: (Q, V) scores.
        order: (Q,) rows as they are asked.
        before: (N, V) scores of queries that were asked before all of them.
    """
    asked = np.concatenate([before, values[order]])
    scores = Scores(asked, [f"q{row}" for row in range(len(asked))], [f"v{column}" for column in range(asked.shape[1])])
    found = np.empty(values.shape)
    found[order] = hub_memory(scores).values[len(before) :]
    return found


def log_scores(matcher: Matcher, stream: QueryStream, grouped: bool) -> NDArray[Any]:
    """(N, V) scores of a log's queries; of groups of like ones, each as one query of unit length, if `grouped`."""
    values = matcher_scores(matcher, stream.texts, stream.videos).block(slice(None), slice(None))
    if not grouped:
        return np.asarray(values)
    queries = caption_vectors(matcher, stream.texts).numpy()
    groups = alike_groups(queries, load_settings("rotation").alike)
    members = (groups == np.arange(groups.max() + 1)[:, None]).astype(queries.dtype)
    return np.asarray(members @ values / np.linalg.norm(members @ queries, axis=1, keepdims=True))


def nnn(scores: Scores, bank: NDArray[Any]) -> Scores:
    """NNN with 128 neighbours, or as many as there are."""
    return nearest_neighbour_norm(scores, bank, top=min(128, len(bank)))


Method = Callable[[SourceModel], Figures]
TRANSPORT = MatchSettings("sinkhorn", temperature=0.02, iterations=20)
HUNGARIAN = MatchSettings("hungarian")


def from_source(method: Method, model: str = BASELINE) -> Reading:
    """What a model of the source finds after it was adapted."""

    def read(own: Trainings) -> Figures:
        source = own.kept(("source", model), lambda: SourceModel(own, own.world, own.made(model)))  # type: ignore[arg-type]
        return method(source)

    return read


def adaptation_rows(passes: Passes) -> dict[str, Row]:
    """The methods that any matcher can do, and the control with as many steps more."""
    plain, corrected, once = (1 + count * passes.step_share for count in (passes.plain, passes.corrected, 1))

    def row(words: str, steps: float, method: Method, kind: Kind = "published", uses: str = LOG) -> Row:
        return Row(kind, words, steps, uses=uses, read=from_source(method))

    return {
        LONGER: Row("control", "the baseline for as many steps more as adaptation takes", plain),
        NAIVE: row("each query's first clip as its label", plain, lambda one: one.row(naive(one.uncorrected()))),
        CHR: row(
            "labels by ranks in both directions, and counterfactual captions", plain,
            lambda one: one.row(one.uncorrected()),
        ),
        CBC: row(
            "first clips, corrected by causal intervention, 1,000 steps of 1e-3", corrected,
            lambda one: one.row(replace(naive(one.titan()), causal=True)),
        ),
        TITAN: row("both parts, 1,000 steps of 1e-3, rate 1e-3", corrected, lambda one: one.row(one.titan())),
        ONLINE: row(
            "both parts, batch by batch, 200 steps of 1e-3, rate 1e-3", once,
            lambda one: one.row(one.titan("online")),
        ),
        PRINTED: row(
            "both parts at the paper's rate of 1e-5, once through the log", once,
            lambda one: one.row(one.titan(lr=1e-5, epochs=1)),
        ),
        TTT: row(
            "views of an item are alike, and moments are the source's", plain,
            lambda one: one.row(one.uncorrected(objective="ttt")),
        ),
        QB_NORM: row("QB-Norm with the log as its bank", 1, lambda one: one.normalised(querybank_norm)),
        NNN: row("NNN with the log as its bank", 1, lambda one: one.normalised(nnn)),
        HUB_MEMORY: row(
            "batches of 16, each weighed by what was asked before it", 1, lambda one: one.remembered(), uses=EARLIER
        ),
        MASSES: row(
            "labels by transport from all queries to all clips alike, rate 1e-3", plain,
            lambda one: one.row(one.matched(TRANSPORT)), "ours",
        ),
    }  # fmt: skip


def turned_rows(model: str = BASELINE, *, chosen: bool = False) -> dict[str, Row]:
    return {
        ROTATED: Row(
            "ours", "captions turned five times towards clips by transport from groups of like queries", uses=LOG,
            read=from_source(lambda one: one.row(one.rotation()), model),
        ),
        BOTH: Row(
            "ours", "the rotation, then Sinkhorn normalisation by the same groups", uses=LOG, chosen=chosen,
            read=from_source(lambda one: one.normalised(sinkhorn_norm, one.rotation(), grouped=True), model),
        ),
    }  # fmt: skip


# The drawn world

CONFOUNDERS = 64
"""Centres of frames that the bias correction knows."""
PASSES = Passes(4, 1, -(-QUERIES // 128) / 600)
"""The bias correction takes a hundred times as long."""


class DomainWorld(World):
    """A world of one seed and strength with its log of queries; told, clips have the look and wording of the target."""

    passes = PASSES
    preparing = PrepareSettings(flow=FlowSettings(steps=0))

    def __init__(self, place: Place, settings: DomainSettings | None = None) -> None:
        clips = clips_of(place)
        world = draw_domains(clips, place.strength, place.seed, settings)
        super().__init__((world.split(name) for name in SPLITS), lambda: DomainWorld(place, DomainSettings().told))
        self.place, self._clips = place, clips

    @cached_property
    def stream(self) -> QueryStream:
        """What is asked of the test clips, as text and as features, without answers."""
        shown = self._clips.filter(pl.col("split") == "test")
        log = draw_queries(shown, QUERIES, self.place.seed)
        actions = [f"verb{verb} noun{noun}" for verb, noun in shown.select("verb", "noun").iter_rows()]
        return QueryStream(log.texts, tuple(actions[clip] for clip in log.clips), self.test.videos)

    @cached_property
    def tagger(self) -> WordMeans:
        return WordMeans(self.stream)

    def reader(self, matcher: Matcher) -> EncodeTexts:
        return self.tagger.read

    def confounders(self) -> FoundConfounders:
        return confounders_of(self.train.videos, None, CONFOUNDERS, self.place.seed)


class WordMeans:
    """A text tower and a tagger of counterfactual queries: a word is read as the mean of what the log has for it."""

    name = "classes"

    def __init__(self, stream: QueryStream) -> None:
        parts: dict[str, list[FloatArray]] = {}
        for sentence, vectors in zip(stream.sentences, stream.texts.words, strict=True):
            for word, vector in zip(sentence.split(), vectors, strict=True):
                parts.setdefault(word, []).append(vector.astype(np.float32))
        self._means = {word: unit(np.mean(vectors, axis=0)) for word, vectors in parts.items()}

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        return [
            tuple(Token(word, word, "VB" if word.startswith("verb") else "NN") for word in caption.split())
            for caption in captions
        ]

    def read(self, sentences: Sequence[str]) -> TextFeatures:
        ids = tuple(f"read {number}" for number in range(len(sentences)))
        size = len(next(iter(self._means.values())))
        words, mask = np.zeros((len(ids), 2, size), np.float16), np.zeros((len(ids), 2), np.bool_)
        for row, sentence in enumerate(sentences):
            for place, word in enumerate(sentence.split()):
                words[row, place], mask[row, place] = self._means[word], True
        return TextFeatures(ids, words, mask, unit(words.astype(np.float32).sum(1)))


def unit(vectors: FloatArray) -> FloatArray:
    """Vectors (..., D) of unit length; zeros stay."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


EVIDENCE = Evidence(
    "drawn", "domain",
    {
        **UNTRAINED,
        **plain_rows("the same clips in the look and the wording of the target", "the target", other=1),
        **adaptation_rows(PASSES),
        SINKHORN: Row(
            "published", "potentials of clips in a transport of the log's groups of like queries", uses=LOG,
            read=from_source(lambda one: one.normalised(sinkhorn_norm, grouped=True)),
        ),
        ALIKE: ALIKE_ROW,
        **turned_rows(chosen=True),
    },
    DomainWorld,
)  # fmt: skip


# The rendered world

SIZE = Size(1_500, 0, 500)
RENDERED_PASSES = Passes(12, 4, 8 / SIZE.steps)
"""Through 900 captions in batches of 128."""


class RenderedTarget(RenderedWorld):
    """A rendered world whose test captions are asked, in an order that the seed draws, without answers."""

    passes = RENDERED_PASSES
    preparing = PrepareSettings()

    @cached_property
    def tagger(self) -> Tagger:
        return load_tagger("pattern")

    @property
    def stream(self) -> QueryStream:
        test = self.test
        order = np.random.default_rng([self.plan.seed, 7]).permutation(len(test.texts.ids))
        texts = taken(test.texts, order)
        sentences = dict(test.corpus.captions.select("caption_id", "text").iter_rows())
        return QueryStream(texts, tuple(sentences[one] for one in texts.ids), test.videos)

    def reader(self, matcher: Matcher) -> EncodeTexts:
        return text_reader(load_encoder("builtin"), matcher)

    def confounders(self) -> FoundConfounders:
        """What `evenreel prepare` finds: the packaged phrases that most clips are near."""
        return confounders_of(self.train.videos, _phrases())


@cache
def _phrases() -> EmbeddedDictionary:
    return embed(packaged(), load_encoder("builtin"))


def rendered_rows() -> dict[str, Row]:
    """Those of the drawn world, and those that take every query once."""
    rows = admission_rows("domain") | adaptation_rows(RENDERED_PASSES)
    ours = Row(
        "ours",
        "each clip is the label of as many queries as any other",
        rows[LONGER].steps,
        uses=LOG,
        read=from_source(lambda one: one.row(one.matched(HUNGARIAN))),
    )
    return rows | {
        TTT_FLOW: replace(
            rows[TTT], words="vectors of the target are made likely by flows of the source",
            read=from_source(lambda one: one.row(one.uncorrected(objective="ttt_flow"))),
        ),
        SINKHORN: Row(
            "published", "potentials of clips in a transport of the log's queries", uses=LOG,
            read=from_source(lambda one: one.normalised(sinkhorn_norm)),
        ),
        SAFE: replace(
            ours, words="TITAN's rebalancing with all of the safety, four times through the log",
            steps=1 + load_settings("safe").epochs * RENDERED_PASSES.step_share,
            read=from_source(lambda one: one.row(load_settings("safe"))),
        ),
        ASSIGNED: ours,
        SPREAD: replace(
            ours, words="the model of the row above, then potentials by its own scores", chosen=True,
            read=from_source(
                lambda one: one.normalised(partial(sinkhorn_norm, temperature=0.05), one.matched(HUNGARIAN))
            ),
        ),
        ALIKE: ALIKE_ROW,
        LINEAR: Row(
            "control", "the matcher of the rows below before they adapt it, trained as the baseline is",
            model=Model("mean_pool", changes={"adapter": AdapterSettings(kind="linear")}),
        ),
        **turned_rows(LINEAR),
    }  # fmt: skip


RENDERED_EVIDENCE = Evidence(
    "rendered", "domain", rendered_rows(), lambda place: RenderedTarget(plan_of("domain", place)), SIZE
)
