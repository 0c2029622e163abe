"""Contents of a library: the details of one clip, and its files with those that were set aside and why.

Every function reads the catalog through the caller's connection. Names and folders are for people (see
`evenreel.wording.printable`), and folders are relative to the indexed folder, so that no answer shows how a disk is
laid out.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from evenreel.errors import LibraryError, NotFoundError, UsageError
from evenreel.features.shards import read_shard, shard_path
from evenreel.files import file_at, name_key
from evenreel.library.search.hits import TextHit
from evenreel.library.store.catalog import load_metadata, loaded_path, stored_path
from evenreel.media.content import FileStamp
from evenreel.types import Metadata
from evenreel.wording import printable

STATES = ("indexed", "set_aside", "missing")

MAX_SIGNS = 500
"""Most on-screen texts that are listed of one clip; a ticker has thousands."""

LONGEST_EXAMPLE = 60
"""Most characters of a search that is offered as an example."""

LONGEST_SHOWN = 80
"""Most characters of a clip's id or path in an error."""


@dataclass(frozen=True)
class ClipFile:
    """A file with the content of a clip."""

    name: str  # name of the file
    folder: str  # its folder, relative to the indexed one; '' at the top of that
    state: str  # `indexed`, `set_aside` or `missing`


@dataclass(frozen=True)
class ClipDetail:
    """Everything that a library knows about one clip."""

    clip_id: str
    name: str  # name of its first file, indexed ones before others
    files: tuple[ClipFile, ...]
    duration_s: float | None
    container: str
    codec: str
    width: int
    height: int
    fps: float | None
    moments: int  # number of frames that were encoded or read
    signs: tuple[TextHit, ...]  # on-screen texts in order of time, at most `MAX_SIGNS`, as they were read
    notes: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)  # metadata of its first indexed file
    starts_s: float = 0.0  # what the file's own clock shows at our time 0, in seconds
    # start and end of each shot in seconds; empty where they were not looked for
    shots: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class ListedFile:
    """A file of a library; `reason` (of `evenreel.errors.Reason`) and `sentence` say why one was set aside."""

    name: str
    folder: str
    state: str
    clip_id: str | None
    reason: str | None
    sentence: str | None
    duration_s: float | None


@dataclass(frozen=True)
class FilePage:
    """A page of the files that a `FileQuery` matches; `total` counts the matches of all pages."""

    total: int
    files: tuple[ListedFile, ...]


@dataclass(frozen=True)
class Examples:
    """Example searches that find something in a library."""

    seen: str | None  # caption of a clip, to be found in its frames; None where no clip has one
    read: str | None  # words that are on screen; None where none were read


@dataclass(frozen=True)
class FileQuery:
    """Selection and paging of a library's files."""

    state: str | None = None  # one of `STATES`; None matches all
    text: str = ""  # part of the folder or name, in any case; '' matches all
    limit: int = 50  # most files to return
    offset: int = 0  # matching files to skip

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise UsageError(f"There is no state {self.state!r} of a file; there are: {', '.join(STATES)}.")
        if self.limit < 1 or self.offset < 0:
            raise UsageError(
                f"{self.limit} files from number {self.offset} on cannot be listed; ask for 1 or more, from 0 on."
            )


class Located(NamedTuple):
    """Location of a file: its `path` and the indexed folder `root` that holds it, as the system names them.

    `stamp` has size and times of when its content was last read; see `evenreel.library.store.identity`.
    """

    path: str
    root: str
    stamp: FileStamp

    def is_unchanged(self, found: os.stat_result) -> bool:
        """Check that size and times of the file as found now equal those of the stamp."""
        return FileStamp.of(found) == self.stamp


@dataclass(frozen=True)
class ClipMedia:
    """Container, codec and length of a clip, with its existing files by path."""

    container: str
    codec: str
    duration_s: float | None
    files: tuple[Located, ...]


