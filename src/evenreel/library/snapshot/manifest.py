"""What a published snapshot is, and which of a place is the current one: two JSON documents."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, NamedTuple

from evenreel.documents import brief
from evenreel.errors import LibraryError
from evenreel.library.snapshot.place import POINTER, SNAPSHOTS, SnapshotPlace

FORMAT = 1
"""Version of the form of snapshots and of their pointer."""
MANIFEST = "manifest.json"
LEAST_RECALL = 0.99
"""Recall below which an index is refused."""

_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{16}")
_NAME = re.compile(r"[^\\\0]{0,500}")
_TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class _Version:
    format: int


class StoredObject(NamedTuple):
    """Size of an object in bytes, and the SHA-256 of its content."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class MeasuredIndex:
    """An index of a table, as it was measured when it was built.

    Attributes:
        table: name of the table.
        column: name of the column.
        kind: name that Lance has for this kind of index.
        recall: share that it found of what an exact search finds: of the first ten clips of text queries for vectors,
            of the rows of sampled values for others.
        kept: True if it is a part of the snapshot; False if its recall was too low.
        seconds: time that building took.
        how: what a search gives beside the query to reach this recall.
    """

    table: str
    column: str
    kind: str
    recall: float
    kept: bool
    seconds: float
    how: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedPart:
    """The library's own tables, or those of its sounds.

    Attributes:
        tables: rows of each table, by name.
        dimension: length of its vectors; 0 without vision.
        vector_rows: number of its vectors.
        indexes: indexes that were built, refused ones too.
    """

    tables: dict[str, int]
    dimension: int
    vector_rows: int
    indexes: tuple[MeasuredIndex, ...]


@dataclass(frozen=True)
class SnapshotManifest:
    """A published snapshot.

    Attributes:
        id: its name, which begins with the time at which it was begun.
        published: that time, in seconds since 1970.
        made_by: version of evenreel.
        schema_version: version of the catalog's tables.
        model: name of the library's model; None without vision.
        weights_hash: digest of that model's weights; None without vision.
        parts: the library itself under the name '', its sounds under `models/FOLDER`.
        stills: number of clips with stills; None where they were left out.
        objects: every object, by its name within the snapshot.
    """

    id: str
    published: float
    made_by: str
    schema_version: int
    model: str | None
    weights_hash: str | None
    parts: dict[str, PublishedPart]
    stills: int | None
    objects: dict[str, StoredObject]

    @property
    def size_bytes(self) -> int:
        """Size of all objects in bytes."""
        return sum(one.bytes for one in self.objects.values())

    def summary(self) -> dict[str, Any]:
        """Return the manifest as plain data, without its objects, in the form that `--json` prints."""
        return {**asdict(self), "objects": len(self.objects), "bytes": self.size_bytes}

    def dump(self) -> bytes:
        """Encode the manifest as JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()


class EarlierSnapshot(NamedTuple):
    """A snapshot that another has replaced, and when, in seconds since 1970."""

    id: str
    replaced: float


@dataclass(frozen=True)
class Pointer:
    """Which snapshot of a place is the current one.

    Attributes:
        id: the current snapshot.
        sha256: digest of its manifest.
        earlier: those before that are still there, the latest first.
    """

    id: str
    sha256: str
    earlier: tuple[EarlierSnapshot, ...] = ()

    def dump(self) -> bytes:
        """Encode the pointer as JSON."""
        earlier = [one._asdict() for one in self.earlier]
        return json.dumps({"format": FORMAT, "id": self.id, "sha256": self.sha256, "earlier": earlier}).encode()


def new_id(now: float) -> str:
    """Make the id of a snapshot that is begun now."""
    return f"{time.strftime(_TIME, time.gmtime(now))}-{secrets.token_hex(8)}"


def begun(snapshot_id: str) -> float | None:
    """Return when a snapshot was begun, in seconds since 1970; None for what is no id of one."""
    if not _ID.fullmatch(snapshot_id):
        return None
    import calendar

    return float(calendar.timegm(time.strptime(snapshot_id.partition("-")[0], _TIME)))


def read_pointer(place: SnapshotPlace) -> Pointer:
    """Read which snapshot of a place is the current one."""
    payload = place.read(POINTER)
    if payload is None:
        raise LibraryError(
            f"There is no published snapshot at {place.root}; make one with: evenreel publish --to {place.root}."
        )
    return parse_pointer(payload, place)


def parse_pointer(payload: bytes, place: SnapshotPlace) -> Pointer:
    """Parse the pointer of a place."""
    pointer: Pointer = _parsed(Pointer, payload, f"{place.root}/{POINTER}")
    if not all(map(_ID.fullmatch, (pointer.id, *(one.id for one in pointer.earlier)))):
        raise _damaged(f"{place.root}/{POINTER}")
    return pointer


def read_manifest(place: SnapshotPlace, pointer: Pointer) -> SnapshotManifest:
    """Read the manifest of the snapshot that a pointer names.

    Raises:
        LibraryError: it is missing, damaged, or of a later format.
    """
    name = f"{SNAPSHOTS}/{pointer.id}/{MANIFEST}"
    payload = place.read(name)
    if payload is None or hashlib.sha256(payload).hexdigest() != pointer.sha256:
        raise LibraryError(
            f"The snapshot {pointer.id} at {place.root} is {'not all there' if payload is None else 'damaged'} "
            f"({MANIFEST}); publish again."
        )
    return parse_manifest(payload, f"{place.root}/{name}")


def parse_manifest(payload: bytes, where: str) -> SnapshotManifest:
    """Parse a manifest; `where` names it in sentences."""
    found: SnapshotManifest = _parsed(SnapshotManifest, payload, where)
    names = (*found.objects, *found.parts)
    if any(name.startswith("/") or ".." in name.split("/") or not _NAME.fullmatch(name) for name in names):
        raise _damaged(where)
    return found


def _parsed(kind: Any, payload: bytes, where: str) -> Any:
    """Parse a record of a kind, each entry of the type that it has."""
    try:
        number = _adapter(_Version).validate_json(payload, strict=True).format
        if number <= FORMAT:
            return _adapter(kind).validate_json(payload, strict=True)
    except ValueError:  # pydantic's are some
        raise _damaged(where) from None
    raise LibraryError(
        f"The snapshot {where} has format {brief(number)}, this evenreel reads format {FORMAT}; update evenreel to "
        "read it."
    )


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _damaged(where: str) -> LibraryError:
    return LibraryError(f"{where} is not what evenreel publish writes; publish again.")
