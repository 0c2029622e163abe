"""The child side of `evenreel.media.workers`: build one object, then answer tasks until the parent process ends."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from evenreel.errors import MediaError
from evenreel.media.workers import Message, read_message, write_message

Answer = Callable[[dict[str, Any]], Iterator[Message]]


def main() -> None:
    """Answer tasks from standard input until it is closed; standard output carries nothing but messages."""
    tasks, messages = claim_pipes()
    _end_with_parent()
    _set_limits()
    try:
        setup, _ = read_message(tasks)
        answer = _build(sys.argv[1], setup)
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


def _build(target: str, setup: dict[str, Any]) -> Answer:
    module, _, name = target.partition(":")
    built: Answer = getattr(importlib.import_module(module), name)(**setup)
    return built


def claim_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Keep the two pipes for messages; whatever native code prints goes to standard error instead."""
    tasks = os.fdopen(os.dup(0), "rb")
    messages = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return tasks, messages


def _end_with_parent() -> None:
    """Never outlive the parent, however it ends (kill -9 included)."""
    parent = int(os.environ.get("EVENREEL_PARENT", "0"))
    if parent and os.name == "posix":  # elsewhere the end of the pipes has to do
        threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _set_limits() -> None:
    """No core dumps, few files; memory and time are watched by the parent."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    files = min(256, resource.getrlimit(resource.RLIMIT_NOFILE)[1] % 2**63)  # -1 stands for no limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


if __name__ == "__main__":
    main()
