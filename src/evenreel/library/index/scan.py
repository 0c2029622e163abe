"""What lies in folders: videos, subtitles and tables about them; and what a library has to do with each file.

A file `.evenreelignore`, in the syntax of gitignore, holds for its folder and all below it; patterns that the library
keeps hold for every indexed folder, from its top. As with git, the last pattern that matches decides, that of the
innermost folder before others, and nothing in an ignored folder is looked at. Capitals and Unicode forms do not count,
as on systems where they do not.

A table is read in a process that can be killed, as a video is: one that is broken, endless or made to fill the memory
costs itself and nothing else. Text tables are read by Python's own modules, so that an index needs no table library.
"""

from __future__ import annotations

import contextlib
import csv
import json
import logging
import math
import os
import re
import sqlite3
import stat
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from evenreel.config import IndexSettings, MediaLimits
from evenreel.errors import LibraryError, MediaError, UsageError, VanishedFilesError
from evenreel.extras import needed_extra
from evenreel.features.clip_reader import WantedStages
from evenreel.features.pool import TRANSIENT, Brake, SetAside, StagedProgress
from evenreel.files import FileNames, caseless, may_be_video, printable
from evenreel.library.store.catalog import loaded_path
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.workers import FileStamp, Message, Worker, not_regular, unreadable
from evenreel.speech.subtitles import FOLDERS, is_subtitle
from evenreel.types import Metadata, Shown
from evenreel.wording import count, other_files, other_separator

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SKIPPED_FOLDERS = frozenset({"@eadir", "#recycle", "$recycle.bin", "lost+found", "__macosx"})
TABLE_NAMES = tuple(
    f"{stem}.{suffix}" for stem in ("metadata", "manifest") for suffix in ("csv", "parquet", "jsonl", "tsv")
)
IGNORE_FILE = ".evenreelignore"
IGNORED = "ignored"  # entry of `meta`: the patterns of the library, a JSON list
MAX_BYTES = 64 * 1024  # of an ignore file that is read; lists that people write have a hundredth of it
MAX_STARS = 3  # between two slashes of a pattern: with more, a long name takes minutes to compare

log = logging.getLogger("evenreel")


@dataclass
class Scan:
    files: list[FoundFile] = field(default_factory=list)
    subtitles: list[FoundFile] = field(default_factory=list)  # see `evenreel.speech.subtitles`
    roots: list[str] = field(default_factory=list)  # folders that were scanned
    other_files: Counter[str] = field(default_factory=Counter)  # that are neither, by their suffixes in lower case
    links: int = 0  # are not followed
    closed_folders: list[str] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)  # files and folders
    changed: frozenset[str] | None = None  # what was looked at; None for all that is in the scanned folders
    patterns: tuple[str, ...] = ()  # of the library
    troubles: list[tuple[str, str]] = field(default_factory=list)  # ignore lists, and what is wrong with them

    def no_video(self) -> str:
        parts = [other_files(self.other_files), count(self.links, "link")]
        parts.append(count(len(self.ignored), "ignored path"))
        passed = " and ".join(part for part in parts if not part.startswith("0 "))
        were = "was" if passed.startswith("1 ") and " and " not in passed else "were"
        over = f" ({passed} {were} skipped)" if passed else ""
        folders = ", ".join(map(printable, self.roots))
        do = "name a folder that holds some, or a film itself, which may have any suffix"
        return f"There is no video in {folders}{over}, so no library was made; {do}."


def scan(places: list[Path], rules: IgnoreRules | None = None) -> Scan:
    """Look through folders (and single files, which are taken whatever their suffix).

    Hidden files and folders, thumbnails and recycle bins of network drives, and links are passed over: a link
    may lead outside the folder or in a circle.
    """
    found, rules = Scan(), rules or IgnoreRules()
    return _gathered(found, rules, (file for place in places for file in _files_at(place, found, rules)))


