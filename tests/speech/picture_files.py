"""Writes films with subtitles in pictures, of words that Pillow draws: PGS by hand, VobSub and DVB by FFmpeg.

PGS is written after the patent application US 2009/0185789 (figures 28 to 33): a display set is a composition of the
screen, its windows, a palette, the pictures of objects in run lengths, and an end.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal

import av
import numpy as np
from av.codec import CodecContext
from av.stream import Disposition
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from tests.speech.subtitle_files import Line, film_with_subtitles

Indices = NDArray[np.uint8]
Kind = Literal["pgs", "dvd", "dvb"]
Packets = list[tuple[int, bytes]]
"""Millisecond and content of each display set of PGS."""

MS = Fraction(1, 1000)
SCREEN = (720, 480)
FILM_S = 4
ENCODERS = {"dvd": "dvd_subtitle", "dvb": "dvb_subtitle"}
FOUR_COLOURS = {"palette": ", ".join(["000000", "ffffff", "808080", *["000000"] * 13])}
HAS_ENCODERS = int(av.__version__.partition(".")[0]) >= 18
"""Whether PyAV's encoders have room for a picture; those of before had a kilobyte."""


@dataclass(frozen=True)
class Look:
    """How words are drawn: brightness (16 to 235) of letters and of their outline, which is so many pixels wide."""

    letters: int = 235
    outline: int = 16
    outline_px: int = 2
    boxed: bool = False


@dataclass(frozen=True)
class Drawing:
    """Numbers of colours, and for each brightness and opacity, 0 to 255."""

    indices: Indices
    colours: Mapping[int, tuple[int, int]]

    def faded(self, share: float) -> Drawing:
        """The same pixels with colours that are so much less opaque."""
        return Drawing(self.indices, {n: (level, round(seen * share)) for n, (level, seen) in self.colours.items()})


@dataclass(frozen=True)
class PictureTrack:
    """A stream of a film: display sets of PGS, as they are or as another kind."""

    kind: Kind
    packets: Packets
    language: str = "eng"
    forced: bool = False


def drawn(words: str, px: int = 30, look: Look | None = None, font: str | None = None) -> Drawing:
    """Draw words, which may have several lines, with softened edges; colour 0 is transparent."""
    look = look or Look()
    face = ImageFont.truetype(font, px) if font else ImageFont.load_default(px)
    left, top, right, bottom = ImageDraw.Draw(Image.new("L", (1, 1))).multiline_textbbox(
        (0, 0), words, font=face, stroke_width=look.outline_px, align="center"
    )
    size, place = (int(right - left) + 8, int(bottom - top) + 8), (4 - left, 4 - top)

    def laid(stroke_px: int) -> NDArray[np.float64]:
        sheet = Image.new("L", size)
        ImageDraw.Draw(sheet).multiline_text(place, words, 255, face, stroke_width=stroke_px, align="center")
        return np.asarray(sheet) / 255

    letters, seen = laid(0), laid(look.outline_px)
    if look.boxed:
        seen = np.ones_like(seen)
    if not look.outline_px and not look.boxed:
        letters = np.ones_like(letters)
    opacities, levels = np.rint(seen * 4).astype(int), np.rint(letters * 7).astype(int)
    indices = np.where(opacities > 0, (opacities - 1) * 8 + levels + 1, 0).astype(np.uint8)
    colours = {0: (16, 0)}
    for opacity in range(4):
        for level in range(8):
            bright = round(look.outline + (look.letters - look.outline) * level / 7)
            colours[opacity * 8 + level + 1] = bright, round(255 * (opacity + 1) / 4)
    return Drawing(indices, colours)


def display_set(areas: Sequence[tuple[int, int, Drawing]], screen: tuple[int, int] = SCREEN) -> bytes:
    """A display set that shows drawings at places (x, y), with the colours of the first; none of them clear it."""
    objects = b"".join(struct.pack(">HBBHH", number, 0, 0, x, y) for number, (x, y, _) in enumerate(areas))
    head = struct.pack(">HHBHBBBB", *screen, 0x10, 0, 0x80, 0, 0, len(areas))
    parts = [segment(0x16, head + objects), segment(0x17, struct.pack(">BBHHHH", 1, 0, 0, 0, *screen))]
    if areas:
        colours = (bytes((index, level, 128, 128, seen)) for index, (level, seen) in areas[0][2].colours.items())
        parts.append(segment(0x14, b"\0\0" + b"".join(colours)))
        for number, (_, _, drawing) in enumerate(areas):
            height, width = drawing.indices.shape
            parts.append(object_segments(number, (width, height), run_lengths(drawing.indices)))
    return b"".join([*parts, segment(0x80, b"")])


def segment(kind: int, data: bytes) -> bytes:
    return struct.pack(">BH", kind, len(data)) + data


def object_segments(number: int, size: tuple[int, int], lengths: bytes) -> bytes:
    """An object of a size (width, height) with these run lengths, in as many segments as it takes."""
    data = struct.pack(">HH", *size) + lengths
    data = struct.pack(">I", len(data))[1:] + data
    pieces = [data[start : start + 60_000] for start in range(0, len(data), 60_000)]
    flags = [(0x80 if not n else 0) | (0x40 if n == len(pieces) - 1 else 0) for n in range(len(pieces))]
    return b"".join(
        segment(0x15, struct.pack(">HBB", number, 0, flag) + piece) for flag, piece in zip(flags, pieces, strict=True)
    )


