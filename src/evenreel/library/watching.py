"""A watcher of folders: what changes there is brought into a library within seconds, for as long as it runs.

One thread listens to the file system and notes which paths have changed; another has index runs look at those that have
settled, one run after the other; models stay loaded between them.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

from evenreel.config import IndexSettings, as_path, as_paths, check_settings_kind
from evenreel.errors import EncoderError, EvenreelError, LibraryError, UsageError, VanishedFilesError
from evenreel.features.pool import Brake, NoProgress, RunHaltedError, StagedProgress, VideoProgress
from evenreel.files import may_be_video, printable
from evenreel.library.index.run import RunParts, check_settings, ignore_rules, index_found
from evenreel.library.index.scan import IGNORE_FILE, IndexReport, is_within, read_tables, rescan, scan, tables_beside
from evenreel.library.store.catalog import CATALOG, is_network_filesystem
from evenreel.speech.subtitles import is_subtitle
from evenreel.types import Encoder, Shown

SETTLE_S = 2.0  # for which size and times of a file stay the same before it is read: copying pauses for less
LOOK_S = 0.25  # between two looks at what has settled
EASE_S = 3.0  # that a run goes on at least before it makes way for files that have settled meanwhile
RESCAN_S = 600.0  # after which all is looked at again: the system may lose events where very many come at once
AGAIN_S, LONGEST_AGAIN_S = 5.0, 60.0  # after which a run that failed is tried again; each time twice as long
LISTEN_AGAIN_S = 30.0  # after which listening is tried again where the system tells no changes at all
POLL_MS = 5_000  # between two looks through a share, whose changes the system does not tell

Look = tuple[int, int, int] | None  # size and times of a file in nanoseconds; None where it is gone

log = logging.getLogger("evenreel")


@dataclass(frozen=True)
class WatchState(Shown):
    """What a watcher is doing at a moment.

    Attributes:
        watching: whether changes are listened to, or looked for, and index runs made of them.
        folders: the watched folders.
        waiting: number of changed files and folders that wait to settle, or for the run at hand to end.
        working: whether an index run is going on.
        progress: how far its reading of videos is; None where none is read.
        last_event: the file or folder that changed last, printable; None where none has.
        last_event_at: when it did, in ISO 8601 with the zone; None where nothing has.
        runs: number of index runs that have ended.
        trouble: a sentence on what the last run failed of, or why no changes are told; None where all is well.
    """

    watching: bool
    folders: tuple[str, ...]
    waiting: int = 0
    working: bool = False
    progress: VideoProgress | None = None
    last_event: str | None = None
    last_event_at: str | None = None
    runs: int = 0
    trouble: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class FileChanges:
    """Paths that have changed, each until it is settled and taken; calls come from several threads."""

    def __init__(self, left_out: str = "\0") -> None:
        self._left_out = left_out
        self.waiting: dict[str, tuple[Look, float]] = {}  # what a path looks like, and since when
        self._lock = threading.RLock()

    def note(self, paths: Iterable[str], now_s: float, roots: Sequence[str]) -> list[str]:
        counted = [path for path in paths if self._counts(path, roots)]
        with self._lock:
            self.waiting.update({path: (_look(path), now_s) for path in counted})
        return counted

    def settled(self, now_s: float) -> set[str]:
        """Return the paths that have stayed the same for `SETTLE_S`; one that has changed begins anew."""
        with self._lock:
            looks = {path: _look(path) for path in self.waiting}
            self.waiting.update({path: (now, now_s) for path, now in looks.items() if now != self.waiting[path][0]})
            return {path for path, (_, since_s) in self.waiting.items() if now_s - since_s >= SETTLE_S}

    def take(self, now_s: float) -> set[str]:
        with self._lock:
            found = self.settled(now_s)
            self.waiting = {path: one for path, one in self.waiting.items() if path not in found}
        return found

    def again(self, paths: Iterable[str]) -> None:
        """Note paths that are settled and have to be looked at once more."""
        with self._lock:
            self.waiting = {**{path: (_look(path), -math.inf) for path in paths}, **self.waiting}

    def _counts(self, path: str, roots: Sequence[str]) -> bool:
        """Whether a change may be one of videos, subtitles, tables, ignore lists or folders, and is not hidden."""
        root = next((one for one in roots if is_within(path, one)), None)
        if root is None or is_within(path, self._left_out):
            return False
        *folders, name = PurePath(path).relative_to(root).parts or ("",)
        if any(folder.startswith(".") for folder in folders):
            return False
        if name == IGNORE_FILE or name.lower().startswith(("metadata.", "manifest.")):
            return True
        # What is gone may have been a folder of any name.
        may_be_folder = os.path.isdir(path) or not os.path.lexists(path)
        return not name.startswith(".") and (may_be_video(path) or is_subtitle(name) or may_be_folder)


def _look(path: str) -> Look:
    with suppress(OSError):
        found = os.lstat(path)
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return None


class _Progress(NoProgress):
    """Passes the progress of a run on to another, and keeps the last."""

    def __init__(self, onward: StagedProgress) -> None:
        self._onward = onward
        self.last: VideoProgress | None = None  # None where no video is read
        for event in ("begin", "frame", "file_done", "stage", "advance", "forecast", "download"):
            setattr(self, event, getattr(onward, event))

    def video(self, progress: VideoProgress) -> None:
        self.last = progress
        self._onward.video(progress)


class Watcher:
    """Watches folders from `start` to `stop`; their videos are kept in step with a library by its index runs.

    A run that is broken off, by `stop`, by a kill or by a fault, is gone on with by the next. Files that are being
    written are left alone until they have stayed the same for two seconds. A run over much makes way for new files
    between two videos.

    Args:
        library: folder of the library; made where it does not exist, with the first video.
        folders: folders to watch, or one alone.
        settings: settings of the index runs; None for the defaults.
        progress: receives the progress of each run.
        metadata: tables about the videos, besides `metadata.*` and `manifest.*` at the top of the folders.
        told: called with the report of each run that has changed something.

    Raises:
        LibraryError: a folder does not exist, or cannot be opened.
        UsageError: there is no folder, or one of them is a file.
    """

    def __init__(
        self,
        library: str | Path,
        folders: str | Path | Sequence[str | Path],
        settings: IndexSettings | None = None,
        *,
        progress: StagedProgress | None = None,
        metadata: str | Path | Sequence[str | Path] = (),
        told: Callable[[IndexReport], object] | None = None,
    ) -> None:
        check_settings_kind(settings, IndexSettings)
        self._library, self._settings = as_path(library, "library"), settings or IndexSettings()
        self._roots = list(dict.fromkeys(map(_folder, as_paths(folders, "folders"))))
        if not self._roots:
            raise UsageError("There is no folder to watch; name one.")
        self._metadata = as_paths(metadata, "metadata")
        self._progress, self._told = _Progress(progress or NoProgress()), told
        self._changes = FileChanges(os.path.abspath(self._library))
        self._stopping, self._lock, self._anew = threading.Event(), threading.Lock(), threading.Event()
        self._threads: list[threading.Thread] = []
        self._brake: Brake | None = None
        self._begun_s, self._all_due_s, self._failures = 0.0, math.inf, 0
        self._last: tuple[str, str] | None = None
        self._ended, self._trouble, self._deaf = 0, "", ""
        self.encoders: dict[str, Encoder] = {}
        """The loaded models, by the name that the library asks for; others may be added before `start`."""
        self.failure: EvenreelError | None = None

    @property
    def state(self) -> WatchState:
        event, event_at = self._last or (None, None)
        alive = bool(self._threads) and all(one.is_alive() for one in self._threads)
        return WatchState(
            watching=alive and not self._stopping.is_set(),
            folders=tuple(map(printable, self._roots)),
            waiting=len(self._changes.waiting),
            working=self._brake is not None,
            progress=self._progress.last,
            last_event=event,
            last_event_at=event_at,
            runs=self._ended,
            trouble=self._trouble or self._deaf or None,
        )

    def start(self) -> None:
        """Begin to watch, and to index what is in the folders already; a watcher is started once.

        Raises:
            LibraryError: the library is a published snapshot.
            UsageError: the language of the settings is none, or the watcher was started before.
            EncoderError: a model of speech or sounds cannot be had.
        """
        if self._threads:
            raise UsageError("A watcher is started once; make another one.")
        check_settings(self._library, self._settings)
        for target in (self._listen, self._work):
            self._threads.append(threading.Thread(target=target, name=f"watch-{target.__name__}", daemon=True))
            self._threads[-1].start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop watching; a run under way ends at once, and what it had finished is kept."""
        self._stopping.set()
        with self._lock:
            if self._brake is not None:
                self._brake.halt()
        for thread in self._threads:
            thread.join(timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the watcher has ended by itself or by `stop`; return whether it has.

        Raises:
            EvenreelError: no run can succeed, as the first one has shown.
        """
        ended = self._stopping.wait(timeout_s)
        if self.failure is not None:
            raise self.failure
        return ended

    def _listen(self) -> None:
        """Note changes as the system tells them; listen anew where a folder was replaced or connected again."""
        polling = any(is_network_filesystem(Path(root)) for root in self._roots)
        while not self._stopping.is_set():
            if not (known := self._identities()):
                self._stopping.wait(1.0)
                continue
            try:
                self._hear(known, polling)
            except (OSError, RuntimeError) as error:  # too many folders for the system, or a link that loops
                why = printable(str(error)) or type(error).__name__
                log.warning("changes are looked for instead of listened to: %s", why)
                if polling:
                    self._deaf = f"Changes are not told ({why}); all is looked at every {LISTEN_AGAIN_S:.0f} s instead."
                    self._anew.set()
                    self._stopping.wait(LISTEN_AGAIN_S)
                polling = True
                self._stopping.wait(1.0)

    def _hear(self, known: dict[str, tuple[int, int]], polling: bool) -> None:
        """Listen to the folders that are there, until one of them is another one or comes or goes."""
        from watchfiles import watch

        events = watch(
            *known,
            watch_filter=None,
            debounce=400,
            rust_timeout=500,
            yield_on_timeout=True,
            stop_event=self._stopping,
            raise_interrupt=False,
            force_polling=polling or None,
            poll_delay_ms=POLL_MS,
            ignore_permission_denied=True,
        )
        is_first = True
        for changes in events:
            if is_first:  # from now on nothing is missed; what was before is looked at
                self._anew.set()
                is_first, self._deaf = False, ""
            now_s = time.monotonic()
            if counted := self._changes.note({path for _, path in changes}, now_s, self._roots):
                self._last = printable(counted[-1]), datetime.now().astimezone().isoformat(timespec="seconds")
            with self._lock:
                if self._brake and now_s - self._begun_s >= EASE_S and self._changes.settled(now_s):
                    self._brake.ease()
            if self._identities() != known:
                return

    def _identities(self) -> dict[str, tuple[int, int]]:
        """The watched folders that are there, with what tells another folder or disk of the same name."""
        found = {}
        for root in self._roots:
            with suppress(OSError):
                look = os.stat(root)
                found[root] = look.st_dev, look.st_ino
        return found

    def _work(self) -> None:
        """Have index runs look at what is due, one after the other."""
        while not self._stopping.wait(LOOK_S):
            now_s = time.monotonic()
            if missing := set(self._roots) - self._identities().keys():
                self._trouble = f"{printable(min(missing))} is not there; is its disk or share connected?"
                continue
            is_due = now_s >= self._all_due_s and (self._failures or not self._changes.settled(now_s))
            if self._anew.is_set() or is_due:  # of a run that made way, what it made way for comes first
                self._anew.clear()
                self._all_due_s = now_s + RESCAN_S
                self._changes.take(now_s)
                self._run(None)
            elif not self._failures and (changed := self._changes.take(now_s)):
                lists = any(os.path.basename(path) == IGNORE_FILE for path in changed)
                self._run(None if lists else changed)

    def _run(self, changed: set[str] | None) -> None:
        """Make one index run: over what has changed, or over all (None)."""
        with self._lock:
            self._brake, self._begun_s = Brake(), time.monotonic()
            brake = self._brake
            if self._stopping.is_set():
                brake.halt()
        try:
            report = self._index(changed, brake)
            self._ended, self._trouble, self._failures = self._ended + 1, "", 0
            if report.unfinished and changed is None:
                self._all_due_s = time.monotonic() + LOOK_S  # after what has settled meanwhile
            elif report.unfinished:
                self._changes.again(changed or ())
            if self._told is not None and not report.did_nothing:
                self._told(report)
        except RunHaltedError:
            self._stopping.set()
        except Exception as error:
            if not brake.halted:  # then it is what comes of being ended
                self._fail(error)
        finally:
            with self._lock:
                self._brake, self._progress.last = None, None

    def _index(self, changed: set[str] | None, brake: Brake) -> IndexReport:
        """Index what has changed, or all; files that are still being written are left for the time when they settle."""
        unsettled = set(self._changes.waiting) - self._changes.settled(time.monotonic())
        library, settings, rules = self._library, self._settings, ignore_rules(self._library, self._settings)
        found = scan(list(map(Path, self._roots)), rules) if changed is None else rescan(self._roots, changed, rules)
        found.files = [file for file in found.files if file.path not in unsettled]
        found.subtitles = [file for file in found.subtitles if file.path not in unsettled]
        if not found.files and not (library / CATALOG).exists():
            return IndexReport()  # an empty folder is watched for its first video
        if changed is not None:  # that files are gone was seen, and needs no second look
            settings = replace(settings, accept_missing=True)
        tables = read_tables(tables_beside(self._roots), self._metadata, settings.limits)
        parts = RunParts(self._progress, brake=brake, encoders=self.encoders)
        try:
            report = index_found(library, settings, found, tables, parts)
        except VanishedFilesError:  # what is there is indexed all the same
            found.changed = frozenset(file.path for file in found.files)
            index_found(library, settings, found, tables, parts)
            raise
        self._settings = replace(self._settings, ignore=(), unignore=())  # the library keeps them now
        return report

    def _fail(self, error: Exception) -> None:
        """Try all again later; where nothing has ever worked and settings are to blame, give up."""
        self._trouble = printable(str(error) or type(error).__name__)
        if isinstance(error, (UsageError, EncoderError)) and not self._ended:
            self.failure = error
            self._stopping.set()
            return
        if not isinstance(error, EvenreelError):
            log.exception("an index run failed")
        log.warning("%s", self._trouble)
        if not isinstance(error, VanishedFilesError):  # what is there was indexed
            self._all_due_s = time.monotonic() + min(LONGEST_AGAIN_S, AGAIN_S * 2**self._failures)
            self._failures += 1


def _folder(place: Path) -> str:
    path = os.path.abspath(place)
    if not os.path.lexists(path):
        raise LibraryError(f"{place} does not exist; if it is on a disk or share, is that one connected?")
    if not os.path.isdir(path):
        raise UsageError(f"{place} is no folder; watch the folder that it is in.")
    if not os.access(path, os.R_OK | os.X_OK):
        raise LibraryError(f"{place} cannot be opened; make it readable, or leave it out.")
    return path
