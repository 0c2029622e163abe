"""*Seen* by a distributed engine beside the matrix: recall@10 of clips, milliseconds and memory, on made-up moments.

    python -m benchmarks.engine [--moments 100000] [--address http://host:19530] [--queries 50]

Clips of 12 moments of 512 numbers around topics; one in twenty is a film of 600. All moments share a direction, as a
model's frames do, and queries lie outside that cloud, as text does: *text* has a cosine of .21 to a moment, *broad* .1,
and *hard* is text where no topics gather the clips. A tenth of the queries may name one clip in ten. Without an address
Milvus' embedded form is asked, in this process: its recall is what this shows, not its speed.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.library.engine import LEAST, OVERSAMPLED, Engine
from evenreel.library.store.vectors import ExactVectors
from evenreel.types import FloatArray

DIMENSION, A_CLIP, FIRST = 512, 12, 10


def unit(rows: Any) -> FloatArray:
    found: FloatArray = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return found


class World:
    """Made-up moments, clip after clip."""

    def __init__(self, moments: int, topics: int, cloud: float) -> None:
        self.rng = np.random.default_rng(0)
        counts = np.where(self.rng.random(max(2, moments // 41)) < 0.05, 600, A_CLIP)
        self.counts = counts[: np.searchsorted(np.cumsum(counts), moments) + 1]
        self.shared = unit(self.rng.standard_normal(DIMENSION))
        centres = self.rng.standard_normal((topics, DIMENSION)) / np.sqrt(DIMENSION) if topics else None
        parts = []
        for count in self.counts:
            of_clip = self.rng.standard_normal(DIMENSION) / np.sqrt(DIMENSION)
            if centres is not None:
                of_clip = 0.7 * of_clip + 0.7 * centres[self.rng.integers(topics)]
            noise = self.rng.standard_normal((count, DIMENSION)) / np.sqrt(DIMENSION)
            parts.append(unit(cloud * self.shared + of_clip + 0.4 * noise).astype(np.float16))
        self.vectors = np.concatenate(parts)
        self.first_rows = np.cumsum(self.counts) - self.counts

    def queries(self, count: int, cosine: float) -> FloatArray:
        """Queries with a cosine to some moment, whose other part lies away from what all moments share."""
        rows = self.vectors[self.rng.integers(len(self.vectors), size=count)].astype(np.float32)
        away = self.rng.standard_normal((count, DIMENSION)) - 3 * self.shared * np.sqrt(DIMENSION)
        away -= (away * rows).sum(axis=1, keepdims=True) * rows
        return unit(cosine * rows + np.sqrt(1 - cosine**2) * unit(away))


def measured(world: World, engine: Engine, version: str, matrix: ExactVectors, queries: FloatArray) -> dict[str, float]:
    """Ask both for the first clips; the engine's are scored by the matrix, as a search does."""
    recalls = list[float]()
    times: dict[str, list[float]] = {"engine": [], "matrix": []}
    for number, query in enumerate(queries):
        allowed = None if number % 10 else world.rng.random(len(world.counts)) < 0.1
        began = time.perf_counter()
        named = engine.nearest(version, query, max(LEAST, OVERSAMPLED * FIRST), allowed)
        (scores,) = matrix.best_per_clip(query[None], world.first_rows[named], world.counts[named])
        times["engine"].append(time.perf_counter() - began)
        began = time.perf_counter()
        (exact,) = matrix.best_per_clip(query[None], world.first_rows, world.counts)
        times["matrix"].append(time.perf_counter() - began)
        exact = np.where(True if allowed is None else allowed, exact, -np.inf)
        least = np.sort(exact)[-FIRST] - 1e-4  # clips that are alike count alike
        recalls.append(float((exact[named[np.argsort(-scores)[:FIRST]]] >= least).mean()))
    return {
        "recall@10 of clips": round(float(np.mean(recalls)), 4),
        **{f"{name} ms": round(1000 * float(np.median(found)), 1) for name, found in times.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--address")
    given = parser.parse_args()
    for name, topics, cloud, cosines in (
        ("topics", max(1, given.moments // 3_000), 1.0, {"text": 0.21, "broad": 0.1}),
        ("none", 0, 2.0, {"hard": 0.21}),
    ):
        world = World(given.moments, topics, cloud)
        with tempfile.TemporaryDirectory() as room, Engine(given.address or f"{room}/moments.db/{name}") as engine:
            matrix = ExactVectors(Path(room, "vectors.f16"), DIMENSION)
            whole = world.vectors.astype(np.float32)
            matrix.append(whole)
            began = time.perf_counter()
            version = engine.publish(enumerate(np.split(whole, world.first_rows[1:])), DIMENSION, "made_0_0")
            built_s = round(time.perf_counter() - began, 1)
            for kind, cosine in cosines.items():
                found = measured(world, engine, version, matrix, world.queries(given.queries, cosine))
                used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                about = {"moments": len(world.vectors), "clips": len(world.counts), "queries": kind, "built s": built_s}
                print(json.dumps(about | found | {"peak MB": used}), flush=True)


if __name__ == "__main__":
    main()
