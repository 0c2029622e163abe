"""Makes files with sound for tests: bursts at known times, in any codec and layout, beside pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from tests.media_files import numbered_picture

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Track:
    """A sound stream: `samples` (N,) or (channels, N) at `rate`, the first of them at `start_s`."""

    samples: Samples
    rate: int = 16_000
    codec: str = "aac"
    layout: str = "mono"
    start_s: float = 0.0
    language: str | None = None
    disposition: int = 0
    options: dict[str, str] = field(default_factory=dict)


def bursts(times_s: Sequence[float], length_s: float, rate: int = 16_000) -> Samples:
    """(N,): a tone of 440 Hz for 0.1 s at each of the times, silence elsewhere."""
    found = np.zeros(round(length_s * rate), np.float32)
    for time_s in times_s:
        first = round(time_s * rate)
        last = min(first + rate // 10, len(found))
        found[first:last] = 0.5 * np.sin(2 * np.pi * 440 * np.arange(last - first) / rate)
    return found


def burst_times(samples: Samples, rate: int = 16_000) -> list[float]:
    """When each tone begins: the first loud sample after 50 ms without one."""
    loud = np.flatnonzero(np.abs(samples) > 0.1)
    return [
        float(place) / rate
        for place, before in zip(loud, [-rate, *loud[:-1]], strict=True)
        if place - before > rate // 20
    ]


def write_sound(
    path: Path, tracks: Sequence[Track], pictures_from_s: float | None = 0.0, pictures_s: float = 2.0, **options: str
) -> Path:
    """Write tracks, and pictures at 25 a second from a time on (None for no pictures), into one file."""
    with av.open(str(path), "w", options=options) as container:
        video = None
        if pictures_from_s is not None:
            video = container.add_stream("mpeg4", rate=25)
            video.width, video.height, video.pix_fmt = 96, 64, "yuv420p"
            video.codec_context.time_base = Fraction(1, 1000) if path.suffix != ".avi" else Fraction(1, 25)
        streams = [_add(container, track) for track in tracks]
        packets = [packet for stream, track in zip(streams, tracks, strict=True) for packet in _encoded(stream, track)]
        if video is not None and pictures_from_s is not None:
            base = video.codec_context.time_base
            for number in range(round(pictures_s * 25)):
                frame = av.VideoFrame.from_ndarray(numbered_picture(number), "rgb24")
                frame.pts, frame.time_base = round((pictures_from_s + number / 25) / base), base
                packets += video.encode(frame)
            packets += video.encode(None)
        for packet in sorted(packets, key=lambda packet: packet.dts * packet.time_base):
            container.mux(packet)
    return path


def _add(container: av.container.OutputContainer, track: Track) -> av.AudioStream:
    stream = container.add_stream(track.codec, rate=track.rate, layout=track.layout, options=track.options)
    stream.codec_context.time_base = Fraction(1, track.rate)
    if track.language is not None:
        stream.metadata["language"] = track.language
    stream.disposition = av.stream.Disposition(track.disposition)
    return stream


def _encoded(stream: av.AudioStream, track: Track) -> list[av.Packet]:
    codec = stream.codec_context
    samples = np.atleast_2d(track.samples).astype(np.float32)
    step, found = 1024, []
    converter = av.AudioResampler(format=codec.format.name, layout=track.layout, rate=track.rate)
    fifo = av.AudioFifo()
    for first in range(0, samples.shape[1], step):
        part = np.ascontiguousarray(samples[:, first : first + step])
        frame = av.AudioFrame.from_ndarray(part, "fltp", track.layout)
        frame.sample_rate, frame.time_base = track.rate, Fraction(1, track.rate)
        frame.pts = first
        for converted in converter.resample(frame):
            fifo.write(converted)
    codec.open(strict=False)
    size = codec.frame_size or step
    while (frame := fifo.read(size)) is not None or (frame := fifo.read(0, partial=True)) is not None:
        found += stream.encode(frame)
    found += stream.encode(None)
    for packet in found:
        later = round(track.start_s / packet.time_base)
        packet.pts, packet.dts = packet.pts + later, packet.dts + later
    return found
