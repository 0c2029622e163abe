"""Checks whether a file is still the one that was indexed, by size and times, else by its content."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable

from evenreel.errors import MediaError
from evenreel.library.contents import Located
from evenreel.media.workers import FileStamp, watched_digest

REMEMBERED = 10_000
"""Most files that are remembered after their content was compared, to be read again only after another change."""


class SameContent:
    """Checks files for changed content: by size and times, else by reading and digesting them.

    A file whose size and times are those that were indexed is taken to be the same: its change time, which no program
    can set, moves with every change of its content. Otherwise a file of the same size is read through once and its
    digest compared, since the id of a clip is the digest of its content.
    """

    def __init__(self, timeout_s: float, stopped: Callable[[], bool] = lambda: False) -> None:
        self._timeout_s, self._stopped = timeout_s, stopped
        self._digests: OrderedDict[tuple[object, ...], str] = OrderedDict()

    def check(self, clip_id: str, file: Located, found: os.stat_result) -> Located:
        """Check that a file still has the content that was indexed, and return it with its present size and times."""
        now = FileStamp.of(found)
        if now == file.stamp:
            return file
        if now.size != file.stamp.size or self._digest(file.path, found) != clip_id:
            raise changed()
        return file._replace(stamp=now)

    def _digest(self, path: str, found: os.stat_result) -> str:
        key = (path, found.st_dev, found.st_ino, FileStamp.of(found))
        if key not in self._digests:
            digest = watched_digest(path, self._timeout_s, self._stopped)
            after = os.stat(path, follow_symlinks=False)
            if (path, after.st_dev, after.st_ino, FileStamp.of(after)) != key:
                raise changed()
            self._digests[key] = digest
            while len(self._digests) > REMEMBERED:
                self._digests.popitem(last=False)
        return self._digests[key]


def changed() -> MediaError:
    """Make the error for a file whose content has changed since it was indexed."""
    return MediaError("changed_while_reading", "the file has changed since it was indexed")