def run_lengths(indices: Indices) -> bytes:
    """Each row as runs of a colour, and two zeros at its end."""
    rows = bytearray()
    for row in indices:
        edges = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), len(row)]
        for start, end in pairwise(edges):
            rows += _run(int(row[start]), end - start)
        rows += b"\0\0"
    return bytes(rows)


def _run(colour: int, length: int) -> bytes:
    if colour and length < 3:
        return bytes((colour,)) * length
    short = bytes((length,)) if length < 64 else bytes((0x40 | length >> 8, length & 255))
    return b"\0" + short if not colour else bytes((0, short[0] | 0x80, *short[1:], colour))


def disc_packets(lines: Sequence[Line]) -> Packets:
    """Display sets that show each line at the bottom of the screen, and clear it where it ends."""
    found: Packets = []
    for line in lines:
        found += [(line.start_ms, shown(line.words)), (line.end_ms, display_set([]))]
    return found


def shown(words: str) -> bytes:
    """A display set with words at the bottom of the screen."""
    drawing = drawn(words)
    height, width = drawing.indices.shape
    return display_set([((SCREEN[0] - width) // 2, SCREEN[1] - height - 20, drawing)])


def sup_file(packets: Packets) -> bytes:
    """Display sets as a file of their own: each segment with its time."""
    written = bytearray()
    for time_ms, data in packets:
        place = 0
        while place + 3 <= len(data):
            end = place + 3 + int.from_bytes(data[place + 1 : place + 3], "big")
            written += b"PG" + struct.pack(">II", time_ms * 90, 0) + data[place:end]
            place = end
    return bytes(written)


def film_with_pictures(
    path: Path,
    tracks: Sequence[PictureTrack],
    first_ms: int = 0,
    texts: Sequence[tuple[Path, str]] = (),
    change: Callable[[int, bytes], bytes] | None = None,
) -> Path:
    """A film of `FILM_S` seconds with streams of pictures, and one of text for each file, with its language.

    Args:
        path: the film; its suffix says the container.
        tracks: the streams of pictures.
        first_ms: timestamp of the first frame; the pictures are as much later.
        texts: subtitle files in UTF-8 with the languages of their streams, after `forced ` where they are forced.
        change: makes another content of the number of a packet in its stream of pictures, and its content.
    """

    def packets(streams: Sequence[av.stream.Stream]) -> Iterator[av.Packet]:
        for track, stream in zip(tracks, streams, strict=True):
            for number, encoded in enumerate(_encoded(track, stream, first_ms)):
                packet = _with(encoded, change(number, bytes(encoded))) if change else encoded
                packet.stream = stream
                yield packet

    def add(container: av.container.OutputContainer) -> Iterator[av.Packet]:
        return packets([_added(container, track) for track in tracks])

    return film_with_subtitles(path, texts, first_ms, add=add, length_s=FILM_S)


def _with(packet: av.Packet, data: bytes) -> av.Packet:
    other = av.Packet(data)
    other.time_base, other.pts, other.dts, other.duration = packet.time_base, packet.pts, packet.dts, packet.duration
    return other


def _added(container: av.container.OutputContainer, track: PictureTrack) -> av.stream.Stream:
    if track.kind == "pgs":
        with av.open(io.BytesIO(sup_file([(0, display_set([])), (1000, display_set([]))])), format="sup") as blank:
            stream = container.add_stream_from_template(blank.streams[0])
    else:
        stream = container.add_stream(ENCODERS[track.kind])
        stream.codec_context.time_base = MS
        stream.codec_context.options = FOUR_COLOURS if track.kind == "dvd" else {}
    stream.metadata["language"] = track.language
    if track.forced:
        stream.disposition = Disposition.forced
    return stream


def _encoded(track: PictureTrack, stream: av.stream.Stream, first_ms: int) -> Iterator[av.Packet]:
    """The packets of a track; those of another kind as the encoder of FFmpeg makes them of what its decoder makes."""
    decoder = CodecContext.create("hdmv_pgs_subtitle", "r")
    times = [time_ms for time_ms, _ in track.packets]
    earliest = list(accumulate(reversed(times), min))[::-1]
    for number, (time_ms, data) in enumerate(track.packets):
        packet, ends_ms = av.Packet(data), times[number + 1] if number + 1 < len(times) else time_ms + 1000
        if track.kind != "pgs":
            decoded = decoder.decode2(packet)
            if track.kind == "dvd":
                if not len(decoded):  # a picture has its end
                    continue
                decoded.start_display_time, decoded.end_display_time = 0, ends_ms - time_ms
            packet = av.Packet(bytes(stream.codec_context.encode_subtitle(decoded)))
        packet.time_base = MS
        packet.pts, packet.dts = first_ms + time_ms, first_ms + earliest[number]  # whose order is looked at
        if track.kind == "dvd":  # without it MP4 loses the last one
            packet.duration = ends_ms - time_ms
        yield packet
