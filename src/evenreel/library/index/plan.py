"""The plan of an index run: what to do with each file of the folder, by what the catalog knows of it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from evenreel.config import IndexSettings
from evenreel.errors import VanishedFilesError
from evenreel.features.clip_reader import WantedStages
from evenreel.features.pool import Brake
from evenreel.features.progress import TRANSIENT, StagedProgress
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan
from evenreel.library.store.catalog import loaded_path
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.content import FileStamp
from evenreel.wording import printable

GONE_AT_ONCE = 5
GONE_SHARE = 0.25
"""More files than both of these gone from one folder looks like a vanished disk, not like tidying."""


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
        """Have the report tell something of a file."""
        self.report.notes.append((printable(path), printable(sentence)))


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
    """Sort the files of a scan by what must be done with them.

    Args:
        found: the scan.
        known: what the library has of each file, by its path.
        lacks: whether something is to be read of an unchanged file of known content.
        retry: whether files that were set aside are tried again.
    """
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
    """Known files below the scanned folders that do not exist any more."""
    present = {file.path for file in found.files}
    return [
        path
        for path, row in known.items()
        if row.state != "missing"
        and path not in present
        and (found.changed is None or not found.changed.isdisjoint({path, *map(str, PurePath(path).parents)}))
        and any(_below(path, root) for root in found.roots)
        and not any(_below(path, folder) for folder in found.closed_folders)
        and (not os.path.lexists(path) or passed_over(path, found))
    ]


def passed_over(path: str, found: Scan) -> bool:
    """Return whether an ignore list passes over a known file, or over a folder that it is in."""
    return bool(found.ignored) and not found.ignored.isdisjoint({path, *map(str, PurePath(path).parents)})


def check_nothing_vanished(found: Scan, known: dict[str, KnownFile], gone: list[str]) -> None:
    """Refuse to mark a large part of a folder as missing unless the user allows it.

    A file that is new and has the size and time of one that is gone is that one, moved, as far as a stat can tell.
    """
    new = {_identity(file.stamp) for file in found.files if file.path not in known}
    vanished = [path for path in gone if _identity(known[path].stamp) not in new and not passed_over(path, found)]
    for root in found.roots:
        before = sum(row.state != "missing" and _below(path, root) for path, row in known.items())
        lost = sum(_below(path, root) for path in vanished)
        if lost and (lost == before or (lost >= GONE_AT_ONCE and lost > GONE_SHARE * before)):
            raise VanishedFilesError(
                f"{lost} of {before} indexed files are gone from {root}; is its disk or share connected? Nothing was "
                "changed. If they are gone for good, run again with --accept-missing."
            )


def _identity(stamp: FileStamp) -> tuple[int, int]:
    """What stays of a stamp when a file is renamed."""
    return stamp.size, stamp.mtime_ns


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def mark_gone(store: Store, plan: IndexPlan) -> tuple[int, int]:
    """Mark the files that are gone; return how many are missing, and how many have moved."""
    store.mark_missing(plan.gone)
    moved = store.forget_moved()
    return len(set(plan.gone) - moved), len(moved)
