"""Publishing: an immutable snapshot of a library, written whole before anybody is pointed to it."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenreel.arguments import as_path
from evenreel.errors import LibraryError
from evenreel.features.shards import shard_files
from evenreel.features.stills import are_whole
from evenreel.files import TEMPORARY_SUFFIX, make_folder, remove_unfinished, replacing_folder
from evenreel.library.snapshot.indexes import SearchedGallery, build_indexes
from evenreel.library.snapshot.manifest import (
    MANIFEST,
    EarlierSnapshot,
    MeasuredIndex,
    Pointer,
    PublishedPart,
    SnapshotManifest,
    StoredObject,
    begun,
    new_id,
    parse_pointer,
)
from evenreel.library.snapshot.place import POINTER, SNAPSHOTS, SnapshotPlace, is_full, lance, snapshot_place
from evenreel.library.snapshot.settings import PublishSettings
from evenreel.library.snapshot.tables import MOMENTS, CatalogReader, Checksums
from evenreel.library.store import catalog
from evenreel.library.store.confidence import load_null_vectors
from evenreel.library.store.filesystem import refuse_published
from evenreel.library.store.model_folders import SOUNDS, models_of, place_of
from evenreel.library.store.schema import FULL_TEXT, tables
from evenreel.library.store.user_tables import AT_HOME, FACES
from evenreel.library.store.writer import open_vectors
from evenreel.progress import Progress, stretch_of
from evenreel.version import __version__

STILLS = "stills.lance"
CHECKSUMS = "vectors.crc32"
ABANDONED_S = 7 * 86_400.0
"""Seconds after which a snapshot that no pointer has named was left by a publisher that is gone."""
STILLS_AT_ONCE = 64

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class PublishReport:
    """What was published.

    Attributes:
        to: place of the snapshots.
        id: name of the new one.
        bytes: its size.
        clips: number of its clips.
        moments: number of its moments.
        indexes: its indexes, with those that were refused, by the part of the library that they are of.
        dropped: snapshots that were deleted, as nobody needs them any more.
        seconds: time that publishing took.
    """

    to: str
    id: str
    bytes: int
    clips: int
    moments: int
    indexes: dict[str, tuple[MeasuredIndex, ...]]
    dropped: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self)


def publish_library(
    library: str | Path,
    to: str | Path,
    settings: PublishSettings | None = None,
    progress: Progress | None = None,
    on_index: Callable[[MeasuredIndex], None] | None = None,
) -> PublishReport:
    """Publish a snapshot of a library, in place of the one that was published there before.

    Readers go on with the old one until the new one is whole. The library may be searched and indexed meanwhile.

    Args:
        library: folder of the library.
        to: place of the snapshots: a folder, or `s3://bucket/prefix`; credentials come from the environment.
        settings: what is published, and how long what was there is kept.
        progress: called with the share that is done.
        on_index: called with each index as it was measured.

    Raises:
        UsageError: the place has credentials in it, or is none.
        LibraryError: the library is damaged, the place cannot be written or holds something else, somebody else is
            publishing there, or the extra `scale` is not installed.
    """
    settings, progress = settings or PublishSettings(), progress or _unwatched
    began, folder = time.time(), as_path(library, "library")
    lance()
    refuse_published(folder)
    place = snapshot_place(to)
    snapshot_id = new_id(began)
    with _alone(place):
        before, mark = _before(place)
        with _room(place, snapshot_id, settings) as room:
            try:
                manifest = _made(folder, room, snapshot_id, settings, stretch_of(progress, 0, 0.8), on_index)
            except (OSError, RuntimeError, sqlite3.Error) as error:
                raise _trouble(error, folder, room) from None
            payload = manifest.dump()
            (room / MANIFEST).write_bytes(payload)
            if place.is_remote:
                files = {f"{SNAPSHOTS}/{snapshot_id}/{name}": room / name for name in (*manifest.objects, MANIFEST)}
                with _withdrawn(place, snapshot_id):
                    place.send(files, stretch_of(progress, 0.8, 1.0))
        pointer, old = _next(before, snapshot_id, payload, settings.keep_hours * 3600, time.time())
        _point(place, pointer, mark)
        dropped = _tidied(place, pointer, old)
    own = manifest.parts[""]
    return PublishReport(
        to=place.root,
        id=snapshot_id,
        bytes=manifest.size_bytes,
        clips=own.tables["clips"],
        moments=own.tables[MOMENTS],
        indexes={name: part.indexes for name, part in manifest.parts.items()},
        dropped=tuple(dropped),
        seconds=round(time.time() - began, 2),
    )


def _unwatched(share: float) -> None:
    pass


@contextlib.contextmanager
def _alone(place: SnapshotPlace) -> Iterator[None]:
    """Hold a folder of snapshots against other publishers; in a bucket the pointer is put on a condition."""
    if place.is_remote:
        yield
        return
    from filelock import FileLock, Timeout

    root = Path(place.root)
    if root.exists() and not root.is_dir():
        raise LibraryError(f"{root} is a file; publish into a folder of its own.")
    try:
        if not _is_ours(root):
            _before(place)  # refuses what is somebody else's, before anything is written to it
        make_folder(root / SNAPSHOTS)
        with FileLock(root / "publish.lock", timeout=0):
            yield
    except Timeout:
        raise LibraryError(f"Somebody else is publishing to {root}; publish again when that is done.") from None
    except OSError as error:
        raise LibraryError(f"{root} cannot be written: {(error.strerror or str(error)).lower()}.") from error


def _is_ours(root: Path) -> bool:
    """Whether a folder holds snapshots or nothing."""
    return not root.exists() or not any(one.name not in {POINTER, SNAPSHOTS, "publish.lock"} for one in root.iterdir())


def _before(place: SnapshotPlace) -> tuple[Pointer | None, str | None]:
    """The pointer that stands, with the mark of its version; a place that holds something else is refused."""
    payload, mark = place.read_marked(POINTER)
    if payload is not None:
        return parse_pointer(payload, place), mark
    if strange := [name for name in place.names() if name not in {"", SNAPSHOTS, "publish.lock"}]:
        raise LibraryError(
            f"{place.root} holds something that is no published snapshot ({strange[0]}); publish to a place of its own."
        )
    return None, None


@contextlib.contextmanager
def _room(place: SnapshotPlace, snapshot_id: str, settings: PublishSettings) -> Iterator[Path]:
    """A folder to make the snapshot in; for a folder of snapshots it is in place when the `with` ends."""
    try:
        if place.is_remote:
            if settings.staging is not None:
                make_folder(settings.staging)
            with tempfile.TemporaryDirectory(prefix="evenreel-publish-", dir=settings.staging) as folder:
                yield Path(folder)
            return
        with replacing_folder(Path(place.at(f"{SNAPSHOTS}/{snapshot_id}"))) as part:
            yield part
    except OSError as error:
        raise LibraryError(f"The snapshot cannot be written ({(error.strerror or str(error)).lower()}).") from error


def _trouble(error: Exception, library: Path, room: Path) -> LibraryError:
    if is_full(error):
        return LibraryError(
            f"The disk of {room.parent} is full, so nothing was published; make room, or name another disk (--staging)."
        )
    if isinstance(error, sqlite3.Error):
        return catalog.damaged(library, error)
    why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return LibraryError(f"The snapshot cannot be made in {room.parent} ({why.lower()}), so nothing was published.")


@contextlib.contextmanager
def _withdrawn(place: SnapshotPlace, snapshot_id: str) -> Iterator[None]:
    """Take back what was sent where the `with` fails; nobody was pointed to it."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(LibraryError):
            place.remove(f"{SNAPSHOTS}/{snapshot_id}")
        raise


