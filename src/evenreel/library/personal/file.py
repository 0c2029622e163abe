"""The file of a person's own records, and its copy.

They are kept apart from the catalog: whatever rebuilds, replaces or publishes that never touches them, the server
writes them while it only reads the catalog, and to write one does not wait for a run that indexes. There are two files
of the same lines, each line with a checksum, replaced one after the other. So a process that is killed leaves the old
or the new records, and a damaged line of one file is read from the other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from evenreel.errors import LibraryError, UsageError
from evenreel.files import TEMPORARY_SUFFIX, FileState, file_state, is_temporary, write_durably
from evenreel.library.personal.records import PersonalRecords
from evenreel.library.store.filesystem import SNAPSHOT_MARKER, free_name, is_published
from evenreel.library.store.sealed_lines import record_of, sealed_line

FILE, COPY, LOCK = "personal.jsonl", "personal.copy.jsonl", "personal.lock"
FORMAT = 1
WAIT_S = 10.0
"""Seconds that a writer waits for another one."""


@dataclass(frozen=True)
class _Taken:
    """What one of the two files says; `revision` is -1 where its first line is damaged, None where it is not there."""

    revision: int | None = None
    lost: int = 0
    rows: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return self.revision is not None and not self.lost


def personal_state(library: Path | None) -> FileState | None:
    """Return what differs wherever a person's records were written anew; None where there are none."""
    return None if library is None else file_state(library / FILE) or file_state(library / COPY)


def read_personal(library: Path) -> PersonalRecords:
    """Read a person's records of a library; what one of the two files has lost comes from the other."""
    return _merged(*_both(library))[0]


@contextlib.contextmanager
def changing(library: Path) -> Iterator[PersonalRecords]:
    """Give the records to change, alone among all processes; they are on disk when the `with` has ended well."""
    with _alone(library):
        first, second = _both(library)
        records, revision = _merged(first, second)
        before, notes_before = _text(records, revision), records.note_bytes
        yield records
        records.check_room(notes_before)
        if _text(records, revision) != before:
            _write(library, records, revision + 1, first, second)


def personal_problems(library: Path) -> list[tuple[str, str]]:
    """List what is wrong with the two files: the name of each and a sentence."""
    try:
        first, second = _both(library)
    except LibraryError as error:
        return [(FILE, str(error).rstrip("."))]
    if first.revision is None and second.revision is None:
        return []
    found = []
    for name, one in ((FILE, first), (COPY, second)):
        if one.revision is None:
            found.append((name, "it is gone, and the other file of a person's own records is there"))
        elif one.lost:
            found.append((name, f"{one.lost} of its lines are not what was written"))
    return found


def mend_personal(library: Path) -> list[str]:
    """Write both files anew where one is damaged, gone or behind; the damaged one is kept under another name."""
    first, second = _both(library)
    if first.revision == second.revision and first.is_whole == second.is_whole == (first.revision is not None):
        return []
    with _alone(library):
        first, second = _both(library)
        records, revision = _merged(first, second)
        _write(library, records, revision + 1, first, second)
    lost = "" if first.is_whole or second.is_whole else "; what both had lost is gone"
    return [f"wrote the favourites, notes and saved searches anew from their two files{lost}"]


@contextlib.contextmanager
def _alone(library: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    if is_published(library) or (library / SNAPSHOT_MARKER).exists():
        raise UsageError(
            "A published snapshot is only read; keep favourites, notes and saved searches in the library that it was "
            "made of."
        )
    try:
        with FileLock(library / LOCK, timeout=WAIT_S):
            yield
    except Timeout as error:
        raise LibraryError(
            f"The favourites, notes and saved searches of {library} are being written by another process; try again."
        ) from error
    except OSError as error:
        told = f"{library / LOCK} is a folder; move it away" if (library / LOCK).is_dir() else error.strerror or error
        raise LibraryError(f"{library} cannot be written ({told}).") from error


def _both(library: Path) -> tuple[_Taken, _Taken]:
    return _take(library / FILE), _take(library / COPY)


def _take(path: Path) -> _Taken:
    try:
        head, *lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return _Taken()
    except IsADirectoryError as error:
        raise LibraryError(f"{path} is a folder, where a file belongs; move it away.") from error
    except OSError as error:
        raise LibraryError(f"{path} cannot be read ({error.strerror or error}); check the permissions.") from error
    about = record_of(head)
    if about is not None and about["format"] > FORMAT:
        raise LibraryError(f"{path} has format {about['format']}; update evenreel to read it.")
    found = [record for record in map(record_of, filter(None, lines)) if record is not None]
    rows = [(record["table"], record["row"]) for record in found]
    if about is None:
        return _Taken(-1, 1 + sum(map(bool, lines)) - len(rows), rows)
    return _Taken(about["revision"], max(about["rows"], sum(map(bool, lines))) - len(rows), rows)


def _merged(first: _Taken, second: _Taken) -> tuple[PersonalRecords, int]:
    """The records of a whole file; where only an older one is whole, of both, those of the newer one before."""
    there = sorted((one for one in (first, second) if one.revision is not None), key=_age)
    chosen = there if not (there and there[0].is_whole) else there[:1]
    records = PersonalRecords()
    for one in chosen:
        for table, row in one.rows:
            with contextlib.suppress(TypeError, UsageError, KeyError):  # of no version that we know
                records.add(table, row)
    return records, max((one.revision or 0 for one in there), default=0)


def _age(one: _Taken) -> tuple[int, int]:
    """Sorts the newest file first, and of two of one revision the whole one."""
    return -(one.revision or 0), one.lost


def _text(records: PersonalRecords, revision: int) -> str:
    rows = [("marks", one) for one in records.marks.values()]
    lines = [sealed_line({"table": table, "row": asdict(one)}) for table, one in rows]
    lines += [sealed_line({"table": "searches", "row": asdict(one)}) for one in records.searches.values()]
    return "".join([sealed_line({"format": FORMAT, "revision": revision, "rows": len(lines)}), *lines])


def _write(library: Path, records: PersonalRecords, revision: int, first: _Taken, second: _Taken) -> None:
    """Write both files, the first one first; a damaged one is put aside before."""
    payload = _text(records, revision).encode()
    for name, one in ((FILE, first), (COPY, second)):
        for left in library.glob(f".{name}.*{TEMPORARY_SUFFIX}"):  # by a process that was killed
            if is_temporary(left.name):
                left.unlink(missing_ok=True)
        if one.revision is not None and one.lost:
            (library / name).rename(free_name(library / name))
        write_durably(library / name, payload)
