"""A matcher that adapts to a stream of queries and can be used as a matcher itself; `reset` undoes what it learned."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evenreel.adaptation.drift import Drift, drift_of, mean_shift
from evenreel.adaptation.learning import Learner, learnable
from evenreel.adaptation.quality import Quality, QualityVerdict, compared, of_both, quality
from evenreel.adaptation.report import AdaptationStep
from evenreel.adaptation.rotation import caption_map, labelled_rotation, rotate_captions
from evenreel.adaptation.settings import AdaptSettings
from evenreel.adaptation.stream import QueryStream, check_sentences, joined, taken
from evenreel.adaptation.titan.pseudo_labels import (
    ClipGallery,
    PseudoPairs,
    QueryWindow,
    Resources,
    pseudo_pairs,
    scored,
    vectors_of,
)
from evenreel.adaptation.vectors import video_vectors
from evenreel.arrays import Indices
from evenreel.evaluation.concentration import balance
from evenreel.matchers.batches import to_device, video_batch
from evenreel.matchers.matcher import Wrapper
from evenreel.matchers.scoring import encode_videos
from evenreel.progress import Progress
from evenreel.similarity.tiles import device_of, evaluating
from evenreel.types import FloatArray, TextFeatures, VideoFeatures

AT_ONCE = 256
"""Clips that become vectors at a time."""


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
        """Score a batch of queries with the gallery's clips, and train on it.

        Args:
            texts: features of B queries.
            sentences: the B queries as they are written.

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
        held, learned = self._held_out_split(len(stream.sentences))
        rounds = [rows for _ in range(self.settings.epochs) for rows in _chunks(learned, self.settings.bank)]
        for done, rows in enumerate(rounds, start=1):
            self._step(_part(stream, rows), np.arange(len(rows)), None)
            progress(done / len(rounds))
        for rows in _chunks(held, self.settings.bank) if self.learned else []:
            verdict = self._quality_verdict(_part(stream, rows), np.arange(len(rows)))
            self.steps[-1] = replace(self.steps[-1], verdict=verdict, served=self._name)

    def ranked(self, texts: TextFeatures) -> FloatArray:
        """Compute the scores (B, V) of queries with the gallery's clips by the model being served."""
        if self.served is self.source:
            return self.ranked_by_source(texts)
        return scored(self.served, texts, self.gallery.encoded)

    def ranked_by_source(self, texts: TextFeatures) -> FloatArray:
        """Compute the scores (B, V) of queries with the gallery's clips by the source model."""
        return scored(self.source, texts, self._at_source.encoded)

    @property
    def _name(self) -> str:
        return "source" if self.served is self.source else "adapted"

    def _step(self, window: QueryWindow, own: Indices, verdict: QualityVerdict | None) -> None:
        """Learn from a batch of those that were seen."""
        step = AdaptationStep(len(self.steps) + 1, len(own), verdict=verdict)
        if self._may_learn(window):
            if self.settings.objective == "pseudo_labels":
                pairs = pseudo_pairs(self.teacher, window, own, self.gallery, self.settings, self._here)
                kept = pairs.kept(self.settings.safety.keep)
                step = self._recorded_step(step, pairs, kept)
                step = replace(step, loss=self._learner.paired(kept.texts, kept.columns, self._videos))
            elif self.settings.objective == "rotation":
                step = replace(step, loss=self._turned(window))
            else:
                loss = self._learner.unpaired(taken(window.texts, own), self._videos)
                step = replace(step, loss=loss)
        self.steps.append(step)
        self.steps[-1] = replace(step, served=self._name)

    def _turned(self, window: QueryWindow) -> dict[str, float]:
        """Turn captions towards the clips that they are assigned to; how far they went, as a cosine."""
        assert self._at_source.vectors is not None
        queries, clips = vectors_of(self.student, window.texts).numpy(), self._at_source.vectors.numpy()
        rotation = labelled_rotation(queries, clips, self.settings.alike, self.settings.matching.temperature)
        rotate_captions(self.student, rotation)
        self._follow()
        return {"cosine": float(np.trace(rotation)) / len(rotation)}

    def _recorded_step(self, step: AdaptationStep, pairs: PseudoPairs, kept: PseudoPairs) -> AdaptationStep:
        found = balance(pairs.columns[: pairs.queries], len(self._videos.ids))
        clips = [self._videos.ids[column] for column in pairs.columns[: pairs.queries]]
        return replace(
            step,
            pairs=len(kept.columns),
            counterfactual=len(pairs.counterfactual),
            coverage=found.coverage,
            gini=found.gini,
            labels=tuple(zip(pairs.texts.ids[: pairs.queries], clips, strict=True)),
            label_rank=pairs.rank,
        )

    def _follow(self) -> None:
        """Bring the moving average of the weights up to date, after each step of the optimiser."""
        if not self._clips_stay:
            self._gallery = None
        if self.teacher is self.student:
            return
        with torch.no_grad():
            for kept, new in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                kept.lerp_(new, 1 - self.settings.safety.teacher)

    @property
    def _clips_stay(self) -> bool:
        """Whether nothing learns that clips are encoded with; the map of captions maps texts of windows too."""
        text = self.settings.learns == "text" or self.settings.objective == "rotation"
        return text and (self._videos.on_screen is None or not self.limits.windows)

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

    def _held_out_split(self, count: int) -> tuple[Indices, Indices]:
        """Rows of queries that are held out, and of the others."""
        order = np.random.default_rng([self.settings.seed, 1]).permutation(count)
        held = round(self.settings.safety.held_out * count)
        return np.sort(order[:held]), np.sort(order[held:])

    def _quality_verdict(self, window: QueryWindow, own: Indices) -> QualityVerdict:
        """Hold the adapted model to the source on queries that it has not learned from, with all earlier such ones."""
        scale = float(self.source.logit_scale.detach().exp())
        rows = slice(int(own[0]), int(own[-1]) + 1)
        new = quality(scored(self.teacher, window.texts, self.gallery.encoded), scale, rows)
        old = quality(scored(self.source, window.texts, self._at_source.encoded), scale, rows)
        if self._qualities is not None:
            new, old = of_both(self._qualities[0], new), of_both(self._qualities[1], old)
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
            text, video = statistics
            assert self._at_source.vectors is not None
            captions = mean_shift(vectors_of(self.source, window.texts), int(text.size), text.mean, text.covariance)
            clips = mean_shift(self._at_source.vectors, int(video.size), video.mean, video.covariance)
            self._asked += 1
            confidence = self.settings.safety.confidence
            self.drift = drift_of(captions, clips, confidence, self._asked if online else None)
        return self.drift.found


