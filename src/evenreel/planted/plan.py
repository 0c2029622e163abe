"""Plan of a planted corpus, as plain values: the scene, captions and split of every clip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, get_args

import numpy as np

from evenreel.documents import brief
from evenreel.errors import UsageError
from evenreel.planted.biases import BIAS_OF, BIASES, BiasName, PlantSettings, RandomStreams, Shot, World, partners
from evenreel.planted.scenes import Scene
from evenreel.types import CAMERA, Shown

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

MOST_CLIPS = 100_000
"""Units have five digits in their names."""


@dataclass(frozen=True)
class PlantedClip:
    """One clip of a planned corpus.

    Attributes:
        clip_id: id such as `train_00000_0`; at two strengths the same clip but for what is planted.
        split: `train`, `val` or `test`.
        shot: scene and captions of the clip.
        pair_id: id of the real clip that a generated one mirrors; only the test split holds both, or, with
            `PlantSettings.mirrors`, every split.
        overlay_of: id of the clip whose word is on its misleading sign, after the edit `overlay`.
        voiceover_of: id of the clip whose caption a misleading voice says, after the edit `voiceover`.
    """

    clip_id: str
    split: Split
    shot: Shot
    pair_id: str | None = None
    overlay_of: str | None = field(default=None, repr=False)
    voiceover_of: str | None = field(default=None, repr=False)

    @property
    def scene(self) -> Scene:
        """Scene of the clip."""
        return self.shot.scene

    @property
    def caption_ids(self) -> tuple[str, ...]:
        """Ids of the clip's captions, in their order."""
        return tuple(f"{self.clip_id}#{number}" for number in range(len(self.shot.captions)))


@dataclass(frozen=True)
class PlantedCorpus(Shown):
    """Plan of a corpus with one bias of known strength.

    Attributes:
        bias: name of the bias, a key of `BIASES`.
        strength: strength of the bias, 0 to 1, in the train and val splits.
        seed: seed of everything drawn.
        settings: settings that do not depend on the strength.
        partners: names that the bias pairs, such as a background for each shape; empty for other biases.
        clips: clips of the train, then the val, then the test split.
    """

    bias: BiasName
    strength: float
    seed: int
    settings: PlantSettings
    partners: dict[str, str]
    clips: tuple[PlantedClip, ...]

    def split(self, name: Split) -> tuple[PlantedClip, ...]:
        """Return the clips of one split: `train`, `val` or `test`."""
        return tuple(clip for clip in self.clips if clip.split == name)


def plan_corpus(
    bias: BiasName, strength: float, clips: int = 2_000, seed: int = 0, settings: PlantSettings | None = None
) -> PlantedCorpus:
    """Plan a corpus in which one bias is planted; nothing is rendered or written yet.

    The bias is in the train split and in the val split, which a practitioner would split off from it. The test split is
    the same at every strength (but for `scene_text`), so that models trained at two strengths are compared on the same
    clips; and a train clip differs from the one of the same id at another strength in nothing but what is planted.

    Args:
        bias: name of the bias, a key of `BIASES`.
        strength: 0 plants nothing, 1 leaves no exception; each bias says what a strength between them means.
        clips: number of clips in all splits together. Splits are rounded down to whole groups of `scene_text` and pairs
            of `source`, so that there may be a few clips fewer.
        seed: seed of everything drawn, 0 or more; the same seed gives the same plan.
        settings: sizes, lengths and shares that are the same at every strength.

    Raises:
        UsageError: there is no such bias, the strength is outside 0 to 1, the seed is negative, more than `MOST_CLIPS`
            are wanted, a split would be empty, mirrors are wanted where nothing is generated or with a strength, or
            a setting of a harder world belongs to another bias.

    >>> plan = plan_corpus("visual", 0.9, clips=100)
    >>> [len(plan.split(name)) for name in ("train", "val", "test")]
    [60, 10, 30]
    >>> plan.split("test") == plan_corpus("visual", 0.0, clips=100).split("test")
    True
    """
    settings = settings or PlantSettings()
    _check(bias, strength, clips, seed, settings)
    pairs = {} if settings.harder.new_annotators else partners(bias, seed)
    train, val = round(clips * settings.train_share), round(clips * settings.val_share)
    parts: dict[Split, list[PlantedClip]] = {}
    for split, size in zip(SPLITS, (train, val, clips - train - val), strict=True):
        test, parts[split] = split == "test", []
        world = World(strength if BIASES[bias].in_test or not test else 0.0, test, pairs, settings)
        for unit in _units(bias, split, seed, world):  # as many whole ones as there is room for
            if len(parts[split]) + len(unit) > size:
                break
            parts[split] += unit
    if not all(parts.values()):
        train, val, test_clips = map(len, parts.values())
        raise UsageError(
            f"{clips} clips would leave {train} to train, {val} to validate and {test_clips} to test; "
            "a planted corpus needs some of each, so ask for more clips."
        )
    return PlantedCorpus(bias, strength, seed, settings, pairs, tuple(clip for own in parts.values() for clip in own))


def _check(bias: str, strength: float, clips: int, seed: int, settings: PlantSettings) -> None:
    if bias not in BIASES:
        raise UsageError(f"no bias is called {bias!r}; there are {', '.join(BIASES)}")
    if not 0 <= strength <= 1:
        raise UsageError(f"the strength of a bias is between 0 (nothing planted) and 1; it was {strength}")
    if clips > MOST_CLIPS:
        raise UsageError(
            f"{brief(clips)} clips are asked for; a planted corpus has at most {MOST_CLIPS:,}, so ask for fewer."
        )
    if seed < 0:
        raise UsageError(f"A seed is 0 or more; it was {seed}.")
    if settings.mirrors and (bias != "source" or strength):
        raise UsageError(
            "mirrors put every real clip of the bias 'source' beside its generated mirror, so that nothing is planted "
            f"yet; take that bias and a strength of 0, not {bias!r} and {strength:g}"
        )
    for name in settings.harder.changed:
        if BIAS_OF[name] != bias:
            raise UsageError(f"{name} is a setting of the bias {BIAS_OF[name]!r}, not of {bias!r}; leave it out.")


def _units(bias: BiasName, split: Split, seed: int, world: World) -> Iterator[tuple[PlantedClip, ...]]:
    """Units of clips without end; each has streams of chance of its own."""
    for unit in count():
        root = (seed, SPLITS.index(split), unit)
        streams = RandomStreams(
            *(np.random.default_rng([*root, stream]) for stream in range(len(RandomStreams._fields)))
        )
        name = f"{split}_{unit:05d}"
        yield tuple(
            PlantedClip(f"{name}_{place}", split, shot)
            if shot.source == CAMERA
            else PlantedClip(f"{name}_{shot.source}", split, shot, pair_id=f"{name}_0")
            for place, shot in enumerate(BIASES[bias].draw(streams, world))
        )
