"""Speed of an encoder on this machine: frames and captions a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenreel.types import Encoder

_HEIGHT, _WIDTH = 360, 640
_CAPTIONS = tuple(f"a person in a {colour} coat walks over a bridge in the rain" for colour in ("red", "blue") * 16)


@dataclass(frozen=True)
class EncoderSpeed:
    """Speed of an encoder, its preparation of frames of 640 x 360 pixels and of captions of 13 words included.

    Attributes:
        frames_per_s: frames a second.
        captions_per_s: captions a second.
    """

    frames_per_s: float
    captions_per_s: float


def measure_speed(encoder: Encoder, seconds: float = 2.0) -> EncoderSpeed:
    """Measure how many frames, and how many captions, an encoder encodes in a second."""
    frames = encoder.window.frames
    windows = max(1, 16 // frames)
    pixels = np.random.default_rng(0).integers(0, 256, (windows, frames, 3, _HEIGHT, _WIDTH), dtype=np.uint8)
    return EncoderSpeed(
        _rate(lambda: encoder.encode_windows(pixels), windows * frames, seconds),
        _rate(lambda: encoder.encode_text(_CAPTIONS), len(_CAPTIONS), seconds),
    )


def _rate(work: Callable[[], object], count: int, seconds: float) -> float:
    work()
    done, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds or not done:
        work()
        done += count
    return done / passed
