"""Files that a library forgets: their rows go, then the clips that no other file has; the files themselves stay.

What a new model has made of them beside the library (`reindex`) is dropped when that takes the old one's place.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evenreel.arguments import as_path, one_or_more
from evenreel.errors import UsageError
from evenreel.files import file_at
from evenreel.library.index.run import writing
from evenreel.library.index.scan import is_within, kept_patterns, noted_patterns
from evenreel.library.people import drop_gone_clips
from evenreel.library.store import catalog
from evenreel.library.store.catalog import loaded_path, roots, stored_path
from evenreel.library.store.fulltext import remove_about
from evenreel.library.store.vectors import FRAMES, SOUNDS, Matrix, bank_of, measure_nonsense
from evenreel.library.store.writer import Store, open_vectors
from evenreel.wording import printable


@dataclass(frozen=True)
class RemoveReport:
    """What a library forgets, or would forget.

    Attributes:
        library: folder of the library.
        files: number of files.
        clips: number of clips that no other file has.
        sources: folders that are no longer indexed.
        found_again: indexed folders that hold what is removed, so that their next index run finds it again.
        ignored: patterns that the library passes over from now on.
        removed: False if it was only asked what would be forgotten.
    """

    library: str
    files: int
    clips: int
    sources: tuple[str, ...]
    found_again: tuple[str, ...]
    ignored: tuple[str, ...]
    removed: bool

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self)


def remove_from_library(
    library: str | Path,
    removed: str | Path | Sequence[str | Path],
    *,
    ignore: bool = False,
    dry_run: bool = False,
) -> RemoveReport:
    """Forget the clips of folders and single files; nothing on the disk but the library changes.

    Args:
        library: folder of the library.
        removed: folders and videos, or one alone; they need not be there any more.
        ignore: have the library pass over them from now on, where an indexed folder holds them.
        dry_run: only say what would be forgotten.

    Raises:
        UsageError: the library knows nothing of one of them.
        LibraryError: there is no library, it is damaged, another process holds it, or it cannot be written.
    """
    library = as_path(library, "library")
    given = (os.path.abspath(as_path(one, "removed")) for one in one_or_more(removed, "removed", (str, os.PathLike)))
    wanted = [str(file_at(os.curdir, one)) for one in given]
    with closing(catalog.open_for_reading(library)) as connection, catalog.readable(library):
        report = _report(library, connection, wanted, ignore)
    if dry_run:
        return report
    with writing(library) as connection:
        store = Store(library, connection, {})
        _forget(store, wanted)
        for of in (FRAMES, SOUNDS):
            _measure(store, of)
        drop_gone_clips(library, connection)
        if report.ignored:
            patterns = dict.fromkeys((*kept_patterns(store.meta()), *report.ignored))
            store.begin((), noted_patterns(tuple(patterns)))
    return replace(report, removed=True)


def _report(library: Path, connection: sqlite3.Connection, wanted: Sequence[str], ignore: bool) -> RemoveReport:
    known, files = roots(connection), dict(_files(connection))
    for place in wanted:
        if not any(is_within(path, place) for path in (*files, *known)):
            raise UsageError(f"The library {library} knows no file of {printable(place)}; is it another --library?")
    gone = {path for path in files if any(is_within(path, place) for place in wanted)}
    clips = {files[path] for path in gone} - {None, *(clip_id for path, clip_id in files.items() if path not in gone)}
    sources = [root for root in known if any(is_within(root, place) for place in wanted)]
    holding = {place: root for place in wanted for root in known if root not in sources and is_within(place, root)}
    patterns = [_pattern(place, root) for place, root in holding.items() if ignore]
    return RemoveReport(
        str(library),
        len(gone),
        len(clips),
        sources=tuple(map(printable, sources)),
        found_again=() if ignore else tuple(dict.fromkeys(map(printable, holding.values()))),
        ignored=tuple(dict.fromkeys(patterns)),
        removed=False,
    )


def _pattern(place: str, root: str) -> str:
    """The pattern that ignores a place below an indexed folder, and nothing else of it."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    return "/" + GitIgnoreSpecPattern.escape(os.path.relpath(place, root).replace(os.sep, "/"))


def _files(connection: sqlite3.Connection) -> Iterator[tuple[str, str | None]]:
    for path, clip_id in connection.execute("SELECT path, clip_id FROM files"):
        yield loaded_path(path), clip_id


def _forget(store: Store, wanted: Sequence[str]) -> None:
    """Delete the rows of files and sources, and the clips that no file has any more."""
    connection = store.connection
    with catalog.transaction(connection):
        for path, clip_id in list(_files(connection)):
            if any(is_within(path, place) for place in wanted):
                if clip_id is not None:
                    connection.execute("INSERT OR IGNORE INTO replaced (clip_id) VALUES (?)", (clip_id,))
                connection.execute("DELETE FROM files WHERE path = ?", (stored_path(path),))
                remove_about(connection, stored_path(path))
        for root in roots(connection):
            if any(is_within(root, place) for place in wanted):
                connection.execute("DELETE FROM roots WHERE path = ?", (stored_path(root),))
    store.drop_replaced()


def _measure(store: Store, of: Matrix) -> None:
    """Measure how nonsense scores on the clips that are left, without the model."""
    vectors = open_vectors(store.library, store.meta(), of)
    if vectors is None or store.null_scores_hold(of):
        return
    bank = bank_of(store.connection, of)
    if bank is None:  # the next index run does it
        return
    with catalog.transaction(store.connection):
        measure_nonsense(store.connection, vectors, bank, of)
