"""Files that workers on other machines leave for the one process that writes to the library."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from pathlib import Path

from evenreel.errors import LibraryError

ARRIVING = "arriving"
"""Name of the folder in a library where workers leave what they made."""

_TOKEN = "run"


class Arrivals:
    """A place, a folder or any URL of fsspec, with files of one index run.

    A file is there whole or not at all; it need not survive a power cut, since the next run begins anew.

    Args:
        place: the folder, absolute, or the URL.
        token: name of the run.
    """

    def __init__(self, place: str, token: str) -> None:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.place, self.token = place, token
        if "://" in place:
            self._files, self._root = url_to_fs(place)
        else:
            self._files, self._root = LocalFileSystem(), place
        self._is_local = isinstance(self._files, LocalFileSystem)

    def begin(self) -> None:
        """Take away what an earlier run left, and put the name of this one there.

        Raises:
            LibraryError: the place cannot be written.
        """
        try:
            self.clear()
            self._write(_TOKEN, self.token.encode())
        except Exception as error:  # each kind of storage has errors of its own
            why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
            raise LibraryError(
                f"Nothing can be left at {self.place} ({why}); name another place with --staging."
            ) from error

    def is_open(self) -> bool:
        """Return whether the run goes on and its place can be reached from this machine."""
        try:
            return bool(self._files.cat_file(self._path(_TOKEN)) == self.token.encode())
        except Exception:  # each kind of storage has errors of its own
            return False

    def put(self, name: str, payload: bytes) -> None:
        """Leave a file.

        Raises:
            OSError: the place is full, or cannot be reached or written.
        """
        if not self.is_open():
            raise OSError(None, f"the run is over, or {self.place} cannot be reached any more")
        self._write(name, payload)

    def take(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            OSError: it is gone, or cannot be read.
        """
        return bytes(self._files.cat_file(self._path(name)))

    def drop(self, name: str) -> None:
        """Delete a file; one that is gone is none."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def clear(self) -> None:
        """Delete all that is there."""
        with contextlib.suppress(FileNotFoundError):
            self._files.rm(self._root, recursive=True)

    def _write(self, name: str, payload: bytes) -> None:
        path = self._path(name)
        if not self._is_local:  # an object is there whole or not at all
            self._files.pipe_file(path, payload)
            return
        part = f"{path}.{secrets.token_hex(8)}"
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            self._files.pipe_file(part, payload)
            self._files.mv(part, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self._files.rm_file(part)
            raise

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"


def place_of_arrivals(library: Path, staging: str | None) -> str:
    """Return where the workers of a library's run leave files: below `staging`, or in the library."""
    if staging is None:
        return str(library.absolute() / ARRIVING)
    place = staging if "://" in staging else str(Path(staging).absolute())
    return f"{place.rstrip('/')}/{ARRIVING}-{hashlib.sha256(bytes(library.absolute())).hexdigest()[:16]}"
