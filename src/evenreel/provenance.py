"""Provenance of a result: when it was made, by which command and version, and of which inputs."""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evenreel.version import __version__

_SHOWN = 12
"""Hex digits of a digest that are shown: enough that no two inputs of a person's share them."""

_SECRET = frozenset({"--token"})
"""Options whose value is nobody else's business."""

_CATALOG, _SHARDS = "catalog.sqlite", "shards"
_CONTENT = (
    *("clips.parquet", "captions.parquet", "texts.parquet", "classes.parquet"),
    *("features.json", "config.json", "dictionary.parquet"),
)
"""Files that make a folder a corpus, features (whose manifest says of which encoder), a checkpoint or a dictionary."""

_WEIGHTS = "*.safetensors"

_typed: ContextVar[str] = ContextVar("typed", default="")

Place = str | Path | None


@dataclass(frozen=True)
class Input:
    """A file or folder that a result was made of.

    Attributes:
        what: its role in the result, `scores` for example.
        place: its path, as the caller gave it.
        digest: first digits of a SHA-256 over its content, in hex; empty for other than files and known kinds of
            folders.
    """

    what: str
    place: str
    digest: str


@dataclass(frozen=True)
class Provenance:
    """When a result was made, by which command and version, and of which inputs.

    Attributes:
        made: date and time, in UTC; that of the environment variable SOURCE_DATE_EPOCH where it is set, so that a page
            can be made again byte for byte.
        version: version of evenreel.
        command: command as it was typed, quoted for a shell; empty where the result was made from Python.
        inputs: files and folders, in the order given.
    """

    made: str
    version: str
    command: str
    inputs: tuple[Input, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return date, version, command and inputs as plain data."""
        return asdict(self)


@contextmanager
def typed(arguments: Sequence[str]) -> Iterator[None]:
    """Record the typed command for results made within the `with`; secrets are left out."""
    before = _typed.set(_command(arguments))
    try:
        yield
    finally:
        _typed.reset(before)


def _command(arguments: Sequence[str]) -> str:
    shown: list[str] = []
    hidden = False
    for word in arguments:
        option, equals, _ = word.partition("=")
        shown.append("..." if hidden else f"{option}=..." if equals and option in _SECRET else word)
        hidden = word in _SECRET
    return shlex.join(["evenreel", *shown])


def provenance_of(inputs: Mapping[str, Place | Iterable[Place]] | None = None) -> Provenance:
    """Make the provenance of a result that is made now."""
    told = [(what, place) for what, given in (inputs or {}).items() for place in _places(given)]
    found = (Input(what, str(place), digest_of(Path(place))) for what, place in told)
    return Provenance(_now(), __version__, _typed.get(), tuple(found))


def digest_of(path: Path) -> str:
    """Compute the first digits of a SHA-256, in hex, over a file or folder; empty where its kind is not known.

    Of a folder those files count that make it a corpus, a checkpoint, a dictionary or features, wherever the folder
    lies. Of a library its clips count, which are named after their content.
    """
    total = hashlib.sha256()
    try:
        if path.is_file():
            _add(total, path)
            return total.hexdigest()[:_SHOWN]
        if (path / _CATALOG).is_file():
            names = sorted(one.name for one in (path / _SHARDS).rglob("*.safetensors"))
            total.update("\n".join(names).encode())
            return total.hexdigest()[:_SHOWN]
        parts = [path / name for name in _CONTENT if (path / name).is_file()] + sorted(path.glob(_WEIGHTS))
        for part in parts:
            total.update(f"{part.name}\n".encode())
            _add(total, part)
        return total.hexdigest()[:_SHOWN] if parts else ""
    except (OSError, ValueError):  # gone, closed, or a name that no system takes
        return ""


def _places(given: Place | Iterable[Place]) -> list[str | Path]:
    several = [given] if given is None or isinstance(given, (str, Path)) else given
    return [place for place in several if place is not None]


def _add(total: hashlib._Hash, path: Path) -> None:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)


def _now() -> str:
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    when_s = int(fixed) if fixed.isascii() and fixed.isdigit() and len(fixed) <= 11 else time.time()
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(when_s))
