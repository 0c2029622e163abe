"""Standard input that ends when the process is asked to stop; a thread that reads the real one could not be woken."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

STANDARD_INPUT = 0
CHUNK_BYTES = 65_536
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def endable_input() -> Iterator[None]:
    """Put a pipe in the place of standard input, through which all of it comes until it ends or a signal ends it.

    Signals that the parent has told us to ignore stay ignored.
    """
    relay = InputRelay()

    def end(number: int, frame: FrameType | None) -> None:
        relay.end()

    numbers = [number for name in SIGNALS if (number := getattr(signal, name, None)) is not None]
    heard = {number: signal.getsignal(number) for number in numbers}
    for number, before in heard.items():
        if before not in (signal.SIG_IGN, None):
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, before in heard.items():
            if before is not None:
                signal.signal(number, before)
        relay.end()


class InputRelay:
    """Hands what comes from standard input on to a pipe that takes its place."""

    def __init__(self) -> None:
        self._real = os.dup(STANDARD_INPUT)
        read, self._write = os.pipe()
        os.dup2(read, STANDARD_INPUT)
        os.close(read)
        self._ended, self._once = threading.Event(), threading.Lock()
        threading.Thread(target=self._hand_on, name="input", daemon=True).start()

    def end(self) -> None:
        """End the pipe, once; who reads it sees the end of input."""
        if self._once.acquire(blocking=False):
            self._ended.set()
            os.close(self._write)

    def _hand_on(self) -> None:
        with contextlib.suppress(OSError):  # the pipe was ended meanwhile
            while not self._ended.is_set() and (chunk := os.read(self._real, CHUNK_BYTES)):
                while chunk and not self._ended.is_set():
                    chunk = chunk[os.write(self._write, chunk) :]
        self.end()
