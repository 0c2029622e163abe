"""Contents of a library: the details of one clip, its files with those that were set aside and why, and counts of all.

Every function reads the catalog through the caller's connection. Names and folders are for people (see
`evenreel.wording.printable`), and folders are relative to the indexed folder, so that no answer shows how a disk is
laid out.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from evenreel.encoders.sources import BUILTIN
from evenreel.errors import LibraryError, NotFoundError, UsageError
from evenreel.features.pool import SetAside
from evenreel.features.shards import read_shard, shard_path
from evenreel.files import file_at, name_key
from evenreel.library.index.scan import kept_patterns
from evenreel.library.search.hits import SearchResult, TextHit
from evenreel.library.store.catalog import (
    CATALOG,
    SHARDS,
    STILLS,
    load_metadata,
    loaded_path,
    metadata_keys,
    stored_path,
)
from evenreel.library.store.filesystem import size_of
from evenreel.library.store.model_folders import MODELS, making_of
from evenreel.library.store.user_tables import COPY
from evenreel.library.store.vectors import SOUNDS
from evenreel.media.workers import FileStamp
from evenreel.types import Metadata
from evenreel.wording import count, is_printable, printable

STATES = ("indexed", "set_aside", "missing")

MAX_SIGNS = 500
"""Most on-screen texts that are listed of one clip; a ticker has thousands."""

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
    """A page of files; `total` counts the matches of all pages."""

    total: int
    files: tuple[ListedFile, ...]


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
    signs = connection.execute(
        "SELECT text, start_s, end_s FROM tracks WHERE clip_id = ? ORDER BY start_s, number LIMIT ?",
        (clip_id, MAX_SIGNS),
    )
    starts_s = 0.0
    with suppress(LibraryError):  # nothing of the clip depends on it but how it is played
        starts_s = read_shard(shard_path(shards, clip_id)).info.starts_s if shards else 0.0
    known = roots(connection)
    duration_s, container, codec, width, height, fps, moments, notes = clip
    return ClipDetail(
        clip_id=clip_id,
        name=files[0][1] if files else clip_id,
        files=tuple(ClipFile(name, folder_of(loaded_path(path), known), state) for path, name, state, _ in files),
        duration_s=duration_s,
        container=container,
        codec=codec,
        width=width,
        height=height,
        fps=fps,
        moments=moments,
        signs=tuple(TextHit(text, (), start_s, end_s, 1.0) for text, start_s, end_s in signs),
        notes=tuple(json.loads(notes)),
        metadata=load_metadata(files[0][3]) if files and files[0][2] == "indexed" else {},
        starts_s=starts_s,
        shots=tuple(
            connection.execute("SELECT start_s, end_s FROM shots WHERE clip_id = ? ORDER BY number", (clip_id,))
        ),
    )


def list_files(
    connection: sqlite3.Connection, state: str | None = None, text: str = "", limit: int = 50, offset: int = 0
) -> FilePage:
    """List a page of the files in a state whose folder or name has a text in it, in any case, by path."""
    if state is not None and state not in STATES:
        raise UsageError(f"There is no state {state!r} of a file; there are: {', '.join(STATES)}.")
    if limit < 1 or offset < 0:
        raise UsageError(f"{limit} files from number {offset} on cannot be listed; ask for 1 or more, from 0 on.")
    known, wanted = roots(connection), name_key(text)
    rows = connection.execute("SELECT path FROM files WHERE ?1 IS NULL OR state = ?1 ORDER BY path", (state,))
    paths = [stored for (stored,) in rows if not wanted or wanted in name_key(_shown(loaded_path(stored), known))]
    page = [_listed(connection, stored, known) for stored in paths[offset : offset + limit]]
    return FilePage(len(paths), tuple(page))


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


def _shown(path: str, known: Sequence[str]) -> str:
    return os.path.join(folder_of(path, known), printable(os.path.basename(path)))


def _listed(connection: sqlite3.Connection, stored: str | bytes, known: Sequence[str]) -> ListedFile:
    name, state, clip_id, reason, sentence, duration_s = connection.execute(
        "SELECT name, state, files.clip_id, reason, sentence, duration_s FROM files LEFT JOIN clips USING (clip_id)"
        " WHERE path = ?",
        (stored,),
    ).fetchone()
    path = loaded_path(stored)
    if sentence is not None:  # a decoder may name the file that it failed on
        sentence = sentence.replace(os.path.dirname(path) + os.sep, "")
    return ListedFile(name, folder_of(path, known), state, clip_id, reason, sentence, duration_s)


# Counts and sizes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LibraryStats:
    """Counts of what a library holds, and the files that were set aside."""

    library: str
    files: int
    clips: int
    moments: int
    tracks: int
    missing: int
    hours: float
    model: str | None
    rule: str | None
    metadata: tuple[str, ...]
    set_aside: tuple[SetAside, ...]
    making: str | None = None
    """The model whose vectors are made to take the place of the library's own."""
    sounds: str | None = None
    """The model of what its clips sound like."""
    ignored: tuple[str, ...] = ()
    """Patterns of what the library passes over."""
    snapshot: str | None = None
    """The published snapshot that is read; None for a library of its own."""

    def to_json(self) -> dict[str, Any]:
        """Return the figures as plain data, the form that `--json` prints."""
        found = asdict(self) | {"set_aside": [one.to_json() for one in self.set_aside]}
        return found if self.snapshot else {key: value for key, value in found.items() if key != "snapshot"}


