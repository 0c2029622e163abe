"""Several processes that serve one library behind one port: started, given visitors, replaced and ended.

The supervisor alone listens. It hands each connection to the worker that has the fewest open, over a socket pair that
the two share, so that visitors are spread evenly whatever their number, and no visitor waits in line at a worker that
dies. A worker says over the same pair that it answers (`UP`), that its model is loaded (`READY`), that a connection has
ended (`ENDED`), now and then that it still runs (`ALIVE`), and that it is about to end (`LEAVING`); that the pair is
closed tells each that the other is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evenreel.config import usable_cores
from evenreel.errors import UsageError
from evenreel.processes import command
from evenreel.server.connections import warn_rarely
from evenreel.server.settings import ServeSettings
from evenreel.server.worker_task import WorkerTask

log = logging.getLogger("evenreel")

UP, READY, ENDED, ALIVE, LEAVING = b"u", b"r", b"-", b".", b"l"
"""What a worker says: it answers, its model is loaded (or cannot be), a connection has ended, it runs, it will end."""
VISITOR, ALL_READY, NO_MORE = b"c", b"a", b"n"
"""What a worker is told: here is a connection, all workers have been ready, and no more connections will come."""
BEAT_S = 5.0
"""Seconds between two times that a worker says it runs."""
HUNG_S = 60.0
"""Seconds without a word after which a worker that has answered is killed."""
FAREWELL_S = 10.0
"""Seconds that a worker may take to end before it is killed."""
LONGEST_PAUSE_S = 30.0
"""Longest pause before a worker is started in place of one that never answered."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@dataclass(eq=False)
class ServingProcess:
    """A worker as the supervisor sees it.

    Attributes:
        process: the process.
        channel: the supervisor's end of the socket pair.
        connections: number of connections that it was given and has not ended.
        is_up: whether it answers.
        is_ready: whether its model is loaded, or cannot be.
        is_leaving: whether it has said that it is about to end.
        heard_s: when it last said anything, by the clock of the supervisor's loop.
    """

    process: subprocess.Popen[bytes]
    channel: socket.socket
    connections: int = 0
    is_up: bool = False
    is_ready: bool = False
    is_leaving: bool = False
    heard_s: float = 0.0

    @property
    def takes_visitors(self) -> bool:
        """Whether it answers, and will go on to."""
        return self.is_up and not self.is_leaving


