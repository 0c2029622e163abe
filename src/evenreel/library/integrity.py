"""Is a library whole, and how to make it whole again from what is left of it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenreel.errors import LibraryError
from evenreel.features.shards import Shard, read_shard, shard_path
from evenreel.library import catalog
from evenreel.library.fulltext import rebuild_full_text
from evenreel.library.lock import writer_lock
from evenreel.library.store import SHARDS, insert_clip, open_vectors, vectors_path
from evenreel.library.vectors import ExactVectors

log = logging.getLogger("evenreel")

SET_AGAIN = "run: evenreel index FOLDER (it reads the file again)"
RUN_REPAIR = "run: evenreel repair"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a library and what mends it."""

    where: str
    what: str
    remedy: str


def verify(library: Path) -> list[Problem]:
    """Check everything a library holds: database, every shard's checksum, the matrix, the full text.

    Raises:
        LibraryError: there is no library, or it is of another version.
    """
    if not (library / catalog.CATALOG).is_file():
        if not any((library / SHARDS).glob("*/*.safetensors")):
            raise LibraryError(f"There is no library at {library}.")
        return [Problem(catalog.CATALOG, "it is gone, its feature shards are there", RUN_REPAIR)]
    try:
        connection = catalog.open_for_reading(library)
        try:
            return list(_problems(library, connection))
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        return [Problem(catalog.CATALOG, f"SQLite cannot read it ({error})", RUN_REPAIR)]
    except LibraryError as error:
        if isinstance(error.__cause__, sqlite3.DatabaseError):
            return [Problem(catalog.CATALOG, f"SQLite cannot read it ({error.__cause__})", RUN_REPAIR)]
        raise


def _problems(library: Path, connection: sqlite3.Connection) -> Iterator[Problem]:
    for (message,) in connection.execute("PRAGMA integrity_check(5)"):
        if message != "ok":
            yield Problem(catalog.CATALOG, message, RUN_REPAIR)
    yield from _shard_problems(library, connection)
    yield from _text_problems(connection)


def _shard_problems(library: Path, connection: sqlite3.Connection) -> Iterator[Problem]:
    vectors = _matrix(library, connection)
    known = set()
    rows = connection.execute(
        "SELECT clip_id, shard_hash, has_vision, first_row, count FROM clips LEFT JOIN vector_rows USING (clip_id)"
    )
    for clip_id, digest, has_vision, first, count in rows:
        path = shard_path(library / SHARDS, clip_id)
        known.add(path.name)
        try:
            shard = read_shard(path, digest)
        except LibraryError as error:
            yield Problem(f"clip {clip_id}", str(error), f"{RUN_REPAIR}, then {SET_AGAIN}")
            continue
        if not _tables_agree(connection, shard):
            yield Problem(f"clip {clip_id}", "its rows in the catalog are not those of its shard", RUN_REPAIR)
        if has_vision and (vectors is None or first is None or not _rows_agree(vectors, first, count, shard)):
            yield Problem(f"clip {clip_id}", "its rows of the vector matrix are not those of its shard", RUN_REPAIR)
    for path in sorted((library / SHARDS).glob("*/*.safetensors")):
        if path.name not in known:
            yield Problem(path.name, "no clip of the catalog has this shard", RUN_REPAIR)


def _matrix(library: Path, connection: sqlite3.Connection) -> ExactVectors | None:
    try:
        return open_vectors(library, catalog.get_meta(connection))
    except LibraryError:
        return None


def _tables_agree(connection: sqlite3.Connection, shard: Shard) -> bool:
    moments = connection.execute(
        "SELECT time_s, start_s, end_s FROM moments WHERE clip_id = ? ORDER BY number", (shard.clip_id,)
    ).fetchall()
    tracks = connection.execute(
        "SELECT text, confidence, start_s, end_s FROM tracks WHERE clip_id = ? ORDER BY number",
        (shard.clip_id,),
    ).fetchall()
    expected_tracks = [(t.text, t.confidence, t.start_s, t.end_s) for t in shard.tracks or ()]
    expected_moments = [
        (float(time_s), float(start_s), float(end_s))
        for time_s, (start_s, end_s) in zip(shard.times_s, shard.spans_s, strict=True)
    ]
    return moments == expected_moments and tracks == expected_tracks


