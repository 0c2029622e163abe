"""Writer of a library: each call is one transaction, durable when it returns."""

from __future__ import annotations

import errno
import logging
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.documents import whole_number
from evenreel.errors import LibraryError, MediaError
from evenreel.features.clip_reader import WantedStages, merge
from evenreel.features.pool import TRANSIENT
from evenreel.features.shards import (
    ClipSounds,
    DamagedShardError,
    Shard,
    Stills,
    read_shard,
    remove_shard,
    shard_path,
    write_shard,
    write_stills,
)
from evenreel.library.store.catalog import (
    SHARDS,
    STILLS,
    damaged,
    delete_clips,
    dump_metadata,
    get_meta,
    load_metadata,
    loaded_path,
    set_meta,
    stored_path,
    transaction,
)
from evenreel.library.store.confidence import null_scores_hold, update_null_scores
from evenreel.library.store.fulltext import (
    caption_of,
    index_about,
    index_clip_text,
    note_clips,
    remove_about,
    remove_clip_text,
)
from evenreel.library.store.rows import put_rows, replace_rows, sound_rows
from evenreel.library.store.speech import UNSETTLED
from evenreel.library.store.vectors import FRAMES, SOUNDS, ExactVectors, Matrix
from evenreel.media.workers import FileStamp
from evenreel.types import Encoder, Metadata
from evenreel.wording import printable

_MOVED = (
    "SELECT gone.path, gone.metadata, here.path, here.metadata FROM files AS gone"
    " JOIN files AS here USING (clip_id) WHERE gone.state = 'missing' AND here.state = 'indexed'"
    " ORDER BY gone.path, here.metadata != '{}', here.path"
)
_UNSETTLED_WITHOUT_FILE = (
    "SELECT clip_id FROM replaced WHERE clip_id NOT IN (SELECT clip_id FROM files WHERE clip_id IS NOT NULL)"
)

_VECTORS = re.compile(r"(?:vectors|sounds)\.[0-9]+\.f16")

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class FoundFile:
    """File that may be a video."""

    path: str  # absolute
    root: str  # folder that was asked for and that it was found in
    stamp: FileStamp
    error: MediaError | None = None  # why it cannot be looked at
    clip_id: str | None = None  # the content that it is known to have


def vectors_path(library: Path, meta: Mapping[str, str], of: Matrix = FRAMES) -> Path:
    """Return the file of a vector matrix that the catalog points to."""
    return library / f"{of.file}.{of.own(meta).get('vectors_generation', '0')}.f16"


def vectors_files(library: Path) -> list[Path]:
    """List every vector matrix of a library, of any generation; files without a number in their name are left out."""
    return sorted(path for path in library.glob("*.f16") if _VECTORS.fullmatch(path.name))


def drop_vectors(library: Path, generation: str) -> None:
    """Delete the vector matrices of a generation that no catalog points to."""
    for of in (FRAMES, SOUNDS):
        vectors_path(library, of.named({"vectors_generation": generation}), of).unlink(missing_ok=True)


def next_generation(library: Path, meta: Mapping[str, str]) -> str:
    """Return a number that no matrix has had: a reader may still look for one of an older catalog."""
    used = [path.name.split(".")[1] for path in vectors_files(library)]
    used += [of.own(meta).get("vectors_generation", "0") for of in (FRAMES, SOUNDS)]
    return str(1 + max(whole_number(number) or 0 for number in used))


def open_vectors(library: Path, meta: Mapping[str, str], of: Matrix = FRAMES) -> ExactVectors | None:
    """Open a vector matrix of a library; None for a library without vision, or without sounds."""
    dimension = of.own(meta).get("dimension")
    return ExactVectors(vectors_path(library, meta, of), int(dimension)) if dimension else None


