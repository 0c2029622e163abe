"""What adapts a model to a target's queries and clips without labels, in whatever world there is a target."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.rows import SEARCH_S, TRAINING_S, Kind, Part, Row
from benchmarks.evidence.trainings import as_scores, found_by, measured_row, values_of
from evenreel.adaptation.adapted import TestTimeMatcher
from evenreel.adaptation.prepared import PreparedSource
from evenreel.adaptation.preparing import FoundConfounders, PrepareSettings, SourceSplit, prepare
from evenreel.adaptation.resources import resources_of
from evenreel.adaptation.rotation import alike_groups
from evenreel.adaptation.run import adapt
from evenreel.adaptation.settings import AdaptSettings, naive
from evenreel.adaptation.settings_files import load_settings
from evenreel.adaptation.stream import EncodeTexts, QueryStream
from evenreel.adaptation.titan.matching import MatchSettings
from evenreel.adaptation.titan.pseudo_labels import vectors_of
from evenreel.evaluation.rescoring import hub_memory, nearest_neighbour_norm, querybank_norm, sinkhorn_norm
from evenreel.language.tokens import Tagger
from evenreel.matchers.matcher import Matcher
from evenreel.matchers.scoring import matcher_scores
from evenreel.papers.cells import Figures
from evenreel.training.batches import pairs_of
from evenreel.types import Scores

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
QB_NORM, NNN, SINKHORN, HUB_MEMORY = "QB-Norm", "NNN", "Sinkhorn normalisation", "hub memory"
MASSES, ROTATED, BOTH = "labels by transport", "rotation", "rotation and Sinkhorn normalisation"
ALIKE = "drawn by likeness"
LOG = "the log of queries, without answers"
EARLIER = "queries that were asked before, without answers"


class Passes(NamedTuple):
    """How often a log is gone through, offline.

    Attributes:
        plain: without the bias correction.
        corrected: with it.
        step_share: steps of one pass, in times of the baseline's.
    """

    plain: int
    corrected: int
    step_share: float


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
        world: its source and target.
        matcher: trained on the source.
        training_s: seconds of processor time that this took.
        seed: of what adaptation draws.
    """

    def __init__(self, world: Target, matcher: Matcher, training_s: float, seed: int) -> None:
        self._world, self.matcher, self.training_s, self._seed = world, matcher, training_s, seed
        self._made: dict[AdaptSettings, tuple[Matcher, float]] = {}

    @cached_property
    def _prepared(self) -> tuple[PreparedSource, float]:
        """What TITAN and TTT++ need of the source, and seconds of processor time."""
        begun_s, train = time.process_time(), self._world.train
        part = SourceSplit(train.texts, train.videos, pairs_of(train.corpus, train.texts.ids, train.videos.ids))
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

    def baseline(self) -> Figures:
        """What the model finds as it is."""
        return measured_row(self.matcher, self._world.test, self.training_s)

    def row(self, settings: AdaptSettings) -> Figures:
        """What an adapted model finds."""
        matcher, taken_s = self.adapted(settings)
        return measured_row(matcher, self._world.test, self.training_s + taken_s)

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
        begun_s = time.process_time()
        scores = norm(as_scores(values_of(matcher, test), test), bank)
        searched_s = time.process_time() - begun_s
        return found_by(scores, test) | {TRAINING_S: self.training_s + taken_s, SEARCH_S: searched_s}

    def remembered(self) -> Figures:
        """What is found by captions of the test that come in a stream, each corrected by what was asked before it."""
        test, stream = self._world.test, self._world.stream
        begun_s = time.process_time()
        values, place = values_of(self.matcher, test), {name: row for row, name in enumerate(test.texts.ids)}
        if set(place) == set(stream.texts.ids):  # what is tested is the stream
            before, order = values[:0], np.array([place[name] for name in stream.texts.ids])
        else:
            before = log_scores(self.matcher, stream, grouped=False)
            order = np.random.default_rng([self._seed, 8]).permutation(len(values))
        found = in_a_stream(values, order, before)
        searched_s = time.process_time() - begun_s
        return found_by(as_scores(found, test), test) | {TRAINING_S: self.training_s, SEARCH_S: searched_s}

    def titan(self, protocol: str = "offline", **changed: Any) -> AdaptSettings:
        """TITAN with the rate for a small adapter, and ranks among all of the log."""
        paper, world = load_settings(f"titan/{protocol}"), self._world
        epochs = world.passes.corrected if protocol == "offline" else 1
        bank = len(world.stream.sentences)
        ours = replace(paper, learns="heads", lr=1e-3, epochs=epochs, bank=bank, seed=self._seed)
        return replace(ours, **changed)

    def uncorrected(self, **changed: Any) -> AdaptSettings:
        """TITAN without its bias correction."""
        return self.titan(causal=False, epochs=self._world.passes.plain, **changed)

    def matched(self, matching: MatchSettings) -> AdaptSettings:
        """Each query learns from the clip that a way to match gives it."""
        return replace(naive(self.uncorrected()), matching=matching)

    def rotation(self) -> AdaptSettings:
        """The settings that are shipped."""
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
    queries = vectors_of(matcher, stream.texts).numpy()
    groups = alike_groups(queries, load_settings("rotation").alike)
    members = (groups == np.arange(groups.max() + 1)[:, None]).astype(queries.dtype)
    return np.asarray(members @ values / np.linalg.norm(members @ queries, axis=1, keepdims=True))


