"""Writer of a library: each call is one transaction, durable when it returns."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import re
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from evenreel.files import printable
from evenreel.library.store.catalog import (
    SHARDS,
    STILLS,
    damaged,
    dump_metadata,
    get_meta,
    load_metadata,
    loaded_path,
    set_meta,
    stored_path,
    tables,
    transaction,
)
from evenreel.library.store.fulltext import (
    SAID,
    caption_of,
    index_about,
    index_clip_text,
    index_texts,
    note_clips,
    remove_about,
    remove_clip_text,
    remove_texts,
)
from evenreel.library.store.vectors import (
    FRAMES,
    MATRICES,
    SOUNDS,
    ExactVectors,
    Matrix,
    null_scores_hold,
    update_null_scores,
)
from evenreel.media.workers import FileStamp
from evenreel.speech.subtitles import SpokenWord, Transcript, Utterance, said_once
from evenreel.types import Metadata, TextEncoder

_MOVED = (
    "SELECT gone.path, gone.metadata, here.path, here.metadata FROM files AS gone"
    " JOIN files AS here USING (clip_id) WHERE gone.state = 'missing' AND here.state = 'indexed'"
    " ORDER BY gone.path, here.metadata != '{}', here.path"
)
UNSETTLED = "transcripts_unsettled"
"""Entry of `meta` with the clip whose shard is just getting other transcripts or sounds, which the catalog may not have
yet."""

_VECTORS = re.compile(rf"(?:{'|'.join(of.file for of in MATRICES)})\.[0-9]+\.f16")

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class FoundFile:
    path: str  # absolute
    root: str  # folder that was asked for and that it was found in
    stamp: FileStamp
    error: MediaError | None = None  # why it cannot be looked at
    clip_id: str | None = None  # the content that it is known to have


def vectors_path(library: Path, meta: Mapping[str, str], of: Matrix = FRAMES) -> Path:
    return library / f"{of.file}.{of.own(meta).get('vectors_generation', '0')}.f16"


def vectors_files(library: Path) -> list[Path]:
    """List every vector matrix of a library, of any generation; files without a number in their name are left out."""
    return sorted(path for path in library.glob("*.f16") if _VECTORS.fullmatch(path.name))


def drop_vectors(library: Path, generation: str) -> None:
    for of in MATRICES:
        (library / f"{of.file}.{generation}.f16").unlink(missing_ok=True)


def next_generation(library: Path, meta: Mapping[str, str]) -> str:
    """Return a number that no matrix has had: a reader may still look for one of an older catalog."""
    used = [path.name.split(".")[1] for path in vectors_files(library)]
    used += [of.own(meta).get("vectors_generation", "0") for of in MATRICES]
    return str(1 + max(int(number) for number in used if len(number) <= 18))


def open_vectors(library: Path, meta: Mapping[str, str], of: Matrix = FRAMES) -> ExactVectors | None:
    """Open a vector matrix of a library; None for one without that."""
    dimension = of.own(meta).get("dimension")
    return ExactVectors(vectors_path(library, meta, of), int(dimension)) if dimension else None


class Store:
    """Writer of one library; calls may come from several threads."""

    def __init__(self, library: Path, connection: sqlite3.Connection, metadata: Mapping[str, Metadata]) -> None:
        self.library, self.connection = library, connection
        self._metadata = metadata
        self._lock = threading.RLock()
        self._new: set[str] = set()  # paths that no run before has seen
        self.new_roots: Sequence[str] = ()  # folders that count once a file of theirs is here

    def done_stages(self, clip_id: str) -> WantedStages | None:
        """Return the stages done for a clip, None where it is unknown or has no whole shard."""
        with self._lock:
            row = self.connection.execute(
                "SELECT has_vision, has_text FROM clips WHERE clip_id = ?", (clip_id,)
            ).fetchone()
        return WantedStages(bool(row[0]), bool(row[1])) if row and self.stored_shard(clip_id) else None

    def stored_shard(self, clip_id: str) -> Shard | None:
        """The shard of a clip, None where it is gone or damaged.

        By its own checksum, not the catalog's: a run that was killed between the two leaves a newer shard.
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
        with self._lock:
            known = self.connection.execute("SELECT 1 FROM clips WHERE clip_id = ?", (shard.clip_id,)).fetchone()
        stored = self.stored_shard(shard.clip_id) if known else None
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
        """Store what a clip sounds like; nothing where its shard is gone, as the video is then read anew."""
        stored = self.stored_shard(clip_id)
        if stored is None:
            return
        heard = replace(stored, sounds=sounds)
        with self._lock, _rewritten(self.library, self.connection, heard, "heard", SOUNDS.moments, SOUNDS.rows):
            put_rows(self.connection, clip_id, sound_rows(clip_id, sounds))
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
        with self._lock, transaction(self.connection):
            self._put_file(file, "indexed", file.clip_id, None)

    def set_aside(self, file: FoundFile, error: MediaError) -> None:
        """Record that a file cannot be used, and why, until it changes.

        Results of its content are kept: it stays searchable where a further stage failed, and may be readable again.
        """
        with self._lock:
            (known,) = self.connection.execute(
                "SELECT max(clip_id) FROM files WHERE path = ?", (stored_path(file.path),)
            ).fetchone()
        if known is not None and file.clip_id == known:
            return
        kept = known if file.clip_id is None or error.reason in TRANSIENT else None
        with self._lock, transaction(self.connection):
            self._put_file(file, "set_aside", kept, error)

    def _put_file(self, file: FoundFile, state: str, clip_id: str | None, error: MediaError | None) -> None:
        """Put the row of a file, inside the caller's transaction; the clip that it had before is to be dropped."""
        path, name = stored_path(file.path), printable(Path(file.path).name)
        row = self.connection.execute("SELECT clip_id, metadata FROM files WHERE path = ?", (path,)).fetchone()
        old_clip, old_metadata = row or (None, "{}")
        if row is None:
            self._new.add(file.path)
        if old_clip not in {None, clip_id}:
            self._note_unsettled(old_clip)
        given = self._metadata.get(file.path)
        metadata = load_metadata(old_metadata) if given is None else given
        reason, sentence = (error.reason, printable(str(error))) if error else (None, None)
        self.connection.execute(
            "INSERT OR REPLACE INTO files (path, name, root, size, mtime_ns, ctime_ns, state, clip_id, reason,"
            " sentence, metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (path, name, printable(file.root), file.stamp.size, file.stamp.mtime_ns, file.stamp.ctime_ns)
            + (state, clip_id, reason, sentence, dump_metadata(metadata)),
        )
        if state == "indexed":
            if file.root in self.new_roots:
                self.connection.execute("INSERT OR IGNORE INTO roots (path) VALUES (?)", (stored_path(file.root),))
            index_about(self.connection, path, caption_of(metadata))
        else:
            remove_about(self.connection, path)

    def mark_missing(self, paths: Iterable[str]) -> None:
        """Mark files that are gone; they stay in the catalog, and need no new work when they come back."""
        with self._lock, transaction(self.connection):
            for path in paths:
                self.connection.execute("UPDATE files SET state = 'missing' WHERE path = ?", (stored_path(path),))
                remove_about(self.connection, stored_path(path))

    def forget_moved(self) -> set[str]:
        """Delete the files that are gone where another has their content, which gets their metadata; return them.

        Where that has metadata of its own and was known before, it is a further copy, and the missing file is kept.
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
                    index_about(self.connection, stored, caption_of(metadata))
        return changed

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Give the catalog to change in one transaction, while no other thread does."""
        with self._lock, transaction(self.connection):
            yield self.connection

    def meta(self) -> dict[str, str]:
        with self._lock:
            return get_meta(self.connection)

    def begin(self, roots: Iterable[str], meta: Mapping[str, str]) -> None:
        with self._lock, transaction(self.connection):
            self.connection.executemany(
                "INSERT OR IGNORE INTO roots (path) VALUES (?)", [(stored_path(root),) for root in roots]
            )
            set_meta(self.connection, meta)

    def untie(self) -> None:
        """Have a library without a clip take any model: one that a run ended before its first clip was read tied."""
        with self._lock, transaction(self.connection):
            if self.connection.execute("SELECT 1 FROM clips LIMIT 1").fetchone() is None:
                names = ("model", "asked_model", "encoder_id", "weights_hash", "dimension", "vectors_end", "rule")
                self.connection.executemany("DELETE FROM meta WHERE key = ?", [(name,) for name in names])
                self.connection.execute("DELETE FROM null_scores")

    def begin_matrix(self, of: Matrix, encoder: TextEncoder) -> None:
        """Have the library name a model, in a matrix of its own that begins empty."""
        old = vectors_path(self.library, self.meta(), of)
        tie = {
            "encoder_id": encoder.encoder_id,
            "weights_hash": encoder.weights_hash,
            "dimension": str(encoder.dimension),
            "vectors_generation": next_generation(self.library, self.meta()),
            "vectors_end": "0",
            "null_best": "[]",
            "null_clips": "0",
        }
        with self.changing() as connection:
            drop_rows(connection, of)
            set_meta(connection, of.named(tie))
        old.unlink(missing_ok=True)

    def update_null_scores(self, encoder: TextEncoder | None, of: Matrix = FRAMES) -> None:
        """Score the bank of nonsense queries on the library's present clips, to say which matches are weaker."""
        vectors = open_vectors(self.library, get_meta(self.connection), of)
        if vectors is not None:
            with self._lock, transaction(self.connection):
                update_null_scores(self.connection, vectors, encoder, of)

    def null_scores_hold(self, of: Matrix = FRAMES) -> bool:
        with self._lock:
            return null_scores_hold(self.connection, of)

    def _note_unsettled(self, clip_id: str) -> None:
        """Have the end of a run look whether a file has this clip."""
        self.connection.execute("INSERT OR IGNORE INTO replaced (clip_id) VALUES (?)", (clip_id,))

    def drop_replaced(self) -> None:
        """Delete the noted clips that no file has.

        At the end of a run: a later file may have the old content. A clip loses its rows, then its shard, then the
        note, so that the run after one that is killed finds the note again.
        """
        with self._lock:
            with transaction(self.connection):
                noted = self.connection.execute(
                    "SELECT clip_id FROM replaced"
                    " WHERE clip_id NOT IN (SELECT clip_id FROM files WHERE clip_id IS NOT NULL)"
                )
                gone = [clip_id for (clip_id,) in noted]
                delete_clips(self.connection, gone)
            for clip_id in gone:
                remove_shard(self.library / STILLS, clip_id)
                remove_shard(self.library / SHARDS, clip_id)
            with transaction(self.connection):
                self.connection.execute("DELETE FROM replaced")


