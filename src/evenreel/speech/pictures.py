"""Subtitle streams of pictures inside a video (PGS, VobSub, DVB), decoded, rendered and read by a recogniser of text.

FFmpeg's decoders run, so this is for a worker that can be killed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from evenreel.media.allowlist import packet_options, picture_subtitle_options
from evenreel.media.opening import FFMPEG_ERRORS, open_file
from evenreel.speech.palettes import palette_of
from evenreel.speech.rendering import Area, rendered
from evenreel.speech.shown import ShownPicture, cues_of
from evenreel.speech.streams import language_of, packets_of, pictures_to_read, starts_s
from evenreel.speech.subtitles import MOST_CUES, Subtitles
from evenreel.types import Pixels
from evenreel.wording import count

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream
    from av.subtitles.stream import SubtitleStream
    from av.subtitles.subtitle import SubtitleSet

MOST_PICTURES = 10_000
"""Number of different pictures of a stream that are read; a film of two hours has some 1,500."""

LARGEST_PIXELS = 4096 * 2304
"""Largest width times height of the screen that a subtitle is drawn on."""

_SAME_LEVELS = 24  # by which a patch of two sheets may differ and still show the same letters
_NO_TIME = -(2**62)
_NO_END = (0, 2**32 - 1)


class SheetRecogniser(Protocol):
    """Protocol of a recogniser of text in pictures."""

    def can_read(self, language: str | None) -> bool:
        """Return whether a language (BCP 47) is written in a script that the recogniser reads; True if not known."""

    def read(self, sheet: Pixels) -> tuple[str, float]:
        """Read a sheet of dark letters on white paper, (H, W) grey; return its words and the confidence, 0 to 1."""


def read_pictures(path: str | os.PathLike[str], reader: SheetRecogniser) -> Iterator[Subtitles | None]:
    """Read the subtitles in pictures of a video; yields None now and then while it reads, then what each stream says.

    Times count from where a player's timeline begins.
    """
    with open_file(path, packet_options()) as container:
        streams = {stream.index: _PictureStream(stream, reader) for stream in pictures_to_read(container)}
        wanted = {index for index, stream in streams.items() if not stream.notes}
        if wanted:
            start_s = starts_s(path)
            for packet in packets_of(container, wanted):
                if packet is not None:
                    stream = streams[packet.stream.index]
                    stream.take(packet, start_s)
                    if stream.is_full:
                        wanted.discard(packet.stream.index)
                yield None
                if not wanted:
                    break
    for stream in streams.values():
        yield stream.subtitles()


class _PictureStream:
    """One stream, packet by packet.

    Attributes:
        notes: why it is not read; empty where it is.
    """

    def __init__(self, stream: SubtitleStream, reader: SheetRecogniser) -> None:
        self.language = language_of(stream)
        self.notes: list[str] = []
        if not reader.can_read(self.language):
            self.notes.append(f"subtitles in pictures left out: the recogniser does not read {self.language}")
        self._reader, self._decoder = reader, stream.codec_context
        self._decoder.options = picture_subtitle_options(LARGEST_PIXELS)
        self._palette = palette_of(self._decoder.name, self._decoder.extradata or b"")
        self._shown: list[ShownPicture] = []
        self._readings: dict[bytes, tuple[str, float]] = {}
        self._last: tuple[Pixels, tuple[str, float]] | None = None
        self._taken = self._broken = self._pictures = 0

    @property
    def is_full(self) -> bool:
        """True where as much was read as is read of any stream."""
        return self._taken >= MOST_CUES or self._pictures >= MOST_PICTURES

    def take(self, packet: Packet[Stream], start_s: float) -> None:
        """Read what a packet shows; the stream's time 0 is at `start_s` of the file's clock."""
        self._taken += 1
        try:
            decoded = self._decoded(packet, start_s)
        except FFMPEG_ERRORS:
            self._broken += 1
            return
        if decoded is not None:
            times, areas = decoded
            self._shown.append(ShownPicture(*times, *self._reading(areas)))

    def subtitles(self) -> Subtitles:
        """Return what the stream says, and notes on what was left out."""
        notes = list(self.notes)
        if self._broken:
            notes.append(f"{self._broken:,} of {count(self._taken, 'packet')} of subtitles could not be read")
        if self.is_full:
            until_s = max((one.start_s for one in self._shown), default=0.0)
            notes.append(
                f"its subtitles in pictures were read up to {until_s:,.0f} s: of a stream at most {MOST_PICTURES:,} "
                f"different pictures are read, and {MOST_CUES:,} packets"
            )
        return Subtitles(tuple(cues_of(self._shown, self.language)), tuple(notes))

    def _decoded(self, packet: Packet[Stream], start_s: float) -> tuple[tuple[float, float | None], list[Area]] | None:
        """When and what a packet shows; None where it changes nothing."""
        data = bytes(packet)
        if self._decoder.name == "dvdsub" and _is_cut(data):
            raise ValueError("cut short")
        self._palette.take(data)
        found = self._decoder.decode2(packet)
        if found is None:
            return None
        areas = self._areas(found)
        if not areas and self._palette.shows:
            raise ValueError("refused by the decoder")
        return _times(found, packet, start_s), areas

    def _areas(self, found: SubtitleSet) -> list[Area]:
        """The rectangles with pixels of what was decoded."""
        from av.subtitles.subtitle import BitmapSubtitle

        filled = [one for one in found if isinstance(one, BitmapSubtitle) and one.width * one.height and one.planes]
        if sum(one.width * one.height for one in filled) > LARGEST_PIXELS:
            raise ValueError("too large")
        areas = []
        for one in filled:
            colours = self._palette.of(one)
            if colours is None:
                raise ValueError("without colours")
            pixels = np.frombuffer(one.planes[0], np.uint8)  # type: ignore[call-overload]
            areas.append(Area(one.x, one.y, pixels.reshape(one.height, one.width), colours))
        return areas

    def _reading(self, areas: list[Area]) -> tuple[str, float]:
        """The words of a picture and their confidence; it is read once, however often it is shown."""
        digest = hashlib.sha256()
        for area in areas:
            digest.update(repr(area.indices.shape).encode())
            digest.update(area.indices.data)
            digest.update(area.colours.data)
        key = digest.digest()
        if key not in self._readings:
            self._readings[key] = self._sheet_reading(rendered(areas))
        return self._readings[key]

    def _sheet_reading(self, sheet: Pixels | None) -> tuple[str, float]:
        if sheet is None:
            return "", 0.0
        if self._last is None or not _looks_alike(sheet, self._last[0]):  # as each picture of a fade looks
            self._pictures += 1
            self._last = sheet, self._reader.read(sheet)
        return self._last[1]


def _is_cut(data: bytes) -> bool:
    """Whether a picture of VobSub is shorter than it says; the decoder would take what follows for the rest of it."""
    return len(data) < max(4, int.from_bytes(data[:2], "big") or int.from_bytes(data[2:6], "big"))


def _times(found: SubtitleSet, packet: Packet[Stream], start_s: float) -> tuple[float, float | None]:
    """When it is shown first, and last where that is said."""
    if found.pts < _NO_TIME:
        raise ValueError("without a time")
    shown_s = found.pts / 1e6 - start_s
    end_s = None if found.end_display_time in _NO_END else shown_s + found.end_display_time / 1000
    if end_s is None and packet.duration and packet.time_base:
        end_s = shown_s + float(packet.duration * packet.time_base)
    return shown_s + found.start_display_time / 1000, end_s


def _looks_alike(one: Pixels, other: Pixels) -> bool:
    import cv2

    if one.shape != other.shape:
        return False
    return int(cv2.blur(cv2.absdiff(one, other), (3, 3)).max()) <= _SAME_LEVELS
