"""What a run over many files needs: readers in parallel, a lock for one writer, and how far it is."""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from evenreel.documents import parse_json
from evenreel.errors import EvenreelError, MediaError
from evenreel.extras import Download
from evenreel.media.workers import watched_digest
from evenreel.progress import Progress

TRANSIENT = frozenset({"unreadable", "changed_while_reading", "bad_features", "killed"})
"""Reasons that may be gone at the next look, so such a file is tried again each time."""


@dataclass(frozen=True)
class SetAside:
    """A clip of a corpus or a file of a library that cannot be used, and why."""

    clip_id: str  # empty for a file
    path: str  # the file; empty where the corpus names none
    reason: str  # a code of `evenreel.errors.Reason`
    sentence: str  # the reason in words

    def to_json(self) -> dict[str, str]:
        """Return the record as plain data; a file has no `clip_id`."""
        return {name: text for name, text in asdict(self).items() if text or name != "clip_id"}


@dataclass(frozen=True)
class Forecast:
    """How much a run has to read, and how long that may take: said once, before anything is read."""

    files: int  # that will be read
    video_s: float  # their length
    sure: bool = True  # whether the header of every file was read for it, else part of it is an estimate
    pictures_s: float | None = None  # that pictures may take, measured on short stretches; None where it was not
    words_s: float | None = None  # that words on screen may take
    hears: bool = False  # whether speech is recognised besides, of which the time is not measured


@dataclass(frozen=True)
class VideoProgress:
    """How far a run has read, in seconds of video."""

    stage: str  # what is read in this pass: `pictures`, `words` or `pictures and words`
    done_s: float
    total_s: float  # to read in this pass; lengths not known yet are estimates, and 0 where no length is known yet
    files_done: int  # finished or set aside
    files: int
    rate: float | None = None  # seconds of video that are read in a second; None before that can be told
    remaining_s: float | None = None
    file: str = ""  # of which something was read last, printable


class StagedProgress:
    """Receives the events of a run that reads video files, and ignores them. Calls come from several threads."""

    def begin(self, files: int) -> None: ...  # a run over this many files
    def frame(self) -> None: ...  # one more was decoded
    def file_done(self, path: str) -> None: ...  # one more was finished or set aside
    def stage(self, name: str, count: int | None = None) -> None: ...  # of so many steps; None: they cannot be counted
    def advance(self, steps: int) -> None: ...  # so many more of the stage are finished
    def forecast(self, forecast: Forecast) -> None: ...  # how much there is to read, once
    def download(self, progress: Download) -> None: ...  # how far a model's download is, a few times a second at most
    def video(self, progress: VideoProgress) -> None: ...  # how far it has read, a few times a second at most


NoProgress = StagedProgress


# readers in parallel --------------------------------------------------------------------------------------------------

GRACE_S = 3.0  # that a run that is broken off waits for work under way, which may be in native code that hears nothing


class Closable(Protocol):
    """An object that holds a process, which `close` ends; callable from any thread, and more than once."""

    def close(self) -> None: ...


class RunHaltedError(EvenreelError):
    """Raised where a run was asked to end at once; what it had finished is kept."""

    def __init__(self) -> None:
        super().__init__("The run was ended; what was finished is kept, and the next one goes on.")


class Brake:
    """Has a run end early: `ease` after the items under way, `halt` at once; the next run goes on from there."""

    def __init__(self) -> None:
        self.eased = self.halted = False

    def ease(self) -> None:
        self.eased = True

    def halt(self) -> None:
        self.halted = self.eased = True


Item = TypeVar("Item")
Reader = TypeVar("Reader", bound=Closable)
One = TypeVar("One")
Other = TypeVar("Other")


