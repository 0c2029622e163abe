"""Settings of a world of features: what its frames and its words hold, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenreel.errors import UsageError
from evenreel.settings_checks import MOST_SIZE, SHARE, check_settings, whole


@dataclass(frozen=True)
class FrameShares:
    """Shares of the squared length of a frame's own vector; what they leave of 1 is noise, new in every frame.

    Attributes:
        action: share of the verb and the noun. Small, since a picture of a kitchen shows much else: with it an unbiased
            training finds every second caption's clip first, and no training next to none.
        instance: share of what only this clip shows, which no mean over its frames takes away.
        background: share of what all clips of one video show. Clips of one kitchen are as alike by it as by what
            happens in one clip alone.
        length: share that a clip's length decides. Large, since a longer clip shows more of its surroundings in the
            same number of frames.
        time: share of the drift from the first to the last frame of the longest clip; a shorter one drifts less.
        cone: share of the mean of all frames in the whole vector, the cosine of two unrelated pictures: an encoder's
            vectors fill a narrow cone.
    """

    action: float = 0.1
    instance: float = 0.15
    background: float = 0.15
    length: float = 0.4
    time: float = 0.05
    cone: float = 0.5

    def __post_init__(self) -> None:
        check_settings("the frames of a world", self, dict.fromkeys(self.__dataclass_fields__, SHARE))
        if self.noise < 0:
            raise UsageError(f"The shares of a frame are {1 - self.noise:g} together; they are at most 1.")

    @property
    def noise(self) -> float:
        """Share of what is new in every frame."""
        return 1 - self.action - self.instance - self.background - self.length - self.time


@dataclass(frozen=True)
class WordShares:
    """Alignment of words and frames, and shares of the squared length of a word's own vector.

    What the shares of annotator and noise leave of 1 is what the word means.

    Attributes:
        alignment: squared cosine of a word's meaning and of the verb or noun as frames show it, before any training.
            Low, so that a model has to learn what the words mean in these videos.
        lasting: share, of nouns, of where the noun stands in the order of strata. Large, since a text tower knows which
            things take long; without it each noun's length had to be learned by heart, and biased lengths did no harm.
        annotator: share of who wrote the caption.
        noise: share that is new in every word.
        cone: share of the mean of all words in the whole vector. It is not that of the frames: the modality gap.
    """

    alignment: float = 0.3
    lasting: float = 0.4
    annotator: float = 0.05
    noise: float = 0.05
    cone: float = 0.5

    def __post_init__(self) -> None:
        check_settings("the words of a world", self, dict.fromkeys(self.__dataclass_fields__, SHARE))
        if self.meaning < 0:
            raise UsageError(f"The shares of a word are {1 - self.meaning:g} together; they are at most 1.")

    @property
    def meaning(self) -> float:
        """Share of what the word means."""
        return 1 - self.lasting - self.annotator - self.noise


@dataclass(frozen=True)
class WorldSettings:
    """Settings of a world that are the same at every strength of a bias.

    Attributes:
        dimension: D of the features.
        frames: T, frames of every clip, at the middles of as many equal parts of it.
        strata: number of strata of length that actions keep to where lengths are biased. With many, most test clips
            contradict what was learned.
        harmonics: H, waves of the curve that lengths lie on. With one, a model can tell the shortest from the longest;
            with more, it can tell strata that are next to each other apart.
        frame_shares: what a frame holds.
        word_shares: what a word holds.
    """

    dimension: int = 128
    frames: int = 6
    strata: int = 16
    harmonics: int = 1
    frame_shares: FrameShares = field(default_factory=FrameShares)
    word_shares: WordShares = field(default_factory=WordShares)

    def __post_init__(self) -> None:
        names = ("dimension", "frames", "strata", "harmonics")
        least = (4, 1, 2, 1)
        check_settings("a world", self, {name: whole(few, MOST_SIZE) for name, few in zip(names, least, strict=True)})
        if 2 * self.harmonics > self.dimension:
            raise UsageError(f"{self.harmonics} harmonics take {2 * self.harmonics} dimensions, not {self.dimension}.")