def clip_detail(connection: sqlite3.Connection, clip_id: str, shards: Path | None = None) -> ClipDetail:
    """Read everything the catalog has about a clip, and from its shard the start of its own clock."""
    clip = connection.execute(
        "SELECT duration_s, container, codec, width, height, fps,"
        " (SELECT count(*) FROM moments WHERE moments.clip_id = clips.clip_id), notes FROM clips WHERE clip_id = ?",
        (clip_id,),
    ).fetchone()
    if clip is None:
        raise no_clip(clip_id)
    files = connection.execute(
        "SELECT path, name, state, metadata FROM files WHERE clip_id = ? ORDER BY state != 'indexed', path", (clip_id,)
    ).fetchall()
    folder_of = _folders(connection)
    duration_s, container, codec, width, height, fps, moments, notes = clip
    return ClipDetail(
        clip_id=clip_id,
        name=files[0][1] if files else clip_id,
        files=tuple(ClipFile(name, folder_of(loaded_path(path)), state) for path, name, state, _ in files),
        duration_s=duration_s,
        container=container,
        codec=codec,
        width=width,
        height=height,
        fps=fps,
        moments=moments,
        signs=_signs(connection, clip_id),
        notes=tuple(json.loads(notes)),
        metadata=load_metadata(files[0][3]) if files and files[0][2] == "indexed" else {},
        starts_s=_starts_s(shards, clip_id) if shards else 0.0,
        shots=tuple(
            connection.execute("SELECT start_s, end_s FROM shots WHERE clip_id = ? ORDER BY number", (clip_id,))
        ),
    )


def _starts_s(shards: Path, clip_id: str) -> float:
    try:
        return read_shard(shard_path(shards, clip_id)).info.starts_s
    except LibraryError:  # nothing of the clip depends on it but how it is played
        return 0.0


def list_files(connection: sqlite3.Connection, query: FileQuery) -> FilePage:
    """List a page of the files that match a query, by path."""
    paths = [
        path
        for (path,) in connection.execute(
            "SELECT path FROM files WHERE ?1 IS NULL OR state = ?1 ORDER BY path", (query.state,)
        )
    ]
    folder_of = _folders(connection)
    if wanted := name_key(query.text):
        paths = [path for path in paths if wanted in name_key(_shown(loaded_path(path), folder_of))]
    chosen = paths[query.offset : query.offset + query.limit]
    return FilePage(len(paths), tuple(_library_file(connection, path, folder_of) for path in chosen))


def locate(connection: sqlite3.Connection, clip_id: str) -> ClipMedia:
    """Find the files of a clip that were there at the last index run."""
    about = connection.execute(
        "SELECT container, codec, duration_s FROM clips WHERE clip_id = ?", (clip_id,)
    ).fetchone()
    if about is None:
        raise no_clip(clip_id)
    known = roots(connection)
    rows = connection.execute(
        "SELECT path, size, mtime_ns, ctime_ns FROM files WHERE clip_id = ? AND state = 'indexed' ORDER BY path",
        (clip_id,),
    )
    found = ((loaded_path(stored), *stamp) for stored, *stamp in rows)
    container, codec, duration_s = about
    files = tuple(Located(path, root_of(path, known), FileStamp(*stamp)) for path, *stamp in found)
    return ClipMedia(container, codec, duration_s, files)


def examples(connection: sqlite3.Connection) -> Examples:
    """Suggest searches: the first short caption by path, and the surely read text that most clips show."""
    seen = connection.execute(
        "SELECT json_extract(metadata, '$.caption') AS caption FROM files WHERE state = 'indexed'"
        " AND length(caption) BETWEEN 8 AND ? ORDER BY path LIMIT 1",
        (LONGEST_EXAMPLE,),
    ).fetchone()
    read = connection.execute(
        "SELECT text FROM tracks WHERE confidence > 0.9 AND length(text) BETWEEN 4 AND ? AND text GLOB '*[^0-9 .,:/-]*'"
        " GROUP BY text ORDER BY count(DISTINCT clip_id) DESC, text LIMIT 1",
        (LONGEST_EXAMPLE,),
    ).fetchone()
    return Examples(*(printable(str(found[0])) if found else None for found in (seen, read)))


