"""The plan of an index run: what to do with each file of the folder, how long that takes, and how far it is."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePath

from evenreel.config import IndexSettings, MediaLimits
from evenreel.errors import MediaError, VanishedFilesError
from evenreel.features.clip_reader import WantedStages
from evenreel.features.pool import Brake
from evenreel.features.progress import TRANSIENT, StagedProgress, VideoProgress
from evenreel.library.index.report import IndexReport
from evenreel.library.index.scan import Scan, is_within
from evenreel.library.index.worker import FileWorker
from evenreel.library.store.catalog import loaded_path
from evenreel.library.store.writer import FoundFile, Store
from evenreel.media.content import FileStamp, stamp
from evenreel.media.sampling import Part
from evenreel.media.workers import Worker
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
    """Known files below the scanned folders that do not exist any more."""
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

    def identity(stamp: FileStamp) -> tuple[int, int]:
        """What stays of a stamp when a file is renamed."""
        return stamp.size, stamp.mtime_ns

    new = {identity(file.stamp) for file in found.files if file.path not in known}
    vanished = [path for path in gone if identity(known[path].stamp) not in new and not passed_over(path, found)]
    for root in found.roots:
        before = sum(row.state != "missing" and is_within(path, root) for path, row in known.items())
        lost = sum(is_within(path, root) for path in vanished)
        if lost and (lost == before or (lost >= GONE_AT_ONCE and lost > GONE_SHARE * before)):
            raise VanishedFilesError(
                f"{lost} of {before} indexed files are gone from {root}; is its disk or share connected? Nothing was "
                "changed. If they are gone for good, run again with --set accept_missing=yes."
            )


def mark_gone(store: Store, plan: IndexPlan) -> tuple[int, int]:
    """Mark the files that are gone; return how many are missing, and how many have moved."""
    store.mark_missing(plan.gone)
    moved = store.forget_moved()
    return len(set(plan.gone) - moved), len(moved)


# how much there is to read, how long it takes, and how far it is ----------------------------------------------------

HEADER_READER = "evenreel.media.video:HeaderReader"
PATIENCE_S = 5.0  # for which headers are read; the length of further files is estimated by their bytes
STALL_S = 3.0  # that one header may take; the file is read all the same later on, with the limits of the run
SMALL_BYTES = 16 * 2**20  # with less than this to read in all, nobody waits long: no header is read ahead

STRETCH_S = 6.0  # of each file that are read: the text of some signs is read, and it takes seconds, not minutes
WARM_UP_S = 1.0  # that are read before, so that the start of processes and the loading of models are not measured

TELL_S = 0.25  # least seconds between two events of progress; the last one of a pass is always told
SURE_S = 2.0  # of reading before a rate is told: the first frames wait for processes that start


@dataclass(frozen=True)
class VideoLengths:
    """Length of each file of a run in seconds, by path: as the catalog or headers tell, or estimated by its bytes."""

    by_path: dict[str, float] = field(default_factory=dict)
    sure: bool = True  # whether none of them is an estimate

    @property
    def video_s(self) -> float:
        """Length of all files together, in seconds."""
        return sum(self.by_path.values())


def measure_lengths(
    work: Sequence[FoundFile], connection: sqlite3.Connection, limits: MediaLimits, patience_s: float | None = None
) -> VideoLengths:
    """Measure how long files are, before anything is decoded; what headers read in time say stands for the others."""
    known = {
        loaded_path(path): float(length_s)
        for path, length_s in connection.execute(
            "SELECT path, duration_s FROM files JOIN clips USING (clip_id) WHERE duration_s IS NOT NULL"
        )
    }
    found = {file.path: known[file.path] for file in work if file.path in known}
    unknown = [file for file in work if file.path not in found]
    if sum(file.stamp.size for file in unknown) >= SMALL_BYTES:
        random.Random(0).shuffle(unknown)
        found |= _by_header(unknown, limits, PATIENCE_S if patience_s is None else patience_s)
    size = sum(file.stamp.size for file in work if file.path in found)
    seconds_a_byte = sum(found.values()) / size if size else 0.0
    estimated = {file.path: file.stamp.size * seconds_a_byte for file in unknown if file.path not in found}
    return VideoLengths(found | estimated, sure=not estimated)


def _by_header(files: Sequence[FoundFile], limits: MediaLimits, patience_s: float) -> dict[str, float]:
    """Lengths by what headers say; 0 of a file that cannot be read, which takes no time either."""
    limits = replace(limits, stall_timeout_s=min(STALL_S, limits.stall_timeout_s))
    found: dict[str, float] = {}
    with closing(Worker(HEADER_READER, {"limits": asdict(limits)}, limits)) as worker:
        until = time.monotonic() + patience_s
        for file in files:
            if time.monotonic() > until:
                break
            try:
                header = next(message for message, _ in worker.run({"path": file.path}))
                found[file.path] = header["duration_s"] or 0.0
            except MediaError:
                found[file.path] = 0.0
    return found


def seconds_a_second(
    new_reader: Callable[[], FileWorker],
    readers: int,
    files: Sequence[FoundFile],
    lengths_s: Mapping[str, float],
    stages: Sequence[WantedStages | None],
) -> list[float | None]:
    """Measure on this machine how long a second of video takes to read: short stretches are read as the run reads.

    As many readers as the run has read a stretch of a file each, at the same time, once for each of some stages.
    Nothing of it is kept.
    """
    chosen = _chosen([file for file in files if lengths_s.get(file.path, 0.0) > 2 * STRETCH_S], readers)
    if not chosen:
        return [None for _ in stages]
    with ExitStack() as opened:
        readers_of_files = [opened.enter_context(closing(new_reader())) for _ in chosen]
        threads = opened.enter_context(ThreadPoolExecutor(len(chosen), thread_name_prefix="foretelling"))

        def read_all(wanted: WantedStages, length_s: float) -> float:
            """Read the middle of each file; the seconds of video that were read."""

            def read(reader: FileWorker, file: FoundFile) -> float:
                start_s = (lengths_s[file.path] - length_s) / 2
                stretch = replace(file, clip_id="foretold", stamp=stamp(file.path))
                with suppress(MediaError):
                    reader.read(stretch, wanted, Part(start_s, start_s + length_s))()
                    return length_s
                return 0.0

            return sum(threads.map(read, readers_of_files, chosen))

        found: list[float | None] = []
        for wanted in stages:
            if wanted is None or not read_all(wanted, WARM_UP_S):
                found.append(None)
                continue
            begun_at = time.monotonic()
            read_s = read_all(wanted, STRETCH_S)
            found.append((time.monotonic() - begun_at) / read_s if read_s else None)
        return found


def _chosen(files: Sequence[FoundFile], number: int) -> list[FoundFile]:
    """Files of all sizes: evenly spread over the files by size."""
    ordered = sorted(files, key=lambda file: file.stamp.size)
    number = min(number, len(ordered))
    return [ordered[(2 * place + 1) * len(ordered) // (2 * number)] for place in range(number)]


class VideoMeter:
    """Adds up the seconds of video that a pass has read, and tells them a few times a second; for several threads."""

    def __init__(self, stage: str, lengths_s: Mapping[str, float], progress: StagedProgress) -> None:
        self._stage, self._progress = stage, progress
        self._lengths_s, self._read_s = dict(lengths_s), dict.fromkeys(lengths_s, 0.0)
        self._total_s, self._done_s = sum(lengths_s.values()), 0.0
        self._finished, self._file = set[str](), ""
        self._unknown = {path for path, length_s in lengths_s.items() if not length_s}
        self._begun_at: float | None = None
        self._told_at = -TELL_S
        self._lock = threading.Lock()
        self._tell(time.monotonic())

    def read(self, path: str, time_s: float) -> None:
        """Note that a file was read up to a time, in seconds."""
        with self._lock:
            now = time.monotonic()
            self._begun_at = self._begun_at or now
            if path in self._read_s and path not in self._finished:
                self._file = path
                self._set(path, max(self._read_s[path], time_s))
            if now - self._told_at >= TELL_S:
                self._tell(now)

    def finish(self, path: str, length_s: float | None = None) -> None:
        """Note that a file is finished or set aside; `length_s` is its length where that is known by now."""
        with self._lock:
            if path in self._read_s and path not in self._finished:
                self._finished.add(path)
                self._unknown.discard(path)
                if length_s is not None:
                    self._total_s += length_s - self._lengths_s[path]
                    self._lengths_s[path] = length_s
                self._set(path, self._lengths_s[path])
            self._tell(time.monotonic())

    def _set(self, path: str, read_s: float) -> None:
        """Note how much of a file was read; one that goes on after its expected end is longer than that."""
        beyond_s = max(0.0, read_s - self._lengths_s[path])
        self._lengths_s[path] += beyond_s
        self._total_s += beyond_s
        self._done_s += read_s - self._read_s[path]
        self._read_s[path] = read_s

    def _unseen_s(self) -> float:
        """Estimate what is still to be seen of files of unknown length: such a file is as long as finished ones are."""
        if not self._finished:
            return 0.0
        mean_s = sum(self._lengths_s[path] for path in self._finished) / len(self._finished)
        return sum(max(0.0, mean_s - self._lengths_s[path]) for path in self._unknown)

    def _tell(self, now: float) -> None:
        self._told_at = now
        seconds = 0.0 if self._begun_at is None else now - self._begun_at
        rate = self._done_s / seconds if seconds >= SURE_S and self._done_s > 0 else None
        total_s = self._total_s + self._unseen_s()
        is_told = bool(self._finished) or not self._unknown
        left_s = max(0.0, total_s - self._done_s)
        self._progress.video(
            VideoProgress(
                self._stage,
                done_s=self._done_s,
                total_s=total_s if is_told else 0.0,
                files_done=len(self._finished),
                files=len(self._read_s),
                rate=rate,
                remaining_s=left_s / rate if rate is not None and is_told else None,
                file=printable(self._file),
            )
        )
