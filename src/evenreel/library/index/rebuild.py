"""One library made anew from what is left of it, or the vectors of one of the models beside its own.

All changes of the catalog are one transaction, and no file is renamed or deleted before it is committed: a
repair that fails, or is killed, leaves the library as it was.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evenreel.documents import whole_number
from evenreel.errors import LibraryError
from evenreel.features.shards import DamagedShardError, is_clip_id, read_shard, shard_files, shard_path
from evenreel.library.index.exchange import finish_exchange
from evenreel.library.index.integrity import SET_AGAIN, broken_metadata, foreign, unreadable_parts
from evenreel.library.store import catalog, seals
from evenreel.library.store.catalog import SHARDS
from evenreel.library.store.confidence import bank_of, measure_nonsense, null_scores_hold
from evenreel.library.store.filesystem import BROKEN, free_name
from evenreel.library.store.fulltext import clear_full_text, fill_full_text
from evenreel.library.store.kept import put_aside_unreadable, write_copy
from evenreel.library.store.kept_stills import drop_useless
from evenreel.library.store.rows import replace_rows
from evenreel.library.store.salvage import Salvaged, salvage
from evenreel.library.store.schema import BOOKKEEPING, tables
from evenreel.library.store.vectors import ExactVectors
from evenreel.library.store.writer import drop_vectors, named_vectors, open_vectors, vectors_files, vectors_path
from evenreel.wording import count

MODEL = ("encoder_id", "weights_hash", "dimension")
"""Entries of `meta` about the model, which every shard with frames repeats."""

REBUILT = f"{catalog.CATALOG}.rebuilt"
"""Name of a new catalog until it is whole."""

log = logging.getLogger("evenreel")


@dataclass
class _Work:
    """What a repair has done inside its transaction, and what is left to do after it."""

    done: list[str] = field(default_factory=list)
    put_aside: set[Path] = field(default_factory=set)
    forgotten: set[Path] = field(default_factory=set)


def rebuild(library: Path, drop_missing: bool) -> list[str]:
    """Repair one library that the caller holds, or vectors beside its own; see `evenreel.library.repair`."""
    damage, known = _damage(library), salvage(library, library / catalog.CATALOG)
    finish_exchange(library, known.settings)
    _remove_catalog(library / REBUILT)
    with closing(catalog.open_for_repair(library, REBUILT if damage else catalog.CATALOG)) as connection:
        work = _restore(library, connection, known, drop_missing)
        derived = named_vectors(library, catalog.get_meta(connection))
    swapped = [_put_in_place(library, damage)] if damage else []
    for path in work.put_aside:
        if path.exists():
            path.replace(path.with_name(path.name + BROKEN))
    for path in (*work.forgotten, *set(vectors_files(library)) - set(derived)):
        path.unlink(missing_ok=True)
    with closing(catalog.open_for_reading(library)) as connection:
        if aside := put_aside_unreadable(library):
            work.done.append(f"wrote a new second copy, as the old one could not be read; kept that as {aside.name}")
        write_copy(library, connection)
        work.done += drop_useless(library, connection)
    return swapped + work.done


def _damage(library: Path) -> str | None:
    """Return what is wrong with the catalog as a file, None where it can be repaired in place."""
    if not (library / catalog.CATALOG).exists():
        if next(shard_files(library / SHARDS), None) is None:
            raise LibraryError(f"There is no library at {library}.")
        return "gone"
    try:
        with closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
            broken = unreadable_parts(library, connection)
    except LibraryError as error:
        if not catalog.is_damage(error.__cause__):
            raise
        return f"damaged ({error.__cause__})"
    return f"damaged ({broken[0]})" if broken else None


def _put_in_place(library: Path, damage: str) -> str:
    """Give the new catalog its name; what was there is kept."""
    path = library / catalog.CATALOG
    kept = free_name(path)
    _move_catalog(path, kept)  # also a log whose catalog is gone: it would be taken for that of the new one
    _move_catalog(library / REBUILT, path)
    as_what = f"kept it as {kept.name} and " if kept.exists() else ""
    return f"the catalog was {damage}: {as_what}made a new one"


def _move_catalog(path: Path, target: Path) -> None:
    """Rename a catalog; its log goes first, so that it never lies beside another catalog."""
    for suffix in ("-wal", "-shm", ""):
        if (part := path.with_name(path.name + suffix)).exists():
            part.rename(target.with_name(target.name + suffix))


def _remove_catalog(path: Path) -> None:
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _restore(library: Path, connection: sqlite3.Connection, known: Salvaged, drop_missing: bool) -> _Work:
    work = _Work()
    generation = next_generation(library, known.settings)
    try:
        with catalog.transaction(connection):
            connection.execute("PRAGMA defer_foreign_keys = ON")
            clear_full_text(connection)
            _empty(connection, known)
            _enter_known(connection, known, work)
            if drop_missing:
                _forget(library, connection, work)
            _empty_damaged_metadata(connection, work)
            _adopt_model(library, connection, known)
            _restore_clips(library, connection, work)
            fill_full_text(connection)
            if (rows := rebuild_vectors(library, connection, generation, library / SHARDS)) is not None:
                work.done.append(f"rebuilt the vector matrix ({rows} rows)")
            _restore_null_scores(library, connection, work)
    except BaseException:
        drop_vectors(library, generation)
        raise
    work.done.append("rebuilt the full text")
    return work


def _empty(connection: sqlite3.Connection, known: Salvaged) -> None:
    """Empty all tables, but the scores of nonsense only where they are not what was written; seal what comes now."""
    measured = "null_scores"
    sound = known.sealed and not seals.broken(connection, (measured,))
    for table in tables().keys() - ({measured} if sound else set()):
        connection.execute(f"DELETE FROM {table}")
    seals.guard(connection)
    catalog.set_meta(connection, {"schema_version": str(catalog.SCHEMA_VERSION), "changes": str(known.changes)})
    seals.renew(connection)


def _enter_known(connection: sqlite3.Connection, known: Salvaged, work: _Work) -> None:
    """Enter what the catalog alone knew; what is in no way possible is left out."""
    for table, rows in known.rows.items():
        for row in rows:
            if table != "meta":
                names, marks = ", ".join(row), ", ".join("?" * len(row))
                with suppress(sqlite3.IntegrityError):
                    connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
    catalog.set_meta(connection, {key: value for key, value in known.settings.items() if key not in BOOKKEEPING})
    if known.restored:
        work.done.append(f"restored {count(known.restored, 'row')} of files and settings from the second copy")
    if known.lost or not known.rows["files"]:
        work.done.append(f"some of what was known about files and settings is lost; {SET_AGAIN}")


def next_generation(library: Path, meta: Mapping[str, str]) -> str:
    """Return a number that no matrix has had: a reader may still look for one of an older catalog."""
    used = [path.name.split(".")[1] for path in vectors_files(library)]
    used.append(meta.get("vectors_generation", "0"))
    return str(1 + max(whole_number(number) or 0 for number in used))


def _forget(library: Path, connection: sqlite3.Connection, work: _Work) -> None:
    """Forget the files that were marked missing, and those of their clips that no other file has.

    Not every clip without a file: in a catalog made anew no clip has one before the next index.
    """
    clips = {row[0] for row in connection.execute("SELECT clip_id FROM files WHERE state = 'missing'")}
    files = connection.execute("DELETE FROM files WHERE state = 'missing'").rowcount
    gone = sorted(clips - {None} - {row[0] for row in connection.execute("SELECT clip_id FROM files")})
    catalog.delete_clips(connection, gone)
    work.forgotten |= {shard_path(library / SHARDS, clip_id) for clip_id in gone}
    work.done.append(f"forgot {files} missing files and {len(gone)} clips that no other file has")


def _empty_damaged_metadata(connection: sqlite3.Connection, work: _Work) -> None:
    paths = broken_metadata(connection)
    connection.executemany("UPDATE files SET metadata = '{}' WHERE path = ?", [(path,) for path in paths])
    if paths:
        work.done.append(f"emptied the metadata of {len(paths)} files, which was damaged; {SET_AGAIN}")


def _adopt_model(library: Path, connection: sqlite3.Connection, known: Salvaged) -> None:
    """Take the sampling rule and the model that most shards have, where nothing else says surely what they are.

    Every shard says what it was made by, so one changed entry of a catalog without seals is outvoted; one that was lost
    from a catalog with seals is the shards' to say.
    """
    meta = catalog.get_meta(connection)
    needed = {"rule", "model", *(MODEL if meta.get("model") else ())}
    if known.sealed and needed <= meta.keys():
        return
    rules, models = _votes(library)
    found = {}
    if rules:
        found["rule"] = max(rules, key=lambda rule: (rules[rule], rule == meta.get("rule")))
        if not models and not meta.keys() & {"model", *MODEL}:
            found["model"] = ""  # words alone
    if known.sealed:  # the entries that are left are what was written
        models = Counter({made: n for made, n in models.items() if all(meta.get(k, v) == v for k, v in made)})
    if models:
        ranked = sorted((n, sum(meta.get(k) == v for k, v in made), made) for made, n in models.items())
        best = dict(ranked[-1][-1])
        found |= best
        if "model" not in meta or any(meta.get(k) != best[k] for k in ("encoder_id", "weights_hash")):
            found["model"] = best["encoder_id"]
    catalog.set_meta(connection, found | meta if known.sealed else found)


def _votes(library: Path) -> tuple[Counter[str], Counter[tuple[tuple[str, str], ...]]]:
    """How many shards say which rule, and which entries of `MODEL`."""
    rules: Counter[str] = Counter()
    models: Counter[tuple[tuple[str, str], ...]] = Counter()
    for path in shard_files(library / SHARDS):
        try:
            shard = read_shard(path)
        except DamagedShardError:
            continue
        rules[shard.rule] += 1
        if shard.frames is not None:
            said = shard.encoder_id or "", shard.weights_hash or "", str(shard.frames.shape[1])
            models[tuple(zip(MODEL, said, strict=True))] += 1
    return rules, models


def _restore_clips(library: Path, connection: sqlite3.Connection, work: _Work) -> None:
    """Bring the tables of every clip in step with its shard; clips without a usable one are dropped."""
    meta, folder = catalog.get_meta(connection), library / SHARDS
    known = {shard_path(folder, clip_id) for clip_id in _clips_of_files(connection)}
    damaged, others = set(), set()
    for path in sorted(known.union(shard_files(folder)) - work.forgotten):
        try:
            # By its own checksum: it may be newer than what the catalog says.
            shard = read_shard(path)
        except DamagedShardError as error:
            log.info("%s", error)
            damaged.add(path)
            continue
        if foreign(shard, meta) or path != shard_path(folder, shard.clip_id):
            others.add(path)
        else:
            replace_rows(connection, shard, hashlib.sha256(path.read_bytes()).hexdigest())
    _drop(connection, damaged | others)
    connection.execute("DELETE FROM files WHERE clip_id NOT IN (SELECT clip_id FROM clips)")
    work.put_aside |= damaged | others
    for lost, why in ((damaged, "that are damaged"), (others, "of another model, sampling rule or place")):
        if lost:
            work.done.append(f"dropped {len(lost)} shards {why}, kept as *{BROKEN}; {SET_AGAIN}")


def _clips_of_files(connection: sqlite3.Connection) -> list[str]:
    """The clips that files have; what can be no clip's id is left out."""
    rows = connection.execute("SELECT DISTINCT clip_id FROM files WHERE clip_id IS NOT NULL")
    return [clip_id for (clip_id,) in rows if is_clip_id(clip_id)]


