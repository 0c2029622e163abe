"""Writing to a library: each call is one transaction, durable when it returns."""

from __future__ import annotations

import errno
import json
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from evenreel.errors import LibraryError, MediaError
from evenreel.features.shards import Shard, read_shard, shard_path, write_shard
from evenreel.library.catalog import (
    damaged,
    delete_clips,
    dump_metadata,
    get_meta,
    loaded_path,
    printable,
    set_meta,
    stored_path,
    transaction,
)
from evenreel.library.confidence import update_null_scores
from evenreel.library.filesystem import FileStamp
from evenreel.library.fulltext import caption_of, index_about, index_clip_text, remove_about, remove_clip_text
from evenreel.library.scan import FoundFile
from evenreel.library.unit import Wanted, merge
from evenreel.library.vectors import ExactVectors
from evenreel.types import Encoder, Metadata

SHARDS = "shards"


def vectors_path(library: Path, meta: Mapping[str, str]) -> Path:
    """The file of the vector matrix that the catalog points to."""
    return library / f"vectors.{meta.get('vectors_generation', '0')}.f16"


def open_vectors(library: Path, meta: Mapping[str, str]) -> ExactVectors | None:
    """The vector matrix of a library, None for a library without vision."""
    return ExactVectors(vectors_path(library, meta), int(meta["dimension"])) if meta.get("dimension") else None


class Store:
    """The writing side of one library; calls may come from several threads.

    Args:
        library: the folder.
        connection: its catalog, opened for writing.
        metadata: what the user says about the files, by path.
    """

    def __init__(self, library: Path, connection: sqlite3.Connection, metadata: Mapping[str, Metadata]) -> None:
        self.library, self.connection = library, connection
        self._metadata = metadata
        self._lock = threading.RLock()

    def done_stages(self, clip_id: str) -> Wanted | None:
        """The stages that are done for a clip, None where the library does not know it."""
        row = self._one("SELECT has_vision, has_text FROM clips WHERE clip_id = ?", clip_id)
        return Wanted(bool(row[0]), bool(row[1])) if row else None

    def read_shard(self, clip_id: str) -> Shard:
        """The stored shard of a clip, checked by its own checksum.

        The catalog's is not asked: a run that was killed between the shard and the catalog leaves a newer shard.
        """
        return read_shard(shard_path(self.library / SHARDS, clip_id))

    def add_clip(self, shard: Shard) -> None:
        """Store a clip with what its shard adds to the stages done before; no file points to it yet."""
        if self.done_stages(shard.clip_id) is not None:
            shard = merge(shard, self.read_shard(shard.clip_id))
        digest = write_shard(self.library / SHARDS, shard)
        with self._lock, transaction(self.connection):
            insert_clip(self.connection, shard, digest)
            if shard.frames is not None:
                self._append_vectors(shard)

    def _append_vectors(self, shard: Shard) -> None:
        meta = get_meta(self.connection)
        vectors = open_vectors(self.library, meta)
        if vectors is None or shard.frames is None:
            raise LibraryError(f"The library {self.library} has no vision; name the model with --model.")
        first = vectors.append(shard.frames.astype(np.float32), at_row=int(meta.get("vectors_end", "0")))
        self.connection.execute(
            "INSERT OR REPLACE INTO vector_rows (clip_id, first_row, count) VALUES (?, ?, ?)",
            (shard.clip_id, first, len(shard.frames)),
        )
        # Rows beyond this end were left by a run that was killed and may be overwritten; rows before it never
        # are, so that a reader with an older view of the catalog stays right.
        set_meta(self.connection, {"vectors_end": str(first + len(shard.frames))})

    def link(self, file: FoundFile, clip_id: str) -> None:
        """Say that a file has the content of a clip."""
        self._put_file(file, "indexed", clip_id, None)

    def set_aside(self, file: FoundFile, error: MediaError) -> None:
        """Remember that a file cannot be used, and why, until it changes."""
        self._put_file(file, "set_aside", None, error)

    def _put_file(self, file: FoundFile, state: str, clip_id: str | None, error: MediaError | None) -> None:
        name = printable(Path(file.path).name)
        metadata = self._metadata.get(file.path, {})
        reason, sentence = (error.reason, str(error)) if error else (None, None)
        with self._lock, transaction(self.connection):
            self.connection.execute(
                "INSERT OR REPLACE INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, reason,"
                " sentence, metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (stored_path(file.path), name, printable(file.root), file.stamp.size, file.stamp.mtime_ns)
                + (file.stamp.ctime_ns, state, clip_id, reason, sentence, dump_metadata(metadata)),
            )
            remove_about(self.connection, stored_path(file.path))
            if state == "indexed":
                index_about(self.connection, stored_path(file.path), name, caption_of(metadata))

    def refresh_stamp(self, path: str, stamp: FileStamp) -> None:
        """A file was touched or moved back, but its content is the same."""
        with self._lock, transaction(self.connection):
            self.connection.execute(
                "UPDATE files SET size = ?, mtime_ns = ?, ctime_ns = ? WHERE path = ?",
                (stamp.size, stamp.mtime_ns, stamp.ctime_ns, stored_path(path)),
            )

    def mark_missing(self, paths: Iterable[str]) -> None:
        """Files that are gone stay in the catalog, out of the results, and come back without work."""
        with self._lock, transaction(self.connection):
            for path in paths:
                self.connection.execute("UPDATE files SET state = 'missing' WHERE path = ?", (stored_path(path),))
                remove_about(self.connection, stored_path(path))

    def update_metadata(self) -> int:
        """Bring the metadata of known files up to date with the tables; returns how many changed."""
        rows = self.connection.execute("SELECT path, name, state, metadata FROM files").fetchall()
        changed = 0
        with self._lock, transaction(self.connection):
            for stored, name, state, old in rows:
                metadata = self._metadata.get(loaded_path(stored))
                if metadata is None or dump_metadata(metadata) == old:
                    continue
                changed += 1
                self.connection.execute(
                    "UPDATE files SET metadata = ? WHERE path = ?", (dump_metadata(metadata), stored)
                )
                if state == "indexed":
                    remove_about(self.connection, stored)
                    index_about(self.connection, stored, name, caption_of(metadata))
        return changed

    def begin(self, roots: Iterable[str], meta: Mapping[str, str]) -> None:
        """Note the folders of a run and what the library is made with."""
        with self._lock, transaction(self.connection):
            self.connection.executemany(
                "INSERT OR IGNORE INTO roots (path) VALUES (?)", [(stored_path(root),) for root in roots]
            )
            set_meta(self.connection, meta)

    def update_null_scores(self, encoder: Encoder) -> None:
        """Measure how nonsense scores in the library as it stands."""
        vectors = open_vectors(self.library, get_meta(self.connection))
        if vectors is not None:
            with self._lock, transaction(self.connection):
                update_null_scores(self.connection, vectors, encoder)

    def drop_orphans(self, candidates: Iterable[str]) -> int:
        """Delete those of the clips that no file has any more, because it was edited; returns how many."""
        with self._lock, transaction(self.connection):
            held = {row[0] for row in self.connection.execute("SELECT DISTINCT clip_id FROM files")}
            orphans = [clip_id for clip_id in candidates if clip_id not in held]
            delete_clips(self.connection, orphans)
        for clip_id in orphans:
            shard_path(self.library / SHARDS, clip_id).unlink(missing_ok=True)
        return len(orphans)

    def _one(self, query: str, value: str) -> tuple[int | str, ...] | None:
        with self._lock:
            row: tuple[int | str, ...] | None = self.connection.execute(query, (value,)).fetchone()
            return row


