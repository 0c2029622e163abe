"""Publishing: a library's own files in a folder or a bucket, behind a pointer; servers copy them and open the copy.

    PLACE/current.json       the snapshot that is read now, and the SHA-256 of its list
    PLACE/snapshots/ID.json  its list: each file as parts by their SHA-256, and in which piece each part lies
    PLACE/pieces/ID.N        parts that the snapshot before did not have, one after the other

The pointer is written last, so whoever reads meets the old snapshot or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from evenreel.config import as_path, check_settings, number
from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.extras import needed_extra
from evenreel.features.shards import are_whole, shard_files
from evenreel.files import is_temporary, make_folder, remove_unfinished, replacing_folder, write_durably
from evenreel.library.store import catalog
from evenreel.library.store.catalog import SNAPSHOT_MARKER, is_published, refuse_published, remote_url
from evenreel.library.store.user_tables import AT_HOME, FACES
from evenreel.library.store.vectors import HEADER_BYTES, MATRICES
from evenreel.library.store.writer import vectors_path
from evenreel.progress import Progress
from evenreel.types import Shown
from evenreel.version import __version__

FORMAT, MOST_HOURS, EVERY_S = 2, 1_000_000, 5.0
PART_BYTES, PIECE_BYTES = 16 * 2**20, 64 * 2**20
SENDING_S, READING_S = 3600.0, 3600.0  # for so long nothing is deleted that others may be sending, or read from a copy
POINTER, SNAPSHOTS, PIECES, LOCK = "current.json", "snapshots", "pieces", "publish.lock"

_ID = re.compile(r"2\d{7}T\d{6}Z-[0-9a-f]{16}")
log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class PublishSettings:
    """Settings of publishing a library.

    Attributes:
        stills: publish the small pictures of moments too, so that pages show them.
        keep_hours: hours for which a snapshot is kept after it was published; the last two are kept anyway.
    """

    stills: bool = True
    keep_hours: float = 24.0

    def __post_init__(self) -> None:
        hours = number(f"from 0 to {MOST_HOURS:,}", lambda value: 0 <= value <= MOST_HOURS)
        check_settings("publishing", self, {"keep_hours": hours})


@dataclass(frozen=True)
class PublishReport(Shown):
    """Place and id of what was published, its bytes, those that had to be sent, and the snapshots that went."""

    to: str
    id: str
    bytes: int
    sent_bytes: int
    dropped: tuple[str, ...]
    seconds: float


class Pointer(NamedTuple):
    format: int
    id: str
    sha256: str


@dataclass(frozen=True)
class Snapshot:
    id: str
    made_by: str
    schema_version: int
    place: str  # where it was published first, or of a copy, where it was fetched from
    files: dict[str, list[tuple[str, int]]] = field(default_factory=dict)  # SHA-256 and bytes of each part
    parts: dict[str, tuple[str, int]] = field(default_factory=dict)  # piece and offset of each, by SHA-256

    @property
    def size_bytes(self) -> int:
        return sum(size for parts in self.files.values() for _, size in parts)

    def laid_out(self, folder: Path) -> Iterator[tuple[str, Path, int, int]]:
        """Each part, by its SHA-256: the file in a folder in which it lies, where, and its size."""
        for name, parts in self.files.items():
            if not (path := folder / name).resolve().is_relative_to(folder.resolve()):
                raise LibraryError(f"The snapshot at {self.place} has a file that leads out of it; publish again.")
            at = 0
            for part, size in parts:
                yield part, path, at, size
                at += size


def publish_library(
    library: str | Path, to: str | Path, settings: PublishSettings | None = None, progress: Progress | None = None
) -> PublishReport:
    """Publish a snapshot of a library, in place of the one that was published there before.

    Readers go on with the old one until the new one is whole. The library may be searched and indexed meanwhile.

    Args:
        library: folder of the library.
        to: place of the snapshots: a folder, or `s3://bucket/prefix`; credentials come from the environment.
        settings: what is published, and how long what was there is kept.
        progress: called with the share that is done.

    Raises:
        UsageError: the address has credentials in it, or is none.
        LibraryError: the library is damaged, the place cannot be written or holds something else, somebody else is
            publishing there, or the extra `scale` is not installed.
    """
    settings, place, began = settings or PublishSettings(), Place(to, "s3"), time.time()
    refuse_published(library := as_path(library, "library"))
    with telling(f"Nothing was published to {place.root}"), _alone(place), tempfile.TemporaryDirectory() as room:
        pointed, mark = place.read(POINTER)
        before = None if pointed is None else _pointer(place)
        made = Snapshot(_now() + secrets.token_hex(8), __version__, catalog.SCHEMA_VERSION, place.root)
        sources = list(_sources(library, Path(room), settings.stills))
        known = {} if before is None else _snapshot(place, before).parts
        sent = _send(place, sources, made, known, progress or (lambda share: None))
        place.put(f"{SNAPSHOTS}/{made.id}.json", listed := json.dumps(asdict(made)).encode())
        pointer = json.dumps(Pointer(FORMAT, made.id, hashlib.sha256(listed).hexdigest())._asdict()).encode()
        try:
            place.put(POINTER, pointer, **({"IfMatch": mark} if mark else {"IfNoneMatch": "*"}))
        except OSError:
            if place.read(POINTER)[0] != pointer:  # else it was put, and only the answer was lost
                raise
        old = _now(-max(settings.keep_hours * 3600, SENDING_S))
        dropped = _tidied(place, {made.id} if before is None else {made.id, before.id}, old)
    return PublishReport(place.root, made.id, made.size_bytes, sent, dropped, round(time.time() - began, 2))


def _now(later_s: float = 0.0) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime(max(0.0, time.time() + later_s)))


@contextlib.contextmanager
def _alone(place: Place) -> Iterator[None]:
    """Refuse a place with something else, and hold a folder against other publishers; of a bucket the pointer is."""
    if strange := set(place.names()) - {POINTER, SNAPSHOTS, PIECES, LOCK}:
        what = f"{place.root} holds something that is no published snapshot ({min(strange)[:80]})"
        raise LibraryError(f"{what}; publish to a place of its own.")
    if place.is_remote:
        yield
        return
    make_folder(Path(place.root))
    try:
        with FileLock(f"{place.root}/{LOCK}", timeout=0):
            yield
    except Timeout:
        raise LibraryError(f"Somebody else is publishing to {place.root}; publish again after that.") from None


def _pointer(place: Place) -> Pointer:
    payload, _ = place.read(POINTER)
    if payload is None:
        raise LibraryError(f"There is no published snapshot at {place.root}; evenreel publish makes one.")
    what = "is not what evenreel publish writes"
    with contextlib.suppress(TypeError, ValueError, AttributeError, RecursionError):
        found = Pointer(**json.loads(payload))
        if found.format == FORMAT and _ID.fullmatch(found.id):
            return found
        what = f"has format {found.format:d}, this evenreel reads format {FORMAT}"
    raise LibraryError(f"{place.root}/{POINTER} {what}; delete it and publish again.")


def _snapshot(place: Place, pointer: Pointer) -> Snapshot:
    payload, _ = place.read(f"{SNAPSHOTS}/{pointer.id}.json")
    if payload is None or hashlib.sha256(payload).hexdigest() != pointer.sha256:
        how = "gone" if payload is None else "damaged"
        raise LibraryError(f"The list of the snapshot {pointer.id} at {place.root} is {how}; publish again.")
    return Snapshot(**json.loads(payload))


def _sources(library: Path, room: Path, stills: bool) -> Iterator[tuple[str, Path, int]]:
    """Each file that a server needs: its name, where it lies now, and how many of its bytes count."""
    copy, clean = room / "copy.sqlite", room / catalog.CATALOG
    live = contextlib.closing(catalog.open_for_reading(library))
    with live as there, contextlib.closing(sqlite3.connect(copy)) as own:
        there.backup(own)
        if own.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise catalog.damaged(library, sqlite3.DatabaseError("SQLite's check fails"))
        for table in (*AT_HOME, *FACES):
            own.execute(f"DELETE FROM {table}")
        own.commit()
        own.execute("VACUUM INTO ?", (str(clean),))  # nothing that was deleted is left in it, and rows keep their ids
        meta = catalog.get_meta(own)
    copy.unlink()
    yield catalog.CATALOG, clean, clean.stat().st_size
    for of in MATRICES:
        if rows := int(of.own(meta).get("vectors_end", "0")):
            vectors = vectors_path(library, meta, of)
            yield vectors.name, vectors, HEADER_BYTES + rows * 2 * int(of.own(meta)["dimension"])
    for path in filter(are_whole, shard_files(library / catalog.STILLS) if stills else ()):
        yield path.relative_to(library).as_posix(), path, path.stat().st_size


def _send(
    place: Place,
    sources: Collection[tuple[str, Path, int]],
    made: Snapshot,
    known: dict[str, tuple[str, int]],
    progress: Progress,
) -> int:
    """Send the parts of files that are not known, and note where each lies; returns how many bytes were sent."""
    piece, pieces, sent = bytearray(), 0, 0
    for done, (name, path, size) in enumerate(sources):
        made.files[name] = []
        with path.open("rb") as file:
            while part := file.read(min(PART_BYTES, size - file.tell())):
                digest = hashlib.sha256(part).hexdigest()
                made.files[name].append((digest, len(part)))
                if digest in known:
                    made.parts[digest] = known[digest]
                elif digest not in made.parts:
                    if len(piece) + len(part) > PIECE_BYTES:
                        place.put(f"{PIECES}/{made.id}.{pieces}", bytes(piece))
                        pieces, sent, piece = pieces + 1, sent + len(piece), bytearray()
                    made.parts[digest] = (f"{made.id}.{pieces}", len(piece))
                    piece += part
            if file.tell() < size:
                remedy = "run `evenreel verify --repair`, then publish"
                raise LibraryError(f"{path} is shorter than the catalog says; {remedy}.")
        progress((done + 1) / len(sources))
    if piece:
        place.put(f"{PIECES}/{made.id}.{pieces}", bytes(piece))
    return sent + len(piece)


def _tidied(place: Place, kept: set[str], old: str) -> tuple[str, ...]:
    """Delete old snapshots and what no other needs, also of publishers that were killed; returns which went."""
    try:
        lists = {name.removesuffix(".json") for name in place.names(SNAPSHOTS) if not is_temporary(name)}
        gone = {one for one in lists - kept if one < old}
        read = [place.read(f"{SNAPSHOTS}/{one}.json")[0] or b"" for one in lists - gone]
        needed = {piece for one in read for piece, _ in json.loads(one)["parts"].values()}
        for name in [*(f"{one}.json" for one in gone), *set(place.names(PIECES)) - needed]:
            if (_ID.match(name) and name < old) or is_temporary(name):
                place.remove(f"{SNAPSHOTS if name.endswith('.json') else PIECES}/{name}")
        return tuple(sorted(gone))
    except Exception as error:  # no failure of what was published
        log.warning("older snapshots at %s could not be deleted (%s), they take room", place.root, type(error).__name__)
        return ()


def local_folder(given: str | Path, cache: Path | None = None, progress: Progress | None = None) -> Path:
    """Return the folder that a library is read from: its own, or a copy of the current snapshot in the cache."""
    if not is_published(given):
        return Path(given)
    from platformdirs import user_cache_path

    place, cache = Place(given, "s3"), cache or user_cache_path("evenreel") / "snapshots"
    with telling(f"{place.root} cannot be opened in {cache} (--snapshot-cache)"):
        make_folder(cache)
        with FileLock(cache / f".{hashlib.sha256(place.root.encode()).hexdigest()[:16]}.lock"):
            while not (target := cache / (pointer := _pointer(place)).id).exists():
                remove_unfinished(target)
                try:
                    with replacing_folder(target) as part:
                        _copy(place, pointer, part, progress or (lambda share: None))
                except LibraryError:
                    if _pointer(place) == pointer:  # else another took its place, and it is gone
                        raise
            os.utime(target)
            for old in (path.parent for path in cache.glob(f"[!.]*/{SNAPSHOT_MARKER}") if path.parent != target):
                copied, is_unread = copy_of(old), time.time() - old.stat().st_mtime > READING_S
                if is_unread and copied is not None and copied.place == place.root:
                    with contextlib.suppress(OSError):  # where a file that is open cannot be moved
                        shutil.rmtree(old.rename(old.with_name(f".{old.name}.{secrets.token_hex(8)}.tmp")))
    return target


@lru_cache(maxsize=8)
def copy_of(folder: Path) -> Snapshot | None:
    """Return the snapshot that a folder is a copy of; None for any other folder."""
    with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
        return Snapshot(**json.loads((folder / SNAPSHOT_MARKER).read_bytes()))
    return None


def _copy(place: Place, pointer: Pointer, folder: Path, progress: Progress) -> None:
    """Fill a folder with the files of a snapshot; parts that earlier copies have are taken from there."""
    snapshot = replace(_snapshot(place, pointer), place=place.root)
    if snapshot.schema_version != catalog.SCHEMA_VERSION:
        raise LibraryError(
            f"The snapshot {snapshot.id} at {place.root} was made by evenreel {snapshot.made_by}, which has other "
            "tables; publish the library again with this evenreel, or update it."
        )
    os.chmod(folder, 0o700)  # stills may be of private videos
    here: dict[str, tuple[Path, int]] = {}
    for marked in folder.parent.glob(f"[!.]*/{SNAPSHOT_MARKER}"):
        if (copied := copy_of(marked.parent)) is not None:
            here |= {part: (path, at) for part, path, at, _ in copied.laid_out(marked.parent)}
    missing = defaultdict(list)
    for part, path, at, size in snapshot.laid_out(folder):
        content = b""
        with contextlib.suppress(OSError, KeyError), here[part][0].open("rb") as file:
            file.seek(here[part][1])
            content = file.read(size)
        if not _is_put(part, content, path, at):
            piece, start = snapshot.parts[part]
            missing[piece].append((part, slice(start, start + size), path, at))
    for done, (piece, wanted) in enumerate(missing.items()):
        payload, _ = place.read(f"{PIECES}/{piece}")
        for part, where, path, at in wanted:
            if not _is_put(part, (payload or b"")[where], path, at):
                how = "gone" if payload is None else "damaged"
                raise LibraryError(f"The piece {piece} of the snapshot at {place.root} is {how}; publish again.")
        progress((done + 1) / len(missing))
    (folder / SNAPSHOT_MARKER).write_text(json.dumps(asdict(snapshot)))


def _is_put(part: str, content: bytes, path: Path, at: int) -> bool:
    """Write a part of a file, if it is what its SHA-256 says."""
    if hashlib.sha256(content).hexdigest() != part:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(at)
        file.write(content)
    return True


class FollowedLibrary:
    """The folder that a library is read from: its own, or a copy of the newest snapshot, which is looked for."""

    def __init__(self, given: Path, cache: Path | None = None) -> None:
        self.folder, self.is_published = given, is_published(given)
        self._given, self._cache, self._ended = given, cache, threading.Event()

    def start(self) -> None:
        if self.is_published and self.folder == self._given:
            self.folder = local_folder(self._given, self._cache)
            threading.Thread(target=self._follow, name="follow", daemon=True).start()

    def close(self) -> None:
        self._ended.set()

    def stills_of(self, clip_id: str) -> Path:
        return self.folder / catalog.STILLS

    def _follow(self) -> None:
        said = ""
        while not self._ended.wait(EVERY_S):
            try:
                self.folder, said = local_folder(self._given, self._cache), ""
            except EvenreelError as error:  # the last snapshot is still served
                if str(error) != said:
                    log.warning("no newer snapshot can be taken up: %s", error)
                said = str(error)


# The place: a folder or a bucket that several machines reach; Ray workers leave what they read at one, too ------------
#
# Credentials come from the environment alone, and no sentence repeats what a store has answered: it may name a key.

_WAITS = {"connect_timeout": 5, "read_timeout": 30, "retries": {"total_max_attempts": 2}}  # two minutes in all
_S3: dict[str, Any] = {"use_listings_cache": False, "config_kwargs": _WAITS}


class Place:
    """A folder, or a URL that fsspec opens; an object is there whole or not at all."""

    def __init__(self, given: str | Path, kinds: str = "[a-z][a-z0-9+.-]*") -> None:
        url = remote_url(given := str(given).removeprefix("file://"))
        self.root, self.is_remote = url.rstrip("/") if url else str(Path(given).absolute()), url is not None
        if url and not re.fullmatch(rf"({kinds})://[\w.-]*(:\d{{1,5}})?(/[^@?#]*)?", url):
            raise UsageError(
                "The address of the place cannot be used: give a folder or s3://BUCKET/PREFIX. Credentials belong "
                "in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), not in the address, which ends in logs."
            )
        kind = url.partition("://")[0] if url else "file"
        try:
            import fsspec

            self.files: Any = fsspec.filesystem(kind, **(_S3 if kind == "s3" else {}))
        except ValueError as error:
            raise LibraryError(f"{kind}:// is no kind of place that fsspec opens; name another one.") from error
        except ImportError as error:  # fsspec says in a sentence of its own what else a kind needs
            missing = ModuleNotFoundError(name="s3fs" if kind == "s3" else error.name)
            raise LibraryError(needed_extra(missing, "A shared place") or f"{self.root}: {error}") from error
        self.files.retries = 2

    def read(self, name: str) -> tuple[bytes | None, str | None]:
        """Read an object and the mark of this version of it; None, None where there is none."""
        try:
            mark = self.files.info(f"{self.root}/{name}").get("ETag") if self.is_remote else None
            return self.files.cat_file(f"{self.root}/{name}"), mark
        except FileNotFoundError:
            if self.root.startswith("s3://"):  # raises where there is no such bucket
                self.files.ls(self.root.split("/")[2], detail=False)
            return None, None

    def put(self, name: str, payload: bytes, **condition: str) -> None:
        if self.is_remote:
            self.files.pipe_file(f"{self.root}/{name}", payload, **condition)
        else:
            write_durably(Path(self.root, name), payload)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.files.rm_file(f"{self.root}/{name}")

    def names(self, folder: str = "") -> list[str]:
        own = f"{self.root}/{folder}".rstrip("/")
        with contextlib.suppress(FileNotFoundError):
            found = {str(path).replace(os.sep, "/").rstrip("/") for path in self.files.ls(own, detail=False)}
            return sorted(path.rpartition("/")[2] for path in found - {own.partition("://")[2]})
        return []


@contextlib.contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn any error into one sentence: what cannot be done, and why."""
    try:
        yield
    except EvenreelError:
        raise
    except Exception as error:  # object stores fail in ways of their own
        raise LibraryError(f"{what}: {reason_of(error)}.") from None


def reason_of(error: BaseException) -> str:  # noqa: PLR0911 -- one for each kind
    response = getattr(error.__cause__ or error, "response", None)
    found = str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
    code, name = found if re.fullmatch(r"\w{1,40}", found) else "", type(error).__name__
    if isinstance(error, FileExistsError) or code in {"PreconditionFailed", "412", "409"}:
        return "somebody else has published there meanwhile; publish again, one at a time"
    if code == "NoSuchBucket":
        return "there is no such bucket"
    if isinstance(error, PermissionError) or code in {"403", "AccessDenied", "InvalidAccessKeyId"}:
        return "there is no right to it (the credentials of the environment, or the permissions of the folder)"
    if "Credential" in name:
        return "the environment has no credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)"
    if "Timeout" in name or "Connect" in name:
        return "it cannot be reached; check the network, and AWS_ENDPOINT_URL in the environment"
    if is_full(error):
        return "the disk is full; make room, or name another one"
    if isinstance(error, OSError) and error.errno and error.__cause__ is None:
        return os.strerror(error.errno).lower()
    return f"it failed ({code or name})"


def is_full(error: BaseException) -> bool:
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    return full or "No space left" in str(error) or "disk is full" in str(error)