class Claims(Generic[Item]):
    """Contents that are being read, and the other items of the same content, which wait for it."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Item]] = {}
        self._lock = threading.Lock()

    def take(self, content: str, item: Item) -> bool:
        """Claim a content; where it is taken, note the item as one that waits for it and return False."""
        with self._lock:
            if content in self._waiting:
                self._waiting[content].append(item)
                return False
            self._waiting[content] = []
            return True

    def release(self, content: str) -> list[Item]:
        """Give a content up; return the items that waited for it."""
        with self._lock:
            return self._waiting.pop(content)


class ReaderPool(Generic[Reader, Item]):
    """Works through a queue with several readers, each with its own thread and killable process.

    A `MediaError` of an item is for `set_aside`, unless its worker was ended by the pool itself, for which the item is
    not to blame. Any other exception that `read`, or a function handed over, raises ends the whole run.
    """

    def __init__(
        self,
        new_reader: Callable[[], Reader],
        read: Callable[[Reader, Item], None],
        set_aside: Callable[[Item, MediaError], None],
        readers: int,
        brake: Brake | None = None,
    ) -> None:
        self._brake = brake or Brake()
        self._new_reader, self._read, self._set_aside, self._count = new_reader, read, set_aside, readers
        self._queue: deque[Item] = deque()
        self._readers: list[Reader] = []
        self._failure: BaseException | None = None
        self._activity = RunningTasks()
        self._finisher = ThreadPoolExecutor(1, thread_name_prefix="finisher")
        self._waiting = threading.Semaphore(readers)
        self._stopped = False

    def run(self, items: Sequence[Item]) -> None:
        """Process all items, and all that are added meanwhile; call it once.

        Broken off by an exception, it waits at most `GRACE_S` for its threads; one that is left behind then (a model is
        loading, a batch is being encoded) ends with that call or with the process.
        """
        self._queue.extend(items)
        try:
            # An item may be added when the last reader has just gone.
            while self._queue and self._failure is None and not self._brake.eased:
                for number in range(min(self._count, len(self._queue))):
                    self._activity.begin()
                    threading.Thread(target=self._read_from_queue, name=f"reader-{number}", daemon=True).start()
                self._activity.wait(unless=lambda: self._brake.halted)
            if self._brake.halted:
                raise RunHaltedError
        finally:
            self._fail(None)
            self._activity.wait(GRACE_S)
            self._finisher.shutdown(wait=False)
        if self._failure is not None:
            raise self._failure

    @property
    def stopping(self) -> bool:
        """Whether the run is ending; what fails from now on is no fault of an item."""
        return self._stopped or self._brake.halted

    def add(self, items: Iterable[Item]) -> None:
        self._queue.extend(items)

    def digest(self, path: str, stall_timeout_s: float) -> str:
        """Return the digest of a file's bytes; reading it ends with the run."""
        return watched_digest(path, stall_timeout_s, lambda: self.stopping)

    def hand_over(self, finish: Callable[[], None]) -> None:
        """Leave the rest of an item to the thread that finishes items; wait while its queue is full."""
        while not self._waiting.acquire(timeout=0.2):
            if self.stopping:
                return
        self._activity.begin()
        self._finisher.submit(self._finish, finish)

    def _finish(self, finish: Callable[[], None]) -> None:
        try:
            if not self.stopping:
                finish()
        except BaseException as error:
            self._fail(error)
        finally:
            self._waiting.release()
            self._activity.end()

    def _read_from_queue(self) -> None:
        reader = self._new_reader()
        self._readers.append(reader)
        try:
            while not (self.stopping or self._brake.eased):
                try:
                    item = self._queue.popleft()
                except IndexError:
                    return
                try:
                    self._read(reader, item)
                except MediaError as error:
                    if not self.stopping:
                        self._set_aside(item, error)
        except BaseException as error:
            self._fail(error)
        finally:
            reader.close()
            self._activity.end()

    def _fail(self, error: BaseException | None) -> None:
        """End the readers, and carry an error that ends the run to the main thread, which raises it."""
        if not self.stopping:
            self._failure = self._failure or error
        self._stopped = True
        for reader in self._readers:
            reader.close()


