"""How many cuts are found, and how many are said that are none, when frames are sampled as an index samples them?

    python -m benchmarks.shots VIDEO... [--videos 40] [--seed 0]

Stretches of the given videos, each from one shot of them as all its frames show it, are put one behind the other and
encoded again with several distances between keyframes; the cuts are then known. They are looked for while one frame a
second is sampled, where packets between keyframes are skipped, and while every frame is. A cut is found where one is
said within 0.2 seconds of it (1 second where frames are skipped).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import av
import numpy as np

from evenreel.errors import MediaError
from evenreel.media import open_video, parse_rule
from evenreel.media.video import ShotFinder
from evenreel.types import Pixels

RATE, SIZE = 25, (192, 108)
KEYFRAMES = {"12 frames": 12, "25 frames": 25, "250 frames": 250}
RULES = ("every 1 s", "every 0.04 s")
LENGTHS_S = (0.8, 6.0)
NEAR_S = {"every 1 s": 1.0, "every 0.04 s": 0.2}


def main() -> int:
    """Print a row for each distance between keyframes and sampling rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos_given", nargs="+", type=Path, metavar="VIDEO")
    parser.add_argument("--videos", type=int, default=40, help="how many are put together for each row")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    shots = [shot for path in asked.videos_given for shot in shots_of(path)]
    print(f"{len(shots)} shots of {len(asked.videos_given)} videos, {asked.videos} videos of them a row")
    for name, distance in KEYFRAMES.items():
        found = {rule: np.zeros(7) for rule in RULES}
        rng = np.random.default_rng(asked.seed)
        for _ in range(asked.videos):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "video.mp4"
                cuts_s = put_together(path, shots, distance, rng)
                for rule in RULES:
                    found[rule] += counted(path, rule, cuts_s)
        for rule, (true, said, right, wrong, reading_s, looking_s, decoded) in found.items():
            print(
                f"keyframes at most {name} apart, {rule}: {true:.0f} cuts, found {right / true:.1%}, of those said "
                f"wrong {wrong / max(1, said):.1%}; {looking_s / decoded * 1e3:.2f} ms more a decoded frame, "
                f"{1 + looking_s / reading_s:.2f} x the time of reading without"
            )
    return 0


def shots_of(path: Path) -> list[list[Pixels]]:
    """Read a video's shots, scaled down; none of one that cannot be read."""
    finder, frames = ShotFinder(), []
    try:
        with open_video(path) as video:
            frames = [(frame.time_s, small(frame.pixels)) for frame in video.frames(parse_rule("every 0.04 s"), finder)]
    except MediaError:
        return []
    edges = [-1.0, *finder.cuts_s, float("inf")]
    shots = [[pixels for time_s, pixels in frames if start <= time_s < stop] for start, stop in pairwise(edges)]
    return [shot for shot in shots if len(shot) >= RATE]


def small(pixels: Pixels) -> Pixels:
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
    return np.asarray(frame.reformat(*SIZE, interpolation="AREA").to_ndarray(), np.uint8)


def put_together(path: Path, shots: Sequence[list[Pixels]], distance: int, rng: np.random.Generator) -> list[float]:
    """Write a video of parts of different shots and return its cuts."""
    cuts_s, written, last = [], 0, -1
    with av.open(path, "w") as container:
        stream = container.add_stream("h264", RATE, options={"g": str(distance), "preset": "fast", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for _ in range(8):
            chosen = int(rng.choice([one for one in range(len(shots)) if one != last]))
            length = min(len(shots[chosen]), int(rng.uniform(*LENGTHS_S) * RATE))
            begin = int(rng.integers(len(shots[chosen]) - length + 1))
            if written:
                cuts_s.append(written / RATE)
            for pixels in shots[chosen][begin : begin + length]:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            written, last = written + length, chosen
        container.mux(stream.encode(None))
    return cuts_s


class CountingFinder(ShotFinder):
    """Counts the frames that it looks at."""

    decoded = 0

    def add(self, time_s: float, frame: av.VideoFrame, *, skipped: bool = False) -> None:
        self.decoded += 1
        super().add(time_s, frame, skipped=skipped)


def counted(path: Path, rule: str, cuts_s: Sequence[float]) -> np.ndarray:
    """Count true cuts, said ones, true ones said, said ones that are none; seconds to read, those more, frames."""
    finder = CountingFinder()
    reading_s, both_s = read_for(path, rule, None), read_for(path, rule, finder)
    near = np.abs(np.subtract.outer(cuts_s, finder.cuts_s)) <= max(NEAR_S[rule], 1 / RATE)
    said, right = len(finder.cuts_s), near.any(axis=1).sum()
    wrong = said - near.any(axis=0).sum()
    return np.array([len(cuts_s), said, right, wrong, reading_s, both_s - reading_s, finder.decoded])


def read_for(path: Path, rule: str, finder: ShotFinder | None) -> float:
    """Read a video and return the processor time in seconds."""
    begun_s = time.process_time()
    with open_video(path) as video:
        for _ in video.frames(parse_rule(rule), finder):
            pass
    return time.process_time() - begun_s


if __name__ == "__main__":
    sys.exit(main())
