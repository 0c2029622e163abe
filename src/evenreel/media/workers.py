"""Killable worker processes for untrusted files: a crash, a hang or runaway memory costs one file.

A worker is a child Python that builds one object and then answers tasks, one at a time, with a stream of
messages. It is a plain subprocess (no fork of a process that holds threads or a GPU, no re-import of the
caller's main module), and what comes back is JSON and raw array bytes, never a pickle.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError, Reason
from evenreel.processes import command, last_words

Message = tuple[dict[str, Any], "np.ndarray[Any, Any] | None"]
_SIZES = struct.Struct("<IQ")  # bytes of the JSON header, bytes of the array
_POLL_S = 0.1
_STARTUP_TIMEOUT_S = 120.0
_LARGEST_HEADER_BYTES = 64 * 2**20
_STOPPED_BY_OTHERS = {
    getattr(signal, name) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
}


def write_message(stream: IO[bytes], header: dict[str, Any], array: np.ndarray[Any, Any] | None = None) -> None:
    """Write a message to a stream: a JSON object and at most one array, which is described under the key `array`."""
    if array is not None:
        header = {**header, "array": [array.dtype.str, *array.shape]}
    text = json.dumps(header).encode()
    body = b"" if array is None else np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    stream.write(_SIZES.pack(len(text), len(body)))
    stream.write(text)
    stream.write(body)
    stream.flush()


def read_message(stream: IO[bytes], largest_array_bytes: int = 2**32) -> Message:
    """Read the next message from a stream: a JSON object and at most one array."""
    text_size, body_size = _SIZES.unpack(_read_exactly(stream, _SIZES.size))
    if text_size > _LARGEST_HEADER_BYTES or body_size > largest_array_bytes:
        raise ValueError(f"a message of {text_size} and {body_size} bytes")
    header: dict[str, Any] = json.loads(_read_exactly(stream, text_size))
    body = _read_exactly(stream, body_size)
    described = header.pop("array", None)
    if described is None:
        return header, None
    dtype, *shape = described
    return header, np.frombuffer(body, dtype=np.dtype(dtype)).reshape(shape)


def _read_exactly(stream: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = stream.readinto(view[filled:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError("the stream ended inside a message")
        filled += count
    return data


class Worker:
    """Child process that answers tasks and is killed when it hangs, grows too large or is closed."""

    def __init__(self, target: str, setup: dict[str, Any], limits: MediaLimits) -> None:
        self._target, self._setup, self._limits = target, setup, limits
        self._process: subprocess.Popen[bytes] | None = None
        self._killed_for: Reason | None = None
        self._deadline: float | None = None  # while a message is awaited
        self._closed = False
        self._lock = threading.Lock()

    def run(self, task: dict[str, Any], array: np.ndarray[Any, Any] | None = None) -> Iterator[Message]:
        process = self._process or self._start()
        finished = False
        try:
            write_message(_pipe(process.stdin), task, array)
            while True:
                header, array = self._receive(process, self._limits.stall_timeout_s)
                kind = header.pop("kind")
                if kind == "done":
                    finished = True
                    return
                if kind == "error":
                    finished = True
                    raise MediaError(header["reason"], header["sentence"])
                yield header["message"], array
        except (EOFError, BrokenPipeError, ValueError) as error:
            finished = False
            raise self._post_mortem(process) from error
        finally:
            if not finished:
                self._end()

    def close(self) -> None:
        """Kill the child process for good; may be called at any time, from any thread, more than once."""
        with self._lock:
            self._closed = True
        self._end()

    def _end(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # unsent bytes for a process that is gone
                _pipe(stream).close()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise EvenreelError("The reader was closed.")
            process = self._process = subprocess.Popen(
                command("evenreel.media.worker_process", self._target),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,  # until it has started
                env={**os.environ, "EVENREEL_PARENT": str(os.getpid())},
                start_new_session=True,  # a terminal's Ctrl-C is for the parent, which ends its children itself
            )
        self._killed_for = None
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()
        try:
            write_message(_pipe(process.stdin), self._setup)
            header, _ = self._receive(process, _STARTUP_TIMEOUT_S)
        except (EOFError, BrokenPipeError, ValueError) as error:
            self._end()
            with _pipe(process.stderr) as complaints:
                why = last_words(complaints.read())
            raise EvenreelError(
                f"A reader process could not start; {f'it said: {why}.' if why else 'is there enough free memory?'}"
            ) from error
        _pipe(process.stderr).close()
        if header["kind"] == "error":
            self._end()
            raise EvenreelError(f"A reader process could not start: {header['sentence']}.")
        return process

    def _receive(self, process: subprocess.Popen[bytes], timeout_s: float) -> Message:
        self._deadline = time.monotonic() + timeout_s
        try:
            # A frame is RGB; square pixels may make it wider than it is stored.
            return read_message(_pipe(process.stdout), largest_array_bytes=16 * self._limits.max_pixels)
        finally:
            self._deadline = None

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the child when a message is overdue or its memory passes the limit."""
        import psutil

        try:
            handle = psutil.Process(process.pid)
            while process.poll() is None:
                deadline = self._deadline
                if deadline is not None and time.monotonic() > deadline:
                    self._kill(process, "timeout")
                elif handle.memory_info().rss > self._limits.memory_bytes:
                    self._kill(process, "out_of_memory")
                time.sleep(_POLL_S)
        except psutil.Error:  # it ended between two looks
            return

    def _kill(self, process: subprocess.Popen[bytes], reason: Reason) -> None:
        self._killed_for = reason
        process.kill()

    def _post_mortem(self, process: subprocess.Popen[bytes]) -> MediaError:
        try:
            code = process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if self._killed_for == "timeout":
            limit = f"{self._limits.stall_timeout_s:g} s"
            return MediaError("timeout", f"the decoder made no progress for {limit}, the limit, and was stopped")
        if self._killed_for == "out_of_memory":
            limit = f"{self._limits.memory_bytes / 2**20:,.0f} MiB"
            return MediaError(
                "out_of_memory", f"reading it took more than {limit} of memory, the limit, and was stopped"
            )
        if -code in _STOPPED_BY_OTHERS:
            return MediaError("killed", f"the system stopped its reader ({_signal_name(code)}), for want of memory?")
        return MediaError("crashed", f"the decoder crashed on it ({_signal_name(code)})")


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise EOFError("the worker has no pipe")
    return stream


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        return f"signal {-code}"