class ClipRun(ReaderPool[Reader, Item]):
    """A pool that tells the share of its items that are done."""

    def __init__(
        self,
        new_reader: Callable[[], Reader],
        work: Callable[[Reader, Item], None],
        set_aside: Callable[[Item, MediaError], None],
        readers: int,
        progress: Progress,
    ) -> None:
        super().__init__(new_reader, self._counted(work), self._counted(set_aside), readers)
        self._progress, self._items, self._done, self._counting = progress, 0, 0, threading.Lock()

    def run(self, items: Sequence[Item]) -> None:
        self._items = len(items)
        super().run(items)

    def _counted(self, do: Callable[[One, Other], None]) -> Callable[[One, Other], None]:
        def counted(one: One, other: Other) -> None:
            do(one, other)
            with self._counting:
                self._done += 1
                self._progress(self._done / self._items)

        return counted


class RunningTasks:
    """Counter of running threads and tasks that can be waited on until it is 0.

    Not `Thread.join`: an interrupt during it can make a thread look ended that is not (Python up to 3.12).
    """

    def __init__(self) -> None:
        self._count, self._changed = 0, threading.Condition()

    def begin(self) -> None:
        with self._changed:
            self._count += 1

    def end(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, timeout_s: float = math.inf, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait until all tasks have ended; an interrupt is raised at once."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._count and time.monotonic() < deadline and not unless():
                self._changed.wait(0.2)


# one writer of a folder -----------------------------------------------------------------------------------------------

LOCK = "index.lock"
HOLDER = "index.holder"
HOLDER_GRACE_S = 10.0  # for which the lock of a process that is gone is waited for


@contextlib.contextmanager
def writer_lock(folder: Path, error: type[EvenreelError], remedy: str) -> Iterator[None]:
    """Hold a folder for writing; it is made where it does not exist.

    The operating system drops the lock with the process, so a crash, a reboot or a reused process id never
    leaves a stale one behind; the file beside it only names the holder. A child that was being started when its
    parent was killed has a copy of the lock until its own program begins, so a dead holder's lock is waited for.
    """
    from filelock import FileLock, Timeout

    lock, deadline = FileLock(folder / LOCK), time.monotonic() + HOLDER_GRACE_S
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                if _may_live(_named(folder)) or time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
    except Timeout as caught:
        holder = _named(folder)
        by = "process {pid} on {host} (since {started})".format(**holder) if holder else "another process"
        raise error(f"{folder} is being written by {by}; wait for it to end, or {remedy}.") from caught
    except OSError as caught:
        raise error(f"{folder} cannot be written: {caught.strerror or caught}.") from caught
    try:
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "started": time.strftime("%Y-%m-%d %H:%M:%S")}
        with contextlib.suppress(OSError):  # a courtesy: the lock itself is held already
            (folder / HOLDER).write_text(json.dumps(holder), encoding="utf-8")
        yield
    finally:
        (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def is_held(error: EvenreelError) -> bool:
    """Return whether an error of `writer_lock` says that another process holds the folder."""
    from filelock import Timeout

    return isinstance(error.__cause__, Timeout)


def _may_live(holder: dict[str, Any] | None) -> bool:
    """Check that a holder runs, or is on another host; one without a name is beginning or ending."""
    import psutil

    if holder is None:
        return False
    if holder["host"] != socket.gethostname():
        return True
    try:
        return bool(psutil.Process(holder["pid"]).status() != psutil.STATUS_ZOMBIE)
    except (psutil.NoSuchProcess, ValueError):  # no process has a negative number
        return False
    except psutil.AccessDenied:
        return True


def _named(folder: Path) -> dict[str, Any] | None:
    try:
        holder = parse_json((folder / HOLDER).read_text(encoding="utf-8"))
        return {"pid": int(holder["pid"]), "host": str(holder["host"]), "started": str(holder["started"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None
