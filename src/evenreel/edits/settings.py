"""Settings of edits of clips; the command line reads them, so this imports nothing that takes time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, get_args

from evenreel.config import MediaLimits, OptionForm
from evenreel.errors import UsageError

if TYPE_CHECKING:
    from evenreel.media.encode import Fit


FrameOrder = Literal["original", "random", "reversed"]
OrderStage = Literal["sampled", "video"]
OneFrame = Literal["middle", "first", "random"]

Removed = Literal["background", "entity", "motion"]
REMOVED: tuple[Removed, ...] = get_args(Removed)


@dataclass(frozen=True)
class EqualiseSettings:
    """Settings of the common form of clips; fields that are None follow from the corpus.

    Attributes:
        videos: folder in which the paths of the clips begin.
        fps: frames a second; None for the lowest among the groups' medians.
        height: height of the picture in pixels, even; None for the lowest among the groups' medians, made even.
        width: width of the picture in pixels, even; None for what the height makes it in the shape of that group's
            pictures.
        duration_s: seconds of every clip, those that are shorter being set aside; None for those of the shortest of a
            real clip and its mirrors.
        fit: how a picture of another shape is fitted: `pad` keeps it whole with black bars, `crop` fills the frame.
        crf: constant rate factor of x264, 0 to 51; a higher one makes smaller files.
        workers: number of processes; 0 means one for each core.
        limits: limits of one clip.
        retry: try clips again that were set aside before.
    """

    videos: Path = Path()
    fps: float | None = None
    height: int | None = None
    width: int | None = None
    duration_s: float | None = None
    fit: Fit = "pad"
    crf: int = 23
    workers: int = 0
    limits: MediaLimits = field(default_factory=MediaLimits)
    retry: bool = False

    def __post_init__(self) -> None:
        if self.fps is not None and not 0 < self.fps <= 240:
            raise UsageError(f"{self.fps:g} frames a second are asked for; give more than 0 and at most 240.")
        if self.duration_s is not None and not 0 < self.duration_s < math.inf:
            raise UsageError(f"A duration of {self.duration_s:g} s is asked for; give more than 0.")
        for name, side in (("height", self.height), ("width", self.width)):
            if side is not None and not (16 <= side <= self.limits.max_side_px and side % 2 == 0):
                raise UsageError(
                    f"A {name} of {side} is asked for; give an even number of 16 to {self.limits.max_side_px:,}, as "
                    "H.264 with 4:2:0 needs."
                )
        if self.fit not in ("pad", "crop"):
            raise UsageError(f"{self.fit!r} is no way to fit a picture; there are: pad, crop.")
        if not 0 <= self.crf <= 51:
            raise UsageError(f"A constant rate factor of {self.crf} is asked for; x264 has 0 to 51.")


@dataclass(frozen=True)
class ClipEditSettings:
    """Settings of reading and writing edited clips.

    Attributes:
        videos: folder in which the paths of the clips begin.
        fps: most frames a second of the new clips; a video that has fewer keeps its own.
        limits: limits of one clip.
    """

    videos: Path = Path()
    fps: Annotated[float, OptionForm(least=0.001, most=1_000.0)] = 4.0
    limits: MediaLimits = field(default_factory=MediaLimits)

    def __post_init__(self) -> None:
        if not 0 < self.fps < float("inf"):
            raise UsageError(f"{self.fps} frames a second are asked for; give a number above 0.")


@dataclass(frozen=True)
class RemovalSettings:
    """Settings of removing the background, a thing or the motion from clips.

    Attributes:
        removed: `background`, what the phrases of `places` fit; `entity`, things that the clip's captions name; or
            `motion`, by repeating the middle frame. For the first two, patches that fit the other better stay.
        control: paint over as many patches elsewhere instead; for `motion`, remove nothing.
        places: phrases for backgrounds.
        share: largest share of a clip's patches that is removed, above 0 and at most 1.
        seed: seed of the place that the control paints over.
    """

    removed: Removed
    control: bool = False
    places: tuple[str, ...] = ()
    share: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.removed not in REMOVED:
            raise UsageError(f"{self.removed!r} cannot be taken out of clips; there are: {', '.join(REMOVED)}.")
        if self.removed == "background" and not self.places:
            raise UsageError("Say in words what backgrounds are, such as 'grass field' or 'kitchen'.")
        if self.removed == "motion" and self.places:
            raise UsageError("Where motion goes, no patch is looked at; leave the phrases for places out.")
        if not 0 < self.share <= 1:
            raise UsageError(f"The share of patches to paint over is {self.share}; it is above 0 and at most 1.")


KINDS = (
    *("gaussian-noise", "impulse-noise", "fog", "snow", "elastic", "compression"),
    *("motion-blur", "defocus", "occlusion"),
    *("style", "insertion", "scrambling"),
)
"""Those of MLVP (Zhang et al. 2026), from low to high level."""

NONE = "none"
"""Clips that are written as corrupted ones are, and not corrupted: what the others are compared with."""

STRENGTHS = (1, 2, 3, 4, 5)
BORROWING = frozenset({"style", "insertion"})
"""Kinds that take frames from another clip of the corpus."""

LEAST_SIDE, MOST_SIDE = 32, 2_160


class Corruption(NamedTuple):
    """Kind and strength of a corruption; strength 0 of `none`."""

    kind: str
    strength: int

    @property
    def name(self) -> str:
        """Name of the folder of clips that are corrupted so: `fog-3`, or `none`."""
        return f"{self.kind}-{self.strength}" if self.strength else self.kind


@dataclass(frozen=True)
class CorruptionSettings:
    """Settings of corrupting clips.

    Attributes:
        kinds: gaussian-noise, impulse-noise, fog, snow, elastic, compression, motion-blur, defocus, occlusion, style,
            insertion or scrambling; `none` only encodes clips as the others are. May be given again; empty for all.
        strengths: 1 to 5; may be given again.
        videos: folder in which the paths of the clips begin.
        fps: most frames a second of the new clips; a video that has fewer keeps its own.
        side: shorter side of the new pictures in pixels, where it is longer: noise of single pixels is nothing to a
            model that scales a larger picture down.
        seed: seed of what is drawn, a clip's the same at every strength.
        workers: number of processes; 0 means one for each core.
        limits: limits of one clip.
    """

    kinds: Annotated[tuple[str, ...], OptionForm("--kind")] = ()
    strengths: Annotated[tuple[int, ...], OptionForm("--strength")] = (3,)
    videos: Path = Path()
    fps: Annotated[float, OptionForm(least=0.001, most=1_000.0)] = 4.0
    side: Annotated[int, OptionForm(least=LEAST_SIDE, most=MOST_SIDE)] = 256
    seed: int = 0
    workers: int = 0
    limits: MediaLimits = field(default_factory=MediaLimits)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in (*KINDS, NONE):
                raise UsageError(f"{kind!r} is no kind of corruption; there are: {', '.join((*KINDS, NONE))}.")
        for strength in self.strengths:
            if strength not in STRENGTHS:
                raise UsageError(f"A strength of {strength} is asked for; there are 1 to 5.")
        if not self.strengths:
            raise UsageError("No strength is asked for; give one or more of 1 to 5.")
        if not 0 < self.fps < math.inf:
            raise UsageError(f"{self.fps} frames a second are asked for; give a number above 0.")
        if not LEAST_SIDE <= self.side <= MOST_SIDE:
            raise UsageError(f"A side of {self.side} is asked for; give {LEAST_SIDE} to {MOST_SIDE:,} pixels.")
        if self.seed < 0:
            raise UsageError(f"The seed is {self.seed}; it must not be negative.")

    @property
    def corruptions(self) -> tuple[Corruption, ...]:
        """Kinds with their strengths, each once, in the order that they are asked for; all twelve where none is."""
        asked = (
            Corruption(kind, 0 if kind == NONE else strength)
            for kind in self.kinds or KINDS
            for strength in self.strengths
        )
        return tuple(dict.fromkeys(asked))
