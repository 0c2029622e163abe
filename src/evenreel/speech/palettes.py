"""Colours of subtitles in pictures, read from their packets, as grey levels.

PyAV hands out which colour of a palette each pixel has, and not the palette. Segments are those of HDMV presentation
graphics (US 2009/0185789, figures 28 to 33), of DVD sub-pictures, and of ETSI EN 300 743 (7.2.2 to 7.2.4, 10).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from av.subtitles.subtitle import BitmapSubtitle

Colours = NDArray[np.uint8]
"""(256, 2): brightness and opacity of each colour, 0 to 255."""


class Palette(Protocol):
    """Protocol of the colours of one stream.

    Attributes:
        shows: whether there is something to see on screen, as the packets say.
    """

    shows: bool

    def take(self, packet: bytes) -> None:
        """Take the colours of the next packet."""

    def of(self, picture: BitmapSubtitle) -> Colours | None:
        """Return the colours of a picture that was decoded from the last packet; None where nothing says them."""


def palette_of(codec: str, header: bytes) -> Palette:
    """Make the empty palette of a stream."""
    if codec == "pgssub":
        return DiscPalette()
    return DvdPalette(header) if codec == "dvdsub" else BroadcastPalette(header)


class DiscPalette:
    """Colours of PGS: palettes by number, of which each composition of the screen names one."""

    def __init__(self) -> None:
        self.shows = False
        self._palettes: dict[int, Colours] = {}
        self._number = 0

    def take(self, packet: bytes) -> None:
        """Take the compositions and palettes of a packet."""
        for kind, data in _segments(packet, ">BH"):
            if kind == 0x16 and len(data) >= 11:  # the composition
                if data[7] >> 6:  # nothing of before is used
                    self._palettes.clear()
                self._number, self.shows = data[9], bool(data[10])
            elif kind == 0x14 and len(data) >= 2:  # number, version, entries
                colours = self._palettes.setdefault(data[0], _none())
                entries = np.frombuffer(_whole(data[2:], 5), np.uint8).reshape(-1, 5)
                colours[entries[:, 0], 0] = _full_range(entries[:, 1])
                colours[entries[:, 0], 1] = entries[:, 4]

    def of(self, picture: BitmapSubtitle) -> Colours | None:
        """Return the colours of a picture that was decoded from the last packet; None where nothing says them."""
        return self._palettes.get(self._number)


class DvdPalette:
    """Colours of VobSub: four of the sixteen in the header for each picture, guessed where there is no header."""

    def __init__(self, header: bytes) -> None:
        found = re.search(rb"palette:((?:[\s,]*[0-9a-fA-F]{1,6}){16})", header)
        self._sixteen = [_brightness(int(one, 16)) for one in re.findall(rb"[0-9a-fA-F]+", found[1])] if found else None
        self.shows = False
        self._colours: Colours | None = None

    def take(self, packet: bytes) -> None:
        """Take the colours of a packet: those of the commands with which its picture is shown."""
        self._colours = None
        numbers, opacities = bytes(4), bytes(4)
        for command, data in _commands(packet):
            if command == 0x03:
                numbers = _nibbles(data)
            elif command == 0x04:
                opacities = _nibbles(data)
            elif command == 0x06:
                self._colours = self._four(numbers, opacities)
        self.shows = self._colours is not None

    def of(self, picture: BitmapSubtitle) -> Colours | None:
        """Return the colours of a picture that was decoded from the last packet; None where nothing says them."""
        return self._colours

    def _four(self, numbers: bytes, opacities: bytes) -> Colours:
        """Without a palette the first colour that is seen is black and the last one white, as FFmpeg has it."""
        colours = _none()
        colours[:4, 1] = np.frombuffer(opacities, np.uint8) * 17
        seen = list(dict.fromkeys(number for number, opacity in zip(numbers, opacities, strict=True) if opacity))
        for index, number in enumerate(numbers):
            if self._sixteen:
                colours[index, 0] = self._sixteen[number]
            elif number in seen:
                colours[index, 0] = 255 * seen.index(number) // (len(seen) - 1) if len(seen) > 1 else 255
        return colours


class BroadcastPalette:
    """Colours of DVB subtitles: palettes by number and size, of which each region of the screen names one."""

    def __init__(self, header: bytes) -> None:
        self.shows = False
        self._pages = struct.unpack(">HH", header[:4]) if len(header) >= 4 else None
        self._palettes: dict[tuple[int, int], Colours] = {}
        self._regions: dict[int, _Region] = {}
        self._places: dict[int, tuple[int, int]] = {}

    def take(self, packet: bytes) -> None:
        """Take the pages, regions and palettes of a packet."""
        for kind, data in _segments(packet, ">xBHH", self._pages):
            if kind == 0x10 and len(data) >= 2:
                if data[1] & 0x0C:  # nothing of before is used
                    self._palettes.clear()
                    self._regions.clear()
                self._places = {region: (x, y) for region, x, y in struct.iter_unpack(">BxHH", _whole(data[2:], 6))}
                self.shows = bool(self._places)
            elif kind == 0x11 and len(data) >= 8:
                width, height, depth, palette = struct.unpack(">HHBB", data[2:8])
                self._regions[data[0]] = _Region(width, height, 1 << (1 << (depth >> 2 & 3)), palette)
            elif kind == 0x12 and len(data) >= 2:
                self._take_palette(data[0], data[2:])

    def of(self, picture: BitmapSubtitle) -> Colours | None:
        """Return the colours of a picture that was decoded from the last packet; None where nothing says them."""
        shape = picture.width, picture.height, picture.nb_colors
        alike = [one for one, region in self._regions.items() if (region.width, region.height, region.colours) == shape]
        if not alike:
            return None
        x, y = picture.x, picture.y  # of regions of one size the nearest is meant: the screen may be moved
        nearest = min(alike, key=lambda one: sum(map(abs, np.subtract(self._places.get(one, (x, y)), (x, y)))))
        size = picture.nb_colors
        return self._palettes.get((self._regions[nearest].palette, size), _first_colours(size))

    def _take_palette(self, number: int, data: bytes) -> None:
        place = 0
        while place + 4 <= len(data):
            entry, flags = data[place], data[place + 1]
            value = data[place + 2 : place + (6 if flags & 1 else 4)]
            place += 2 + len(value)
            if flags & 1 and len(value) < 4:
                return
            # All bits of each component, or two bytes for all of them.
            bright, clear = (value[0], value[3]) if flags & 1 else (value[0] & 0xFC, (value[1] & 3) * 85)
            for flag, size in ((0x80, 4), (0x40, 16), (0x20, 256)):
                if flags & flag and entry < size:
                    colours = self._palettes.setdefault((number, size), _first_colours(size))
                    colours[entry] = (_full_range(np.uint8(bright)), 255 - clear) if bright else (0, 0)


@dataclass(frozen=True)
class _Region:
    width: int
    height: int
    colours: int
    palette: int


def _segments(packet: bytes, head: str, pages: tuple[int, ...] | None = None) -> Iterator[tuple[int, bytes]]:
    """Kind and content of the segments of a packet that are there as a whole, of some pages only where these are named.

    `head` has a kind, a page where there are pages, and a length.
    """
    place, size = 0, struct.calcsize(head)
    while place + size <= len(packet):
        kind, *page, length = struct.unpack_from(head, packet, place)
        data = packet[place + size : place + size + length]
        if len(data) < length:
            return
        if not page or pages is None or page[0] in pages:
            yield kind, data
        place += size + length


def _commands(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """The commands of a sub-picture with their data, as far as they can be followed."""
    lengths = {0x00: 0, 0x01: 0, 0x02: 0, 0x03: 2, 0x04: 2, 0x05: 6, 0x06: 4}
    place = int.from_bytes(packet[2:4], "big")
    while place > 0 and place + 4 < len(packet):
        after, at = int.from_bytes(packet[place + 2 : place + 4], "big"), place + 4
        while at < len(packet) and packet[at] in lengths:
            length = lengths[packet[at]]
            if at + 1 + length > len(packet):
                return
            yield packet[at], packet[at + 1 : at + 1 + length]
            at += 1 + length
        if after <= place:  # the last one names itself
            return
        place = after


def _nibbles(data: bytes) -> bytes:
    """Four numbers of half a byte, the last one first."""
    return bytes((data[1] & 15, data[1] >> 4, data[0] & 15, data[0] >> 4))


def _none() -> Colours:
    return np.zeros((256, 2), np.uint8)


def _first_colours(size: int) -> Colours:
    """Colours of DVB where a palette does not name them (EN 300 743, 10); of 256 none is seen."""
    colours = _none()
    if size == 4:
        colours[1:4] = (255, 255), (0, 255), (127, 255)
    elif size == 16:
        for number in range(1, 16):
            red, green, blue = (255 * (number >> bit & 1) for bit in range(3))
            colours[number] = _brightness(red << 16 | green << 8 | blue) >> (number >> 3), 255
    return colours


def _whole(data: bytes, size: int) -> bytes:
    """The entries of a size that are there as a whole."""
    return data[: len(data) // size * size]


def _full_range(bright: NDArray[np.uint8] | np.uint8) -> NDArray[np.uint8]:
    """Brightness of video, 16 to 235, as that of pictures."""
    return np.asarray(np.clip((np.float32(bright) - 16) * 255 / 219, 0, 255), np.uint8)


def _brightness(colour: int) -> int:
    """Brightness of a colour of three bytes (Rec. 601)."""
    return (299 * (colour >> 16 & 255) + 587 * (colour >> 8 & 255) + 114 * (colour & 255)) // 1000
