"""Compares what evenreel reads of media files with what FFmpeg reads of them, and prints what differs.

    python scripts/compare_media.py FOLDER... [--json]

Of each file: when its first picture comes on screen and when its last one leaves it, from where the file begins, and
how many there are. FFmpeg's own is what PyAV alone decodes of the stream with most pictures. The exit status is 1 where
anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import av
from rich.console import Console
from rich.progress import track

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError
from evenreel.media import open_video, parse_rule

NEAR_S = 0.01  # containers count in milliseconds, and versions of FFmpeg differ in what they cut off the sound
FRAMES_OF_THE_END = 1.5  # how long the last picture stays is told in several ways

Shown = defaultdict[int, list[tuple[float | None, float]]]
"""Times and lengths of the pictures of each stream, in seconds."""


@dataclass(frozen=True)
class Read:
    """What was read of a file, in seconds from where it begins; `error` says why nothing was."""

    first_s: float = 0.0
    end_s: float | None = None
    frames: int = 0
    usual_s: float = 0.0
    error: str = ""


def by_evenreel(path: Path) -> Read:
    """Read a file as evenreel does, each picture once."""
    try:
        with open_video(path, MediaLimits(max_frames=10**7, max_damaged_share=1.0)) as video:
            times_s = [frame.time_s for frame in video.frames(parse_rule("every 0.001 s"))]
            return Read(times_s[0], video.info.duration_s, len(times_s))
    except EvenreelError as error:
        return Read(error=str(error))


def by_ffmpeg(path: Path) -> Read:
    """Read a file with PyAV alone, from start to end."""
    shown: Shown = defaultdict(list)
    try:
        with av.open(str(path), metadata_errors="replace") as container:
            for packet in container.demux(container.streams.video):
                base = float(packet.time_base or 0)
                with contextlib.suppress(av.FFmpegError):  # damaged
                    for frame in (one for one in packet.decode() if isinstance(one, av.VideoFrame)):
                        at_s = None if frame.pts is None else frame.pts * base
                        shown[packet.stream.index].append((at_s, (frame.duration or 0) * base))
            return summed(shown, (container.start_time or 0) / av.time_base)
    except (av.FFmpegError, OSError, ValueError) as error:
        return Read(error=str(error))


def summed(shown: Shown, start_s: float) -> Read:
    """Sum up the pictures of the stream with most of them."""
    pictures = max(shown.values(), key=len, default=[])
    timed = sorted((at_s - start_s, length_s) for at_s, length_s in pictures if at_s is not None)
    if not timed:
        return Read(error="no picture")
    steps = sorted(later[0] - one[0] for one, later in pairwise(timed))
    usual_s = steps[len(steps) // 2] if steps else timed[0][1]
    return Read(timed[0][0], max(at_s + (length_s or usual_s) for at_s, length_s in timed), len(pictures), usual_s)


def differences(ours: Read, theirs: Read) -> list[str]:
    """Say what differs between two readings of a file."""
    if ours.error or theirs.error:
        return [] if ours.error and theirs.error else ["read"]
    off_s = float("inf") if ours.end_s is None or theirs.end_s is None else abs(ours.end_s - theirs.end_s)
    found = ["first"] if abs(ours.first_s - theirs.first_s) > NEAR_S else []
    found += ["length"] if off_s > max(NEAR_S, FRAMES_OF_THE_END * theirs.usual_s) else []
    return found + (["frames"] if ours.frames != theirs.frames else [])


def plain(value: Path | Read) -> object:
    """Return what JSON can hold."""
    return str(value) if isinstance(value, Path) else asdict(value)


def main() -> int:
    """Compare; returns how many files differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    paths = [Path(at, name) for place in given.places for at, _, names in os.walk(place) for name in sorted(names)]
    shown = track(paths, "comparing", console=Console(stderr=True))
    readings = [(path, by_evenreel(path), by_ffmpeg(path)) for path in shown]
    different = [(*one, told) for one in readings if (told := differences(*one[1:]))]
    if given.json:
        names = ("path", "evenreel", "ffmpeg", "differs")
        print(json.dumps([dict(zip(names, one, strict=True)) for one in different], default=plain, indent=1))
        return len(different)
    for path, ours, theirs, told in different:
        print(f"{path}: {', '.join(told)}\n  evenreel {ours}\n  FFmpeg   {theirs}")
    neither = sum(bool(ours.error and theirs.error) for _, ours, theirs in readings)
    print(f"{len(readings)} files: {len(different)} differ, {neither} are read by neither.")
    return len(different)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
