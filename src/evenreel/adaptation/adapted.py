"""A matcher that adapts to a stream of queries and can be used as a matcher itself; `reset` undoes what it learned."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evenreel.adaptation.baselines import SourceStatistics
from evenreel.adaptation.matching import caption_map, labelled_rotation, rotate_captions
from evenreel.adaptation.safety import Drift, Quality, QualityVerdict, compared, drift_of, mean_shift, quality
from evenreel.adaptation.stream import (
    EncodeTexts,
    QueryStream,
    caption_vectors,
    check_sentences,
    clip_vectors,
    joined,
    taken,
)
from evenreel.adaptation.titan import (
    AdaptSettings,
    ClipGallery,
    LabelRank,
    Learner,
    PseudoPairs,
    QueryWindow,
    StreamResources,
    UnpairedLoss,
    learnable,
    pseudo_pairs,
    scored,
)
from evenreel.adaptation.titan_correction import CausalCorrection, TargetStage
from evenreel.arrays import Indices
from evenreel.errors import UsageError
from evenreel.evaluation.concentration import balance
from evenreel.language.tokens import Tagger
from evenreel.matchers.matcher import Wrapper
from evenreel.matchers.scoring import encode_videos
from evenreel.progress import Progress
from evenreel.types import FloatArray, TextFeatures, VideoFeatures


@dataclass(frozen=True, eq=False)
class Resources:
    """Resources of test-time training besides the model and the queries, see `adaptation.prepared.resources_of`."""

    encode: EncodeTexts | None = None  # reads counterfactual captions
    tagger: Tagger | None = None  # finds nouns, verbs and adjectives of queries
    correction: CausalCorrection | None = None  # of the source checkpoint; a copy of it is trained on the stream
    confounders: Tensor | None = None  # (N, d) of the target's clips
    statistics: SourceStatistics | None = None  # moments of the source's captions and clips, for the drift test
    objective: Callable[[], UnpairedLoss] | None = None  # makes the loss of a baseline, anew for each stream

    def for_stream(self, settings: AdaptSettings) -> StreamResources:
        """Make the resources of one stream, copies of the parts that learn included."""
        stage = None
        if self.correction is not None and self.confounders is not None:
            fit = replace(settings.causal_fit, seed=settings.seed + settings.causal_fit.seed)
            stage = TargetStage(self.correction, self.confounders, fit)
        return StreamResources(self.encode, self.tagger, stage, None if self.objective is None else self.objective())

    def check(self, settings: AdaptSettings) -> None:
        """Check that every resource that the settings need is there."""
        if settings.objective in ("ttt", "ttt_flow") and self.objective is None:
            raise UsageError(
                f"The source checkpoint carries nothing for {settings.objective}; make it with `evenreel prepare "
                "CHECKPOINT CORPUS`."
            )
        if settings.objective != "pseudo_labels":
            return
        if settings.counterfactuals is not None and (self.encode is None or self.tagger is None):
            raise UsageError(
                "Counterfactual captions have to be read by the text tower of the features, which is not given; give "
                "it, or set counterfactuals to null."
            )
        if settings.causal and (self.correction is None or self.confounders is None):
            raise UsageError(
                "The checkpoint carries no bias correction; make one with `evenreel prepare CHECKPOINT CORPUS`, or set "
                "causal to false."
            )


@dataclass(frozen=True)
class AdaptationStep:
    """One step of adaptation: a batch of a stream (online), or a pass through all of it (offline)."""

    number: int  # from 1
    queries: int  # number of queries labelled
    pairs: int = 0  # number of pseudo-labels that were trained on, counterfactual captions included
    counterfactual: int = 0  # number of captions from which an over-attended word was removed
    coverage: float | None = None  # share of the gallery's clips, 0 to 1, that are the pseudo clip of a query
    gini: float | None = None  # Gini coefficient of the number of matches a clip, 0 where all have as many
    loss: dict[str, float] = field(default_factory=dict)  # mean over the batches, by the name of the term
    # (id of a query, id of its pseudo clip) before any was left out, without counterfactual captions
    labels: tuple[tuple[str, str], ...] = ()
    verdict: QualityVerdict | None = None  # adapted model against the source, on queries that it was not trained on
    served: str = "adapted"  # `adapted` or `source`, the model that is served from here on
    label_rank: LabelRank | None = None  # counterfactual captions included; None without the bias correction


class TestTimeMatcher(Wrapper):
    """Matcher that adapts to the clips of a gallery and to queries as they come, without ever being given an answer.

    It encodes and scores with the model being served: the adapted one, or, with `safety.roll_back`, the source model as
    long as the adapted one is not better on queries that it was not trained on.

    Args:
        matcher: the source matcher; it is not changed.
        videos: features of the V clips of the gallery.
        settings: settings of the adaptation; None for the paper's, with safety.
        resources: encoders, taggers and prepared parts that the settings need.

    Raises:
        UsageError: a resource is missing, or the settings let no weight of the matcher change, or none that the
            objective depends on.
    """

    __test__ = False

    def __init__(
        self,
        matcher: Any,
        videos: VideoFeatures,
        settings: AdaptSettings | None = None,
        resources: Resources | None = None,
    ) -> None:
        super().__init__(_frozen(matcher))
        settings, resources = settings or AdaptSettings(), resources or Resources()
        resources.check(settings)
        learnable(matcher, settings.learns, settings.objective)
        if settings.objective == "rotation":
            caption_map(matcher)
        self.settings, self._resources, self._videos = settings, resources, videos
        drift = settings.safety.drift and resources.statistics is not None
        compared = settings.causal or drift or settings.objective == "rotation"
        self._at_source = gallery_of(self.source, videos, vectors=compared)
        self.reset()

    def reset(self) -> None:
        """Undo the adaptation: set weights, memory of queries and random numbers as they were at the start."""
        safety = self.settings.safety
        self.student: Any = copy.deepcopy(self.source)
        self.teacher: Any = _frozen(self.student) if safety.teacher else self.student
        self._here = self._resources.for_stream(self.settings)
        self._learner = Learner(self.student, self.settings, self._here.unpaired, self._follow)
        self._gallery: ClipGallery | None = self._at_source
        self._seen: QueryWindow | None = None
        self._qualities: tuple[Quality, Quality] | None = None
        self.drift: Drift | None = None
        self._asked = 0
        self.trusted = not safety.roll_back
        self.steps: list[AdaptationStep] = []

    @property
    def clip_ids(self) -> tuple[str, ...]:
        """Ids of the gallery's clips."""
        return self._videos.ids

    @property
    def source(self) -> Any:
        """The source matcher."""
        return self.matcher

    @property
    def served(self) -> Any:
        """The matcher being served: the adapted one, or the source model."""
        return self.teacher if self.trusted and self.learned else self.source

    @property
    def learned(self) -> bool:
        """Whether any weight was updated since the start or the last `reset`."""
        return any(step.loss for step in self.steps)

    @property
    def gallery(self) -> ClipGallery:
        """The gallery's clips as the adapted model encodes them; they are encoded anew after it has learned."""
        if self._gallery is None:
            self._gallery = gallery_of(self.teacher, self._videos, vectors=self.settings.causal)
        return self._gallery

    def see(self, texts: TextFeatures, sentences: Sequence[str]) -> FloatArray:
        """Score B queries, as features and as they are written, with the gallery's clips, and train on them.

        Returns:
            (B, V) scores, by the model after the batch or before it (`settings.predict`).

        Raises:
            UsageError: there is no query, or there are not as many sentences as features.
        """
        check_sentences(texts, sentences)
        before = self.ranked(texts) if self.settings.predict == "before" else None
        own = self._remember(texts, tuple(sentences))
        assert self._seen is not None
        verdict = self._quality_verdict(self._seen, own) if self.learned and self.settings.safety.roll_back else None
        self._step(self._seen, own, verdict)
        return self.ranked(texts) if before is None else before

    def learn(self, stream: QueryStream, progress: Progress = lambda share: None) -> None:
        """Train on all queries of a stream, except those held out to measure quality."""
        order = np.random.default_rng([self.settings.seed, 1]).permutation(len(stream.sentences))
        count = round(self.settings.safety.held_out * len(order))
        held, learned = np.sort(order[:count]), np.sort(order[count:])
        rounds = [rows for _ in range(self.settings.epochs) for rows in _chunks(learned, self.settings.bank)]
        for done, rows in enumerate(rounds, start=1):
            self._step(_part(stream, rows), np.arange(len(rows)), None)
            progress(done / len(rounds))
        for rows in _chunks(held, self.settings.bank) if self.learned else []:
            verdict = self._quality_verdict(_part(stream, rows), np.arange(len(rows)))
            self.steps[-1] = replace(self.steps[-1], verdict=verdict)
            self._say_served()

    def ranked(self, texts: TextFeatures) -> FloatArray:
        """Compute the scores (B, V) of queries with the gallery's clips by the model being served."""
        if self.served is self.source:
            return self.ranked_by_source(texts)
        return scored(self.served, texts, self.gallery.encoded)

    def ranked_by_source(self, texts: TextFeatures) -> FloatArray:
        """Compute the scores (B, V) of queries with the gallery's clips by the source model."""
        return scored(self.source, texts, self._at_source.encoded)

    def _say_served(self) -> None:
        name = "source" if self.served is self.source else "adapted"
        self.steps[-1] = replace(self.steps[-1], served=name)

    def _step(self, window: QueryWindow, own: Indices, verdict: QualityVerdict | None) -> None:
        """Learn from a batch of those that were seen."""
        step = AdaptationStep(len(self.steps) + 1, len(own), verdict=verdict)
        if self._may_learn(window):
            if self.settings.objective == "pseudo_labels":
                pairs = pseudo_pairs(self.teacher, window, own, self.gallery, self.settings, self._here)
                kept = pairs.kept(self.settings.safety.keep)
                loss = self._learner.learn(kept.texts, self._videos, kept.columns)
                step = replace(self._labelled(step, pairs), pairs=len(kept.columns), loss=loss)
            elif self.settings.objective == "rotation":
                step = replace(step, loss=self._turned(window))
            else:
                step = replace(step, loss=self._learner.learn(taken(window.texts, own), self._videos))
        self.steps.append(step)
        self._say_served()

    def _turned(self, window: QueryWindow) -> dict[str, float]:
        """Turn captions towards the clips that they are assigned to; how far they went, as a cosine."""
        assert self._at_source.vectors is not None
        queries, clips = caption_vectors(self.student, window.texts).numpy(), self._at_source.vectors.numpy()
        rotation = labelled_rotation(queries, clips, self.settings.alike, self.settings.matching.temperature)
        rotate_captions(self.student, rotation)
        self._follow()
        return {"cosine": float(np.trace(rotation)) / len(rotation)}

    def _labelled(self, step: AdaptationStep, pairs: PseudoPairs) -> AdaptationStep:
        found = balance(pairs.columns[: pairs.queries], len(self._videos.ids))
        clips = [self._videos.ids[column] for column in pairs.columns[: pairs.queries]]
        return replace(
            step,
            counterfactual=len(pairs.counterfactual),
            coverage=found.coverage,
            gini=found.gini,
            labels=tuple(zip(pairs.texts.ids[: pairs.queries], clips, strict=True)),
            label_rank=pairs.rank,
        )

    def _follow(self) -> None:
        """Bring the moving average of the weights up to date, after each step of the optimiser."""
        # clips stay as they are encoded where captions alone learn; but the map of captions maps texts of windows too
        captions_alone = self.settings.learns == "text" or self.settings.objective == "rotation"
        if not captions_alone or (self._videos.on_screen is not None and self.limits.windows):
            self._gallery = None
        if self.teacher is self.student:
            return
        with torch.no_grad():
            for kept, new in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                kept.lerp_(new, 1 - self.settings.safety.teacher)

    def _remember(self, texts: TextFeatures, sentences: tuple[str, ...]) -> Indices:
        """Put queries behind those that were seen, of which the first go where there are too many; their places."""
        if self._seen is not None:
            texts, sentences = joined(self._seen.texts, texts), self._seen.sentences + sentences
        new = len(sentences) - (0 if self._seen is None else len(self._seen.sentences))
        kept = max(new, self.settings.bank)
        if len(sentences) > kept:
            texts, sentences = taken(texts, np.arange(len(sentences) - kept, len(sentences))), sentences[-kept:]
        self._seen = QueryWindow(texts, sentences)
        return np.arange(len(sentences) - new, len(sentences))

    def _quality_verdict(self, window: QueryWindow, own: Indices) -> QualityVerdict:
        """Hold the adapted model to the source on queries that it has not learned from, with all earlier such ones."""
        scale = float(self.source.logit_scale.detach().exp())
        rows = slice(int(own[0]), int(own[-1]) + 1)
        new = quality(scored(self.teacher, window.texts, self.gallery.encoded), scale, rows)
        old = quality(scored(self.source, window.texts, self._at_source.encoded), scale, rows)
        if self._qualities is not None:
            new, old = self._qualities[0].with_more(new), self._qualities[1].with_more(old)
        self._qualities = new, old
        verdict = compared(new, old, self.settings.safety.confidence)
        if self.settings.safety.roll_back:
            self.trusted = verdict.better
        return verdict

    def _may_learn(self, window: QueryWindow) -> bool:
        """Check whether the stream differs from the source: offline once, online until it does; also if not known."""
        statistics, online = self._resources.statistics, self.settings.online
        if not self.settings.safety.drift or statistics is None:
            return True
        if self.drift is None or (online and not self.drift.found):
            assert self._at_source.vectors is not None
            captions = mean_shift(caption_vectors(self.source, window.texts), *statistics.text)
            clips = mean_shift(self._at_source.vectors, *statistics.video)
            self._asked += 1
            confidence = self.settings.safety.confidence
            self.drift = drift_of(captions, clips, confidence, self._asked if online else None)
        return self.drift.found


def gallery_of(matcher: Any, videos: VideoFeatures, *, vectors: bool) -> ClipGallery:
    """Encode the clips of a gallery with a matcher, and compute their vectors where these are asked for."""
    return ClipGallery(encode_videos(matcher, videos), clip_vectors(matcher, videos) if vectors else None)


def _frozen(matcher: Any) -> Any:
    """A copy that nothing learns through."""
    return copy.deepcopy(matcher).eval().requires_grad_(requires_grad=False)


def _part(stream: QueryStream, rows: Indices) -> QueryWindow:
    return QueryWindow(taken(stream.texts, rows), tuple(stream.sentences[row] for row in rows))


def _chunks(rows: Indices, size: int) -> list[Indices]:
    """Split rows into as few parts of at most this size as there can be, of nearly equal sizes."""
    return np.array_split(rows, -(-len(rows) // size)) if len(rows) else []
