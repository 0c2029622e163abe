"""Libraries that `benchmarks/serve.py` serves: of rendered videos, or of made-up clips of any number.

A made-up clip has 12 frames of random directions that the built-in tower's sentences are compared with, and three
signs of three words out of 20,000, all equally frequent, as in `benchmarks/search.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evenreel.config import IndexSettings
from evenreel.encoders import load_encoder
from evenreel.features.shards import read_shard, shard_path
from evenreel.library import index_folders
from evenreel.library.store import catalog
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import update_null_scores
from evenreel.library.store.writer import FoundFile, Store, open_vectors
from evenreel.media.workers import FileStamp
from evenreel.planted import plan_corpus, write_corpus
from evenreel.planted.plan import PlantedCorpus
from evenreel.types import TextTrack

FRAMES, SIGNS, WORDS = 12, 3, 20_000
INDEX = """
import sys
from pathlib import Path
from benchmarks.serve import add_signs
from evenreel.config import IndexSettings
from evenreel.library import index_folders
from evenreel.planted import plan_corpus
index_folders([Path(sys.argv[1])], Path(sys.argv[2]), IndexSettings(model="builtin", read_text=False))
add_signs(plan_corpus("scene_text", 0.9, clips=int(sys.argv[3])), Path(sys.argv[2]))
"""
"""What indexes rendered videos in another checkout, whose libraries may have another format."""


def planted(clips: int) -> PlantedCorpus:
    """The corpus whose captions are asked, and whose videos are rendered."""
    return plan_corpus("scene_text", 0.9, clips=clips)


def make_library(plan: PlantedCorpus, work: Path) -> Path:
    """Render, index, and write down the words on the signs; what is there already is left as it is."""
    library, videos = work / "library", work / "videos"
    if not (library / catalog.CATALOG).exists():
        if not videos.exists():
            write_corpus(plan, videos)
        index_folders([videos / "clips"], library, IndexSettings(model="builtin", read_text=False))
        add_signs(plan, library)
    return library


def library_of_checkout(checkout: Path, clips: int, work: Path) -> Path:
    """Index the same videos with another checkout's code."""
    library = work / "beside"
    if not (library / catalog.CATALOG).exists():
        places = (str(place.absolute()) for place in (work / "videos" / "clips", library))
        # Python looks for modules where it is started first.
        command, environment = [sys.executable, "-c", INDEX, *places, str(clips)], environment_of(checkout.absolute())
        subprocess.run(command, check=True, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
    return library


def environment_of(checkout: Path | None) -> dict[str, str]:
    """The environment in which Python finds the code of a checkout; None for this one."""
    if checkout is None:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}


def add_signs(plan: PlantedCorpus, library: Path) -> None:
    """What a recogniser without a fault would have read."""
    words = {f"{clip.clip_id}.mp4": [sign.text for sign in clip.scene.signs] for clip in plan.clips}
    connection = catalog.open_for_writing(library)
    store = Store(library, connection, {})
    for path, name, root, clip_id, *times in connection.execute(
        "SELECT path, name, root, clip_id, size, mtime_ns, ctime_ns FROM files WHERE state = 'indexed'"
    ).fetchall():
        shard = read_shard(shard_path(library / catalog.SHARDS, clip_id))
        end_s = float(shard.spans_s[-1, 1])
        tracks = tuple(TextTrack(text, 0.99, 0.0, end_s, (0.0, 0.8, 1.0, 1.0)) for text in words[name])
        file = FoundFile(path, root, FileStamp(*times), clip_id=clip_id)
        store.put_clip(file, replace(shard, frames=None, tracks=tracks, reader_id="planted"))
    connection.close()


def make_up_library(clips: int, work: Path, model: str = "builtin") -> Path:
    """A library of made-up clips for a model; one that is there already is left as it is."""
    library = work / f"made_up_{clips}{'' if model == 'builtin' else f'_{Path(model).name}'}"
    if (library / "whole").exists():
        return library
    library.mkdir(parents=True, exist_ok=True)
    encoder = load_encoder(model)
    meta = dict.fromkeys(("model", "asked_model"), model) | {
        "encoder_id": encoder.encoder_id,
        "weights_hash": encoder.weights_hash,
        "dimension": str(encoder.dimension),
        "rule": "every 1 s",
        "vectors_generation": "0",
        "vectors_end": str(clips * FRAMES),
    }
    vectors, generator = open_vectors(library, meta), np.random.default_rng(2)
    assert vectors is not None
    for start in range(0, clips, 10_000):
        rows = generator.standard_normal((min(10_000, clips - start) * FRAMES, encoder.dimension), np.float32)
        vectors.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    catalog.open_for_writing(library).close()
    connection = catalog.open_for_repair(library, catalog.CATALOG)
    connection.execute("PRAGMA synchronous = OFF")
    with catalog.transaction(connection):
        catalog.set_meta(connection, meta)
        _add_rows(connection, clips)
        rebuild_full_text(connection)
        update_null_scores(connection, vectors, encoder)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    (library / "whole").touch()
    return library


def made_up_words() -> list[str]:
    """Words of 3 to 11 letters, about as English spreads its letters."""
    generator = np.random.default_rng(0)
    letters = np.array(list("aaabcdeeefghiiijklmnnooprrssttuuvwyz"))
    return ["".join(generator.choice(letters, generator.integers(3, 12))) for _ in range(WORDS)]


def _add_rows(connection: sqlite3.Connection, clips: int) -> None:
    """All rows that are not derived; clips are named by digests, as those of files are."""
    ids = [hashlib.blake2b(b"%d" % number, digest_size=16).hexdigest() for number in range(clips)]
    words, signs = np.array(made_up_words()), np.random.default_rng(1).integers(0, WORDS, (clips, SIGNS, 3))

    def add(into: str, rows: Iterable[Sequence[object]]) -> None:
        connection.executemany(f"INSERT INTO {into}", rows)

    add("clips VALUES (?, 'mp4', 'h264', 640, 360, 12, 25, 1, 1, '[]', '')", ((one,) for one in ids))
    add(
        "files VALUES (?, ?, '/videos', 1, 1, 1, 'indexed', ?, NULL, NULL, ?)",
        ((f"/videos/{n}.mp4", f"{n}.mp4", one, json.dumps({"source": "ab"[n % 2]})) for n, one in enumerate(ids)),
    )
    add("vector_rows VALUES (?, ?, ?)", ((one, n * FRAMES, FRAMES) for n, one in enumerate(ids)))
    add("moments VALUES (?, ?, ?, ?, ?)", ((one, n, n + 0.5, n, n + 1) for one in ids for n in range(FRAMES)))
    add(
        "tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
        " VALUES (?, ?, ?, ?, 0.9, ?, ?, '[0, 0, 1, 1]')",
        (
            (one, place, text := " ".join(words[signs[n, place]]).upper(), json.dumps([text]), place, place + 1)
            for n, one in enumerate(ids)
            for place in range(SIGNS)
        ),
    )
