"""Frame-accurate cuts: those whose ends alone are encoded, beside whole encodes of the same stretches.

    python -m benchmarks.exact_cuts VIDEO... [--cuts 6] [--made 1080]

Stretches of 2 to 8 s are drawn at random of each video, and of a film made of the pictures of the first one, so many
rows high with a key frame every two seconds. Each is cut both ways. Printed are how many could be joined, how many of
their pictures are copied and how many of these are the file's bit by bit; then, joined / whole: seconds of processor
time, megabytes, and the fidelity of the pictures at the ends that are encoded (PSNR to the file's pictures, both as a
person sees them, in dB): the mean and the least. Where pixels are not square, a whole encode has another size and no
PSNR is given.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path

import av
import numpy as np
from av.video.frame import PictureType

from evenreel.config import MediaLimits
from evenreel.errors import MediaError
from evenreel.handover.cuts import UncopyableError, encode_stretch, join_stretch
from evenreel.handover.frames import FileFacts, read_facts
from evenreel.media import open_video
from evenreel.media.sampling import GivenTimes

LIMITS = MediaLimits()


WAYS = ("joined", "whole")


@dataclass
class Measured:
    tried: int = 0
    joined: int = 0
    pictures: int = 0  # of the cuts that were joined
    copied: int = 0
    equal: int = 0  # copied pictures that are the file's, bit by bit
    cpu_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(WAYS, 0.0))
    size: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    psnr: dict[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})
    reasons: Counter[str] = field(default_factory=Counter)


def decoded(path: Path, wanted: range) -> Iterator[np.ndarray]:
    with av.open(str(path)) as container:
        for frame in islice(container.decode(video=0), wanted.start, wanted.stop):
            yield frame.to_ndarray()


def shown(path: Path, fps: Fraction, offset_s: Fraction, wanted: range) -> Iterator[np.ndarray]:
    """Pictures as a person sees them, by the colours that the file says it has."""
    times = [float(offset_s + (number + Fraction(1, 2)) / fps) for number in wanted]
    with open_video(path, LIMITS) as video:
        for frame in video.frames(GivenTimes(times)):
            yield frame.pixels


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    error = np.mean((one.astype(np.float32) - other) ** 2, dtype=np.float64)
    return float(10 * np.log10(255**2 / max(1e-9, float(error))))


def compare(path: Path, facts: FileFacts, wanted: range, folder: Path, into: Measured) -> None:
    fps, offset_s = facts.own_fps, facts.offset_s
    stretch, said = (offset_s + wanted.start / fps, offset_s + wanted.stop / fps), {}
    paths = {way: folder / f"{way}.mp4" for way in WAYS}
    into.tried += 1
    for way, make in zip(WAYS, (join_stretch, encode_stretch), strict=True):
        begun = time.process_time()
        try:
            *_, (said[way], _) = make(str(path), str(paths[way]), stretch, facts, LIMITS)
        except UncopyableError as error:
            into.reasons[str(error)] += 1
            return
        into.cpu_s[way] += time.process_time() - begun
        into.size[way] += paths[way].stat().st_size
    copied = said["joined"]["copied"]
    into.joined, into.pictures = into.joined + 1, into.pictures + len(wanted)
    into.copied += copied[1] - copied[0]
    begins, ends = (number - wanted.start for number in copied)
    pairs = zip(decoded(paths["joined"], range(len(wanted))), decoded(path, wanted), strict=True)
    into.equal += sum(begins <= k < ends and np.array_equal(*pair) for k, pair in enumerate(pairs))
    of_file = shown(path, fps, offset_s, wanted)
    of_cuts = [shown(paths[way], fps, Fraction(0), range(len(wanted))) for way in WAYS]
    for k, (truth, *cuts) in enumerate(zip(of_file, *of_cuts, strict=True)):
        if not begins <= k < ends and all(cut.shape == truth.shape for cut in cuts):
            for way, cut in zip(WAYS, cuts, strict=True):
                into.psnr[way].append(psnr(cut, truth))


def made_film(path: Path, height: int, folder: Path) -> Path:
    """The pictures of a film, so many rows high, with a key frame every two seconds."""
    out = folder / f"made {height}.mp4"
    with av.open(str(path)) as source, av.open(str(out), "w") as target:
        fps = source.streams.video[0].average_rate or Fraction(25)
        options = {"preset": "medium", "crf": "20", "x264-params": f"keyint={round(2 * fps)}"}
        stream = target.add_stream("libx264", rate=fps, options=options)
        for frame in source.decode(video=0):
            if not stream.codec_context.is_open:
                stream.width, stream.height = frame.width * height // frame.height // 2 * 2, height
            scaled = frame.reformat(stream.width, stream.height, "yuv420p")
            scaled.pict_type = PictureType.NONE
            target.mux(stream.encode(scaled))
        target.mux(stream.encode(None))
    return out


def row(name: str, found: Measured) -> str:
    cells = [name, f"{found.joined} of {found.tried}"]
    if found.joined:
        cells += [
            f"{found.copied} of {found.pictures}, {found.equal} equal",
            " / ".join(f"{found.cpu_s[way]:.1f}" for way in WAYS),
            " / ".join(f"{found.size[way] / 1e6:.1f}" for way in WAYS),
        ]
    if found.psnr["joined"]:
        cells += [f"{' / '.join(f'{how(found.psnr[way]):.1f}' for way in WAYS)}" for how in (np.mean, min)]
    return "| " + " | ".join(cells) + " |" + "".join(f" {why}: {count}" for why, count in found.reasons.items())


def main() -> int:
    """Print a row for each file, one for all, and one for the film that is made."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path, metavar="VIDEO")
    parser.add_argument("--cuts", type=int, default=6, help="stretches of each file")
    parser.add_argument("--made", type=int, default=1080, help="rows of the film that is made of the first; 0 for none")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print("| film | joined | pictures copied | processor s | MB | mean PSNR | least PSNR |")
    print("|---|---|---|---|---|---|---|")
    draw, films = random.Random(given.seed), 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        paths = given.videos + ([made_film(given.videos[0], given.made, folder)] if given.made else [])
        for path in paths:
            found = Measured()
            try:
                facts = read_facts(path, LIMITS)
            except MediaError as error:
                print(f"| {path.name} | {error} |")
                continue
            count = round((facts.duration_s - facts.offset_s) * facts.own_fps)
            for _ in range(given.cuts):
                length = min(count, round(facts.own_fps * draw.randrange(2, 9)))
                first = draw.randrange(count - length + 1)
                compare(path, facts, range(first, first + length), folder, found)
            films += found.joined > 0
            print(row(path.name, found), flush=True)
    print(f"Joined in {films} of {len(paths)} films.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
