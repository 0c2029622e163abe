"""Limits of connections: how many are open, and how long one may take to bring a whole request.

uvicorn has a limit for neither: a connection that says nothing stays for ever. So each is a `Connection`, which hands
all on to uvicorn's own protocol and is told of answers by `Answering`, the outermost part of the application.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("evenreel")

RARELY_S = 60.0
"""Seconds between two equal warnings of what visitors can bring about."""
NO_FILE = "socket.accept() out of system resource"
"""How asyncio begins to say that no file is left for a connection, which it tries again a second later."""
_warned: dict[str, float] = {}
_current: ContextVar[Connection] = ContextVar("connection")


def warn_rarely(message: str, *given: object) -> None:
    if _is_due(message):
        log.warning(message, *given)


def is_worth_saying(record: logging.LogRecord) -> bool:
    """Filter for the log of asyncio: connections without a file are one line a minute instead of a page a second."""
    if not record.getMessage().startswith(NO_FILE):
        return True
    if _is_due(NO_FILE):
        why = record.exc_info[1] if record.exc_info else None
        log.warning("a connection cannot be taken (%s)", getattr(why, "strerror", None) or why)
    return False


def _is_due(message: str) -> bool:
    now = time.monotonic()
    if now - _warned.get(message, -RARELY_S) < RARELY_S:
        return False
    _warned[message] = now
    return True


@dataclass(frozen=True, eq=False)
class Crowd:
    """The connections of a server: `most` at a time, each of which brings a whole request within `idle_s` seconds."""

    most: int
    idle_s: float
    there: set[Connection] = field(default_factory=set)

    def make_room(self, latest: Connection) -> None:
        """Where there is one too many, close that which has waited longest without a whole request.

        Who is silent keeps nobody out. Where all others are being answered, the latest is closed.
        """
        if len(self.there) <= self.most:
            return
        waiting = [one for one in self.there if one.waits and one is not latest]
        if not waiting:
            warn_rarely("all %d connections are being answered; further ones are closed", self.most)
        min(waiting, key=lambda one: one.waits_since, default=latest).abort()


class Connection(asyncio.Protocol):
    """Connection of a crowd, which is closed when it takes too long to send a request's head, first or later.

    While an answer is under way there is no limit: a player that is paused reads on when it goes on.
    """

    def __init__(self, crowd: Crowd, **of_uvicorn: Any) -> None:
        self._crowd, self._protocol = crowd, H11Protocol(**of_uvicorn)
        self._answers, self._is_whole = 0, True
        self._hang_up: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether it has brought no whole request that is not answered."""
        return not self._answers or not self._is_whole

    def abort(self) -> None:
        self._crowd.there.discard(self)
        self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._protocol.connection_made(transport)
        self._crowd.there.add(self)
        self._wait()
        self._crowd.make_room(self)

    def data_received(self, data: bytes) -> None:
        _current.set(self)
        self._protocol.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.there.discard(self)
        self._stop_waiting()
        self._protocol.connection_lost(exc)

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def begin(self, *, is_whole: bool) -> None:
        """Hear that a request has come, with its body or with that still to come."""
        self._answers, self._is_whole = self._answers + 1, is_whole
        self._stop_waiting()

    def has_come_whole(self) -> None:
        self._is_whole = True

    def end(self) -> None:
        self._answers -= 1
        if not self._answers and self in self._crowd.there:
            self._wait()

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self.waits_since = loop.time()
        self._hang_up = loop.call_later(self._crowd.idle_s, self._transport.close)

    def _stop_waiting(self) -> None:
        if self._hang_up is not None:
            self._hang_up.cancel()
            self._hang_up = None


class Answering:
    """ASGI application that tells the connection of each request when it is being answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = _current.get(None)
        if scope["type"] != "http" or connection is None:
            await self._app(scope, receive, send)
            return

        async def received() -> Message:
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                connection.has_come_whole()
            return message

        headers = dict(scope["headers"])
        connection.begin(is_whole=headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers)
        try:
            await self._app(scope, received, send)
        finally:
            connection.end()