def _rows_agree(vectors: ExactVectors, first: int, count: int, shard: Shard) -> bool:
    if shard.frames is None or len(shard.frames) != count:
        return False
    try:
        return np.array_equal(vectors.read(first, count), shard.frames)
    except LibraryError:
        return False


def _text_problems(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Compare the full text with one that is built anew, in memory."""
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    try:
        catalog.create_schema(fresh)
        for table, columns in (("clips", "*"), ("tracks", "*"), ("files", "*")):
            rows = connection.execute(f"SELECT {columns} FROM {table}").fetchall()
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                fresh.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        rebuild_full_text(fresh)
        for query, what in (
            ("SELECT rowid, text FROM track_words ORDER BY rowid", "on-screen words"),
            ("SELECT word, tracks FROM vocabulary ORDER BY word", "vocabulary"),
            ("SELECT path, name, caption FROM about ORDER BY path", "file names and captions"),
        ):
            if fresh.execute(query).fetchall() != connection.execute(query).fetchall():
                yield Problem(f"full text of {what}", "it is not that of the catalog's tables", RUN_REPAIR)
    finally:
        fresh.close()


def repair(library: Path, *, drop_missing: bool = False) -> list[str]:
    """Rebuild whatever is derived, from the shards and the catalog; without a catalog, from the shards alone.

    Nothing is decoded again. A clip whose shard is damaged is dropped, and its files are read again by the next
    `evenreel index`.

    Args:
        library: the folder.
        drop_missing: also forget files that were marked missing, and clips that no file has.

    Returns:
        What was done, a sentence each.

    Raises:
        LibraryError: there is nothing to repair from, or another process holds the library.
    """
    if not library.is_dir():
        raise LibraryError(f"There is no library at {library}.")
    with writer_lock(library):
        done = _replace_broken_catalog(library)
        connection = catalog.open_for_writing(library)
        try:
            done += _repair(library, connection, drop_missing)
        finally:
            connection.close()
    return done


def _replace_broken_catalog(library: Path) -> list[str]:
    path = library / catalog.CATALOG
    if not path.exists():
        if not any((library / SHARDS).glob("*/*.safetensors")):
            raise LibraryError(f"There is no library at {library}.")
        return ["the catalog was gone: made a new one (run evenreel index FOLDER to link it to your files)"]
    try:
        connection = catalog.open_for_reading(library)
        connection.execute("SELECT count(*) FROM files, clips, tracks, moments").fetchone()
        broken = [row for (row,) in connection.execute("PRAGMA integrity_check(1)") if row != "ok"]
        connection.close()
    except sqlite3.DatabaseError as error:
        broken = [str(error)]
    except LibraryError as error:
        if not isinstance(error.__cause__, sqlite3.DatabaseError):
            raise
        broken = [str(error.__cause__)]
    if not broken:
        return []
    kept = _put_away(path)
    return [
        f"the catalog was damaged ({broken[0]}): kept it as {kept.name} and made a new one (run evenreel index FOLDER)"
    ]


def _put_away(path: Path) -> Path:
    """Rename a damaged catalog, together with its log, which belongs to it alone."""
    number = 1
    while (kept := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    path.rename(kept)
    for suffix in ("-wal", "-shm"):
        if (log_file := path.with_name(path.name + suffix)).exists():
            log_file.rename(kept.with_name(kept.name + suffix))
    return kept


def _repair(library: Path, connection: sqlite3.Connection, drop_missing: bool) -> list[str]:
    with catalog.transaction(connection):
        done = _forget(library, connection) if drop_missing else []
        lost = _restore_clips(library, connection)
        if lost:
            done.append(f"dropped {lost} clips with damaged shards; {SET_AGAIN}")
        rebuild_full_text(connection)
        old = vectors_path(library, catalog.get_meta(connection))
        rows = rebuild_vectors(library, connection)
    new = vectors_path(library, catalog.get_meta(connection))
    for stale in library.glob("vectors.*.f16"):
        if stale != new:
            stale.unlink(missing_ok=True)
    if old != new:
        done.append(f"rebuilt the vector matrix ({rows} rows)")
    return [*done, "rebuilt the full text"]


def _restore_clips(library: Path, connection: sqlite3.Connection) -> int:
    """Bring the tables of every clip in step with its shard; returns how many clips had to be dropped."""
    lost = []
    known = {clip_id for (clip_id,) in connection.execute("SELECT clip_id FROM clips")}
    on_disk = {path.stem for path in (library / SHARDS).glob("*/*.safetensors")}
    for clip_id in sorted(known | on_disk):
        path = shard_path(library / SHARDS, clip_id)
        try:
            shard = read_shard(path)  # by its own checksum: it may be newer than what the catalog says
        except LibraryError as error:
            log.info("%s", error)
            lost.append(clip_id)
            continue
        _adopt_model(connection, shard)
        insert_clip(connection, shard, _digest(path))
    connection.executemany("DELETE FROM files WHERE clip_id = ?", [(clip_id,) for clip_id in lost])
    catalog.delete_clips(connection, lost)
    for clip_id in lost:
        shard_path(library / SHARDS, clip_id).unlink(missing_ok=True)
    return len(lost)


def _forget(library: Path, connection: sqlite3.Connection) -> list[str]:
    """Forget the files that were marked missing, and every clip that no file has."""
    files = connection.execute("DELETE FROM files WHERE state = 'missing'").rowcount
    clips = connection.execute(
        "SELECT clip_id FROM clips WHERE clip_id NOT IN (SELECT clip_id FROM files WHERE clip_id IS NOT NULL)"
    ).fetchall()
    catalog.delete_clips(connection, [clip_id for (clip_id,) in clips])
    for (clip_id,) in clips:
        shard_path(library / SHARDS, clip_id).unlink(missing_ok=True)
    return [f"forgot {files} missing files and {len(clips)} clips that no file has"]


def _adopt_model(connection: sqlite3.Connection, shard: Shard) -> None:
    """A catalog made anew takes model and sampling rule from the shards."""
    meta = catalog.get_meta(connection)
    if "rule" not in meta:
        catalog.set_meta(connection, {"rule": shard.rule})
    if shard.frames is None or shard.encoder_id is None or shard.weights_hash is None or "weights_hash" in meta:
        return
    catalog.set_meta(
        connection,
        {
            "model": shard.encoder_id,
            "encoder_id": shard.encoder_id,
            "weights_hash": shard.weights_hash,
            "dimension": str(shard.frames.shape[1]),
        },
    )


def _digest(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def rebuild_vectors(library: Path, connection: sqlite3.Connection) -> int:
    """Write the vector matrix anew, from the shards, into a file of the next generation; readers keep the old one.

    Returns:
        Rows written.
    """
    meta = catalog.get_meta(connection)
    if not meta.get("dimension"):
        return 0
    generation = str(int(meta.get("vectors_generation", "0")) + 1)
    path = vectors_path(library, {"vectors_generation": generation})
    path.unlink(missing_ok=True)
    vectors = ExactVectors(path, int(meta["dimension"]))
    connection.execute("DELETE FROM vector_rows")
    end = 0
    for (clip_id,) in connection.execute("SELECT clip_id FROM clips WHERE has_vision ORDER BY clip_id").fetchall():
        frames = read_shard(shard_path(library / SHARDS, clip_id)).frames
        if frames is None:
            raise LibraryError(f"Clip {clip_id} should have frames, its shard has none; {RUN_REPAIR}.")
        first = vectors.append(frames.astype(np.float32), at_row=end)
        end = first + len(frames)
        connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (clip_id, first, len(frames)))
    catalog.set_meta(connection, {"vectors_generation": generation, "vectors_end": str(end)})
    return end