def _point(place: SnapshotPlace, pointer: Pointer, mark: str | None) -> None:
    """Name the new snapshot as the current one, or take it back where another one is.

    Whether the pointer was put is not known where an answer is lost: the next attempt then finds that it has changed.
    """
    try:
        place.write_marked(POINTER, pointer.dump(), mark)
    except BaseException as error:
        with contextlib.suppress(LibraryError):
            if pointer.id.encode() not in (place.read(POINTER) or b""):
                place.remove(f"{SNAPSHOTS}/{pointer.id}")
            elif isinstance(error, LibraryError):
                return
        raise


def _tidied(place: SnapshotPlace, pointer: Pointer, old: Sequence[str]) -> list[str]:
    """Delete snapshots that nobody needs; what cannot be deleted now is no failure of what was published."""
    dropped: list[str] = []
    try:
        if not place.is_remote:
            for left in Path(place.at(SNAPSHOTS)).glob(f".*{TEMPORARY_SUFFIX}"):
                remove_unfinished(left.with_name(left.name[1:].partition(".")[0]))
        for one in [*old, *_abandoned(place, pointer)]:
            place.remove(f"{SNAPSHOTS}/{one}")
            dropped.append(one)
    except LibraryError as error:
        log.warning("older snapshots could not be deleted, they take room: %s", error)
    return dropped


def _next(
    before: Pointer | None, snapshot_id: str, manifest: bytes, keep_s: float, now: float
) -> tuple[Pointer, list[str]]:
    """The new pointer, and the snapshots that are old enough to go: never the one that was the current one."""
    earlier = () if before is None else (EarlierSnapshot(before.id, now), *before.earlier)
    kept = tuple(one for place, one in enumerate(earlier) if place == 0 or now - one.replaced < keep_s)
    dropped = [one.id for one in earlier if one not in kept]
    return Pointer(snapshot_id, hashlib.sha256(manifest).hexdigest(), kept), dropped


