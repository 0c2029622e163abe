"""Time of whole queries on a library of made-up clips: words, filters and confidence; memory, size, and an append.

    python -m benchmarks.search [--clips 10000] [--queries 120] [--folder FOLDER] [--json FILE]
    python -m benchmarks.search --figure docs/pictures/search_scale.svg FILE FILE ...

Builds the library of `benchmarks/made_up_library.py` in a process of its own (83,000 clips are a million moments,
830,000 ten million; in FOLDER it is kept and used again), then prints the first query after opening, the first and
further queries of each kind, an append of one clip and the next query of an open reader, and the memory that is not
page cache. Up to 100,000 clips the frames are also scored by plain NumPy on float32 in memory. Threads are those that
OMP_NUM_THREADS allows. The second form draws the times of several runs over the number of moments.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import log10
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.made_up_library import (
    APART,
    DIMENSION,
    FILTERS,
    FRAMES,
    SIGNS,
    RandomEncoder,
    clip_id_of,
    frames_of,
    made_up_words,
    meta_of,
    unit_rows,
    vectors_of,
)
from benchmarks.made_up_library import build as build_folder
from evenreel.features.shards import Shard
from evenreel.library.search.query import Query
from evenreel.library.search.searcher import Searcher
from evenreel.library.store.catalog import CATALOG, open_for_reading, open_for_writing
from evenreel.library.store.vectors import ExactVectors
from evenreel.library.store.writer import FoundFile, Store, open_vectors
from evenreel.media.workers import FileStamp
from evenreel.types import TextTrack, VideoInfo

__all__ = ["APART", "DIMENSION", "FRAMES", "SIGNS", "RandomEncoder", "build", "median_ms", "unit_rows"]

MOST_IN_MEMORY = 100_000
"""Clips up to which plain NumPy is timed beside: their float32 vectors take 2.5 GB."""


def build(folder: Path, clips: int) -> tuple[sqlite3.Connection, ExactVectors, list[str]]:
    """Build a library of made-up clips: its catalog, its vectors and the words on its signs."""
    build_folder(folder, clips)
    return open_for_writing(folder), vectors_of(folder, meta_of(RandomEncoder())), made_up_words()


def median_ms(call: Callable[[str], object], queries: Sequence[str]) -> float:
    return float(np.median([timed_ms(partial(call, query)) for query in queries]))


def timed_ms(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def anonymous_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def opened(folder: Path) -> Searcher:
    encoder = RandomEncoder()
    return Searcher(open_for_reading(folder), lambda meta: open_vectors(folder, meta), lambda: encoder, folder)


def kinds(words: Sequence[str]) -> dict[str, Callable[[int], Query]]:
    def pair(number: int) -> str:
        return f"{words[number]} {words[-1 - number]}"

    made: dict[str, Callable[[int], Query]] = {
        "words on signs": lambda n: Query(pair(n)),
        "words that nobody wrote": lambda n: Query(f"qwxqwx{n} zzyzzy{n}"),
        "a file's name": lambda n: Query(f"{words[n]}_{words[n + 1]}"),
    }
    for share, where in FILTERS.items():
        made[f"words, filter keeps {share:.1%}"] = lambda n, where=where: Query(pair(n), where=where)  # type: ignore[misc]
    return made


def measured(folder: Path, clips: int, queries: int) -> dict[str, Any]:
    """Measure a library; print and return the figures."""
    words, found = made_up_words(), dict[str, Any](clips=clips, moments=clips * FRAMES)
    searcher = opened(folder)
    found["first_ms"] = timed_ms(lambda: searcher.search(Query(f"{words[5]} {words[6]}")))
    asked = kinds(words)
    found["first_of_kind_ms"] = {name: timed_ms(lambda: searcher.search(make(0))) for name, make in asked.items()}  # noqa: B023
    times: dict[str, list[float]] = {name: [] for name in asked}
    for number in range(1, 1 + queries // len(asked)):
        for name, make in asked.items():
            times[name].append(timed_ms(partial(searcher.search, make(number))))
    found["kinds_ms"] = {name: percentiles(own) for name, own in times.items()}
    found["whole_ms"] = percentiles([one for own in times.values() for one in own])
    found["anonymous_mib"] = anonymous_mib()
    found["mib"] = {path.name: path.stat().st_size / 2**20 for path in sorted(folder.iterdir()) if path.is_file()}
    found |= appended(folder, searcher, clips)
    return found


def percentiles(times_ms: Sequence[float]) -> list[float]:
    return [float(value) for value in np.percentile(times_ms, (50, 95, 99))]


def appended(folder: Path, searcher: Searcher, clips: int) -> dict[str, float]:
    """Milliseconds of appending one clip, and of the next query of an open reader; the median of three."""
    connection, generator = open_for_writing(folder), np.random.default_rng(time.time_ns())
    store, writes, reads = Store(folder, connection, {}), [], []
    for _ in range(3):
        number = int(generator.integers(10**9, 10**12))
        times_s = np.arange(FRAMES, dtype=np.float64) + np.float64(0.5)
        shard = Shard(
            clip_id_of(number),
            VideoInfo("mp4", "h264", 640, 360, 12.0, 300, 25.0),
            "random",
            "random",
            "every 1 s",
            times_s,
            np.stack([times_s - 0.5, times_s + 0.5], 1),
            frames_of(unit_rows(generator, 1), generator).astype(np.float16),
            (TextTrack("NEW SIGN", 0.9, 0.0, 1.0, (0.0, 0.0, 1.0, 1.0)),),
            "reader",
        )
        file = FoundFile(f"/videos/new/{number}.mp4", "/videos", FileStamp(1, 1, 1))

        def write(shard: Shard = shard, file: FoundFile = file) -> None:
            store.put_clip(file, shard)

        writes.append(timed_ms(write))
        reads.append(timed_ms(lambda: searcher.search(Query("new sign"))))
    connection.close()
    return {"append_ms": float(np.median(writes)), "after_append_ms": float(np.median(reads))}


def plain_numpy_ms(folder: Path, clips: int) -> float:
    """Median time of the frames alone by plain NumPy on float32 in memory."""
    stored = np.memmap(folder / "vectors.0.f16", "<f2", "r", 64)[: clips * FRAMES * DIMENSION]
    matrix, encoder = stored.reshape(-1, DIMENSION).astype(np.float32), RandomEncoder()

    def plain(text: str) -> object:
        scores = (matrix @ encoder.encode_text([text]).sentence[0]).reshape(-1, FRAMES).max(1)
        return np.argpartition(-scores, 10)[:10]

    return median_ms(plain, [str(number) for number in range(15)])


def show(found: dict[str, Any]) -> None:
    print(f"{found['clips']:,} clips, {found['moments']:,} moments; all in ms")
    print(f"{'first query after opening':<34}{found['first_ms']:9.1f}")
    print(f"{'':<34}{'first':>9}{'median':>9}{'p95':>9}{'p99':>9}")
    for name, values in found["kinds_ms"].items():
        print(f"{name:<34}" + "".join(f"{value:9.1f}" for value in (found["first_of_kind_ms"][name], *values)))
    print(f"{'all of them':<34}{'':>9}" + "".join(f"{value:9.1f}" for value in found["whole_ms"]))
    print(f"{'append of one clip':<34}{found['append_ms']:9.1f}")
    print(f"{'next query of an open reader':<34}{found['after_append_ms']:9.1f}")
    print(f"memory that is not page cache {found['anonymous_mib']:.0f} MiB; on disk, MiB:")
    print(", ".join(f"{name} {size:.0f}" for name, size in found["mib"].items()))
    if "numpy_ms" in found:
        print(f"plain NumPy, frames alone {found['numpy_ms']:.1f} ms; {found['whole_ms'][0] / found['numpy_ms']:.2f} x")


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 80, 150, 24, 48
LINES = (("whole query, p99", "#b3462c", 2), ("whole query, p95", "#2a6592", 1), ("whole query, median", "#3d7a4a", 0))


def draw(runs: Sequence[dict[str, Any]]) -> str:
    """Draw the median, p95 and p99 of whole queries of several runs over their moments, on log scales, as SVG."""
    runs = sorted(runs, key=lambda run: run["moments"])
    sizes = [run["moments"] for run in runs]
    times = [value for run in runs for value in run["whole_ms"]]
    low, high = 10 ** int(log10(min(times))), 10 ** (int(log10(max(times))) + 1)

    def x(moments: float) -> float:
        share = log10(moments / sizes[0]) / log10(sizes[-1] / sizes[0])
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(time_ms: float) -> float:
        return HEIGHT - BOTTOM - log10(time_ms / low) / log10(high / low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif"'
        f' font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    ]
    tick = float(low)
    while tick <= high:
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" stroke="#dddddd"/>'
            f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.0f} ms</text>'
        )
        tick *= 10
    for size in sizes:
        parts.append(f'<text x="{x(size):.1f}" y="{HEIGHT - 26}" text-anchor="middle">{size / 1e6:.3g} M</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">moments</text>')
    label = float(TOP)
    for name, colour, place in LINES:
        points = [(x(run["moments"]), y(run["whole_ms"][place])) for run in runs]
        path = " ".join(f"{left:.1f},{top:.1f}" for left, top in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{colour}"/>' for left, top in points]
        label = max(label + 16, points[-1][1] + 4)
        parts.append(f'<text x="{points[-1][0] + 8:.1f}" y="{label:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Build, measure, report; or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=120)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--build-only", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--figure", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.figure:
        runs = [json.loads(path.read_text()) for path in options.figure[1:]]
        options.figure[0].write_text(draw(runs), encoding="utf-8")
        return
    if options.build_only:
        build_folder(options.folder, options.clips)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / CATALOG).exists():
            command = ("-m", "benchmarks.search", "--build-only", f"--clips={options.clips}", f"--folder={folder}")
            subprocess.run([sys.executable, *command], check=True)
        found = measured(folder, options.clips, options.queries)
        if options.clips <= MOST_IN_MEMORY:
            found["numpy_ms"] = plain_numpy_ms(folder, options.clips)
        show(found)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
