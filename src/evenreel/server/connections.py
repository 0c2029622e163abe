"""Time limits of connections: one that never sends a whole request would be held for ever."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """HTTP protocol that closes a connection which takes too long to send a request's head, first or later.

    While an answer is under way there is no limit: a player that is paused reads on when it goes on.
    """

    idle_s: ClassVar[float]
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
        """Stop the timer."""
        self._unwatch()
        super().connection_lost(exc)

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


def timed_protocol(seconds: float) -> type[TimedProtocol]:
    """Return the protocol class for uvicorn with this limit in seconds."""

    class ConfiguredProtocol(TimedProtocol):
        idle_s = seconds

    return ConfiguredProtocol
