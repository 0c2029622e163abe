"""Windows of sound: what a model turns into one vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from evenreel.media.sound import SoundBlock
from evenreel.types import FloatArray

RULE_OF_SOUND = "sound of "
"""How the rule of a library's vectors of sounds begins."""

_FOLLOWS_S = 1e-3  # blocks that are no further apart are one sound
SILENT = 1e-4
"""Loudest sample of what is silent: three steps of 16 bits."""


@dataclass(frozen=True)
class SoundWindows:
    """Windows of a model of sounds.

    Attributes:
        sample_rate: samples a second.
        length: samples of a window; the last one of a sound may be shorter.
        hop: samples from the start of one window to that of the next.
    """

    sample_rate: int = 48_000
    length: int = 480_000
    hop: int = 240_000

    @property
    def rule(self) -> str:
        """Return how sound is cut, in words that a library keeps."""
        return f"{RULE_OF_SOUND} {self.length / self.sample_rate:g} s every {self.hop / self.sample_rate:g} s"


@dataclass(frozen=True)
class SoundWindow:
    """A window of sound.

    Attributes:
        start_s: when it begins, in seconds of the clip's own clock.
        end_s: when it ends.
        samples: (N,) float32, mono, at most the length of a window.
    """

    start_s: float
    end_s: float
    samples: FloatArray

    @property
    def is_silent(self) -> bool:
        """Whether there is nothing to hear in it."""
        return not np.abs(self.samples).max(initial=0.0) > SILENT


def cut_windows(blocks: Iterable[SoundBlock], windows: SoundWindows) -> Iterator[SoundWindow]:
    """Yield the windows of a sound in rising time; after a gap they begin anew.

    No more is held than a window and a block. The last window of a stretch ends where that does.

    Args:
        blocks: sound in rising time, at the windows' sample rate (`evenreel.media.sound.open_sound`).
        windows: length and hop.
    """
    held, start_s = np.zeros(0, np.float32), 0.0
    for block in blocks:
        if len(held) and abs(block.start_s - start_s - len(held) / windows.sample_rate) > _FOLLOWS_S:
            yield _window(held, start_s, windows)
            held = held[:0]
        if not len(held):
            start_s = block.start_s
        held = np.concatenate([held, block.samples])
        while len(held) > windows.length:  # more follows, so this one is not the last
            yield _window(held[: windows.length], start_s, windows)
            held, start_s = held[windows.hop :], start_s + windows.hop / windows.sample_rate
    if len(held):
        yield _window(held, start_s, windows)


def _window(samples: FloatArray, start_s: float, windows: SoundWindows) -> SoundWindow:
    return SoundWindow(start_s, start_s + len(samples) / windows.sample_rate, samples)
