"""What kind of place a library is at, its lock and its file system, and free names for files that are put aside."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.features.pool import writer_lock

SNAPSHOT_MARKER = "snapshot.json"
"""Name of the file that says which snapshot a folder in the cache was made of."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)

BROKEN = ".broken"
"""Ending of the name of a file that was put aside."""

NETWORK_FILESYSTEMS = frozenset(
    ("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afpfs", "9p", "ncpfs", "ceph", "lustre", "gpfs", "beegfs")
    + ("glusterfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone")
)


def library_lock(library: Path) -> AbstractContextManager[None]:
    """Lock a library for writing."""
    refuse_published(library)
    return writer_lock(library, LibraryError, "use another --library")


def size_of(folder: Path) -> int:
    """Return the size of all files in a folder in bytes; 0 where there is none."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # gone by now
            total += path.stat().st_size if path.is_file() else 0
    return total


def is_network_filesystem(path: Path) -> bool:
    """Return whether a path is on a file system where SQLite's write-ahead log and locks are not safe."""
    return filesystem_type(path) in NETWORK_FILESYSTEMS


def filesystem_type(path: Path) -> str:
    """Return the type of the file system that holds a path, '' where it is unknown."""
    import psutil

    place = str(path.absolute())
    mounts = [
        (len(part.mountpoint), part.fstype.lower())
        for part in psutil.disk_partitions(all=True)
        if place == part.mountpoint or place.startswith(part.mountpoint.rstrip("/") + "/")
    ]
    return max(mounts, default=(0, ""))[1]


def free_name(path: Path) -> Path:
    """Return the first name beside a path, with `BROKEN` and a number, that is not taken."""
    number = 1
    while (name := path.with_name(f"{path.name}{BROKEN}-{number}")).exists():
        number += 1
    return name


def remote_url(given: str | Path) -> str | None:
    """Return the URL that a text or a path names, such as `s3://bucket/prefix`; None for a path on this machine.

    A URL that was taken for a path has lost one of its slashes.

    >>> remote_url(Path("s3://bucket/films")), remote_url("films"), remote_url("C:/films")
    ('s3://bucket/films', None, None)
    """
    text = given.as_posix() if isinstance(given, Path) else str(given)
    found = _URL.fullmatch(text)
    return f"{found[1].lower()}://{found[2]}" if found else None


def is_published(place: str | Path) -> bool:
    """Return whether a place holds published snapshots: a URL, or a folder with a pointer to one and no catalog."""
    if remote_url(place) is not None:
        return True
    folder = Path(place)
    try:
        return (folder / "current.json").is_file() and not (folder / "catalog.sqlite").exists()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise LibraryError(f"{folder} cannot be opened ({why}); name another --library.") from error


def refuse_published(library: Path) -> None:
    """Refuse to write to a published snapshot, or to the folder that a snapshot is read from."""
    if is_published(library) or (library / SNAPSHOT_MARKER).exists():
        shown = "The library" if remote_url(library) else f"The library {library}"
        raise LibraryError(
            f"{shown} is a published snapshot, which is only read; change the library that it was made of, and publish "
            "that again."
        )