def rescan(roots: Sequence[str], changed: Iterable[str], rules: IgnoreRules) -> Scan:
    """Look at what has changed in scanned folders, as `scan` would: files with what lies beside them, and folders."""
    found = Scan(roots=list(roots), changed=frozenset(changed))

    def files() -> Iterator[FoundFile]:
        for folder, is_deep in sorted(_folders_of(found.changed or ()).items()):
            for root in (one for one in roots if is_within(folder, one)):
                if (lists := _lists_down_to(folder, root, rules)) is not None:
                    yield from _Walk(root, found, rules).below(folder, lists, is_deep=is_deep)
                    break

    return _gathered(found, rules, files())


def _gathered(found: Scan, rules: IgnoreRules, files: Iterable[FoundFile]) -> Scan:
    """A scan with files, each once and in the order of their paths, and with what became of the ignore lists."""
    by_path: dict[bytes, FoundFile] = {}
    for file in files:
        by_path.setdefault(os.fsencode(file.path), file)
    found.files = [by_path[path] for path in sorted(by_path)]
    found.subtitles = list({file.path: file for file in found.subtitles}.values())
    found.patterns, found.troubles = rules.patterns, rules.troubles
    return found


def tables_beside(roots: Sequence[str]) -> list[Path]:
    """Find the metadata tables at the top of scanned folders: `metadata.csv`, `manifest.parquet`, ..."""
    return [Path(root, name) for root in roots for name in TABLE_NAMES if os.path.isfile(os.path.join(root, name))]


def is_within(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip(os.sep) + os.sep)


def _folders_of(changed: Iterable[str]) -> dict[str, bool]:
    """The folders to look through, and whether with all that is below them.

    Of a file it is its folder, whatever that holds; subtitles in a folder of their own are of videos beside it.
    """
    found: dict[str, bool] = {}
    for path in changed:
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        folder = path if is_folder else os.path.dirname(path)
        found[folder] = found.get(folder, False) or is_folder
        if os.path.basename(folder).lower() in FOLDERS:
            found.setdefault(os.path.dirname(folder), False)
    return found


def _lists_down_to(folder: str, root: str, rules: IgnoreRules) -> tuple[Ignored, ...] | None:
    """The ignore lists around a folder that a scan of its root would come to; None where it would not."""
    lists, path = rules.of_root(root), root
    for name in os.path.relpath(folder, root).split(os.sep):
        if name == ".":
            continue
        try:
            lists = rules.within(path, os.listdir(path), lists)
        except OSError:
            return None
        path = os.path.join(path, name)
        hidden = name.startswith(".") or name.lower() in SKIPPED_FOLDERS or os.path.islink(path)
        if hidden or not os.path.isdir(path) or is_ignored(path, lists, is_folder=True):
            return None
    return lists


def _files_at(place: Path, found: Scan, rules: IgnoreRules) -> Iterator[FoundFile]:
    path = os.path.abspath(place)
    if not os.path.lexists(path):
        raise LibraryError(f"{place} does not exist; if it is on a disk or share, is that one connected?")
    try:
        if not os.path.isdir(path):
            yield _look(path, os.path.dirname(path), os.stat(path))
            _add_subtitles_near(path, found)
            return
        os.scandir(path).close()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise LibraryError(f"{place} cannot be opened ({why}); make it readable, or leave it out.") from error
    found.roots.append(path)
    yield from _Walk(path, found, rules).below(path, rules.of_root(path))


