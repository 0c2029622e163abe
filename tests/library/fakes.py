"""A catalog in memory and an encoder without a model: a caption is the mean of its words' random directions."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from evenreel.library.search import words
from evenreel.library.search.query import Query, UnfinishedText, as_sentence, readable
from evenreel.library.search.result import Channel, SearchResult, TextHit
from evenreel.library.search.searcher import Searcher
from evenreel.library.search.snapshot import SnapshotReader
from evenreel.library.store.catalog import create_schema, open_for_writing, set_meta
from evenreel.library.store.fulltext import note_clips, rebuild_full_text
from evenreel.library.store.vectors import ExactVectors, update_null_scores
from evenreel.types import FloatArray, Pixels, TextEmbedding, WindowRule

SUBJECTS = ["red bus", "dog beach", "snow mountain", "guitar concert", "pancake kitchen", "blue boat"]
DIMENSION = 64
TOKEN_LIMIT = 77


@cache
def direction(word: str) -> FloatArray:
    """A unit vector that only this word has."""
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    values = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return values / np.linalg.norm(values)


@cache
def encode(caption: str) -> FloatArray:
    mean = np.sum([direction(word) for word in caption.lower().split()[:TOKEN_LIMIT]], axis=0)
    vector = np.asarray(mean / np.linalg.norm(mean), np.float32)
    vector.flags.writeable = False  # all who ask for the caption share it
    return vector


class WordsEncoder:
    """Frames of a clip about 'red bus' are encoded as the caption 'red bus' would be."""

    encoder_id = "words"
    dimension = DIMENSION
    window = WindowRule()

    def __init__(self, weights_hash: str = "words-1") -> None:
        self.weights_hash = weights_hash
        self.captions_encoded = 0

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        self.captions_encoded += len(captions)
        sentence = np.stack([encode(caption) for caption in captions])
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)

    def truncated(self, captions: Sequence[str]) -> list[bool]:
        return [len(caption.split()) > TOKEN_LIMIT for caption in captions]

    def encode_windows(self, pixels: Pixels) -> FloatArray:
        raise NotImplementedError("the tests give vectors, not pixels")


def empty_catalog() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA foreign_keys = ON")
    create_schema(connection)
    return connection


class Library:
    """A small library: add clips by what is seen in each frame (one a second) and what is written."""

    def __init__(self, folder: Path, connection: sqlite3.Connection | None = None) -> None:
        self.connection = connection or empty_catalog()
        self.vectors = ExactVectors(folder / "vectors.0.f16", DIMENSION)
        self.encoder = WordsEncoder()

    def add_clip(self, clip_id: str, seen: Sequence[str] = (), duration_s: float = 10.0) -> None:
        self.connection.execute(
            "INSERT INTO clips VALUES (?, 'mp4', 'h264', 640, 360, ?, 25.0, ?, 1, '[]', 'hash')",
            (clip_id, duration_s, bool(seen)),
        )
        if seen:
            first = self.vectors.append(np.stack([encode(caption) for caption in seen]))
            self.connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (clip_id, first, len(seen)))
        note_clips(self.connection, [clip_id])
        self.connection.executemany(
            "INSERT INTO moments VALUES (?, ?, ?, ?, ?)",
            [(clip_id, number, number + 0.5, float(number), number + 1.0) for number in range(len(seen))],
        )

    def add_track(
        self, clip_id: str, *readings: str, start_s: float = 0.0, end_s: float | None = None, confidence: float = 1.0
    ) -> None:
        number = self.connection.execute("SELECT count(*) FROM tracks WHERE clip_id = ?", (clip_id,)).fetchone()[0]
        self.connection.execute(
            "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, '[0, 0, 1, 1]')",
            (clip_id, number, readings[0], json.dumps(readings), confidence, start_s, end_s or start_s + 1.0),
        )

    def add_file(
        self, path: str | bytes, clip_id: str | None, metadata: dict[str, object] | None = None, state: str = "indexed"
    ) -> None:
        name = (path if isinstance(path, str) else path.decode("utf-8", "replace")).rpartition("/")[2]
        self.connection.execute(
            "INSERT INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, metadata)"
            " VALUES (?, ?, '/', 1, 1, 1, ?, ?, ?)",
            (path, name, state, clip_id, json.dumps(metadata or {}, ensure_ascii=False)),
        )


def on_disk(folder: Path) -> Library:
    """One that `evenreel.open_library` opens."""
    made = Library(folder, open_for_writing(folder))
    meta = {"model": "words", "encoder_id": "words", "weights_hash": "words-1", "dimension": str(DIMENSION)}
    set_meta(made.connection, meta)
    return made


def finish(library: Library) -> Searcher:
    """What a library derives, and a searcher of it."""
    rebuild_full_text(library.connection)
    update_null_scores(library.connection, library.vectors, library.encoder)
    return Searcher(library.connection, lambda _: library.vectors, lambda: library.encoder)


class TextMatch(NamedTuple):
    """A clip that a channel of words finds, with its score and coverage, and the texts that are shown."""

    clip_id: str
    score: float
    coverage: float
    hits: tuple[TextHit, ...]


def word_hits(
    connection: sqlite3.Connection,
    channel: Channel,
    text: str,
    allowed: Collection[str] | None = None,
    *,
    typing: bool = False,
    exact: bool = False,
    shown: int = 1_000,
) -> list[TextMatch]:
    """What a channel of words finds, of equal scores by the clips' ids; the texts of so many of them."""
    query = Query(f'"{text}"' if exact else UnfinishedText(text) if typing else as_sentence(readable(text)))
    with SnapshotReader(connection, lambda _: None, keeps_model=False).snapshot() as s:
        mask = np.full(len(s.there), allowed is None)  # clips without files, too
        if allowed is not None:
            mask[s.places(list(allowed))] = True
        found = words.score(s, channel, query, mask)
        places = np.flatnonzero(found.coverage > 0)
        ids = dict(zip(places.tolist(), s.ids(places), strict=True))
        places = sorted(places.tolist(), key=lambda place: (-found.scores[place], ids[place]))
        shows = places[:shown] if channel != "about" else ()
        return [
            TextMatch(
                ids[place],
                float(found.scores[place]),
                float(found.coverage[place]),
                tuple(words.read_texts(s, found, found.best_texts(place))) if place in shows else (),
            )
            for place in places
        ]


def spelt(written: Iterable[str], run: Sequence[str], channel: Channel = "on_screen") -> dict[str, float]:
    """How a run of words may be spelt among words that are written."""
    known = words.Vocabulary(words.SOURCES[channel])
    connection = empty_catalog()
    connection.executemany(
        f"INSERT INTO {known.source.kind.vocabulary} VALUES (?, 1, 1)", [(word,) for word in set(written)]
    )
    known.refresh(connection)
    return known.spellings(tuple(run))


def paths(result: SearchResult) -> list[str]:
    """Paths of the hits in their order."""
    return [hit.path for hit in result.hits]
