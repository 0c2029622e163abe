"""Folders below the home folder that a person may choose: no hidden ones, and no link that leads out of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evenreel.errors import NotFoundError, UsageError
from evenreel.files import may_be_video
from evenreel.library.index.scan import SKIPPED_FOLDERS
from evenreel.server.adding.records import FolderInside, FolderListing
from evenreel.wording import printable

LOOKED_AT = 60_000
"""Most entries that are looked at to count the videos of one listing, shared equally among its folders."""
SHOWN_FOLDERS = 2_000
"""Most folders of a listing."""


@dataclass(frozen=True)
class VideoCount:
    """Number of videos in a folder and below it; `more` where counting ended before all was seen."""

    videos: int
    more: bool


class HomeFolders:
    """Folders of one home folder, named by their path below it."""

    def __init__(self, home: Path) -> None:
        self._home = Path(os.path.realpath(home))

    def find(self, path: str) -> Path:
        """Return the folder that a path below the home folder names, without links; '' is the home folder."""
        parts = [part for part in path.split("/") if part]
        if path.startswith("/") or "\0" in path or any(map(_is_out_of_the_way, parts)):
            raise UsageError(f"{_shown(path)} is no folder that can be added: choose one below your home folder.")
        folder = Path(os.path.realpath(self._home.joinpath(*parts)))
        if not self._may_be_chosen(folder):
            raise UsageError(
                f"{_shown(path)} leads out of your home folder, or to a hidden one in it; choose another, or add it in "
                "a terminal: evenreel index FOLDER."
            )
        try:
            if not folder.is_dir():
                raise NotFoundError(f"The folder {_shown(path)} is not there any more; choose another.")
            os.scandir(folder).close()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(f"{_shown(path)} cannot be opened ({why}); make it readable or choose another.") from error
        return folder

    def listing(self, path: str, added: Iterable[str] = ()) -> FolderListing:
        """List the folders in a folder, each with the number of its videos."""
        folder = self.find(path)
        found, left_out = self._folders_in(folder)
        share = LOOKED_AT // (1 + len(found))
        counted = [(one, count_videos(one, share)) for one in found]
        here = count_videos(folder, share, below=False)
        return FolderListing(
            name=printable(folder.name) if folder != self._home else "Home",
            path=self.path_of(folder),
            videos=here.videos + sum(one.videos for _, one in counted),
            more=here.more or any(one.more for _, one in counted),
            added=is_below(folder, added),
            folders=[
                FolderInside(name=one.name, path=self.path_of(one), videos=number.videos, more=number.more)
                for one, number in counted
            ],
            left_out=left_out,
        )

    def path_of(self, folder: Path) -> str:
        """Return the path of a folder below the home folder, '' for the home folder itself."""
        return folder.relative_to(self._home).as_posix() if folder != self._home else ""

    def shown(self, folder: str) -> str:
        """Return a folder as a person knows it: below the home folder where it is there, else its last name."""
        path = Path(folder)
        return printable(_shown(self.path_of(path)) if path.is_relative_to(self._home) else path.name)

    def _may_be_chosen(self, folder: Path) -> bool:
        return folder.is_relative_to(self._home) and not any(
            map(_is_out_of_the_way, folder.relative_to(self._home).parts)
        )

    def _can_be_shown(self, folder: Path) -> bool:
        """Whether it can be named in JSON and opened."""
        path = self.path_of(folder)
        return printable(path) == path and os.access(folder, os.R_OK | os.X_OK)

    def _folders_in(self, folder: Path) -> tuple[list[Path], int]:
        """The folders in a folder by their names, links to others followed, and how many cannot be chosen."""
        found: list[Path] = []
        left_out = 0
        for entry in _entries(folder):
            if _is_out_of_the_way(entry.name) or not _is_folder(entry):
                continue
            real = Path(os.path.realpath(entry.path)) if entry.is_symlink() else folder / entry.name
            if folder.is_relative_to(real):  # a link in a circle
                continue
            if len(found) < SHOWN_FOLDERS and self._may_be_chosen(real) and self._can_be_shown(real):
                found.append(real)
            else:
                left_out += 1
        unique = dict.fromkeys(found)
        return sorted(unique, key=lambda one: (one.name.casefold(), one.name)), left_out


def count_videos(folder: Path, most: int, *, below: bool = True) -> VideoCount:
    """Count files with a video's suffix as an index run finds them, without hidden ones and without following links."""
    videos, waiting = 0, [folder]
    while waiting:
        for entry in _entries(waiting.pop()):
            most -= 1
            if most < 0:
                return VideoCount(videos, more=True)
            if _is_out_of_the_way(entry.name) or entry.is_symlink():
                continue
            if _is_folder(entry):
                waiting += [Path(entry.path)] if below else []
            else:
                videos += may_be_video(entry.path)
    return VideoCount(videos, more=False)


def is_below(folder: Path, others: Iterable[str]) -> bool:
    """Return whether a folder is one of some others, or in one of them."""
    return any(folder.is_relative_to(os.path.realpath(other)) for other in others)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What is in a folder; nothing where it cannot be looked at."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_out_of_the_way(name: str) -> bool:
    return name.startswith(".") or name.lower() in SKIPPED_FOLDERS


def _shown(path: str) -> str:
    return printable(path) or "Your home folder"