class Store:
    """Writer of one library; calls may come from several threads."""

    def __init__(self, library: Path, connection: sqlite3.Connection, metadata: Mapping[str, Metadata]) -> None:
        self.library, self.connection = library, connection
        self._metadata = metadata
        self._lock = threading.RLock()
        self._new: set[str] = set()  # paths that no run before has seen

    def done_stages(self, clip_id: str) -> WantedStages | None:
        """Return the stages done for a clip, None where it is unknown or has no whole shard."""
        row = self._one("SELECT has_vision, has_text FROM clips WHERE clip_id = ?", clip_id)
        if row is None or self._stored_shard(clip_id) is None:
            return None
        return WantedStages(bool(row[0]), bool(row[1]))

    def _stored_shard(self, clip_id: str) -> Shard | None:
        """The shard of a clip, None where it is gone or damaged.

        It is checked by its own checksum and not by the catalog's: a run that was killed between the shard and the
        catalog leaves a newer shard.
        """
        path = shard_path(self.library / SHARDS, clip_id)
        try:
            return read_shard(path, remedy="its video is read anew")
        except DamagedShardError as error:
            if path.exists():
                log.warning("%s", error)
            return None

    def put_clip(self, file: FoundFile, shard: Shard, stills: Stills | bytes | None = None) -> None:
        """Store a file with its clip: what the shard adds to the stages done before, and its stills.

        The clip is noted first, so that the next run drops the shard of a killed run whose file is gone by then.
        """
        known = self._one("SELECT 1 FROM clips WHERE clip_id = ?", shard.clip_id) is not None
        stored = self._stored_shard(shard.clip_id) if known else None
        whole = merge(shard, stored) if stored else shard
        with self._lock, transaction(self.connection):
            self._note_unsettled(shard.clip_id)
        if stills is not None:
            write_stills(self.library / STILLS, shard.clip_id, stills)
        digest = write_shard(self.library / SHARDS, whole)
        with self._lock, transaction(self.connection):
            insert_clip(self.connection, whole, digest)
            if shard.frames is not None:
                self._append(shard.clip_id, shard.frames)
            elif whole.frames is None:  # those of a shard that was lost
                self.connection.execute("DELETE FROM vector_rows WHERE clip_id = ?", (shard.clip_id,))
            if whole.sounds is None:
                self.connection.execute("DELETE FROM sound_rows WHERE clip_id = ?", (shard.clip_id,))
            self._put_file(file, "indexed", shard.clip_id, None)

    def put_sounds(self, clip_id: str, sounds: ClipSounds) -> None:
        """Store what a clip sounds like, in its shard and then in the catalog.

        Nothing of a clip whose shard is gone or damaged: the next run reads its video anew. Where a run is killed
        between the two, the next one listens again (`evenreel.library.store.speech.settle_shard`).
        """
        stored = self._stored_shard(clip_id)
        if stored is None:
            return
        with self._lock, transaction(self.connection):
            set_meta(self.connection, {UNSETTLED: clip_id})
            put_rows(self.connection, clip_id, sound_rows(clip_id, None))
            self.connection.execute("DELETE FROM sound_rows WHERE clip_id = ?", (clip_id,))
        digest = write_shard(self.library / SHARDS, replace(stored, sounds=sounds))
        with self._lock, transaction(self.connection):
            put_rows(self.connection, clip_id, sound_rows(clip_id, sounds))
            self.connection.execute("UPDATE clips SET shard_hash = ? WHERE clip_id = ?", (digest, clip_id))
            self.connection.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))
            if len(sounds.vectors):
                self._append(clip_id, sounds.vectors, SOUNDS)
            note_clips(self.connection, [clip_id])

    def _append(self, clip_id: str, rows: NDArray[np.float16], of: Matrix = FRAMES) -> None:
        meta = get_meta(self.connection)
        vectors = open_vectors(self.library, meta, of)
        if vectors is None:
            raise LibraryError(f"The library {self.library} has no vision; name the model with --model.")
        first = vectors.append(rows.astype(np.float32), at_row=int(of.own(meta).get("vectors_end", "0")))
        self.connection.execute(
            f"INSERT OR REPLACE INTO {of.rows} (clip_id, first_row, count) VALUES (?, ?, ?)",
            (clip_id, first, len(rows)),
        )
        # Rows beyond this end were left by a run that was killed and may be overwritten; rows before it never
        # are, so that a reader with an older view of the catalog stays right.
        set_meta(self.connection, of.named({"vectors_end": str(first + len(rows))}))

    def link(self, file: FoundFile) -> None:
        """Record that a file has the content of a clip that is there."""
        with self._lock, transaction(self.connection):
            self._put_file(file, "indexed", file.clip_id, None)

    def set_aside(self, file: FoundFile, error: MediaError) -> None:
        """Record that a file cannot be used, and why, until it changes.

        Results of its content are kept: where only a further stage failed it stays searchable, and a file that was
        unreadable for a while needs no new work.
        """
        row = self._one("SELECT clip_id FROM files WHERE path = ?", stored_path(file.path))
        known = str(row[0]) if row and row[0] is not None else None
        if known is not None and file.clip_id == known:
            return
        kept = known if file.clip_id is None or error.reason in TRANSIENT else None
        with self._lock, transaction(self.connection):
            self._put_file(file, "set_aside", kept, error)

    def _put_file(self, file: FoundFile, state: str, clip_id: str | None, error: MediaError | None) -> None:
        """Put the row of a file, inside the caller's transaction."""
        name = printable(Path(file.path).name)
        reason, sentence = (error.reason, printable(str(error))) if error else (None, None)
        metadata = self._note_replaced(file.path, clip_id)
        self.connection.execute(
            "INSERT OR REPLACE INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, reason,"
            " sentence, metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (stored_path(file.path), name, printable(file.root), file.stamp.size, file.stamp.mtime_ns)
            + (file.stamp.ctime_ns, state, clip_id, reason, sentence, dump_metadata(metadata)),
        )
        remove_about(self.connection, stored_path(file.path))
        if state == "indexed":
            index_about(self.connection, stored_path(file.path), caption_of(metadata))

    def _note_replaced(self, path: str, clip_id: str | None) -> Metadata:
        """Remember the clip that a file had before, to be dropped; the metadata that the file has from now on."""
        row = self.connection.execute(
            "SELECT clip_id, metadata FROM files WHERE path = ?", (stored_path(path),)
        ).fetchone()
        old_clip, old_metadata = row or (None, "{}")
        if row is None:
            self._new.add(path)
        if old_clip not in {None, clip_id}:
            self._note_unsettled(old_clip)
        given = self._metadata.get(path)
        return given if given is not None else load_metadata(old_metadata)

    def mark_missing(self, paths: Iterable[str]) -> None:
        """Mark files that are gone.

        They stay in the catalog, out of results, and need no new work when they come back.
        """
        with self._lock, transaction(self.connection):
            for path in paths:
                self.connection.execute("UPDATE files SET state = 'missing' WHERE path = ?", (stored_path(path),))
                remove_about(self.connection, stored_path(path))

    def forget_moved(self) -> set[str]:
        """Delete the files that are gone where another file has their content; return their paths.

        Their metadata goes to the other file. Where that has metadata of its own and was known before, it is a further
        copy, and the missing file is kept.
        """
        with self._lock, transaction(self.connection):
            moved: set[str] = set()
            for gone, said, here, own in self.connection.execute(_MOVED).fetchall():
                both_said = "{}" not in {said, own}
                if loaded_path(gone) in moved or (both_said and loaded_path(here) not in self._new):
                    continue
                moved.add(loaded_path(gone))
                self.connection.execute("DELETE FROM files WHERE path = ?", (gone,))
                if own == "{}" and said != "{}":
                    self.connection.execute("UPDATE files SET metadata = ? WHERE path = ?", (said, here))
                    remove_about(self.connection, here)
                    index_about(self.connection, here, caption_of(load_metadata(said)))
        return moved

    def update_metadata(self) -> int:
        """Bring the metadata of known files up to date with the tables; return how many changed."""
        rows = self.connection.execute("SELECT path, state, metadata FROM files").fetchall()
        changed = 0
        with self._lock, transaction(self.connection):
            for stored, state, old in rows:
                metadata = self._metadata.get(loaded_path(stored))
                if metadata is None or dump_metadata(metadata) == old:
                    continue
                changed += 1
                self.connection.execute(
                    "UPDATE files SET metadata = ? WHERE path = ?", (dump_metadata(metadata), stored)
                )
                if state == "indexed":
                    remove_about(self.connection, stored)
                    index_about(self.connection, stored, caption_of(metadata))
        return changed

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Give the catalog to change in one transaction, while no other thread does."""
        with self._lock, transaction(self.connection):
            yield self.connection

    def meta(self) -> dict[str, str]:
        """Return the settings that the library is made with."""
        with self._lock:
            return get_meta(self.connection)

    def begin(self, roots: Iterable[str], meta: Mapping[str, str]) -> None:
        """Record the folders of a run and the settings that the library is made with."""
        with self._lock, transaction(self.connection):
            self.connection.executemany(
                "INSERT OR IGNORE INTO roots (path) VALUES (?)", [(stored_path(root),) for root in roots]
            )
            set_meta(self.connection, meta)

    def update_null_scores(self, encoder: Encoder, of: Matrix = FRAMES) -> None:
        """Score the bank of nonsense queries, which no video answers, on the library's present clips, and store it.

        Searches compare a query's scores with these to say which matches are weaker. A library without
        vectors is left alone.
        """
        vectors = open_vectors(self.library, get_meta(self.connection), of)
        if vectors is not None:
            with self._lock, transaction(self.connection):
                update_null_scores(self.connection, vectors, encoder, of)

    def null_scores_hold(self, of: Matrix = FRAMES) -> bool:
        """Return whether the stored scores of the nonsense queries are of exactly the clips in the library now."""
        with self._lock:
            return null_scores_hold(self.connection, of)

    def _note_unsettled(self, clip_id: str) -> None:
        """Have the end of a run look whether a file has this clip."""
        self.connection.execute("INSERT OR IGNORE INTO replaced (clip_id) VALUES (?)", (clip_id,))

    def drop_replaced(self) -> int:
        """Delete the noted clips that no file has; return how many.

        At the end of a run, since a file that comes later may have the old content. A clip loses its rows, then its
        shard, then the note: a run that is killed in between leaves no row without a shard, and the next one finds the
        note again.
        """
        with self._lock:
            with transaction(self.connection):
                gone = [clip_id for (clip_id,) in self.connection.execute(_UNSETTLED_WITHOUT_FILE)]
                delete_clips(self.connection, gone)
            for clip_id in gone:
                remove_shard(self.library / STILLS, clip_id)
                remove_shard(self.library / SHARDS, clip_id)
            with transaction(self.connection):
                self.connection.execute("DELETE FROM replaced")
        return len(gone)

    def _one(self, query: str, value: str | bytes) -> tuple[int | str, ...] | None:
        with self._lock:
            row: tuple[int | str, ...] | None = self.connection.execute(query, (value,)).fetchone()
            return row


def insert_clip(connection: sqlite3.Connection, shard: Shard, digest: str) -> None:
    """Insert the rows of a shard into the catalog, in place of the clip's former ones."""
    remove_clip_text(connection, shard.clip_id)
    replace_rows(connection, shard, digest)
    index_clip_text(connection, shard.clip_id)


def closing_error(library: Path, error: sqlite3.Error | OSError) -> LibraryError:
    """Make the error for a database or a disk that fails while writing."""
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
