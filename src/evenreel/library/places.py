"""A place that several machines reach, a folder or a bucket: what snapshots are published to, and Ray workers leave.

Credentials come from the environment alone, and no sentence repeats what a store has answered: it may name a key.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evenreel.errors import EvenreelError, LibraryError, UsageError
from evenreel.extras import needed_extra
from evenreel.files import write_durably
from evenreel.library.store.filesystem import remote_url

_S3: dict[str, Any] = {
    "use_listings_cache": False,
    "config_kwargs": {"connect_timeout": 5, "read_timeout": 30, "retries": {"total_max_attempts": 2}},
}
"""A store that never answers is waited for two minutes."""


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
        """Write an object; on a condition, where the place is a bucket."""
        if self.is_remote:
            self.files.pipe_file(f"{self.root}/{name}", payload, **condition)
        else:
            write_durably(Path(self.root, name), payload)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.files.rm_file(f"{self.root}/{name}")

    def names(self, folder: str = "") -> list[str]:
        """List the first names in a folder."""
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


def reason_of(error: BaseException) -> str:
    """Return why a store or a disk failed, in words of our own."""
    response = getattr(error.__cause__ or error, "response", None)
    found = str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
    code, name = found if re.fullmatch(r"\w{1,40}", found) else "", type(error).__name__
    reasons = {
        "somebody else has published there meanwhile; publish again, one at a time": (
            isinstance(error, FileExistsError) or code in {"PreconditionFailed", "412", "409"}
        ),
        "there is no such bucket": code == "NoSuchBucket",
        "there is no right to it (the credentials of the environment, or the permissions of the folder)": (
            isinstance(error, PermissionError) or code in {"403", "AccessDenied", "InvalidAccessKeyId"}
        ),
        "the environment has no credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)": "Credential" in name,
        "it cannot be reached; check the network, and AWS_ENDPOINT_URL in the environment": (
            "Timeout" in name or "Connect" in name
        ),
        "the disk is full; make room, or name another one": is_full(error),
        os.strerror(getattr(error, "errno", None) or 0).lower(): (
            isinstance(error, OSError) and bool(error.errno) and error.__cause__ is None
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), f"it failed ({code or name})")


def is_full(error: BaseException) -> bool:
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    return full or "No space left" in str(error) or "disk is full" in str(error)