def insert_clip(connection: sqlite3.Connection, shard: Shard, digest: str) -> None:
    remove_clip_text(connection, shard.clip_id)
    replace_rows(connection, shard, digest)
    index_clip_text(connection, shard.clip_id)


def delete_clips(connection: sqlite3.Connection, clip_ids: Iterable[str]) -> None:
    """Delete clips with their rows in all tables; files that pointed to them must be gone already."""
    for clip_id in clip_ids:
        remove_clip_text(connection, clip_id)
        for table in (*(of.nulls for of in MATRICES), "clips"):
            connection.execute(f"DELETE FROM {table} WHERE clip_id = ?", (clip_id,))


def drop_rows(connection: sqlite3.Connection, of: Matrix) -> None:
    clips = connection.execute(f"DELETE FROM {of.rows} RETURNING clip_id").fetchall()
    connection.execute(f"DELETE FROM {of.nulls}")
    note_clips(connection, [clip_id for (clip_id,) in clips])


def closing_error(library: Path, error: sqlite3.Error | OSError) -> LibraryError:
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


# Rows that follow from a shard: written from it, and compared with it ------------------------------------------------

FROM_SHARDS = ("clips", "moments", "shots", "tracks", "transcripts", "utterances", "recorded", "heard", "sound_moments")
"""Tables whose rows follow from a shard; but for their numbers, the rows below have the columns of the schema."""

