"""Twelve shifts of planted clips, and what is found of them: as it is, after corrections, and after adapting.

Clips are those of the bias `source` without a generated one: nothing is planted, and captions name colour, shape and
background. A matcher learned from them as they are; the test clips are perturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew

from benchmarks.evidence.domains import (
    HUB_MEMORY,
    NAIVE,
    NNN,
    QB_NORM,
    SAFE,
    SINKHORN,
    RenderedTarget,
    SourceModel,
    in_a_stream,
    nnn,
)
from benchmarks.evidence.engine import BASELINE, Place, Row, Size, Trainings, relevance_of, values_of
from benchmarks.planted import RULE, Split
from evenreel.adaptation.titan import load_settings, naive
from evenreel.edits.corruptions import CORRUPTIONS, Corrupt, Original
from evenreel.edits.settings import STRENGTHS
from evenreel.encoders import load_encoder
from evenreel.evaluation.rescoring import querybank_norm, sinkhorn_norm
from evenreel.matchers.matcher import Matcher
from evenreel.media.sampling import TimeRule, parse_rule
from evenreel.papers.cells import Figures, Rows
from evenreel.planted import PlantedCorpus, PlantSettings, plan_corpus
from evenreel.planted.biases import PLANTED_SCENES
from evenreel.planted.draw import draw_clip
from evenreel.planted.scenes import Scene, shake_offset, subject_pose
from evenreel.types import Pixels, Scores, VideoFeatures

TITLES = {
    "gaussian-noise": "Gaussian noise",
    "impulse-noise": "impulse noise",
    "elastic": "elastic distortion",
    "compression": "H.264 compression",
    "motion-blur": "motion blur",
    "insertion": "event insertion",
    "scrambling": "temporal scrambling",
}
"""Names of the page, where they are not those of the package."""
PERTURBATIONS: Mapping[str, Corrupt] = MappingProxyType(
    {TITLES.get(kind, kind): corrupt for kind, corrupt in CORRUPTIONS.items()}
)
"""Those of MLVP (Zhang et al. 2026), from low to high level."""
SCENES = replace(PLANTED_SCENES, fps=6)
FRAMES_AT_ONCE = 128
Matrix = NDArray[Any]
Way = Literal["t2v", "v2t"]
WAYS: tuple[Way, ...] = ("v2t", "t2v")
"""Perturbed videos that look for captions, and captions that look for perturbed videos."""
AS_IT_IS, CLEAN = "as it is", "none"
ADAPTED_AT = (0, 1, 3, 5)
"""Strengths at which models are adapted, which takes longest."""
R1, HUBS = "R@1", "hubs"
DEPTH = 10
"""Of the rankings in which hubs are counted."""


class ShiftedWorld:
    """The clips of a seed.

    Args:
        place: its seed, the number of clips and the steps of the training; clips of the test split are half of those
            that are planned, because mirrors are left out.
    """

    def __init__(self, place: Place) -> None:
        plan = plan_corpus(
            "source", 0.0, place.size.clips, place.seed, PlantSettings(scenes=SCENES, generated_share=0.0)
        )
        self._plan: PlantedCorpus = replace(plan, clips=tuple(clip for clip in plan.clips if clip.pair_id is None))
        self._place = place
        self.clean = RenderedTarget(self._plan)

    @cached_property
    def matcher(self) -> Matcher:
        """The baseline of the planted benchmarks, trained on clips as they are."""
        return self.trainings(self.clean).made(BASELINE)[0]

    def trainings(self, world: RenderedTarget) -> Trainings:
        return Trainings(world, self._place, {BASELINE: Row("baseline", "plain training")})

    def perturbed(self, name: str, strength: int) -> RenderedTarget:
        """The world with test clips after a perturbation; as they are at strength 0."""
        clean = self.clean
        if not strength:
            return clean
        test = Split(clean.test.corpus, clean.test.texts, self._features(name, strength))
        return RenderedTarget(self._plan, [clean.train, clean.val, test])

    @cached_property
    def _shown(self) -> list[Original]:
        clips = self._plan.split("test")
        frames = [np.stack(list(draw_clip(clip.scene))) for clip in clips]
        places = [clip.scene.background for clip in clips]
        rng, shown = np.random.default_rng([self._place.seed, 9]), []
        for own, clip in enumerate(clips):
            like = [row for row, place in enumerate(places) if place == clip.scene.background and row != own]
            unlike = [row for row, place in enumerate(places) if place != clip.scene.background]
            similar, elsewhere = (frames[int(rng.choice(rows or [own]))] for rows in (like, unlike))
            shown.append(Original(frames[own], subject_of(clip.scene), similar, elsewhere, clip.scene.fps))
        return shown

    def _features(self, name: str, strength: int) -> VideoFeatures:
        number = list(PERTURBATIONS).index(name)
        sampled, times = [], []
        for row, shown in enumerate(self._shown):
            rng = np.random.default_rng([self._place.seed, number, row])
            frames = PERTURBATIONS[name](shown, strength, rng)
            chosen = sampled_frames(len(frames), float(shown.fps))
            sampled.append(frames[chosen])
            times.append(chosen / float(shown.fps))
        return features_of([clip.clip_id for clip in self._plan.split("test")], sampled, times)


def sampled_frames(count: int, fps: float) -> NDArray[np.intp]:
    """Numbers of the frames that the encoder sees of a clip."""
    rule = cast("TimeRule", parse_rule(RULE))
    return np.array([int(time_s * fps + 1e-6) for time_s in rule.times(0.0, count / fps)])


def features_of(ids: Sequence[str], sampled: Sequence[Pixels], times_s: Sequence[NDArray[np.float64]]) -> VideoFeatures:
    """Encode (T, H, W, 3) frames of each clip, as many of each, by the built-in encoder."""
    encoder, pixels = load_encoder("builtin"), np.concatenate(sampled).transpose(0, 3, 1, 2)[:, None]
    encoded = [
        encoder.encode_windows(pixels[start : start + FRAMES_AT_ONCE])
        for start in range(0, len(pixels), FRAMES_AT_ONCE)
    ]
    frames = np.concatenate(encoded).reshape(len(ids), -1, encoder.dimension).astype(np.float16)
    return VideoFeatures(tuple(ids), frames, np.ones(frames.shape[:2], np.bool_), np.stack(times_s))


def subject_of(scene: Scene) -> NDArray[np.float64]:
    """(T, 3) x, y and radius in pixels of the subject in each frame."""
    found = []
    for number in range(scene.frame_count):
        time_s = number / scene.fps
        pose, (dx, dy) = subject_pose(scene, time_s), shake_offset(scene, time_s)
        x, y = scene.width / 2 + pose.x * scene.height + dx, scene.height / 2 + pose.y * scene.height + dy
        found.append((x, y, pose.radius * scene.height))
    return np.array(found)


@dataclass(frozen=True)
class ShiftRun:
    """A perturbation and strength on the clips of a seed; what is measured once and written down."""

    seed: int
    perturbation: str
    strength: int
    clips: int
    steps: int

    @property
    def corpus(self) -> int:
        return self.seed

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.perturbation}, strength {self.strength}"


def runs_of(seed: int, clips: int, steps: int) -> list[ShiftRun]:
    """All runs of a seed, the clips as they are first."""
    shifted = [(name, strength) for name in PERTURBATIONS for strength in STRENGTHS]
    return [ShiftRun(seed, name, strength, clips, steps) for name, strength in [(CLEAN, 0), *shifted]]


def measured_runs(runs: Sequence[ShiftRun]) -> Iterator[tuple[ShiftRun, Rows]]:
    """Train on the clips of a seed as they are, and measure what is found of them perturbed."""
    first = runs[0]
    world = ShiftedWorld(Place(first.seed, 0.0, Size(first.clips, 0, first.steps), Path()))
    for run in runs:
        yield run, rows_of(world, run)


def rows_of(world: ShiftedWorld, run: ShiftRun) -> Rows:
    """The rows of a run; figures of both directions, of captions' searches alone where a model is adapted."""
    target = world.perturbed(run.perturbation, run.strength)
    test, values = target.test, values_of(world.matcher, target.test)
    relevance, order = relevance_of(test), {way: order_of(values, way, run.seed) for way in WAYS}
    rows = {AS_IT_IS: found_by(dict.fromkeys(WAYS, values), relevance)}
    for name, correct in CORRECTIONS.items():
        rows[name] = found_by({way: turned(correct(turned(values, way), order[way]), way) for way in WAYS}, relevance)
    if run.strength in ADAPTED_AT:
        model = SourceModel(world.trainings(target), target, (world.matcher, 0.0))
        for name, settings in ((SAFE, load_settings("safe")), (NAIVE, naive(model.uncorrected()))):
            rows[name] = found_by({"t2v": values_of(model.adapted(settings)[0], test)}, relevance)
    return rows


