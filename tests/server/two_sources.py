"""A served library with enough clips of two sources: generated ones look more like captions, those of a camera less."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

from evenreel.encoders import load_encoder
from evenreel.library.store.catalog import get_meta, open_for_writing, transaction
from evenreel.library.store.confidence import update_null_scores
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import VectorIndex
from evenreel.library.store.writer import open_vectors
from evenreel.types import FloatArray

from .conftest import SCENES, Served

PAIRS = 24
TOWARDS_CAPTIONS = {"camera": -0.4, "generator_a": 0.4}
CAPTIONS = ("a red star on a beach", "a blue heart", "a green cross in a city", "an orange circle", "a large shape")
QUERY = "a heart"
COLUMNS = {"clips": "container, codec, width, height, duration_s, fps, has_vision, has_text, notes, shard_hash"} | {
    "moments": "number, time_s, start_s, end_s"
}


def two_sources(served: Served, folder: Path) -> Path:
    """The served library with copies of its clips from a camera, and a mirror of each; nothing is decoded."""
    library, videos = folder / "library", folder.resolve() / "videos"
    shutil.copytree(served.library, library)
    videos.mkdir()
    encoder = load_encoder("builtin")
    towards = encoder.encode_text(CAPTIONS).sentence.mean(0)
    towards /= np.linalg.norm(towards)
    with closing(open_for_writing(library)) as connection, transaction(connection):
        vectors = open_vectors(library, get_meta(connection))
        assert vectors is not None
        connection.execute("INSERT INTO roots VALUES (?)", (str(videos),))
        made: list[tuple[str, FloatArray]] = []
        for number in range(PAIRS):
            name = list(SCENES)[number % len(SCENES)]
            original, frames = _original(connection, vectors, name)
            for source, share in TOWARDS_CAPTIONS.items():
                path = videos / f"{source}_{number:02}.mp4"
                shutil.copyfile(served.videos / name, path)
                moved = frames + share * towards + np.random.default_rng(number).normal(0, 0.02, frames.shape)
                moved /= np.linalg.norm(moved, axis=1, keepdims=True)
                made.append((_copied(connection, original, path), moved.astype(np.float32)))
                pair = {} if source == "camera" else {"pair_id": f"camera_{number:02}"}
                _add_file(connection, path, made[-1][0], {"source": source} | pair)
        first = vectors.append(np.concatenate([moved for _, moved in made]))
        for clip_id, moved in made:
            connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (clip_id, first, len(moved)))
            first += len(moved)
        rebuild_full_text(connection)
        update_null_scores(connection, vectors, encoder)
    return library


def _original(connection: sqlite3.Connection, vectors: VectorIndex, name: str) -> tuple[str, FloatArray]:
    clip_id, first_row, count = connection.execute(
        "SELECT clip_id, first_row, count FROM files JOIN vector_rows USING (clip_id) WHERE name = ?", (name,)
    ).fetchone()
    return clip_id, vectors.read(first_row, count).astype(np.float32)


def _copied(connection: sqlite3.Connection, original: str, path: Path) -> str:
    clip_id = hashlib.sha256(path.name.encode()).hexdigest()[:32]
    for table, columns in COLUMNS.items():
        connection.execute(
            f"INSERT INTO {table} (clip_id, {columns}) SELECT ?, {columns} FROM {table} WHERE clip_id = ?",
            (clip_id, original),
        )
    return clip_id


def _add_file(connection: sqlite3.Connection, path: Path, clip_id: str, metadata: dict[str, str]) -> None:
    found = path.stat()
    times = found.st_size, found.st_mtime_ns, found.st_ctime_ns
    connection.execute(
        "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, metadata)"
        " VALUES (?, ?, ?, ?, ?, ?, 'indexed', ?, ?)",
        (str(path), path.name, str(path.parent), *times, clip_id, json.dumps(metadata)),
    )