Rows = dict[str, list[tuple[Any, ...]]]


def rows_of(shard: Shard, digest: str) -> Rows:
    """Return the catalog's rows for a shard with this digest, by table, in order."""
    info, clip_id, spans = shard.info, shard.clip_id, shard.spans_s.tolist()
    length_s = info.duration_s  # what the container claims, else where the last frame's stretch ends
    if length_s is None and spans:
        length_s = spans[-1][1]
    clip = (clip_id, info.container, info.codec, info.width, info.height, length_s, info.fps)
    stages = shard.frames is not None, shard.tracks is not None
    edges: list[float] = []  # none where shots were not looked for
    if shard.cuts_s is not None:
        edges = [0.0, *(cut_s for cut_s in shard.cuts_s.tolist() if cut_s < spans[-1][1]), spans[-1][1]]
    tracks = [
        (track, [track.text, *(reading for reading in track.readings if reading != track.text)])
        for track in shard.tracks or ()
    ]
    return {
        "clips": [(*clip, *stages, json.dumps(info.notes), digest)],
        "moments": [
            (clip_id, number, time_s, *span)
            for number, (time_s, span) in enumerate(zip(shard.times_s.tolist(), spans, strict=True))
        ],
        "shots": [(clip_id, number, *shot) for number, shot in enumerate(pairwise(edges))],
        "tracks": [
            (clip_id, number, track.text, json.dumps(readings))
            + (track.confidence, track.start_s, track.end_s, json.dumps(track.box))
            for number, (track, readings) in enumerate(tracks)
        ],
        **speech_rows(clip_id, shard.transcripts or ()),
        "recorded": [(clip_id, info.created)] if info.created else [],
        **sound_rows(clip_id, shard.sounds),
    }