def _drop(connection: sqlite3.Connection, shards: Iterable[Path]) -> None:
    """Drop the clips of shards, and their files, so that the next index reads them again."""
    lost = [path.stem for path in shards if path.parent.name == path.stem[:2]]
    connection.executemany("DELETE FROM files WHERE clip_id = ?", [(clip_id,) for clip_id in lost])
    catalog.delete_clips(connection, lost)


def rebuild_vectors(library: Path, connection: sqlite3.Connection, generation: str, shards: Path) -> int | None:
    """Write the vector matrix anew into a file of its own, inside the caller's transaction."""
    meta = catalog.get_meta(connection)
    connection.execute("DELETE FROM vector_rows")
    if not meta.get("dimension"):
        return None
    vectors = ExactVectors(vectors_path(library, {"vectors_generation": generation}), int(meta["dimension"]))
    end = 0
    for (clip_id,) in connection.execute("SELECT clip_id FROM clips WHERE has_vision ORDER BY clip_id").fetchall():
        frames = _frames(shard_path(shards, clip_id))
        first = vectors.append(frames.astype(np.float32), at_row=end)
        end = first + len(frames)
        connection.execute("INSERT INTO vector_rows VALUES (?, ?, ?)", (clip_id, first, len(frames)))
    catalog.set_meta(connection, {"vectors_generation": generation, "vectors_end": str(end)})
    return end


def _restore_null_scores(library: Path, connection: sqlite3.Connection, work: _Work) -> None:
    """Measure anew how nonsense scores, unless that holds for the clips that are there."""
    meta = catalog.get_meta(connection)
    vectors = open_vectors(library, meta)
    if vectors is None or null_scores_hold(connection):
        return
    bank = bank_of(connection, meta.get("weights_hash", ""), vectors.dimension)
    if bank is None:
        connection.execute("DELETE FROM null_scores")
        connection.execute("DELETE FROM meta WHERE key LIKE 'null_%'")
        work.done.append("how nonsense scores is not known any more; the next evenreel index measures it")
        return
    measure_nonsense(connection, vectors, bank)
    work.done.append("measured anew how nonsense scores")


def _frames(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    frames = read_shard(path).frames
    if frames is None:
        raise LibraryError(f"The shard {path} lost its frames while it was read; run the same command again.")
    return frames