Method = Callable[[SourceModel], Figures]
TRANSPORT = MatchSettings("sinkhorn", temperature=0.02, iterations=20)
METHODS: dict[str, Method] = {
    NAIVE: lambda model: model.row(naive(model.uncorrected())),
    CHR: lambda model: model.row(model.uncorrected()),
    CBC: lambda model: model.row(replace(naive(model.titan()), causal=True)),
    TITAN: lambda model: model.row(model.titan()),
    ONLINE: lambda model: model.row(model.titan("online")),
    PRINTED: lambda model: model.row(model.titan(lr=1e-5, epochs=1)),
    TTT: lambda model: model.row(model.uncorrected(objective="ttt")),
    QB_NORM: lambda model: model.normalised(querybank_norm),
    NNN: lambda model: model.normalised(_nnn),
    HUB_MEMORY: lambda model: model.remembered(),
    MASSES: lambda model: model.row(model.matched(TRANSPORT)),
}
"""Those that any matcher can do."""
TURNS: dict[str, Method] = {
    ROTATED: lambda model: model.row(model.rotation()),
    BOTH: lambda model: model.normalised(sinkhorn_norm, model.rotation(), grouped=True),
}
"""Those that need a linear map of captions."""


def _nnn(scores: Scores, bank: NDArray[Any]) -> Scores:
    return nearest_neighbour_norm(scores, bank, top=min(128, len(bank)))


def adaptation_rows(passes: Passes) -> dict[str, Row]:
    """The rows of `METHODS`, and the control with as many steps more."""
    plain, corrected, once = (1 + count * passes.step_share for count in (passes.plain, passes.corrected, 1))

    def row(words: str, steps: float, kind: Kind = "published") -> Row:
        return Row(kind, words, steps, uses=LOG)

    longer = "the baseline for as many steps more as adaptation takes"
    return {
        LONGER: Row("control", longer, plain),
        NAIVE: row("each query's first clip as its label", plain),
        CHR: row("labels by ranks in both directions, and counterfactual captions", plain),
        CBC: row("first clips, corrected by causal intervention, 1,000 steps of 1e-3", corrected),
        TITAN: row("both parts, 1,000 steps of 1e-3, rate 1e-3", corrected),
        ONLINE: row("both parts, batch by batch, 200 steps of 1e-3, rate 1e-3", once),
        PRINTED: row("both parts at the paper's rate of 1e-5, once through the log", once),
        TTT: row("views of an item are alike, and moments are the source's", plain),
        QB_NORM: row("QB-Norm with the log as its bank", 1),
        NNN: row("NNN with the log as its bank", 1),
        HUB_MEMORY: replace(row("batches of 16, each weighed by what was asked before it", 1), uses=EARLIER),
        MASSES: row("labels by transport from all queries to all clips alike, rate 1e-3", plain, "ours"),
    }


ALIKE_ROW = Row(
    "ours",
    "clips drawn the more often, the more they are like those searched (`likeness`)",
    uses="frames of the clips that are searched",
)


def turned_rows() -> dict[str, Row]:
    """The rows of `TURNS`."""
    turned, both = (
        "captions turned five times towards clips by transport from groups of like queries",
        "the rotation, then Sinkhorn normalisation by the same groups",
    )
    return {ROTATED: Row("ours", turned, uses=LOG), BOTH: Row("ours", both, uses=LOG)}