def sound_rows(clip_id: str, sounds: ClipSounds | None) -> Rows:
    spans = [] if sounds is None else sounds.spans_s.tolist()
    return {
        "heard": [] if sounds is None else [(clip_id, sounds.weights_hash, sounds.problem)],
        "sound_moments": [(clip_id, number, start_s, start_s, end_s) for number, (start_s, end_s) in enumerate(spans)],
    }


def speech_rows(clip_id: str, transcripts: Sequence[Transcript]) -> Rows:
    return {
        "transcripts": [
            (clip_id, number, one.source, stored_path(one.origin), one.language)
            + (*(one.stamp or (None, None, None)), one.problem)
            for number, one in enumerate(transcripts)
        ],
        "utterances": [
            (clip_id, number, transcript, one.text, one.start_s, one.end_s)
            + (one.language, one.confidence, one.speaker, json.dumps([astuple(word) for word in one.words]))
            for number, (transcript, one) in enumerate(said_once(transcripts))
        ],
    }


@cache
def _columns(table: str) -> tuple[str, ...]:
    return tuple(name for name, _ in tables()[table] if name not in {"track_id", "utterance_id"})


def stored_rows(connection: sqlite3.Connection, clip_id: str) -> Rows:
    """The rows of a clip in the form of `rows_of`."""
    found = {}
    for table in FROM_SHARDS:
        columns = _columns(table)
        select = f"SELECT {', '.join(columns)} FROM {table} WHERE clip_id = ? ORDER BY {', '.join(columns[:2])}"
        found[table] = connection.execute(select, (clip_id,)).fetchall()
    return found


def replace_rows(connection: sqlite3.Connection, shard: Shard, digest: str) -> None:
    """Replace a clip's rows in the catalog by those of a shard; the caller updates the full text."""
    rows = rows_of(shard, digest)
    # Not `OR REPLACE`: files point to the row, which must not go away in between.
    changes = ", ".join(f"{column} = excluded.{column}" for column in _columns("clips")[1:])
    connection.execute(f"{_insert('clips')} ON CONFLICT (clip_id) DO UPDATE SET {changes}", rows.pop("clips")[0])
    put_rows(connection, shard.clip_id, rows)


