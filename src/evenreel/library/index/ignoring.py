"""Ignore lists: files that a library passes over, in the syntax of gitignore.

A file `.evenreelignore` holds for its folder and all below it; patterns that the library keeps hold for every indexed
folder, from its top. As with git, the last pattern that matches decides, that of the innermost folder before others,
and nothing in an ignored folder is looked at. Capitals and Unicode forms do not count, as on systems where they do not.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from evenreel.errors import LibraryError, UsageError
from evenreel.files import caseless
from evenreel.wording import printable

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".evenreelignore"
IGNORED = "ignored"
"""Entry of `meta`: the patterns of the library, a JSON list."""

MAX_BYTES = 64 * 1024
"""Largest ignore file that is read; lists that people write have a hundredth of it."""

MAX_STARS = 3
"""Most stars between two slashes of a pattern: with more, a long name takes minutes to compare."""

_STARS = re.compile(r"\*+")


@dataclass(frozen=True)
class Ignored:
    """Patterns that hold in a folder and all below it.

    Attributes:
        folder: the folder, absolute.
        patterns: the patterns, each checked.
    """

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
    """The ignore lists of a scan.

    Attributes:
        patterns: patterns of the library, which hold in every scanned folder.
        troubles: files of patterns, and sentences on what is wrong with them.
    """

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
            "The library's ignore list is not what was written; run evenreel verify --repair."
        ) from error


def changed_patterns(known: Sequence[str], more: Sequence[str], without: Sequence[str]) -> tuple[str, ...]:
    """Return a library's patterns with some more at the end, and without others."""
    for pattern in more:
        if not pattern.strip() or pattern.startswith("#"):
            raise UsageError(f"--ignore {printable(pattern)!r} ignores nothing; give a pattern such as '*.tmp.mp4'.")
        if (why := pattern_trouble(pattern)) is not None:
            raise UsageError(f"--ignore cannot be used: {why}.")
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
