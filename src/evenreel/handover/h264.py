"""What joining streams of H.264 needs of their bytes (ITU-T H.264, 7.3; ISO/IEC 14496-15, 5.3.3): NAL units and sets.

Pictures of two encoders can stand in one track where each names parameter sets of an id of its own, and both sets are
in the file's one `avcC` box. So a player needs nothing from within the stream, and changes sets at an IDR picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

IDR, SPS, PPS, DELIMITER = 5, 7, 8, 9  # types of NAL units
RARE = "its form of H.264 is rare"
PROFILES = {66: "baseline", 77: "main", 100: "high"}  # of pictures 4:2:0 with 8 bits, by what x264 calls them


class UnjoinableError(ValueError):
    """What a stream has that keeps another from being joined to it."""


def kind_of(unit: bytes) -> int:
    return unit[0] & 31


def units_of(data: bytes, length_bytes: int) -> Iterator[bytes]:
    """Yield the NAL units of a packet: after lengths of so many bytes, or where that is 0, after start codes."""
    at = 0
    while length_bytes and at + length_bytes < len(data):
        end = at + length_bytes + int.from_bytes(data[at : at + length_bytes], "big")
        if end > len(data):
            raise UnjoinableError("a packet of it is damaged")
        yield data[at + length_bytes : end]
        at = end
    if not length_bytes:
        yield from (unit for part in data.split(b"\0\0\1")[1:] if (unit := part.rstrip(b"\0")))


def framed(units: Sequence[bytes]) -> bytes:
    """A packet of these units after lengths of four bytes; parameter sets and delimiters are left out."""
    kept = (unit for unit in units if kind_of(unit) not in {SPS, PPS, DELIMITER})
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in kept)


@dataclass(frozen=True)
class ParameterSets:
    sps: tuple[bytes, ...]
    pps: tuple[bytes, ...]
    length_bytes: int  # of the length before each unit; 0 for start codes

    @staticmethod
    def of(extradata: bytes) -> ParameterSets:
        """Read what stands before a stream: an `avcC` box, or units after start codes."""
        if extradata[:1] != b"\1":
            units = list(units_of(extradata, 0))
            sets = [tuple(unit for unit in units if kind_of(unit) == kind) for kind in (SPS, PPS)]
            return ParameterSets(sets[0], sets[1], 0)
        found, at = list[tuple[bytes, ...]](), 5
        for mask in (31, 255):
            units, count, at = [], extradata[at] & mask, at + 1
            for _ in range(count):
                end = at + 2 + int.from_bytes(extradata[at : at + 2], "big")
                units.append(extradata[at + 2 : end])
                at = end
            found.append(tuple(units))
        return ParameterSets(found[0], found[1], (extradata[4] & 3) + 1)

    @property
    def profile(self) -> int:
        return self.sps[0][1]

    def free_id(self) -> int:
        """The least id that neither a sequence's nor a picture's set has."""
        taken = {_Bits(unit[4:]).number() for unit in self.sps} | {_Bits(unit[1:]).number() for unit in self.pps}
        free = sorted(set(range(1, 32)) - taken)
        if not free:
            raise UnjoinableError("all ids of its parameter sets are taken")
        return free[0]

    def references(self) -> int:
        """Most pictures that one refers to; raises `UnjoinableError` for rare profiles and what may be interlaced."""
        if len(self.sps) != 1 or not self.pps or self.profile not in PROFILES:
            raise UnjoinableError(RARE)
        bits = _Bits(self.sps[0][4:])
        bits.number()
        if self.profile == 100:
            form = [bits.number() for _ in range(3)]  # of chroma, bits of luma and of chroma
            if form != [1, 0, 0] or bits.read(2):  # lossless coding, own scaling matrices
                raise UnjoinableError(RARE)
        bits.number()
        order = bits.number()
        if order == 1:
            raise UnjoinableError("the order of its pictures is not counted by them")
        if order == 0:
            bits.number()
        references = bits.number()
        bits.read(1), bits.number(), bits.number()  # gaps, width, height
        if not bits.read(1):
            raise UnjoinableError("it may be interlaced")
        return references

    def joined(self, others: ParameterSets) -> bytes:
        """An `avcC` box of both, whose profile is the same."""
        both, first = (self.sps[0], others.sps[0]), self.sps[0]
        head = bytes([1, first[1], both[0][2] & both[1][2], max(both[0][3], both[1][3]), 255])
        held = b""
        for units, mark in ((self.sps + others.sps, 224), (self.pps + others.pps, 0)):
            held += bytes([mark | len(units)]) + b"".join(len(unit).to_bytes(2, "big") + unit for unit in units)
        return head + held + (b"\xfd\xf8\xf8\0" if self.profile == 100 else b"")  # 4:2:0, 8 bits, no more sets


class _Bits:
    """Reads a NAL unit's content bit by bit."""

    def __init__(self, data: bytes) -> None:
        content = data.replace(b"\0\0\3", b"\0\0")
        self._bits, self._at = "".join(f"{byte:08b}" for byte in content), 0

    def read(self, count: int) -> int:
        self._at += count
        if self._at > len(self._bits):
            raise UnjoinableError("its parameter sets are cut off")
        return int(self._bits[self._at - count : self._at], 2)

    def number(self) -> int:
        """An unsigned Exp-Golomb number."""
        zeros = 0
        while not self.read(1):
            zeros += 1
        return (1 << zeros | (self.read(zeros) if zeros else 0)) - 1