def gallery_of(matcher: Any, videos: VideoFeatures, *, vectors: bool) -> ClipGallery:
    """Encode the clips of a gallery with a matcher; they are kept in main memory.

    Args:
        matcher: matcher that encodes.
        videos: features of the clips.
        vectors: whether to compute a vector (V, D) for each clip too.
    """
    return ClipGallery(encode_videos(matcher, videos), _vectors(matcher, videos) if vectors else None)


def _vectors(matcher: Any, videos: VideoFeatures) -> Tensor:
    starts = range(0, len(videos.ids), AT_ONCE)
    with torch.no_grad(), evaluating(matcher):
        parts = [
            video_vectors(matcher, to_device(video_batch(videos, slice(start, start + AT_ONCE)), device_of(matcher)))
            for start in starts
        ]
    return torch.cat(parts).cpu()


def _frozen(matcher: Any) -> Any:
    """A copy that nothing learns through."""
    return copy.deepcopy(matcher).eval().requires_grad_(requires_grad=False)


def _part(stream: QueryStream, rows: Indices) -> QueryWindow:
    return QueryWindow(taken(stream.texts, rows), tuple(stream.sentences[row] for row in rows))


def _chunks(rows: Indices, size: int) -> list[Indices]:
    """Split rows into as few parts of at most this size as there can be, of nearly equal sizes."""
    return np.array_split(rows, -(-len(rows) // size)) if len(rows) else []
