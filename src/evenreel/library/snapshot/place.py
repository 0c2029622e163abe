"""Place of published snapshots: a folder, or a prefix of a bucket. What goes wrong there becomes one sentence.

Credentials come from the environment alone (AWS_ACCESS_KEY_ID and so on, AWS_ENDPOINT_URL), and no sentence repeats
what an object store has answered, as such an answer may name a key.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.extras import needed_extra
from evenreel.files import write_durably
from evenreel.library.store.filesystem import remote_url
from evenreel.progress import Progress

CONNECT_S = 5
READ_S = 30
ATTEMPTS = 2
"""Attempts of each of two layers that try again: a store that never answers is waited for two minutes."""
AT_ONCE = 16
"""Objects that are sent or fetched before the progress is told."""
POINTER = "current.json"
SNAPSHOTS = "snapshots"

_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?")


class ChangedPointerError(LibraryError):
    """Raised where the pointer of a place is not what it was when it was read: somebody else has published."""


@dataclass(frozen=True)
class SnapshotPlace:
    """Place of published snapshots.

    Attributes:
        root: absolute path of a folder, or `s3://bucket/prefix`, without a slash at its end.
    """

    root: str

    @property
    def is_remote(self) -> bool:
        """True for a bucket, False for a folder."""
        return self.root.startswith("s3://")

    def at(self, name: str) -> str:
        """Return the path or URL of something at this place, given by its name with slashes."""
        return posixpath.join(self.root, name) if self.is_remote else str(Path(self.root, name))

    @cached_property
    def files(self) -> Any:
        """The file system of fsspec that this place is on."""
        if not self.is_remote:
            return _imported("fsspec").filesystem("file")
        retries = {"total_max_attempts": ATTEMPTS, "mode": "standard"}
        config = {"connect_timeout": CONNECT_S, "read_timeout": READ_S, "retries": retries}
        found = _imported("s3fs").S3FileSystem(config_kwargs=config, use_listings_cache=False)
        found.retries = ATTEMPTS
        return found

    @property
    def lance_options(self) -> dict[str, str] | None:
        """Options of Lance for this place; the credentials it takes from the environment by itself."""
        if not self.is_remote:
            return None
        options = {"connect_timeout": f"{CONNECT_S}s", "timeout": f"{READ_S}s", "client_max_retries": str(ATTEMPTS)}
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint:
            options |= {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()}
        if "AWS_REGION" not in os.environ and "AWS_DEFAULT_REGION" not in os.environ:
            options["aws_region"] = "us-east-1"
        return options

    def read(self, name: str) -> bytes | None:
        """Read a small object; None where there is none."""
        return self.read_marked(name)[0]

    def read_marked(self, name: str) -> tuple[bytes | None, str | None]:
        """Read a small object and the mark of this version of it; None, None where there is none."""
        with self.telling("read"):
            try:
                mark = self.files.info(self.at(name)).get("ETag") if self.is_remote else None
                found: bytes = self.files.cat_file(self.at(name))
            except FileNotFoundError:
                self._need_bucket()
                return None, None
        return found, mark

    def write_marked(self, name: str, payload: bytes, mark: str | None) -> None:
        """Put a small object in one step, if it is still the version with this mark; None: if there is none."""
        with self.telling("written"):
            if not self.is_remote:
                write_durably(Path(self.at(name)), payload)
                return
            condition = {"IfNoneMatch": "*"} if mark is None else {"IfMatch": mark}
            try:
                self.files.pipe_file(self.at(name), payload, **condition)
            except OSError as error:
                if isinstance(error, FileExistsError) or _code(error) in {"PreconditionFailed", "412", "409"}:
                    raise ChangedPointerError(
                        f"Somebody else has published to {self.root} meanwhile; publish again, one at a time."
                    ) from None
                raise

    def names(self) -> list[str]:
        """List the first names at this place: those of its files and folders."""
        return self._listed("")

    def snapshot_ids(self) -> list[str]:
        """List the snapshots at this place, unfinished ones too."""
        return self._listed(SNAPSHOTS)

    def _listed(self, name: str) -> list[str]:
        with self.telling("read"):
            try:
                found = self.files.ls(self.at(name) if name else self.root, detail=False)
            except FileNotFoundError:
                self._need_bucket()
                return []
        own = self.at(name) if name else self.root  # a bucket may have an object for the folder itself
        paths = {path.rstrip("/") for path in map(str, found)} - {own.removeprefix("s3://")}
        return sorted(path.rpartition("/")[2] for path in paths)

    def sizes(self, name: str) -> dict[str, int]:
        """List all objects below a name: name of each from there on -> its size in bytes."""
        with self.telling("read"):
            found = self.files.find(self.at(name), detail=True)
        start = len(self.at(name).removeprefix("s3://")) + 1
        return {path[start:].replace(os.sep, "/"): int(one["size"]) for path, one in found.items()}

    def send(self, files: Mapping[str, Path], progress: Progress) -> None:
        """Write files to this place, given by their names there."""
        self._moved([(str(path), self.at(name)) for name, path in files.items()], "put", progress)

    def fetch(self, files: Mapping[str, Path], progress: Progress) -> None:
        """Copy objects of this place, given by their names, to paths."""
        for path in {path.parent for path in files.values()}:
            path.mkdir(parents=True, exist_ok=True)
        self._moved([(self.at(name), str(path)) for name, path in files.items()], "get", progress)

    def _moved(self, pairs: Sequence[tuple[str, str]], how: str, progress: Progress) -> None:
        with self.telling("written" if how == "put" else "read"):
            for start in range(0, len(pairs), AT_ONCE):
                sources, targets = zip(*pairs[start : start + AT_ONCE], strict=True)
                getattr(self.files, how)(list(sources), list(targets))
                progress(min(1.0, (start + AT_ONCE) / len(pairs)))

    def remove(self, name: str) -> None:
        """Delete everything below a name; what is gone already is no error."""
        with self.telling("written"), contextlib.suppress(FileNotFoundError):
            self.files.rm(self.at(name), recursive=True)

    @contextlib.contextmanager
    def telling(self, what: str) -> Iterator[None]:
        """Turn errors of the `with` into a `LibraryError`: that this place cannot be `read` or `written`, and why."""
        try:
            yield
        except EvenreelError:
            raise
        except Exception as error:  # object stores fail in ways of their own
            raise LibraryError(f"{self.root} cannot be {what}: {reason_of(error)}.") from None

    def _need_bucket(self) -> None:
        """Tell a bucket that is not there from one without the object."""
        if self.is_remote:
            self.files.ls(self.root.removeprefix("s3://").partition("/")[0], detail=False)


def snapshot_place(given: str | Path) -> SnapshotPlace:
    """Read the place that a person names."""
    url = remote_url(given)
    if url is None:
        return SnapshotPlace(str(Path(given).absolute()))
    host = url.partition("://")[2].partition("/")[0]
    if "@" in host or ":" in re.sub(
        r":\d{1,5}$", "", host
    ):  # a key may have a slash in it, and then what is before it looks like the host
        raise UsageError(
            "The address of the snapshot has credentials in it, which end in logs; take them out and set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment."
        )
    if "?" in url or "#" in url or not _BUCKET.fullmatch(url):
        shown = re.split(r"[?#]", url)[0]
        raise UsageError(f"{shown} is no place of snapshots; give s3://BUCKET/PREFIX or a folder.")
    return SnapshotPlace(url.rstrip("/"))


def reason_of(error: BaseException) -> str:
    """Return why a store failed, in words that repeat none of its answer."""
    name, code = type(error).__name__, _code(error)
    reasons = {
        "there is no such bucket": code == "NoSuchBucket",
        "it is not there": isinstance(error, FileNotFoundError),
        "there is no right to it (the credentials of the environment, or the permissions of the folder)": (
            isinstance(error, PermissionError) or code in {"403", "AccessDenied", "InvalidAccessKeyId"}
        ),
        "the environment has no credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)": "Credential" in name,
        "it cannot be reached; check the network, and AWS_ENDPOINT_URL in the environment": (
            "Timeout" in name or "Connect" in name or isinstance(error, (TimeoutError, ConnectionError))
        ),
        "the disk is full": is_full(error),
    }
    if found := next((reason for reason, holds in reasons.items() if holds), None):
        return found
    if isinstance(error, OSError) and error.errno and error.__cause__ is None:
        return os.strerror(error.errno).lower()
    return f"the store failed ({code or name})"


def is_full(error: BaseException) -> bool:
    """Return whether an error says that a disk is full."""
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    return full or any(words in str(error) for words in ("No space left", "os error 28", "disk is full", "os error 27"))


def _code(error: BaseException) -> str:
    """The code of an answer of S3, which names no key."""
    response = getattr(error.__cause__ or error, "response", None) or getattr(error, "response", None)
    found = response.get("Error", {}).get("Code", "") if isinstance(response, Mapping) else ""
    return found if re.fullmatch(r"\w{1,40}", str(found)) else ""


def _imported(package: str) -> Any:
    """A package of the extra `scale`."""
    from importlib import import_module

    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        sentence = needed_extra(error, "A published snapshot")
        if sentence is None:
            raise
        raise LibraryError(sentence) from error


def lance() -> Any:
    """Import Lance."""
    os.environ.setdefault("LANCE_LOG", "error")  # it warns of what its next version will do
    return _imported("lance")
