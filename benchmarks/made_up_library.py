"""Library of made-up clips of any size, for benchmarks: catalog, full text, vectors and nonsense.

Clips have 12 frames that look alike and three signs of three words out of 20,000, all equally frequent; their files
are named after two of these words, and have metadata by which filters keep 50, 1 and 0.1 % of them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from evenreel.library.store.catalog import CATALOG, open_for_repair, open_for_writing, set_meta, transaction
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import ExactVectors, update_null_scores
from evenreel.library.store.writer import open_vectors
from evenreel.types import Encoder, FloatArray, Pixels, TextEmbedding, WindowRule

FRAMES, DIMENSION, SIGNS, WORDS = 12, 512, 3, 20_000
APART = 0.5
"""Length of what a frame adds to its clip's direction, of length 1."""
FILTERS = {0.5: "source = 'a'", 0.01: "shelf = 7", 0.001: "box = 7"}
"""Share of the clips -> a filter that keeps so many."""


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
        return [False] * len(captions)

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        raise NotImplementedError("the benchmark has vectors, not pictures")


def unit_rows(generator: np.random.Generator, rows: int, dimension: int = DIMENSION) -> FloatArray:
    """Random directions (rows, D)."""
    values = generator.standard_normal((rows, dimension), np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def meta_of(encoder: Encoder, model: str = "random") -> dict[str, str]:
    ids = {"encoder_id": encoder.encoder_id, "weights_hash": encoder.weights_hash, "dimension": str(encoder.dimension)}
    return {"model": model, "asked_model": model, **ids, "rule": "every 1 s", "vectors_generation": "0"}


def made_up_words() -> list[str]:
    """Words of 3 to 11 letters, about as English spreads its letters."""
    generator = np.random.default_rng(0)
    letters = np.array(list("aaabcdeeefghiiijklmnnooprrssttuuvwyz"))
    return ["".join(generator.choice(letters, generator.integers(3, 12))) for _ in range(WORDS)]


def clip_id_of(number: int) -> str:
    """The id of a clip: a digest, as that of a file's content is."""
    return hashlib.blake2b(b"%d" % number, digest_size=16).hexdigest()


def build(folder: Path, clips: int, encoder: Encoder | None = None, model: str = "random") -> None:
    """Build a library of random directions, for an encoder whose sentences they are compared with; tell the time."""
    chosen: Encoder = encoder or RandomEncoder()
    meta = meta_of(chosen, model)
    open_for_writing(folder).close()
    connection = open_for_repair(folder, CATALOG)
    connection.execute("PRAGMA synchronous = OFF")
    steps = {
        "rows": lambda: _rows(connection, clips, meta),
        "full text": lambda: rebuild_full_text(connection),
        "vectors": lambda: _vectors(folder, clips, meta),
        "nonsense": lambda: update_null_scores(connection, vectors_of(folder, meta), chosen),
    }
    for name, step in steps.items():
        start = time.perf_counter()
        with transaction(connection):
            step()
        print(f"  {name:<12}{time.perf_counter() - start:8.1f} s", flush=True)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _rows(connection: sqlite3.Connection, clips: int, meta: dict[str, str]) -> None:
    """The rows of all tables that are not derived, in the order of their keys, which is the fastest."""
    set_meta(connection, meta | {"vectors_end": str(clips * FRAMES)})
    numbers = sorted(range(clips), key=clip_id_of)
    signs = np.random.default_rng(1).integers(0, WORDS, (clips, SIGNS, 3))
    words = np.array(made_up_words())

    def sign(number: int, place: int) -> str:
        return " ".join(words[signs[number, place]]).upper()

    def insert(into: str, rows: Iterable[tuple[object, ...]]) -> None:
        connection.executemany(f"INSERT INTO {into}", rows)

    ids = {number: clip_id_of(number) for number in numbers}
    insert("clips VALUES (?, 'mp4', 'h264', 640, 360, 12, 25, 1, 1, '[]', '')", ((one,) for one in ids.values()))
    insert(
        "files VALUES (?, ?, '/', 1, 1, 1, 'indexed', ?, NULL, NULL, ?)",
        (_file(number, words[signs[number, 0, :2]].tolist()) for number in range(clips)),
    )
    insert("vector_rows VALUES (?, ?, ?)", ((one, number * FRAMES, FRAMES) for number, one in ids.items()))
    moments = ((one, frame, frame + 0.5, frame, frame + 1) for one in ids.values() for frame in range(FRAMES))
    insert("moments VALUES (?, ?, ?, ?, ?)", moments)
    insert(
        "tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
        " VALUES (?, ?, ?, ?, 0.9, ?, ?, '[0, 0, 1, 1]')",
        (
            (one, place, text := sign(number, place), json.dumps([text]), place, place + 1)
            for number, one in ids.items()
            for place in range(SIGNS)
        ),
    )


def _file(number: int, words: Sequence[str]) -> tuple[object, ...]:
    name = f"{'_'.join(words)}_{number}.mp4"
    metadata = {"box": number % 1000, "shelf": number % 100, "source": "ab"[number % 2]}
    return f"/videos/{number // 1000:06d}/{number % 1000:03d}/{name}", name, clip_id_of(number), json.dumps(metadata)


def frames_of(clips: FloatArray, generator: np.random.Generator) -> FloatArray:
    """The frames (C x FRAMES, D) of clips with these directions (C, D)."""
    near = np.repeat(clips, FRAMES, axis=0) + APART * unit_rows(generator, len(clips) * FRAMES, clips.shape[1])
    return np.asarray(near / np.linalg.norm(near, axis=1, keepdims=True), np.float32)


def vectors_of(folder: Path, meta: dict[str, str]) -> ExactVectors:
    vectors = open_vectors(folder, meta)
    assert vectors is not None
    return vectors


def _vectors(folder: Path, clips: int, meta: dict[str, str]) -> None:
    vectors, generator, dimension = vectors_of(folder, meta), np.random.default_rng(2), int(meta["dimension"])
    for start in range(0, clips, 2_000):
        vectors.append(frames_of(unit_rows(generator, min(2_000, clips - start), dimension), generator))
