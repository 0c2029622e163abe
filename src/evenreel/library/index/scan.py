"""Scan of folders for videos, with their size and times, and the ignore lists that pass over some.

A file `.evenreelignore`, in the syntax of gitignore, holds for its folder and all below it; patterns that the library
keeps hold for every indexed folder, from its top. As with git, the last pattern that matches decides, that of the
innermost folder before others, and nothing in an ignored folder is looked at. Capitals and Unicode forms do not count,
as on systems where they do not.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from evenreel.errors import LibraryError, UsageError
from evenreel.files import caseless, may_be_video
from evenreel.library.store.writer import FoundFile
from evenreel.media.content import FileStamp, not_regular, unreadable
from evenreel.speech.subtitles import FOLDERS, is_subtitle
from evenreel.wording import count, other_files, printable

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

_STARS = re.compile(r"\*+")


@dataclass
class Scan:
    """Result of a scan for videos."""

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
        """Return the sentence for folders that no library is made of."""
        parts = [other_files(self.other_files), count(self.links, "link")]
        parts.append(count(len(self.ignored), "ignored path"))
        passed = " and ".join(part for part in parts if not part.startswith("0 "))
        were = "was" if passed.startswith("1 ") and " and " not in passed else "were"
        over = f" ({passed} {were} passed over)" if passed else ""
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
    """Return whether a path is that of a place, or below it."""
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
        """Return whether a path below the folder is ignored; None where no pattern matches it."""
        within = caseless(os.path.relpath(path, self.folder))
        return self._spec.check_file(f"{within}/" if is_folder else within).include


@dataclass
class IgnoreRules:
    """The ignore lists of a scan: the patterns of the library, and what is wrong with those of its folders."""

    patterns: tuple[str, ...] = ()
    troubles: list[tuple[str, str]] = field(default_factory=list)

    def of_root(self, root: str) -> tuple[Ignored, ...]:
        """Return the lists that hold in a scanned folder before its own file is read."""
        return (Ignored(root, self.patterns),) if self.patterns else ()

    def within(self, folder: str, names: Iterable[str], outer: tuple[Ignored, ...]) -> tuple[Ignored, ...]:
        """Return the lists that hold in a folder."""
        if IGNORE_FILE not in names:
            return outer
        path = os.path.join(folder, IGNORE_FILE)
        try:
            lines = _lines(path)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            self.troubles.append((printable(path), f"the ignore list cannot be read ({why}), so it ignores nothing"))
            return outer
        except ValueError as error:
            self.troubles.append((printable(path), f"{error}, so it ignores nothing"))
            return outer
        kept = []
        for number, line in enumerate(lines, start=1):
            if (trouble := pattern_trouble(line)) is None:
                kept.append(line)
            else:
                self.troubles.append((printable(path), f"line {number} is passed over: {trouble}"))
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
    stars = max((len(_STARS.findall(part)) for part in pattern.split("/")), default=0)
    if stars > MAX_STARS:
        return f"{printable(pattern)!r} has {stars} stars between two slashes; {MAX_STARS} are the limit"
    try:
        GitIgnoreSpec.from_lines([pattern])
    except (ValueError, re.error) as error:
        return f"{printable(pattern)!r} is no pattern of gitignore ({printable(str(error))})"
    return None


def kept_patterns(meta: Mapping[str, str]) -> tuple[str, ...]:
    """Return the patterns that a library keeps."""
    try:
        return tuple(map(str, json.loads(meta.get(IGNORED, "[]"))))
    except (ValueError, TypeError) as error:
        raise LibraryError(
            "The library's ignore list is not what was written; evenreel verify --repair restores it."
        ) from error


def changed_patterns(known: Sequence[str], more: Sequence[str], without: Sequence[str]) -> tuple[str, ...]:
    """Return a library's patterns with some more at the end, and without others."""
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
    """Return the entry of `meta` that keeps patterns."""
    return {IGNORED: json.dumps(list(patterns), ensure_ascii=False)}


def _lines(path: str) -> list[str]:
    """The lines of an ignore file."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("the ignore list is not a regular file")
        payload = file.read(MAX_BYTES + 1)
    if len(payload) > MAX_BYTES:
        raise ValueError(f"the ignore list has more than {MAX_BYTES // 1024} KiB, the limit")
    try:
        return payload.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError:
        raise ValueError("the ignore list is not UTF-8") from None


def _without_waiting(path: str, flags: int) -> int:
    """Open a file so that a named pipe is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