def put_rows(connection: sqlite3.Connection, clip_id: str, rows: Rows) -> None:
    """Replace a clip's rows in some tables; the caller updates the full text."""
    for table, of_clip in rows.items():
        connection.execute(f"DELETE FROM {table} WHERE clip_id = ?", (clip_id,))
        connection.executemany(_insert(table), of_clip)


def _insert(table: str) -> str:
    columns = _columns(table)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


# What is said, written to shard and catalog, and read -----------------------------------------------------------------


def put_transcripts(
    library: Path, connection: sqlite3.Connection, shard: Shard, transcripts: Sequence[Transcript]
) -> None:
    with _rewritten(library, connection, replace(shard, transcripts=tuple(transcripts))):
        remove_texts(connection, SAID, shard.clip_id)
        put_rows(connection, shard.clip_id, speech_rows(shard.clip_id, transcripts))
        index_texts(connection, SAID, shard.clip_id)


@contextmanager
def _rewritten(library: Path, connection: sqlite3.Connection, shard: Shard, *emptied: str) -> Iterator[None]:
    """Write the shard of a clip that is known, then change the catalog within the `with`, in one transaction.

    The clip is noted first and some tables emptied, so that `settle_shard` enters the shard of a killed run.
    """
    with transaction(connection):
        set_meta(connection, {UNSETTLED: shard.clip_id})
        for table in emptied:
            connection.execute(f"DELETE FROM {table} WHERE clip_id = ?", (shard.clip_id,))
    digest = write_shard(library / SHARDS, shard)
    with transaction(connection):
        yield
        connection.execute("UPDATE clips SET shard_hash = ? WHERE clip_id = ?", (digest, shard.clip_id))
        connection.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))


def settle_shard(library: Path, connection: sqlite3.Connection) -> None:
    """Enter what a killed run may have written to a shard alone; sounds without rows in the matrix leave the shard."""
    clip_id = get_meta(connection).get(UNSETTLED)
    if clip_id is None:
        return
    path = shard_path(library / SHARDS, clip_id)
    try:
        shard = read_shard(path)
    except DamagedShardError:  # the clip is gone, or will be read anew
        shard = None
    with transaction(connection):
        known = connection.execute("SELECT 1 FROM clips WHERE clip_id = ?", (clip_id,)).fetchone()
        if shard is not None and known:
            if shard.sounds and not connection.execute("SELECT 1 FROM heard WHERE clip_id = ?", (clip_id,)).fetchone():
                write_shard(library / SHARDS, shard := replace(shard, sounds=None))
            insert_clip(connection, shard, hashlib.sha256(path.read_bytes()).hexdigest())
        connection.execute("DELETE FROM meta WHERE key = ?", (UNSETTLED,))


def clip_transcripts(connection: sqlite3.Connection, clip_id: str) -> list[Transcript]:
    said: dict[int, list[Utterance]] = defaultdict(list)
    for transcript, words, text, start_s, end_s, *about in connection.execute(
        "SELECT transcript, words, text, start_s, end_s, source, utterances.language, confidence, speaker"
        " FROM utterances JOIN transcripts USING (clip_id)"
        " WHERE clip_id = ? AND transcripts.number = transcript ORDER BY utterances.number",
        (clip_id,),
    ):
        (source, language, confidence, speaker), spoken = about, tuple(SpokenWord(*word) for word in json.loads(words))
        said[transcript].append(Utterance(text, start_s, end_s, source, language, confidence, speaker, spoken))
    rows = connection.execute(
        "SELECT number, source, origin, language, size, mtime_ns, ctime_ns, problem FROM transcripts"
        " WHERE clip_id = ? ORDER BY number",
        (clip_id,),
    )
    return [
        Transcript(
            source,
            loaded_path(origin),
            tuple(said[number]),
            language,
            None if stamp[0] is None else (stamp[0], stamp[1], stamp[2]),
            problem,
        )
        for number, source, origin, language, *stamp, problem in rows.fetchall()
    ]
