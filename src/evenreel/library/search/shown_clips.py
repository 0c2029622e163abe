"""What a hit shows of a clip whatever was asked for: read of many clips at a time, checked, and kept.

Between two changes of a catalog many searches show the same clips. What was read of a clip in one state of the catalog,
and whether its rows are what was written, is kept until the state changes, of the clips that were shown last.
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from evenreel.library.store.catalog import load_metadata, loaded_path
from evenreel.library.store.rows import ClipTimes, clip_times, rows_by_clip
from evenreel.types import Metadata

KEPT_BYTES = 8 * 2**20
"""Most bytes of what is kept: some 5,000 clips of 12 moments, or 90 of an hour with one a second."""

AT_ONCE = 256
"""Most clips that are read at a time."""

ROW_BYTES, CLIP_BYTES = 200, 1_000
"""About what an entry of a list takes in memory, and a clip without any."""


@dataclass(frozen=True, eq=False)
class ShownClip:
    """What the catalog says of a clip.

    Attributes:
        duration_s: length of the clip in seconds; None where it is not known.
        files: path and metadata, as text, of each of its files that is there, by path.
        times: times of its frames and shots.
        has_tracks: whether anything was read on it.
    """

    duration_s: float | None
    files: Sequence[tuple[str, str]]
    times: ClipTimes
    has_tracks: bool

    def metadata_of(self, path: str) -> Metadata:
        """Return the metadata of one of its files."""
        return load_metadata(dict(self.files)[path])

    @property
    def bytes(self) -> int:
        """About how many bytes it takes in memory."""
        entries = len(self.files) + len(self.times.shots)
        texts = sum(len(path) + len(metadata) for path, metadata in self.files)
        return CLIP_BYTES + ROW_BYTES * entries + texts + self.times.spans_s.nbytes


class ShownClips:
    """Reader of what is shown of clips, in one state of a catalog; keeps what it has read and checked."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._kept: OrderedDict[str, ShownClip | None] = OrderedDict()  # None for a damaged one
        self._bytes = 0

    def first_sound(self, clip_ids: Iterable[str], wanted: int) -> tuple[list[str], list[str]]:
        """Return the first clips whose rows are undamaged, and the damaged ones before and between them."""
        sound, passed_over, rest = list[str](), list[str](), iter(clip_ids)
        while part := list(islice(rest, min(AT_ONCE, wanted - len(sound)))):
            for clip_id, shown in zip(part, self._read(part), strict=True):
                (passed_over if shown is None else sound).append(clip_id)
        return sound, passed_over

    def of(self, clip_ids: Sequence[str]) -> Iterator[ShownClip]:
        """Yield what is shown of clips whose rows are undamaged."""
        for start in range(0, len(clip_ids), AT_ONCE):
            yield from (shown for shown in self._read(clip_ids[start : start + AT_ONCE]) if shown is not None)

    def _read(self, clip_ids: Sequence[str]) -> list[ShownClip | None]:
        new = [clip_id for clip_id in dict.fromkeys(clip_ids) if clip_id not in self._kept]
        if new:
            for clip_id, shown in read_shown(self._connection, new).items():
                self._kept[clip_id] = shown
                self._bytes += _bytes(shown)
        found = [self._kept[clip_id] for clip_id in clip_ids]
        for clip_id in clip_ids:
            self._kept.move_to_end(clip_id)
        while self._bytes > KEPT_BYTES:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= _bytes(gone)
        return found


def read_shown(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> dict[str, ShownClip | None]:
    """Read what the catalog says of clips, each named once; None of one whose rows are not what was written."""
    sound = list(clip_ids)
    lengths = rows_by_clip(connection, sound, "clips", "duration_s", "1")
    files = rows_by_clip(connection, sound, "files", "state, files.path, metadata", "files.path")
    read = _with_tracks(connection, sound)
    facts = zip(sound, lengths, files, clip_times(connection, sound), strict=True)
    shown = {
        clip_id: ShownClip(
            duration_s=length[0][0],
            files=[(loaded_path(path), metadata) for state, path, metadata in its_files if state == "indexed"],
            times=times,
            has_tracks=clip_id in read,
        )
        for clip_id, length, its_files, times in facts
    }
    return {clip_id: shown.get(clip_id) for clip_id in clip_ids}


def _with_tracks(connection: sqlite3.Connection, clip_ids: Sequence[str]) -> set[str]:
    rows = connection.execute(
        "SELECT wanted.key FROM json_each(?) AS wanted"
        " WHERE EXISTS (SELECT 1 FROM tracks WHERE tracks.clip_id = wanted.value)",
        (json.dumps(list(clip_ids)),),
    )
    return {clip_ids[place] for (place,) in rows}


def _bytes(shown: ShownClip | None) -> int:
    return CLIP_BYTES if shown is None else shown.bytes
