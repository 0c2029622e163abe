"""Libraries that tests begin with, indexed once a run and copied.

A test that needs a library to do something with asks for a copy:

    prebuilt.library(videos, library)                     # as `index(videos, library)` of `tests.library.words_only`
    prebuilt.library(videos, library, SETTINGS)           # as `index_folders([videos], library, SETTINGS)`

The first call for a folder of these contents, by these settings and these stubs of models, indexes it; others, also of
other processes that test, copy what that one has made. The copy knows the caller's files as if it had read them, so
another run over it does nothing. `index` is called where indexing is what is tested, or where files changed since.
Wherever the folder is, and whatever it is called, the copy names the caller's paths.

Libraries that name subtitle files beside the videos cannot be copied: their shards hold the paths.
"""

from __future__ import annotations

import fcntl
import hashlib
import pickle
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import evenreel.encoders
from evenreel.config import IndexSettings
from evenreel.library import IndexReport, index_folders
from evenreel.library.index import run
from tests.library.damage import write
from tests.library.words_only import WORDS_ONLY

PLACE = Path()
"""Where libraries are kept, for all processes of a run; `tests/conftest.py` says where."""


def library(videos: Path, library: Path, settings: IndexSettings = WORDS_ONLY) -> IndexReport:
    """`library` as `index_folders([videos], library, settings)` makes it, and the report of that run."""
    assert not library.exists(), "a library is made, not changed"
    kept = PLACE / _key(videos, settings)
    PLACE.mkdir(exist_ok=True)
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / "report").is_file():
            shutil.copytree(videos, kept / videos.name)
            report = index_folders([kept / videos.name], kept / "library", settings)
            (kept / "report").write_bytes(pickle.dumps(report))
    shutil.copytree(kept / "library", library)
    _rename(library, kept / videos.name, videos)
    found: IndexReport = pickle.loads((kept / "report").read_bytes())
    return found


def _key(videos: Path, settings: IndexSettings) -> str:
    """A digest of all that the library hangs on."""
    stubs = _named(evenreel.encoders.load_encoder), run.READER
    digest = hashlib.sha256(repr((videos.name, settings, *stubs)).encode())
    for path in sorted(videos.rglob("*")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        digest.update(f"\0{path.relative_to(videos)}\0{content}".encode())
    return digest.hexdigest()[:16]


def _named(function: Any) -> Any:
    """What tells a function from the stubs that tests put into its place."""
    if isinstance(function, partial):
        return _named(function.func), function.keywords
    return function.__module__, function.__qualname__


def _rename(library: Path, before: Path, after: Path) -> None:
    """Have the files of a folder be those of another with the same contents."""
    with closing(sqlite3.connect(library / "catalog.sqlite")) as catalog:
        paths = [path for (path,) in catalog.execute("SELECT path FROM files")]
        origins = [origin for (origin,) in catalog.execute("SELECT origin FROM transcripts")]
    assert not any(str(origin).startswith(str(before)) for origin in origins), "its shards hold paths of subtitle files"
    changes = [f"UPDATE roots SET path = {_quoted(after)} WHERE path = {_quoted(before)}"]
    for path in paths:
        at = after / Path(path).relative_to(before)
        stamp = f"mtime_ns = {at.stat().st_mtime_ns}, ctime_ns = {at.stat().st_ctime_ns}"
        where = f"path = {_quoted(at)} WHERE path = {_quoted(Path(path))}"
        changes.append(f"UPDATE files SET root = {_quoted(after)}, {stamp}, {where}")
        changes.append(f"UPDATE names SET {where}")
    write(library, *changes)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
