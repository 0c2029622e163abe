"""Scan of folders for videos, with their size and times."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evenreel.errors import LibraryError
from evenreel.files import may_be_video
from evenreel.library.index.ignoring import Ignored, IgnoreRules, is_ignored
from evenreel.library.store.writer import FoundFile
from evenreel.media.content import FileStamp, not_regular, unreadable
from evenreel.speech.subtitles import FOLDERS, is_subtitle
from evenreel.wording import count, other_files, printable

SKIPPED_FOLDERS = frozenset({"@eadir", "#recycle", "$recycle.bin", "lost+found", "__macosx"})


@dataclass
class Scan:
    """Result of a scan for videos.

    Attributes:
        files: files to consider.
        roots: folders that were scanned.
        subtitles: subtitle files, see `evenreel.speech.subtitles`.
        other_files: number of files that are neither, by their suffixes in lower case.
        links: number of links, which are not followed.
        closed_folders: folders that cannot be opened.
        ignored: files and folders that an ignore list has passed over.
        changed: the files and folders that were looked at; None for all that is in the scanned folders.
        patterns: patterns of the library.
        troubles: ignore lists, and sentences on what is wrong with them.
    """

    files: list[FoundFile] = field(default_factory=list)
    subtitles: list[FoundFile] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)
    other_files: Counter[str] = field(default_factory=Counter)
    links: int = 0
    closed_folders: list[str] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    changed: frozenset[str] | None = None
    patterns: tuple[str, ...] = ()
    troubles: list[tuple[str, str]] = field(default_factory=list)

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
    seen: set[str] = set()
    for place in places:
        for file in _files_at(place, found, rules):
            if file.path not in seen:
                seen.add(file.path)
                found.files.append(file)
    found.patterns, found.troubles = rules.patterns, rules.troubles
    found.files.sort(key=lambda file: os.fsencode(file.path))
    return found


def rescan(roots: Sequence[str], changed: Iterable[str], rules: IgnoreRules) -> Scan:
    """Look at what has changed in scanned folders, as `scan` would: files with what lies beside them, and folders."""
    found = Scan(roots=list(roots), changed=frozenset(changed))
    seen: set[str] = set()
    for folder, is_deep in sorted(_folders_of(found.changed or ()).items()):
        for root in (one for one in roots if is_within(folder, one)):
            if (lists := _lists_down_to(folder, root, rules)) is not None:
                for file in _Walk(root, found, rules).below(folder, lists, is_deep=is_deep):
                    if file.path not in seen:
                        seen.add(file.path)
                        found.files.append(file)
                break
    found.subtitles = list({file.path: file for file in found.subtitles}.values())
    found.patterns, found.troubles = rules.patterns, rules.troubles
    found.files.sort(key=lambda file: os.fsencode(file.path))
    return found


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