def single_files(connection: sqlite3.Connection) -> list[str]:
    """List the files that are in none of the indexed folders, by path."""
    known = roots(connection)
    paths = (loaded_path(stored) for (stored,) in connection.execute("SELECT path FROM files ORDER BY path"))
    return [path for path in paths if root_of(path, known) not in known]


def root_of(path: str, known: Sequence[str]) -> str:
    """Return the innermost indexed folder that holds a file; its own folder where none does.

    Example:
        >>> root_of("/v/trams/a.mp4", ["/v", "/v/trams", "/v/tra"])
        '/v/trams'
    """
    holding = [root for root in known if path.startswith(root.rstrip(os.sep) + os.sep)]
    return max(holding, key=len, default=os.path.dirname(path))


def folder_of(path: str, known: Sequence[str]) -> str:
    """Return the folder of a file for people: relative to the indexed folder, '' at its top.

    Example:
        >>> folder_of("/home/me/v/trams/a.mp4", ["/home/me/v"])
        'trams'
    """
    return printable(os.path.dirname(path)[len(root_of(path, known)) :].strip(os.sep))


def no_clip(clip_id: str) -> NotFoundError:
    """Make the error for an id, or a path, that no clip has; of a long one the end is shown, with the file's name."""
    shown = clip_id if len(clip_id) <= LONGEST_SHOWN else f"…{clip_id[-LONGEST_SHOWN:]}"
    remedy = "" if re.fullmatch("[0-9a-f]{32}", clip_id) else "; give the path of its video"
    return NotFoundError(f"The library has no clip {printable(shown)!r}{remedy}.")


def clip_named(connection: sqlite3.Connection, name: str) -> str:
    """Return the id of the clip with this id, or of the file with this path."""
    paths = stored_path(name), stored_path(str(file_at(os.curdir, os.path.abspath(name))))
    row = connection.execute(
        "SELECT clip_id FROM clips WHERE clip_id = ?1 UNION ALL"
        " SELECT clip_id FROM files WHERE path IN (?1, ?2) AND clip_id IS NOT NULL",
        paths,
    ).fetchone()
    if row is None:
        raise no_clip(name)
    return str(row[0])


def roots(connection: sqlite3.Connection) -> list[str]:
    """Return the folders that were indexed, as the system names them."""
    return [loaded_path(stored) for (stored,) in connection.execute("SELECT path FROM roots")]


def _folders(connection: sqlite3.Connection) -> Callable[[str], str]:
    """Return `folder_of` for the indexed folders of the catalog."""
    return partial(folder_of, known=roots(connection))


def _shown(path: str, folder_of: Callable[[str], str]) -> str:
    return os.path.join(folder_of(path), printable(os.path.basename(path)))


def _library_file(connection: sqlite3.Connection, stored: str | bytes, folder_of: Callable[[str], str]) -> ListedFile:
    name, state, clip_id, reason, sentence, duration_s = connection.execute(
        "SELECT name, state, files.clip_id, reason, sentence, duration_s FROM files LEFT JOIN clips USING (clip_id)"
        " WHERE path = ?",
        (stored,),
    ).fetchone()
    path = loaded_path(stored)
    if sentence is not None:  # a decoder may name the file that it failed on
        sentence = sentence.replace(os.path.dirname(path) + os.sep, "")
    return ListedFile(name, folder_of(path), state, clip_id, reason, sentence, duration_s)


def _signs(connection: sqlite3.Connection, clip_id: str) -> tuple[TextHit, ...]:
    rows = connection.execute(
        "SELECT text, start_s, end_s FROM tracks WHERE clip_id = ? ORDER BY start_s, number LIMIT ?",
        (clip_id, MAX_SIGNS),
    )
    return tuple(TextHit(text, (), start_s, end_s, 1.0) for text, start_s, end_s in rows)
