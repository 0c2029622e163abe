"""Check of a library (`verify`), and its repair: everything that is derived, made anew from the shards.

A shard has a hash of its own. The catalog is checked by SQLite, and its rows, the vectors and the word indexes are
compared with the shards that they were made of, what a person made with its copy. Nothing checks the values of a file's
row: an index run makes them again.

A repair makes a new catalog beside the old one. Nothing of the library changes before that is whole; then it takes the
old one's place in one transaction of SQLite, or where that is damaged, by its name, and the old one is kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import EncoderError, LibraryError
from evenreel.features import shards as stored
from evenreel.features.shards import Shard, are_whole, glance, is_clip_id, read_shard, shard_files, shard_path
from evenreel.files import printable
from evenreel.library.index.run import finish_exchange, named_shard, unfinished_exchange
from evenreel.library.people import drop_gone_clips
from evenreel.library.store import catalog, user_tables
from evenreel.library.store.catalog import BROKEN, CATALOG, MODELS, SHARDS, STILLS, library_lock, refuse_published
from evenreel.library.store.fulltext import fill_full_text, rebuild_full_text
from evenreel.library.store.meanings import counts_of, model_of, update_meanings, windows_of
from evenreel.library.store.user_tables import COPY, FACES, OWN_TABLES, held_by, held_in
from evenreel.library.store.vectors import (
    FRAMES,
    MATRICES,
    MEANINGS,
    SOUNDS,
    ExactVectors,
    Matrix,
    update_null_scores,
)
from evenreel.library.store.writer import (
    Store,
    closing_error,
    drop_vectors,
    next_generation,
    open_vectors,
    replace_rows,
    rows_of,
    stored_rows,
    vectors_files,
    vectors_path,
)
from evenreel.wording import count

SET_AGAIN = "run: evenreel index FOLDER (it reads the file again)"
RUN_REPAIR = "run: evenreel verify --repair"
READ_AGAIN = f"{RUN_REPAIR}, then {SET_AGAIN}"
AGAIN = "check the disk and the permissions, then run: evenreel verify"

REBUILT = f"{CATALOG}.rebuilt"  # the name of a new catalog until it is whole

# Entries of `meta` that a new catalog has of its own. What texts mean is in no shard: of that it has the model's name.
MADE_ANEW = re.compile(
    "schema_version|folding|transcripts_unsettled|(sounds_)?(vectors_generation|vectors_end|null_best|null_clips)"
    "|meaning_(?!encoder_id$).*"
)

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class LibraryProblem:
    """One problem of a library: where it is, what it is, and how to fix it."""

    where: str
    what: str
    remedy: str = RUN_REPAIR


def verify(library: Path) -> list[LibraryProblem]:
    """Check everything a library holds: the catalog, the hashes of shards, and whatever is derived from them.

    Raises:
        LibraryError: there is no library, it is of another version, it cannot be opened just now, or an indexer is
            writing it.
    """
    refuse_published(library)
    if not (library / CATALOG).is_file():
        if next(shard_files(library / SHARDS), None) is None:
            raise LibraryError(f"There is no library at {library}.")
        return [LibraryProblem(CATALOG, "it is gone, its feature shards are there")]
    # Shards and catalog are two things: beside a writer they could only be compared with excuses.
    with library_lock(library) if os.access(library, os.W_OK) else nullcontext():
        return _all_problems(library)


def _settings(library: Path) -> dict[str, str]:
    for path in (library / CATALOG, library / COPY):
        held = held_in(path, ("meta",))
        if not held.damaged:
            entries = {row["key"]: row["value"] for row in held.rows["meta"]}
            return {key: value for key, value in entries.items() if catalog.is_entry(key, value)}
    return {}


def _all_problems(library: Path) -> list[LibraryProblem]:
    found: list[LibraryProblem] = []
    try:
        opened = closing(catalog.open_for_reading(library))
        with opened as connection, catalog.readable(library), catalog.snapshot(connection):
            found += [LibraryProblem(CATALOG, what) for what in _faults(library, connection)]
            found += _own_problems(library, connection)
            found += _shard_problems(library, connection)
            for path in (broken := _broken_metadata(connection)):
                where = f"file {printable(catalog.loaded_path(path))}"
                found.append(LibraryProblem(where, "its metadata is not what was written", READ_AGAIN))
            found += _text_problems(connection, broken)
            found += _meaning_problems(library, connection)
            found += [problem for _, problem in _still_problems(library, connection)]
    except LibraryError as error:
        if not found and not catalog.is_damage(error.__cause__):
            raise
        found.append(LibraryProblem(CATALOG, f"it cannot be read to its end ({error.__cause__})"))
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        found.append(LibraryProblem(CATALOG, f"it holds what it never could ({error!r})"))
    return found


def _faults(library: Path, connection: sqlite3.Connection) -> list[str]:
    """What is wrong with the catalog as a file: its header, pages, schema and kinds of values."""
    with (library / CATALOG).open("rb") as file:
        header = file.read(20)
    found = [] if header[18] in {1, 2} else ["its header does not say how it is to be written"]
    different = catalog.differences(connection)
    found += [f"its table {name} is not what was laid down" for name in different]
    return found if different else found + catalog.faults(connection)


def _own_problems(library: Path, connection: sqlite3.Connection) -> Iterator[LibraryProblem]:
    here, copy = held_by(connection), held_in(library / COPY)
    if copy.damaged:
        what = "it is not what was written" if (library / COPY).exists() else "it is gone"
        if what != "it is gone" or any(here.rows.values()):
            yield LibraryProblem(COPY, what, f"{RUN_REPAIR} (evenreel index writes it too)")
    elif copy.is_newer(here):
        yield LibraryProblem(CATALOG, "it is not as the last run left it")
    elif here.differs(copy):
        yield LibraryProblem(CATALOG, f"what is a person's own is not what it is in {COPY}")


def _shard_problems(library: Path, connection: sqlite3.Connection) -> Iterator[LibraryProblem]:
    meta = catalog.get_meta(connection)
    matrices = [
        (of, of.own(meta), open_vectors(library, meta, of) if vectors_path(library, meta, of).is_file() else None)
        for of in (FRAMES, SOUNDS)
    ]
    known, waiting = set(), unfinished_exchange(library, meta)
    if waiting is not None:
        what = "its exchange was broken off before all of its shards were in their place"
        remedy = f"{RUN_REPAIR} (evenreel index finishes it too)"
        yield LibraryProblem(f"model {meta.get('encoder_id')}", what, remedy)
    rows = connection.execute(
        "SELECT clip_id, shard_hash, vector_rows.first_row, vector_rows.count, sound_rows.first_row, sound_rows.count"
        " FROM clips LEFT JOIN vector_rows USING (clip_id) LEFT JOIN sound_rows USING (clip_id)"
    )
    for clip_id, digest, *rows_in_matrices in rows:
        where = f"clip {printable(str(clip_id))[:80]}"
        if not is_clip_id(clip_id):
            yield LibraryProblem(where, "this is no clip's id")
            continue
        known.add(shard_path(library / SHARDS, clip_id))
        try:
            shard = read_shard(named_shard(library, waiting, clip_id), digest)
        except LibraryError as error:
            remedies = {stored.NewerShardError: "update evenreel", stored.DamagedShardError: READ_AGAIN}
            yield LibraryProblem(where, str(error), remedies.get(type(error), AGAIN))
            continue
        if _is_foreign(shard, meta):
            yield LibraryProblem(where, "its shard is of another model or sampling rule than the library", READ_AGAIN)
        if rows_of(shard, digest) != stored_rows(connection, clip_id):
            yield LibraryProblem(where, "its rows in the catalog are not those of its shard")
        for place, (of, own, vectors) in enumerate(matrices):
            (first, number), wanted = rows_in_matrices[2 * place : 2 * place + 2], of_shard(shard, of, own)
            agree = wanted is None and first is None  # nothing is in the matrix of a clip without frames, or sounds
            if wanted is not None and first is not None and vectors is not None:
                with suppress(LibraryError, OSError):
                    agree = np.array_equal(vectors.read(first, number), wanted)
            if not agree:
                what = "vector matrix" if of is FRAMES else "matrix of sounds"
                yield LibraryProblem(where, f"its rows of the {what} are not those of its shard")
    for path in set(shard_files(library / SHARDS)) - known:
        yield LibraryProblem(path.name, "no clip of the catalog has this shard")


def _is_foreign(shard: Shard, meta: Mapping[str, str]) -> bool:
    other_model = shard.weights_hash is not None and shard.weights_hash != meta.get("weights_hash")
    return other_model or shard.rule != meta.get("rule")


def _broken_metadata(connection: sqlite3.Connection) -> list[str | bytes]:
    found = []
    for path, metadata in connection.execute("SELECT path, metadata FROM files"):
        with suppress(ValueError):
            if isinstance(json.loads(metadata), dict):
                continue
        found.append(path)
    return found


def _text_problems(connection: sqlite3.Connection, broken: list[str | bytes]) -> Iterator[LibraryProblem]:
    """Check the full text of a copy by itself, and compare it with one that is built anew; broken metadata is none."""
    with closing(sqlite3.connect("", isolation_level=None)) as fresh:  # on disk, and gone in the end
        connection.backup(fresh)
        for name in set(catalog.FULL_TEXT) - catalog.tables().keys():
            try:
                fresh.execute(f"INSERT INTO {name} ({name}) VALUES ('integrity-check')")
            except sqlite3.DatabaseError as error:
                if not catalog.is_damage(error):
                    raise
                yield LibraryProblem(f"full text {name}", f"SQLite cannot read it ({error})")
        fresh.executemany("UPDATE files SET metadata = '{}' WHERE path = ?", [(path,) for path in broken])
        try:
            rebuild_full_text(fresh)
        except ValueError:
            yield LibraryProblem("on-screen readings", "they are not what was written")
            return
        for name in catalog.FULL_TEXT:
            rows = f"SELECT {'*' if name in catalog.tables() else 'rowid, *'} FROM {name}"
            if name.endswith("_vocabulary"):  # when a word was counted last says nothing
                rows = f"SELECT word, texts FROM {name} WHERE texts > 0"
            wanted = sorted(fresh.execute(rows), key=repr)
            try:
                found = sorted(connection.execute(rows), key=repr)
            except sqlite3.DatabaseError as error:
                yield LibraryProblem(f"full text {name}", f"SQLite cannot read it ({error})")
                continue
            if found != wanted:
                yield LibraryProblem(f"full text {name}", "it is not that of the catalog's tables")


def _meaning_problems(library: Path, connection: sqlite3.Connection) -> Iterator[LibraryProblem]:
    """Compare the rows of texts with what the texts are, and where the model is here, with what it makes of them."""
    meta = catalog.get_meta(connection)
    vectors, model = open_vectors(library, meta, MEANINGS), model_of(MEANINGS.own(meta))
    for clip_id, first, *counts in connection.execute("SELECT * FROM meaning_rows") if vectors else ():
        windows, agree = windows_of(connection, clip_id), False
        if counts == list(counts_of(windows)) and vectors is not None:
            with suppress(LibraryError, OSError):
                found = vectors.read(first, len(windows)).astype(np.float32)
                made = found if model is None else model.encode([one.text for one in windows])
                far = max(np.abs(found - made).max(), np.abs((found**2).sum(1) - 1).max())
                agree = bool(far < 2e-3)  # what float16, and another machine, make of it
        if not agree:
            yield LibraryProblem(f"clip {clip_id}", "its rows of the matrix of meanings are not those of its texts")


def _still_problems(library: Path, connection: sqlite3.Connection) -> Iterator[tuple[Path, LibraryProblem]]:
    """Files of stills (small pictures of moments) that show nothing, and why."""
    known = {clip_id for (clip_id,) in connection.execute("SELECT clip_id FROM clips")}
    for path in shard_files(library / STILLS):
        where = f"stills of {path.stem}"
        try:
            if path.stem not in known:
                yield path, LibraryProblem(where, "no clip of the catalog has these stills")
            elif not are_whole(path):
                yield path, LibraryProblem(where, "its stills are not what was written")
        except OSError as error:
            yield path, LibraryProblem(where, f"they cannot be read ({error.strerror or error})", AGAIN)


# Repair ----------------------------------------------------------------------------------------------------------


def repair(library: Path, *, drop_missing: bool = False) -> list[str]:
    """Rebuild everything derived from the shards, and a person's own from the catalog or its copy.

    Nothing is decoded again. A clip whose shard is damaged, or was made with another model or sampling rule, is
    dropped; the shard is kept as `*.broken`, and its files are read again by the next `evenreel index`.

    Args:
        library: folder of the library.
        drop_missing: also forget files that were marked missing, and the clips that no other file has.

    Returns:
        What was done, a sentence each.

    Raises:
        LibraryError: there is nothing to repair from, or just now it cannot be; then nothing has changed.
    """
    refuse_published(library)
    if not library.is_dir():
        raise LibraryError(f"There is no library at {library}.")
    with library_lock(library):
        try:
            done = _rebuild(library, drop_missing)
            with closing(catalog.open_for_writing(library)) as connection:
                making = catalog.making_of(meta := catalog.get_meta(connection))
                place = library / MODELS / making.folder if making else None
                if making and place and (place / CATALOG).exists() and _damage(place):
                    shutil.rmtree(place)
                    lost = f"the damaged vectors of {making.name}, which was in the making"
                    done.append(f"dropped {lost}; run: evenreel reindex")
                catalog.clear_unnamed(library, meta)
                drop_gone_clips(library, connection)
                with suppress(EncoderError):  # the next index run tells it
                    if MEANINGS.own(meta) and (clips := update_meanings(Store(library, connection, {}))):
                        done.append(f"encoded anew what the texts of {count(clips, 'clip')} mean")
                return done
        except (sqlite3.Error, OSError) as error:
            raise closing_error(library, error) from error


@dataclass
class _Work:
    """What a repair has done to the new catalog, and what is left to do when that is in its place."""

    done: list[str] = field(default_factory=list)
    put_aside: set[Path] = field(default_factory=set)
    forgotten: set[Path] = field(default_factory=set)


def _rebuild(library: Path, drop_missing: bool) -> list[str]:
    damage = _damage(library)
    finish_exchange(library, _settings(library))
    _move_catalog(library / REBUILT)
    work, generation = _Work(), next_generation(library, _settings(library))
    with ExitStack() as held:
        try:
            with closing(catalog.open_for_repair(library, REBUILT)) as connection:
                with catalog.transaction(connection):
                    _derive(library, connection, work, generation, drop_missing)
                held.enter_context(user_tables.alone(library))
                _enter_own(library, connection, work)
                meta = catalog.get_meta(connection)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except BaseException:
            drop_vectors(library, generation)
            _move_catalog(library / REBUILT)
            raise
        if damage:
            kept = catalog.free_name(library / CATALOG)
            _move_catalog(library / CATALOG, kept)  # also a log whose catalog is gone: it would be taken for the new's
            _move_catalog(library / REBUILT, library / CATALOG)
            as_what = f"kept it as {kept.name} and " if kept.exists() else ""
            work.done.insert(0, f"the catalog was {damage}: {as_what}made a new one")
        else:
            present = closing(sqlite3.connect(library / CATALOG, timeout=30))
            with closing(sqlite3.connect(library / REBUILT)) as new, present as old:
                new.backup(old)
            _move_catalog(library / REBUILT)
        with closing(catalog.open_for_reading(library)) as connection:
            user_tables.write_copy(library, connection)
            stills = list(_still_problems(library, connection))
    for path in filter(Path.exists, work.put_aside):
        path.replace(path.with_name(path.name + BROKEN))
    useless = [path for path, problem in stills if problem.remedy == RUN_REPAIR]
    unnamed = set(vectors_files(library)) - {vectors_path(library, meta, of) for of in MATRICES}
    for path in (*work.forgotten, *unnamed, *useless):
        with suppress(OSError):
            path.unlink(missing_ok=True)
    if useless:
        work.done.append(f"dropped {count(len(useless), 'file')} of stills; pictures are made when they are asked for")
    return work.done


def _damage(library: Path) -> str | None:
    """What is wrong with the catalog as a file; None where it can take another's content."""
    if not (library / CATALOG).exists():
        if next(shard_files(library / SHARDS), None) is None:
            raise LibraryError(f"There is no library at {library}.")
        return "gone"
    try:
        with closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
            broken = _faults(library, connection)
    except LibraryError as error:
        if not catalog.is_damage(error.__cause__):
            raise
        return f"damaged ({error.__cause__})"
    return f"damaged ({broken[0]})" if broken else None


