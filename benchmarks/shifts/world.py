"""Planted clips of a seed, a matcher that learned from them as they are, and the test clips perturbed.

Clips are those of the bias `source` without a generated one: nothing is planted, and captions name colour, shape and
background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.evidence.rendered.domain import RenderedTarget
from benchmarks.evidence.rendered.worlds import Model, recipe_of
from benchmarks.evidence.rows import Place, Size
from benchmarks.evidence.trainings import learned
from benchmarks.planted import RULE, Split
from evenreel.edits.corruptions import CORRUPTIONS, Corrupt, Original
from evenreel.encoders import load_encoder
from evenreel.matchers.matcher import Matcher
from evenreel.media.sampling import TimeRule, parse_rule
from evenreel.planted import PlantedCorpus, PlantSettings, plan_corpus
from evenreel.planted.draw import draw_clip
from evenreel.planted.motion import shake_offset, subject_pose
from evenreel.planted.scenes import Scene
from evenreel.planted.shots import PLANTED_SCENES
from evenreel.types import Pixels, VideoFeatures

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
        clean = self.clean
        return learned(recipe_of(clean, Model(), self._place), clean.train, clean.val)[0]

    def perturbed(self, name: str, strength: int) -> RenderedTarget:
        """The world with test clips after a perturbation; as they are at strength 0."""
        clean = self.clean
        if not strength:
            return clean
        test: Split = clean.test._replace(videos=self._features(name, strength))
        return RenderedTarget(self._plan, (clean.train, clean.val, test))

    @cached_property
    def _shown(self) -> list[Original]:
        """The test clips, drawn once."""
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


def place_of(seed: int, clips: int, steps: int) -> Place:
    """Where a world is drawn."""
    return Place(seed, 0.0, Size(clips, 0, steps), Path())
