"""Standard input of an assistant: it ends when the process is asked to stop, and each of its lines gets an answer.

A thread that reads the real standard input could not be woken. The SDK passes lines that are no message of JSON-RPC
over, so that whoever has sent one waits for an answer that never comes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import FrameType
from typing import TextIO

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from evenreel.documents import parse_json

STANDARD_INPUT = 0
CHUNK_BYTES = 65_536
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
NO_REQUEST = (
    "This is no request of JSON-RPC 2.0: one has 'jsonrpc' ('2.0'), 'id' (text or a whole number), 'method' (text) and "
    "'params' (a table)."
)


@contextlib.contextmanager
def endable_input() -> Iterator[TextIO]:
    """Give a pipe through which all of standard input comes until that ends or a signal ends it.

    Meanwhile nothing comes from standard input itself, to no child either. Signals that the parent has told us to
    ignore stay ignored.
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
        yield relay.lines
    finally:
        for number, before in heard.items():
            if before is not None:
                signal.signal(number, before)
        relay.end()


class InputRelay:
    """Hands what comes from standard input on to a pipe.

    Attributes:
        lines: the end of the pipe to read from.
    """

    def __init__(self) -> None:
        self._real = os.dup(STANDARD_INPUT)
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), STANDARD_INPUT)
        read, self._write = os.pipe()
        self.lines = os.fdopen(read, encoding="utf-8", errors="replace")
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


class MessageLines:
    """The lines of an input that are messages.

    Attributes:
        answer: function that sends the error that another line is answered with; to be set before lines are read.
    """

    answer: Callable[[SessionMessage], Awaitable[None]]

    def __init__(self, lines: TextIO) -> None:
        self._lines = anyio.wrap_file(lines)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Read the messages, each a line."""
        async for line in self._lines:
            if (wrong := refusal(line)) is None:
                yield line
            elif line.strip():
                await self.answer(SessionMessage(wrong))


def refusal(line: str) -> JSONRPCError | None:
    """Make the error for a line; None for one that is a message.

    >>> refusal('{"jsonrpc": "2.0", "id": 3, "method": 5}').id
    3
    """
    try:
        given = parse_json(line)
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":  # such as half of a letter of two
            return _error(None, PARSE_ERROR, "The line cannot be read as JSON.")
    except ValueError as error:
        return _error(None, PARSE_ERROR, f"The line cannot be read as JSON ({error}).")
    else:
        if not (isinstance(message, JSONRPCNotification) and "id" in given):
            return None
    number = given.get("id") if isinstance(given, dict) and not {"result", "error"} & given.keys() else None
    known = isinstance(number, (int, str)) and not isinstance(number, bool)
    return _error(number if known else None, INVALID_REQUEST, NO_REQUEST)


def _error(number: int | str | None, code: int, sentence: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=sentence))
