"""Sound of a video file: one of its streams, in mono blocks of one sample rate, on the clock of its pictures."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from av.stream import Disposition

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.media.opening import FFMPEG_ERRORS, SOUND_DECODERS, allowing, open_file, packets_of
from evenreel.media.sampling import GivenTimes, language_tag, same_language
from evenreel.media.video import Source, open_video, tagged_duration_s
from evenreel.media.workers import Message
from evenreel.types import FloatArray

if TYPE_CHECKING:
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

SAMPLE_RATE = 16_000  # samples a second of every block, where no other rate is asked for
_BLOCK_S = 10
_TICKS_S = Fraction(1, 1_000_000)  # of a container's start
_SAME_PLACE_S = 0.04  # a timestamp that is off by less is rounding of the container
_BRIDGED_S = 1.0  # a gap that becomes silence; a longer one ends the block
_JUMP_BACK_S = 1.0  # a step back in time that is a new recording, not jitter
_MOST_CHANNELS = 64
_SIDE_TRACK = Disposition.comment | Disposition.visual_impaired | Disposition.descriptions | Disposition.karaoke
_SHORT_BY_S = 0.5  # less is rounding


@dataclass(frozen=True)
class SoundBlock:
    """A stretch of sound without a gap.

    Attributes:
        start_s: when it begins, in seconds of the clip's own clock.
        samples: (N,) float32, mono, from -1 to 1.
        sample_rate: samples a second.
    """

    start_s: float
    samples: FloatArray
    sample_rate: int = SAMPLE_RATE

    @property
    def end_s(self) -> float:
        return self.start_s + len(self.samples) / self.sample_rate


@dataclass(frozen=True)
class SoundInfo:
    codec: str  # FFmpeg's name of the decoder
    sample_rate: int  # samples a second in the file
    channels: int  # channels in the file, which are mixed to one
    language: str | None  # language as a BCP 47 tag; None where the file does not say


@contextmanager
def open_sound(
    path: str | os.PathLike[str],
    limits: MediaLimits | None = None,
    *,
    language: str | None = None,
    sample_rate: int = SAMPLE_RATE,
) -> Iterator[Sound]:
    """Open the sound of a local video file for a `with` block; it is closed when the block ends.

    Of several sound streams one in the wanted language is read, before any other; among these one that is no commentary
    or description for the blind, then the one marked default, then the first.

    Args:
        path: a regular file of any name.
        limits: limits on damage; None for the defaults of `MediaLimits`.
        language: language of the stream that is wanted, as a BCP 47 tag.
        sample_rate: samples a second that blocks are to have.

    Raises:
        MediaError: it cannot be used; `reason` says why in a word, the message in a sentence.
    """
    limits = limits or MediaLimits()
    container = open_file(path, allowing(SOUND_DECODERS))
    try:
        stream = _choose_stream(container, language)
        yield Sound(container, stream, _zero_s(path, limits, container), limits, sample_rate)
    finally:
        container.close()


class Sound:
    """An open sound stream and its blocks; made by `open_sound`."""

    def __init__(
        self,
        container: InputContainer,
        stream: AudioStream,
        zero_s: float,
        limits: MediaLimits,
        sample_rate: int = SAMPLE_RATE,
    ) -> None:
        self._container, self._stream, self._limits, self._rate = container, stream, limits, sample_rate
        self._clock = _SoundClock(zero_s)
        self._packets = self._refused = 0
        self._end_s = 0.0
        codec, streams = stream.codec_context, container.streams.audio
        self.info = SoundInfo(codec.name, codec.sample_rate, codec.channels, _language_of(stream))
        self.notes: list[str] = []  # sentences about what is unusual in the sound; more are added while blocks are read
        if len(streams) > 1:
            said = f" ({self.info.language})" if self.info.language else ""
            self.notes.append(f"{len(streams)} sound streams; number {streams.index(stream) + 1} of them{said} is used")

    def blocks(self) -> Iterator[SoundBlock]:
        """Yield the sound in blocks of at most ten seconds, in rising time; may be called once.

        A gap of up to a second becomes silence; after a longer one the next block begins later than the last one ends.
        Memory does not grow with the length of the sound.
        """
        for block in _blocks(self._runs(), self._rate):
            self._end_s = block.end_s
            yield block
        self._conclude()

    def readable_blocks(self) -> Iterator[SoundBlock]:
        """Yield the blocks before an error, which becomes a note where there are some."""
        any_read = False
        try:
            for block in self.blocks():
                any_read = True
                yield block
        except MediaError as error:
            if not any_read:
                raise
            if str(error) not in self.notes:
                self.notes.append(str(error))

    def _runs(self) -> Iterator[tuple[float, FloatArray]]:
        mixer: _Mixer | None = None
        for frame in self._frames():
            starts_anew = self._clock.place(frame)
            if mixer is None or starts_anew or _form_of(frame) != mixer.form:
                if mixer is not None:
                    yield mixer.next_s, mixer.samples(None)
                mixer = _Mixer(frame, self._clock.frame_s, self._rate)
            yield mixer.next_s, mixer.samples(frame)
        if mixer is not None:
            yield mixer.next_s, mixer.samples(None)

    def _frames(self) -> Iterator[AudioFrame]:
        codec = self._stream.codec_context
        codec.thread_count = 1
        for packet in packets_of(self._container, self._stream):
            if not self._packets and packet.has_sidedata("encryption_info"):
                raise MediaError("encrypted", "its sound is encrypted (DRM); only unprotected files can be read")
            self._packets += 1
            try:
                yield from codec.decode(packet)
            except FFMPEG_ERRORS:
                self._refused += 1
        with contextlib.suppress(*FFMPEG_ERRORS):
            yield from codec.decode(None)

    def _conclude(self) -> None:
        if not self._packets:
            raise MediaError("no_sound", "its sound stream holds no data; the file may be cut short")
        if not self._clock.placed:
            raise MediaError(
                "damaged", f"none of its {self._packets} packets of sound could be decoded; it is damaged throughout"
            )
        if (joined_s := self._clock.stepped_back_s) is not None:
            self.notes.append(
                f"the timestamps of the sound step back at {joined_s:.2f} s; they are continued from there"
            )
        stream, claimed_s = self._stream, tagged_duration_s(self._stream)
        if stream.duration and stream.duration > 0 and stream.time_base:
            ends_s = float(((stream.start_time or 0) + stream.duration) * stream.time_base)
            claimed_s = ends_s - self._clock.zero_s
        if claimed_s is not None and self._end_s < claimed_s - _SHORT_BY_S:
            self.notes.append(f"short: {self._end_s:.2f} of {claimed_s:.2f} s of the sound can be read")
        if not self._refused:
            return
        share, limit = self._refused / self._packets, self._limits.max_damaged_share
        said = f"damaged: {self._refused} of {self._packets} packets of sound cannot be decoded ({share:.0%})"
        self.notes.append(said)
        if share > limit:
            raise MediaError("damaged", f"{said}; at most {limit:.0%} is accepted (MediaLimits.max_damaged_share)")


class _SoundClock:
    """Times of decoded frames: as their timestamps say, counted on where they have none or step back."""

    def __init__(self, zero_s: float) -> None:
        self.zero_s = zero_s  # the clip's zero on the file's own clock
        self.frame_s, self.placed = 0.0, False  # when the last frame placed begins, on the clip's clock, if any was
        self.stepped_back_s: float | None = None  # where timestamps last stepped back; None where they never did
        self._shift_s = self._next_s = 0.0

    def place(self, frame: AudioFrame) -> bool:
        """Set `frame_s` for the next frame; whether it does not follow on the one before."""
        own_s = None if frame.time is None else frame.time - self.zero_s + self._shift_s
        if not self.placed:
            self._next_s = own_s or 0.0
        elif own_s is not None and self._next_s - own_s > _JUMP_BACK_S:
            self._shift_s += self._next_s - own_s
            self.stepped_back_s, own_s = self._next_s, self._next_s
        jumps = own_s is not None and abs(own_s - self._next_s) > _SAME_PLACE_S
        self.frame_s = own_s if jumps and own_s is not None else self._next_s
        self._next_s, self.placed = self.frame_s + frame.samples / max(1, frame.sample_rate), True
        return jumps


class _Mixer:
    """Conversion of frames of one form that follow on each other to mono of one sample rate."""

    def __init__(self, frame: AudioFrame, start_s: float, sample_rate: int) -> None:
        channels = frame.layout.nb_channels
        if not 0 < channels <= _MOST_CHANNELS:
            raise MediaError("too_large", f"its sound has {channels} channels; at most {_MOST_CHANNELS} are mixed")
        self.form = _form_of(frame)
        self._start_s, self._given, self._rate = start_s, 0, sample_rate
        self._resampler = av.AudioResampler(format="s16", layout="mono", rate=sample_rate)

    @property
    def next_s(self) -> float:
        return self._start_s + self._given / self._rate

    def samples(self, frame: AudioFrame | None) -> FloatArray:
        """Samples that come out for one more frame; None for what the filter still holds."""
        try:
            frames = self._resampler.resample(frame)
        except FFMPEG_ERRORS as error:
            raise MediaError(
                "failed", f"its sound ({' '.join(map(str, self.form))}) cannot be mixed: {error}"
            ) from error
        parts = [part.to_ndarray().reshape(-1) for part in frames]
        self._given += sum(map(len, parts))
        return np.concatenate([np.zeros(0, np.int16), *parts]).astype(np.float32) / np.float32(2**15)


def _form_of(frame: AudioFrame) -> tuple[str, str, int]:
    return frame.format.name, frame.layout.name, frame.sample_rate


def _blocks(runs: Iterator[tuple[float, FloatArray]], rate: int = SAMPLE_RATE) -> Iterator[SoundBlock]:
    """Blocks of at most ten seconds; what comes before zero, or a second time, is left out."""
    held: list[FloatArray] = []
    start = end = 0  # of what is held, in samples
    for begins_s, samples in runs:
        begins = round(begins_s * rate)
        new = samples[max(0, end - begins) :]
        if not len(new):
            continue
        if begins - end > _BRIDGED_S * rate:
            yield from _filled(start, held, rate)
            held, start, end = [], begins, begins
        gap = max(0, begins - end)
        held += [np.zeros(gap, np.float32), new]
        end += gap + len(new)
        if end - start >= _BLOCK_S * rate:
            yield from _filled(start, held, rate)
            held, start = [], end
    yield from _filled(start, held, rate)


def _filled(start: int, parts: list[FloatArray], rate: int) -> Iterator[SoundBlock]:
    samples = np.concatenate([np.zeros(0, np.float32), *parts])
    for first in range(0, len(samples), _BLOCK_S * rate):
        yield SoundBlock((start + first) / rate, samples[first : first + _BLOCK_S * rate], rate)


def _choose_stream(container: InputContainer, language: str | None) -> AudioStream:
    streams = container.streams.audio
    if not streams:
        raise MediaError("no_sound", "it has no sound stream")

    def place(stream: AudioStream) -> tuple[bool, bool, bool]:
        return (
            not same_language(_language_of(stream), language_tag(language)),
            bool(stream.disposition & _SIDE_TRACK),
            not stream.disposition & Disposition.default,
        )

    stream = min(streams, key=place)
    name = stream.codec_context.name if stream.codec_context is not None else "unknown"
    if name not in SOUND_DECODERS:
        raise MediaError(
            "codec_not_allowed",
            f"its sound codec ({name}) is not on the list of decoders that are trusted with unknown files; "
            f"convert it, for example to AAC",
        )
    for other in container.streams:
        if other is not stream:
            other.discard = av.stream.Discard.all  # not even read from the disk where the index allows
    return stream


def _language_of(stream: AudioStream) -> str | None:
    return language_tag(stream.metadata.get("language"))


def _zero_s(path: str | os.PathLike[str], limits: MediaLimits, container: InputContainer) -> float:
    """The clip's zero on the file's own clock, in seconds; the container's start where no picture can be read."""
    try:
        pictures = Source(path, limits, threads=1)
    except MediaError:
        return float((container.start_time or 0) * _TICKS_S)
    pictures.close()
    return -pictures.clock.seconds(0)


class MomentReader:
    """Worker that answers a task `{"path", "at_s"}` with the frames on screen at these seconds, pixels (H, W, 3).

    Each frame is a message of its own. Where the task has `sound_s`, a start and an end in seconds, the blocks of sound
    that are heard between follow, with `start_s` each, and a message with `no_sound` where that cannot be read.
    """

    def __init__(self, limits: dict[str, Any]) -> None:
        self._limits = MediaLimits(**limits)

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        with open_video(task["path"], self._limits) as video:
            for frame in video.frames(GivenTimes(task["at_s"])):
                yield {"kind": "frame", "time_s": frame.time_s}, frame.pixels
        if "sound_s" in task:
            yield from self._sound(task["path"], *task["sound_s"])

    def _sound(self, path: str, start_s: float, end_s: float) -> Iterator[Message]:
        try:
            with open_sound(path, self._limits) as sound:
                for block in sound.readable_blocks():
                    if block.start_s >= end_s:
                        return
                    heard = block.samples if block.end_s > start_s else None
                    yield {"kind": "sound", "start_s": block.start_s}, heard
        except MediaError as error:
            yield {"kind": "no_sound", "reason": error.reason, "why": str(error)}, None
