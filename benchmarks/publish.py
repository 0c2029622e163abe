"""A published snapshot against the library that it was made of: size, time, the same first ten, and recall of indexes.

    python -m benchmarks.publish [--clips 10000] [--queries 1000] [--remote-rows]

Makes a library of 12 frames of 512 dimensions and three signs a clip in a temporary folder, whose frames lie in
clusters and whose queries, as those of a text tower, lie beside them; publishes it to an S3 server on the loopback
address (moto's), opens it, and asks both the same queries in turns, while the snapshot is replaced twice.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.search import DIMENSION, FRAMES, SIGNS, RandomEncoder, unit_rows
from evenreel.library import Library, PublishSettings, publish_library
from evenreel.library.snapshot.following import FollowedLibrary
from evenreel.library.snapshot.holding import SnapshotCache
from evenreel.library.store.catalog import open_for_writing, set_meta, transaction
from evenreel.library.store.confidence import update_null_scores
from evenreel.library.store.filesystem import size_of
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import ExactVectors
from evenreel.types import FloatArray, TextEmbedding

CLUSTERS = 400
WORDS = (
    "tram",
    "harbour",
    "snow",
    "guitar",
    "kitchen",
    "boat",
    "market",
    "river",
    "tunnel",
    "garden",
    "bridge",
    "piano",
)


class TextLikeEncoder(RandomEncoder):
    """Vectors of captions point at a cluster of frames, from a place where no frame is."""

    def __init__(self, centres: FloatArray) -> None:
        self._centres, self._aside = centres, unit_rows(np.random.default_rng(7), 1)[0]

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        """(Q, D) directions between a cluster, noise, and what all texts have in common."""
        found = []
        for text in captions:
            generator = np.random.default_rng(list(text.encode()))
            centre = self._centres[generator.integers(len(self._centres))]
            found.append(0.35 * centre + 0.5 * self._aside + 0.8 * unit_rows(generator, 1)[0])
        sentence = np.stack(found).astype(np.float32)
        sentence /= np.linalg.norm(sentence, axis=1, keepdims=True)
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)


def make_library(folder: Path, clips: int) -> TextLikeEncoder:
    """Write a library as an index run leaves it."""
    draw = np.random.default_rng(0)
    centres = unit_rows(draw, CLUSTERS)
    encoder = TextLikeEncoder(centres)
    connection = open_for_writing(folder)
    vectors = ExactVectors(folder / "vectors.0.f16", DIMENSION)
    ids = [f"{number:032x}" for number in range(clips)]
    for start in range(0, clips, 2_000):
        some = np.repeat(draw.integers(CLUSTERS, size=min(2_000, clips - start)), FRAMES)
        rows = centres[some] + 0.7 * unit_rows(draw, len(some))
        vectors.append((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    with transaction(connection):
        _insert(connection, ids, draw)
        meta = {"model": "random", "encoder_id": "random", "weights_hash": "random", "dimension": str(DIMENSION)}
        set_meta(connection, meta | {"vectors_generation": "0", "vectors_end": str(clips * FRAMES)})
        update_null_scores(connection, vectors, encoder)
        rebuild_full_text(connection)
    connection.close()
    return encoder


def _insert(connection: sqlite3.Connection, ids: list[str], draw: np.random.Generator) -> None:
    clip = "INSERT INTO clips VALUES (?, 'mp4', 'h264', 640, 360, 12.0, 25.0, 1, 1, '[]', 'hash')"
    connection.executemany(clip, [(one,) for one in ids])
    connection.executemany(
        "INSERT INTO vector_rows VALUES (?, ?, ?)", [(one, n * FRAMES, FRAMES) for n, one in enumerate(ids)]
    )
    moments = ((one, n, n + 0.5, float(n), n + 1.0) for one in ids for n in range(FRAMES))
    connection.executemany("INSERT INTO moments VALUES (?, ?, ?, ?, ?)", moments)
    columns = "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
    texts = draw.choice(WORDS, (len(ids) * SIGNS, 2))
    signs = ((one, n, " ".join(texts[place * SIGNS + n])) for place, one in enumerate(ids) for n in range(SIGNS))
    connection.executemany(
        f"{columns} VALUES (?, ?, ?, ?, 1.0, 0.0, 1.0, '[0, 0, 1, 1]')",
        ((one, n, text, json.dumps([text])) for one, n, text in signs),
    )
    columns = "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id)"
    values = "VALUES (?, ?, '/v', 1, 1, 1, 'indexed', ?)"
    connection.executemany(f"{columns} {values}", [(f"/v/{one}.mp4", f"{one}.mp4", one) for one in ids])


@contextmanager
def bucket() -> Iterator[str]:
    """Serve a bucket on the loopback address, which the environment gives the right to."""
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "benchmark", "AWS_SECRET_ACCESS_KEY": "benchmark"}
    s3fs.S3FileSystem().mkdir("published")
    yield "s3://published/films"
    server.stop()


def same_first_ten(own: Any, published: Any) -> bool:
    """Whether two answers have the same clips, apart from those whose score equals that of the last."""
    first, second = ({hit.clip_id: round(hit.score, 5) for hit in found.hits} for found in (own, published))
    last = min(first.values(), default=0.0)
    different = set(first) ^ set(second)
    return all(first.get(one, second.get(one)) == last for one in different) and len(first) == len(second)


def main() -> None:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--remote-rows", action="store_true", help="leave the vectors in the bucket")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, bucket() as url:
        home, cache = Path(place, "library"), SnapshotCache(Path(place, "cache"))
        if asked.remote_rows:
            cache = SnapshotCache(Path(place, "cache"), rows_bytes=0)
        encoder = make_library(home, asked.clips)
        report = publish_library(home, url)
        followed = FollowedLibrary(Path(url), cache, every_s=1.0)
        began = time.perf_counter()
        followed.start()
        opened_s = time.perf_counter() - began
        with Library(followed.folder, encoder=encoder) as library:
            library.search("first", 10)
        first_s = time.perf_counter() - began
        same, at_home_s, published_s, seen = ask(home, followed, encoder, asked.queries, url)
        followed.close()
        figures = {
            "clips": asked.clips,
            "moments": report.moments,
            "library_mb": round(size_of(home) / 1e6, 1),
            "snapshot_mb": round(report.bytes / 1e6, 1),
            "published_s": report.seconds,
            "opened_s": round(opened_s, 2),
            "first_answer_s": round(first_s, 2),
            "same_first_ten": f"{same} of {asked.queries}",
            "snapshots_read": seen,
            "home_ms": round(1000 * float(np.median(at_home_s)), 2),
            "published_ms": round(1000 * float(np.median(published_s)), 2),
            "ratio": round(float(np.median(published_s) / np.median(at_home_s)), 3),
            "indexes": {f"{one.table}.{one.column} {one.kind} {one.how}": one.recall for one in report.indexes[""]},
        }
        print(json.dumps(figures))


def ask(
    home: Path, followed: FollowedLibrary, encoder: TextLikeEncoder, queries: int, url: str
) -> tuple[int, list[float], list[float], int]:
    """Ask both in turns while the snapshot is replaced twice: equal answers, both times, snapshots that were read."""
    settings = PublishSettings(index_from=10**9)
    publisher = threading.Thread(target=lambda: [publish_library(home, url, settings) for _ in range(2)])
    publisher.start()
    same, times, seen, number = 0, ([], []), set(), 0  # type: tuple[int, tuple[list[float], list[float]], set[str], int]
    library, own = Library(followed.folder, encoder=encoder), Library(home, encoder=encoder)
    while number < queries:
        if library.path != followed.folder:
            library.close()
            library = Library(followed.folder, encoder=encoder)
        seen.add(library.path.name)
        text = f"{WORDS[number % len(WORDS)]} {number}" if number % 2 else f"a scene of number {number}"
        found = []
        for place, one in enumerate((own, library)):
            began = time.perf_counter()
            found.append(one.search(text, 10))
            times[place].append(time.perf_counter() - began)
        same += same_first_ten(*found)
        number += 1
        if number == queries // 2:
            publisher.join()  # the other half is asked of what was published last
            followed.look()
    library.close()
    own.close()
    return same, *times, len(seen)


if __name__ == "__main__":
    main()
