"""Untrusted files: what tells one from another, and processes that read them and can be killed.

A crash, a hang or runaway memory costs one file. A worker is a child Python that builds one object and then answers
tasks, one at a time, with a stream of messages. It is a plain subprocess (no fork of a process that holds threads or a
GPU, no re-import of the caller's main module), and what comes back is JSON and raw array bytes, never a pickle.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # before Python 3.11 it is not the builtin one
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from evenreel.config import MediaLimits
from evenreel.errors import EvenreelError, MediaError, Reason

if TYPE_CHECKING:
    import numpy as np

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
    body: memoryview | bytes = b""
    if array is not None:
        import numpy as np  # nobody who asks for --help waits for it

        header = {**header, "array": [array.dtype.str, *array.shape]}
        body = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    text = json.dumps(header).encode()
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
    import numpy as np

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
        self._process: Any = None
        self._killed_for: Reason | None = None
        self._deadline: float | None = None  # while a message is awaited
        self._closed = False
        self._lock = threading.Lock()

    def run(self, task: dict[str, Any], array: np.ndarray[Any, Any] | None = None) -> Iterator[Message]:
        process = self._process or self._start()
        finished = False
        try:
            write_message(process.stdin, task, array)
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
                stream.close()

    def _start(self) -> Any:
        with self._lock:
            if self._closed:
                raise EvenreelError("The reader was closed.")
            process: Any = subprocess.Popen(
                command("evenreel.media.workers", self._target),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,  # until it has started
                env={**os.environ, "EVENREEL_PARENT": str(os.getpid())},
                start_new_session=True,  # a terminal's Ctrl-C is for the parent, which ends its children itself
            )
            self._process = process
        self._killed_for = None
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()
        try:
            write_message(process.stdin, self._setup)
            header, _ = self._receive(process, _STARTUP_TIMEOUT_S)
        except (EOFError, BrokenPipeError, ValueError) as error:
            self._end()
            with process.stderr as complaints:
                why = last_words(complaints.read())
            raise EvenreelError(
                f"A reader process could not start; {f'it said: {why}.' if why else 'is there enough free memory?'}"
            ) from error
        process.stderr.close()
        if header["kind"] == "error":
            self._end()
            raise EvenreelError(f"A reader process could not start: {header['sentence']}.")
        return process

    def _receive(self, process: Any, timeout_s: float) -> Message:
        self._deadline = time.monotonic() + timeout_s
        try:
            # A frame is RGB; square pixels may make it wider than it is stored.
            return read_message(process.stdout, largest_array_bytes=16 * self._limits.max_pixels)
        finally:
            self._deadline = None

    def _watch(self, process: Any) -> None:
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

    def _kill(self, process: Any, reason: Reason) -> None:
        self._killed_for = reason
        process.kill()

    def _post_mortem(self, process: Any) -> MediaError:
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


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        return f"signal {-code}"


# in the child ---------------------------------------------------------------------------------------------------------

Answer = Callable[[dict[str, Any]], Iterator[Message]]


def main() -> None:
    """Answer tasks from standard input until it is closed; standard output carries nothing but messages."""
    tasks, messages = claim_pipes()
    parent = int(os.environ.get("EVENREEL_PARENT", "0"))
    if parent and os.name == "posix":  # elsewhere the end of the pipes has to do
        threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
    with contextlib.suppress(ImportError):  # Windows; memory and time are watched by the parent
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        files = min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[1] % 2**63)  # -1 stands for no limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    try:
        setup, _ = read_message(tasks)
        module, _, name = sys.argv[1].partition(":")
        answer: Answer = getattr(importlib.import_module(module), name)(**setup)
    except EOFError:
        return
    except Exception as error:
        _report(messages, error)
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)  # what native code prints from now on is for nobody
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    write_message(messages, {"kind": "ready"})
    while True:
        try:
            task, array = read_message(tasks)
        except EOFError:
            return
        _serve(answer, task if array is None else {**task, "array": array}, messages)


def _serve(answer: Answer, task: dict[str, Any], messages: IO[bytes]) -> None:
    try:
        for header, array in answer(task):
            write_message(messages, {"kind": "message", "message": header}, array)
        write_message(messages, {"kind": "done"})
    except BrokenPipeError:
        os._exit(1)
    except Exception as error:
        _report(messages, error)


def _report(messages: IO[bytes], error: Exception) -> None:
    if isinstance(error, MediaError):
        reason, sentence = error.reason, str(error)
    elif isinstance(error, MemoryError) or "failed to map segment" in str(error):  # what the loader of libraries says
        reason, sentence = "out_of_memory", "there was not enough memory to read it (see the limits by ulimit -v too)"
    else:
        reason, sentence = "failed", f"reading it failed: {type(error).__name__}: {error}"
    write_message(messages, {"kind": "error", "reason": reason, "sentence": sentence})


def claim_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Keep the two pipes for messages; whatever native code prints goes to standard error instead."""
    tasks = os.fdopen(os.dup(0), "rb")
    messages = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return tasks, messages