def read_stats(connection: sqlite3.Connection, library: Path, meta: Mapping[str, str]) -> LibraryStats:
    """Count what a library holds and list what was set aside; `meta` is the catalog's table of that name."""
    files, clips, moments, tracks, missing, hours = connection.execute(
        "SELECT (SELECT count(*) FROM files WHERE state = 'indexed'), (SELECT count(*) FROM clips),"
        " (SELECT count(*) FROM moments), (SELECT count(*) FROM tracks),"
        " (SELECT count(*) FROM files WHERE state = 'missing'),"
        " (SELECT coalesce(sum(duration_s), 0) / 3600.0 FROM clips)"
    ).fetchone()
    aside = connection.execute(
        "SELECT path, reason, sentence FROM files WHERE state = 'set_aside' ORDER BY path"
    ).fetchall()
    return LibraryStats(
        library=str(library),
        files=files,
        clips=clips,
        moments=moments,
        tracks=tracks,
        missing=missing,
        hours=hours,
        model=meta.get("model") or None,
        rule=meta.get("rule"),
        metadata=tuple(sorted(metadata_keys(connection))),
        set_aside=tuple(SetAside("", printable(loaded_path(path)), why, told) for path, why, told in aside),
        making=making.name if (making := making_of(meta)) else None,
        ignored=kept_patterns(meta),
        sounds=SOUNDS.own(meta).get("encoder_id"),
    )


PARTS = {
    "catalog": "the catalog with its full text, and the copy of a person's own",
    "vectors": "the vectors that are searched",
    "shards": "features of each clip, from which all else can be made anew",
    "stills": "small pictures of moments",
    "models": "vectors of a model in the making",
    "others": "everything else",
}
"""Name of each part, and what it holds."""

_FOLDERS = {SHARDS: "shards", STILLS: "stills", MODELS: "models"}


def sizes_on_disk(library: Path) -> dict[str, int]:
    """Measure the bytes that each of `PARTS` of a library takes; files that go meanwhile count nothing."""
    found = dict.fromkeys(PARTS, 0)
    with suppress(OSError), os.scandir(library) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found[_FOLDERS.get(entry.name, "others")] += size_of(Path(entry.path))
                continue
            part = "catalog" if entry.name.startswith((CATALOG, COPY)) else "others"
            with suppress(OSError):
                found["vectors" if entry.name.startswith(("vectors.", "sounds.")) else part] += entry.stat(
                    follow_symlinks=False
                ).st_size
    return found


RENDERED_PX = ((320, 240), (160, 120))
"""Width and height of the scenes of `evenreel demo` and `planted`; hardly any camera makes such."""