@dataclass(frozen=True)
class _Walk:
    """A look through folders of a root; what is no video is noted in `found`."""

    root: str
    found: Scan
    rules: IgnoreRules

    def below(self, start: str, lists: tuple[Ignored, ...], *, is_deep: bool = True) -> Iterator[FoundFile]:
        """Yield the files of a folder and of all folders below, or of those alone that may hold its subtitles."""
        folders = [(start, lists)]
        while folders:
            folder, outer = folders.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
            except OSError:
                self.found.closed_folders.append(folder)
                continue
            inner = self.rules.within(folder, {entry.name for entry in entries}, outer)
            for entry in entries:
                if entry.name.startswith(".") or entry.name.lower() in SKIPPED_FOLDERS:
                    continue
                kind = _kind_of_entry(entry)
                if kind != "link" and is_ignored(entry.path, inner, is_folder=kind == "folder"):
                    self.found.ignored.add(entry.path)
                elif kind == "folder":
                    if is_deep or entry.name.lower() in FOLDERS:
                        folders.append((entry.path, inner))
                else:
                    yield from self._file(entry, kind)

    def _file(self, entry: os.DirEntry[str], kind: str) -> Iterator[FoundFile]:
        if kind == "link":
            self.found.links += 1
        elif may_be_video(entry.path):
            yield _look_at_entry(entry, self.root)
        elif kind == "file" and is_subtitle(entry.name):
            self.found.subtitles.append(_look_at_entry(entry, self.root))
        elif kind == "file":
            self.found.other_files[Path(entry.name).suffix.lower()] += 1
        else:
            self.found.closed_folders.append(entry.path)


def _add_subtitles_near(video: str, found: Scan) -> None:
    """Add the subtitle files that may be of a single video: beside it, and in folders for subtitles there."""
    folder = os.path.dirname(video)
    for place in (folder, *(os.path.join(folder, name) for name in os.listdir(folder) if name.lower() in FOLDERS)):
        with contextlib.suppress(OSError):  # it is no folder, or closed
            for entry in os.scandir(place):
                if is_subtitle(entry.name) and _kind_of_entry(entry) == "file":
                    found.subtitles.append(_look_at_entry(entry, folder))


def _kind_of_entry(entry: os.DirEntry[str]) -> str:
    """Tell `link`, `folder` and `file` apart; `unknown` where the file system has to be asked for it and fails."""
    try:
        if entry.is_symlink():
            return "link"
        return "folder" if entry.is_dir(follow_symlinks=False) else "file"
    except OSError:
        return "unknown"


def _look_at_entry(entry: os.DirEntry[str], root: str) -> FoundFile:
    try:
        return _look(entry.path, root, entry.stat(follow_symlinks=False))
    except OSError as error:
        return FoundFile(entry.path, root, FileStamp(0, 0, 0), unreadable(error))


def _look(path: str, root: str, result: os.stat_result) -> FoundFile:
    error = None if stat.S_ISREG(result.st_mode) else not_regular(result.st_mode)
    return FoundFile(path, root, FileStamp.of(result), error)


# ignore lists ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ignored:
    """Patterns, each checked, that hold in a folder and all below it."""

    folder: str
    patterns: tuple[str, ...]

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec

        return GitIgnoreSpec.from_lines(map(caseless, self.patterns))

    def says(self, path: str, *, is_folder: bool) -> bool | None:
        within = caseless(os.path.relpath(path, self.folder))
        return self._spec.check_file(f"{within}/" if is_folder else within).include


@dataclass
class IgnoreRules:
    """The ignore lists of a scan: the patterns of the library, and what is wrong with those of its folders."""

    patterns: tuple[str, ...] = ()
    troubles: list[tuple[str, str]] = field(default_factory=list)

    def of_root(self, root: str) -> tuple[Ignored, ...]:
        return (Ignored(root, self.patterns),) if self.patterns else ()

    def within(self, folder: str, names: Iterable[str], outer: tuple[Ignored, ...]) -> tuple[Ignored, ...]:
        if IGNORE_FILE not in names:
            return outer
        path = os.path.join(folder, IGNORE_FILE)
        try:
            lines = _lines(path)
        except (OSError, ValueError) as error:
            why = f"cannot be read ({(error.strerror or str(error)).lower()})" if isinstance(error, OSError) else error
            self.troubles.append((printable(path), f"the ignore list {why}, so it ignores nothing"))
            return outer
        kept = []
        for number, line in enumerate(lines, start=1):
            if (trouble := pattern_trouble(line)) is None:
                kept.append(line)
            else:
                self.troubles.append((printable(path), f"line {number} is skipped: {trouble}"))
        return (*outer, Ignored(folder, tuple(kept)))