def insert_clip(connection: sqlite3.Connection, shard: Shard, digest: str) -> None:
    """Put everything that a shard says of its clip into the catalog, in place of what was there."""
    info = shard.info
    remove_clip_text(connection, shard.clip_id)
    connection.execute(
        "INSERT INTO clips (clip_id, container, codec, width, height, duration_s, fps, has_vision, has_text, notes,"
        " shard_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (clip_id) DO UPDATE SET"
        " has_vision = excluded.has_vision, has_text = excluded.has_text, notes = excluded.notes,"
        " shard_hash = excluded.shard_hash",
        (shard.clip_id, info.container, info.codec, info.width, info.height, _length(shard), info.fps)
        + (shard.frames is not None, shard.tracks is not None, json.dumps(info.notes), digest),
    )
    for table in ("moments", "tracks"):
        connection.execute(f"DELETE FROM {table} WHERE clip_id = ?", (shard.clip_id,))
    connection.executemany(
        "INSERT INTO moments (clip_id, number, time_s, start_s, end_s) VALUES (?, ?, ?, ?, ?)",
        [
            (shard.clip_id, number, float(time_s), float(start_s), float(end_s))
            for number, (time_s, (start_s, end_s)) in enumerate(zip(shard.times_s, shard.spans_s, strict=True))
        ],
    )
    connection.executemany(
        "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                shard.clip_id,
                number,
                track.text,
                json.dumps([track.text, *_others(track.text, track.readings)]),
            )
            + (track.confidence, track.start_s, track.end_s, json.dumps(track.box))
            for number, track in enumerate(shard.tracks or ())
        ],
    )
    index_clip_text(connection, shard.clip_id)


def _others(text: str, readings: tuple[str, ...]) -> list[str]:
    return [reading for reading in readings if reading != text]


def _length(shard: Shard) -> float:
    return float(shard.info.duration_s if shard.info.duration_s is not None else shard.spans_s[-1, 1])


def closing_error(library: Path, error: sqlite3.Error | OSError) -> LibraryError:
    """The sentence for a database or a disk that fails in the middle of writing."""
    full = isinstance(error, sqlite3.OperationalError) and "full" in str(error)
    if full or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        return LibraryError(
            f"The disk of {library} is full; what was indexed so far is safe and searchable: free some space and run "
            "the same command again."
        )
    if isinstance(error, OSError):
        return LibraryError(f"The library {library} cannot be written: {error.strerror or error}.")
    if isinstance(error, sqlite3.OperationalError):  # locked, read-only, an I/O error: the data are not to blame
        return LibraryError(f"The catalog of {library} cannot be written: {error}.")
    return damaged(library, error)