def _watch_parent(parent: int) -> None:
    """Never outlive the parent, however it ends (kill -9 included)."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


# processes of ours ----------------------------------------------------------------------------------------------------

_RUN = (
    "import sys; sys.path[:] = filter(None, sys.path); del sys.argv[0]; import runpy; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours; every process of ours is started by it.

    `python -m` would look into the current folder first, where a `numpy.py` of anybody may lie. This is `python -P -m`,
    which Python 3.10 lacks.
    """
    return [sys.executable, "-c", _RUN, module, *arguments]


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Have what others start within the `with` look past the current folder too; Python 3.10 cannot do that."""
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


def last_words(said: bytes) -> str:
    """Return the last line of what a process wrote to standard error: the error that it died of, or nothing.

    >>> last_words(b"Traceback (most recent call last):\\n  ...\\nImportError: no numpy\\n")
    'ImportError: no numpy'
    """
    return (said.decode("utf-8", "replace").strip().splitlines() or [""])[-1]


# identity of a file ---------------------------------------------------------------------------------------------------

_BLOCK_BYTES = 1 << 20
_KINDS = {
    stat.S_IFDIR: "folder", stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}  # fmt: skip
_ZEROS = bytes(_BLOCK_BYTES)


@dataclass(frozen=True)
class FileStamp:
    """Size in bytes and times in nanoseconds of a file; any difference means that its content is read again.

    `mtime_ns` and `ctime_ns` wrap around to signed 64 bits, as databases keep them: times before 1678 and after 2262
    wrap, and no two within 584 years are the same.
    """

    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, result: os.stat_result) -> FileStamp:
        return cls(result.st_size, _signed_64(result.st_mtime_ns), _signed_64(result.st_ctime_ns))


def _signed_64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def stamp(path: str) -> FileStamp:
    try:
        return FileStamp.of(os.stat(path))
    except OSError as error:
        raise unreadable(error) from error


class _DigestProgress:
    def __init__(self) -> None:
        self.moved_at = time.monotonic()  # when something other than zeros was last read, on the monotonic clock
        self.in_zeros = False  # whether zeros are what is read now
        self.given_up = False  # set by whoever does not wait any more

    def take(self, block: bytes) -> None:
        if self.given_up:
            raise EvenreelError("The reader was closed.")
        self.in_zeros = block == (_ZEROS if len(block) == _BLOCK_BYTES else bytes(len(block)))
        if not self.in_zeros:
            self.moved_at = time.monotonic()


def content_digest(path: str, reading: _DigestProgress | None = None) -> str:
    digest = hashlib.blake2b(digest_size=16)
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise not_regular(found.st_mode)
            while file.tell() < found.st_size and (block := file.read(_BLOCK_BYTES)):
                digest.update(block)
                if reading is not None:
                    reading.take(block)
            if not file.tell():
                raise MediaError("empty", "the file has no content")
            if file.tell() != found.st_size or os.fstat(descriptor).st_size != found.st_size:
                raise changed_while_reading()
    except OSError as error:
        raise unreadable(error) from error
    return digest.hexdigest()


def watched_digest(path: str, timeout_s: float, stopped: Callable[[], bool] = lambda: False) -> str:
    """Compute the digest of a file's content, 32 hex digits, and give up where the file or its disk hangs."""
    reading, outcome = _DigestProgress(), Future[str]()

    def read() -> None:
        try:
            outcome.set_result(content_digest(path, reading))
        except BaseException as error:
            outcome.set_exception(error)

    # A read from a share that is gone returns to nobody; the thread is left behind, and ends with the process.
    threading.Thread(target=read, name="digest", daemon=True).start()
    while not stopped():
        try:
            return outcome.result(_POLL_S)
        except FutureTimeoutError:
            if time.monotonic() - reading.moved_at <= timeout_s:
                continue
        reading.given_up = True
        limit = f"{timeout_s:g} s, the limit (stall_timeout_s; of a corpus --timeout)"
        if reading.in_zeros:
            what = f"nothing but zeros came of it for {limit}; is it a download that has not ended?"
            raise MediaError("timeout", what)
        raise MediaError("unreadable", f"nothing came of it for {limit}; is its disk or share connected?")
    reading.given_up = True
    raise EvenreelError("The reader was closed.")


def changed_while_reading() -> MediaError:
    return MediaError("changed_while_reading", "it changed while it was read; it is tried again next time")


def not_regular(mode: int) -> MediaError:
    name = _KINDS.get(stat.S_IFMT(mode), "special file")
    return MediaError("unreadable", f"it is a {name}, not a regular file; only regular files are read")


def unreadable(error: OSError) -> MediaError:
    return MediaError("unreadable", f"the system does not let it be read: {error.strerror or error}")


if __name__ == "__main__":
    from evenreel.media.workers import main as serve  # whose classes are those that others import

    serve()
