"""The sound of a stretch, encoded anew as AAC beside its pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import av
import numpy as np

from evenreel.config import MediaLimits
from evenreel.media.allowlist import copy_options
from evenreel.media.opening import FFMPEG_ERRORS, open_file
from evenreel.media.packets import time_base_of
from evenreel.media.source import Source
from evenreel.media.workers import Message
from evenreel.types import FloatArray

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer, OutputContainer

CODEC: Final = "aac"
LAYOUTS = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1")
"""The usual layout of 1, 2, ... channels, which sound gets that does not say where its channels belong."""
OTHER_LAYOUTS = frozenset(("3.0", "quad", "5.0(side)", "5.1(side)", "7.0"))
"""What the encoder takes too."""
_BLOCK = 1024
"""Samples in a block of AAC."""
_BEFORE_S = Fraction(1)
_ROUNDED_S = Fraction(1, 1000)
"""Blocks whose times differ by no more from where the last one ended follow it: containers round times, to a
millisecond some of them, and what changes the rate holds some samples back."""


def layout_for(name: str, channels: int) -> str:
    """Choose the layout in which sound of a layout is encoded; more channels than the encoder takes are mixed down.

    >>> layout_for("5.1(side)", 6), layout_for("2 channels", 2), layout_for("7.1", 8), layout_for("12 channels", 12)
    ('5.1(side)', 'stereo', '5.1', 'stereo')
    """
    if name in LAYOUTS or name in OTHER_LAYOUTS:
        return name
    if channels <= len(LAYOUTS):
        return LAYOUTS[max(channels, 1) - 1]
    return "stereo" if name.endswith("channels") else "5.1"


def rate_for(rate: int) -> int:
    """Choose the rate at which sound of a rate is encoded.

    >>> rate_for(48_000), rate_for(192_000), rate_for(11_000)
    (48000, 96000, 11025)
    """
    rates = av.Codec(CODEC, "w").audio_rates or [rate]
    return min(rates, key=lambda one: abs(one - rate))


class EncodedSound:
    """The first stream of sound of a file, encoded as AAC from a start to an end, to the sample.

    Attributes:
        missing: whether there is sound in the file and nothing of it could be decoded.
    """

    def __init__(self, container: InputContainer, zero_s: Fraction, target: OutputContainer) -> None:
        self._container, self._zero_s, self._target = container, zero_s, target
        self._source = container.streams.audio[0]
        layout = self._source.layout
        self._layout, self._rate = layout_for(layout.name, layout.nb_channels), rate_for(self._source.rate)
        self._stream: AudioStream = target.add_stream(CODEC, rate=self._rate, layout=self._layout)
        self._resampler = av.AudioResampler(format="fltp", layout=self._layout, rate=self._rate)
        self._waiting: list[FloatArray] = []
        self._given = self._held = 0
        self.missing = False

    @staticmethod
    def of(path: str, limits: MediaLimits, target: OutputContainer) -> EncodedSound | None:
        """The sound of a file; None where there is none, or none that may be decoded."""
        with closing(Source(path, limits, 1)) as source:
            zero_s = -Fraction(source.clock.seconds(0)).limit_denominator(1_000_000)
        container = open_file(path, copy_options(limits))
        try:
            if container.streams.audio and container.streams.audio[0].codec_context is not None:
                return EncodedSound(container, zero_s, target)
        except FFMPEG_ERRORS:
            pass
        container.close()
        return None

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def encode(self, start_s: Fraction, end_s: Fraction) -> Iterator[Message]:
        """Encode what is heard between two times of the player's timeline; yields signs of life."""
        count = math.floor((end_s - start_s) * self._rate)
        rounded_s = max(_ROUNDED_S, 2 * time_base_of(self._source))  # type: ignore[arg-type]
        rounded = math.ceil(rounded_s * self._rate)
        for at_s, samples in self._decoded(start_s):
            first, position = round((at_s - start_s) * self._rate), self._given + self._held
            if position and abs(first - position) <= rounded:
                first = position
            if first >= count:
                break
            if first > position:  # a gap
                self._put(np.zeros((len(samples), first - position), np.float32))
            skipped = max(0, self._given + self._held - first)
            self._put(samples[:, skipped : count - first])
            yield {}, None
        self._flush()

    def _decoded(self, start_s: Fraction) -> Iterator[tuple[Fraction, FloatArray]]:
        """Times on the player's timeline, and samples (channels, N)."""
        time_base = time_base_of(self._source)  # type: ignore[arg-type]
        self.missing = True
        self._seek(math.floor((start_s + self._zero_s - _BEFORE_S) / time_base))
        try:
            for frame in self._container.decode(self._source):
                if frame.pts is None:
                    continue
                at_s = frame.pts * time_base - self._zero_s
                for made in self._resampler.resample(frame):
                    self.missing = False
                    yield at_s, np.asarray(made.to_ndarray(), np.float32)
        except FFMPEG_ERRORS:  # damaged from here on
            return

    def _seek(self, pts: int) -> None:
        """Go to a time, or to the beginning of a file that cannot be sought: AVI refuses what lies before it."""
        try:
            self._container.seek(max(0, pts), stream=self._source)
        except FFMPEG_ERRORS:
            return

    def _put(self, samples: FloatArray) -> None:
        if not samples.shape[1]:
            return
        self._waiting.append(samples)
        self._held += samples.shape[1]
        if self._held >= 64 * _BLOCK:
            self._mux(keep=True)

    def _flush(self) -> None:
        self._mux(keep=False)
        self._target.mux(self._stream.encode(None))

    def _mux(self, *, keep: bool) -> None:
        if not self._waiting:
            return
        whole = np.concatenate(self._waiting, axis=1)
        stop = whole.shape[1] // _BLOCK * _BLOCK if keep else whole.shape[1]
        for first in range(0, stop, _BLOCK):
            part = whole[:, first : min(first + _BLOCK, stop)]
            if part.shape[1] < _BLOCK:
                part = np.pad(part, ((0, 0), (0, _BLOCK - part.shape[1])))
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(part), "fltp", self._layout)
            frame.sample_rate, frame.pts, frame.time_base = self._rate, self._given + first, Fraction(1, self._rate)
            self._target.mux(self._stream.encode(frame))
        self._waiting = [whole[:, stop:]]
        self._given, self._held = self._given + stop, whole.shape[1] - stop
