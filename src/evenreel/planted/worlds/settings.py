"""Settings of a drawn world: what its frames and words contain, and in which shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenreel.config import MOST_SIZE, SHARE, check_settings, whole
from evenreel.errors import UsageError


@dataclass(frozen=True)
class FrameShares:
    """Shares of the squared length of a frame's own vector; the rest to 1 is noise, new in every frame.

    Attributes:
        action: share of the verb and the noun. Small, since a picture of a kitchen shows much else: so an unbiased
            training ranks every second caption's clip first, and an untrained matcher hardly any.
        instance: share that is the clip's own, the same in all its frames.
        background: share that all clips of one video have in common.
        length: share that a clip's length decides. Large, since a longer clip shows more of its surroundings in the
            same number of frames.
        time: share of a drift from the first to the last frame of the longest clip; shorter clips drift less.
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
        """Share of the squared length of a frame's own vector that is new in every frame."""
        return 1 - self.action - self.instance - self.background - self.length - self.time


@dataclass(frozen=True)
class WordShares:
    """Alignment of words and frames, and shares of the squared length of a word's own vector.

    The rest to 1 is the word's meaning.

    Attributes:
        alignment: squared cosine of a word's meaning and of the verb or noun as frames show it, before any training.
            Low, so that a model has to learn what the words mean in these videos.
        lasting: for nouns, share of the noun's rank in the order of lengths. Large, since a text tower knows which
            things take long; without it each noun's length would have to be memorised, and biased lengths would do no
            harm.
        annotator: share of the annotator's habits.
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
        """Share of a word's meaning in the squared length of its own vector."""
        return 1 - self.lasting - self.annotator - self.noise


@dataclass(frozen=True)
class WorldSettings:
    """Settings of a drawn world that are the same at every strength of a bias.

    Attributes:
        dimension: length D of the features.
        frames: number T of frames of every clip, at the middles of as many equal parts of it.
        strata: number of strata of length that actions keep to where lengths are biased. With many, most test clips
            contradict what was learned.
        harmonics: number H of waves of the curve that lengths lie on. With one, a model can tell the shortest from the
            longest lengths; with more, it can tell neighbouring strata apart.
        frame_shares: shares of what a frame shows.
        word_shares: shares of what a word says.
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
