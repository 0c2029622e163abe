"""Names of files and their spellings, text made safe to show, and files written whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import secrets
import shutil
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from evenreel.errors import OutputError

TEMPORARY_SUFFIX = ".tmp"
"""Ending of the name of a file that is being written; one that is left after a crash may be deleted."""

_TEMPORARY = re.compile(rf"\..+\.[0-9a-f]{{16}}{re.escape(TEMPORARY_SUFFIX)}", re.DOTALL)

VIDEO_SUFFIXES = frozenset((
    ".3g2", ".3gp", ".3gpp", ".apng", ".asf", ".avi", ".divx", ".dv", ".f4v", ".flv", ".gif", ".insv", ".lrv", ".m1v",
    ".m2p", ".m2t", ".m2ts", ".m2v", ".m4v", ".mk3d", ".mkv", ".mov", ".mp4", ".mp4v", ".mpe", ".mpeg", ".mpg",
    ".mpv", ".mts", ".mxf", ".ogm", ".ogv", ".qt", ".tod", ".trp", ".ts", ".vob", ".webm", ".wmv",
))  # fmt: skip
"""Suffixes, in lower case, of files that may be videos."""

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")  # of letters of Persian words, and of the parts of an emoji; they steer nothing


def printable(path: str) -> str:
    r"""Return text from outside, such as a path, in a form that any terminal, JSON reader or page can take.

    What is not UTF-8 becomes escapes, and so does what could steer a terminal, turn the writing or start a line.

    >>> print(printable("tram\x1b[2J\n"))
    tram\x1b[2J\n
    """
    if path.isprintable():
        return path
    return "".join(
        character if is_printable(character) else character.encode("unicode_escape").decode() for character in path
    )


def is_printable(character: str) -> bool:
    """Check that a character can be shown as it is."""
    return character in _JOINERS or unicodedata.category(character) not in _UNPRINTABLE


_SOMETIMES_VIDEOS = frozenset((".360", ".mod"))  # also part of a number, and tunes


def name_key(name: str) -> str:
    r"""Return what all spellings of a file's name or path have in common, whichever system or program wrote them.

    Capitals, Unicode forms (é as one letter or two), separators, kinds of white space and letters that nobody sees do
    not count.

    >>> name_key("Sub\\Cafe\u0301\u200e 3.MP4") == name_key("sub/caf\u00e9\u202f3.mp4")
    True
    """
    seen = name.replace("\\", "/")
    if not seen.isprintable():
        seen = "".join(one for one in seen if one.isspace() or unicodedata.category(one) not in {"Cc", "Cf"})
    return caseless(" ".join(seen.split()))


def caseless(text: str) -> str:
    """Return a text without capitals and in one Unicode form, to be compared."""
    return (
        text.lower() if text.isascii() else unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())
    )


class FileNames:
    """Names or paths of files, found by any of their spellings."""

    def __init__(self, names: Iterable[str]) -> None:
        self._alike: defaultdict[str, set[str]] = defaultdict(set)
        for name in names:
            self._alike[name_key(name)].add(name)

    def find(self, name: str) -> str | None:
        """Return the name as it is: spelt the same, else the only one that is spelt in another way."""
        alike = self._alike.get(name_key(name), set())
        return name if name in alike else next(iter(alike)) if len(alike) == 1 else None


def file_at(folder: str | os.PathLike[str], name: str) -> Path:
    """Return the path of a file in a folder by any spelling of its name, a path from there; as given where none is."""
    asked, parts = Path(folder, name), name.replace("\\", "/").split("/")
    if os.path.lexists(asked) or ".." in parts:
        return asked
    found = Path(asked.anchor if os.path.isabs(name) else folder)
    try:
        for part in filter(None, parts):
            there = os.path.lexists(found / part)
            spelt = part if there else _in_folder(str(found), found.stat().st_mtime_ns).find(part)
            if spelt is None:
                return asked
            found /= spelt
    except OSError:
        return asked
    return found


@lru_cache(maxsize=64)
def _in_folder(folder: str, changed_ns: int) -> FileNames:
    return FileNames(os.listdir(folder))


FileState = tuple[int, int, int]
"""Inode, size in bytes, and time of the last change in nanoseconds: they differ wherever a file was written anew."""


def may_be_video(path: str) -> bool:
    """Return whether a file may be a video by its suffix, or where that is of other files too, by how it begins."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SOMETIMES_VIDEOS:
        return suffix in VIDEO_SUFFIXES
    with contextlib.suppress(OSError), open(path if os.path.isfile(path) else os.devnull, "rb") as file:
        head = file.read(8)
        return head.startswith(b"\0\0\1\xba") or head.endswith(b"ftyp")
    return False


def first_there(paths: Sequence[str]) -> str:
    """Return the first of the paths of one content that is on its disk now; of none that is, the first."""
    return paths[0] if len(paths) == 1 else next(filter(os.path.lexists, paths), paths[0])


def file_state(path: Path) -> FileState | None:
    """Return the state of a file, to be compared with a later one; None where there is no file."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to; it replaces `path` when the `with` ends well, else it is removed.

    The file at `path` is untouched until then. Folders that are missing are made.
    """
    part = _beside(path)
    try:
        make_folder(path.parent)
        yield part
        sync_file(part)
        part.replace(path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder beside `folder` to fill; when the block ends well it takes its place, else it is removed.

    What stood at `folder` is whole until then. No file system exchanges two full folders in one step, so a power cut
    at the very end can leave the old and the new one beside each other under hidden names, both whole.
    """
    part = _beside(folder)
    try:
        make_folder(part)
        yield part
        _sync_files(part)
        _move_folder(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _sync_files(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sync_file(path)
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            sync_folder(path)


def _move_folder(part: Path, folder: Path) -> None:
    before = _beside(folder) if folder.exists() else None
    if before is not None:
        folder.rename(before)
    try:
        part.rename(folder)
    except OSError:
        if before is not None:
            before.rename(folder)
        raise
    sync_folder(folder.parent)
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")


@contextlib.contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """Write a file of results within a `with`, whole or not at all, as `replacing` does."""
    try:
        with replacing(path) as part:
            yield part
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise OutputError(f"{path} cannot be written ({why}); choose another place.") from error


def write_durably(path: Path, payload: bytes) -> None:
    with replacing(path) as part:
        part.write_bytes(payload)


def is_temporary(name: str) -> bool:
    """Return whether a file's name is one that `replacing` gives to an unfinished file."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_unfinished(folder: Path) -> None:
    """Delete what killed processes have left beside a folder that they filled with `replacing_folder`.

    Only whoever holds a lock that keeps others from filling it may call this.
    """
    for left in folder.parent.glob(f".{glob.escape(folder.name)}.*{TEMPORARY_SUFFIX}"):
        if is_temporary(left.name):
            shutil.rmtree(left, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make a folder whose own entry survives a power cut."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)  # Windows refuses to flush what was opened to be read
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names inside a folder durable; does nothing on Windows, which needs no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
