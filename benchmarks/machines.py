"""Indexing by two workers of a Ray cluster of this machine against the plain index run on the same clips.

    python -m benchmarks.machines [--clips 100] [--seconds 20] [--rounds 3]

Each round indexes a few clips and all of them, plainly and with `--ray local`, in turns, with two readers each, without
words on screen. A run takes its start-up and so much a clip, so the two sizes give both; the ratio is that of the times
of all clips, start-up left out and with it. Bytes moved are those of the shards and stills that workers leave.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

from evenreel.config import IndexSettings, Machines
from evenreel.library import index_folders
from tests.library.videos import write_folder

FEW = 4
SETTINGS = IndexSettings(model="builtin", read_text=False, workers=2)
WAYS = {"plain": None, "ray": Machines(ray="local")}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--clips", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=20.0)
    arguments.add_argument("--rounds", type=int, default=3)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        write_folder(Path(place, "few"), FEW, asked.seconds)
        write_folder(Path(place, "all"), asked.clips, asked.seconds)
        rounds = [measured(Path(place), number) for number in range(asked.rounds)]
        moved = sum(
            path.stat().st_size
            for kind in ("shards", "stills")
            for path in Path(place, "ray-all-0", kind).rglob("*.safetensors")
        )
    slopes = {way: [(one[way, "all"] - one[way, "few"]) / (asked.clips - FEW) for one in rounds] for way in WAYS}
    ratios = [ray / plain for ray, plain in zip(slopes["ray"], slopes["plain"], strict=True)]
    figures = {
        "clips": asked.clips,
        "seconds_a_clip": asked.seconds,
        "ms_a_clip": {way: round(1000 * median(found), 1) for way, found in slopes.items()},
        "start_up_s": {
            way: round(median(one[way, "few"] - FEW * slope for one, slope in zip(rounds, slopes[way], strict=True)), 2)
            for way in WAYS
        },
        "ratio_a_clip": [round(one, 2) for one in (median(ratios), min(ratios), max(ratios))],
        "ratio_with_start_up": round(median(one["ray", "all"] / one["plain", "all"] for one in rounds), 2),
        "bytes_moved_a_clip": round(moved / asked.clips),
    }
    print(json.dumps(figures))


def measured(place: Path, number: int) -> dict[tuple[str, str], float]:
    """Index both folders in both ways, and return the seconds of each run."""
    took = {}
    for size in ("few", "all"):
        for way, machines in WAYS.items():
            began = time.perf_counter()
            index_folders([place / size], place / f"{way}-{size}-{number}", SETTINGS, machines=machines)
            took[way, size] = time.perf_counter() - began
    return took


if __name__ == "__main__":
    main()
