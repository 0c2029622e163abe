"""Stills: one small picture of each moment of a clip, kept when it is read, so that showing it decodes nothing.

The stills of a clip are one file of `evenreel.features.sealed`, named as its shard is, in a folder of their own: the
JPEGs one after the other, where each ends, their times, and a checksum of each with its clip, its time and its place.
Without them a picture is decoded when it is shown.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import numpy as np

from evenreel.features.sealed import Arrays, seal, unseal
from evenreel.features.shards import shard_path
from evenreel.files import write_durably

SIDE_PX, QUALITY = 320, 70  # largest width and height of a still
MOST_BYTES = 48 * 2**20  # of the stills of one clip; those of its last moments are left out where there would be more
NEAR_S = 0.5  # at most between a time and the moment whose still is shown for it


@dataclass
class Stills:
    """Stills of a clip that is being read, with the times of their moments, rising."""

    times_s: list[float] = field(default_factory=list)
    jpegs: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, time_s: float, jpeg: bytes) -> None:
        """Add a still, if there is room."""
        if self.size_bytes + len(jpeg) <= MOST_BYTES:
            self.times_s.append(time_s)
            self.jpegs.append(jpeg)
            self.size_bytes += len(jpeg)


def write_stills(folder: Path, clip_id: str, stills: Stills | bytes) -> None:
    """Write the stills of a clip, or what `stills_bytes` made of them, replacing those on disk."""
    write_durably(shard_path(folder, clip_id), stills if isinstance(stills, bytes) else stills_bytes(clip_id, stills))


def stills_bytes(clip_id: str, stills: Stills) -> bytes:
    """Return the content of the file of a clip's stills; equal stills give equal bytes."""
    ends = list(itertools.accumulate(map(len, stills.jpegs)))
    checksums = [
        _checksum(clip_id, time_s, end, jpeg)
        for time_s, end, jpeg in zip(stills.times_s, ends, stills.jpegs, strict=True)
    ]
    arrays: Arrays = {
        "times_s": np.array(stills.times_s, np.float64),
        "ends": np.array(ends, np.int64),
        "checksums": np.array(checksums, np.uint32),
        "jpegs": np.frombuffer(b"".join(stills.jpegs), np.uint8),
    }
    return seal(arrays, {"clip_id": clip_id})


def read_still(folder: Path, clip_id: str, time_s: float) -> bytes | None:
    """Read the JPEG of the moment nearest to a time, without reading the others.

    Return None where no still is near, or the file is gone, of another clip or damaged there.
    """
    from safetensors import safe_open

    try:
        with safe_open(shard_path(folder, clip_id), "numpy") as held:
            times_s = held.get_tensor("times_s")
            nearest, ends = int(np.abs(times_s - time_s).argmin()), held.get_tensor("ends")
            start, end = int(ends[nearest - 1]) if nearest else 0, int(ends[nearest])
            jpeg: bytes = held.get_slice("jpegs")[start:end].tobytes()
            whole = _checksum(clip_id, times_s[nearest], end, jpeg) == int(held.get_tensor("checksums")[nearest])
    except Exception:  # a damaged file can fail in any way in the parser
        return None
    return jpeg if whole and abs(times_s[nearest] - time_s) <= NEAR_S else None


def _checksum(clip_id: str, time_s: float, end: int, jpeg: bytes) -> int:
    return crc32(jpeg, crc32(clip_id.encode() + struct.pack("<dq", time_s, end)))


def are_whole(path: Path) -> bool:
    """Check that a file of stills is undamaged, and of the clip that it is named by."""
    payload = path.read_bytes()
    try:
        _, record = unseal(payload)
    except Exception:  # a damaged file can fail in any way in the parser
        return False
    return bool(record["clip_id"] == path.stem)
