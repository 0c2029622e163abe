"""Time limits of connections: one that never sends a whole request would be held for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """HTTP protocol that closes a connection which takes too long to send a request's head, first or later.

    While an answer is under way there is no limit: a player that is paused reads on when it goes on.
    """

    idle_s: ClassVar[float]
    on_lost: ClassVar[tuple[Callable[[], None], ...]] = ()
    _hang_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Receive data, which may complete a request and end the timer."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Start the timer for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer, and tell whoever counts connections."""
        self._unwatch()
        super().connection_lost(exc)
        for tell in self.on_lost:
            tell()

    def _watch(self) -> None:
        """Run the timer, from when it began to run, as long as no answer is under way."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._unwatch()
        elif self._hang_up is None:
            self._hang_up = self.loop.call_later(self.idle_s, self.timeout_keep_alive_handler)

    def _unwatch(self) -> None:
        if self._hang_up is not None:
            self._hang_up.cancel()
            self._hang_up = None


def timed_protocol(idle_s: float, on_lost: Callable[[], None] | None = None) -> type[TimedProtocol]:
    """Return a protocol class for uvicorn.

    Args:
        idle_s: seconds that a connection may take to bring a whole request.
        on_lost: function that is called when a connection has ended.
    """

    class ConfiguredProtocol(TimedProtocol):
        pass

    ConfiguredProtocol.idle_s = idle_s
    ConfiguredProtocol.on_lost = () if on_lost is None else (on_lost,)
    return ConfiguredProtocol