def is_ignored(path: str, lists: Sequence[Ignored], *, is_folder: bool = False) -> bool:
    """Return whether a file or folder is ignored by the lists that hold where it lies, the innermost last."""
    for one in reversed(lists):
        if (said := one.says(path, is_folder=is_folder)) is not None:
            return said
    return False


def pattern_trouble(pattern: str) -> str | None:
    """Return why a text is no pattern, in words; None where it is one."""
    from pathspec import GitIgnoreSpec

    if "\n" in pattern or "\0" in pattern:
        return "it has a line break or a zero byte; give one pattern at a time"
    stars = max(len(re.findall(r"\*+", part)) for part in pattern.split("/"))
    if stars > MAX_STARS:
        return f"{printable(pattern)!r} has {stars} stars between two slashes; {MAX_STARS} are the limit"
    try:
        GitIgnoreSpec.from_lines([pattern])
    except (ValueError, re.error) as error:
        return f"{printable(pattern)!r} is no pattern of gitignore ({printable(str(error))})"
    return None


def kept_patterns(meta: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return tuple(map(str, json.loads(meta.get(IGNORED, "[]"))))
    except (ValueError, TypeError) as error:
        raise LibraryError(
            "The library's ignore list is not what was written; evenreel verify --repair restores it."
        ) from error


def changed_patterns(known: Sequence[str], more: Sequence[str], without: Sequence[str]) -> tuple[str, ...]:
    for pattern in more:
        if not pattern.strip() or pattern.startswith("#"):
            raise UsageError(f"ignore={printable(pattern)} ignores nothing; give a pattern such as '*.tmp.mp4'.")
        if (why := pattern_trouble(pattern)) is not None:
            raise UsageError(f"The pattern to ignore cannot be used: {why}.")
    for pattern in without:
        if pattern not in known:
            kept = ", ".join(map(printable, known)) or "none"
            raise UsageError(f"The library does not ignore {printable(pattern)!r}; its patterns are: {kept}.")
    return (*(one for one in known if one not in without and one not in more), *dict.fromkeys(more))


def noted_patterns(patterns: Sequence[str]) -> dict[str, str]:
    return {IGNORED: json.dumps(list(patterns), ensure_ascii=False)}


def _lines(path: str) -> list[str]:
    with open(path, "rb", opener=lambda *given: os.open(given[0], given[1] | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("is not a regular file")
        payload = file.read(MAX_BYTES + 1)
    if len(payload) > MAX_BYTES:
        raise ValueError(f"has more than {MAX_BYTES // 1024} KiB, the limit")
    try:
        return payload.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None


# tables about videos --------------------------------------------------------------------------------------------------

PATH_COLUMNS = ("path", "file_name", "filename", "file", "video")
TABLE_READER = "evenreel.library.index.scan:TableReader"
_ROWS_AT_ONCE = 100
_LONGEST = 64 * 2**20  # characters that one value of a csv table may have

Row = dict[str, object]


@dataclass
class KnownMetadata:
    rows: dict[str, Metadata] = field(default_factory=dict)  # by the absolute path of a video
    set_aside: list[SetAside] = field(default_factory=list)  # tables beside the videos that cannot be used


class NoPathsError(UsageError):
    """Raised where a table has no column with the videos' paths: it may be about something else."""


def read_tables(beside: Sequence[Path], named: Sequence[Path], limits: MediaLimits) -> KnownMetadata:
    """Read metadata tables; a later one adds to an earlier one. Of those beside the videos a bad one is set aside."""
    known = KnownMetadata()
    with contextlib.closing(Worker(TABLE_READER, {}, limits)) as worker:
        for table in [*beside, *named]:
            try:
                rows = _read(worker, table)
            except UsageError as error:
                if table in named:
                    raise
                if isinstance(error, NoPathsError):
                    log.warning("%s has no column with the videos' paths and is skipped", table)
                else:
                    known.set_aside.append(SetAside("", printable(str(table)), "bad_table", str(error)))
                continue
            for path, metadata in rows.items():
                known.rows[path] = {**known.rows.get(path, {}), **metadata}
    return known


def rows_of_files(rows: Mapping[str, Metadata], paths: Iterable[str]) -> tuple[dict[str, Metadata], str | None]:
    """Return the rows of tables by the paths of files as they are, however the tables spell them."""
    there = set(paths)
    if rows.keys() <= there:
        return dict(rows), None
    files = FileNames(there)
    spelt = {path: files.find(path) for path in rows}
    lost = [path for path, found in spelt.items() if found is None and not os.path.lexists(path)]
    known = {path: rows[other] for other, path in spelt.items() if path is not None}
    known |= {path: row for path, row in rows.items() if path in known}  # that spelt the same
    if not lost:
        return known, None
    return known, (
        f"{len(lost):,} of {count(len(rows), 'row')} of the metadata tables {'name' if len(lost) > 1 else 'names'} no "
        f"file of the library, such as {printable(lost[0])}; are the paths relative to the table's folder?"
    )


def _read(worker: Worker, table: Path) -> dict[str, Metadata]:
    rows: dict[str, Metadata] = {}
    try:
        for message, _ in worker.run({"path": str(table)}):
            if "refused" in message:
                raise (NoPathsError if message["no_paths"] else UsageError)(message["refused"])
            rows.update(message["rows"])
    except MediaError as error:
        raise UsageError(f"The metadata table {table} cannot be read: {error}.") from error
    return rows


class TableReader:
    """Worker that answers `{"path"}` with the rows of a metadata table, some a message, or with why it is `refused`."""

    def __call__(self, task: dict[str, Any]) -> Iterator[Message]:
        try:
            rows = list(read_table(Path(task["path"])).items())
        except UsageError as error:
            yield {"refused": str(error), "no_paths": isinstance(error, NoPathsError)}, None
            return
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            yield {"rows": rows[first : first + _ROWS_AT_ONCE]}, None


def read_table(table: Path) -> dict[str, Metadata]:
    """Read one table: `path` (or `file_name`) relative to the table's folder, every other column kept as it is."""
    if table.suffix == ".parquet":
        rows = _parquet_rows(table)
    elif table.suffix in {".jsonl", ".ndjson"}:
        rows = read_json_lines(table)
    else:
        rows = read_separated(table, "\t" if table.suffix == ".tsv" else ",")
    if not rows:
        raise UsageError(f"The metadata table {table} has no rows.")
    column = next((name for name in PATH_COLUMNS if any(name in row for row in rows)), None)
    if column is None:
        raise NoPathsError(
            f"The metadata table {table} has no column with the videos' paths; name it one of: "
            f"{', '.join(PATH_COLUMNS)}."
        )
    folder = os.path.abspath(table.parent)
    known: dict[str, Metadata] = {}
    for number, row in enumerate(rows, start=1):
        name = row.get(column)
        if not name:
            raise UsageError(
                f"Row {number} of the metadata table {table} has no {column}; give it one or drop the row."
            )
        path = os.path.normpath(os.path.join(folder, str(name)))
        if path in known:
            raise UsageError(f"Row {number} of the metadata table {table} names {name} a second time; keep one row.")
        known[path] = {key: _plain(value) for key, value in row.items() if key != column and value is not None}
    return known


def _parquet_rows(table: Path) -> list[Row]:
    try:
        import polars as pl

        from evenreel.parquet_files import read_table
    except ModuleNotFoundError as error:
        if (sentence := needed_extra(error, f"The metadata table {table}")) is None:
            raise
        raise UsageError(sentence) from error
    try:
        return read_table(table).to_dicts()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _unreadable(table, str(error).splitlines()[0]) from error


def read_json_lines(table: Path) -> list[Row]:
    """Read a table with a JSON object in each line; empty lines are passed over, values stay as they are written."""
    rows = []
    for number, line in enumerate(_text_lines(table), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if "\\u" in line:  # half of a character, which no file can hold, becomes a question mark
                row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            raise _unreadable(table, f"line {number} is no JSON ({error})") from error
        if not isinstance(row, dict):
            raise _unreadable(table, f'line {number} is no JSON object, such as {{"path": "clip.mp4"}}')
        rows.append(row)
    return rows


def read_separated(table: Path, separator: str) -> list[Row]:
    """Read a table with names of columns in its first line.

    A column holds whole numbers (of 64 bits), numbers or truth values (true, false) where each of its values is one,
    else text. An empty value is None, and so is what a short row lacks. Empty lines are passed over, and columns with
    neither a name nor a value are left out.
    """
    limit = csv.field_size_limit(_LONGEST)
    try:
        lines = [line for line in csv.reader(_text_lines(table), delimiter=separator, strict=True) if line]
    except csv.Error as error:
        raise _unreadable(table, str(error)) from error
    finally:
        csv.field_size_limit(limit)
    if not lines:
        raise UsageError(f"The metadata table {table} is empty; its first line names its columns.")
    names, *rows = lines
    if other := other_separator(names):  # which is no table about other things
        raise UsageError(f"The metadata table {table} has one column, {names[0]!r}: {other}.")
    for number, row in enumerate(rows, start=1):
        if len(row) > len(names):
            raise _unreadable(table, f"row {number} has {len(row)} values for {len(names)} columns")
    columns = [(name, values) for name, *values in zip_longest(*lines, fillvalue="") if name or any(values)]
    kept = [name for name, _ in columns]
    if len(set(kept)) < len(kept):
        twice = next(name for name in kept if kept.count(name) > 1)
        raise _unreadable(table, f"two of its columns are named {twice!r}; rename one")
    typed = [_typed(values) for _, values in columns]
    return [dict(zip(kept, values, strict=True)) for values in zip(*typed, strict=True)]


def _text_lines(table: Path) -> Iterator[str]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise _unreadable(table, f"it is no UTF-8 text ({error.reason} at byte {error.start:,})") from error
    except OSError as error:
        raise _unreadable(table, (error.strerror or str(error)).lower()) from error


_WHOLE = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(  # with a point or an exponent; a whole one beyond 64 bits is text
    r"[-+]?(([0-9]+\.[0-9]*|\.[0-9]+)(e[-+]?[0-9]{1,4})?|[0-9]+e[-+]?[0-9]{1,4}|nan|inf)", re.IGNORECASE
)
_TRUTH = {"true": True, "false": False}


def _is_whole(value: str) -> bool:
    return _WHOLE.fullmatch(value) is not None and -(2**63) <= int(value) < 2**63


_FORMS: tuple[tuple[Callable[[str], object], Callable[[str], object]], ...] = (
    (_is_whole, int),
    (lambda value: _is_whole(value) or _NUMBER.fullmatch(value), float),
    (lambda value: value.lower() in _TRUTH, lambda value: _TRUTH[value.lower()]),
)


def _typed(values: Sequence[str]) -> list[object]:
    given = [value for value in values if value]
    for form, convert in _FORMS:
        if given and all(form(value) for value in given):
            return [convert(value) if value else None for value in values]
    return [value or None for value in values]


def _unreadable(table: Path, why: str) -> UsageError:
    return UsageError(f"The metadata table {table} cannot be read: {why}.")


def _plain(value: object) -> str | int | float | bool | None:
    """A value as filters compare it: numbers and truth stay, lists, dates and the rest become text."""
    if isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)


# a run and its report -------------------------------------------------------------------------------------------------


@dataclass
class IndexReport(Shown):
    """Counts and lists of what an index run did.

    `missing` counts files that are gone with their content, `moved` gone files whose content another file has.
    `subtitles` counts subtitle files and streams that were read, `subtitles_gone` those that are gone, `heard` clips
    whose speech was recognised, `sounds` those whose sounds were encoded, `meanings` those whose texts were, `people`
    those in which faces were looked for.
    `set_aside` lists every unusable file of the folders, also those known before; `newly_aside` counts those that this
    run looked at. `other_suffixes` counts the files that are no videos by their names. `ignored`
    counts files and folders that an ignore list passed over. `unfinished` is True where the run was asked to end early:
    the next one goes on. `warnings` are sentences about the whole library. `computed_on` says what encoded the pictures
    and what was left as slower, and `pictures_per_s` how fast; empty and None where none was encoded on this machine.
    """

    indexed: int = 0
    unchanged: int = 0
    recognised: int = 0
    missing: int = 0
    moved: int = 0
    newly_aside: int = 0
    metadata_changed: int = 0
    subtitles: int = 0
    subtitles_gone: int = 0
    heard: int = 0
    sounds: int = 0
    meanings: int = 0
    people: int = 0
    frames: int = 0
    seconds: float = 0.0
    computed_on: str = ""
    pictures_per_s: float | None = None
    set_aside: list[SetAside] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    other_files: int = 0
    other_suffixes: dict[str, int] = field(default_factory=dict)
    links: int = 0
    ignored: int = 0
    unfinished: bool = False
    warnings: list[str] = field(default_factory=list)
    closed_folders: list[str] = field(default_factory=list)

    @property
    def did_nothing(self) -> bool:
        files = self.indexed or self.recognised or self.missing or self.moved or self.newly_aside
        beside = self.subtitles or self.subtitles_gone or self.heard or self.sounds or self.meanings or self.people
        return not (files or self.metadata_changed or beside)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data, the form that `--json` prints."""
        return asdict(self) | {"set_aside": [one.to_json() for one in self.set_aside]}


@dataclass
class IndexRun:
    """What an index run has before it, and what it works with."""

    store: Store
    found: Scan
    settings: IndexSettings
    report: IndexReport
    progress: StagedProgress
    brake: Brake
    opened: ExitStack  # is closed when the run ends, however it does

    def note(self, path: str, sentence: str) -> None:
        self.report.notes.append((printable(path), printable(sentence)))


# the plan: what to do with each file ----------------------------------------------------------------------------------

GONE_AT_ONCE, GONE_SHARE = 5, 0.25  # more files than both gone from a folder: a vanished disk, no tidying


@dataclass(frozen=True)
class KnownFile:
    """What a library has of a file: its row in the catalog, and what was read of its content.

    `done` is None where the clip has no shard.
    """

    path: str
    stamp: FileStamp
    state: str
    clip_id: str | None
    reason: str | None
    sentence: str | None
    done: WantedStages | None


@dataclass
class IndexPlan:
    """Files of an index run, sorted by what has to be done with them."""

    work: list[FoundFile] = field(default_factory=list)  # to be read, the largest first
    lost: list[str] = field(default_factory=list)  # of these, whose clips have lost their shards
    unchanged: list[str] = field(default_factory=list)
    returned: list[FoundFile] = field(default_factory=list)  # were missing, are back, and have their clip
    refused: list[FoundFile] = field(default_factory=list)  # cannot be looked at
    aside_before: list[KnownFile] = field(default_factory=list)  # an earlier run set them aside, and they are the same
    gone: list[str] = field(default_factory=list)  # known, and no longer there


def known_files(connection: sqlite3.Connection, shards: Container[str] | None) -> Iterator[KnownFile]:
    """Read every file of the catalog; without `shards`, all of them count as there."""
    rows = connection.execute(
        "SELECT path, size, mtime_ns, ctime_ns, state, files.clip_id, reason, sentence,"
        " coalesce(has_vision, 0), coalesce(has_text, 0) FROM files LEFT JOIN clips USING (clip_id)"
    )
    for path, size, mtime_ns, ctime_ns, state, clip_id, reason, sentence, vision, text in rows:
        stamp, done = FileStamp(size, mtime_ns, ctime_ns), None
        if shards is None or clip_id is None or clip_id in shards:
            done = WantedStages(bool(vision), bool(text))
        yield KnownFile(loaded_path(path), stamp, state, clip_id, reason, sentence, done)


def make_plan(
    found: Scan, known: dict[str, KnownFile], lacks: Callable[[FoundFile, KnownFile], bool], *, retry: bool
) -> IndexPlan:
    """Sort the files of a scan by what must be done with them; `lacks` is asked of unchanged ones of known content."""
    plan = IndexPlan()
    for file in found.files:
        row = known.get(file.path)
        if file.error is not None:
            plan.refused.append(file)
        elif row is None or row.stamp != file.stamp:
            plan.work.append(file)
        elif row.state == "set_aside":
            again = retry or row.reason in TRANSIENT
            plan.work.append(file) if again else plan.aside_before.append(row)
        elif row.done is None:
            plan.work.append(file)
            plan.lost.append(file.path)
        elif lacks(file, row):
            plan.work.append(file)
        elif row.state == "missing" and row.clip_id is not None:
            plan.returned.append(replace(file, clip_id=row.clip_id))
        else:
            plan.unchanged.append(file.path)
    plan.work.sort(key=lambda file: -file.stamp.size)  # the longest first, so that no reader is left with it at the end
    plan.gone = _gone(found, known)
    return plan


def still_wanted(wanted: WantedStages, done: WantedStages | None) -> WantedStages:
    """Return the stages that are wanted and not done; speech of a known clip is no stage of its reading."""
    if done is None:
        return wanted
    return WantedStages(wanted.vision and not done.vision, wanted.text and not done.text)


def _gone(found: Scan, known: dict[str, KnownFile]) -> list[str]:
    present = {file.path for file in found.files}
    return [
        path
        for path, row in known.items()
        if row.state != "missing"
        and path not in present
        and (found.changed is None or not found.changed.isdisjoint({path, *map(str, PurePath(path).parents)}))
        and any(is_within(path, root) for root in found.roots)
        and not any(is_within(path, folder) for folder in found.closed_folders)
        and (not os.path.lexists(path) or passed_over(path, found))
    ]


def passed_over(path: str, found: Scan) -> bool:
    """Return whether an ignore list passes over a known file, or over a folder that it is in."""
    return bool(found.ignored) and not found.ignored.isdisjoint({path, *map(str, PurePath(path).parents)})


def check_nothing_vanished(found: Scan, known: dict[str, KnownFile], gone: list[str]) -> None:
    """Refuse to mark a large part of a folder as missing unless the user allows it.

    A file that is new and has the size and time of one that is gone is that one, moved, as far as a stat can tell.
    """
    new = {(file.stamp.size, file.stamp.mtime_ns) for file in found.files if file.path not in known}
    stamps = {path: known[path].stamp for path in gone if not passed_over(path, found)}
    vanished = [path for path, stamp in stamps.items() if (stamp.size, stamp.mtime_ns) not in new]
    for root in found.roots:
        before = sum(row.state != "missing" and is_within(path, root) for path, row in known.items())
        lost = sum(is_within(path, root) for path in vanished)
        if lost and (lost == before or (lost >= GONE_AT_ONCE and lost > GONE_SHARE * before)):
            raise VanishedFilesError(
                f"{lost} of {before} indexed files are gone from {root}; is its disk or share connected? Nothing was "
                "changed. If they are gone for good, run again with --set accept_missing=yes."
            )


def mark_gone(store: Store, plan: IndexPlan) -> tuple[int, int]:
    store.mark_missing(plan.gone)
    moved = store.forget_moved()
    return len(set(plan.gone) - moved), len(moved)
