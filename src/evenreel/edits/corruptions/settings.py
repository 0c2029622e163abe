"""Settings of corrupting clips; the command line reads them, so this imports nothing that takes time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

from evenreel.config import MediaLimits, OptionForm
from evenreel.errors import UsageError

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

    Raises:
        UsageError: there is no such kind or strength, or a value is out of its range.
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