def _abandoned(place: SnapshotPlace, pointer: Pointer) -> list[str]:
    known = {pointer.id, *(one.id for one in pointer.earlier)}
    starts = {one: begun(one) for one in place.snapshot_ids() if one not in known}
    return [one for one, start in starts.items() if start is not None and time.time() - start > ABANDONED_S]


def _made(
    library: Path,
    room: Path,
    snapshot_id: str,
    settings: PublishSettings,
    progress: Progress,
    on_index: Callable[[MeasuredIndex], None] | None,
) -> SnapshotManifest:
    """Make all objects of a snapshot but the manifest."""
    with contextlib.closing(catalog.open_for_reading(library)) as connection:
        meta = catalog.get_meta(connection)
    parts = {"": library, **{f"models/{name}": place_of(library, name) for name in models_of(meta, SOUNDS)}}
    made: dict[str, PublishedPart] = {}
    stills: int | None = None
    for number, (name, source) in enumerate(parts.items()):
        share = stretch_of(progress, 0.9 * number / len(parts), 0.9 * (number + 1) / len(parts))
        target = room / name if name else room
        target.mkdir(parents=True, exist_ok=True)
        made[name] = _part(source, target, settings, share, on_index or (lambda _: None))
    if settings.stills:
        stills = _stills(library / catalog.STILLS, room / STILLS)
    objects = {path.relative_to(room).as_posix(): _object(path) for path in sorted(room.rglob("*")) if path.is_file()}
    progress(1.0)
    return SnapshotManifest(
        id=snapshot_id,
        published=begun(snapshot_id) or 0.0,
        made_by=__version__,
        schema_version=catalog.SCHEMA_VERSION,
        model=meta.get("model") or None,
        weights_hash=meta.get("weights_hash"),
        parts=made,
        stills=stills,
        objects=objects,
    )


def _part(
    library: Path,
    room: Path,
    settings: PublishSettings,
    progress: Progress,
    on_index: Callable[[MeasuredIndex], None],
) -> PublishedPart:
    """Write the tables of a library, or of its sounds, with their indexes."""
    gallery = None
    with (
        contextlib.closing(catalog.open_for_reading(library)) as connection,
        catalog.reading(connection, library),
        catalog.snapshot(connection),
    ):
        if broken := catalog.faults(connection):
            raise LibraryError(
                f"The library {library} is damaged ({broken[0]}); run evenreel verify --repair, then publish again."
            )
        vectors = open_vectors(library, catalog.get_meta(connection))
        reader = CatalogReader(connection, vectors)
        written = _tables(connection, reader, room, stretch_of(progress, 0, 0.6))
        if vectors is not None and reader.clips:
            ids, first_rows, counts = zip(*reader.stored_clips(), strict=True)
            queries = load_null_vectors(connection, vectors.dimension)
            gallery = SearchedGallery(vectors, np.array(first_rows), np.array(counts), ids, queries)
    indexes = tuple(build_indexes(room, gallery, settings.index_from, on_index))
    progress(1.0)
    return PublishedPart(written, reader.dimension, reader.vector_rows, indexes)


def _tables(connection: sqlite3.Connection, reader: CatalogReader, room: Path, progress: Progress) -> dict[str, int]:
    """Write the tables of a catalog, and the checksums of the vectors; returns the number of rows of each table."""
    names = [name for name in tables() if name not in (*FULL_TEXT, *AT_HOME, *FACES)]
    checksums, written = Checksums(), {}
    for number, name in enumerate(names):
        dataset = lance().write_dataset(reader.batches(name, checksums.add), str(room / f"{name}.lance"))
        written[name] = dataset.count_rows()
        progress((number + 1) / len(names))
    if reader.clips:
        (room / CHECKSUMS).write_bytes(checksums.all().astype("<u4").tobytes())
    return written


def _stills(folder: Path, target: Path) -> int:
    """Write the files of stills as one table, by clip; damaged ones are left out. Returns how many were written."""
    import pyarrow as pa

    schema = pa.schema({"clip_id": pa.string(), "stills": pa.large_binary()})
    paths = [path for path in shard_files(folder) if are_whole(path)] if folder.is_dir() else []
    if not paths:
        return 0

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(paths), STILLS_AT_ONCE):
            some = paths[start : start + STILLS_AT_ONCE]
            payloads = pa.array([path.read_bytes() for path in some], pa.large_binary())
            yield pa.record_batch([pa.array([path.stem for path in some]), payloads], schema)

    lance().write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), str(target))
    dataset = lance().dataset(str(target))
    dataset.create_scalar_index("clip_id", "BTREE")
    return len(paths)


def _object(path: Path) -> StoredObject:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**22):
            digest.update(piece)
    return StoredObject(path.stat().st_size, digest.hexdigest())