def _move_catalog(path: Path, target: Path | None = None) -> None:
    """Rename or delete a catalog; its log goes first, so that it never lies beside another catalog."""
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if target is None:
            part.unlink(missing_ok=True)
        elif part.exists():
            part.rename(target.with_name(target.name + suffix))


def _derive(library: Path, connection: sqlite3.Connection, work: _Work, generation: str, drop_missing: bool) -> None:
    """Fill a new catalog with what the old one says of files, and with what the shards say."""
    connection.execute("PRAGMA defer_foreign_keys = ON")
    known = {key: value for key, value in _settings(library).items() if not MADE_ANEW.fullmatch(key)}
    copy = held_in(library / COPY, ("meta",))  # neither it nor an index run may take the new catalog for an older one
    catalog.set_meta(connection, known | {"changes": str(max(int(known.get("changes", "0")), copy.changes or 0))})
    held = held_in(library / CATALOG, ("files", "replaced", *FACES))
    if "files" in held.damaged:
        work.done.append(f"what was known about files is lost; {SET_AGAIN}")
    for table in held.rows.keys() - held.damaged:
        user_tables.enter(connection, table, held.rows[table])
    if broken := _broken_metadata(connection):
        connection.executemany("UPDATE files SET metadata = '{}' WHERE path = ?", [(path,) for path in broken])
        work.done.append(f"emptied the metadata of {count(len(broken), 'file')}, which was damaged; {SET_AGAIN}")
    if drop_missing:
        _forget(library, connection, work)
    _settle_model(library, connection)
    _enter_clips(library, connection, work)
    fill_full_text(connection)
    work.done.append("rebuilt the full text")
    if (rows := rebuild_vectors(library, connection, generation, library / SHARDS)) is not None:
        work.done.append(f"rebuilt the vector matrix ({rows} rows)")
    for of in (FRAMES, SOUNDS):
        if (vectors := open_vectors(library, catalog.get_meta(connection), of)) is None:
            continue
        what = "how nonsense scores" if of is FRAMES else "how nonsense sounds"
        if update_null_scores(connection, vectors, None, of):
            work.done.append(f"measured anew {what}")
        else:
            connection.execute("DELETE FROM meta WHERE key GLOB ?", (f"{of.prefix}null_*",))
            work.done.append(f"{what} is not known any more; the next evenreel index measures it")


