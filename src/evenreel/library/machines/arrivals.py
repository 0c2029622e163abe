"""Files that workers on other machines leave for the one process that writes to the library."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import shutil
from pathlib import Path

from evenreel.errors import LibraryError, UsageError
from evenreel.library.places import reason_of

ARRIVING = "arriving"
"""Name of the folder in a library where workers leave what they made, or that says where else they do."""

_ELSEWHERE = "place"
_TOKEN = "run"
_SECRET = re.compile(r"[a-z0-9+.-]+://[^@]*:[^@]*@|s3://[^/]*@", re.IGNORECASE)

log = logging.getLogger("evenreel")


class Arrivals:
    """A place, a folder or any URL of fsspec, with files of one index run.

    A file is there whole or not at all; it need not survive a power cut, since the next run begins anew.
    """

    def __init__(self, place: str, token: str) -> None:
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self.place, self.token = place, token
        self._root: str
        try:
            self._files, self._root = url_to_fs(place) if "://" in place else (LocalFileSystem(), place)
        except ValueError as error:
            kind = place.partition("://")[0]
            raise LibraryError(
                f"{kind}:// is no kind of place that fsspec opens; name another one with --staging."
            ) from error
        except ImportError as error:  # its own sentence says what to install
            raise LibraryError(f"{place} cannot be opened ({error}); or name another place with --staging.") from error
        self._is_local = isinstance(self._files, LocalFileSystem)

    def begin(self) -> None:
        """Put the name of the run there."""
        try:
            self._write(_TOKEN, self.token.encode())
        except Exception as error:  # each kind of storage has errors of its own
            raise LibraryError(
                f"Nothing can be left at {self.place} ({reason_of(error)}); name another place with --staging."
            ) from None

    def is_open(self) -> bool:
        """Return whether the run goes on and its place can be reached from this machine."""
        try:
            return bool(self._files.cat_file(self._path(_TOKEN)) == self.token.encode())
        except Exception:  # each kind of storage has errors of its own
            return False

    def put(self, name: str, payload: bytes) -> None:
        """Leave a file."""
        if not self.is_open():
            raise OSError(None, f"the run is over, or {self.place} cannot be reached any more")
        self._write(name, payload)

    def take(self, name: str) -> bytes:
        """Return the content of a file."""
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except Exception as error:  # each kind of storage has errors of its own
            raise LibraryError(
                f"What a Ray worker left at {self.place} cannot be read ({reason_of(error)}); what was indexed so far "
                "is safe: run the same command again."
            ) from None

    def drop(self, name: str) -> None:
        """Delete a file, where that can be done now; else `clear` does."""
        with contextlib.suppress(Exception):  # each kind of storage has errors of its own
            self._files.rm_file(self._path(name))

    def clear(self) -> None:
        """Delete all that is there; what cannot be deleted is told in the log."""
        try:
            self._files.invalidate_cache()  # others have written here
            self._files.rm(self._root, recursive=True)
        except FileNotFoundError:
            pass
        except Exception as error:  # each kind of storage has errors of its own
            log.warning("what Ray workers left at %s could not be deleted: %s", self.place, reason_of(error))

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


def begin_arrivals(library: Path, staging: str | None) -> Arrivals:
    """Make a place that is one index run's alone, below `staging` or in the library, which notes where it is."""
    if staging is not None and _SECRET.match(staging):
        raise UsageError(
            "The address of --staging has credentials in it, which end in logs; take them out and set them in the "
            "environment, for s3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    token = secrets.token_hex(8)
    noted = library.absolute() / ARRIVING
    above = str(noted) if staging is None else staging if "://" in staging else str(Path(staging).absolute())
    made = Arrivals(f"{above.rstrip('/')}/{ARRIVING}-{token}", token)
    noted.mkdir(parents=True, exist_ok=True)
    (noted / _ELSEWHERE).write_text(made.place, encoding="utf-8", errors="surrogateescape")
    made.begin()
    return made


def clear_arrivals(library: Path) -> None:
    """Delete what the workers of a run have left, of one that was killed too, wherever that is."""
    noted = library / ARRIVING
    with contextlib.suppress(FileNotFoundError, LibraryError):  # none was noted, or the package for it is gone
        Arrivals((noted / _ELSEWHERE).read_text(encoding="utf-8", errors="surrogateescape"), "").clear()
    shutil.rmtree(noted, ignore_errors=True)
