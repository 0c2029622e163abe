"""A watcher of folders: what changes there is brought into a library within seconds, for as long as it runs."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from evenreel.arguments import as_path, check_settings_kind, one_or_more
from evenreel.config import IndexSettings
from evenreel.errors import EncoderError, EvenreelError, LibraryError, UsageError, VanishedFilesError
from evenreel.features.pool import Brake, RunHaltedError
from evenreel.features.progress import NoProgress, StagedProgress
from evenreel.library.index.ignoring import IGNORE_FILE
from evenreel.library.index.report import IndexReport
from evenreel.library.store.filesystem import is_network_filesystem
from evenreel.library.watching.changes import FileChanges
from evenreel.library.watching.runs import WatchRuns
from evenreel.library.watching.state import WatchedProgress, WatchState
from evenreel.types import Encoder
from evenreel.wording import printable

LOOK_S = 0.25
"""Seconds between two looks at what has settled."""

EASE_S = 3.0
"""Seconds that a run goes on at least before it makes way for files that have settled meanwhile."""

RESCAN_S = 600.0
"""Seconds after which all is looked at again: the system may lose events where very many come at once."""

AGAIN_S = 5.0
"""Seconds after which a run that failed is tried again; each time twice as long, up to `LONGEST_AGAIN_S`."""

LONGEST_AGAIN_S = 60.0

LISTEN_AGAIN_S = 30.0
"""Seconds after which all is looked at, and listening tried again, where the system tells no changes at all."""

POLL_MS = 5_000
"""Milliseconds between two looks through a share, whose changes the system does not tell."""

log = logging.getLogger("evenreel")


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
        place = as_path(library, "library")
        roots = [_folder(as_path(one, "folders")) for one in one_or_more(folders, "folders", (str, os.PathLike))]
        if not roots:
            raise UsageError("There is no folder to watch; name one.")
        tables = [as_path(one, "metadata") for one in one_or_more(metadata, "metadata", (str, os.PathLike))]
        self._runs = WatchRuns(place, list(dict.fromkeys(roots)), settings or IndexSettings(), tables)
        self._progress, self._told = WatchedProgress(progress or NoProgress()), told
        self._changes = FileChanges([os.path.abspath(place)])
        self._stopping, self._lock = threading.Event(), threading.Lock()
        self._threads: list[threading.Thread] = []
        self._brake: Brake | None = None
        self._begun_s = 0.0
        self._anew = threading.Event()
        self._all_due_s, self._failures = math.inf, 0
        self._last: tuple[str, str] | None = None
        self._ended, self._trouble, self._deaf = 0, "", ""
        self.failure: EvenreelError | None = None

    @property
    def encoders(self) -> dict[str, Encoder]:
        """The loaded models, by the name that the library asks for; others may be added before `start`."""
        return self._runs.encoders

    @property
    def state(self) -> WatchState:
        """What the watcher is doing now."""
        working = self._brake is not None
        event, event_at = self._last or (None, None)
        return WatchState(
            watching=bool(self._threads)
            and all(one.is_alive() for one in self._threads)
            and not self._stopping.is_set(),
            folders=tuple(map(printable, self._runs.roots)),
            waiting=len(self._changes),
            working=working,
            progress=self._progress.last if working else None,
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
        self._runs.check()
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
        polling = any(is_network_filesystem(Path(root)) for root in self._runs.roots)
        while not self._stopping.is_set():
            if not (known := self._identities()):
                self._stopping.wait(1.0)
                continue
            try:
                self._hear(known, polling)
            except (OSError, RuntimeError) as error:  # too many folders for the system, or a link that loops
                log.warning("changes are looked for instead of listened to: %s", printable(str(error)))
                if polling:
                    self._look_instead(error)
                polling = True
                self._stopping.wait(1.0)

    def _look_instead(self, error: Exception) -> None:
        """Have all looked at, where no change is told; wait until listening is worth another try."""
        why = printable(str(error)) or type(error).__name__
        self._deaf = f"Changes are not told ({why}); all is looked at every {LISTEN_AGAIN_S:.0f} s instead."
        self._anew.set()
        self._stopping.wait(LISTEN_AGAIN_S)

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
            self._note({path for _, path in changes})
            if self._identities() != known:
                return

    def _identities(self) -> dict[str, tuple[int, int]]:
        """The watched folders that are there, with what tells another folder or disk of the same name."""
        found = {}
        for root in self._runs.roots:
            try:
                look = os.stat(root)
            except OSError:
                continue
            found[root] = look.st_dev, look.st_ino
        return found

    def _note(self, paths: set[str]) -> None:
        now_s = time.monotonic()
        if counted := self._changes.note(paths, now_s, self._runs.roots):
            self._last = printable(counted[-1]), datetime.now().astimezone().isoformat(timespec="seconds")
        with self._lock:
            if self._brake and now_s - self._begun_s >= EASE_S and self._changes.settled(now_s):
                self._brake.ease()

    def _work(self) -> None:
        """Have index runs look at what is due, one after the other."""
        while not self._stopping.wait(LOOK_S):
            now_s = time.monotonic()
            if missing := set(self._runs.roots) - self._identities().keys():
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
            unsettled = self._changes.unsettled() - self._changes.settled(time.monotonic())
            if changed is None:
                report = self._runs.all(unsettled, self._progress, brake)
            else:
                report = self._runs.changed(changed, unsettled, self._progress, brake)
            self._succeed(report, changed)
        except RunHaltedError:
            self._stopping.set()
        except Exception as error:
            if not brake.halted:  # then it is what comes of being ended
                self._fail(error)
        finally:
            with self._lock:
                self._brake, self._progress.last = None, None

    def _succeed(self, report: IndexReport, changed: set[str] | None) -> None:
        self._ended, self._trouble, self._failures = self._ended + 1, "", 0
        if report.unfinished and changed is None:
            self._all_due_s = time.monotonic() + LOOK_S  # after what has settled meanwhile
        elif report.unfinished:
            self._changes.again(changed or ())
        if self._told is not None and not report.did_nothing:
            self._told(report)

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
    """The absolute path of a folder to watch."""
    path = os.path.abspath(place)
    if not os.path.lexists(path):
        raise LibraryError(f"{place} does not exist; if it is on a disk or share, is that one connected?")
    if not os.path.isdir(path):
        raise UsageError(f"{place} is no folder; watch the folder that it is in.")
    if not os.access(path, os.R_OK | os.X_OK):
        raise LibraryError(f"{place} cannot be opened; make it readable, or leave it out.")
    return path
