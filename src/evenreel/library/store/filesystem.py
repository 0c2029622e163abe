"""A library's lock, the type of its file system, and free names for files that are put aside there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.features.lock import writer_lock

BROKEN = ".broken"
"""Ending of the name of a file that was put aside."""

NETWORK_FILESYSTEMS = frozenset(
    ("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afpfs", "9p", "ncpfs", "ceph", "lustre", "gpfs", "beegfs")
    + ("glusterfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone")
)


def library_lock(library: Path) -> AbstractContextManager[None]:
    """Lock a library for writing.

    Raises:
        LibraryError: (on entering) another process holds it, or the folder cannot be written.
    """
    return writer_lock(library, LibraryError, "use another --library")


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