Correct = Callable[[Matrix, NDArray[np.intp]], Matrix]
"""Scores, queries as rows, and the order in which they are asked -> corrected scores."""


def _by_bank(norm: Callable[[Scores, Matrix], Scores]) -> Correct:
    return lambda values, _: norm(_scores(values), values).values


CORRECTIONS: Mapping[str, Correct] = MappingProxyType(
    {
        HUB_MEMORY: lambda values, order: in_a_stream(values, order, values[:0]),
        QB_NORM: _by_bank(querybank_norm),
        NNN: _by_bank(nnn),
        SINKHORN: _by_bank(sinkhorn_norm),
    }
)
"""The bank of all but the first is all queries that are measured, known beforehand; the first knows those before."""


def order_of(values: Matrix, way: Way, seed: int) -> NDArray[np.intp]:
    """The order in which queries are asked, the same at every strength."""
    return np.random.default_rng([seed, 8]).permutation(len(turned(values, way)))


def turned(values: Matrix, way: Way) -> Matrix:
    """Queries as rows; the same turns the result back."""
    return values if way == "t2v" else values.T


def found_by(values: Mapping[Way, Matrix], relevance: Matrix) -> Figures:
    """R@1 in percent and the skewness of how often each item is among the first 10, in some directions.

    Args:
        values: (Q, V) scores of each direction.
        relevance: (Q, V) 1 where a clip shows what the caption names.
    """
    found = {}
    for way, own in values.items():
        rows = turned(own, way)
        best = rows.argmax(axis=1)
        found[f"{way} {R1}"] = 100 * float(turned(relevance, way)[np.arange(len(rows)), best].mean())
        found[f"{way} {HUBS}"] = hubness(rows)
    return found


def hubness(rows: Matrix) -> float:
    """Skewness of how often each item is among the first 10 of the queries in rows (Radovanović et al. 2010)."""
    first = np.argpartition(-rows, DEPTH - 1, axis=1)[:, :DEPTH]
    return float(skew(np.bincount(first.ravel(), minlength=rows.shape[1])))


def _scores(values: Matrix) -> Scores:
    queries, items = values.shape
    return Scores(values, [f"q{row}" for row in range(queries)], [f"i{column}" for column in range(items)])