def unknown_to_builtin(connection: sqlite3.Connection, meta: Mapping[str, str]) -> str | None:
    """Return a sentence where a library is made with `builtin` and holds clips that it cannot know; None where not.

    That encoder is a few megabytes large, so that everything can be tried without a download, and has seen nothing but
    rendered scenes. Of other videos it makes vectors too, but what it finds with them is chance.
    """
    if meta.get("model") != BUILTIN:
        return None
    rendered = " OR ".join("(width = ? AND height = ?)" for _ in RENDERED_PX)
    sizes = [side for size in RENDERED_PX for side in size]
    (number,) = connection.execute(f"SELECT count(*) FROM clips WHERE NOT ({rendered})", sizes).fetchone()
    if not number:
        return None
    have = "is no rendered scene" if number == 1 else "are no rendered scenes"
    return (
        f"The model builtin knows only the scenes that evenreel demo renders, and {count(number, 'clip')} here {have}: "
        "what is found there by what is seen is chance. Exchange it with evenreel reindex --model default "
        "(docs/encoders.md names others)."
    )


# Examples ------------------------------------------------------------------------------------------------------------

ExampleKind = Literal["read", "said", "caption"]

LONGEST_EXAMPLE = 60
"""Most characters of a search that is offered as an example."""
MOST_EXAMPLES = 3
TRIED = 6
"""Most searches of each kind that are tried."""

_LETTERS = "text GLOB '*[^0-9 .,:/-]*' AND text NOT GLOB '*[\"“”:]*'"  # words, and no sign of the query language
_CANDIDATES: Mapping[ExampleKind, str] = {
    "read": f"SELECT text FROM tracks WHERE confidence > 0.9 AND length(text) BETWEEN 4 AND ?1 AND {_LETTERS}"
    " GROUP BY text ORDER BY count(DISTINCT clip_id) DESC, text LIMIT ?2",
    "said": f"SELECT text FROM utterances WHERE length(text) BETWEEN 8 AND ?1 AND {_LETTERS}"
    " ORDER BY length(text) - length(replace(text, ' ', '')) < 2, utterance_id LIMIT ?2",
    "caption": "SELECT json_extract(metadata, '$.caption') AS text FROM files WHERE state = 'indexed'"
    f" AND length(text) BETWEEN 8 AND ?1 AND {_LETTERS} ORDER BY path LIMIT ?2",
}


@dataclass(frozen=True)
class Examples:
    """Example searches that find something in a library."""

    seen: str | None  # caption of a clip, to be found in its frames; None where no clip has one
    read: str | None  # words that are on screen; None where none were read


@dataclass(frozen=True)
class TriedExample:
    """A search that finds more than weaker matches: for words on screen (`read`), words `said`, or a `caption`."""

    kind: ExampleKind
    query: str


def example_candidates(connection: sqlite3.Connection) -> dict[ExampleKind, list[str]]:
    """List what could be searched for: texts of the catalog in one short line, those of each kind in their order."""
    found: dict[ExampleKind, list[str]] = {}
    for kind, sql in _CANDIDATES.items():
        texts = (str(text).strip() for (text,) in connection.execute(sql, (LONGEST_EXAMPLE, TRIED)))
        found[kind] = [text for text in dict.fromkeys(texts) if all(map(is_printable, text))]
    return found


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


def tried_examples(
    candidates: Mapping[ExampleKind, list[str]], search: Callable[[str], SearchResult]
) -> list[TriedExample]:
    """Try candidates until three are found that some clip fits: of each kind the first, then the second of each."""
    fitting = [_fitting(kind, texts, search) for kind, texts in candidates.items()]
    in_turn = (one for several in zip_longest(*fitting) for one in several if one is not None)
    chosen: dict[str, TriedExample] = {}
    for example in in_turn:
        chosen.setdefault(example.query.casefold(), example)
        if len(chosen) == MOST_EXAMPLES:
            break
    return list(chosen.values())


def _fitting(kind: ExampleKind, texts: list[str], search: Callable[[str], SearchResult]) -> Iterator[TriedExample]:
    for text in texts:
        try:
            if search(text).answering:
                yield TriedExample(kind, text)
        except UsageError:  # words that the language of queries reads in another way
            continue
