"""Limits of connections: how many are open, and how long one may take to bring a whole request."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger("evenreel")

RARELY_S = 60.0
"""Seconds between two equal warnings of what visitors can bring about."""
AGAIN_S = 1.0
"""Seconds after which a connection that could not be taken is tried again."""
_warned: dict[str, float] = {}


def warn_rarely(message: str, *given: object) -> None:
    """Log a warning, unless the same was logged within the last minute."""
    now = time.monotonic()
    if now - _warned.get(message, -RARELY_S) >= RARELY_S:
        _warned[message] = now
        log.warning(message, *given)


class TimedProtocol(H11Protocol):
    """HTTP protocol that closes a connection which takes too long to send a request's head, first or later.

    While an answer is under way there is no limit: a player that is paused reads on when it goes on.
    """

    waits_since: float = 0.0
    _hang_up: asyncio.TimerHandle | None = None

    def __init__(self, server: LimitedServer) -> None:
        super().__init__(server.config, server.server_state, server.lifespan.state)
        self._idle_s, self._on_lost = server.idle_s, server.lost

    @property
    def waits(self) -> bool:
        """Whether it has brought no whole request that is not answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Receive data, which may complete a request and end the timer."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Start the timer for the next request."""
        super().on_response_complete()
        self.waits_since = self.loop.time()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and tell whoever counts connections."""
        self._unwatch()
        super().connection_lost(exc)
        self._on_lost()

    def _watch(self) -> None:
        """Run the timer, from when it began to run, as long as no answer is under way."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self._hang_up is None:
            self._hang_up = self.loop.call_later(self._idle_s, self.timeout_keep_alive_handler)

    def _unwatch(self) -> None:
        if self._hang_up is not None:
            self._hang_up.cancel()
            self._hang_up = None


class LimitedServer(uvicorn.Server):
    """Server that never has more connections open than it may, so that files are left for the answers.

    For one more, that is closed which has waited longest without a whole request: who is silent keeps nobody out.
    """

    def __init__(self, config: uvicorn.Config, most: int, idle_s: float) -> None:
        super().__init__(config)
        self._most, self.idle_s = most, idle_s
        self._arriving, self._accepting = set[asyncio.Task[Any]](), list[asyncio.Task[None]]()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, and take connections from the sockets."""
        await super().startup(sockets=[])
        for listener in sockets or ():
            listener.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listener)))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, end the answers under way, close the application."""
        for accepting in self._accepting:
            accepting.cancel()
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
                self.take(connection)
                await asyncio.sleep(0)  # to welcome it
            except OSError as error:  # no file is left for it; or it has gone already
                if not isinstance(error, ConnectionError):
                    warn_rarely("a connection cannot be taken (%s)", error.strerror or error)
                    await asyncio.sleep(AGAIN_S)

    def take(self, connection: socket.socket) -> None:
        """Begin to hear a connection; where all the others are being answered, it is closed."""
        loop = asyncio.get_running_loop()
        there = [one for one in self.server_state.connections if not one.transport.is_closing()]
        if len(there) + len(self._arriving) >= self._most:
            waiting = [one for one in there if isinstance(one, TimedProtocol) and one.waits]
            if not waiting:
                warn_rarely("all %d connections are being answered; further ones are closed", self._most)
                connection.close()
                self.lost()
                return
            min(waiting, key=lambda one: one.waits_since).transport.abort()
        arriving = loop.create_task(loop.connect_accepted_socket(lambda: TimedProtocol(self), connection))
        self._arriving.add(arriving)
        arriving.add_done_callback(self._arrived)

    def lost(self) -> None:
        """Hear that a connection has ended."""

    def _arrived(self, arriving: asyncio.Task[Any]) -> None:
        self._arriving.discard(arriving)
        if arriving.cancelled() or arriving.exception() is not None:  # gone before it was welcomed
            self.lost()