def _enter_own(library: Path, connection: sqlite3.Connection, work: _Work) -> None:
    """Enter what is a person's own, at the last moment: what is changed meanwhile is changed in the old catalog."""
    rows, lost = user_tables.best_of(held_in(library / CATALOG), held_in(library / COPY))
    with catalog.transaction(connection, "personal_changes"):
        for table in OWN_TABLES:
            user_tables.enter(connection, table, rows[table])
    if lost:
        work.done.append(f"something of {', '.join(lost)} may be lost: neither the catalog nor {COPY} is whole")


def _forget(library: Path, connection: sqlite3.Connection, work: _Work) -> None:
    """Forget missing files and their clips; not every clip without a file: in a new catalog none has one yet."""
    clips = {row[0] for row in connection.execute("SELECT clip_id FROM files WHERE state = 'missing'")}
    files = connection.execute("DELETE FROM files WHERE state = 'missing'").rowcount
    gone = clips - {None} - {row[0] for row in connection.execute("SELECT clip_id FROM files")}
    work.forgotten |= {shard_path(library / SHARDS, clip_id) for clip_id in gone if is_clip_id(clip_id)}
    work.done.append(f"forgot {files} missing files and {len(gone)} clips that no other file has")


def _settle_model(library: Path, connection: sqlite3.Connection) -> None:
    """Note the sampling rule and the model that most shards have: each says what it was made with."""
    meta = catalog.get_meta(connection)
    rules, models, hearing = Counter[str](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for path in shard_files(library / SHARDS):
        with suppress(Exception):  # a damaged one, which is told of when it is read
            record = glance(path)
            rules[record["rule"]] += 1
            if record["encoder_id"] is not None:
                models[record["encoder_id"], record["weights_hash"]] += 1
            if "sounds" in record:
                hearing[record["sounds"][0], record["sounds"][1]] += 1
    found = {}
    if rules:
        found["rule"] = max(rules, key=lambda rule: (rules[rule], rule == meta.get("rule")))
        if not models and "encoder_id" not in meta:
            found["model"] = ""  # words alone
    if models:
        known = meta.get("encoder_id"), meta.get("weights_hash")
        found["encoder_id"], found["weights_hash"] = max(models, key=lambda model: (models[model], model == known))
        if "model" not in meta or meta.get("encoder_id") != found["encoder_id"]:
            found["model"] = found["encoder_id"]
    if hearing and not SOUNDS.own(meta):
        heard = zip(("encoder_id", "weights_hash"), hearing.most_common(1)[0][0], strict=True)
        found |= SOUNDS.named(dict(heard))
    catalog.set_meta(connection, found)


def _enter_clips(library: Path, connection: sqlite3.Connection, work: _Work) -> None:
    """Enter every clip as its shard has it; of a clip without a usable one the files are read again."""
    meta = catalog.get_meta(connection)
    clips = connection.execute("SELECT DISTINCT clip_id FROM files WHERE clip_id IS NOT NULL").fetchall()
    known = {shard_path(library / SHARDS, clip_id) for (clip_id,) in clips if is_clip_id(clip_id)}
    damaged, others = set(), set()
    for path in sorted(known.union(shard_files(library / SHARDS)) - work.forgotten):
        try:
            shard = read_shard(path)  # by its own checksum: it may be newer than what the catalog says
        except stored.DamagedShardError as error:
            log.info("%s", error)
            damaged.add(path)
            continue
        if _is_foreign(shard, meta) or path != shard_path(library / SHARDS, shard.clip_id):
            others.add(path)
            continue
        replace_rows(connection, shard, hashlib.sha256(path.read_bytes()).hexdigest())
        if shard.frames is not None:
            catalog.set_meta(connection, {"dimension": str(shard.frames.shape[1])})
        if shard.sounds is not None and shard.sounds.weights_hash == meta.get("sounds_weights_hash"):
            catalog.set_meta(connection, {"sounds_dimension": str(shard.sounds.vectors.shape[1])})
    connection.execute("DELETE FROM files WHERE clip_id NOT IN (SELECT clip_id FROM clips)")
    work.put_aside = damaged | others
    for lost, why in ((damaged, "that are damaged"), (others, "of another model, sampling rule or place")):
        if lost:
            work.done.append(f"dropped {count(len(lost), 'shard')} {why}, kept as *{BROKEN}; {SET_AGAIN}")


# The vector matrix -----------------------------------------------------------------------------------------------


def rebuild_vectors(library: Path, connection: sqlite3.Connection, generation: str, shards: Path) -> int | None:
    """Write the matrices anew into files of their own, inside the caller's transaction; return how many frames."""
    for of in (FRAMES, SOUNDS):
        meta = of.own(catalog.get_meta(connection))
        connection.execute(f"DELETE FROM {of.rows}")
        if not meta.get("dimension"):
            continue
        place = vectors_path(library, of.named({"vectors_generation": generation}), of)
        vectors, end = ExactVectors(place, int(meta["dimension"])), 0
        clips = "clips WHERE has_vision" if of is FRAMES else "heard"
        for (clip_id,) in connection.execute(f"SELECT clip_id FROM {clips} ORDER BY clip_id").fetchall():
            found = of_shard(read_shard(shard_path(shards, clip_id)), of, meta)
            if found is None:  # a sound that another model has heard, or none
                continue
            first = vectors.append(found.astype(np.float32), at_row=end)
            end = first + len(found)
            connection.execute(f"INSERT INTO {of.rows} VALUES (?, ?, ?)", (clip_id, first, len(found)))
        catalog.set_meta(connection, of.named({"vectors_generation": generation, "vectors_end": str(end)}))
    rows = catalog.get_meta(connection).get("vectors_end")
    return None if rows is None else int(rows)


def of_shard(shard: Shard, of: Matrix, own: Mapping[str, str]) -> NDArray[np.float16] | None:
    if of is FRAMES:
        return shard.frames
    is_own = shard.sounds is not None and shard.sounds.weights_hash == own.get("weights_hash")
    return shard.sounds.vectors if shard.sounds is not None and is_own and len(shard.sounds.vectors) else None
