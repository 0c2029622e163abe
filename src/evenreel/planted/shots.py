"""Inputs and outputs of a planted bias: random generators, settings, and the clips (shots) that it draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np

from evenreel.errors import UsageError
from evenreel.planted.captions import Pick, any_of, caption
from evenreel.planted.harder import Harder
from evenreel.planted.scenes import Scene, SceneRanges
from evenreel.planted.vocabulary import shapes
from evenreel.types import CAMERA

PLANTED_SCENES = SceneRanges(duration_s=(2.0, 4.0), sign_share=0.0, width=160, height=120)


@dataclass(frozen=True)
class PlantSettings:
    """Settings of a planted corpus that are the same at every strength of a bias.

    Attributes:
        scenes: ranges that scenes are drawn from; `length` has lengths of its own.
        captions: number of captions per clip.
        train_share: share of the clips in the train split.
        val_share: share of the clips in the validation split, drawn as the train split is; the rest is the test split.
        short_s: range of the lengths of short clips of `length`, in seconds.
        long_s: range of the lengths of long clips of `length`, in seconds.
        group: number of clips in a group of `scene_text`, each with another word.
        generated_share: share of generated training clips of `source` at strength 0.
        signs: number of signs a clip of `scene_text` shows, one after the other; its captions name the word on one of
            them. It is not in the `repr`, of which the digests of written corpora are made: their scenes tell it.
        spoken: share of the clips of `scene_text` whose word a voice says instead of a sign; not in the `repr` either.
        mirrors: for `source`, whether all splits have every clip beside its mirror, as a benchmark of pairs has;
            nothing is planted then, and the strength must be 0.
        harder: settings of a harder world; not in the `repr` either.

    Raises:
        UsageError: a number is outside of what can be planned.
    """

    scenes: SceneRanges = PLANTED_SCENES
    captions: int = 2
    train_share: float = 0.6
    val_share: float = 0.1
    short_s: tuple[float, float] = (1.0, 2.5)
    long_s: tuple[float, float] = (5.0, 8.0)
    group: int = 4
    generated_share: float = 0.5
    mirrors: bool = False
    signs: int = field(default=1, repr=False)
    spoken: float = field(default=0.0, repr=False)
    harder: Harder = field(default=Harder(), repr=False)

    def __post_init__(self) -> None:
        """Refuse what cannot be planned; a comparison with NaN is false, so it is refused too."""
        words = len(shapes())
        if not self.captions >= 1:
            raise UsageError(f"a clip needs at least one caption; captions was {self.captions}")
        if not (self.train_share > 0 and self.val_share > 0 and self.train_share + self.val_share < 1):
            raise UsageError(
                "the shares of the train and the val split are above 0 and leave some clips to test; they were "
                f"{self.train_share} and {self.val_share}"
            )
        if not 2 <= self.group <= words:
            raise UsageError(f"a group has 2 to {words} clips, one for each word on their signs; it was {self.group}")
        _check_signs(self, most=words - self.group + 1)
        for name in ("generated_share", "spoken"):
            if not 0 <= (share := getattr(self, name)) <= 1:
                raise UsageError(f"{name} is between 0 and 1; it was {share}")
        _check_lengths(self.short_s, self.long_s)


class RandomStreams(NamedTuple):
    """Separate random generators of one unit (a clip, pair or group), so that a bias changes no other draw.

    Attributes:
        scene: generator of what the unit shows.
        plant: generator of whether and how the bias applies; it gives the same numbers at every strength.
        words: generator of the captions' wording.
        voice: generator of what is said, and how.
    """

    scene: np.random.Generator
    plant: np.random.Generator
    words: np.random.Generator
    voice: np.random.Generator


class World(NamedTuple):
    """Inputs of a planted bias beside its random generators.

    Attributes:
        strength: strength of the bias, 0 to 1; 0 in the test split, except for a bias that holds there too
            (`scene_text`).
        test: whether the unit is in the test split.
        partners: names that the bias pairs in this corpus; empty where it pairs nothing.
        settings: settings of the corpus.
    """

    strength: float
    test: bool
    partners: Mapping[str, str]
    settings: PlantSettings


@dataclass(frozen=True)
class Sentence:
    """A caption of a planted clip, with the attributes that it names.

    Attributes:
        text: text of the caption.
        names: attributes that it names, see `evenreel.planted.caption`; also `word` where it names the word on a sign.
        annotator: name of its annotator, where the bias has several.
    """

    text: str
    names: tuple[str, ...]
    annotator: str | None = None


@dataclass(frozen=True)
class Shot:
    """One clip as a planted bias draws it: its scene and captions.

    Attributes:
        scene: scene of the clip.
        captions: captions of the clip.
        names: attributes that captions of the corpus may name, of which the clip's classes are made.
        domain: name of the clip's domain, where the bias has two; None elsewhere.
        source: source of the clip, `camera` or a generator.
        follows: whether the clip agrees with what is planted, by the bias or by chance; None where that has no meaning.
        named_sign: index of the scene's sign whose word captions name, where they name one.
        said: word, in capitals, that captions name and a voice says in place of that sign; None for one on a sign.
    """

    scene: Scene
    captions: tuple[Sentence, ...]
    names: tuple[str, ...]
    domain: str | None = None
    source: str = CAMERA
    follows: bool | None = None
    named_sign: int = field(default=0, repr=False)
    said: str | None = field(default=None, repr=False)

    @property
    def named_word(self) -> str | None:
        """The word, in capitals, that is on a sign or said, and that captions name where they name one."""
        if self.said is not None or not self.scene.signs:
            return self.said
        return self.scene.signs[self.named_sign].text

    @property
    def words(self) -> tuple[str, ...]:
        """All words that are on signs or said as the named word, in capitals."""
        on_signs = tuple(sign.text for sign in self.scene.signs)
        return on_signs if self.said is None else (*on_signs, self.said)


def _check_signs(settings: PlantSettings, most: int) -> None:
    if not 1 <= settings.signs <= most:
        raise UsageError(
            f"a clip of a group of {settings.group} shows at least 1 and at most {most} signs, so that no other need "
            f"show its word; signs was {settings.signs}"
        )
    shortest_s, fps = settings.scenes.duration_s[0], settings.scenes.fps
    if settings.signs > shortest_s * fps:
        raise UsageError(
            f"{settings.signs} signs cannot be shown one after the other in a clip of {shortest_s:g} s at {fps} "
            "pictures a second; ask for longer clips or fewer signs."
        )


def _check_lengths(short_s: tuple[float, float], long_s: tuple[float, float]) -> None:
    for name, (low, high) in (("short_s", short_s), ("long_s", long_s)):
        if not 0 < low <= high < inf:
            raise UsageError(
                f"{name} is the shortest and the longest clip in seconds, in that order; it was {low}, {high}"
            )
    if long_s[0] <= short_s[1]:
        raise UsageError(
            f"Short clips of up to {short_s[1]:g} s and long ones from {long_s[0]:g} s cannot be told apart; "
            "let the long ones begin above the short ones."
        )


def plain_captions(
    scene: Scene, names: tuple[str, ...], rng: np.random.Generator, count: int, pick: Pick = any_of
) -> tuple[Sentence, ...]:
    """Write `count` captions of a scene that name all of `names`, in random phrasings."""
    return tuple(Sentence(caption(scene, rng, names, pick), names) for _ in range(count))
