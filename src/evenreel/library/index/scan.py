"""Scan of folders for videos, with their size and times."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evenreel.errors import LibraryError, MediaError
from evenreel.files import VIDEO_SUFFIXES
from evenreel.library.index.ignoring import IgnoreRules, is_ignored
from evenreel.library.store.writer import FoundFile
from evenreel.media.content import FileStamp, unreadable
from evenreel.speech.sidecars import FOLDERS, is_subtitle
from evenreel.wording import count, printable

SKIPPED_FOLDERS = frozenset({"@eadir", "#recycle", "$recycle.bin", "lost+found", "__macosx"})


@dataclass
class Scan:
    """Result of a scan for videos.

    Attributes:
        files: files to consider.
        roots: folders that were scanned.
        subtitles: subtitle files, see `evenreel.speech.sidecars`.
        other_files: number of files that are neither by their names.
        links: number of links, which are not followed.
        closed_folders: folders that cannot be opened.
        ignored: files and folders that an ignore list has passed over.
        patterns: patterns of the library.
        troubles: ignore lists, and sentences on what is wrong with them.
    """

    files: list[FoundFile] = field(default_factory=list)
    subtitles: list[FoundFile] = field(default_factory=list)
    roots: list[str] = field(default_factory=list)
    other_files: int = 0
    links: int = 0
    closed_folders: list[str] = field(default_factory=list)
    ignored: set[str] = field(default_factory=set)
    patterns: tuple[str, ...] = ()
    troubles: list[tuple[str, str]] = field(default_factory=list)

    def no_video(self) -> str:
        """Return the sentence for folders that no library is made of."""
        parts = [count(self.other_files, "other file"), count(self.links, "link")]
        parts.append(count(len(self.ignored), "ignored path"))
        passed = " and ".join(part for part in parts if not part.startswith("0 "))
        were = "was" if passed.startswith("1 ") and " and " not in passed else "were"
        over = f" ({passed} {were} passed over)" if passed else ""
        folders = ", ".join(map(printable, self.roots))
        return f"There is no video in {folders}{over}, so no library was made; name a folder that holds some."


def scan(places: list[Path], rules: IgnoreRules | None = None) -> Scan:
    """Look through folders (and single files, which are taken whatever their suffix).

    Hidden files and folders, thumbnails and recycle bins of network drives, and links are passed over: a link
    may lead outside the folder or in a circle.

    Args:
        places: folders and files.
        rules: ignore lists for what is in the folders; None for the files `.evenreelignore` in them alone.

    Raises:
        LibraryError: a place does not exist or cannot be opened.
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
    yield from _walk(path, found, rules)


def _walk(root: str, found: Scan, rules: IgnoreRules) -> Iterator[FoundFile]:
    folders = [(root, rules.of_root(root))]
    while folders:
        folder, lists = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: os.fsencode(entry.name))
        except OSError:
            found.closed_folders.append(folder)
            continue
        lists = rules.within(folder, {entry.name for entry in entries}, lists)
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in SKIPPED_FOLDERS:
                continue
            kind = _kind_of_entry(entry)
            if kind == "link":
                found.links += 1
            elif is_ignored(entry.path, lists, is_folder=kind == "folder"):
                found.ignored.add(entry.path)
            elif kind == "folder":
                folders.append((entry.path, lists))
            elif Path(entry.name).suffix.lower() in VIDEO_SUFFIXES:
                yield _look_at_entry(entry, root)
            elif kind == "file" and is_subtitle(entry.name):
                found.subtitles.append(_look_at_entry(entry, root))
            elif kind == "file":
                found.other_files += 1
            else:
                found.closed_folders.append(entry.path)


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
    error = None
    if not stat.S_ISREG(result.st_mode):
        error = MediaError("unreadable", f"it is {_kind(result.st_mode)}, not a regular file")
    return FoundFile(path, root, FileStamp.of(result), error)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device"}
    return kinds.get(stat.S_IFMT(mode), "a special file")
