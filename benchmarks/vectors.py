"""Engines for the scan of frame vectors, and the library's own: recall@10 of clips, time, size and build.

    python -m benchmarks.vectors [--moments 120000] [--queries 1000]

Makes clips of 12 frames and 512 numbers in a temporary folder: clips in clusters, frames of a clip alike, all in a
cloud with a direction of its own. Queries are a third text-like (outside the cloud, near a clip), a third frames that
are not in it, a third of any direction. Every engine names clips, of which the best 200 are scored exactly; one thread.
The library's own is one pass of its float16 matrix. Exit code 1 where that is slower than 2.5 times the bare kernel or
than half of plain NumPy, or where its recall is under .999, with and without filters.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenreel.arrays import Indices, slices
from evenreel.library.store.vectors import ExactVectors, HalfArray
from evenreel.types import FloatArray

FRAMES, DIMENSION, CLUSTERS = 12, 512, 500
K = 10
ROUNDS = 15
VECTORS = "vectors.0.f16"
MOST_FOR_A_GRAPH = 200_000
KEPT = (0.1, 0.01, 0.001)
BARE, NUMPY = "NumKong int8, bare kernel", "NumPy float32"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"), "1")
OTHERS = 150
"""Queries on which the recall of the other engines is measured."""


# The engines: each names the clips that are worth scoring exactly for a query.

CLIPS_SCORED_AGAIN = 200
ROWS_ASKED = 1_000
"""Rows asked of engines that know rows only: frames of a clip are alike, so these are of some 200 clips."""

TILE_ROWS = 512


@dataclass(frozen=True)
class Moments:
    """What is searched.

    Attributes:
        vectors: the library's store.
        frames: the rows as float32 (N, D).
        first_rows: (C,) first row of each clip.
        counts: (C,) rows of each clip.
        shown: what each clip shows (C, D), which text-like queries are near.
    """

    vectors: ExactVectors
    frames: FloatArray
    first_rows: Indices
    counts: Indices
    shown: FloatArray

    @property
    def clip_of(self) -> Indices:
        """The clip of each row, (N,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


class Engine(Protocol):
    """An index that is built; `bytes` are those of its codes, or 0 where all scores are exact already."""

    bytes: int

    def clips(self, query: FloatArray) -> Indices:
        """Places of the clips that are worth scoring under a query (D,)."""


class AllScores:
    """A scan that scores every row; the best of each clip counts.

    Args:
        moments: what is searched.
        scores: query (D,) -> scores of all rows (N,).
        size: bytes that are scanned.
        most: number of clips that are scored again.
    """

    def __init__(
        self,
        moments: Moments,
        scores: Callable[[FloatArray], NDArray[Any]],
        size: int,
        most: int = CLIPS_SCORED_AGAIN,
    ) -> None:
        self._starts, self._scores, self.bytes, self._most = moments.first_rows, scores, size, most

    def clips(self, query: FloatArray) -> Indices:
        best = np.maximum.reduceat(self._scores(query), self._starts)
        most = min(self._most, len(best))
        return np.sort(np.argpartition(-best, most - 1)[:most])


class BestRows:
    """An index that gives the best rows only.

    Args:
        moments: what is searched.
        rows: query (1, D) -> its best rows.
        size: bytes of the index.
    """

    def __init__(self, moments: Moments, rows: Callable[[FloatArray], Indices], size: int) -> None:
        self._clip_of, self._rows, self.bytes = moments.clip_of, rows, size

    def clips(self, query: FloatArray) -> Indices:
        found = self._clip_of[self._rows(query[None])]
        _, first = np.unique(found, return_index=True)
        return np.sort(found[np.sort(first)[:CLIPS_SCORED_AGAIN]])


def codes_of(values: FloatArray) -> NDArray[np.int8]:
    """int8 codes (n, D), each row by its own scale."""
    found = np.empty(values.shape, np.int8)
    for start in range(0, len(values), 8192):
        part = values[start : start + 8192]
        found[start : start + 8192] = np.rint(part * (127 / np.abs(part).max(axis=1, keepdims=True)))
    return found


def numkong(moments: Moments, most: int = CLIPS_SCORED_AGAIN) -> AllScores:
    """The bare kernel of NumKong on int8 codes in memory."""
    import numkong as nk

    codes = codes_of(moments.frames)
    scales = np.concatenate([np.abs(part).max(axis=1) for part in np.array_split(moments.frames, 64)])

    def scores(query: FloatArray) -> NDArray[np.float32]:
        dots = np.asarray(nk.cdist(codes_of(query[None]), codes, "dot"))[0]
        return np.multiply(dots, scales, dtype=np.float32, casting="same_kind")

    return AllScores(moments, scores, codes.nbytes, most)


def numpy_float32(moments: Moments) -> AllScores:
    """A matrix product on float32 in memory, the alternative of two lines."""
    return AllScores(moments, lambda query: moments.frames @ query, moments.frames.nbytes)


def widened_tiles(moments: Moments) -> AllScores:
    """The exact scan of before: float16 widened by hand in tiles, then a matrix product."""
    rows = moments.vectors.read(0, len(moments.frames))

    def scores(query: FloatArray) -> FloatArray:
        scaled = query * np.float32(2.0**112)
        return np.concatenate([_widened(rows[i : i + TILE_ROWS]) @ scaled for i in range(0, len(rows), TILE_ROWS)])

    return AllScores(moments, scores, rows.nbytes)


def _widened(block: HalfArray) -> FloatArray:
    """Float16 as float32, times 2**-112: sign, exponent and fraction moved to their places."""
    bits = np.left_shift(block.view("<i2"), np.int32(13), dtype=np.int32)
    bits &= np.int32(~0x70000000)
    wide: FloatArray = bits.view(np.float32)
    return wide


def faiss_sq8(moments: Moments) -> BestRows:
    import faiss

    dimension = moments.frames.shape[1]
    index = faiss.IndexScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT)
    return _faiss(moments, index, dimension)


