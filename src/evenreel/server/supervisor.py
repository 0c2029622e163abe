"""Several processes that serve one library behind one port: started, given visitors, replaced and ended.

The supervisor alone listens. It hands each connection to the worker that has the fewest open, over a socket pair that
the two share, so that visitors are spread evenly whatever their number, and no visitor waits in line at a worker that
dies. A worker says over the same pair that it answers (`UP`), that its model is loaded (`READY`), and that a
connection has ended (`ENDED`); that the pair is closed tells each that the other is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evenreel.config import usable_cores
from evenreel.errors import UsageError
from evenreel.server.settings import ServeSettings

log = logging.getLogger("evenreel")

UP, READY, ENDED = b"u", b"r", b"-"
"""What a worker says: it answers, its model is loaded (or cannot be), a connection has ended."""
VISITOR, ALL_READY = b"c", b"a"
"""What a worker is told: here is a connection, and all workers have been ready."""
QUEUE = 1_024
"""Connections that the system keeps until they are handed on."""
FAREWELL_S = 10.0
"""Seconds that a worker may take to end before it is killed."""
LONGEST_PAUSE_S = 30.0
"""Longest pause before a worker is started in place of one that never answered."""
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@dataclass(frozen=True)
class WorkerTask:
    """What a worker needs to know: the library, the settings of all workers, and a folder that they share."""

    library: Path
    settings: ServeSettings
    shared: Path


@dataclass(eq=False)
class ServingProcess:
    """A worker as the supervisor sees it.

    Attributes:
        process: the process.
        channel: the supervisor's end of the socket pair.
        connections: number of connections that it was given and has not ended.
        is_up: whether it answers.
        is_ready: whether its model is loaded, or cannot be.
    """

    process: subprocess.Popen[bytes]
    channel: socket.socket
    connections: int = 0
    is_up: bool = False
    is_ready: bool = False


@dataclass(eq=False)
class Supervisor:
    """Keeps `settings.workers` processes serving one library.

    Args:
        library: folder of the library.
        settings: settings of the server, whose limits hold for all workers together.
        listener: socket that visitors connect to.
    """

    library: Path
    settings: ServeSettings
    listener: socket.socket
    _workers: list[ServingProcess] = field(default_factory=list)
    _failures: int = 0  # workers in a row that never answered
    _all_ready: bool = False
    _accepting: bool = False

    def run(self) -> None:
        """Serve until SIGINT, SIGTERM or SIGHUP, which is then raised again for whoever handles it.

        Raises:
            UsageError: this system cannot hand connections from one process to another.
        """
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
        self.listener.listen(QUEUE)
        try:
            for _ in range(self.settings.workers):
                self._start()
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
        """Start a worker; it is given visitors when it answers."""
        if self._told_to_end.is_set():
            return
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "evenreel.server.worker_process", str(theirs.fileno())],
                stdin=subprocess.PIPE,
                env=_environment(self.settings.workers),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a terminal's Ctrl-C is for the supervisor, which ends its workers itself
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as task:  # it may have died already
            task.write(pickle.dumps(self._task))
        ours.setblocking(False)
        worker = ServingProcess(process, ours)
        self._workers.append(worker)
        self._loop.add_reader(ours, self._hear, worker)

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
        worker.connections -= said.count(ENDED)
        if UP in said:
            worker.is_up, self._failures = True, 0
        if READY in said:
            worker.is_ready = True
            self._tell_ready(worker)
        self._accept_while(True)

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
        self._accept_while(any(one.is_up for one in self._workers))
        self._failures += not worker.is_up
        pause_s = min(LONGEST_PAUSE_S, 2.0**self._failures / 2) if self._failures else 0.0
        log.warning("a process of the server has ended (status %d) and is replaced", status)
        self._loop.call_later(pause_s, self._start)

    def _let_go(self, worker: ServingProcess) -> None:
        self._loop.remove_reader(worker.channel)
        self._workers.remove(worker)
        worker.channel.close()

    def _accept_while(self, wanted: bool) -> None:
        """Take connections while a worker answers; until then they wait in the system's queue."""
        wanted = wanted and not self._told_to_end.is_set() and any(one.is_up for one in self._workers)
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
            log.warning("a connection cannot be taken: %s", error)
            self._accept_while(False)
            self._loop.call_later(1.0, self._accept_while, True)
            return
        with connection:
            self._hand_on(connection)

    def _hand_on(self, connection: socket.socket) -> None:
        """Give a connection to the worker with the fewest; those that still load a model come last."""
        up = [one for one in self._workers if one.is_up]
        for worker in sorted(up, key=lambda one: (self._all_ready and not one.is_ready, one.connections)):
            with contextlib.suppress(OSError):  # it is just dying, or so busy that it takes none
                socket.send_fds(worker.channel, [VISITOR], [connection.fileno()])
                worker.connections += 1
                return
        log.warning("no process of the server takes a connection; it is closed")

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
    """Refuse a system on which connections cannot be handed from one process to another.

    Raises:
        UsageError: it is Windows.
    """
    if not hasattr(socket, "send_fds"):
        raise UsageError("Several workers share a port on Linux and macOS only; leave out --workers here.")


def _environment(workers: int) -> dict[str, str]:
    """Each worker computes with its share of the cores, unless the environment says otherwise."""
    return {"OMP_NUM_THREADS": str(max(1, usable_cores() // workers)), **os.environ}


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(FAREWELL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