@dataclass(eq=False)
class Supervisor:
    """Keeps `settings.workers` processes serving one library."""

    library: Path
    settings: ServeSettings
    listener: socket.socket
    _workers: list[ServingProcess] = field(default_factory=list)
    _failures: int = 0  # workers in a row that never answered
    _all_ready: bool = False
    _accepting: bool = False

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP, which is then raised again for whoever handles it."""
        check_system()
        with tempfile.TemporaryDirectory(prefix="evenreel-serve-") as shared, _caught() as caught:
            self._task = WorkerTask(self.library, self.settings, Path(shared))
            asyncio.run(self._run(caught))
        if caught.numbers:
            signal.raise_signal(caught.numbers[0])

    async def _run(self, caught: Caught) -> None:
        self._loop, self._told_to_end = asyncio.get_running_loop(), asyncio.Event()
        self._loop.add_reader(caught.waking, self._end_at_signal, caught.waking)
        self.listener.setblocking(False)
        try:
            for _ in range(self.settings.workers):
                self._start()
            self._look_for_hung()
            await self._told_to_end.wait()
        finally:
            self._told_to_end.set()
            self._accept_while(False)
            self.listener.close()
            await self._end()

    def _end_at_signal(self, waking: socket.socket) -> None:
        self._loop.remove_reader(waking)
        self._told_to_end.set()

    def _start(self) -> None:
        """Start a worker, later where the system has no place for it now; it is given visitors when it answers."""
        if self._told_to_end.is_set():
            return
        try:
            process, channel = _started(self._task)
        except OSError as error:  # there are too many processes or open files, or there is no memory
            self._failures += 1
            log.warning("a process of the server cannot be started (%s); it is tried again", error.strerror or error)
            self._loop.call_later(self._pause_s, self._start)
            return
        worker = ServingProcess(process, channel)
        self._workers.append(worker)
        self._loop.add_reader(channel, self._hear, worker)

    @property
    def _pause_s(self) -> float:
        return min(LONGEST_PAUSE_S, 2.0**self._failures / 2) if self._failures else 0.0

    def _hear(self, worker: ServingProcess) -> None:
        try:
            said = worker.channel.recv(4_096)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._replace(worker)
            return
        worker.heard_s = self._loop.time()
        worker.connections -= said.count(ENDED)
        if UP in said:
            worker.is_up, self._failures = True, 0
        if READY in said:
            worker.is_ready = True
            self._tell_ready(worker)
        if LEAVING in said:
            worker.is_leaving = True
            with contextlib.suppress(OSError):
                worker.channel.send(NO_MORE)
        self._accept_while(True)

    def _look_for_hung(self) -> None:
        """Kill workers that answered once and say nothing any more; they are replaced as others that have gone."""
        for worker in self._workers:
            if worker.is_up and self._loop.time() - worker.heard_s > HUNG_S:
                log.warning("a process of the server has not moved for %g seconds and is killed", HUNG_S)
                worker.process.kill()
        self._loop.call_later(min(BEAT_S, HUNG_S), self._look_for_hung)

    def _tell_ready(self, worker: ServingProcess) -> None:
        """Tell the workers that all have been ready; once that was so, a later one is told alone."""
        told = [worker] if self._all_ready else self._workers
        ready = sum(one.is_ready for one in self._workers)
        self._all_ready = self._all_ready or ready == self.settings.workers
        if self._all_ready:
            for one in told:
                with contextlib.suppress(OSError):
                    one.channel.send(ALL_READY)

    def _replace(self, worker: ServingProcess) -> None:
        """Start another worker in place of one that has gone; after a pause where it had never answered."""
        self._let_go(worker)
        if self._told_to_end.is_set():
            return
        worker.process.kill()  # it may only have closed its end
        status = worker.process.wait()
        self._accept_while(True)
        self._failures += not worker.is_up
        log.warning("a process of the server has ended (status %d) and is replaced", status)
        self._loop.call_later(self._pause_s, self._start)

    def _let_go(self, worker: ServingProcess) -> None:
        self._loop.remove_reader(worker.channel)
        self._workers.remove(worker)
        worker.channel.close()

    def _accept_while(self, wanted: bool) -> None:
        """Take connections while a worker answers; until then they wait in the system's queue."""
        wanted = wanted and not self._told_to_end.is_set() and any(one.takes_visitors for one in self._workers)
        if wanted and not self._accepting:
            self._loop.add_reader(self.listener, self._accept)
        elif self._accepting and not wanted:
            self._loop.remove_reader(self.listener)
        self._accepting = wanted

    def _accept(self) -> None:
        try:
            connection, _ = self.listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:  # no file is left for it
            warn_rarely("a connection cannot be taken (%s)", error.strerror or error)
            self._accept_while(False)
            self._loop.call_later(1.0, self._accept_while, True)
            return
        with connection:
            self._hand_on(connection)

    def _hand_on(self, connection: socket.socket) -> None:
        """Give a connection to the worker with the fewest; those that still load a model come last."""
        up = [one for one in self._workers if one.takes_visitors]
        for worker in sorted(up, key=lambda one: (self._all_ready and not one.is_ready, one.connections)):
            with contextlib.suppress(OSError):  # it is just dying, or so busy that it takes none
                socket.send_fds(worker.channel, [VISITOR], [connection.fileno()])
                worker.connections += 1
                return
        warn_rarely("no process of the server takes a connection; it is closed")

    async def _end(self) -> None:
        """Ask all workers to end, and kill those that do not."""
        for worker in self._workers:
            worker.process.terminate()
        await asyncio.gather(*(asyncio.to_thread(_wait, worker.process) for worker in self._workers))
        for worker in self._workers[:]:
            self._let_go(worker)


@dataclass(frozen=True, eq=False)
class Caught:
    """Signals that were caught, and a socket that has something to read from the first one on."""

    waking: socket.socket
    numbers: list[int] = field(default_factory=list)


@contextlib.contextmanager
def _caught() -> Iterator[Caught]:
    """Catch the signals that end a server, but for those that the process was told to ignore."""
    waking, wakes = socket.socketpair()
    wakes.setblocking(False)
    caught, before = Caught(waking), dict[int, object]()

    def handle(number: int, _: object) -> None:
        caught.numbers.append(number)
        with contextlib.suppress(OSError):
            wakes.send(b"!")

    with waking, wakes:
        try:
            if threading.current_thread() is threading.main_thread():
                for number in SIGNALS:
                    if signal.getsignal(number) is not signal.SIG_IGN:
                        before[number] = signal.signal(number, handle)
            yield caught
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)  # type: ignore[arg-type]


def check_system() -> None:
    """Refuse a system on which connections cannot be handed from one process to another."""
    if not hasattr(socket, "send_fds"):
        raise UsageError("Several workers share a port on Linux and macOS only; leave out --workers here.")


def _started(task: WorkerTask) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a worker; return its process, and the supervisor's end of the socket pair."""
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as undo:
        undo.enter_context(ours)
        with theirs:
            process = subprocess.Popen(
                command("evenreel.server.worker_process", str(theirs.fileno())),
                stdin=subprocess.PIPE,
                env=_environment(task.settings.workers),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a terminal's Ctrl-C is for the supervisor, which ends its workers itself
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as told:  # it may have died already
            told.write(task.to_json())
        ours.setblocking(False)
        undo.pop_all()
    return process, ours


def _environment(workers: int) -> dict[str, str]:
    """Each worker computes with its share of the cores, unless the environment says otherwise."""
    return {"OMP_NUM_THREADS": str(max(1, usable_cores() // workers)), **os.environ}


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(FAREWELL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