def faiss_fast_scan(moments: Moments) -> BestRows:
    """FAISS, flat product quantisation of 4 bits a pair of numbers, scanned in registers."""
    import faiss

    dimension = moments.frames.shape[1]
    index = faiss.IndexPQFastScan(dimension, dimension // 2, 4, faiss.METRIC_INNER_PRODUCT)
    return _faiss(moments, index, dimension // 4)


def _faiss(moments: Moments, index: Any, row_bytes: int) -> BestRows:
    import faiss

    faiss.omp_set_num_threads(1)
    index.train(moments.frames[:: max(1, len(moments.frames) // 20_000)].copy())
    index.add(moments.frames)
    return BestRows(moments, lambda query: index.search(query, ROWS_ASKED)[1][0], row_bytes * len(moments.frames))


def turbovec(moments: Moments) -> BestRows:
    from turbovec import TurboQuantIndex

    dimension = moments.frames.shape[1]
    index = TurboQuantIndex(dimension, 4)
    index.add(moments.frames)
    index.prepare()
    return BestRows(
        moments,
        lambda query: np.asarray(index.search(query, ROWS_ASKED)[1]).astype(np.int64)[0],
        dimension // 2 * len(moments.frames),
    )


def usearch_exact(moments: Moments) -> BestRows:
    from usearch.index import search

    codes = codes_of(moments.frames)

    def rows(query: FloatArray) -> Indices:
        found = search(codes, codes_of(query), ROWS_ASKED, "ip", exact=True, threads=1)
        return np.asarray(found.keys).astype(np.int64).ravel()

    return BestRows(moments, rows, codes.nbytes)


def usearch_hnsw(moments: Moments) -> BestRows:
    from usearch.index import Index

    index = Index(ndim=moments.frames.shape[1], metric="cos", dtype="i8")
    index.add(np.arange(len(moments.frames)), moments.frames, threads=1)
    return BestRows(
        moments,
        lambda query: np.asarray(index.search(query[0], ROWS_ASKED, threads=1).keys).astype(np.int64).ravel(),
        index.memory_usage,
    )


@dataclass(frozen=True)
class Row:
    """An engine of the table, how it is built, and whether it appends and filters."""

    name: str
    build: Callable[[Moments], Engine]
    appends: str
    filters: str


ROWS = (
    Row(BARE, numkong, "yes", "yes, by rows"),
    Row("FAISS SQ8, flat", faiss_sq8, "yes", "yes, a selector"),
    Row("FAISS FastScan PQ, 4 bit", faiss_fast_scan, "yes", "no"),
    Row("turbovec, 4 bit", turbovec, "yes", "yes, a mask"),
    Row("USearch i8, exact", usearch_exact, "yes", "no"),
    Row("USearch i8, HNSW", usearch_hnsw, "yes", "no"),
    Row(NUMPY, numpy_float32, "yes", "yes, by rows"),
    Row("float16 widened by hand (before)", widened_tiles, "yes", "yes, by rows"),
)


def unit(values: FloatArray) -> FloatArray:
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return values


def noise(random: np.random.Generator, rows: int) -> FloatArray:
    """Random directions (rows, D) of about unit length."""
    return random.standard_normal((rows, DIMENSION), np.float32) * np.float32(DIMENSION**-0.5)


def make(folder: Path, moments: int) -> Moments:
    random, clips = np.random.default_rng(0), moments // FRAMES
    cloud = noise(random, 1) * 1.2
    shown = unit(noise(random, CLUSTERS)[random.integers(0, CLUSTERS, clips)] + 0.7 * noise(random, clips))
    vectors = ExactVectors(folder / VECTORS, DIMENSION)
    frames = np.empty((clips * FRAMES, DIMENSION), np.float32)
    for part in slices(clips, 4096):
        rows = slice(part.start * FRAMES, part.stop * FRAMES)
        content = np.repeat(shown[part], FRAMES, axis=0)
        frames[rows] = unit(content + cloud + 0.35 * noise(random, len(content)))
        vectors.append(frames[rows])
    counts = np.full(clips, FRAMES)
    return Moments(vectors, frames, np.arange(clips) * FRAMES, counts, shown)


def make_queries(shown: FloatArray, number: int) -> FloatArray:
    """Queries (Q, D): text-like, frames that are not there, any direction, in turn."""
    random = np.random.default_rng(1)
    near = shown[random.integers(0, len(shown), number)]
    gap = noise(random, 1) * 2.0
    text = unit(0.8 * near + gap + 0.6 * noise(random, number))
    frame = unit(near + 0.5 * noise(random, number))
    anything = unit(noise(random, number))
    return np.stack([text, frame, anything], axis=1).reshape(-1, DIMENSION)[:number]


def exact(moments: Moments, queries: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Exact scores of clips (q, C), some queries at a time."""
    for part in slices(len(queries), 100):
        yield part, moments.vectors.best_per_clip(queries[part], moments.first_rows, moments.counts)


def hits(found: Indices, scores: FloatArray, kept: Indices) -> float:
    """The share of the best `K` among the `kept` clips that was found; equal scores stand in for each other."""
    most = min(K, len(kept))
    least = np.partition(scores[kept], len(kept) - most)[len(kept) - most]
    return float((scores[found[:most]] >= least - 1e-6).sum()) / most


def own(moments: Moments, query: FloatArray, *, kept: Indices) -> Indices:
    found = moments.vectors.best_per_clip(query[None], moments.first_rows[kept], moments.counts[kept])[0]
    return kept[best_of(found)]


def by_engine(moments: Moments, engine: Engine, query: FloatArray) -> Indices:
    """The best clips of those that an engine names, scored exactly."""
    clips = engine.clips(query)
    scores = moments.vectors.best_per_clip(query[None], moments.first_rows[clips], moments.counts[clips])[0]
    return clips[best_of(scores)]


def best_of(scores: FloatArray) -> Indices:
    some = np.argpartition(-scores, min(K, len(scores) - 1))[:K] if len(scores) else np.empty(0, np.int64)
    return some[np.argsort(-scores[some])]


def medians_ms(ways: Sequence[Callable[[FloatArray], Indices]], queries: FloatArray) -> list[float]:
    """Median time of each way over some queries, in turn."""
    taken: list[list[float]] = [[] for _ in ways]
    for query in queries:
        for way, times in zip(ways, taken, strict=True):
            times.append(timed(partial(way, query)) * 1000)
    return [float(np.median(times)) for times in taken]


def recalls(moments: Moments, queries: FloatArray, built: dict[str, Engine]) -> tuple[dict[str, float], list[float]]:
    """Recall@10 of every engine on the first `OTHERS` queries; the library's on all, without a filter and with each."""
    random, everything = np.random.default_rng(2), np.arange(len(moments.counts))
    found: dict[str, list[float]] = {name: [] for name in built}
    filtered: list[list[float]] = [[] for _ in (1, *KEPT)]
    for part, scores in exact(moments, queries):
        for query, wanted in zip(queries[part], scores, strict=True):
            for own_hits, share in zip(filtered, (1, *KEPT), strict=True):
                size = max(1, int(share * len(everything)))
                kept = np.sort(random.choice(everything, size, replace=False)) if share < 1 else everything
                own_hits.append(hits(own(moments, query, kept=kept), wanted, kept))
            if len(filtered[0]) <= OTHERS:
                for name, engine in built.items():
                    found[name].append(hits(by_engine(moments, engine, query), wanted, everything))
    return {name: float(np.mean(values)) for name, values in found.items()}, [float(np.mean(v)) for v in filtered]


def build_all(moments: Moments, skipped: Sequence[str]) -> tuple[dict[str, Engine], dict[str, float]]:
    built, seconds = dict[str, Engine](), dict[str, float]()
    for row in ROWS:
        graph = "HNSW" in row.name and len(moments.frames) > MOST_FOR_A_GRAPH
        if graph or any(word in row.name for word in skipped):
            print(f"{row.name}: left out", flush=True)
            continue
        started = time.perf_counter()
        built[row.name] = row.build(moments)
        seconds[row.name] = time.perf_counter() - started
    return built, seconds


def timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure(moments: Moments, queries: FloatArray, skipped: Sequence[str], path: Path) -> list[str]:
    """Print the table, and return the bounds that are missed."""
    everything = np.arange(len(moments.counts))
    built, seconds = build_all(moments, skipped)
    ways = [partial(own, moments, kept=everything)]
    ways += [partial(by_engine, moments, engine) for engine in built.values()]
    medians_ms(ways, queries[:3])
    took, *others = medians_ms(ways, queries[3 : 3 + ROUNDS])
    times = dict(zip(built, others, strict=True))
    recall, filtered = recalls(moments, queries, built)
    size = path.stat().st_size
    print(f"{'engine':34} {'recall@10':>9} {'ms':>8} {'MB':>7} {'build s':>8}  appends  filters")
    print(
        f"{'the library (float16)':34} {filtered[0]:9.4f} {took:8.2f} {size / 1e6:7.0f} {0:8.1f}  yes      yes, by rows"
    )
    for row in ROWS:
        if row.name in built:
            line = f"{row.name:34} {recall[row.name]:9.4f} {times[row.name]:8.2f} {built[row.name].bytes / 1e6:7.0f}"
            print(f"{line} {seconds[row.name]:8.1f}  {row.appends:7}  {row.filters}")
    for share, value in zip(KEPT, filtered[1:], strict=True):
        print(f"the library under a filter that keeps {100 * share:g} % of the clips: recall@10 {value:.4f}")
    return missed(took, times, filtered)


def missed(took: float, times: dict[str, float], filtered: Sequence[float]) -> list[str]:
    """Print the ratios, and return those that are out of bounds."""
    found = []
    for name, most in ((BARE, 2.5), (NUMPY, 0.5)):
        if name in times:
            ratio = took / times[name]
            print(f"the library / {name}: {ratio:.2f} (at most {most})")
            found += [f"{ratio:.2f} times {name}, more than {most}"] if ratio > most else []
    return found + [f"recall@10 {value:.4f}, less than .999" for value in filtered if value < 0.999]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=120_000, help="rows, 12 to a clip")
    parser.add_argument("--queries", type=int, default=1_000, help="queries whose recall is measured")
    parser.add_argument("--skip", action="append", default=[], help="leave out engines with this word in their name")
    asked = parser.parse_args()
    if ONE_THREAD.items() - os.environ.items():  # read when numpy is imported
        again = [sys.executable, "-m", "benchmarks.vectors", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **ONE_THREAD})
    with tempfile.TemporaryDirectory() as folder:
        moments = make(Path(folder), asked.moments)
        wrong = measure(moments, make_queries(moments.shown, asked.queries), asked.skip, Path(folder) / VECTORS)
    for what in wrong:
        print(f"missed: {what}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
