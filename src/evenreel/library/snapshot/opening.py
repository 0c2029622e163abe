"""Opening of a published snapshot: a folder is made of it that is read as a library is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenreel.errors import LibraryError
from evenreel.files import make_folder, replacing_folder
from evenreel.library.snapshot.holding import SnapshotCache, SnapshotMarker, marker_of, note_use
from evenreel.library.snapshot.manifest import (
    MANIFEST,
    Pointer,
    PublishedPart,
    SnapshotManifest,
    parse_manifest,
    read_manifest,
    read_pointer,
)
from evenreel.library.snapshot.place import SNAPSHOTS, SnapshotPlace, is_full, lance, snapshot_place
from evenreel.library.snapshot.tables import AT_ONCE, MOMENTS, VECTOR, Checksums, fill_catalog, schema_of
from evenreel.library.store.catalog import CATALOG, SCHEMA_VERSION
from evenreel.library.store.filesystem import SNAPSHOT_MARKER, is_published
from evenreel.library.store.vectors import ExactVectors
from evenreel.progress import Progress, stretch_of

if TYPE_CHECKING:
    import pyarrow as pa

CHECKSUMS = "vectors.crc32"
FETCHED = "fetched"


def local_folder(given: str | Path, cache: SnapshotCache | None = None, progress: Progress | None = None) -> Path:
    """Return the folder that a library is read from: its own."""
    if not is_published(given):
        return Path(given)
    place = snapshot_place(given)
    return folder_of_snapshot(place, read_pointer(place), cache or SnapshotCache(), progress or _unwatched)


def _unwatched(share: float) -> None:
    pass


def folder_of_snapshot(place: SnapshotPlace, pointer: Pointer, cache: SnapshotCache, progress: Progress) -> Path:
    """Return the folder of a snapshot in the cache; it is made where it is not there yet, by one process at a time."""
    from filelock import FileLock

    target = cache.folder / pointer.id
    if marker_of(target) is not None:
        note_use(target)
        return target
    lance()
    try:
        make_folder(cache.folder)
        cache.drop_unfinished()
        with FileLock(cache.folder / f".{pointer.id}.lock"):
            if marker_of(target) is None:
                manifest = read_manifest(place, pointer)
                with replacing_folder(target) as part:
                    os.chmod(part, 0o700)  # its stills may be of private videos
                    _Opening(place, manifest, cache).fill(part, progress)
    except (OSError, RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, sqlite3.Error) as error:
        raise _trouble(error, place, cache) from None
    cache.drop_unused()
    return target


def cached_manifest(folder: Path) -> SnapshotManifest | None:
    """Return the manifest of the snapshot that a folder of the cache was made of; None for any other folder."""
    if marker_of(folder) is None:
        return None
    return parse_manifest((folder / MANIFEST).read_bytes(), str(folder))


def _trouble(error: Exception, place: SnapshotPlace, cache: SnapshotCache) -> LibraryError:
    if is_full(error):
        return LibraryError(
            f"The disk of {cache.folder} is full, so the snapshot at {place.root} cannot be opened; make room, or name "
            "another disk (--snapshot-cache)."
        )
    if isinstance(error, OSError) and error.strerror:
        return LibraryError(f"{cache.folder} cannot be written ({error.strerror.lower()}); choose --snapshot-cache.")
    return LibraryError(f"The snapshot at {place.root} cannot be read ({type(error).__name__}); publish again.")


@dataclass(frozen=True)
class _Opening:
    """Makes a folder of a snapshot."""

    place: SnapshotPlace
    manifest: SnapshotManifest
    cache: SnapshotCache

    @property
    def _name(self) -> str:
        return f"{SNAPSHOTS}/{self.manifest.id}"

    def fill(self, folder: Path, progress: Progress) -> None:
        if self.manifest.schema_version != SCHEMA_VERSION:
            raise LibraryError(
                f"The snapshot {self.manifest.id} at {self.place.root} was made by evenreel {self.manifest.made_by}, "
                "which has other tables; publish the library again with this evenreel, or update it."
            )
        self._check_sizes()
        self._fetch(folder, stretch_of(progress, 0, 0.5))
        parts = self.manifest.parts
        for number, (name, part) in enumerate(parts.items()):
            share = stretch_of(progress, 0.5 + 0.5 * number / len(parts), 0.5 + 0.5 * (number + 1) / len(parts))
            self._fill_part(folder, name, part, share)
        (folder / MANIFEST).write_bytes(self.manifest.dump())
        shutil.rmtree(folder / FETCHED, ignore_errors=True)

    def _check_sizes(self) -> None:
        found = self.place.sizes(self._name)
        for name, one in self.manifest.objects.items():
            if found.get(name) != one.bytes:
                what = "is missing" if name not in found else f"has {found[name]} bytes instead of {one.bytes}"
                raise self._not_whole(name, what)

    def _not_whole(self, name: str, what: str) -> LibraryError:
        return LibraryError(
            f"The snapshot {self.manifest.id} at {self.place.root} is not what was published: {name} {what}; publish "
            "again."
        )

    def _is_wanted(self, name: str) -> bool:
        """Whether an object is read as a whole: not indexes, not stills, and no vectors that stay where they are."""
        part, _, rest = name.rpartition(".lance/")
        if not rest:
            return True
        return not (rest.startswith("_indices/") or part == "stills")

    def _path(self, folder: Path, name: str) -> Path:
        """Where an object lies that was fetched, or that needs no fetching."""
        return folder / FETCHED / name if self.place.is_remote else Path(self.place.at(f"{self._name}/{name}"))

    def _fetch(self, folder: Path, progress: Progress) -> None:
        wanted = {name: self._path(folder, name) for name in self.manifest.objects if self._is_wanted(name)}
        if self.place.is_remote:
            self.place.fetch({f"{self._name}/{name}": path for name, path in wanted.items()}, progress)
        for name, path in wanted.items():
            if _sha256(path) != self.manifest.objects[name].sha256:
                raise self._not_whole(name, "has another content")
        progress(1.0)

    def _dataset(self, folder: Path, part: str, table: str) -> Any:
        name = f"{part}/{table}.lance" if part else f"{table}.lance"
        return lance().dataset(str(self._path(folder, name)))

    def _fill_part(self, folder: Path, name: str, part: PublishedPart, progress: Progress) -> None:
        target = folder / name if name else folder
        target.mkdir(parents=True, exist_ok=True)

        def rows_of(table: str) -> Iterator[pa.RecordBatch]:
            columns = schema_of(table, 0).names
            dataset = self._dataset(folder, name, table)
            known = set(dataset.schema.names)
            if not known.issuperset(columns):
                raise self._not_whole(f"{table}.lance", "lacks columns")
            yield from dataset.to_batches(columns=columns, batch_size=AT_ONCE)

        fill_catalog(target / CATALOG, list(part.tables), rows_of)
        progress(0.5)
        if part.vector_rows:
            checksums = f"{name}/{CHECKSUMS}" if name else CHECKSUMS
            shutil.copyfile(self._path(folder, checksums), target / CHECKSUMS)
            self._copy_vectors(target, part, self._dataset(folder, name, MOMENTS))
        marker = SnapshotMarker(self.place.root, self.manifest.id, name, part.vector_rows, True)
        (target / SNAPSHOT_MARKER).write_text(json.dumps(marker._asdict()), encoding="utf-8")
        progress(1.0)

    def _copy_vectors(self, target: Path, part: PublishedPart, dataset: Any) -> None:
        """Copy the vectors."""
        path, rows, checksums = target / "vectors.0.f16", 0, Checksums()
        matrix = ExactVectors(path, part.dimension)
        for batch in dataset.to_batches(columns=[VECTOR], limit=part.vector_rows, batch_size=AT_ONCE):
            vectors = vectors_of_column(batch.column(VECTOR), part.dimension)
            matrix.append(vectors.astype(np.float32))
            checksums.add(vectors)
            rows += len(vectors)
        if rows != part.vector_rows or not np.array_equal(checksums.all(), np.fromfile(target / CHECKSUMS, "<u4")):
            raise self._not_whole(f"{MOMENTS}.lance", "lacks vectors, or has others")


def open_table(place: SnapshotPlace, name: str) -> Any:
    """Open a Lance table at a place, given by its name there."""
    return lance().dataset(place.at(name), storage_options=place.lance_options)


def vectors_of_column(column: pa.Array, dimension: int) -> np.ndarray[Any, np.dtype[np.float16]]:
    """Return the vectors (n, D) in a column of Arrow."""
    found: np.ndarray[Any, np.dtype[np.float16]] = column.flatten().to_numpy(zero_copy_only=False)
    return found.reshape(-1, dimension)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**22):
            digest.update(piece)
    return digest.hexdigest()
