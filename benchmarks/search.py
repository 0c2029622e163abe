"""Time of one query on a library of 10,000 videos, against plain NumPy on float32 vectors in memory.

    python benchmarks/search.py [--clips 10000] [--queries 30]

Makes a catalog with 12 frames of 512 dimensions and three on-screen signs a clip in a temporary folder, and
prints the median time of each channel and of whole queries, their ratio to NumPy, and what memory they take.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from evenreel.library.search.query import Query
from evenreel.library.search.searcher import Searcher
from evenreel.library.search.text_match import about_hits, on_screen_hits
from evenreel.library.store.catalog import create_schema, transaction
from evenreel.library.store.confidence import update_null_scores
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import ExactVectors
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

FRAMES, DIMENSION, SIGNS = 12, 512, 3


class RandomEncoder:
    """A caption's vector is random, fixed by its letters; a text tower's own time is not measured here."""

    encoder_id = weights_hash = "random"
    dimension = DIMENSION
    window = WindowRule()

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """(Q, D) random directions."""
        sentence = np.concatenate([unit_rows(np.random.default_rng(list(text.encode())), 1) for text in captions])
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        """No caption is longer than this tower takes."""
        return [False] * len(captions)

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        """Never called."""
        raise NotImplementedError("the benchmark has vectors, not pictures")


def unit_rows(generator: np.random.Generator, rows: int) -> FloatArray:
    """Random directions (rows, D)."""
    values = generator.standard_normal((rows, DIMENSION), np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def made_up_words(generator: np.random.Generator, count: int) -> list[str]:
    """Words of 3 to 11 letters, about as English spreads its letters."""
    letters = np.array(list("aaabcdeeefghiiijklmnnooprrssttuuvwyz"))
    return ["".join(generator.choice(letters, generator.integers(3, 12))) for _ in range(count)]


def build(folder: Path, clips: int) -> tuple[sqlite3.Connection, ExactVectors, list[str]]:
    """A library of made-up clips: its catalog, its vectors and the words on its signs."""
    generator = np.random.default_rng(0)
    connection = sqlite3.connect(folder / "catalog.sqlite", isolation_level=None)
    create_schema(connection)
    words = made_up_words(generator, 20_000)
    connection.execute("BEGIN")
    for number in range(clips):
        clip_id = f"{number:08d}"
        connection.execute("INSERT INTO clips VALUES (?, 'mp4', 'h264', 640, 360, 12, 25, 1, 1, '[]', '')", (clip_id,))
        connection.execute(
            "INSERT INTO files VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, NULL, NULL, ?)",
            (f"/videos/{number}.mp4", f"{number}.mp4", clip_id, json.dumps({"source": "ab"[number % 2]})),
        )
        connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (clip_id, number * FRAMES, FRAMES))
        connection.executemany(
            "INSERT INTO moments VALUES (?, ?, ?, ?, ?)",
            [(clip_id, frame, frame + 0.5, frame, frame + 1) for frame in range(FRAMES)],
        )
        for sign in range(SIGNS):
            text = " ".join(generator.choice(words, 3)).upper()
            connection.execute(
                "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
                " VALUES (?, ?, ?, ?, 0.9, ?, ?, '[0, 0, 1, 1]')",
                (clip_id, sign, text, json.dumps([text]), sign, sign + 1),
            )
    rebuild_full_text(connection)
    connection.execute("COMMIT")
    vectors = ExactVectors(folder / "vectors.0.f16", DIMENSION)
    for start in range(0, clips * FRAMES, 12_000):
        vectors.append(unit_rows(generator, min(12_000, clips * FRAMES - start)))
    return connection, vectors, words


def median_ms(call: Callable[[str], object], queries: Sequence[str]) -> float:
    """Median wall time of a call over the queries."""
    times = []
    for query in queries:
        start = time.perf_counter()
        call(query)
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def peak_mib() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(connection: sqlite3.Connection, vectors: ExactVectors, words: Sequence[str]) -> None:
    """Time queries of two written words and one that nobody wrote, channel by channel."""
    encoder = RandomEncoder()
    clips = connection.execute("SELECT count(*) FROM clips").fetchone()[0]
    counts, first_rows = np.full(clips, FRAMES), np.arange(clips) * FRAMES
    everything = {f"{number:08d}" for number in range(clips)}
    queries = [f"{one} {other} nothing" for one, other in zip(words, reversed(words), strict=True)]
    searcher = Searcher(connection, lambda _: vectors, lambda: encoder)
    searcher.search(Query(queries[0]))
    before = peak_mib()
    calls: dict[str, Callable[[str], object]] = {
        "whole query": lambda text: searcher.search(Query(text)),
        "whole query with a filter": lambda text: searcher.search(Query(text, where="source = 'a'")),
        "frames alone": lambda text: vectors.best_per_clip(encoder.encode_text([text]).sentence, first_rows, counts),
        "on-screen words alone": lambda text: on_screen_hits(connection, text, everything),
        "names and captions alone": lambda text: about_hits(connection, text, everything),
    }
    times = {name: median_ms(call, queries) for name, call in calls.items()}
    print(f"peak memory {peak_mib():.0f} MiB, of which queries added {peak_mib() - before:.0f} MiB")
    matrix = unit_rows(np.random.default_rng(1), clips * FRAMES)

    def plain(text: str) -> object:
        scores = (matrix @ encoder.encode_text([text]).sentence[0]).reshape(-1, FRAMES).max(1)
        return np.argpartition(-scores, 10)[:10]

    numpy_ms = median_ms(plain, queries)
    print(f"{'plain NumPy, frames alone':<28}{numpy_ms:8.1f} ms   (float32 in memory, {matrix.nbytes >> 20} MiB)")
    for name, wall_ms in times.items():
        print(f"{name:<28}{wall_ms:8.1f} ms   {wall_ms / numpy_ms:.2f} x NumPy")


def main() -> None:
    """Build, measure nonsense, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        connection, vectors, words = build(Path(folder), options.clips)
        start = time.perf_counter()
        with transaction(connection):
            update_null_scores(connection, vectors, RandomEncoder())
        print(f"nonsense bank, 200 queries: {time.perf_counter() - start:.2f} s")
        report(connection, vectors, words[: options.queries])


if __name__ == "__main__":
    main()
